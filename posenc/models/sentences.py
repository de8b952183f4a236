"""Sentences on a model: notes, defaults taken and refusals.

A row of families.json has the sentences of one class alone, as templates (see
posenc.models.templates). notes: of its layers, or of a kind of them; about: of the model.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from posenc.errors import ConfigFileError, quoted
from posenc.fields import written
from posenc.models.expressions import parsed
from posenc.models.family import VERSION
from posenc.models.layer_words import SLIDING, lists_of
from posenc.models.model_config import LayerKind
from posenc.models.record import Record, Taken
from posenc.models.rope_numbers import NEW
from posenc.models.rope_types import TRAINED
from posenc.models.stack import Layers, Stack
from posenc.models.templates import filled
from posenc.schemes.learned import LearnedConfig
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling.base import ScaledRopeConfig
from posenc.schemes.sinusoidal import SinusoidalConfig
from posenc.text import joined

_MAX_NAMES = 5  # keys that a sentence lists
_MAX_NAME_LENGTH = 60  # characters
_BOTH_SIDES = "Every token sees both sides: nothing is cached."


def own_notes(layers: Layers, stack: Stack) -> tuple[str, ...]:
    """Return the sentences that the row of a class has of some layers."""
    kind = stack.row.get("kinds", {}).get(layers.word, {})
    entries = (*stack.row.get("notes", ()), *kind.get("notes", ()))
    return tuple(filled(entries, lambda expression: stack.value(expression, **layers.facts)))


def model_notes(stack: Stack, kinds: Sequence[LayerKind]) -> tuple[str, ...]:
    """Return what else a config says about position. stack: the first. kinds: of all stacks."""
    ropes = [kind.scheme for kind in kinds if isinstance(kind.scheme, RopeConfig)]
    notes = []
    layouts = {rope.layout for rope in ropes}
    if layouts == {"half"}:
        notes.append("Pairs are the features m and m + half of the rotated width, as in GPT-NeoX.")
    elif layouts:
        notes.append("Pairs are neighbouring features, as in the paper.")
    if any(rope.clockwise for rope in ropes):
        notes.append(
            "Position p turns pair m by minus p theta_m, clockwise: other code, which turns by plus p "
            "theta_m, gives other logits."
        )
    if ropes and not stack.rope:
        notes.append("The base 10,000 is written into the model's code; no key changes it.")
    notes += _reaches(stack, kinds)
    notes += _table_notes(stack, kinds)
    notes += filled(stack.row.get("about", ()), stack.value)
    if not stack.causal and not stack.name:
        notes.append(_BOTH_SIDES)
    elif not stack.row.get("cached", True):
        notes.append("The class has no cache: for each new token it reads the whole text again.")
    return tuple(dict.fromkeys(notes))


def _reaches(stack: Stack, kinds: Sequence[LayerKind]) -> Iterator[str]:
    """Yield for which lengths the scalings are made, where that is more than the config names."""
    context = stack.context() or 0
    for kind in kinds:
        reach = kind.scheme.scaled_length if isinstance(kind.scheme, ScaledRopeConfig) else None
        if reach is not None and reach > context:
            key = stack.record.named(stack.record.raw("max_position_embeddings")[0])
            yield (
                f"The scaling of {kind.name} layers is made for {reach:,.0f} tokens, more than "
                f"{key} {context:,}."
            )


def _table_notes(stack: Stack, kinds: Sequence[LayerKind]) -> Iterator[str]:
    """Yield what is to know of a table of positions."""
    scheme, rows = kinds[0].scheme, kinds[0].rows
    first = stack.value(stack.row.get("first_row", 0))
    if isinstance(scheme, LearnedConfig):
        rows = scheme.max_len
        yield "The config holds the shape of the table, not its rows: they are untrained here."
    elif not isinstance(scheme, SinusoidalConfig):
        return
    elif rows is None:
        yield "The class makes a longer table of sines and cosines for longer texts."
    else:
        total = rows + first
        yield f"The class makes {total:,} rows of sines and cosines: longer texts are an error."
    if first and rows is None:
        yield f"Position p takes the row of position p + {first}."
    elif first and rows is not None:
        yield (
            f"The table has {rows + first:,} rows, of which {rows:,} are positions: position p takes "
            f"row p + {first}."
        )


def assumed(stacks: Sequence[Stack]) -> tuple[str, ...]:
    """Return a sentence for every default that was taken."""
    sentences: list[str] = []
    for stack in stacks:
        record, source = stack.record, f"the default of transformers' {stack.row['class']}"
        taken = (_taken(record, name, each, source) for name, each in record.taken.items())
        sentences += (*taken, _order_taken(stack, source))
    return tuple(dict.fromkeys(filter(None, sentences)))


def _order_taken(stack: Stack, source: str) -> str:
    """Return which layers are of which kind, where the config does not list them."""
    lists = lists_of(stack.row.get("layers", {}), stack.row.get("kinds", ()))
    words = stack.words
    rule = parsed(stack.row.get("layers", {}).get("word", "0")).names - {"sliding_window"}
    if any(stack.record.says(key) for key in (*lists, *rule)) or not lists:
        return ""
    if "defaults" not in stack.row and {*words} == {SLIDING}:  # of an unknown type
        return _windows_taken(stack)
    if len({*words}) < 2:
        return ""
    first = stack.full_word if stack.full_word in words else words[-1]
    own = [f"{index}" for index, word in enumerate(words) if word == first]
    shown = own[:_MAX_NAMES] + ([f"{len(own) - _MAX_NAMES:,} more"] if own[_MAX_NAMES:] else [])
    others = joined(sorted({*words} - {first}), "and")
    key = stack.record.named(next(iter(lists)))
    return (
        f"{key} is absent: of layers 0 to {len(words) - 1:,}, {joined(shown, 'and')} are of {first} and "
        f"the others of {others}, {source}."
    )


def _windows_taken(stack: Stack) -> str:
    window = stack.value("window_size")
    return (
        f"All {len(stack.words):,} layers see {window:,} tokens ({stack.record.named('sliding_window')}), "
        "as in transformers' MistralConfig: layer_types is absent."
    )


def _taken(record: Record, name: str, taken: Taken, source: str) -> str:
    """Return a sentence of one default, "" for a switch."""
    state = "null" if taken.null else "absent"
    key, value = taken.key, taken.value
    if isinstance(value, bool | list) and name != "multi_query":
        return ""
    if name in _OF_BLOCKS:
        return _OF_BLOCKS[name](record, taken)
    if key.endswith(".factor"):
        context = record.named(record.raw("max_position_embeddings")[0])
        return f"{key} is {state}: {value:g} is taken, {context} / {TRAINED}."
    if name.startswith(record.named(NEW)) and isinstance(value, str):
        return f"{key} is absent: its rope_type {value} is taken, {source}."
    if isinstance(value, str | tuple):
        text = value if isinstance(value, str) else ",".join(map(str, value))
        return f"{key} is {state}: {text} is taken, {source}."
    return f"{key} is {state}: {written(value)} is taken, {source}."


def _dynamic(record: Record, taken: Taken) -> str:
    name = record.named(record.raw("max_position_embeddings")[0])
    return (
        f"dynamic scaling begins at {taken.value:,}, which is {name}, as transformers has it; the model "
        "may have been trained on another length."
    )


def _trained(record: Record, taken: Taken) -> str:
    name = record.named(record.raw("max_position_embeddings")[0])
    return (
        f"{taken.key} is absent: {taken.value:,} is taken for the scaling, which is {name}, as "
        "transformers does; the model may have been trained on another length."
    )


def _alpha(record: Record, taken: Taken) -> str:
    base, alpha, power = taken.value
    return f"The base is rope_theta {base:,.10g} times alpha {alpha:,g}^{power:.4g}, as in transformers."


def _type_taken(record: Record, taken: Taken) -> str:
    word, rope_type = taken.value
    return (
        f"{taken.key} says {quoted(word)}, but rope_type beside it says {rope_type}: {rope_type} is taken, "
        "as transformers does."
    )


def _truncate(record: Record, taken: Taken) -> str:
    return (
        f"{taken.key} is false: the ramp does not begin and end at whole pairs. transformers {VERSION} "
        "does not find the key in a block of one kind of layer and rounds both."
    )


_OF_BLOCKS: Mapping[str, Callable[[Record, Taken], str]] = {
    "alpha": _alpha,
    "dynamic": _dynamic,
    TRAINED: _trained,
    "truncate": _truncate,
    "type": _type_taken,
}


def refusal(problem: str, key: str, assume: str, effect: str) -> ConfigFileError:
    """Return an error that says as what a config may be read on request."""
    message = f'{problem}; to {effect}, use --assume {assume} (in Python, assume="{assume}").'
    return ConfigFileError(message, key, assume, f"{problem}.")


def unread(keys: tuple[str, ...], model_type: str, read_as: str) -> ConfigFileError:
    """Return the error of keys that bear on position and are not read."""
    bear, are, them = ("bear", "are", "them") if len(keys) > 1 else ("bears", "is", "it")
    return refusal(
        f'{listed(keys)} {bear} on position and {are} not read for model_type "{model_type}"',
        keys[0], read_as, f"read the file without {them}",
    )  # fmt: skip


def assumption(
    own: str, assumed_type: str, wrapper: str, keys: tuple[str, ...], *, is_known: bool
) -> str:
    """Return what was assumed on request, as a sentence, or "".

    own: the type that the config names. is_known: whether it is one that is read.
    """
    without = f" Not read: {listed(keys)}." if keys else ""
    if assumed_type:
        why = f'model_type "{own}" is not known' if own else "the config names no model_type"
        if is_known:
            why = f'the config names model_type "{own}"'
        kind = "a Llama model" if assumed_type == "llama" else f'model_type "{assumed_type}"'
        return (
            f"Read as {kind} on request: {why}, so that layout, layers, windows and cache may "
            f"differ from the real ones.{without}"
        )
    if wrapper:
        return (
            f'Read by its text_config, of model_type "{own}", on request: model_type "{wrapper}" is '
            "not known, so that what a token sees and the cache may differ from the real ones."
            f"{without}"
        )
    if not keys:
        return ""
    they = "they" if len(keys) > 1 else "it"
    return (
        f"Read without {listed(keys)} on request: what {they} would change is not in these numbers."
    )


def listed(names: tuple[str, ...]) -> str:
    """Return the names of some keys as a sentence lists them."""
    parts = [name[-_MAX_NAME_LENGTH:] for name in names[:_MAX_NAMES]]
    if len(names) > _MAX_NAMES:
        parts.append(f"{len(names) - _MAX_NAMES:,} more")
    return joined(parts, "and")
