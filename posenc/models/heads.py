"""Heads of each kind of layer, what their cache holds of a token, and indexes that choose keys."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from posenc import fields, limits
from posenc.models.config_json import Keys, as_json
from posenc.models.families import FULL, INDEXED, SLIDING, RopeFamily
from posenc.models.layers import (
    EVEN_WIDTH_LIMIT,
    FIRST_LAYER_LIMIT,
    HEAD_LIMIT,
    HEAD_WIDTH_LIMIT,
    LAYER_LIMIT,
    WIDTH_LIMIT,
    Sizes,
    read_kv_heads,
    read_window,
)

_SIZES_OF_LATENT = ("num_attention_heads", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim")
_INDEX = fields.IntRange(low=1, high=limits.MAX_POSITION)


@dataclass(frozen=True, kw_only=True)
class CompressedCache:
    """Cache entries of groups of tokens, beside the tokens of a window.

    group: tokens per entry. width: numbers per entry. window: tokens that are cached one by one, the
    last ones. pending: numbers kept of each token of a group that is not full. carried: numbers kept of
    the last full group, for the next entry.
    """

    group: int
    width: int
    window: int
    pending: int
    carried: int = 0

    def numbers(self, length: int) -> int:
        """Return the numbers kept of all groups of `length` tokens."""
        entries, rest = divmod(length, self.group)
        return entries * self.width + rest * self.pending + min(entries, 1) * self.carried


@dataclass(frozen=True, kw_only=True)
class Heads:
    """The heads of one kind of layer.

    head_dim: width of a query. rope_dim: width of which a share is rotated. cache_width: numbers
    cached per token and layer.
    compressed: the cache entries that stand for several tokens each, None without such entries.
    """

    heads: int
    kv_heads: int
    head_dim: int
    rope_dim: int
    cache_width: int
    index_width: int = 0  # numbers of the cache that are of an index
    compressed: CompressedCache | None = None
    notes: tuple[str, ...] = ()


def heads_by_kind(
    keys: Keys, family: RopeFamily, sizes: Sizes, kinds: tuple[str, ...]
) -> Mapping[str, Heads]:
    """Return the heads of each kind of layer. kinds: the kind of every layer."""
    if family.latent:
        latent = dict.fromkeys(kinds, _latent_heads(keys, family, sizes))
        if SLIDING in kinds:
            latent[SLIDING] = _windowed_latent_heads(keys, family, kinds)
        return latent
    if family.compressed:
        return {kind: _compressed_heads(keys, family, sizes, kind) for kind in {*kinds}}
    value_width = sizes.head_dim
    if family.value_width is not None:
        value_width = keys.get("v_head_dim", HEAD_WIDTH_LIMIT, family.value_width, family.source)
    name = "num_attention_heads_per_layer"
    query_heads = keys.by_layer(name, sizes.layers, HEAD_LIMIT) or (sizes.heads,) * sizes.layers
    heads = {}
    for kind in dict.fromkeys(kinds):
        own = {count for count, other in zip(query_heads, kinds, strict=True) if other == kind}
        kv_heads = sizes.kv_heads * (family.windowed_kv if kind == SLIDING else 1)
        if len(own) > 1 or min(own) % kv_heads:
            raise keys.error(
                name, f"must give all {kind} layers one number, a multiple of {kv_heads:,}"
            )
        heads[kind] = _plain_heads(min(own), kv_heads, sizes.head_dim, value_width)
    if family.global_head_dim is not None and FULL in heads:
        heads[FULL] = _global_heads(keys, family, sizes, kinds)
    if family.index_word and INDEXED not in heads:
        keys.read.update(name for name in keys.record if name.startswith("index_"))
    if INDEXED in heads:
        width, note = _index(keys, family)
        heads[INDEXED] = replace(
            heads[INDEXED],
            cache_width=heads[INDEXED].cache_width + width,
            index_width=width,
            notes=(note,),
        )
    return heads


def _plain_heads(heads: int, kv_heads: int, head_dim: int, value_width: int) -> Heads:
    return Heads(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        rope_dim=head_dim,
        cache_width=kv_heads * (head_dim + value_width),
    )


# Defaults of qk_rope_head_dim and kv_lora_rank that are not DeepSeek's.
_LATENT_WIDTHS = {
    "AXK2Config": (32, 128), "MiniCPM3Config": (32, 256), "Mistral4Config": (64, 256),
}  # fmt: skip


def _latent_heads(keys: Keys, family: RopeFamily, sizes: Sizes) -> Heads:
    # DeepSeek: a part of each head is rotated, and all heads share its key.
    why = family.source
    widths = _LATENT_WIDTHS.get(family.config_class, (64, 512))
    rotated = keys.get("qk_rope_head_dim", EVEN_WIDTH_LIMIT, widths[0], why)
    unrotated = keys.get("qk_nope_head_dim", EVEN_WIDTH_LIMIT, family.unrotated, why)
    latent = keys.get("kv_lora_rank", WIDTH_LIMIT, widths[1], why)
    keys.read.add("v_head_dim")  # values come from the latent vector, whatever their width
    keys.read.add("qk_head_dim")  # the sum of the two
    entry = keys.find("head_dim")
    # In Bailing's hybrids it is the head width of the layers with a state, in dots3-note of no layer.
    has_own_width = family.state or family.config_class == "Dots3NoteTextConfig"
    if not has_own_width and entry is not None and entry[1] not in (rotated, unrotated + rotated):
        raise keys.error(
            "head_dim",
            f"must be qk_rope_head_dim {rotated} or absent: this class sets it so, got {as_json(entry[1])}",
        )
    index, notes = 0, [_latent_note(rotated, unrotated, latent)]
    if family.rotates == "never":
        notes[0] = (
            notes[0]
            .replace("are rotated", "are not rotated either")
            .replace("rotated key", "key of these")
        )
    if family.index_word:
        index, note = _index(keys, family)
        notes.append(note)
    return Heads(
        heads=sizes.heads,
        kv_heads=sizes.kv_heads,
        head_dim=unrotated + rotated,
        rope_dim=rotated,
        cache_width=latent + rotated + index,
        index_width=index,
        notes=tuple(notes),
    )


def _latent_note(rotated: int, unrotated: int, latent: int) -> str:
    return (
        f"The last {rotated} features of a head of {unrotated + rotated} are rotated, and all heads "
        f"share the rotated key; a token's cache is one latent vector of {latent} and that key."
    )


def _windowed_latent_heads(keys: Keys, family: RopeFamily, kinds: tuple[str, ...]) -> Heads:
    # dots3-note: layers with a window have sizes of their own.
    per_layer, prefix, why = keys.section("per_layer_config"), "swa_", family.source
    defaults: tuple[int, ...] = (64, 1_024, 192, 64)
    if per_layer is not None:
        windowed = {index for index, kind in enumerate(kinds) if kind == SLIDING}
        names = {int(name): name for name in per_layer.record if name.isdecimal()}
        first = next(iter(per_layer.record.values()))
        if {*names} != windowed or any(value != first for value in per_layer.record.values()):
            raise keys.error(
                "per_layer_config",
                "must give all layers with a window, and no others, the same sizes",
            )
        section = per_layer.section(names[min(windowed)])
        whole = zip(_SIZES_OF_LATENT, (128, 512, 128, 64), strict=True)  # of the other layers
        defaults = tuple(keys.get(name, WIDTH_LIMIT, default) for name, default in whole)
        keys, prefix, why = section or Keys({}), "", ""
    rules = (HEAD_LIMIT, WIDTH_LIMIT, EVEN_WIDTH_LIMIT, EVEN_WIDTH_LIMIT)
    heads, latent, unrotated, rotated = (
        keys.get(prefix + name, rule, default, why)
        for name, rule, default in zip(_SIZES_OF_LATENT, rules, defaults, strict=True)
    )
    for name, value in (("head_dim", unrotated + rotated), ("num_key_value_heads", heads)):
        if keys.optional(prefix + name, WIDTH_LIMIT) not in (None, value):
            raise keys.error(prefix + name, f"must be {value} or absent")
    keys.read |= {"swa_v_head_dim", "v_head_dim", "q_lora_rank", "swa_q_lora_rank"}
    return Heads(
        heads=heads,
        kv_heads=heads,
        head_dim=unrotated + rotated,
        rope_dim=rotated,
        cache_width=latent + rotated,
        notes=(_latent_note(rotated, unrotated, latent),),
    )


def _compressed_heads(keys: Keys, family: RopeFamily, sizes: Sizes, kind: str) -> Heads:
    # DeepSeek V4: one vector is key and value of all heads; layers other than those with a window alone
    # also see an entry for each group of tokens.
    width, window = sizes.head_dim, read_window(keys, family)
    if sizes.kv_heads != 1 or window is None:
        raise keys.error("num_key_value_heads", f"must be 1, got {sizes.kv_heads:,}")
    index, note = _index(keys, family)
    groups = {name: _tokens_per_entry(keys, family, name) for name in family.compressed}
    own = Heads(
        heads=sizes.heads,
        kv_heads=1,
        head_dim=width,
        rope_dim=width,
        cache_width=width,
        notes=(
            "The rotated features are the last ones of a head. One vector per token is the key and the "
            "value of all heads; the output is rotated back by the position of the query.",
            "Each head has a learned logit more in its softmax, the attention sink.",
        ),
    )
    if kind not in groups:
        return own
    group, is_indexed = groups[kind], kind == next(iter(groups))
    # Values and the logits of their weights, for the entry of a group and, with an index, for the next.
    parts = 2 * (width + (index if is_indexed else 0))
    of = "its group and of the group before" if is_indexed else "its group"
    return replace(
        own,
        compressed=CompressedCache(
            group=group,
            width=width + (index if is_indexed else 0),
            window=window,
            pending=2 * parts if is_indexed else parts,
            carried=parts * group if is_indexed else 0,
        ),
        notes=(
            *own.notes,
            f"A query sees the last {window:,} tokens one by one, and an entry for every full group of "
            f"{group:,} tokens: a learned mean of {of}. Entry i is rotated at position {group:,} i.",
            *((note,) if is_indexed else ()),
        ),
    )


def _tokens_per_entry(keys: Keys, family: RopeFamily, kind: str) -> int:
    """Return how many tokens one cache entry stands for in a kind of layer."""
    short = dict(zip(family.compressed, ("csa", "hca"), strict=True))[kind]
    rates = keys.section("compress_rates")
    default = family.compressed[kind]
    tokens: int = default if rates is None else rates.get(kind, _INDEX)
    name = f"compress_rate_{short}"
    own: int = keys.get(name, _INDEX, tokens)
    if rates is not None and own != tokens:
        raise keys.error(name, f"must agree with compress_rates, which says {tokens:,}")
    return own


def _index(keys: Keys, family: RopeFamily) -> tuple[int, str]:
    """Return the numbers that an index caches per token, and what it chooses, as a sentence."""
    why = family.source
    keys.read |= {"index_n_heads", "index_local_blocks", "indexer_n_heads", "indexer_kv_heads"}
    if family.config_class == "MiniMaxM3VLTextConfig":
        section = keys.section("sparse_attention_config") or Keys({})
        names = (
            ("index_head_dim", "sparse_index_dim", 128),
            ("index_topk_blocks", "sparse_topk_blocks", 16),
            ("index_block_size", "sparse_block_size", 128),
        )
        width, blocks, size = (
            section.optional(inner, _INDEX) or keys.get(outer, _INDEX, default, why)
            for outer, inner, default in names
        )
        chosen = f"for each group of heads the {blocks} blocks of {size:,} tokens"
    elif family.config_class == "Qwen4ExpTextConfig":
        width = keys.get("indexer_head_dim", _INDEX)
        seen, size = (
            keys.get(name, _INDEX) for name in ("indexer_budget", "indexer_compress_ratio")
        )
        chosen = f"the {seen:,} tokens, in blocks of {size:,},"
    else:
        width = keys.get("index_head_dim", _INDEX, 128, why)
        several, default = ("entries", 512) if family.compressed else ("tokens", 2_048)
        chosen = f"the {keys.get('index_topk', _INDEX, default, why):,} {several}"
    of = "entry" if family.compressed else "token"
    return width, (
        f"An index chooses {chosen} that a query sees, by their content; its key of {width} numbers per "
        f"{of} is cached and rotated, too."
    )


def _global_heads(keys: Keys, family: RopeFamily, sizes: Sizes, kinds: tuple[str, ...]) -> Heads:
    # Gemma 4: layers of full attention have wider heads, and may have fewer key heads.
    per_layer = keys.section("per_layer_config")
    if per_layer is None:
        name = "num_global_key_value_heads"
        width = keys.get("global_head_dim", HEAD_WIDTH_LIMIT, family.global_head_dim, family.source)
        if family.encoder:  # EmbeddingGemma 2
            kv_heads = read_kv_heads(keys, name, sizes.heads, 1, family.source)
            return _plain_heads(sizes.heads, kv_heads, width, width)
        has_own = keys.optional(name, HEAD_LIMIT) and keys.flag("attention_k_eq_v", False)
        kv_heads = read_kv_heads(keys, name, sizes.heads) if has_own else sizes.kv_heads
        return _plain_heads(sizes.heads, kv_heads, width, width)
    sections = {
        int(name): per_layer.section(name) for name in filter(str.isdecimal, per_layer.record)
    }
    variants = set()
    for index in (index for index, kind in enumerate(kinds) if kind == FULL):
        layer = sections.get(index)
        width, kv_heads = sizes.head_dim, sizes.kv_heads
        if layer is not None:
            width = layer.get("head_dim", HEAD_WIDTH_LIMIT, width)
            kv_heads = read_kv_heads(layer, "num_key_value_heads", sizes.heads, kv_heads)
        variants.add((kv_heads, width))
    if len(variants) != 1:
        raise keys.error(
            "per_layer_config", "must give all layers of full attention the same heads"
        )
    kv_heads, width = variants.pop()
    return _plain_heads(sizes.heads, kv_heads, width, width)


def index_by_layer(keys: Keys, family: RopeFamily, layers: int) -> tuple[bool, ...]:
    """Return whether each layer has an index of its own, or uses what an earlier one chose."""
    if family.config_class not in ("GlmMoeDsaConfig", "HYV4Config"):
        return (True,) * layers
    listed = keys.by_layer("indexer_types", layers, fields.Choice(options=("full", "shared")))
    interval, offset = 4, 2
    if family.config_class == "GlmMoeDsaConfig":
        interval = keys.get("index_topk_freq", LAYER_LIMIT, 1)
        offset = keys.get("index_skip_topk_offset", FIRST_LAYER_LIMIT, 2)
    if listed is not None:
        return tuple(word == "full" for word in listed)
    return tuple(max(index - offset + 1, 0) % interval == 0 for index in range(layers))
