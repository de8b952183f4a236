"""Reading and writing of a config's rope blocks, by kind of RoPE.

A first-generation block is `rope_scaling`, with the base and the rotated share outside of it; a
second-generation block is `rope_parameters`, which holds them.

Difference from transformers 5.23: where rope_parameters nests a block per kind of layer, YaRN's `truncate`
is read from its block. `_compute_yarn_parameters` looks for it outside, and so always rounds the ramp's
ends.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from posenc import fields, limits
from posenc.errors import ConfigError, ConfigFileError, SchemeArgumentError
from posenc.models.config_json import Keys
from posenc.models.families import RopeFamily, family_of
from posenc.models.rope_block import TRAINED, Around, BlockReader
from posenc.schemes.base import SchemeConfig
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling.base import RopeLinearConfig
from posenc.schemes.rope_scaling.llama3 import RopeLlama3Config
from posenc.schemes.rope_scaling.longrope import RopeLongConfig
from posenc.schemes.rope_scaling.ntk import RopeDynamicConfig, RopeNtkConfig
from posenc.schemes.rope_scaling.proportional import RopeProportionalConfig
from posenc.schemes.rope_scaling.sections import RopeSectionsConfig
from posenc.schemes.rope_scaling.yarn import RopeYarnConfig

Block = dict[str, Any]
Schemes = Mapping[str, SchemeConfig | None]  # by the name of the kind of layer

_DEFAULT = "default"  # the rope_type of plain RoPE
_PAIR_FACTOR = fields.FloatRange(low=1e-3, high=limits.MAX_PAIR_FACTOR)


def _read_linear(block: BlockReader) -> RopeConfig:
    return RopeLinearConfig(**block.shared(), factor=block.factor())


def _write_linear(config: RopeLinearConfig) -> Block:
    return {"rope_type": "linear", "factor": config.factor}


def _write_ntk(config: RopeNtkConfig) -> Block:
    return {"rope_type": _DEFAULT, "rope_theta": config.larger_base}


def _read_dynamic(block: BlockReader) -> RopeConfig:
    name, context = block.context
    block.keys.assume(
        f"dynamic scaling begins at {context:,}, which is {name}, as transformers has it; the model "
        "may have been trained on another length."
    )
    return RopeDynamicConfig(**block.shared(), factor=block.factor(), trained_length=context)


def _write_dynamic(config: RopeDynamicConfig) -> Block:
    return {"rope_type": "dynamic", "factor": config.factor}


def _read_yarn(block: BlockReader) -> RopeConfig:
    shared, trained = block.shared(), block.trained_length()
    names = ("beta_fast", "beta_slow", "mscale", "mscale_all_dim", "attention_factor", "truncate")
    own = {name: block.own(RopeYarnConfig, name) for name in names}
    fast, slow = own["beta_fast"], own["beta_slow"]
    if fast < slow:
        raise block.keys.error(
            "beta_fast", f"must be at least beta_slow, got {fast:g} and {slow:g}"
        )
    factor = block.factor(trained, absent=False)
    return RopeYarnConfig(**shared, factor=factor, trained_length=trained, **own)


def _write_yarn(config: RopeYarnConfig) -> Block:
    names = ("mscale", "mscale_all_dim", "attention_factor")
    block: Block = {"rope_type": "yarn", "factor": config.factor, TRAINED: config.trained_length}
    block |= {"beta_fast": config.beta_fast, "beta_slow": config.beta_slow}
    block |= {name: value for name in names if (value := getattr(config, name))}
    return block if config.truncate else block | {"truncate": False}


def _read_longrope(block: BlockReader) -> RopeConfig:
    shared, trained, pairs = block.shared(), block.trained_length(), block.pairs()
    return RopeLongConfig(
        **shared,
        short_factor=block.keys.numbers("short_factor", pairs, _PAIR_FACTOR),
        long_factor=block.keys.numbers("long_factor", pairs, _PAIR_FACTOR),
        factor=block.factor(trained),
        trained_length=trained,
        attention_factor=block.own(RopeLongConfig, "attention_factor"),
    )


def _write_longrope(config: RopeLongConfig) -> Block | None:
    lists = {"short_factor": config.short_factor, "long_factor": config.long_factor}
    if not all(lists.values()):
        return None  # the factors of an example
    block: Block = {"rope_type": "longrope", "factor": config.factor}
    block[TRAINED] = config.trained_length
    for name, values in lists.items():
        block[name] = list(values) if len(values) > 1 else list(values) * (config.rotary_dim // 2)
    own = config.attention_factor
    return block | {"attention_factor": own} if own else block


def _read_llama3(block: BlockReader) -> RopeConfig:
    shared = block.shared()
    low = block.own(RopeLlama3Config, "low_freq_factor", required=True)
    high = block.own(RopeLlama3Config, "high_freq_factor", required=True)
    if high <= low:
        problem = f"must be greater than low_freq_factor, got {high:g} and {low:g}"
        raise block.keys.error("high_freq_factor", problem)
    return RopeLlama3Config(
        **shared,
        factor=block.factor(),
        low_freq_factor=low,
        high_freq_factor=high,
        trained_length=block.trained_length(),
    )


def _write_llama3(config: RopeLlama3Config) -> Block:
    names = ("factor", "low_freq_factor", "high_freq_factor")
    block: Block = {"rope_type": "llama3"} | {name: getattr(config, name) for name in names}
    return block | {TRAINED: config.trained_length}


def _read_proportional(block: BlockReader) -> RopeConfig:
    head, share = block.head(), block.share()
    if share is None:
        named = block.keys.named("partial_rotary_factor")
        block.keys.assume(f"{named} is absent: 1 is taken, as transformers does.")
        share = 1.0
    factor = block.factor() if block.has("factor") else 1.0
    return RopeProportionalConfig(**head, partial_rotary_factor=share, factor=factor)


def _write_proportional(config: RopeProportionalConfig) -> Block:
    block: Block = {"rope_type": "proportional"}
    block["partial_rotary_factor"] = config.partial_rotary_factor
    return block if config.factor == 1 else block | {"factor": config.factor}


def _read_sections(block: BlockReader) -> RopeConfig:
    shared, sections = block.shared(), block.counts("mrope_section", block.pairs())
    interleaved = block.keys.flag("mrope_interleaved", False)
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
    read: returns the scheme's config of a block. write: returns the block of a scheme's config, None
    where transformers has no rope_type for it; the base is the config's unless it has a rope_theta.
    keys: keys that a block without any type must not have.
    mark: a key that makes a block of type default one of this kind.
    """

    types: tuple[str, ...]
    read: Callable[[BlockReader], RopeConfig]
    write: Callable[[Any], Block | None]
    keys: tuple[str, ...] = ()
    mark: str = ""


def _read_plain(block: BlockReader) -> RopeConfig:
    return RopeConfig(**block.shared())


# By kind of scheme.
FORMATS: dict[str, RopeFormat] = {
    "rope": RopeFormat((_DEFAULT,), _read_plain, lambda config: {"rope_type": _DEFAULT}),
    "rope_linear": RopeFormat(("linear",), _read_linear, _write_linear, ("factor",)),
    "rope_ntk": RopeFormat((), _read_plain, _write_ntk),
    "rope_dynamic": RopeFormat(("dynamic",), _read_dynamic, _write_dynamic, ("factor",)),
    "rope_yarn": RopeFormat(
        ("yarn",), _read_yarn, _write_yarn,
        ("factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"),
    ),
    "rope_longrope": RopeFormat(
        ("longrope", "su"), _read_longrope, _write_longrope,
        ("factor", "short_factor", "long_factor"),
    ),
    "rope_llama3": RopeFormat(
        ("llama3",), _read_llama3, _write_llama3, ("factor", "low_freq_factor", "high_freq_factor")
    ),
    "rope_proportional": RopeFormat(("proportional",), _read_proportional, _write_proportional),
    "rope_sections": RopeFormat(
        ("mrope",), _read_sections, _write_sections, mark="mrope_section"
    ),
}  # fmt: skip


def type_block(config: RopeConfig) -> Block | None:
    """Return rope_type and its keys; None where transformers has no rope_type for the config."""
    rope_format = FORMATS.get(config.kind)
    return None if rope_format is None else rope_format.write(config)


def rope_parameters(scheme: RopeConfig, *, share: float | None = None) -> Block:
    """Return the second generation's block of a scheme.

    share: rotated share of the head as the model counts it, by default the scheme's. NTK-aware scaling
    is written as its larger base. Raises SchemeArgumentError where transformers has no rope_type.
    """
    own = type_block(scheme)
    if own is None:
        rope_format = FORMATS.get(scheme.kind)
        of_kind = " of this kind" if rope_format and rope_format.types else ""
        raise SchemeArgumentError(
            f"transformers has no rope_type for {scheme.label}{of_kind}: it cannot be written as a config."
        )
    share = scheme.partial_rotary_factor if share is None else share
    block = {"rope_type": own["rope_type"], "rope_theta": scheme.base}
    return block | ({"partial_rotary_factor": share} if share != 1 else {}) | own


def second_generation(model_type: str, kinds: Schemes) -> Block:
    """Return `rope_parameters`, with an entry per kind of layer where the model's class has them."""
    schemes = _with_rope(kinds)
    if not schemes or model_type == "gptj":  # GPT-J's base is in its code
        return {}
    family = family_of(model_type)
    blocks = {name: _block(family, scheme) for name, scheme in schemes.items()}
    first = next(iter(blocks.values()))
    by_kind = "" not in family.bases
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
    if model_type == "gptj":
        (scheme,) = schemes.values()
        return {"rotary_dim": scheme.rotary_dim}
    family = family_of(model_type)
    keys: Block = {}
    for name, scheme in schemes.items():
        base, block = family.base_of(name), _block(family, scheme)
        if not base.names:
            raise SchemeArgumentError(f"{model_type} knows rope_parameters only.")
        own: Block = {base.names[0]: block.pop("rope_theta")}
        if "partial_rotary_factor" in block:
            own[family.share_names[0]] = block.pop("partial_rotary_factor")
        # null would mean the class's own block, where it has one (gpt-oss).
        scaling = None if block == {"rope_type": _DEFAULT} and not family.blocks else block
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


def read_block(block: Keys | None, around: Around) -> RopeConfig:
    """Return the RoPE config of a block, or of an absent one. Raises ConfigFileError."""
    keys = block or Keys({}, around.outer.path, around.outer)
    reader = BlockReader(keys, around)
    rope_type = _type(keys, around)
    kind = TYPES[rope_type]
    where = keys.path or "the config"
    try:
        for marked, rope_format in FORMATS.items():
            if rope_format.mark and (kind == marked or reader.has(rope_format.mark)):
                # Also checked where another type is the one that rotates text.
                config = rope_format.read(reader)
                if kind in (marked, RopeConfig.kind):
                    return config
        scheme = FORMATS[kind].read(reader)
        whole = around.heads.rope_dim
        if scheme.rotary_dim > whole:  # p-RoPE with a separate rotated part of the head
            raise keys.error(
                "rope_type",
                f"{rope_type} rotates a whole head of {scheme.rotary_dim}, of which this model rotates "
                f"{whole}",
            )
        return scheme
    except ConfigError as error:
        raise ConfigFileError(f"{where} cannot be used: {error}", where) from None


def _type(keys: Keys, around: Around) -> str:
    """Return the block's type, as transformers names it."""
    family, types = around.family, {}
    for name in ("rope_type", "type"):
        word = keys.text(name)
        if word is None:
            continue
        types[name] = family.types.get(word, ALIASES.get(word, word))
        allowed, why = family.takes, ", all that transformers takes for this model"
        if types[name] not in TYPES:
            allowed, why = (*TYPES, *ALIASES), ""
        if allowed and types[name] not in allowed:
            raise keys.error(name, f"must be one of {', '.join(allowed)}{why}, got {word!r:.60}")
    kinds = set(types.values())
    if len(kinds) == 2 and _DEFAULT in kinds:  # as transformers writes Qwen2-VL's
        (other,) = kinds - {_DEFAULT}
        kinds = {other} if FORMATS[TYPES[other]].mark else kinds
    if len(kinds) > 1:
        problem = f"says {types['type']}, but rope_type says {types['rope_type']}; they must agree"
        raise keys.error("type", problem)
    if kinds:
        return kinds.pop()
    scaling_keys = (key for entry in FORMATS.values() for key in entry.keys)
    first = next((key for key in scaling_keys if keys.record.get(key) is not None), None)
    if first is not None:
        problem = f"is missing beside {first}; it must be one of {', '.join(TYPES)}"
        raise keys.error("rope_type", problem)
    return _DEFAULT
