"""RoPE configs written back as a config.json has them, in both generations of its keys."""

from collections.abc import Mapping

from posenc.errors import SchemeArgumentError
from posenc.interop.models.families import FAMILIES, FULL, Base, RopeFamily
from posenc.schemes.known_rope import TRAINED, Block
from posenc.schemes.rope import RopeConfig
from posenc.schemes.scheme import SchemeConfig

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
