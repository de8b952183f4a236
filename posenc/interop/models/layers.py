"""Which layers of a model are of which kind: full attention, a sliding window, no RoPE."""

from collections.abc import Mapping

from posenc import fields, limits
from posenc.interop.models.families import FULL, NO_ROPE, SLIDING, RopeFamily
from posenc.interop.models.keys import Keys
from posenc.interop.models.sizes import LAYER_LIMIT

WORDS = (FULL, SLIDING)


def layer_words(keys: Keys, family: RopeFamily | None, layers: int) -> tuple[str, ...]:
    """Return the config's own word for every layer."""
    if (
        family is None or family.windows != "every layer"
    ):  # a class of one kind reads no list of them
        told = keys.words("layer_types", layers, WORDS)
        if told is not None:
            return told
    window = read_window(keys, family)
    if family is None:
        return ((SLIDING if window else FULL),) * layers
    if window is not None and family.no_rope:  # SmolLM3: the layers without RoPE have it
        return tuple(FULL if rope else SLIDING for rope in rope_layers(keys, family, layers))
    if window is None or family.windows == "none":
        return (FULL,) * layers
    if family.windows == "every layer":
        return (SLIDING,) * layers
    if family.windows == "last layers":
        first = keys.whole(
            "max_window_layers", family.first_windowed, family.source,
            _FROM_LAYER,
        )  # fmt: skip
        return tuple(SLIDING if index >= first else FULL for index in range(layers))
    return _pattern(keys, family, layers)


def _pattern(keys: Keys, family: RopeFamily, layers: int) -> tuple[str, ...]:
    period = family.period
    if family.period_key:
        why = f"{family.source}; its key layer_types is absent too"
        period = keys.whole(family.period_key, period, why, LAYER_LIMIT)
    else:
        keys.assume(
            f"{keys.named('layer_types')} is absent: the last of every {period} layers is of full "
            f"attention, {family.source}."
        )
    shift = 0 if family.first_full else 1
    return tuple(SLIDING if (index + shift) % period else FULL for index in range(layers))


def read_window(keys: Keys, family: RopeFamily | None) -> int | None:
    """Return how many tokens a query of a windowed layer sees, itself included; None for all."""
    if family is None:
        switched_off = not keys.flag("use_sliding_window", True, "")
        return None if switched_off else keys.maybe_whole("sliding_window", _WINDOW)
    if family.windows == "none" and not family.no_rope:
        return None
    if (family.windows == "last layers" or family.no_rope) and not keys.flag(
        "use_sliding_window", False, ""
    ):
        keys.find(family.window_key)  # read, and switched off
        keys.find("max_window_layers")
        return None
    name = family.window_key
    if name in keys.record and keys.record[name] is None:
        keys.find(name)
        return None
    if family.window is None:
        window = keys.maybe_whole(name, _WINDOW)
    else:
        window = keys.whole(name, family.window, family.source, _WINDOW)
    return None if window is None else _seen(keys, family, window)


def _seen(keys: Keys, family: RopeFamily, window: int) -> int:
    """Return the tokens seen: both sides count where every token sees both."""
    if is_bidirectional(keys, family):
        # Gemma 4's class halves the window and adds one, and its mask takes that distance in.
        if family.both_sides == "word":
            return 2 * (window // 2 + 1) + 1
        return 2 * (window // 2) + 1
    return window


def is_bidirectional(keys: Keys, family: RopeFamily | None) -> bool:
    """Whether every token sees both sides, by the class, or where the config says so (EmbeddingGemma)."""
    name = "use_bidirectional_attention"
    if family is None or family.encoder or not family.both_sides:
        return family is not None and family.encoder
    if family.both_sides == "flag" or keys.record.get(name) is False:
        return keys.flag(name, False, "")
    return keys.word(name, "vision", "", ("all", "vision")) == "all"  # vision: among pictures alone


def rope_layers(keys: Keys, family: RopeFamily | None, layers: int) -> tuple[bool, ...]:
    """Return whether each layer uses RoPE. In no_rope_layers, 1 means that it does.

    An empty list is the default pattern, as of transformers' Llama4TextConfig.
    """
    if family is None and keys.record.get("no_rope_layers") is None:
        return (True,) * layers
    if family is not None and not family.no_rope:
        return (True,) * layers
    if keys.record.get("no_rope_layers") == []:
        keys.find("no_rope_layers")
    elif (listed := keys.words("no_rope_layers", layers, (0, 1))) is not None:
        keys.find("no_rope_layer_interval")  # what the list was made from
        return tuple(bool(one) for one in listed)
    why = family.source if family else "the default of transformers' Llama4TextConfig"
    interval = keys.whole("no_rope_layer_interval", 4, why, LAYER_LIMIT)
    return tuple(bool((index + 1) % interval) for index in range(layers))


def grouped(words: tuple[str, ...], uses_rope: tuple[bool, ...]) -> Mapping[str, tuple[int, ...]]:
    """Return the indices of each kind of layer, by its name."""
    found: dict[str, list[int]] = {}
    for index, (word, rope) in enumerate(zip(words, uses_rope, strict=True)):
        name = word if rope else NO_ROPE if word == FULL else f"{word}, {NO_ROPE}"
        found.setdefault(name, []).append(index)
    return {name: tuple(indices) for name, indices in found.items()}


_WINDOW = fields.Whole(low=1, high=limits.MAX_POSITION, label="")
_FROM_LAYER = fields.Whole(low=0, high=limits.MAX_MODEL_LAYERS, label="")
