"""Which layers of a model are of which kind: full attention, a sliding window, no RoPE.

The sizes of a model's attention, checked against one another.

Heads that differ between kinds of layers, and keys made from a latent vector.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from posenc import fields, limits
from posenc.errors import shown
from posenc.models.config_json import Keys
from posenc.models.families import FULL, NO_ROPE, SIZES, SLIDING, RopeFamily

HEAD_LIMIT = fields.IntRange(low=1, high=limits.MAX_HEADS, label="")
WIDTH_LIMIT = fields.IntRange(low=1, high=limits.MAX_MODEL_WIDTH, label="")
LAYER_LIMIT = fields.IntRange(low=1, high=limits.MAX_MODEL_LAYERS, label="")
LENGTH_LIMIT = fields.IntRange(low=2, high=limits.MAX_POSITION, label="")
EVEN_WIDTH_LIMIT = fields.IntRange(low=2, high=limits.MAX_DIM, multiple_of=2, label="")
HEAD_WIDTH_LIMIT = fields.IntRange(low=2, high=limits.MAX_DIM, label="")


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Width of a token, number of layers and heads, width of a head, length the config speaks of.

    context: the key that says it, and its value.
    """

    hidden_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    context: tuple[str, int]


def read_sizes(keys: Keys, family: RopeFamily | None) -> Sizes:
    """Return the sizes of a model with RoPE; without a family, which keys are absent is an error."""
    why = family.source if family else ""
    hidden = keys.whole(
        SIZES["hidden_size"], family.hidden_size if family else None, why, WIDTH_LIMIT
    )
    layers = keys.whole(SIZES["layers"], family.layers if family else None, why, LAYER_LIMIT)
    heads = keys.whole(SIZES["heads"], family.heads if family else None, why, HEAD_LIMIT)
    found = keys.find(SIZES["context"])
    context = keys.whole(SIZES["context"], family.context if family else None, why, LENGTH_LIMIT)
    kv_heads = _kv_heads(keys, family, heads, why)
    named = family is None or family.head_dim_key
    default = family.head_dim if family else None
    if named and (default is not None or keys.find("head_dim") is not None):
        head_dim = keys.whole("head_dim", default, why, HEAD_WIDTH_LIMIT)
    else:
        head_dim = divided_width(keys, SIZES["hidden_size"], hidden, SIZES["heads"], heads)
        written = keys.find("head_dim")
        if written is not None and written[1] != head_dim:
            raise keys.error(
                "head_dim",
                f"must be {head_dim}, which is hidden size / heads, or absent: this class has no such "
                f"key, got {shown(written[1])}",
            )
    if keys.record.get("kv_channels") == head_dim:
        keys.find("kv_channels")  # the head width, as Megatron and NVIDIA's Nemotron call it
    return Sizes(
        hidden_size=hidden,
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        context=(keys.named(found[0] if found else SIZES["context"][0]), context),
    )


def divided_width(
    keys: Keys, width_names: tuple[str, ...], width: int, head_names: tuple[str, ...], heads: int
) -> int:
    """Return width / heads, the head width where no key says it; raise where it is no whole number."""
    named = [(keys.find(names) or (names[0],))[0] for names in (width_names, head_names)]
    if width % heads or not 2 <= width // heads <= limits.MAX_DIM:
        raise keys.error(
            named[1],
            f"must divide {named[0]} {width:,} into heads of 2 to {limits.MAX_DIM:,}, got {heads:,}",
        )
    return width // heads


def _kv_heads(keys: Keys, family: RopeFamily | None, heads: int, why: str) -> int:
    if family is not None and family.config_class == "FalconConfig":
        return falcon_kv_heads(keys, heads)
    if family is not None and not family.kv_heads_key:
        return heads
    names = SIZES["kv_heads"]
    found = keys.find(names)
    if found is None:
        # null has always meant one per query head; only an absent key stands for the class's default.
        default = family.kv_heads if family and names[0] not in keys.record else None
        if default is None:
            return heads
        keys.assume(f"{keys.named(names[0])} is absent: {default} is taken, {why}.")
        kv_heads, name = default, names[0]
    else:
        kv_heads, name = keys.whole(names, None, "", HEAD_LIMIT), found[0]
    check_groups(keys, name, kv_heads, heads)
    return kv_heads


def check_groups(keys: Keys, name: str, kv_heads: int, heads: int) -> None:
    """Raise ConfigFileError unless the heads of keys are shared out evenly among the query heads."""
    if kv_heads > heads or heads % kv_heads:
        raise keys.error(name, f"must divide the {heads:,} query heads, got {kv_heads:,}")


def falcon_kv_heads(keys: Keys, heads: int) -> int:
    """Return Falcon's heads of keys: as told in its new design, one of multi_query, else one each."""
    names = ("num_kv_heads", "n_head_kv")
    told = keys.find(names)
    keys.find("multi_query")  # means nothing in the new design
    if keys.flag("new_decoder_architecture", False, ""):
        if told is None:
            return heads
        kv_heads = keys.whole(names, None, "", HEAD_LIMIT)
        check_groups(keys, told[0], kv_heads, heads)
        return kv_heads
    return (
        1 if keys.flag("multi_query", True, "the default of transformers' FalconConfig") else heads
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


WORDS = (FULL, SLIDING)


def layer_words(keys: Keys, family: RopeFamily | None, layers: int) -> tuple[str, ...]:
    """Return the config's own word for every layer."""
    if (
        family is None or family.windows != "every layer"
    ):  # a class of one kind reads no list of them
        told = keys.words("layer_types", layers, WORDS)
        if told is not None:
            return told
    window = read_window(keys, family)
    if family is None:
        return ((SLIDING if window else FULL),) * layers
    if window is not None and family.no_rope:  # SmolLM3: the layers without RoPE have it
        return tuple(FULL if rope else SLIDING for rope in rope_layers(keys, family, layers))
    if window is None or family.windows == "none":
        return (FULL,) * layers
    if family.windows == "every layer":
        return (SLIDING,) * layers
    if family.windows == "last layers":
        first = keys.whole(
            "max_window_layers", family.first_windowed, family.source,
            _FROM_LAYER,
        )  # fmt: skip
        return tuple(SLIDING if index >= first else FULL for index in range(layers))
    return _pattern(keys, family, layers)


def _pattern(keys: Keys, family: RopeFamily, layers: int) -> tuple[str, ...]:
    period = family.period
    if family.period_key:
        why = f"{family.source}; its key layer_types is absent too"
        period = keys.whole(family.period_key, period, why, LAYER_LIMIT)
    else:
        keys.assume(
            f"{keys.named('layer_types')} is absent: the last of every {period} layers is of full "
            f"attention, {family.source}."
        )
    shift = 0 if family.first_full else 1
    return tuple(SLIDING if (index + shift) % period else FULL for index in range(layers))


def read_window(keys: Keys, family: RopeFamily | None) -> int | None:
    """Return how many tokens a query of a windowed layer sees, itself included; None for all."""
    if family is None:
        switched_off = not keys.flag("use_sliding_window", True, "")
        return None if switched_off else keys.maybe_whole("sliding_window", _WINDOW)
    if family.windows == "none" and not family.no_rope:
        return None
    if (family.windows == "last layers" or family.no_rope) and not keys.flag(
        "use_sliding_window", False, ""
    ):
        keys.find(family.window_key)  # read, and switched off
        keys.find("max_window_layers")
        return None
    name = family.window_key
    if name in keys.record and keys.record[name] is None:
        keys.find(name)
        return None
    if family.window is None:
        window = keys.maybe_whole(name, _WINDOW)
    else:
        window = keys.whole(name, family.window, family.source, _WINDOW)
    return None if window is None else _seen(keys, family, window)


def _seen(keys: Keys, family: RopeFamily, window: int) -> int:
    """Return the tokens seen: both sides count where every token sees both."""
    if is_bidirectional(keys, family):
        # Gemma 4's class halves the window and adds one, and its mask takes that distance in.
        if family.both_sides == "word":
            return 2 * (window // 2 + 1) + 1
        return 2 * (window // 2) + 1
    return window


def is_bidirectional(keys: Keys, family: RopeFamily | None) -> bool:
    """Whether every token sees both sides, by the class, or where the config says so (EmbeddingGemma)."""
    name = "use_bidirectional_attention"
    if family is None or family.encoder or not family.both_sides:
        return family is not None and family.encoder
    if family.both_sides == "flag" or keys.record.get(name) is False:
        return keys.flag(name, False, "")
    return keys.word(name, "vision", "", ("all", "vision")) == "all"  # vision: among pictures alone


def rope_layers(keys: Keys, family: RopeFamily | None, layers: int) -> tuple[bool, ...]:
    """Return whether each layer uses RoPE. In no_rope_layers, 1 means that it does.

    An empty list is the default pattern, as of transformers' Llama4TextConfig.
    """
    if family is None and keys.record.get("no_rope_layers") is None:
        return (True,) * layers
    if family is not None and not family.no_rope:
        return (True,) * layers
    if keys.record.get("no_rope_layers") == []:
        keys.find("no_rope_layers")
    elif (listed := keys.words("no_rope_layers", layers, (0, 1))) is not None:
        keys.find("no_rope_layer_interval")  # what the list was made from
        return tuple(bool(one) for one in listed)
    why = family.source if family else "the default of transformers' Llama4TextConfig"
    interval = keys.whole("no_rope_layer_interval", 4, why, LAYER_LIMIT)
    return tuple(bool((index + 1) % interval) for index in range(layers))


def grouped(words: tuple[str, ...], uses_rope: tuple[bool, ...]) -> Mapping[str, tuple[int, ...]]:
    """Return the indices of each kind of layer, by its name."""
    found: dict[str, list[int]] = {}
    for index, (word, rope) in enumerate(zip(words, uses_rope, strict=True)):
        name = word if rope else NO_ROPE if word == FULL else f"{word}, {NO_ROPE}"
        found.setdefault(name, []).append(index)
    return {name: tuple(indices) for name, indices in found.items()}


_WINDOW = fields.IntRange(low=1, high=limits.MAX_POSITION, label="")
_FROM_LAYER = fields.IntRange(low=0, high=limits.MAX_MODEL_LAYERS, label="")
