"""One rope block of a config, of either generation, read as a RoPE config.

A first-generation block is `rope_scaling` with the base and the rotated share beside it; a second-
generation block is `rope_parameters`, which holds them. Which keys a type takes, each scaling says in
its own file; here is only which of them is meant.

One key means more here than in transformers 5.23. Where the blocks of several kinds of layers are nested
in rope_parameters, `truncate` of YaRN is read from the block that it stands in. Its
`_compute_yarn_parameters` looks for it beside those blocks, and so rounds the ramp's ends whatever the
block says. Ours is what the key says; the ladder of such a model in transformers differs from it.

RoPE configs written back as a config.json has them, in both generations of its keys.
"""

from collections.abc import Mapping

from posenc.errors import ConfigError, ConfigFileError, SchemeArgumentError
from posenc.models.config_json import Keys
from posenc.models.families import FAMILIES, FULL, Base, RopeFamily
from posenc.models.rope_block import Around, BlockReader
from posenc.schemes import SCHEMES
from posenc.schemes.base import SchemeConfig
from posenc.schemes.known_rope import TRAINED, Block
from posenc.schemes.rope import RopeConfig

Schemes = Mapping[str, SchemeConfig | None]  # by the name of the kind of layer


def rope_parameters(scheme: RopeConfig, *, share: float | None = None) -> Block:
    """Return the second generation's block of a scheme: rope_type, rope_theta and what the type needs.

    share: rotated share of the head as the model counts it, where that is not the scheme's own. NTK-aware
    scaling is written as the larger base that it is. Raises SchemeArgumentError for a scheme that
    transformers has no rope_type for.
    """
    words = scheme.to_block()
    if words is None:
        raise SchemeArgumentError(
            f"transformers has no rope_type for {scheme.label}"
            f"{' of this kind' if scheme.block_types else ''}: it cannot be written as a config."
        )
    share = scheme.partial_rotary_factor if share is None else share
    block = {"rope_type": words["rope_type"], "rope_theta": scheme.base}
    return block | ({"partial_rotary_factor": share} if share != 1 else {}) | words


def second_generation(model_type: str, kinds: Schemes) -> Block:
    """Return `rope_parameters`; one entry per kind of layer where the model's class has them so."""
    schemes = _with_rope(kinds)
    if not schemes or model_type == "gptj":  # GPT-J's base is in its code
        return {}
    family = FAMILIES.get(model_type)
    blocks = {name: _block(family, scheme) for name, scheme in schemes.items()}
    first = next(iter(blocks.values()))
    by_kind = family is not None and "" not in family.bases
    if by_kind or any(block != first for block in blocks.values()):
        return blocks | {name: None for name in kinds if by_kind and name not in blocks}
    return first


def first_generation(model_type: str, kinds: Schemes) -> Block:
    """Return rope_theta, rope_scaling and their like, as the model's class names them.

    Raises SchemeArgumentError where the first generation has no words for the model's schemes.
    """
    schemes = _with_rope(kinds)
    if not schemes:
        return {}
    if model_type == "gptj":
        (scheme,) = schemes.values()
        return {"rotary_dim": scheme.rotary_dim}
    family = FAMILIES.get(model_type)
    bases = family.bases if family else {"": Base(default=10_000.0)}
    found: Block = {}
    scaling: Block = {}
    for name, scheme in schemes.items():
        base = bases.get(name) or bases.get("") or bases[FULL]
        block = _block(family, scheme)
        if not base.names:
            raise SchemeArgumentError(f"{model_type} knows rope_parameters only.")
        written = {base.names[0]: block.pop("rope_theta")}
        if "partial_rotary_factor" in block:
            share_names = family.share_names if family else ("partial_rotary_factor",)
            written[share_names[0]] = block.pop("partial_rotary_factor")
        # null would mean the class's own block, where it has one (gpt-oss).
        plain = block == {"rope_type": "default"} and not (family and family.blocks)
        written["rope_scaling"] = None if plain else block
        if not base.scaled:
            if written.pop("rope_scaling") is not None:
                raise SchemeArgumentError(
                    f"the first generation cannot scale the {name} layers of {model_type}."
                )
        else:
            scaling.setdefault("rope_scaling", written["rope_scaling"])
            if scaling["rope_scaling"] != written["rope_scaling"]:
                raise SchemeArgumentError(
                    "the first generation has one rope_scaling for all layers."
                )
        for key, value in written.items():
            if found.setdefault(key, value) != value:
                raise SchemeArgumentError(f"the first generation has one {key} for all layers.")
    trained = (found.get("rope_scaling") or {}).get(TRAINED)
    if family is not None and family.trained_length is not None and trained is not None:
        found[TRAINED] = (
            trained  # Phi-3's class has one beside the block, and takes it before the block's
        )
    return found


def _with_rope(kinds: Schemes) -> dict[str, RopeConfig]:
    return {name: scheme for name, scheme in kinds.items() if isinstance(scheme, RopeConfig)}


def _block(family: RopeFamily | None, scheme: RopeConfig) -> Block:
    if (
        family is not None and family.share is None
    ):  # all of what the model counts as a head is rotated
        return rope_parameters(scheme, share=1.0)
    block = rope_parameters(scheme)
    if family is not None and family.share not in (None, 1.0):
        block.setdefault("partial_rotary_factor", 1.0)  # else the class would take its own
    return block


_KINDS = tuple(config for config in SCHEMES.values() if issubclass(config, RopeConfig))
_DEFAULT = RopeConfig.block_types[0]
# By transformers' own words, in the registry's order; the other words of each.
TYPES: Mapping[str, type[RopeConfig]] = {
    kind.block_types[0]: kind for kind in _KINDS if kind.block_types
}
ALIASES: Mapping[str, str] = {
    alias: kind.block_types[0] for kind in _KINDS for alias in kind.block_types[1:]
}
_SCALED = tuple(dict.fromkeys(key for kind in _KINDS for key in kind.block_keys))


def read_block(block: Keys | None, around: Around) -> RopeConfig:
    """Return the RoPE config of a block, or of none. Raises ConfigFileError, naming the key."""
    keys = block or Keys({}, around.outer.path, around.outer)
    reader = BlockReader(keys, around)
    kind = TYPES[_type(keys, around)]
    where = keys.path or "the config"
    try:
        for marked in _marked():
            if kind is marked or reader.has(marked.block_mark):
                # Checked beside another type, too, where text is turned by that type alone.
                found = marked.from_block(reader)
                if kind in (marked, RopeConfig):
                    return found
        scheme = kind.from_block(reader)
        if scheme.rotary_dim > around.ladder_dim:  # p-RoPE, where a part of the head is apart
            raise keys.error(
                "rope_type",
                f"{kind.block_types[0]} makes a ladder of a whole head of {scheme.rotary_dim}, of which "
                f"this model rotates {around.ladder_dim}",
            )
        return scheme
    except ConfigError as error:
        raise ConfigFileError(f"{where} cannot be used: {error}", where) from None


def _marked() -> tuple[type[RopeConfig], ...]:
    """Return the kinds whose blocks may be of type default, too."""
    return tuple(kind for kind in _KINDS if kind.block_mark)


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
        if around.takes and word not in around.takes:
            raise keys.error(
                name,
                f"must be one of {', '.join(around.takes)}, all that transformers takes for this model, "
                f"got {found[name]!r:.60}",
            )
    kinds = set(words.values())
    if len(kinds) == 2 and _DEFAULT in kinds:  # as transformers writes Qwen2-VL's
        other = (kinds - {_DEFAULT}).pop()
        kinds = {other} if TYPES[other].block_mark else kinds
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
    return _DEFAULT
