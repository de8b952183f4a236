"""Which keys of a config.json bear on position, and which of those are known to change nothing.

The names are those of the configuration classes of transformers 5.23 (every causal model with RoPE), and
of published files with code of their own: what rotates and how, which layers are of which kind, what a
query sees, how wide and how many the heads of keys are, and how logits are scaled.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

_BEARS = re.compile(
    # The encoding itself.
    r"rope|nope|rotary|posi|(?:^|_)pos(?:_|$)|alibi|relative|bucket|axial|yarn|ntk|theta|freq|mscale|neox"
    r"|timescale|interleaved|llama_4"
    # Lengths.
    r"|n_ctx|context_len|long_context|max_seq|seq_len|seq_length|sequence_len|model_max_len|mem_len"
    # What a query sees, and in which layers.
    r"|sliding|window|chunk|causal|bidirectional|prefix_lm|sparse_att|^index_|indexer|compress|lsh_"
    r"|layer_types?$|layers_block|block_(?:types?|configs?)$|per_layer_config|hybrid|swa_|local_layer"
    r"|(?:attn|attention)_(?:layer|type|idx|interval|period|pattern|config|sink)|attn_layers"
    r"|(?:full|global|local|linear|dual|sparse)_(?:attn|attention)|^attention$|^attn$"
    # Layers that hold a state in place of a cache.
    r"|mamba|ssm|state_size|time_step|lru_|recurrent|kda_|linear_|conv_|conv1d"
    # Heads and what is cached of them.
    r"|(?:^|_)kv_(?!cache)|_kv$|multi_query|query_group|key_value|qk_(?:rope|nope|head)|v_head_dim|(?:^|_)(?:mla|cla)(?:_|$)"
    r"|head_(?:dim|size|width)|heads_per_layer|d_head|d_kv"
    # How logits are scaled.
    r"|(?:attn|attention)_temperature|temperature_tuning|floor_scale|attn_scale|log_scaling|logn|pre_attn_scalar|softmax_scale"
    r"|attention_multiplier|key_multiplier"
)
# Parts of names by which a key is of something else: quantisation, pictures and sound, experts, what is
# generated.
_ELSEWHERE = re.compile(
    r"^compression_config$|vision|image|video|audio|patch|expert|moe_|^mlp_|^mtp_"
    r"|chunk_size_feed_forward|chunk_size_lm_head|token_id|dropout|implementation"
)
_LENGTH = re.compile(r"^n_ctx$|context_len|max_seq|seq_len|seq_length|sequence_len|model_max_len")
CONTEXT = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
_PATTERNS = (
    "sliding_window_pattern", "_sliding_window_pattern", "max_window_layers",
    "global_attn_every_n_layers",
)  # fmt: skip
# False there switches off what most models do.
_ON = re.compile(r"^(?:use_|is_)?(?:rope|rotary|causal)|neox|interleave")
# Keys of published files that their class never reads, by model type.
HARMLESS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "bloom": ("offset_alibi",),
        "gptj": ("rotary",),
        "modernbert": ("position_embedding_type",),
    }
)


def bears_on_position(name: str) -> bool:
    """Return whether a key bears on position, by its name."""
    return _BEARS.search(name) is not None and _ELSEWHERE.search(name) is None


def changes_nothing(name: str, record: Mapping[str, Any], read: set[str]) -> bool:
    """Return whether a key that was not read has a value that certainly changes nothing.

    record: the object that it stands in. read: the names that were read of it.
    """
    value = record[name]
    if value is None:
        return True
    if name == "use_sliding_window":
        # A class that does not read it has its window all the same, if it has one.
        has_none = "sliding_window" in record and record["sliding_window"] is None
        return value is False and (has_none or "sliding_window" not in read)
    if name in _PATTERNS and record.get("layer_types") is not None and "layer_types" in read:
        return True  # what that list was made from
    if name in ("sliding_window", "max_window_layers"):
        return record.get("use_sliding_window") is False and "sliding_window" not in read
    if name == "sliding_window_size" and record.get("sliding_window") is not None:
        return bool(value == record["sliding_window"])
    if "window" in name and value == -1:
        return True
    if _LENGTH.search(name):
        return any(record.get(one) is not None for one in CONTEXT if one in read)
    if name in ("rotary_scaling_factor", "rope_ratio"):
        return _is_one(value)
    if name == "num_kv_shared_layers":
        return bool(value == 0)
    if name == "use_mla":
        return value is ("kv_lora_rank" in read)
    return value is False and not _ON.search(name)


def block_key_changes_nothing(name: str, value: Any) -> bool:
    """Return whether a key of a rope block that was not read certainly changes nothing."""
    if name == "finetuned":  # of YaRN's authors: read by their "dynamic-yarn" alone
        return True
    return value is None or (name == "factor" and _is_one(value))


def _is_one(value: Any) -> bool:
    return value == 1 and value is not True
