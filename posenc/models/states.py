"""Layers without attention among tokens of text: which they are, and the numbers of their states."""

import functools
import re
from collections.abc import Callable, Mapping

from posenc import fields
from posenc.models.config_json import Keys
from posenc.models.families import CROSS, FULL, INDEXED, MLP, SLIDING, RopeFamily
from posenc.models.layers import HEAD_LIMIT, LAYER_LIMIT, MAX_LAYERS, WIDTH_LIMIT, Sizes

_KERNEL = fields.IntRange(low=1, high=1_024)
_OFFSET = fields.IntRange(low=0, high=MAX_LAYERS)
# Kinds of layers in configs of all ages; of Nemotron-H also letters.
_FULL_WORDS = ("full_attention", "attention")
_STATE_WORDS = ("linear_attention", "mamba", "conv", "recurrent")
_MLP_WORDS = ("mlp", "moe")
_WORDS = (*_FULL_WORDS, *_STATE_WORDS, *_MLP_WORDS, SLIDING)
_LETTERS = {"*": "attention", "M": "mamba", "-": "mlp", "E": "moe"}
# Keys that bear on the state alone.
_OF_STATE = re.compile(
    r"^(?:mamba_|time_step|linear_|conv_|ssm_|use_mamba|use_conv|chunk_size$|full_attention_interval$"
    r"|attn_layer_(?:indices|period|offset)$|hidden_mamba_act$|lru_width$|conv1d_|n_mamba_heads$|kda_|short_conv_kernel_size$|full_attn_idxs$|(?:full|linear)_attn_(?:alpha|beta)_factor$)"
)


def state_kinds(keys: Keys, family: RopeFamily, layers: int) -> tuple[str, ...]:
    """Return the kind of every layer: full attention, the family's state, or neither (mlp)."""
    keys.read.update(filter(_OF_STATE.search, keys.record))
    section = keys.section("linear_attn_config")
    if section is not None:
        section.read.update(("full_attn_layers", "kda_layers"))
    options = dict.fromkeys((*_WORDS, family.full_word, family.index_word or FULL))
    rule = fields.Choice(options=tuple(options))
    for name in ("layer_types", "layers_block_type"):
        listed = keys.by_layer(name, layers, rule)
        if listed is not None:
            return tuple(_kind(word, family) for word in listed)
    pattern = keys.text("hybrid_override_pattern")
    if pattern is not None:
        if len(pattern) != layers or not {*pattern} <= {*_LETTERS}:
            raise keys.error(
                "hybrid_override_pattern",
                f"must have one letter of {' '.join(_LETTERS)} for each of {layers:,} layers",
            )
        return tuple(_kind(_LETTERS[letter], family) for letter in pattern)
    if keys.find("block_types") is not None:  # RecurrentGemma repeats them
        count = (
            len(keys.record["block_types"]) if isinstance(keys.record["block_types"], list) else 0
        )
        words = keys.entries("block_types", max(count, 1), rule)
        return tuple(_kind(words[index % count], family) for index in range(layers))
    if family.config_class == "Lfm3Config":
        of = {0: SLIDING, 2: FULL}
        return (family.state, *(of.get(index % 4, family.state) for index in range(1, layers)))
    full = _full_layers(keys, section, family, layers)
    return tuple(_kind(FULL if is_full else family.state, family) for is_full in full)


def _kind(word: str, family: RopeFamily) -> str:
    if word in (*_FULL_WORDS, family.full_word, family.index_word):
        if family.index_word:
            return INDEXED
        return SLIDING if family.windows == "every layer" else FULL
    if word == SLIDING and family.windows != "none":
        return SLIDING
    return MLP if word in _MLP_WORDS else family.state


def _full_layers(keys: Keys, section: Keys | None, family: RopeFamily, layers: int) -> list[bool]:
    """Return whether each layer has attention, by keys other than a list of words or by the class.

    section: linear_attn_config of Kimi Linear, where layers are counted from 1.
    """
    if section is not None and section.find("full_attn_layers") is not None:
        rule = fields.Numbers(low=1, high=layers, least=1, most=layers, whole=True)
        numbers = {*section.get("full_attn_layers", rule)}
        return [index + 1 in numbers for index in range(layers)]
    for name in ("full_attn_idxs", "attn_layer_indices"):
        if keys.find(name) is not None:
            rule = fields.Numbers(low=0, high=layers - 1, least=1, most=layers, whole=True)
            indices = {*keys.get(name, rule)}
            return [index in indices for index in range(layers)]
    if family.state == CROSS:
        rule = fields.Numbers(low=0, high=MAX_LAYERS, least=0, most=layers, whole=True)
        cross = {*keys.get("cross_attention_layers", rule, tuple(range(3, 40, 5)), family.source)}
        return [index not in cross for index in range(layers)]
    if family.full_word != FULL:
        words = f"{family.state} and {family.full_word}"
        raise keys.error("layers_block_type", f"is missing; it must list the layers by {words}")
    if not family.period:
        return [False] * layers
    period, offset = family.period, family.full_at
    if family.config_class == "JambaConfig":
        period = keys.get("attn_layer_period", LAYER_LIMIT, period, family.source)
        offset = keys.get("attn_layer_offset", _OFFSET, offset, family.source)
        return [index % period == offset for index in range(layers)]
    why = f"{family.source}; its key layer_types is absent too"
    name = family.period_key or "full_attention_interval"
    interval = keys.get(name, LAYER_LIMIT, period, why)
    return [index >= offset and not (index - offset) % interval for index in range(layers)]


def state_numbers(keys: Keys, family: RopeFamily, sizes: Sizes) -> int:
    """Return the numbers that one layer keeps for one sequence, whatever its length."""
    keys.read.update(filter(_OF_STATE.search, keys.record))
    return _SIZES[family.state_size](keys, sizes, family.source)


def _delta_net(
    keys: Keys, sizes: Sizes, why: str, *, heads: tuple[int, int] = (16, 32), width: int = 128
) -> int:
    # Gated DeltaNet (Yang et al. 2024, arXiv 2412.06464): a matrix per value head, and a convolution.
    key_heads = keys.get("linear_num_key_heads", HEAD_LIMIT, heads[0], why)
    value_heads = keys.get("linear_num_value_heads", HEAD_LIMIT, heads[1], why)
    width = width or int(0.75 * sizes.hidden_size / key_heads)  # OLMo Hybrid
    key_width = keys.get("linear_key_head_dim", WIDTH_LIMIT, width, why)
    value_width = 2 * key_width if heads[0] == heads[1] else width
    value_width = keys.get("linear_value_head_dim", WIDTH_LIMIT, value_width, why)
    kernel = keys.get("linear_conv_kernel_dim", _KERNEL, 4, why)
    convolved = 2 * key_heads * key_width + value_heads * value_width
    return int(convolved * kernel + value_heads * key_width * value_width)


def ngram_layers(keys: Keys, layers: int) -> frozenset[int]:
    """Return which layers of Qwen 4 also add embeddings of the last tokens; its list counts from 1."""
    rule = fields.Numbers(low=1, high=layers, least=0, most=layers, whole=True)
    keys.read.add("number_of_conv_states")  # the class sets it by this list
    return frozenset(int(number) - 1 for number in keys.get("ple_layer_ids", rule, ()))


def ngram_numbers(keys: Keys, sizes: Sizes, why: str) -> int:
    """Return the numbers that such a layer keeps besides: inputs of a convolution, and the last tokens."""
    order = keys.get("ngram_size", _KERNEL, 3, why)
    past = (keys.get("ple_conv_kernel_size", _KERNEL, 4, why) - 1) * order
    return int(past * keys.get("hc_count", _KERNEL, 4, why) * sizes.hidden_size + order - 1)


def _olmo_hybrid(keys: Keys, sizes: Sizes, why: str) -> int:
    return _delta_net(keys, sizes, why, heads=(sizes.heads, sizes.heads), width=0)


def _kimi_delta(keys: Keys, sizes: Sizes, why: str) -> int:
    # Kimi Delta Attention (Kimi Team 2025, arXiv 2510.26692): a matrix per head, and a convolution.
    outer = ("linear_num_heads", "linear_head_dim", "linear_conv_kernel_dim")
    inner = ("num_heads", "head_dim", "short_conv_kernel_size")
    section, names = keys.section("linear_attn_config"), inner
    if section is None:
        section, names = keys, outer
    heads = section.get(names[0], HEAD_LIMIT, 32, why)
    width = section.get(names[1], WIDTH_LIMIT, 128, why)
    return int(heads * width * (3 * section.get(names[2], _KERNEL, 4, why) + width))


def _bailing(keys: Keys, sizes: Sizes, why: str) -> int:
    # Kimi Delta Attention under the model's own names; those of transformers count first.
    width = keys.get("head_dim", WIDTH_LIMIT, 128, why)
    width = keys.get("linear_head_dim", WIDTH_LIMIT, width)
    kernel = keys.get("short_conv_kernel_size", _KERNEL, 4, why)
    kernel = keys.get("linear_conv_kernel_dim", _KERNEL, kernel)
    heads = keys.get("linear_num_heads", HEAD_LIMIT, sizes.heads)
    return int(heads * width * (3 * kernel + width))


def _mamba(keys: Keys, sizes: Sizes, why: str) -> int:
    # Mamba (Gu and Dao 2023, arXiv 2312.00752): a state and a convolution for every inner feature.
    inner = keys.get("mamba_expand", _KERNEL, 2, why) * sizes.hidden_size
    state = keys.get("mamba_d_state", WIDTH_LIMIT, 16, why)
    return int(inner * (state + keys.get("mamba_d_conv", _KERNEL, 4, why)))


def _mamba_2(
    keys: Keys, sizes: Sizes, why: str, *, own: int | None = None, state: int = 256
) -> int:
    # Mamba 2 (Dao and Gu 2024, arXiv 2405.21060): a state per head; groups share its input and output.
    inner = keys.get("mamba_expand", _KERNEL, 2, why) * sizes.hidden_size
    if own and keys.record.get("mamba_d_ssm", own) is not None:  # Falcon H1 has a width of its own
        inner = keys.get("mamba_d_ssm", WIDTH_LIMIT, own, why)
    state = keys.get("mamba_d_state", WIDTH_LIMIT, state, why)
    groups = keys.get(("mamba_n_groups", "mamba_ngroups"), HEAD_LIMIT, 1, why)
    kernel = keys.get("mamba_d_conv", _KERNEL, 4, why)
    return int(inner * state + (inner + 2 * groups * state) * kernel)


def _nemotron_h(keys: Keys, sizes: Sizes, why: str) -> int:
    # Mamba 2, with a width of its own.
    heads = keys.get("mamba_num_heads", HEAD_LIMIT, 128, why)
    inner = heads * keys.get("mamba_head_dim", WIDTH_LIMIT, 64, why)
    state = keys.get("ssm_state_size", WIDTH_LIMIT, 128, why)
    groups = keys.get("n_groups", HEAD_LIMIT, 8, why)
    return int(
        inner * state + (inner + 2 * groups * state) * keys.get("conv_kernel", _KERNEL, 4, why)
    )


def _short_convolution(keys: Keys, sizes: Sizes, why: str) -> int:
    # LFM2's gated convolution: the last tokens that it reads.
    return int(
        sizes.hidden_size * keys.get("conv_L_cache", _KERNEL, 7 if "Lfm3" in why else 3, why)
    )


def _lru(keys: Keys, sizes: Sizes, why: str) -> int:
    # The RG-LRU of Griffin (De et al. 2024, arXiv 2402.19427), and a convolution.
    width = keys.get("lru_width", WIDTH_LIMIT, sizes.hidden_size)
    return int(width * keys.get("conv1d_width", _KERNEL, 4, why))


def _compressed_convolution(keys: Keys, sizes: Sizes, why: str) -> int:
    # ZAYA's Compressed Convolutional Attention (arXiv 2510.04476): past queries, keys and half a value.
    times = (keys.get(name, _KERNEL, 2, why) - 1 for name in ("cca_time0", "cca_time1"))
    width = (sizes.heads + sizes.kv_heads) * sizes.head_dim
    return int(sum(times) * width + sizes.kv_heads * sizes.head_dim // 2)


def _lightning(keys: Keys, sizes: Sizes, why: str) -> int:
    # Lightning attention (Qin et al. 2024, arXiv 2401.04658): a matrix per head.
    return sizes.heads * sizes.head_dim**2


_SIZES: Mapping[str, Callable[[Keys, Sizes, str], int]] = {
    "delta_net": _delta_net,
    "olmo_hybrid": _olmo_hybrid,
    "kimi_delta": _kimi_delta,
    "bailing": _bailing,
    "mamba": _mamba,
    "mamba_2": _mamba_2,
    "zamba2": functools.partial(_mamba_2, state=64),
    "falcon_h1": functools.partial(_mamba_2, own=1_024),
    "nemotron_h": _nemotron_h,
    "convolution": _short_convolution,
    "lightning": _lightning,
    "lru": _lru,
    "compressed_convolution": _compressed_convolution,
}
