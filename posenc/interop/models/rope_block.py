"""One rope block of a config, of either generation, read as a RoPE config.

A first-generation block is `rope_scaling` with the base and the rotated share beside it; a second-
generation block is `rope_parameters`, which holds them. As transformers 5.23's modeling_rope_utils reads
both; what it takes from elsewhere in silence is noted as an assumption here.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from posenc import fields, limits
from posenc.errors import ConfigError, ConfigFileError
from posenc.interop.models.families import TRAINED
from posenc.interop.models.keys import Keys
from posenc.layout import Layout
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling import (
    RopeDynamicConfig,
    RopeLinearConfig,
    RopeLlama3Config,
    RopeLongConfig,
    RopeProportionalConfig,
    RopeSectionsConfig,
    RopeYarnConfig,
)

TYPES = ("default", "linear", "dynamic", "yarn", "longrope", "llama3", "proportional", "mrope")
ALIASES: Mapping[str, str] = {"su": "longrope"}
_SCALED = ("factor", "short_factor", "long_factor", "low_freq_factor", "beta_fast", "mscale")
_BASE = fields.Real(low=limits.MIN_BASE, high=limits.MAX_BASE, closed=False, label="")
_SHARE = fields.Real(low=0.0, high=1.0, closed=False, label="")
_RANGES = {"rope_theta": _BASE, "partial_rotary_factor": _SHARE}
_LENGTH = fields.Whole(low=2, high=limits.MAX_POSITION, label="")
_FACTOR = fields.Real(low=1.0, high=limits.MAX_SCALE_FACTOR, label="")
_PAIR = fields.Real(low=1e-3, high=limits.MAX_PAIR_FACTOR, label="")
_ATTENTION = fields.Real(
    low=limits.MIN_ATTENTION_FACTOR, high=limits.MAX_ATTENTION_FACTOR, label=""
)
_TURNS = fields.Real(low=limits.MIN_TURNS, high=limits.MAX_TURNS, label="")
_WEIGHT = fields.Real(low=0.0, high=limits.MAX_ATTENTION_WEIGHT, label="")


@dataclass(frozen=True, kw_only=True)
class Around:
    """What a rope block needs from the rest of the config.

    outer: the keys around the block. base_names, base: keys of the base there, and its default.
    share_names, share: likewise of the rotated share; a share of None must be 1.
    dim: width of the head that the scheme sees; ladder_dim: width that the rotated share is of.
    context: key and value of the length that the config says the model takes.
    trained_length: default of original_max_position_embeddings, None for the context.
    sections: default sections; empty for none. why: where defaults come from.
    """

    outer: Keys
    base_names: tuple[str, ...]
    base: float
    share_names: tuple[str, ...]
    share: float | None
    dim: int
    ladder_dim: int
    layout: Layout
    context: tuple[str, int]
    trained_length: int | None
    sections: tuple[int, ...]
    types: Mapping[str, str]
    why: str


def read_block(block: Keys | None, around: Around) -> RopeConfig:
    """Return the RoPE config of a block, or of none. Raises ConfigFileError, naming the key."""
    keys = block or Keys({}, around.outer.path, around.outer)
    kind = _type(keys, around)
    shared = _shared(keys, kind, around)
    where = keys.path or "the config"
    try:
        if keys.record.get("mrope_section") is not None or kind == "mrope" or around.sections:
            sections = _sections(keys, shared, around)
            if kind in ("default", "mrope"):
                in_turn = keys.flag("mrope_interleaved", False, "")
                return RopeSectionsConfig(**shared, sections=sections, grid=0, interleaved=in_turn)
        if kind == "default":
            return RopeConfig(**shared)
        return _READERS[kind](keys, shared, around)
    except ConfigError as error:
        raise ConfigFileError(f"{where} cannot be used: {error}", where) from None


def _type(keys: Keys, around: Around) -> str:
    """Return the block's type, by transformers' own word for it."""
    found = {name: keys.text(name) for name in ("rope_type", "type")}
    words = {
        name: around.types.get(word, ALIASES.get(word, word))
        for name, word in found.items()
        if word is not None
    }
    for name, word in words.items():
        if word not in TYPES:
            accepted = ", ".join((*TYPES, *ALIASES))
            raise keys.error(name, f"must be one of {accepted}, got {found[name]!r:.60}")
    kinds = set(words.values())
    if kinds == {"default", "mrope"}:  # as transformers writes Qwen2-VL's
        kinds = {"mrope"}
    if len(kinds) > 1:
        raise keys.error(
            "type",
            f"says {words['type']}, but rope_type says {words['rope_type']}; they must agree",
        )
    if kinds:
        return kinds.pop()
    telling = [name for name in _SCALED if keys.record.get(name) is not None]
    if telling:
        raise keys.error(
            "rope_type", f"is missing beside {telling[0]}; it must be one of {', '.join(TYPES)}"
        )
    return "default"


def _shared(keys: Keys, kind: str, around: Around) -> dict[str, Any]:
    """Return what all RoPE configs have: width, base, layout, share."""
    base = _inner_or_outer(keys, "rope_theta", around.base_names, around)
    if base is None:
        first = around.base_names[0] if around.base_names else "rope_theta"
        place = around.outer if around.base_names else keys
        base = place.real(first, around.base, around.why, _BASE)
    shared: dict[str, Any] = {"dim": around.dim, "base": base, "layout": around.layout}
    if kind == "proportional":
        return shared
    share = _inner_or_outer(keys, "partial_rotary_factor", around.share_names, around)
    if share is None and around.share is not None and around.share != 1:
        share = around.outer.real(around.share_names[0], around.share, around.why, _SHARE)
    if share is not None and around.share is None and share != 1:
        place = keys if keys.record.get("partial_rotary_factor") is not None else around.outer
        raise place.error(
            "partial_rotary_factor",
            f"must be 1 or absent: this model rotates the whole head; got {share:g}",
        )  # fmt: skip
    # Cut as transformers cuts it, int(head_dim * share); written as a fraction only where that differs.
    rotary = int(around.ladder_dim * (1.0 if share is None else share))
    if around.dim % 2:
        raise around.outer.error("head_dim", f"must be even for RoPE, got {around.dim}")
    if rotary < 2 or rotary % 2:
        raise around.outer.error(
            around.share_names[0] if share is not None else "head_dim",
            f"rotates {rotary} of {around.ladder_dim} features; it must be an even number from 2",
        )
    shared["partial_rotary_factor"] = _share_of(rotary, around.dim, share)
    return shared


def _share_of(rotary: int, dim: int, share: float | None) -> float:
    """Return the share of `dim` that is `rotary`, cut by transformers or not: the one told, if it is."""
    if share is not None and int(dim * share) == int(dim * share + 1e-9) == rotary:
        return share
    share = rotary / dim
    return share if int(dim * share) == rotary else math.nextafter(share, 1.0)


def _inner_or_outer(
    keys: Keys, name: str, outer_names: tuple[str, ...], around: Around
) -> float | None:
    """Return a number that may stand in the block or beside it, or None; in both it must agree."""
    inner = keys.maybe_real(name, _RANGES[name]) if keys is not around.outer else None
    found = around.outer.find(outer_names) if outer_names else None
    if found is None:
        return inner
    outer = around.outer.real(found[0], None, "", _RANGES[name])
    if inner is not None and inner != outer:
        raise around.outer.error(
            found[0], f"says {outer:g}, but {keys.named(name)} says {inner:g}; they must agree"
        )
    return outer


def _sections(keys: Keys, shared: dict[str, Any], around: Around) -> tuple[int, ...]:
    pairs = int(around.dim * shared.get("partial_rotary_factor", 1.0) + 1e-9) // 2
    found = keys.find("mrope_section")
    if found is None:
        if not around.sections:
            raise keys.error(
                "mrope_section", f"is missing; it must list counts that sum to {pairs}"
            )
        keys.assume(
            f"{keys.named('mrope_section')} is absent: {list(around.sections)} is taken, {around.why}."
        )
        sections = around.sections
    else:
        values = found[1]
        good = isinstance(values, list) and 0 < len(values) <= 4
        if not good or not all(type(one) is int and 0 <= one <= pairs for one in values):
            raise keys.error(
                "mrope_section",
                f"must be a list of 1 to 4 counts from 0 to {pairs}, got {values!r:.60}",
            )
        sections = tuple(values)
    if sum(sections) != pairs:
        raise keys.error(
            "mrope_section",
            f"must sum to {pairs}, the pairs of the rotated width, got {list(sections)}, {sum(sections)}",
        )
    return sections


def _factor(keys: Keys, around: Around, trained: int | None = None) -> float:
    """Return the scale factor; without one, the context over the trained length where both are told."""
    if trained is None or keys.find("factor") is not None:
        return keys.real("factor", None, "", _FACTOR)
    name, context = around.context
    factor = context / trained
    if factor < 1:
        raise keys.error(
            "factor",
            f"is absent, and {name} / {TRAINED} = {context:,} / {trained:,} is below 1; give a factor "
            f"from 1 to {limits.MAX_SCALE_FACTOR:g}",
        )
    keys.assume(f"{keys.named('factor')} is absent: {factor:g} is taken, {name} / {TRAINED}.")
    return factor


def told_trained_length(keys: Keys | None, outer: Keys) -> int | None:
    """Return original_max_position_embeddings where the config says it, in the block or beside it."""
    inner = keys.maybe_whole(TRAINED, _LENGTH) if keys is not None else None
    beside = outer.maybe_whole(TRAINED, _LENGTH)
    if keys is not None and inner is not None and beside is not None and inner != beside:
        raise outer.error(
            TRAINED, f"says {beside:,}, but {keys.named(TRAINED)} says {inner:,}; they must agree"
        )
    return beside if beside is not None else inner


def _trained(keys: Keys, around: Around) -> int:
    told = told_trained_length(keys, around.outer)
    if told is not None:
        return told
    if around.trained_length is not None:
        keys.assume(f"{TRAINED} is absent: {around.trained_length:,} is taken, {around.why}.")
        return around.trained_length
    name, context = around.context
    keys.assume(
        f"{keys.named(TRAINED)} is absent: {context:,} is taken for the scaling, which is {name}, as "
        "transformers does; the model may have been trained on another length."
    )
    return context


def _attention(keys: Keys) -> float:
    """Return the explicit attention factor, 0 for none."""
    found = keys.maybe_real("attention_factor", _ATTENTION)
    return found or 0.0


def _linear(keys: Keys, shared: dict[str, Any], around: Around) -> RopeConfig:
    return RopeLinearConfig(**shared, factor=_factor(keys, around))


def _dynamic(keys: Keys, shared: dict[str, Any], around: Around) -> RopeConfig:
    name, context = around.context
    keys.assume(
        f"dynamic scaling begins at {context:,}, which is {name}, as transformers has it; the model "
        "may have been trained on another length."
    )
    return RopeDynamicConfig(**shared, factor=_factor(keys, around), trained_length=context)


def _yarn(keys: Keys, shared: dict[str, Any], around: Around) -> RopeConfig:
    trained = _trained(keys, around)
    fast = keys.real("beta_fast", 32.0, "", _TURNS)
    slow = keys.real("beta_slow", 1.0, "", _TURNS)
    if fast < slow:
        raise keys.error("beta_fast", f"must be at least beta_slow, got {fast:g} and {slow:g}")
    return RopeYarnConfig(
        **shared,
        factor=_factor(keys, around, trained),
        trained_length=trained,
        beta_fast=fast,
        beta_slow=slow,
        mscale=keys.real("mscale", 0.0, "", _WEIGHT),
        mscale_all_dim=keys.real("mscale_all_dim", 0.0, "", _WEIGHT),
        attention_factor=_attention(keys),
        truncate=keys.flag("truncate", True, ""),
    )


def _longrope(keys: Keys, shared: dict[str, Any], around: Around) -> RopeConfig:
    trained = _trained(keys, around)
    pairs = int(around.dim * shared["partial_rotary_factor"] + 1e-9) // 2
    return RopeLongConfig(
        **shared,
        short_factor=keys.numbers("short_factor", pairs, _PAIR),
        long_factor=keys.numbers("long_factor", pairs, _PAIR),
        factor=_factor(keys, around, trained),
        trained_length=trained,
        attention_factor=_attention(keys),
    )


def _llama3(keys: Keys, shared: dict[str, Any], around: Around) -> RopeConfig:
    low = keys.real("low_freq_factor", None, "", _TURNS)
    high = keys.real("high_freq_factor", None, "", _TURNS)
    if high <= low:
        raise keys.error(
            "high_freq_factor", f"must be greater than low_freq_factor, got {high:g} and {low:g}"
        )
    return RopeLlama3Config(
        **shared,
        factor=_factor(keys, around),
        low_freq_factor=low,
        high_freq_factor=high,
        trained_length=_trained(keys, around),
    )


def _proportional(keys: Keys, shared: dict[str, Any], around: Around) -> RopeConfig:
    share = _inner_or_outer(keys, "partial_rotary_factor", around.share_names, around)
    if share is None:
        keys.assume(
            f"{keys.named('partial_rotary_factor')} is absent: 1 is taken, as transformers does."
        )
    factor = 1.0 if keys.find("factor") is None else _factor(keys, around)
    return RopeProportionalConfig(
        **shared, partial_rotary_factor=1.0 if share is None else share, factor=factor
    )


_READERS = {
    "linear": _linear,
    "dynamic": _dynamic,
    "yarn": _yarn,
    "longrope": _longrope,
    "llama3": _llama3,
    "proportional": _proportional,
}
