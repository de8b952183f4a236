"""Reading and writing of a config's rope blocks, by kind of RoPE.

A first-generation block is `rope_scaling`, with the base and the rotated share outside of it; a
second-generation block is `rope_parameters`, which holds them.

Difference from transformers 5.23: where rope_parameters nests a block per kind of layer, YaRN's `truncate`
is read from its block. `_compute_yarn_parameters` looks for it outside, and so always rounds the ramp's
ends; a model whose `truncate` is false there says so among its assumptions.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from posenc import fields, limits
from posenc.errors import ConfigError, SchemeArgumentError, quoted
from posenc.models.config_json import Keys, unusable
from posenc.models.families import VERSION, RopeFamily, family_of
from posenc.models.rope_block import TRAINED, BlockReader
from posenc.schemes.base import SchemeConfig
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling.base import RopeLinearConfig
from posenc.schemes.rope_scaling.llama3 import RopeLlama3Config
from posenc.schemes.rope_scaling.longrope import RopeLongConfig
from posenc.schemes.rope_scaling.ntk import RopeDynamicConfig
from posenc.schemes.rope_scaling.proportional import RopeProportionalConfig
from posenc.schemes.rope_scaling.sections import RopeSectionsConfig
from posenc.schemes.rope_scaling.yarn import RopeYarnConfig, attention_scale

Block = dict[str, Any]
Schemes = Mapping[str, SchemeConfig | None]  # by the name of the kind of layer

FIXED_BASE = ("gptj", "codegen", "roformer")  # their base is in their code
_DEFAULT = "default"  # the rope_type of plain RoPE
_LISTS = ("short_factor", "long_factor")
_ALPHA = fields.FloatRange(low=1.0, high=1e9)
_PAIR_FACTOR = fields.FloatRange(low=1e-3, high=limits.MAX_PAIR_FACTOR)


def _read_dynamic(block: BlockReader) -> RopeConfig:
    name, context = block.context
    if block.family.config_class.startswith("HunYuan") and block.has("alpha"):
        # NTK-aware scaling of a fixed factor: plain RoPE with a larger base.
        alpha, shared = block.keys.get("alpha", _ALPHA), block.shared()
        has_axes = block.has("mrope_section")
        plain = _read_sections(block) if has_axes else RopeConfig(**shared)
        block.keys.read.update(block.keys.record)  # beta_fast, mscale and others have no effect
        power = plain.rotary_dim / max(plain.rotary_dim - 2, 1)
        block.keys.assume(
            f"The base is rope_theta {plain.base:,.10g} times alpha {alpha:,g}^{power:.4g}, as in "
            "transformers."
        )
        return plain.replace(base=plain.base * alpha**power)
    block.keys.assume(
        f"dynamic scaling begins at {context:,}, which is {name}, as transformers has it; the model "
        "may have been trained on another length."
    )
    return RopeDynamicConfig(**block.shared(), factor=block.factor(), trained_length=context)


def _read_yarn(block: BlockReader) -> RopeConfig:
    shared, trained = block.shared(), block.trained_length()
    names = ("beta_fast", "beta_slow", "mscale", "mscale_all_dim", "attention_factor", "truncate")
    own = block.own(RopeYarnConfig, *names)
    factor = block.factor(trained, absent=False)
    if not own["truncate"] and "" not in block.family.bases:
        block.keys.assume(
            f"{block.keys.named('truncate')} is false: the ramp does not begin and end at whole pairs. "
            f"transformers {VERSION} does not find the key in a block of one kind of layer and rounds both."
        )
    return RopeYarnConfig(**shared, factor=factor, trained_length=trained, **own)


def _read_longrope(block: BlockReader) -> RopeConfig:
    shared, trained, pairs = block.shared(), block.trained_length(), block.pairs()
    lists: dict[str, Any] = {
        name: tuple(map(float, block.keys.entries(name, pairs, _PAIR_FACTOR))) for name in _LISTS
    }
    own = block.own(RopeLongConfig, "attention_factor")
    factor = block.factor(trained)
    return RopeLongConfig(**shared, **lists, factor=factor, trained_length=trained, **own)


def _write_longrope(config: RopeLongConfig) -> Block | None:
    lists = {name: list(getattr(config, name)) for name in _LISTS}
    if not all(lists.values()):
        return None  # the factors of an example
    pairs = config.rotary_dim // 2
    return {name: values if len(values) > 1 else values * pairs for name, values in lists.items()}


def _read_llama3(block: BlockReader) -> RopeConfig:
    names = ("low_freq_factor", "high_freq_factor")
    return RopeLlama3Config(
        **block.shared(),
        **block.own(RopeLlama3Config, *names, required=True),
        factor=block.factor(),
        trained_length=block.trained_length(),
    )


def _read_proportional(block: BlockReader) -> RopeConfig:
    head, share = block.head(), block.share_or_default()
    if share is None:
        named = block.keys.named("partial_rotary_factor")
        block.keys.assume(f"{named} is absent: 1 is taken, as transformers does.")
        share = 1.0
    factor = block.factor() if block.has("factor") else 1.0
    return RopeProportionalConfig(**head, partial_rotary_factor=share, factor=factor)


def _read_sections(block: BlockReader) -> RopeConfig:
    shared, sections = block.shared(), block.counts("mrope_section", block.pairs())
    interleaved = block.keys.flag("mrope_interleaved", False) or block.family.interleaved_sections
    # grid=0: text, whose axes count alike.
    return RopeSectionsConfig(**shared, sections=sections, grid=0, interleaved=interleaved)


def _write_sections(config: RopeSectionsConfig) -> Block | None:
    if config.ladders != "one":
        return None
    block: Block = {"rope_type": _DEFAULT, "mrope_section": list(config.sizes)}
    return block | {"mrope_interleaved": True} if config.interleaved else block


@dataclass(frozen=True)
class RopeFormat:
    """How a config.json writes one kind of RoPE.

    types: its values of rope_type, transformers' own first.
    read: returns the scheme's config of a block.
    always: fields that are written. changed: fields that are written where they differ from their default.
    write: returns further keys, or None where transformers has no rope_type for a scheme's config.
    mark: a key that makes a block of type default one of this kind.
    """

    types: tuple[str, ...]
    read: Callable[[BlockReader], RopeConfig]
    always: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    write: Callable[[Any], Block | None] | None = None
    mark: str = ""


def _read_plain(block: BlockReader) -> RopeConfig:
    return RopeConfig(**block.shared())


def _read_linear(block: BlockReader) -> RopeConfig:
    return RopeLinearConfig(**block.shared(), factor=block.factor())


# By kind of scheme.
FORMATS: dict[str, RopeFormat] = {
    "rope": RopeFormat((_DEFAULT,), _read_plain),
    "rope_linear": RopeFormat(("linear",), _read_linear, ("factor",)),
    "rope_ntk": RopeFormat(
        (), _read_plain,
        write=lambda config: {"rope_type": _DEFAULT, "rope_theta": config.larger_base},
    ),
    "rope_dynamic": RopeFormat(("dynamic",), _read_dynamic, ("factor",)),
    "rope_yarn": RopeFormat(
        ("yarn",), _read_yarn, ("factor", "trained_length", "beta_fast", "beta_slow"),
        ("mscale", "mscale_all_dim", "attention_factor", "truncate"),
    ),
    "rope_longrope": RopeFormat(
        ("longrope", "su"), _read_longrope, ("factor", "trained_length", *_LISTS),
        ("attention_factor",), _write_longrope,
    ),
    "rope_llama3": RopeFormat(
        ("llama3",), _read_llama3,
        ("factor", "low_freq_factor", "high_freq_factor", "trained_length"),
    ),
    "rope_proportional": RopeFormat(
        ("proportional",), _read_proportional, ("partial_rotary_factor",), ("factor",)
    ),
    "rope_sections": RopeFormat(
        ("mrope",), _read_sections, write=_write_sections, mark="mrope_section"
    ),
}  # fmt: skip


def type_block(config: RopeConfig) -> Block | None:
    """Return rope_type and its keys; None where transformers has no rope_type for the config."""
    entry = FORMATS.get(config.kind)
    if entry is None:
        return None
    further = entry.write(config) if entry.write else {}
    if further is None:
        return None
    default = fields.defaults(config)
    changed = (name for name in entry.changed if getattr(config, name) != default[name])
    names = {
        name: TRAINED if name == "trained_length" else name for name in (*entry.always, *changed)
    }
    own = {key: getattr(config, name) for name, key in names.items()}
    return {"rope_type": next(iter(entry.types), _DEFAULT)} | own | further


def softmax_scale(block_scale: float | None, config: RopeConfig) -> tuple[float, float | None]:
    """Return mscale_all_dim of the block of a config, and the softmax scale that results.

    mscale_all_dim: the config's own, or what keeps the scale of the model's block; 0 for none. The scale is
    that over the model's own, None where transformers has no block of the config. DeepSeek's classes
    multiply it by (0.1 mscale_all_dim ln factor + 1)^2, unless the rope_type is default
    (yarn_apply_mscale). block_scale: this square of the model's own block, None for other classes.
    """
    if block_scale is None:
        return 0.0, 1.0
    block = type_block(config)
    if block is None:
        return 0.0, None
    weight, factor = block.get("mscale_all_dim", 0.0), block.get("factor", 1.0)
    if not weight and factor > 1 and block_scale > 1:
        kept = (math.sqrt(block_scale) - 1) / (0.1 * math.log(factor))
        weight = kept if kept <= limits.MAX_ATTENTION_WEIGHT else 0.0
    return weight, attention_scale(factor, weight) ** 2 / block_scale


def rope_parameters(scheme: RopeConfig, *, share: float | None = None) -> Block:
    """Return the second generation's block of a scheme.

    share: rotated share of the head as the model counts it, by default the scheme's. NTK-aware scaling
    is written as its larger base. Raises SchemeArgumentError where transformers has no rope_type.
    """
    own = type_block(scheme)
    if own is None:
        of_kind = " of this kind" if scheme.kind in TYPES.values() else ""
        raise SchemeArgumentError(
            f"transformers has no rope_type for {scheme.label}{of_kind}: it cannot be written as a config."
        )
    share = scheme.partial_rotary_factor if share is None else share
    block = {"rope_type": own["rope_type"], "rope_theta": scheme.base}
    return block | ({"partial_rotary_factor": share} if share != 1 else {}) | own


def second_generation(model_type: str, kinds: Schemes) -> Block:
    """Return `rope_parameters`, with an entry per kind of layer where the model's class has them."""
    schemes = _with_rope(kinds)
    if not schemes or model_type in FIXED_BASE:
        return {}
    family = family_of(model_type)
    blocks = {name: _block(family, scheme) for name, scheme in schemes.items()}
    first = next(iter(blocks.values()))
    by_kind = "" not in family.bases
    if family.compressed:  # its class ignores the block of one kind alone
        plain = {"rope_type": _DEFAULT, "partial_rotary_factor": first["partial_rotary_factor"]}
        for name, base in family.bases.items():
            blocks.setdefault(name, plain | {"rope_theta": base.default})
    if family.layer_bases and any(
        block["rope_theta"] != first["rope_theta"] for block in blocks.values()
    ):
        return {}  # several bases stand in the list layer_rope_theta
    if by_kind or any(block != first for block in blocks.values()):
        return blocks | {name: None for name in kinds if by_kind and name not in blocks}
    return first


def first_generation(model_type: str, kinds: Schemes) -> Block:
    """Return rope_theta, rope_scaling and related keys, as the model's class names them.

    Raises SchemeArgumentError where the first generation cannot express the model's schemes.
    """
    schemes = _with_rope(kinds)
    if not schemes:
        return {}
    if model_type in FIXED_BASE:
        (scheme,) = schemes.values()
        return {} if model_type == "roformer" else {"rotary_dim": scheme.rotary_dim}
    family = family_of(model_type)
    if family.compressed or not any(base.names or base.scaled for base in family.bases.values()):
        raise SchemeArgumentError(f"{model_type} knows rope_parameters only.")
    keys: Block = {}
    for name, scheme in schemes.items():
        base, block = family.base_of(name), _block(family, scheme)
        own: Block = {}
        theta = block.pop("rope_theta")
        if "partial_rotary_factor" in block and family.share_names:
            own[family.share_names[0]] = block.pop("partial_rotary_factor")
        # null would mean the class's own block, where it has one (gpt-oss).
        scaling = None if block == {"rope_type": _DEFAULT} and not family.blocks else block
        if names := base.names if scaling is None else base.bare_names:
            own[names[0]] = theta
        elif theta != base.default:
            raise SchemeArgumentError(
                f"the first generation has no base of the {name} layers of {model_type}."
            )
        if base.scaled:
            own["rope_scaling"] = scaling
        elif scaling is not None:
            raise SchemeArgumentError(
                f"the first generation cannot scale the {name} layers of {model_type}."
            )
        for key, value in own.items():
            if keys.setdefault(key, value) != value:
                raise SchemeArgumentError(f"the first generation has one {key} for all layers.")
    trained = (keys.get("rope_scaling") or {}).get(TRAINED)
    if family.trained_length is not None and trained is not None:
        keys[TRAINED] = trained  # Phi-3's class takes the one outside of the block first
    return keys


def _with_rope(kinds: Schemes) -> dict[str, RopeConfig]:
    return {name: scheme for name, scheme in kinds.items() if isinstance(scheme, RopeConfig)}


def _block(family: RopeFamily, scheme: RopeConfig) -> Block:
    if family.share is None:  # the class rotates all of what it counts as a head
        return rope_parameters(scheme, share=1.0)
    block = rope_parameters(scheme)
    if family.share != 1:
        block.setdefault("partial_rotary_factor", 1.0)  # else the class would take its own
    return block


# Kinds of RoPE by transformers' rope_type, and other values of rope_type.
TYPES: Mapping[str, str] = {entry.types[0]: kind for kind, entry in FORMATS.items() if entry.types}
ALIASES: Mapping[str, str] = {
    alias: entry.types[0] for entry in FORMATS.values() for alias in entry.types[1:]
}


def read_block(block: BlockReader) -> RopeConfig:
    """Return the RoPE config of a block, which may be empty. Raises ConfigFileError."""
    keys, whole = block.keys, block.heads.rope_dim
    rope_type = _type(keys, block.family)
    kind = TYPES[rope_type]
    if kind != RopeConfig.kind and block.family.scaled_share is not None:
        family = dataclasses.replace(block.family, share=block.family.scaled_share)
        block = dataclasses.replace(block, family=family)
    try:
        for marked, entry in FORMATS.items():
            if entry.mark and (kind == marked or block.has(entry.mark)):
                # Also checked where another type is the one that rotates text.
                config = entry.read(block)
                if kind in (marked, RopeConfig.kind):
                    return config
        scheme = FORMATS[kind].read(block)
    except ConfigError as error:
        raise unusable(keys.path or "the config", error) from None
    if scheme.rotary_dim > whole:  # p-RoPE with a separate rotated part of the head
        raise keys.error(
            "rope_type",
            f"{rope_type} rotates a whole head of {scheme.rotary_dim}, of which this model rotates "
            f"{whole}",
        )
    return scheme


def _type(keys: Keys, family: RopeFamily) -> str:
    """Return the block's type, as transformers names it, which takes rope_type before type."""
    words = {name: word for name in ("rope_type", "type") if (word := keys.text(name)) is not None}
    if not words:
        return _type_without_word(keys)
    types = {name: family.types.get(word, ALIASES.get(word, word)) for name, word in words.items()}
    name, rope_type = next(iter(types.items()))
    allowed, why = family.takes, ", all that transformers takes for this model"
    if rope_type not in TYPES:
        allowed, why = (*TYPES, *ALIASES), ""
    if allowed and rope_type not in allowed:
        raise keys.error(name, f"must be one of {', '.join(allowed)}{why}, got {words[name]!r:.60}")
    other = types.get("type", rope_type)
    if rope_type == _DEFAULT and FORMATS[TYPES.get(other, RopeConfig.kind)].mark:
        return other  # as transformers writes Qwen2-VL's
    if other != rope_type:
        keys.assume(
            f"{keys.named('type')} says {quoted(words['type'])}, but rope_type beside it says "
            f"{rope_type}: {rope_type} is taken, as transformers does."
        )
    return rope_type


def _type_without_word(keys: Keys) -> str:
    """Return the type of a block that names none. Raises ConfigFileError where keys of one stand in it."""
    names = {name for entry in FORMATS.values() for name in (*entry.always, *entry.changed)}
    scaling_keys = names - {"partial_rotary_factor"}
    first = next(
        (name for name in keys.record if name in scaling_keys and keys.record[name] is not None),
        None,
    )
    if first is not None:
        problem = f"is missing next to {first}; it must be one of {', '.join(TYPES)}"
        raise keys.error("rope_type", problem)
    return _DEFAULT
