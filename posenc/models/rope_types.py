"""The kinds of RoPE that a config.json can write, and the fields that each of them has in a block."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from posenc.models.record import TEXT, Record

TRAINED = "original_max_position_embeddings"  # the length before scaling
THETA, SHARE_KEY, SECTIONS = "rope_theta", "partial_rotary_factor", "mrope_section"
DEFAULT = "default"  # the rope_type of plain RoPE
FACTOR_LISTS = ("short_factor", "long_factor")  # LongRoPE's factors of the pairs


@dataclass(frozen=True)
class RopeType:
    """The keys by which a config.json writes one kind of RoPE.

    words: its values of rope_type, transformers' own first; () where it has none.
    always: fields that are written. changed: fields that are written where they differ from their
    default. Each is a key of the block by its own name.
    """

    words: tuple[str, ...]
    always: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


# By kind of scheme.
ROPE_TYPES: dict[str, RopeType] = {
    "rope": RopeType((DEFAULT,)),
    "rope_linear": RopeType(("linear",), ("factor",)),
    "rope_ntk": RopeType(()),  # written as its larger base
    "rope_dynamic": RopeType(("dynamic",), ("factor",)),
    "rope_yarn": RopeType(
        ("yarn",),
        ("factor", "trained_length", "beta_fast", "beta_slow"),
        ("mscale", "mscale_all_dim", "attention_factor", "truncate"),
    ),
    "rope_longrope": RopeType(
        ("longrope", "su"), ("factor", "trained_length", *FACTOR_LISTS), ("attention_factor",)
    ),
    "rope_llama3": RopeType(
        ("llama3",), ("factor", "low_freq_factor", "high_freq_factor", "trained_length")
    ),
    "rope_proportional": RopeType(("proportional",), (SHARE_KEY,), ("factor",)),
    "rope_sections": RopeType(("mrope",)),
}
# The kind of scheme of each rope_type in transformers' words, and transformers' word for others.
KINDS: Mapping[str, str] = {
    entry.words[0]: kind for kind, entry in ROPE_TYPES.items() if entry.words
}
OTHER_WORDS: Mapping[str, str] = {
    word: entry.words[0] for entry in ROPE_TYPES.values() for word in entry.words[1:]
}
# Keys that make a block without a type one that scales.
SCALING_KEYS = {
    name for entry in ROPE_TYPES.values() for name in (*entry.always, *entry.changed)
} - {SHARE_KEY}


def rope_type_of(block: Record, rope: Mapping[str, Any]) -> str:
    """Return the type of a block; rope_type counts before type, as in transformers.

    rope: of the row of its class. Raises ConfigFileError for a type that it does not take.
    """
    words = {name: block.get(name, TEXT) for name in ("rope_type", "type")}
    given = {name: word for name, word in words.items() if word is not None}
    if not given:
        return _type_without_word(block)
    own = rope.get("types", {})
    types = {name: own.get(word, OTHER_WORDS.get(word, word)) for name, word in given.items()}
    name, rope_type = next(iter(types.items()))
    takes = rope.get("takes", ())
    allowed = takes if rope_type in KINDS else (*KINDS, *OTHER_WORDS)
    if allowed and rope_type not in allowed:
        raise block.error(name, f"must be one of {', '.join(allowed)}, got {given[name]!r:.60}")
    other: str = types.get("type", rope_type)
    if rope_type == DEFAULT and other == "mrope":
        return other  # as transformers writes Qwen2-VL's
    if other != rope_type:
        block.take("type", block.named("type"), (given["type"], rope_type))
    return str(rope_type)


def _type_without_word(block: Record) -> str:
    """Return the type of a block that names none. Raises ConfigFileError where it scales."""
    scaling = (name for name in block.content if name in SCALING_KEYS)
    first = next((name for name in scaling if block.content[name] is not None), None)
    if first is not None:
        problem = f"is missing next to {first}; it must be one of {', '.join(KINDS)}"
        raise block.error("rope_type", problem)
    return DEFAULT
