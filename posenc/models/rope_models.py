"""A model with RoPE, read by its configuration class, or by its keys alone where that is unknown.

GPT-J: RoPE on the first rotary_dim features of a head, in neighbouring pairs, with a fixed base.
"""

import dataclasses
from typing import Any

from posenc import fields, limits
from posenc.errors import ConfigError
from posenc.models.config_json import Keys
from posenc.models.families import FAMILIES, FULL, NO_ROPE, SIZES, SLIDING, RopeFamily
from posenc.models.layers import (
    EVEN_WIDTH_LIMIT,
    HEAD_LIMIT,
    LAYER_LIMIT,
    LENGTH_LIMIT,
    WIDTH_LIMIT,
    Heads,
    Sizes,
    divided_width,
    grouped,
    heads_by_layer,
    is_bidirectional,
    layer_words,
    read_sizes,
    read_window,
    rope_layers,
)
from posenc.models.model_config import LayerKind, ModelConfig
from posenc.models.rope_block import Around, told_trained_length
from posenc.models.rope_formats import read_block
from posenc.schemes.base import NoneConfig, SchemeConfig
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling.yarn import attention_scale

BASE = 10_000.0  # written into the code of GPT-J; no key changes it


def read_gptj(model_type: str, keys: Keys) -> ModelConfig:
    """Return what a GPT-J config says. Raises ConfigFileError."""
    why = "the default of transformers' GPTJConfig"
    hidden_names, head_names = ("n_embd", "hidden_size"), ("n_head", "num_attention_heads")
    hidden = keys.whole(hidden_names, 4_096, why, WIDTH_LIMIT)
    layers = keys.whole(("n_layer", "num_hidden_layers"), 28, why, LAYER_LIMIT)
    heads = keys.whole(head_names, 16, why, HEAD_LIMIT)
    context = keys.whole(("n_positions", *SIZES["context"][:1]), 2_048, why, LENGTH_LIMIT)
    head_dim = divided_width(keys, hidden_names, hidden, head_names, heads)
    rotary = keys.whole("rotary_dim", 64, why, EVEN_WIDTH_LIMIT)
    if rotary > head_dim:
        raise keys.error("rotary_dim", f"must be at most the head width {head_dim}, got {rotary}")
    try:
        scheme = RopeConfig(
            dim=head_dim,
            base=BASE,
            layout="interleaved",
            partial_rotary_factor=rotary / head_dim,
        )
    except ConfigError as error:
        raise keys.error("rotary_dim", f"cannot be used: {str(error).rstrip('.')}") from None
    kind = LayerKind(
        name="all",
        layers=tuple(range(layers)),
        scheme=scheme,
        heads=heads,
        kv_heads=heads,
        head_dim=head_dim,
        cache_width=2 * hidden,
        softmax_scale=head_dim**-0.5,
    )
    return ModelConfig(
        model_type=model_type,
        hidden_size=hidden,
        layers=layers,
        context=context,
        trained_length=None,
        layer_kinds=(kind,),
        notes=(
            "Pairs are neighbouring features, as in the paper.",
            "The base 10,000 is written into the model's code; no key changes it.",
        ),
    )


NEW, OLD = "rope_parameters", "rope_scaling"


def read_rope_model(model_type: str, keys: Keys) -> ModelConfig:
    """Return what a config with RoPE says, by Llama's keys where there is no such type."""
    family = FAMILIES.get(model_type)
    sizes = read_sizes(keys, family)
    words = layer_words(keys, family, sizes.layers)
    _skip_unused_kinds(keys, words)
    uses_rope = rope_layers(keys, family, sizes.layers)
    window = read_window(keys, family)
    heads = heads_by_layer(keys, family, sizes, words)
    kinds = []
    for name, indices in grouped(words, uses_rope).items():
        word = words[indices[0]]
        if word != FULL and window is None:
            without = family is not None and family.windows == "none"
            why = f"the class of {model_type} has none" if without else "sliding_window is absent"
            raise keys.error("layer_types", f"names {word} layers, but no window is given: {why}")
        own = heads[word]
        scheme: SchemeConfig = NoneConfig()
        factor = 1.0
        if uses_rope[indices[0]]:
            scheme = _scheme(keys, family, sizes, own, word)
            factor = _latent_factor(family, scheme)
        kinds.append(
            LayerKind(
                name=name,
                layers=indices,
                scheme=scheme,
                heads=sizes.heads,
                kv_heads=own.kv_heads,
                head_dim=own.head_dim,
                cache_width=0 if is_bidirectional(keys, family) else own.cache_width,
                softmax_scale=_softmax_scale(keys, family, own.head_dim) * factor,
                window=None if word == FULL else window,
                notes=(*own.notes, *(family.notes if family else ())),
            )
        )
    kinds.sort(key=lambda kind: (kind.window is not None, NO_ROPE in kind.name, kind.layers))
    return ModelConfig(
        model_type=model_type,
        hidden_size=sizes.hidden_size,
        layers=sizes.layers,
        context=sizes.context[1],
        trained_length=_trained_length(keys),
        layer_kinds=tuple(kinds),
        notes=_notes(keys, family, kinds, sizes),
    )


def _skip_unused_kinds(keys: Keys, words: tuple[str, ...]) -> None:
    """Count the rope blocks of kinds that no layer is of as read."""
    block = keys.section(NEW)
    for word in (FULL, SLIDING):
        if block and word not in words and isinstance(block.record.get(word), dict):
            unused = block.section(word)
            if unused:
                unused.read.update(unused.record)


def _scheme(
    keys: Keys, family: RopeFamily | None, sizes: Sizes, own: Heads, word: str
) -> RopeConfig | NoneConfig:
    """Return the scheme of one kind of layer, which both generations must agree on if both stand."""
    bases = family.bases if family else FAMILIES["llama"].bases
    base = bases.get(word) or bases.get("") or bases[FULL]
    around = Around(
        outer=keys,
        base_names=base.names,
        base=base.default,
        share_names=family.share_names if family else ("partial_rotary_factor",),
        share=family.share if family else 1.0,
        dim=own.head_dim,
        ladder_dim=own.ladder_dim,
        layout=_layout(keys, family),
        context=sizes.context,
        trained_length=family.trained_length if family else None,
        block_defaults=family.block_defaults if family else {},
        types=family.types if family else {},
        takes=family.takes if family else (),
        why=family.source if family else "the default of transformers' RopeParameters",
    )
    new, entry_is_null = _entry(keys, word, "" in bases)
    if entry_is_null:
        return NoneConfig()
    old = keys.section(OLD) if base.scaled else None
    if new is None and old is None:
        default = family.blocks.get(word, family.blocks.get("")) if family else None
        if default:
            kind = default["rope_type"]
            keys.assume(f"{keys.named(NEW)} is absent: {kind} scaling is taken, {around.why}.")
            return read_block(Keys(dict(default), "", keys), around)
        return read_block(None, around)
    found = [read_block(block, around) for block in (new, old) if block is not None]
    if found[0] != found[-1]:
        raise keys.error(
            OLD,
            f"and {keys.named(NEW)} are both given and do not agree ({_difference(*found)}); keep one "
            "of them",
        )
    return found[0]


def _difference(one: RopeConfig, other: RopeConfig) -> str:
    if type(one) is not type(other):
        return f"{other.label} against {one.label}"
    names = [field.name for field in dataclasses.fields(one)]
    name = next(name for name in names if getattr(one, name) != getattr(other, name))
    return f"{name} {getattr(other, name)!r:.40} against {getattr(one, name)!r:.40}"


def _entry(keys: Keys, word: str, one_for_all: bool) -> tuple[Keys | None, bool]:
    """Return the second-generation block of a kind of layer, and whether it is null: no RoPE there."""
    block = keys.section(NEW)
    if block is None:
        return None, False
    nested = any(isinstance(value, dict) for value in block.record.values())
    if nested:
        if word not in block.record:
            if not one_for_all:
                return None, False  # these classes fill a kind that is left out with their default
            raise block.error(word, "is missing: the layers of this kind have no rope parameters")
        if block.record[word] is None:
            block.find(word)
            return None, not one_for_all
        return block.section(word), False
    if one_for_all:
        return block, False
    raise keys.error(
        NEW, f"must have one entry per kind of layer, such as {word}, each an object in braces"
    )


def _layout(keys: Keys, family: RopeFamily | None) -> Any:
    if family is not None and family.config_class == "DeepseekV3Config":
        return "interleaved" if keys.flag("rope_interleave", True, "") else "half"
    return family.layout if family else "half"


def _softmax_scale(keys: Keys, family: RopeFamily | None, head_dim: int) -> float:
    """Return what q . k is multiplied by."""
    if family is None:
        return head_dim**-0.5
    if family.softmax_scale is not None:
        return family.softmax_scale
    if family.scale_key:
        return keys.real(family.scale_key, 1.0, family.source, _POSITIVE)
    if family.scalar is not None:
        name = "query_pre_attn_scalar"
        return float(keys.real(name, family.scalar, family.source, _POSITIVE) ** -0.5)
    return head_dim**-0.5


def _latent_factor(family: RopeFamily | None, scheme: SchemeConfig) -> float:
    """Return g(s, mscale_all_dim)^2, by which DeepSeek multiplies its softmax scale."""
    weight = getattr(scheme, "mscale_all_dim", 0.0)
    if family is None or not family.latent or not weight:
        return 1.0
    return attention_scale(getattr(scheme, "factor", 1.0), weight) ** 2


def _trained_length(keys: Keys) -> int | None:
    """Return the trained length that the config says, of any of its rope blocks."""
    found = None
    for name in (NEW, OLD):
        block = keys.section(name)
        inner = [block] if block else []
        if block and any(isinstance(value, dict) for value in block.record.values()):
            inner = [part for part in map(block.section, block.record) if part]
        for part in inner:
            found = found or told_trained_length(part, keys)
    return found or told_trained_length(None, keys)


def _notes(
    keys: Keys, family: RopeFamily | None, kinds: list[LayerKind], sizes: Sizes
) -> tuple[str, ...]:
    notes = []
    layout = {kind.scheme.layout for kind in kinds if isinstance(kind.scheme, RopeConfig)}
    if layout == {"half"}:
        notes.append("Pairs are the features m and m + half of the rotated width, as in GPT-NeoX.")
    elif layout:
        notes.append("Pairs are neighbouring features, as in the paper.")
    for kind in kinds:
        scheme = kind.scheme
        reach = scheme.made_for if isinstance(scheme, RopeConfig) else None
        if reach is not None and reach > sizes.context[1]:
            notes.append(
                f"The scaling of {kind.name} layers is made for {reach:,.0f} tokens, more than "
                f"{sizes.context[0]} {sizes.context[1]:,}."
            )
    if is_bidirectional(keys, family):
        notes.append("Every token sees both sides: nothing is cached.")
    return tuple(dict.fromkeys(notes))


_POSITIVE = fields.FloatRange(low=0.0, high=float(limits.MAX_MODEL_WIDTH), closed=False, label="")
