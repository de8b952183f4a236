"""Config.json files of real models, as small as they can be read, for tests of plans."""

from typing import Any

LLAMA3_8B: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4_096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 8_192,
    "rope_theta": 500_000.0,
}
LLAMA2_7B = LLAMA3_8B | {
    "num_key_value_heads": 32,
    "max_position_embeddings": 4_096,
    "rope_theta": 10_000.0,
}
LLAMA31_8B = LLAMA3_8B | {
    "max_position_embeddings": 131_072,
    "rope_scaling": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8_192,
    },
}
DEEPSEEK_V3: dict[str, Any] = {
    "model_type": "deepseek_v3",
    "hidden_size": 7_168,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "kv_lora_rank": 512,
    "q_lora_rank": 1_536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "max_position_embeddings": 163_840,
    "rope_theta": 10_000,
    "rope_scaling": {
        "type": "yarn",
        "factor": 40,
        "beta_fast": 32,
        "beta_slow": 1,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
        "original_max_position_embeddings": 4_096,
    },
}
GEMMA3_4B: dict[str, Any] = {
    "model_type": "gemma3_text",
    "hidden_size": 2_560,
    "num_hidden_layers": 34,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "sliding_window": 1_024,
    "max_position_embeddings": 131_072,
    "rope_theta": 1_000_000.0,
    "rope_local_base_freq": 10_000.0,
    "rope_scaling": {"rope_type": "linear", "factor": 8.0},
}
MISTRAL_7B: dict[str, Any] = {
    "model_type": "mistral",
    "hidden_size": 4_096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 32_768,
    "sliding_window": 4_096,
    "rope_theta": 10_000.0,
}
SMOLLM3: dict[str, Any] = {
    "model_type": "smollm3",
    "hidden_size": 2_048,
    "num_hidden_layers": 36,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "max_position_embeddings": 65_536,
    "rope_theta": 5_000_000.0,
}
BLOOM: dict[str, Any] = {
    "model_type": "bloom",
    "hidden_size": 14_336,
    "n_layer": 70,
    "n_head": 112,
    "seq_length": 2_048,
}
GPT2: dict[str, Any] = {
    "model_type": "gpt2",
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "n_positions": 1_024,
}
T5: dict[str, Any] = {"model_type": "t5"}
