"""Write posenc/models/families.json and causal_types.json, from the installed transformers.

families.json has defaults of its classes that fit RopeFamily: sizes and bases come from the fields of the
class; layout, windows and layers without RoPE are those that `establish` observes. causal_types.json has
every causal model type: read, or why not. `python -m tests.models.generate_families` writes both, and
`python -m tests.models.generate_families types` the second alone.
"""

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

from posenc.errors import ConfigFileError
from posenc.models import read_config
from posenc.models.families import GENERATED
from tests.models.published_models.establish import establish

CAUSAL_TYPES = Path(__file__).with_name("causal_types.json")
SINK = "Each head has a learned logit more in its softmax, the attention sink."
CAP = "Logits are capped by a tanh before the softmax (attn_logit_softcapping)."
PHI3 = {
    "windows": "every layer", "trained_length": 4_096, "share": 1.0, "types": {"yarn": "longrope"},
    "takes": ["default", "longrope"],
}  # fmt: skip
QWEN_VL = {  # text and pictures rotate by a function of their own
    "layout": "half", "windows": "last layers", "window": 4_096, "first_windowed": 80,
    "block_defaults": {"mrope_section": [16, 24, 24]},
}  # fmt: skip
GEMMA3 = {
    "base": {
        "full_attention": {"default": 1e6},
        "sliding_attention": {"default": 1e4, "names": ["rope_local_base_freq"], "scaled": False},
    },
    "block": {},
}  # fmt: skip
GEMMA4 = {
    "softmax_scale": 1.0, "both_sides": "word", "global_head_dim": 512, "shared_layers": 0,
    "block": {"full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25}},
}  # fmt: skip
NEOX = {
    "base": {"": {"default": 1e4, "names": ["rotary_emb_base", "rope_theta"]}},
    "share_names": ["rotary_pct", "partial_rotary_factor"],
}  # fmt: skip
MODERNBERT = {
    "base": {
        "full_attention": {"default": 1.6e5, "names": ["global_rope_theta"]},
        "sliding_attention": {"default": 1e4, "names": ["local_rope_theta"]},
    },
    "block": {}, "window": 128, "window_key": "local_attention", "period_key": "global_attn_every_n_layers",
}  # fmt: skip
# Keys of a class whose layers rotate only where they have a window, or that have another window key.
STATED: dict[str, dict[str, Any]] = {
    "llama": {},
    "mistral": {"windows": "every layer", "window": 4_096},
    "mixtral": {"windows": "every layer", "head_dim_unset": True},
    "qwen2": {"windows": "last layers", "window": 4_096},
    "qwen3": {"windows": "last layers", "window": 4_096},
    "qwen2_vl_text": QWEN_VL,
    "qwen2_5_vl_text": QWEN_VL,
    "gemma2": {"scalar": 256, "notes": [CAP]},
    "gemma3_text": GEMMA3 | {
        "scalar": 256, "period_key": "sliding_window_pattern", "both_sides": "flag"
    },
    "gemma3n_text": GEMMA3 | {"softmax_scale": 1.0, "shared_layers": 15},
    "gemma4_text": GEMMA4,
    "gemma4_unified_text": GEMMA4,
    "phi3": PHI3,
    "phi4_multimodal": PHI3,
    "gpt_neox": NEOX,
    "gpt_neox_japanese": NEOX | {"share": 1.0},
    "deepseek_v2": {},
    "deepseek_v3": {},
    "gpt_oss": {"notes": [SINK]},
    "olmo3": {
        "base": {
            "full_attention": {"default": 5e5}, "sliding_attention": {"default": 5e5, "scaled": False},
        },
        "block": {},
    },
    "falcon": {},
    "modernbert": MODERNBERT | {"encoder": True},
    "modernbert-decoder": MODERNBERT,
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
    "minimax": {"state": "linear_attention", "state_size": "lightning", "period": 2, "full_at": 0},
    "lfm2": {"state": "conv", "state_size": "convolution", "period": 1},
    "lfm2_moe": {"state": "conv", "state_size": "convolution", "period": 1},
    "bamba": {"state": "mamba", "state_size": "mamba_2", "period": 0},
    "granitemoehybrid": {
        "state": "mamba", "state_size": "mamba_2", "period": 0, "rotates": "key",
        "scale_key": "attention_multiplier",
    },
    "jamba": {"state": "mamba", "state_size": "mamba", "rotates": "never", "period": 8, "full_at": 4},
    "ministral3": {"windows": "every layer", "query_factor": True},
    "nemotron_h": {"state": "mamba", "state_size": "nemotron_h", "period": 0, "rotates": "never"},
    "bailing_hybrid": {
        "state": "linear_attention", "state_size": "bailing", "period": 6, "period_key": "layer_group_size",
        "names": {"context": "model_max_length"}, "layout": "interleaved",
    },
    "kimi_linear": {
        "state": "linear_attention", "state_size": "kimi_delta", "period": 4, "full_at": 4,
        "rotates": "never",
        "names": {"context": "model_max_length"},
    },
    "lfm3": {
        "state": "conv", "state_size": "convolution", "period": 0, "windows": "if listed", "full_at": -1,
        "window": 256,
    },
    "olmo_hybrid": {"state": "linear_attention", "state_size": "olmo_hybrid", "period": 4},
    "falcon_h1": {"state_size": "falcon_h1"},
    **{
        name: {"scale_key": "attention_multiplier"}
        for name in ("granite", "granitemoe", "granite_swa", "granitemoe_swa")
    },
    "smollm3": {"no_rope": True},
    "starcoder2": {"windows": "every layer"},
    "cohere2_moe": {"rope_only_in_windows": True, "period_key": "sliding_window_pattern"},
    "dots1": {"windows": "late layers", "window": 4_096, "first_windowed": 62},
    "laguna": {"windows": "if listed", "window": 512, "share": 1.0},
    "mellum": {"windows": "if listed", "window": 1_024, "share": 1.0},
    "solar_open": {"share": 1.0},
    "mimo_v2_flash": {
        "share": 0.334, "value_width": 128, "windowed_kv": 2, "period": 6, "full_at": -1,
        "also_full": [0],
    },
    "beam": {"rope_only_in_windows": True, "also_full": [-1]},
    "mistral4": {"query_factor": True},
    "deepseek_v32": {"indexed": True},
    "glm_moe_dsa": {"indexed": True},
    "flint": {
        "rope_only_in_windows": True, "period": 4, "full_at": 1, "also_full": [0, -1], "notes": [SINK],
    },
    "recurrent_gemma": {
        "windows": "every layer", "window": 2_048, "window_key": "attention_window_size",
        "state": "linear_attention", "state_size": "lru", "period": 3, "full_at": 2,
    },
    "dbrx": {"names": {"context": "max_seq_len"}, "head_dim_key": False},
    "mllama_text_model": {"state": "cross_attention"},
    "hrm_text": {"layers": 16, "notes": [
        "Two stacks of layers run in turn, several times: each run of a layer has a cache of its own and "
        "is counted as a layer.",
        "With prefix_lm, the tokens of an instruction see both sides if token_type_ids mark them.",
    ]},
    "zaya": {
        "state_size": "compressed_convolution", "full_word": "hybrid", "windows": "if listed", "share": 1.0,
        "base": {"full_attention": 5e6, "sliding_attention": 1e4},
        "block": {
            kind: {"rope_type": "default", "partial_rotary_factor": 0.5, "rope_theta": base}
            for kind, base in (("full_attention", 5e6), ("sliding_attention", 1e4))
        },
        "window": None, "notes": ["Queries and keys are mixed with those of earlier tokens first."],
    },
    "cohere_compass_text": {
        "windows": "if listed", "window": 4_096, "interleaved_sections": True,
        "base": {"full_attention": 10_000.0, "sliding_attention": 10_000.0}, "block": {},
    },
    "jetmoe": {
        "names": {"head_dim": "kv_channels"}, "head_dim_key": True,
        "notes": ["A router chooses the query heads of each token."],
    },
    "zamba": {
        "state": "mamba", "state_size": "mamba", "full_word": "hybrid", "rotates": "never",
        "names": {"head_dim": "attention_head_dim"}, "head_dim": None, "head_dim_key": True,
    },
    "zamba2": {
        "state": "mamba", "state_size": "zamba2", "full_word": "hybrid", "head_dim": None,
        "notes": ["A few attentions are shared by all hybrid layers, each with a cache of its own."],
    },
    "longcat_flash": {"names": {"layers": "num_layers"}, "layers": 28},
    "doge": {"windows": "every layer", "notes": [
        "In texts of more than keep_window_size tokens (2,048 by default), a learned score chooses which "
        "tokens a query sees."
    ]},
}  # fmt: skip
# What a class needs to run: its defaults do not work, or name one kind of layer alone.
RUN_WITH: dict[str, dict[str, Any]] = {
    "bamba": {"num_hidden_layers": 8, "attn_layer_indices": [2, 6]},
    "bitnet": {"num_hidden_layers": 4},
    "cohere_compass_text": {
        "num_hidden_layers": 8, "layer_types": ["sliding_attention", "full_attention"] * 4,
        "rope_parameters": {
            "full_attention": None, "sliding_attention": {"rope_theta": 50_000.0, "rope_type": "default"},
        },
    },
    "dbrx": {"attn_config": {"rope_theta": 10_000.0, "clip_qkv": 8.0}},
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2},
    "gemma4_assistant": {"text_config": {
        "model_type": "gemma4_text", "hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0,
        "num_hidden_layers": 4, "num_kv_shared_layers": 4,
    }},
    "glm4_moe": {"head_dim": 128},
    "granitemoehybrid": {
        "num_hidden_layers": 8, "layer_types": ["mamba", "attention"] * 4,
        "position_embedding_type": "rope",
    },
    "hunyuan_v1_dense": {"head_dim": 128},
    "hunyuan_v1_moe": {"head_dim": 128},
    "lfm2": {"num_hidden_layers": 8, "layer_types": ["conv", "full_attention"] * 4},
    "lfm2_moe": {"num_hidden_layers": 8, "layer_types": ["conv", "full_attention"] * 4},
    "zamba": {"num_hidden_layers": 4, "layers_block_type": ["mamba", "hybrid"] * 2},
    "zamba2": {
        "num_hidden_layers": 4, "layers_block_type": ["mamba", "hybrid"] * 2, "use_mem_rope": True,
    },
    "nemotron": {"head_dim": 128, "num_key_value_heads": 8},
    "nemotron_h": {"layers_block_type": ["mamba", "attention", "moe", "mlp"] * 2},
}  # fmt: skip
# Attention of these classes reads a head_dim, though their configuration classes have no such field.
READS_HEAD_DIM = (
    "apertus", "bitnet", "cohere", "cohere2", "ernie4_5_moe", "exaone4", "exaone_moe", "falcon_h1",
    "flex_olmo", "glm4_moe", "granite", "granite_swa", "granitemoe", "granitemoe_swa",
    "granitemoeshared", "lfm2", "nanochat", "olmo", "olmo2", "olmo_hybrid", "olmoe", "phi",
    "olmo3", "phi3", "phi4_multimodal", "phimoe", "qwen2", "qwen2_moe",
    "qwen3_moe", "smollm3", "stablelm", "starcoder2",
)  # fmt: skip
PLAIN = (
    "ernie4_5", "gemma", "glm", "glm4", "helium", "nemotron", "persimmon", "seed_oss",
    "apertus", "arcee", "aria_text", "axk1", "bitnet", "cwm", "diffllama", "ernie4_5_moe",
    "flex_olmo", "glm4_moe_lite", "hy_v3", "internlm3", "iquestcoder", "jais2",
    "hunyuan_v1_dense", "hunyuan_v1_moe", "minicpm3", "nanochat", "youtu", "emu3_text_model",
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
    stated = STATED.get(model_type, {})
    runs = "layout" not in stated
    kinds = establish({"config": default_config(model_type)})["kinds"] if runs else []
    layouts = {kind["layout"] for kind in kinds if "layout" in kind}
    record: dict[str, Any] = {"config_class": config_class.__name__}
    record |= {"layout": layouts.pop()} if layouts else {}
    other = config_class.attribute_map
    record |= {name: fields.get(key, fields.get(other.get(key, ""))) for name, key in SIZES.items()}
    record |= {
        "kv_heads_key": "num_key_value_heads" in fields,
        "head_dim_key": "head_dim" in fields or model_type in READS_HEAD_DIM,
    }
    block = dict(getattr(built, "rope_parameters", None) or {})
    by_kind = {kind: inner for kind, inner in block.items() if isinstance(inner, dict)}
    record["base"] = block.pop("rope_theta", 10_000.0)
    if by_kind:
        record["base"] = {kind: inner["rope_theta"] for kind, inner in by_kind.items()}
        record["block"] = by_kind
    elif "partial_rotary_factor" in block:
        record["share"] = block.pop("partial_rotary_factor")
    if not by_kind and block.get("rope_type", "default") != "default":
        record["block"] = {key: value for key, value in block.items() if key != "type"}
    if "kv_lora_rank" in fields:
        record |= {"latent": True, "head_dim": None, "head_dim_key": True, "share": None}
        record["unrotated"] = fields["qk_nope_head_dim"]
    elif record["head_dim"] is None and whole.get("head_dim"):
        implied = whole["hidden_size"] // whole["num_attention_heads"]
        record["head_dim"] = None if whole["head_dim"] == implied else whole["head_dim"]
    types = whole.get("layer_types")
    if types and "sliding_attention" in types:
        full = types.index("full_attention") if "full_attention" in types else 0
        again = types.index("full_attention", full + 1) if "full_attention" in types else 0
        record |= {
            "windows": "pattern",
            "window": fields.get("sliding_window"),
            "period": again - full,
        }
        record["full_at"] = 0 if full == 0 else -1
    if model_type == "llama4_text":
        record["window"] = whole["attention_chunk_size"]
    return record | stated


def causal_types() -> tuple[str, ...]:
    """Return the model types that transformers can generate text with."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return tuple(sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES))


def default_config(model_type: str) -> dict[str, Any]:
    """Return the config that a class makes of its defaults, of the text model where it is nested."""
    import transformers

    built = transformers.CONFIG_MAPPING[model_type](**RUN_WITH.get(model_type, {}))
    text = built.get_text_config(decoder=True)
    return json.loads(json.dumps(text.to_dict(), default=str)) | {"model_type": text.model_type}


def outcome(model_type: str) -> str:
    """Return whether such a config is read, or why not."""
    try:
        read_config(default_config(model_type))
    except ConfigFileError as error:
        return error.problem
    return "read"


def write(path: Path, record: dict[str, Any]) -> None:
    rows = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in record.items()]
    path.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    if "types" not in sys.argv:
        write(
            GENERATED, {name: family(name) for name in sorted({*PLAIN, *READS_HEAD_DIM, *STATED})}
        )
    write(CAUSAL_TYPES, {name: outcome(name) for name in causal_types()})
