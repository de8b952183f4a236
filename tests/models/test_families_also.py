"""Keys that a row lists under `also` change nothing of position: their classes run with other values."""

import copy
import json
from functools import cache
from typing import Any

import pytest
import torch

from posenc.models import read_config
from posenc.models.family import FAMILIES, merged
from posenc.models.stack import Stack
from posenc.models.unread import bears_on_position
from tests.longer import mostly
from tests.models.configs import Config
from tests.models.generate_families import RUN_WITH
from tests.models.published_models.establish import establish

transformers: Any = pytest.importorskip("transformers", minversion="5")

# Another value of each key; a key that its class only takes together with others has those, too.
OTHER: dict[str, Any] = {
    "attention_chunk_size": 17, "chunk_size": 64, "conv_bias": True, "conv_channels": 48,
    "conv_dim": 48, "conv_dim_out": 48, "conv_kernel_sizes": [3, 3], "conv_use_xavier_init": False,
    "extra_pos_embeddings": 7, "full_attn_alpha_factor": 2, "full_attn_beta_factor": 2,
    "head_dim": 24, "hidden_mamba_act": "gelu", 
    "index_local_blocks": 3, "index_n_heads": 2, "kda_lower_bound": -2.0,
    "kda_safe_gate": False, "kv_channels": 24, "learned_pos_emb": False, "linear_a_log_max": 8.0,
    "linear_a_log_min": 0.5, "linear_allow_neg_eigval": False, "linear_attn_alpha_factor": 2,
    "linear_attn_beta_factor": 2, "linear_dt_init_floor": 1e-3, "linear_dt_max": 0.2,
    "linear_dt_min": 0.002, "mamba_chunk_size": 64, "mamba_conv_bias": False,
    "mamba_d_head": {"mamba_d_head": 32, "mamba_n_heads": 4}, "mamba_dt_rank": 3,
    "mamba_hidden_act": "gelu", "mamba_n_heads": 4,
    "mamba_norm_before_gate": False, "mamba_proj_bias": True, "mamba_rms_norm": True,
    "mamba_ssm_cache_dtype": "bfloat16", "max_window_layers": 3, "n_mamba_heads": 8,
    "n_positions": 33, "num_query_groups": 2, "offset_alibi": 5,
    "position_embedding_type": "sans_pos", "prefix_lm": False, "qk_head_dim": 40,
    "rope_parameters": {"rope_theta": 3.0},
    "rope_scaling": {"type": "linear", "factor": 3.0}, "rope_theta": 3.0, "rotary": False,
    "ssm_in_multiplier": 2.0, "ssm_multipliers": [2.0] * 5, "ssm_out_multiplier": 2.0,
    "time_step_floor": 0.01, "time_step_limit": [0.0, 1.0], "time_step_max": 0.2,
    "time_step_min": 0.01, "time_step_rank": 24, "use_conv_bias": False, "use_mamba_kernels": False,
    "use_mambapy": True, "v_head_dim": 24,
}  # fmt: skip
# Keys of which no run shows that they change nothing, and why they do not.
STATED = {
    "attn_layer_offset": "it places layers where no list names them, and such a config is refused",
    "attn_layer_period": "it places layers where no list names them, and such a config is refused",
    "hybrid_layer_ids": "its class makes it of the list of layers, and saves it beside that list",
    "num_conv_layers": "it says how often sound is shortened before its frames have positions",
}
SMALL: Config = {
    "vocab_size": 64, "hidden_size": 64, "intermediate_size": 32, "num_hidden_layers": 8,
    "num_attention_heads": 4, "num_key_value_heads": 2, "pad_token_id": 0, "num_experts": 4,
    "num_experts_per_tok": 2, "moe_intermediate_size": 8, "shared_expert_intermediate_size": 8,
    "num_local_experts": 2, "head_dim": 16, "num_expert_group": 1, "topk_group": 1,
    "num_experts_per_token": 2, "bos_token_id": 0, "eos_token_id": 0, "dropout": 0.0,
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 6,
    "linear_value_head_dim": 10, "mamba_n_heads": 8, "mamba_d_state": 6, "mamba_n_groups": 2,
    "mamba_d_ssm": 128, "n_mamba_heads": 4, "mamba_ngroups": 2, "mamba_num_heads": 8,
    "mamba_head_dim": 10, "ssm_state_size": 6, "n_groups": 2, "max_position_embeddings": 128,
    "alibi": False, "d_model": 64, "n_embd": 64, "n_head": 4, "n_layer": 2, "n_heads": 4, "n_layers": 2,
    "num_heads": 4, "num_layers": 2, "d_ff": 32, "d_kv": 16, "encoder_layers": 2, "decoder_layers": 2,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32, "rotary_dim": 8, "n_positions": 128,
}  # fmt: skip
WIDTHS = ("head_dim", "v_head_dim")  # of heads, in every class


def kept(model_type: str) -> bool:
    """Whether a class has layers that keep a state in place of keys."""
    return any(kind.get("state") for kind in FAMILIES[model_type].get("kinds", {}).values())


def keys(model_type: str) -> list[tuple[Config, str]]:
    """The keys that a row promises to change nothing, each with what its class needs for it."""
    row = FAMILIES[model_type]
    found: list[tuple[Config, str]] = [({}, key) for key in row.get("also", ())]
    for part in row.get("alternatives", ()):
        found += [({part["if"]: True}, key) for key in part.get("also", ())]
    return found


def small(model_type: str, changes: Config) -> Any:
    """A small model of the class of a type."""
    of_class = transformers.CONFIG_MAPPING[model_type]
    known = vars(of_class()).keys() | {*of_class.attribute_map}
    sizes = {key: value for key, value in SMALL.items() if key in known}
    if "kv_lora_rank" in known:
        sizes["num_key_value_heads"] = sizes["num_attention_heads"]
    config = of_class(**copy.deepcopy(sizes | RUN_WITH.get(model_type, {}) | changes))
    torch.manual_seed(0)
    return transformers.AutoModel.from_config(config, dtype=torch.float32).eval()


def seen(model_type: str, changes: Config) -> Any:
    """What a run shows of rotations, masks and caches."""
    sizes = {"num_hidden_layers": 8} | RUN_WITH.get(model_type, {})
    config = transformers.CONFIG_MAPPING[model_type](**copy.deepcopy(sizes | changes))
    record = json.loads(json.dumps(config.to_dict(), default=str))
    return establish({"config": record | {"model_type": model_type}})["kinds"]


def states(model_type: str, changes: Config) -> list[int]:
    """The numbers that each layer keeps of a text, whatever its length."""
    model = small(model_type, changes)
    with torch.no_grad():
        result = model(input_ids=torch.arange(1, 8)[None], use_cache=True)
    cache = getattr(result, "past_key_values", transformers.DynamicCache())
    kept = [
        state
        for layer in cache.layers
        for name in ("conv_states", "recurrent_states")
        for state in (getattr(layer, name, None) or {}).values()
    ]
    kept += getattr(cache, "linear_cache", [])  # MiniMax has its own class
    assert kept
    return [state.numel() for state in kept if isinstance(state, torch.Tensor)]


def output(model_type: str, changes: Config) -> torch.Tensor:
    """The vectors that a small model makes of a text."""
    model, text = small(model_type, changes), torch.arange(1, 8)[None]
    if model_type == "speech_to_text":
        return model.encoder.embed_positions.weights
    inputs = {"decoder_input_ids": text} if model.config.is_encoder_decoder else {}
    with torch.no_grad():
        return model(input_ids=text, **inputs).last_hidden_state


@cache
def facts(model_type: str, changes: str, *, of_state: bool) -> Any:
    given = json.loads(changes)
    if of_state:
        return states(model_type, given)
    if "position" in FAMILIES[model_type] or model_type == "falcon":
        return output(model_type, given).tolist()
    return seen(model_type, given)


CASES = [
    (name, key, with_)
    for name in FAMILIES
    if name in transformers.CONFIG_MAPPING
    for with_, key in keys(name)
    if key not in STATED
]


ALWAYS: tuple[tuple[str, str, Config], ...] = (
    ("bloom", "offset_alibi", {}),
    ("falcon_h1", "mamba_n_heads", {}),
    ("youtu", "v_head_dim", {}),
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("model_type", "key", "needs"), mostly(CASES, *ALWAYS, name=lambda case: f"{case[0]} {case[1]}")
)
def test_a_key_that_changes_nothing_changes_no_rotation_mask_or_cache(
    model_type: str, key: str, needs: Config
) -> None:
    value = OTHER[key]
    changes = needs | (value if isinstance(value, dict) and key in value else {key: value})
    of_state = kept(model_type) and key not in WIDTHS
    before, after = (
        facts(model_type, json.dumps(given), of_state=of_state) for given in (needs, changes)
    )
    assert after == before
    config = {"model_type": model_type} | RUN_WITH.get(model_type, {}) | needs
    kinds = read_config(config).layer_kinds
    if set(changes) == {key, *needs}:
        assert read_config(config | changes).layer_kinds == kinds


def test_every_key_that_changes_nothing_has_a_run_or_a_reason() -> None:
    listed = {key for name in FAMILIES for _, key in keys(name)}
    assert listed == {*OTHER, *STATED}
    assert not {*OTHER} & {*STATED}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("model_type", "key", "value"),
    [
        ("youtu", "kv_lora_rank", 64),
        ("bamba", "mamba_d_conv", 3),
        ("gpt2", "scale_attn_weights", False),
    ],
)
def test_a_key_that_a_class_reads_changes_what_a_run_shows(
    model_type: str, key: str, value: Any
) -> None:
    of_state = kept(model_type)
    before = facts(model_type, "{}", of_state=of_state)
    assert facts(model_type, json.dumps({key: value}), of_state=of_state) != before


@pytest.mark.parametrize("model_type", FAMILIES)
def test_keys_that_change_nothing_are_not_read_otherwise(model_type: str) -> None:
    """And their names bear on position: others need no promise."""
    row = {name: value for name, value in FAMILIES[model_type].items() if name != "also"}
    parts = row.get("stacks", {"": {}}).values()
    read = {key for part in parts for key in Stack({}, merged(row, part)).keys_read()}
    promised = {*FAMILIES[model_type].get("also", ())}
    assert promised & read == set()
    assert {key for key in promised if not bears_on_position(key)} == set()
