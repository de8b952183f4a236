"""Which keys of a config may bear on position, by their names.

Names of keys: the configuration classes of transformers 5.23, and published files with their own code.
"""

import re

_BEARS_ON_POSITION = re.compile(
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
# Names of something else: quantization, pictures and sound, experts, generation.
_BEARS_ON_ANOTHER = re.compile(
    r"^compression_config$|vision|image|video|audio|patch|expert|moe_|^mlp_|^mtp_"
    r"|chunk_size_feed_forward|chunk_size_lm_head|token_id|dropout|implementation"
)


def bears_on_position(name: str) -> bool:
    """Return whether a key may bear on position, by its name."""
    return bool(_BEARS_ON_POSITION.search(name)) and not _BEARS_ON_ANOTHER.search(name)
