"""Write posenc/models/families.json: defaults of transformers' classes that fit RopeFamily.

Sizes and bases come from the fields of the class; layout, windows and layers without RoPE are those that
`establish` observes. `python -m tests.models.generate_families` writes the file.
"""

import dataclasses
import json
from typing import Any

from posenc.models.families import GENERATED
from tests.models.published_models.establish import establish

# Keys of a class whose layers rotate only where they have a window, or that have another window key.
STATED: dict[str, dict[str, Any]] = {
    "cohere2": {"rope_only_in_windows": True, "period_key": "sliding_window_pattern"},
    "exaone4": {"rope_only_in_windows": True, "period_key": "sliding_window_pattern"},
    "exaone_moe": {"rope_only_in_windows": True, "period_key": "sliding_window_pattern"},
    "afmoe": {"rope_only_in_windows": True, "period_key": "global_attn_every_n_layers"},
    "llama4_text": {"window_key": "attention_chunk_size", "no_rope": True, "windows": "chunks"},
    "ministral": {"windows": "listed"},
    "granitemoeshared": {"scale_key": "attention_multiplier"},
    "vaultgemma": {"scalar": 256},
    "hyperclovax": {"scale_key": "attention_multiplier", "scale_default": None},
    "minimax_m2": {"rotary_key": True, "share": 1.0},
    "phimoe": {"windows": "every layer"},
    "kolibri1": {"rope_only_in_windows": True},
    "qwen3_next": {"state": "linear_attention", "state_size": "delta_net", "period": 4},
    "qwen3_5_text": {
        "state": "linear_attention", "state_size": "delta_net", "period": 4, "interleaved_sections": True,
    },
    "qwen3_5_moe_text": {
        "state": "linear_attention", "state_size": "delta_net", "period": 4, "interleaved_sections": True,
    },
    "qwen3_vl_text": {"interleaved_sections": True},
    "qwen3_vl_moe_text": {"interleaved_sections": True},
    "minimax": {"state": "linear_attention", "state_size": "lightning", "period": 2},
    "lfm2": {"state": "conv", "state_size": "convolution", "period": 1},
    "lfm2_moe": {"state": "conv", "state_size": "convolution", "period": 1},
    "bamba": {"state": "mamba", "state_size": "mamba_2", "period": 0},
    "granitemoehybrid": {
        "state": "mamba", "state_size": "mamba_2", "period": 0, "rotates": "key",
        "scale_key": "attention_multiplier",
    },
    "jamba": {"state": "mamba", "state_size": "mamba", "rotates": "never", "period": 8, "offset": 4},
    "nemotron_h": {"state": "mamba", "state_size": "nemotron_h", "period": 0, "rotates": "never"},
}  # fmt: skip
# What a class needs to run, because its defaults name no layer with attention.
RUN_WITH: dict[str, dict[str, Any]] = {
    "bamba": {"attn_layer_indices": [1]},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 16},
    "granitemoehybrid": {
        "layer_types": ["mamba", "attention"] * 16,
        "position_embedding_type": "rope",
    },
}
PLAIN = (
    "apertus", "arcee", "aria_text", "axk1", "cwm", "diffllama", "ernie4_5_moe", "flex_olmo",
    "glm4_moe_lite", "hy_v3", "internlm3", "iquestcoder", "jais2",
    "hunyuan_v1_dense", "nanochat", "solar_open", "youtu",
)  # fmt: skip
SIZES = {
    "hidden_size": "hidden_size", "layers": "num_hidden_layers", "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads", "head_dim": "head_dim", "context": "max_position_embeddings",
}  # fmt: skip


def family(model_type: str) -> dict[str, Any]:
    """Return what RopeFamily takes for a model type."""
    import transformers

    config_class = transformers.CONFIG_MAPPING[model_type]
    built = config_class()
    whole = json.loads(json.dumps(built.to_dict()))
    fields = {field.name: field.default for field in dataclasses.fields(config_class)}
    kinds = establish({"config": whole | RUN_WITH.get(model_type, {})})["kinds"]
    layouts = {kind["layout"] for kind in kinds if "layout" in kind}
    record: dict[str, Any] = {"config_class": config_class.__name__}
    record |= {"layout": layouts.pop()} if layouts else {}
    record |= {name: fields.get(key) for name, key in SIZES.items()}
    record |= {
        "kv_heads_key": "num_key_value_heads" in fields,
        "head_dim_key": "head_dim" in fields,
    }
    block = dict(getattr(built, "rope_parameters", None) or {})
    record["base"] = block.pop("rope_theta", 10_000.0)
    if "partial_rotary_factor" in block:
        record["share"] = block.pop("partial_rotary_factor")
    if block.get("rope_type", "default") != "default":
        record["block"] = {key: value for key, value in block.items() if key != "type"}
    if "kv_lora_rank" in fields:
        record |= {"latent": True, "head_dim": None, "head_dim_key": True}
        record["unrotated"] = fields["qk_nope_head_dim"]
    elif record["head_dim"] is None and whole.get("head_dim"):
        implied = whole["hidden_size"] // whole["num_attention_heads"]
        record["head_dim"] = None if whole["head_dim"] == implied else whole["head_dim"]
    types = whole.get("layer_types")
    if types and "sliding_attention" in types:
        full = types.index("full_attention") if "full_attention" in types else 0
        again = types.index("full_attention", full + 1) if "full_attention" in types else 0
        record |= {"windows": "pattern", "window": fields["sliding_window"], "period": again - full}
        record["first_full"] = full == 0
    if model_type == "llama4_text":
        record["window"] = whole["attention_chunk_size"]
    return record | STATED.get(model_type, {})


if __name__ == "__main__":
    rows = [f"{json.dumps(name)}: {json.dumps(family(name))}" for name in sorted({*PLAIN, *STATED})]
    GENERATED.write_text("{\n" + ",\n".join(rows) + "\n}\n")
