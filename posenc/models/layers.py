"""Sizes, kinds of layers and windows of a model, read from its config."""

import re
from dataclasses import dataclass

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
_WINDOW = fields.IntRange(low=1, high=limits.MAX_POSITION)
_KIND = fields.Choice(options=(FULL, SLIDING))
_CHUNKED_KIND = fields.Choice(options=(FULL, CHUNKED))
_SWITCH = fields.IntRange(low=0, high=1)
_ORDER_OF_KINDS = re.compile(
    r"pattern|every_n|interval|layers?_block_type|attn_type|attention_types|layer_group|layer_period"
)
FIRST_LAYER_LIMIT = fields.IntRange(low=0, high=MAX_LAYERS)


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
                f"must be {head_dim}, which is hidden size / heads, or absent: this class takes no other "
                f"width, got {as_json(entry[1])}",
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
        return 1 if own is None else read_kv_heads(own, "kv_n_heads", heads, 1, family.source)
    if family.config_class == "FalconConfig":
        names = ("num_kv_heads", "n_head_kv")
        has_key = keys.find(names) is not None
        keys.read.add("multi_query")  # means nothing in the new design
        if keys.flag("new_decoder_architecture", False):
            return read_kv_heads(keys, names, heads) if has_key else heads
        return 1 if keys.flag("multi_query", True, family.source) else heads
    name = "num_key_value_heads"
    # null means one per query head; only an absent key means the class's default.
    if not family.kv_heads_key or (
        keys.find(name) is None and (name in keys.record or family.kv_heads is None)
    ):
        return heads
    return read_kv_heads(keys, name, heads, family.kv_heads, family.source)


def read_kv_heads(
    keys: Keys, names: str | tuple[str, ...], heads: int, default: int | None = None, why: str = ""
) -> int:
    """Return the number of key heads, which must divide the query heads."""
    kv_heads: int = keys.get(names, HEAD_LIMIT, default, why)
    if kv_heads > heads or heads % kv_heads:
        raise keys.error(
            keys.name(names), f"must divide the {heads:,} query heads, got {kv_heads:,}"
        )
    return kv_heads


def kinds_by_layer(keys: Keys, family: RopeFamily, layers: int) -> tuple[str, ...]:
    """Return the kind of every layer, in the config's words."""
    if family.compressed:
        return _compressed_layers(keys, family, layers)
    if family.windows != "every layer":  # a class of one kind reads no list of them
        rule = _CHUNKED_KIND if family.windows == "chunks" else _KIND
        if family.index_word:
            rule = fields.Choice(options=(FULL, family.index_word))
        if family.config_class == "Dots3NoteTextConfig":
            rule = _dots3_kind(keys)
        if family.full_word != FULL:
            rule = fields.Choice(options=(family.full_word, family.word(SLIDING)))
        listed = keys.by_layer("layer_types", layers, rule)
        if listed is not None:
            if family.latent and family.index_word and family.windows == "none":
                return (INDEXED,) * layers
            kinds = {family.word(kind): kind for kind in (FULL, SLIDING, INDEXED)}
            if family.latent and family.index_word:
                kinds[FULL] = INDEXED
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
        first = keys.get("max_window_layers", FIRST_LAYER_LIMIT, default, why)
        return (FULL,) * min(first, layers) + (SLIDING,) * (layers - first)
    return _pattern(keys, family, layers)


def _dots3_kind(keys: Keys) -> fields.Choice:
    """Return the words of dots3-note's layers; beside use_dsa full_attention has an index, too."""
    for switch in ("use_dsa", "use_sliding_window"):
        if not keys.flag(switch, True):
            raise keys.error(switch, "must be true or absent: without it the layers are not read")
    full = () if "per_layer_config" in keys.record else (FULL,)
    return fields.Choice(options=(SLIDING, INDEXED, *full))


def _indexed_layers(keys: Keys, family: RopeFamily, layers: int) -> tuple[str, ...]:
    """Return the kinds of layers of a class with an index, where the config does not list them."""
    if family.windows == "listed":
        return tuple(INDEXED if index < 2 or index % 4 == 1 else SLIDING for index in range(layers))
    if family.latent:
        return (INDEXED,) * layers
    section = keys.section("sparse_attention_config") or Keys({})  # of MiniMax M3's published files
    sparse = section.by_layer("sparse_attention_freq", layers, _SWITCH)
    return tuple(INDEXED if index else FULL for index in sparse or (0,) * layers)


def _compressed_layers(keys: Keys, family: RopeFamily, layers: int) -> tuple[str, ...]:
    """Return the kinds of layers of DeepSeek V4, by their words or by the tokens of a cache entry."""
    few, many = family.compressed
    rule = fields.Choice(options=(SLIDING, few, many))
    if (listed := keys.by_layer("layer_types", layers, rule)) is not None:
        return tuple(listed)
    words = {0: SLIDING} | {tokens: word for word, tokens in family.compressed.items()}
    ratios = keys.find("compress_ratios")
    if ratios is None:
        keys.assume(
            f"{keys.named('layer_types')} is absent: of each two layers one is {few}, the others and "
            f"the first two are {many}, {family.source}."
        )
        return tuple(few if index > 1 and index % 2 else many for index in range(layers))
    count = max(layers, len(ratios[1]) if isinstance(ratios[1], list) else 0)  # more: of MTP
    values = keys.entries("compress_ratios", count, fields.IntRange(low=0, high=max(words)))
    if unknown := {*values} - {*words}:
        raise keys.error("compress_ratios", f"must be of {[*words]}, got {max(unknown)}")
    return tuple(words[value] for value in values[:layers])


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
    if family.both_sides in ("radius", "width"):
        return 2 * window + 1 if family.both_sides == "radius" else window
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
