"""RoPE blocks of two generations, as transformers reads them, from schemes.

A first-generation block is `rope_scaling`, with the base and the rotated share outside of it; a
second-generation block is `rope_parameters`, which holds them.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from posenc import fields, limits
from posenc.errors import SchemeArgumentError
from posenc.models.family import row_of
from posenc.models.rope_bases import Base, base_of, bases_of
from posenc.models.rope_types import (
    DEFAULT,
    FACTOR_LISTS,
    ROPE_TYPES,
    SECTIONS,
    SHARE_KEY,
    THETA,
    TRAINED,
)
from posenc.schemes.base import SchemeConfig
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling.longrope import RopeLongConfig
from posenc.schemes.rope_scaling.ntk import RopeNtkConfig
from posenc.schemes.rope_scaling.sections import RopeSectionsConfig
from posenc.schemes.rope_scaling.yarn import attention_scale

Block = dict[str, Any]
Schemes = Sequence[tuple[str, SchemeConfig | None]]  # each with the word of its kind of layer


def type_block(config: RopeConfig) -> Block | None:
    """Return rope_type and its keys; None where transformers has no rope_type for the config."""
    entry = ROPE_TYPES.get(config.kind)
    if entry is None:
        return None
    if isinstance(config, RopeNtkConfig) and not entry.words:
        return {"rope_type": DEFAULT, THETA: config.larger_base}
    if isinstance(config, RopeSectionsConfig):
        return _sections_block(config)
    default = fields.defaults(config)
    changed = (name for name in entry.changed if getattr(config, name) != default[name])
    block = {
        TRAINED if name == "trained_length" else name: getattr(config, name)
        for name in (*entry.always, *changed)
    }
    if isinstance(config, RopeLongConfig):
        lists = {name: list(block[name]) for name in FACTOR_LISTS}
        if not all(lists.values()):
            return None  # the factors of an example
        pairs = config.rotary_dim // 2
        block |= {name: each if len(each) > 1 else each * pairs for name, each in lists.items()}
    return {"rope_type": entry.words[0]} | block


def _sections_block(config: RopeSectionsConfig) -> Block:
    block: Block = {"rope_type": DEFAULT, SECTIONS: list(config.sizes)}
    return block | {"mrope_interleaved": True} if config.interleaved else block


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
        entry = ROPE_TYPES.get(scheme.kind)
        of_kind = " of this kind" if entry and entry.words else ""
        raise SchemeArgumentError(
            f"transformers has no rope_type for {scheme.label}{of_kind}: it cannot be written as a config."
        )
    share = scheme.partial_rotary_factor if share is None else share
    block = {"rope_type": own["rope_type"], THETA: scheme.base}
    return block | ({SHARE_KEY: share} if share != 1 else {}) | own


def second_generation(model_type: str, kinds: Schemes, kept: Mapping[str, float]) -> Block:
    """Return `rope_parameters`, with an entry per kind of layer where the model's class has them.

    kept: what every block of the class has beside its scheme.
    """
    row, schemes = row_of(model_type), _with_rope(kinds)
    if not schemes or "rope" not in row:  # else the base is in the code of the class
        return {}
    rope, blocks = row["rope"], dict[str, Block]()
    for word, scheme in schemes:
        block = {**kept, **_block(rope, scheme)}
        if blocks.setdefault(word, block) != block:
            return {}  # several bases stand in the list layer_rope_theta
    first = next(iter(blocks.values()))
    by_kind = "" not in bases_of(rope)
    if "layer_bases" in row and len({block[THETA] for block in blocks.values()}) > 1:
        return {}
    if by_kind or any(block != first for block in blocks.values()):
        return blocks | {word: None for word, _ in kinds if by_kind and word not in blocks}
    return first


def first_generation(model_type: str, kinds: Schemes, kept: Mapping[str, float]) -> Block:
    """Return rope_theta, rope_scaling and related keys, as the model's class names them.

    kept: what every block of the class has beside its scheme. Raises SchemeArgumentError where the first
    generation cannot express the model's schemes.
    """
    row, schemes = row_of(model_type), _with_rope(kinds)
    if not schemes:
        return {}
    if "rope" not in row:
        width = {"rotary_dim": schemes[0][1].rotary_dim}
        return width if "rotary_dim" in row["defaults"] else {}
    rope, bases = row["rope"], bases_of(row["rope"])
    if not any(base.names or base.takes_scaling for base in bases.values()):
        raise SchemeArgumentError(f"{model_type} knows rope_parameters only.")
    keys: Block = {}
    for word, scheme in schemes:
        base, block = base_of(bases, word), {**kept, **_block(rope, scheme)}
        for key, value in _outer_keys(rope, base, block, word, model_type).items():
            if keys.setdefault(key, value) != value:
                raise SchemeArgumentError(f"the first generation has one {key} for all layers.")
    trained = (keys.get("rope_scaling") or {}).get(TRAINED)
    if "trained_length" in rope and trained is not None:
        keys[TRAINED] = trained  # Phi-3's class takes the one outside of the block first
    return keys


def _outer_keys(
    rope: Mapping[str, Any], base: Base, block: Block, word: str, model_type: str
) -> Block:
    """Return the first generation's keys of one kind of layer.

    rope: of the row of the class. block: of the second generation, which is taken apart.
    """
    keys: Block = {}
    theta, share_names = block.pop(THETA), rope.get("share_names", (SHARE_KEY,))
    if SHARE_KEY in block and share_names:
        keys[share_names[0]] = block.pop(SHARE_KEY)
    # null would mean the class's own block, where it has one (gpt-oss).
    scaling = None if block == {"rope_type": DEFAULT} and not rope.get("blocks") else block
    if names := base.names if scaling is None else base.block_names:
        keys[names[0]] = theta
    elif theta != base.default:
        raise SchemeArgumentError(
            f"the first generation has no base of the {word} layers of {model_type}."
        )
    if base.takes_scaling:
        keys["rope_scaling"] = scaling
    elif scaling is not None:
        raise SchemeArgumentError(
            f"the first generation cannot scale the {word} layers of {model_type}."
        )
    return keys


def _with_rope(kinds: Schemes) -> list[tuple[str, RopeConfig]]:
    return [(word, scheme) for word, scheme in kinds if isinstance(scheme, RopeConfig)]


def _block(rope: Mapping[str, Any], scheme: RopeConfig) -> Block:
    if rope.get("share") is None:  # the class rotates all of what it counts as a head
        return rope_parameters(scheme, share=1.0)
    block = rope_parameters(scheme)
    if rope["share"] != 1:
        block.setdefault(SHARE_KEY, 1.0)  # else the class would take its own
    return block
