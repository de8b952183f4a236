"""Differences of two configs in how they encode position, as facts, and a sentence for each."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.limits import check_count
from posenc.models.config_json import ConfigSource
from posenc.models.model_config import MAX_CONTEXT, LayerKind, ModelConfig
from posenc.models.read_config import read_config
from posenc.schemes.rope import RopeConfig, rope_frequencies
from posenc.schemes.rope_scaling.base import ScaledRopeConfig
from posenc.text import joined, significant

Value = float | int | str | None
_ROUNDING = 1e-9  # of a frequency or a factor, relative


@dataclass(frozen=True, kw_only=True)
class FrequencyChange:
    """Frequencies of one config over those of another, pair by pair.

    pairs: of both. changed: the pairs that differ. fastest, slowest: the largest and the smallest ratio.
    """

    pairs: int
    changed: tuple[int, ...]
    fastest: float
    slowest: float


@dataclass(frozen=True, kw_only=True)
class ConfigDifference:
    """One thing in which two configs differ.

    word: "scheme", "rotary_dim", "layout", "head_dim", "rope" for base and scaling, "attention_factor",
    "softmax_scale", "window", "context", "trained_length" or "layers". layers: the kind of layer, "" for
    the whole model. first, second: the values of the two. keys: what "rope" names, as (name, first,
    second). change: of the frequencies, None where they are the same or cannot be paired.
    """

    word: str
    layers: str = ""
    first: Value = None
    second: Value = None
    keys: tuple[tuple[str, Value, Value], ...] = ()
    change: FrequencyChange | None = None


def compare_configs(
    first: ConfigSource, second: ConfigSource, length: int | None = None, assume: str | None = None
) -> tuple[ConfigDifference, ...]:
    """Return in what two configs differ, the first against the second; () where they are alike.

    length: of the text in tokens, for scalings that follow it; by default the smaller of the two
    contexts. first, second, assume: as for `read_config`. Raises ConfigFileError, and
    SchemeArgumentError for a length outside 1 .. 2^24.
    """
    models = read_config(first, assume), read_config(second, assume)
    contexts = [model.context for model in models if model.context]
    if length is None:
        length = min([*contexts, MAX_CONTEXT])
    check_count("length", length, 1, MAX_CONTEXT)
    return (*_of_layers(*models, length), *_of_models(*models))


def _of_models(first: ModelConfig, second: ModelConfig) -> Iterator[ConfigDifference]:
    lengths = {
        "context": (first.context, second.context),
        "trained_length": (first.trained_length, second.trained_length),
    }
    for word, (own, other) in lengths.items():
        if own != other:
            yield ConfigDifference(word=word, first=own, second=other)


def _of_layers(first: ModelConfig, second: ModelConfig, length: int) -> Iterator[ConfigDifference]:
    """Yield the differences of the layers that have the same word, or of the only ones."""
    own = {kind.block_name: kind for kind in first.layer_kinds}
    others = {kind.block_name: kind for kind in second.layer_kinds}
    if len(own) == len(others) == 1:
        yield from _of_kinds(first.main, second.main, "", length)
        return
    for word in dict.fromkeys((*own, *others)):
        if word in own and word in others:
            yield from _of_kinds(own[word], others[word], word, length)
        else:
            counts = [len(kinds[word].layers) if word in kinds else 0 for kinds in (own, others)]
            yield ConfigDifference(word="layers", layers=word, first=counts[0], second=counts[1])


def _of_kinds(
    first: LayerKind, second: LayerKind, layers: str, length: int
) -> Iterator[ConfigDifference]:
    schemes = first.scheme, second.scheme
    if isinstance(schemes[0], RopeConfig) and isinstance(schemes[1], RopeConfig):
        yield from _of_rope(schemes[0], schemes[1], layers, length)
    elif schemes[0] != schemes[1]:
        labels = ["none" if scheme is None else scheme.label for scheme in schemes]
        yield ConfigDifference(word="scheme", layers=layers, first=labels[0], second=labels[1])
    if first.head_dim != second.head_dim:
        yield ConfigDifference(
            word="head_dim", layers=layers, first=first.head_dim, second=second.head_dim
        )
    scales = first.softmax_scale, second.softmax_scale
    if abs(scales[0] / scales[1] - 1) > _ROUNDING:
        yield ConfigDifference(
            word="softmax_scale", layers=layers, first=scales[0], second=scales[1]
        )
    if first.window != second.window:
        yield ConfigDifference(
            word="window", layers=layers, first=first.window, second=second.window
        )


def _of_rope(
    first: RopeConfig, second: RopeConfig, layers: str, length: int
) -> Iterator[ConfigDifference]:
    own, own_factor = rope_frequencies(first, length=length)
    other, other_factor = rope_frequencies(second, length=length)
    keys: list[tuple[str, Value, Value]] = [
        ("rope_theta", first.base, second.base),
        ("scaling", _scaling(first), _scaling(second)),
    ]
    differing = tuple(key for key in keys if key[1] != key[2])
    change = _change(own, other) if len(own) == len(other) else None
    if len(own) != len(other):
        yield ConfigDifference(
            word="rotary_dim", layers=layers, first=2 * len(own), second=2 * len(other)
        )
    if differing or change is not None:
        yield ConfigDifference(word="rope", layers=layers, keys=differing, change=change)
    if abs(own_factor / other_factor - 1) > _ROUNDING:
        yield ConfigDifference(
            word="attention_factor", layers=layers, first=own_factor, second=other_factor
        )
    if first.layout != second.layout:
        yield ConfigDifference(
            word="layout", layers=layers, first=first.layout, second=second.layout
        )


def _scaling(config: RopeConfig) -> str:
    words = config.words if isinstance(config, ScaledRopeConfig) else ""
    trained = getattr(config, "trained_length", None)
    return f"{words} from {trained:,}" if words and trained else words or "none"


def _change(own: Float[Tensor, " p"], other: Float[Tensor, " p"]) -> FrequencyChange | None:
    ratio = torch.where((own == 0) & (other == 0), 1.0, own / other)
    changed = ((ratio - 1).abs() > _ROUNDING).nonzero().flatten().tolist()
    if not changed:
        return None
    return FrequencyChange(
        pairs=len(ratio),
        changed=tuple(changed),
        fastest=float(ratio.max()),
        slowest=float(ratio.min()),
    )


# Words -------------------------------------------------------------------------------------------

_TEMPLATES = {
    "scheme": "position is encoded by {first} against {second}.",
    "rotary_dim": "{first} features of a head rotate against {second}.",
    "layout": "pairs of features are {first} against {second}.",
    "head_dim": "a head has {first} features against {second}.",
    "window": "a query sees {first} tokens against {second}.",
    "context": "max_position_embeddings {first} against {second}.",
    "trained_length": "original_max_position_embeddings {first} against {second}.",
    "layers": "{first} layers of this kind against {second}.",
}
_LOGITS: dict[str, tuple[str, Literal[1, 2]]] = {
    "softmax_scale": ("softmax scale", 1),
    "attention_factor": ("attention factor", 2),
}
_ABSENT = {"window": "all", "context": "not given", "trained_length": "not given"}


def comparison_sentences(differences: tuple[ConfigDifference, ...]) -> list[str]:
    """Return a sentence for each difference, or one that there is none."""
    if not differences:
        return ["Both configs encode position in the same way."]
    return [_with_layers(each, _sentence(each)) for each in differences]


def _with_layers(each: ConfigDifference, sentence: str) -> str:
    if each.layers:
        return f"{each.layers}: {sentence}"
    is_key = "_" in sentence.partition(" ")[0]  # which is written as the file has it
    return sentence if is_key else sentence[0].upper() + sentence[1:]


def _sentence(each: ConfigDifference) -> str:
    if each.word == "rope":
        return _rope_sentence(each)
    if each.word in _LOGITS:
        name, power = _LOGITS[each.word]
        first, second = (float(value or 0) for value in (each.first, each.second))
        return (
            f"{name} {significant(first, 5)} against {significant(second, 5)}: logits are "
            f"{significant((first / second) ** power, 4)} times as large."
        )
    return _TEMPLATES[each.word].format(
        first=_value(each.word, each.first), second=_value(each.word, each.second)
    )


def _value(word: str, value: Value) -> str:
    if value is None:
        return _ABSENT[word]
    return value if isinstance(value, str) else f"{value:,.10g}"


def _rope_sentence(each: ConfigDifference) -> str:
    causes = [
        f"{name} {_value(name, first)} against {_value(name, second)}"
        for name, first, second in each.keys
    ]
    cause = joined(causes, "and") if causes else "other numbers of the same scaling"
    if each.change is None:
        return f"{cause}."
    change = each.change
    which = _which(change)
    effects = []
    if change.fastest > 1 + _ROUNDING:
        effects.append(f"up to {significant(change.fastest)} times as fast")
    if change.slowest < 1 - _ROUNDING:
        effects.append(f"down to {significant(change.slowest)} times as fast")
    return f"{cause}: {which} {joined(effects, 'and')} as in the other config."


def _which(change: FrequencyChange) -> str:
    """Return which pairs turn otherwise, with their verb."""
    first, last, count = change.changed[0], change.changed[-1], len(change.changed)
    if count == 1:
        return f"pair {first} turns"
    if count == change.pairs:
        return "every pair turns"
    if count == change.pairs - 1 and first == 1:
        return "every pair but the first turns"
    if count == last - first + 1:
        return f"pairs {first} to {last} of {change.pairs} turn"
    return f"{count} of {change.pairs} pairs turn"
