"""Sizes, kinds of layers, windows and heads of a model, read from its config."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from posenc import fields, limits
from posenc.models.config_json import Keys, as_json
from posenc.models.families import CHUNKED, FULL, INDEXED, SLIDING, Family, RopeFamily
from posenc.text import count_of

MAX_LAYERS = 4_096
MAX_WIDTH = 2**20  # of a token vector
HEAD_LIMIT = fields.IntRange(low=1, high=limits.MAX_HEADS)
WIDTH_LIMIT = fields.IntRange(low=1, high=MAX_WIDTH)
LAYER_LIMIT = fields.IntRange(low=1, high=MAX_LAYERS)
LENGTH_LIMIT = fields.IntRange(low=2, high=limits.MAX_POSITION)
EVEN_WIDTH_LIMIT = fields.IntRange(low=2, high=limits.MAX_DIM, multiple_of=2)
HEAD_WIDTH_LIMIT = fields.IntRange(low=2, high=limits.MAX_DIM)
_INDEX = fields.IntRange(low=1, high=limits.MAX_POSITION)
_WINDOW = fields.IntRange(low=1, high=limits.MAX_POSITION)
_KIND = fields.Choice(options=(FULL, SLIDING))
_CHUNKED_KIND = fields.Choice(options=(FULL, CHUNKED))
_SWITCH = fields.IntRange(low=0, high=1)
_ORDER_OF_KINDS = re.compile(
    r"pattern|every_n|interval|layers?_block_type|attn_type|attention_types|layer_group|layer_period"
)
_FIRST_LAYER = fields.IntRange(low=0, high=MAX_LAYERS)


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The sizes of a model. context: the length that the config names under `context_key`, 0 for none."""

    hidden_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    context: int = 0
    context_key: str = ""


def read_sizes(keys: Keys, family: Family) -> Sizes:
    """Return the sizes of a model."""
    names, why, context, context_key = family.names, family.source, 0, ""
    hidden = keys.get(names.hidden_size, WIDTH_LIMIT, family.hidden_size, why)
    listed = keys.record.get("layers_block_type")  # Nemotron-H's class counts its entries
    count = len(listed) if isinstance(listed, list) else family.layers
    layers = keys.get(names.layers, LAYER_LIMIT, count, why)
    if family.config_class == "JetMoeConfig":  # a router chooses the heads of each expert
        heads = keys.get("num_experts_per_tok", HEAD_LIMIT, 2, why)
        heads *= keys.get("num_key_value_heads", HEAD_LIMIT, family.kv_heads, why)
        keys.read.add(names.heads[0])  # the class overwrites it
    else:
        heads = keys.get(names.heads, HEAD_LIMIT, family.heads, why)
    if names.context:
        context = keys.get(names.context, LENGTH_LIMIT, family.context, why)
        context_key = keys.named(keys.name(names.context))
    if family.config_class in ("HrmTextConfig", "LongcatFlashConfig"):
        layers = _runs(keys, family, layers)
    kv_heads = _kv_heads(keys, family, heads)
    has_key = family.head_dim_key and keys.find(names.head_dim) is not None
    if has_key or family.head_dim is not None:
        head_dim = keys.get(names.head_dim, HEAD_WIDTH_LIMIT, family.head_dim, why)
    else:
        width = hidden
        if family.config_class.startswith(
            "Zamba"
        ):  # attention sees a layer's input and the embedding
            width = 2 * hidden
            keys.read |= {"kv_channels", "num_query_groups", "hybrid_layer_ids"}  # overwritten
        head_dim = width // heads
        is_latent = isinstance(family, RopeFamily) and family.latent  # with widths of its own
        if not is_latent and (width % heads or not 2 <= head_dim <= limits.MAX_DIM):
            raise keys.error(
                keys.name(names.heads),
                f"must divide {keys.name(names.hidden_size)} {width:,} into heads of 2 to "
                f"{limits.MAX_DIM:,}, got {heads:,}",
            )
        entry = keys.find("head_dim")
        if entry is not None and entry[1] != head_dim:
            raise keys.error(
                "head_dim",
                f"must be {head_dim}, which is hidden size / heads, or absent: this class has no such "
                f"key, got {as_json(entry[1])}",
            )
    for name in ("kv_channels", "attention_head_dim"):  # as Megatron and NVIDIA's Nemotron call it
        if keys.record.get(name) == head_dim:
            keys.read.add(name)
    return Sizes(
        hidden_size=hidden,
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        context=context,
        context_key=context_key,
    )


def _runs(keys: Keys, family: Family, layers: int) -> int:
    """Return how many attentions a token passes where a layer has several, each with its own cache."""
    name, why = keys.name(family.names.layers), family.source
    if (
        family.config_class == "LongcatFlashConfig"
    ):  # num_hidden_layers counts them, num_layers does not
        runs = layers if name == "num_hidden_layers" else 2 * layers
    else:
        keys.read |= {"prefix_lm", "num_layers_per_stack"}
        cycles = keys.get("H_cycles", LAYER_LIMIT, 2, why)
        runs = layers * cycles * (keys.get("L_cycles", LAYER_LIMIT, 3, why) + 1)
        if keys.optional("num_layers_per_stack", LAYER_LIMIT) is not None:
            runs = layers  # which num_hidden_layers already counts
    if runs > MAX_LAYERS or (runs % 2 and family.config_class == "LongcatFlashConfig"):
        raise keys.error(
            name, f"must make an even number up to {MAX_LAYERS:,} attentions, got {runs:,}"
        )
    return int(runs)


def _kv_heads(keys: Keys, family: Family, heads: int) -> int:
    if family.config_class == "DbrxConfig":
        own = keys.section("attn_config")
        return 1 if own is None else _read_kv_heads(own, "kv_n_heads", heads, 1, family.source)
    if family.config_class == "FalconConfig":
        names = ("num_kv_heads", "n_head_kv")
        has_key = keys.find(names) is not None
        keys.read.add("multi_query")  # means nothing in the new design
        if keys.flag("new_decoder_architecture", False):
            return _read_kv_heads(keys, names, heads) if has_key else heads
        return 1 if keys.flag("multi_query", True, family.source) else heads
    name = "num_key_value_heads"
    # null means one per query head; only an absent key means the class's default.
    if not family.kv_heads_key or (
        keys.find(name) is None and (name in keys.record or family.kv_heads is None)
    ):
        return heads
    return _read_kv_heads(keys, name, heads, family.kv_heads, family.source)


def _read_kv_heads(
    keys: Keys, names: str | tuple[str, ...], heads: int, default: int | None = None, why: str = ""
) -> int:
    """Return the number of key heads, which must divide the query heads."""
    kv_heads: int = keys.get(names, HEAD_LIMIT, default, why)
    if kv_heads > heads or heads % kv_heads:
        raise keys.error(
            keys.name(names), f"must divide the {heads:,} query heads, got {kv_heads:,}"
        )
    return kv_heads


@dataclass(frozen=True, kw_only=True)
class Heads:
    """The heads of one kind of layer.

    head_dim: width of a query. rope_dim: width of which a share is rotated. cache_width: numbers
    cached per token and layer.
    """

    heads: int
    kv_heads: int
    head_dim: int
    rope_dim: int
    cache_width: int
    index_width: int = 0  # numbers of the cache that are of an index
    notes: tuple[str, ...] = ()


def heads_by_kind(
    keys: Keys, family: RopeFamily, sizes: Sizes, kinds: tuple[str, ...]
) -> Mapping[str, Heads]:
    """Return the heads of each kind of layer. kinds: the kind of every layer."""
    if family.latent:
        return dict.fromkeys(kinds, _latent_heads(keys, family, sizes))
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
    # In Bailing's hybrids it is the head width of the layers with a state.
    if not family.state and entry is not None and entry[1] not in (rotated, unrotated + rotated):
        raise keys.error(
            "head_dim",
            f"must be qk_rope_head_dim {rotated} or absent: this class sets it so, got {as_json(entry[1])}",
        )
    index, notes = 0, [
        f"The last {rotated} features of a head of {unrotated + rotated} are rotated, and all heads "
        f"share the rotated key; a token's cache is one latent vector of {latent} and that key."
    ]  # fmt: skip
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
        chosen = f"the {keys.get('index_topk', _INDEX, 2_048, why):,} tokens"
    return width, (
        f"An index chooses {chosen} that a query sees, by their content; its key of {width} numbers per "
        "token is cached and rotated, too."
    )


def _global_heads(keys: Keys, family: RopeFamily, sizes: Sizes, kinds: tuple[str, ...]) -> Heads:
    # Gemma 4: layers of full attention have wider heads, and may have fewer key heads.
    per_layer = keys.section("per_layer_config")
    if per_layer is None:
        name = "num_global_key_value_heads"
        width = keys.get("global_head_dim", HEAD_WIDTH_LIMIT, family.global_head_dim, family.source)
        has_own = keys.optional(name, HEAD_LIMIT) and keys.flag("attention_k_eq_v", False)
        kv_heads = _read_kv_heads(keys, name, sizes.heads) if has_own else sizes.kv_heads
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
            kv_heads = _read_kv_heads(layer, "num_key_value_heads", sizes.heads, kv_heads)
        variants.add((kv_heads, width))
    if len(variants) != 1:
        raise keys.error(
            "per_layer_config", "must give all layers of full attention the same heads"
        )
    kv_heads, width = variants.pop()
    return _plain_heads(sizes.heads, kv_heads, width, width)


def kinds_by_layer(keys: Keys, family: RopeFamily, layers: int) -> tuple[str, ...]:
    """Return the kind of every layer, in the config's words."""
    if family.windows != "every layer":  # a class of one kind reads no list of them
        rule = _CHUNKED_KIND if family.windows == "chunks" else _KIND
        if family.index_word:
            rule = fields.Choice(options=(FULL, family.index_word))
        if family.full_word != FULL:
            rule = fields.Choice(options=(family.full_word, family.word(SLIDING)))
        listed = keys.by_layer("layer_types", layers, rule)
        if listed is not None:
            if family.latent and family.index_word:  # every layer has an index
                return (INDEXED,) * layers
            kinds = {family.word(kind): kind for kind in (FULL, SLIDING, INDEXED)}
            return tuple(kinds.get(word, word) for word in listed)
    if family.index_word:
        return _indexed_layers(keys, family, layers)
    window = read_window(keys, family)
    if family.windows == "if any":
        return _of_unknown_class(keys, window, layers)
    if window is None or family.windows == "if listed":
        return (FULL,) * layers
    if family.windows == "none" and family.no_rope:  # SmolLM3: the layers without RoPE have it
        return tuple(FULL if rope else SLIDING for rope in rope_by_layer(keys, family, layers))
    if family.windows == "chunks":
        return tuple(CHUNKED if rope else FULL for rope in rope_by_layer(keys, family, layers))
    if family.windows in ("every layer", "listed"):
        return (SLIDING,) * layers
    if family.windows in ("last layers", "late layers"):
        default, why = family.first_windowed, family.source
        first = keys.get("max_window_layers", _FIRST_LAYER, default, why)
        return (FULL,) * min(first, layers) + (SLIDING,) * (layers - first)
    return _pattern(keys, family, layers)


def _indexed_layers(keys: Keys, family: RopeFamily, layers: int) -> tuple[str, ...]:
    """Return the kinds of layers of a class with an index, where the config does not list them."""
    if family.latent:
        return (INDEXED,) * layers
    section = keys.section("sparse_attention_config") or Keys({})  # of MiniMax M3's published files
    sparse = section.by_layer("sparse_attention_freq", layers, _SWITCH)
    return tuple(INDEXED if index else FULL for index in sparse or (0,) * layers)


def _of_unknown_class(keys: Keys, window: int | None, layers: int) -> tuple[str, ...]:
    """Return the kinds of layers of a class that is not known; keys of another order are refused."""
    name = "sliding_window_pattern"
    if window is not None and (period := keys.optional(name, LAYER_LIMIT)):
        keys.assume(
            f"The last of every {period} layers has full attention, as in Gemma 3, because "
            f"{keys.named(name)} is {period}."
        )
        return tuple(FULL if (index + 1) % period == 0 else SLIDING for index in range(layers))
    for other in filter(_ORDER_OF_KINDS.search, keys.record):
        if other != "no_rope_layer_interval" and keys.is_unread(other):
            raise keys.error(
                other,
                f"orders kinds of layers, and how is not known for this model type: add layer_types, a "
                f"list of {FULL} or {SLIDING} for each of the {count_of(layers, 'layer')}",
            )
    if window is None:
        return (FULL,) * layers
    keys.assume(
        f"All {count_of(layers, 'layer')} see {count_of(window, 'token')} "
        f"({keys.named('sliding_window')}), as in transformers' MistralConfig: layer_types is absent."
    )
    return (SLIDING,) * layers


def _pattern(keys: Keys, family: RopeFamily, layers: int) -> tuple[str, ...]:
    period = family.period
    if family.period_key:
        why = f"{family.source}; its key layer_types is absent too"
        period = keys.get(family.period_key, LAYER_LIMIT, period, why)
    else:
        further = [f"layer {index % layers}" for index in family.also_full]
        keys.assume(
            f"{keys.named('layer_types')} is absent: the last of every {period} layers is of full "
            f"attention{''.join(f', and {layer}, too' for layer in further)}, {family.source}."
        )
    full = {index % layers for index in family.also_full}
    kinds = tuple(
        SLIDING if (index - family.full_at) % period and index not in full else FULL
        for index in range(layers)
    )
    if family.config_class != "Cohere2MoeConfig":
        return kinds
    # Its first layers, without experts, have a period of their own.
    first = keys.get("first_k_dense_replace", fields.IntRange(low=0, high=layers), 0)
    name = "prefix_dense_sliding_window_pattern"
    own = keys.get(name, LAYER_LIMIT, 1)
    prefix = tuple(SLIDING if (index + 1) % own else FULL for index in range(first))
    return prefix + kinds[: layers - first]


def read_window(keys: Keys, family: RopeFamily) -> int | None:
    """Return the number of tokens that a query of a windowed layer sees; None for all."""
    if family.windows == "none" and not family.no_rope:
        return None
    if family.windows in ("last layers", "if any", "none") and not keys.flag(
        "use_sliding_window", family.windows == "if any"
    ):
        keys.read.add(family.window_key)  # read, and switched off
        keys.read.add("max_window_layers")
        return None
    name = family.window_key
    if family.config_class == "MiMoV2FlashConfig" and keys.find("sliding_window_size") is not None:
        keys.read.add(name)  # of the tokens before the query
        return int(keys.get("sliding_window_size", _WINDOW)) + 1
    if family.config_class == "ModernBertDecoderConfig":
        own = keys.get(name, _WINDOW, family.window, family.source)
        return keys.optional("sliding_window", _WINDOW) or max(own // 2, 1)
    if family.window is None or (name in keys.record and keys.record[name] is None):
        window = keys.optional(name, _WINDOW)
    else:
        window = keys.get(name, _WINDOW, family.window, family.source)
    if window is None or not is_bidirectional(keys, family):
        return window
    # Both sides count. Gemma 4's class halves the window and adds one, and its mask includes that.
    return 2 * (window // 2 + (family.both_sides == "word")) + 1


def is_bidirectional(keys: Keys, family: RopeFamily) -> bool:
    """Return whether every token sees both sides, by the class or by the config."""
    name = "use_bidirectional_attention"
    if family.encoder or not family.both_sides:
        return family.encoder
    if family.both_sides == "flag" or keys.record.get(name) is False:
        return keys.flag(name, False)
    # vision: among the tokens of a picture alone
    return bool(keys.get(name, fields.Choice(options=("all", "vision")), "vision") == "all")


def index_by_layer(keys: Keys, family: RopeFamily, layers: int) -> tuple[bool, ...]:
    """Return whether each layer has an index of its own, or uses what an earlier one chose."""
    if family.config_class not in ("GlmMoeDsaConfig", "HYV4Config"):
        return (True,) * layers
    listed = keys.by_layer("indexer_types", layers, fields.Choice(options=("full", "shared")))
    interval, offset = 4, 2
    if family.config_class == "GlmMoeDsaConfig":
        interval = keys.get("index_topk_freq", LAYER_LIMIT, 1)
        offset = keys.get("index_skip_topk_offset", _FIRST_LAYER, 2)
    if listed is not None:
        return tuple(word == "full" for word in listed)
    return tuple(max(index - offset + 1, 0) % interval == 0 for index in range(layers))


def rope_by_layer(keys: Keys, family: RopeFamily, layers: int) -> tuple[bool, ...]:
    """Return whether each layer uses RoPE; 1 in no_rope_layers means that it does."""
    name, why = "no_rope_layers", family.source
    if family.windows == "if any":  # an unknown class
        why = "the default of transformers' Llama4TextConfig"
    if not family.no_rope or (family.windows == "if any" and keys.record.get(name) is None):
        return (True,) * layers
    if keys.record.get(name) == []:  # the default pattern, as in transformers' Llama4TextConfig
        keys.read.add(name)
    elif (listed := keys.by_layer(name, layers, _SWITCH)) is not None:
        keys.read.add("no_rope_layer_interval")  # the list was made from it
        return tuple(bool(entry) for entry in listed)
    interval = keys.get("no_rope_layer_interval", LAYER_LIMIT, 4, why)
    return tuple(bool((index + 1) % interval) for index in range(layers))
