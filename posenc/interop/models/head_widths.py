"""Heads that differ between kinds of layers, and keys made from a latent vector."""

from collections.abc import Mapping
from dataclasses import dataclass

from posenc.interop.models.families import FULL, RopeFamily
from posenc.interop.models.keys import Keys
from posenc.interop.models.sizes import (
    EVEN_WIDTH_LIMIT,
    HEAD_LIMIT,
    HEAD_WIDTH_LIMIT,
    WIDTH_LIMIT,
    Sizes,
    check_groups,
)


@dataclass(frozen=True, kw_only=True)
class Heads:
    """The heads of one kind of layer.

    head_dim: width of query and key; ladder_dim: width that the rotated share is of; cache_width:
    numbers cached per token and layer.
    """

    kv_heads: int
    head_dim: int
    ladder_dim: int
    cache_width: int
    notes: tuple[str, ...] = ()


def heads_by_layer(
    keys: Keys, family: RopeFamily | None, sizes: Sizes, words: tuple[str, ...]
) -> Mapping[str, Heads]:
    """Return the heads of every kind of layer, by the config's word for it."""
    if family is not None and family.latent:
        return dict.fromkeys(words, _latent(keys, family, sizes))
    usual = _plain(sizes.kv_heads, sizes.head_dim)
    found = dict.fromkeys(words, usual)
    if family is not None and family.global_head_dim is not None and FULL in found:
        found[FULL] = _global(keys, family, sizes, words)
    return found


def _plain(kv_heads: int, head_dim: int) -> Heads:
    return Heads(
        kv_heads=kv_heads,
        head_dim=head_dim,
        ladder_dim=head_dim,
        cache_width=2 * kv_heads * head_dim,
    )


def _latent(keys: Keys, family: RopeFamily, sizes: Sizes) -> Heads:
    """DeepSeek's multi-head latent attention: a part of each head is rotated, and its key is shared."""
    why = family.source
    rotated = keys.whole("qk_rope_head_dim", 64, why, EVEN_WIDTH_LIMIT)
    plain = keys.whole("qk_nope_head_dim", 128, why, EVEN_WIDTH_LIMIT)
    latent = keys.whole("kv_lora_rank", 512, why, WIDTH_LIMIT)
    keys.find("v_head_dim")  # values are made from the latent vector, whatever their width
    keys.find("qk_head_dim")  # the sum of the two
    written = keys.find("head_dim")
    if written is not None and written[1] not in (rotated, plain + rotated):
        raise keys.error(
            "head_dim",
            f"must be qk_rope_head_dim {rotated} or absent: this class sets it so, got {written[1]!r:.40}",
        )
    return Heads(
        kv_heads=sizes.kv_heads,
        head_dim=plain + rotated,
        ladder_dim=rotated,
        cache_width=latent + rotated,
        notes=(
            f"The last {rotated} features of a head of {plain + rotated} are rotated, and all heads "
            f"share the rotated key; a token's cache is one latent vector of {latent} and that key.",
        ),
    )


def _global(keys: Keys, family: RopeFamily, sizes: Sizes, words: tuple[str, ...]) -> Heads:
    """Gemma 4: layers of full attention have wider heads, and may have fewer of keys and values."""
    head_dim, kv_heads = family.global_head_dim, sizes.kv_heads
    layers = keys.section("per_layer_config")
    if layers is None:
        head_dim = keys.whole("global_head_dim", head_dim, family.source, HEAD_WIDTH_LIMIT)
        told = keys.maybe_whole("num_global_key_value_heads", HEAD_LIMIT)
        if told is not None and keys.flag("attention_k_eq_v", False, ""):
            kv_heads = told
            check_groups(keys, "num_global_key_value_heads", kv_heads, sizes.heads)
        return _plain(kv_heads, head_dim)
    for layer_key in filter(str.isdigit, layers.record):
        layers.section(layer_key)  # that any layer is named is what counts, be it of another kind
    found = set()
    for index in (index for index, word in enumerate(words) if word == FULL):
        name = next((key for key in layers.record if key.isdigit() and int(key) == index), None)
        layer = layers.section(name) if name is not None else None
        width, groups = sizes.head_dim, sizes.kv_heads
        if layer is not None:
            width = layer.whole("head_dim", width, "", HEAD_WIDTH_LIMIT)
            groups = layer.whole("num_key_value_heads", groups, "", HEAD_LIMIT)
            check_groups(layer, "num_key_value_heads", groups, sizes.heads)
        found.add((groups, width))
    if len(found) != 1:
        raise keys.error(
            "per_layer_config", "must give all layers of full attention the same heads"
        )
    return _plain(*found.pop())
