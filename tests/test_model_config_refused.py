"""Configs that are refused because nothing is guessed, and what reads them all the same.

The values are those of published config.json files of the models that are named, as far as they bear on
position, unless a test says otherwise.
"""

from typing import Any

import pytest

from posenc.errors import ConfigFileError
from posenc.interop import read_config
from posenc.interop.models import read_config_word
from posenc.interop.models.config_word import config_word

LLAMA: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 4_096, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 8_192,
    "rope_theta": 5e5,
}  # fmt: skip


def of_type(model_type: str, **more: Any) -> dict[str, Any]:
    return LLAMA | {"model_type": model_type} | more


def refusal(config: dict[str, Any], assume: str | None = None) -> ConfigFileError:
    with pytest.raises(ConfigFileError) as caught:
        read_config(config, assume)
    return caught.value


# Models of the wild ----------------------------------------------------------------------------------

UNKNOWN = {
    "Command R7B": of_type("cohere2", sliding_window=4_096, sliding_window_pattern=4),
    "EXAONE-4": of_type("exaone4", sliding_window=4_096, sliding_window_pattern="LLLG"),
    "AFMoE": of_type("afmoe", sliding_window=2_048, global_attn_every_n_layers=4),
    "Llama 4": of_type("llama4_text", no_rope_layers=[1, 1, 1, 0] * 8, attention_chunk_size=8_192),
    "Qwen3-Next": of_type("qwen3_next", full_attention_interval=4, partial_rotary_factor=0.25),
    "Bamba": of_type("bamba", attn_layer_indices=[9, 18, 27], attn_rotary_emb=64),
    "nomic-embed": of_type("nomic_bert", rotary_emb_base=1_000, rotary_emb_fraction=1.0),
    "MiniMax-M2": of_type("minimax_m2", rotary_dim=64, head_dim=128),
    "HunYuan": of_type("hunyuan_v1_dense", rope_scaling={"type": "dynamic", "alpha": 1_000.0,
                                                         "factor": 1.0}),
    "Phi-3.5-MoE": of_type("phimoe", rope_scaling={
        "type": "longrope", "short_factor": [1.0] * 64, "long_factor": [2.0] * 64,
        "long_mscale": 1.243163121016122, "short_mscale": 1.243163121016122,
        "original_max_position_embeddings": 4_096}),
}  # fmt: skip


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_model_of_an_unknown_type_is_refused_by_its_type(name: str) -> None:
    config = UNKNOWN[name]
    error = refusal(config)
    assert error.key == "model_type"
    assert error.assume == "llama"
    assert str(error) == (
        f'model_type "{config["model_type"]}" is not known, and nothing is guessed; to read it as a '
        'Llama model, use --assume llama (in Python, assume="llama").'
    )
    model = read_config(config, "llama")
    assert model.assumption.startswith("Read as a Llama model on request: model_type ")
    assert model.model_type == config["model_type"]


# One line each: a file of a known type, and the keys that it is refused for.
UNREAD: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    (of_type("qwen2", dual_chunk_attention_config={"chunk_size": 262_144, "local_size": 8_192}),
     ("dual_chunk_attention_config",)),
    (of_type("qwen3_moe", use_sliding_window=True, sliding_window=4_096, max_window_layers=8),
     ("use_sliding_window", "sliding_window", "max_window_layers")),
    (of_type("mistral", use_sliding_window=False, sliding_window=4_096), ("use_sliding_window",)),
    (of_type("mistral", use_sliding_window=False), ("use_sliding_window",)),
    (LLAMA | {"sliding_window": 4_096}, ("sliding_window",)),
    (LLAMA | {"layer_types": ["full_attention"] * 32, "kv_lora_rank": 512, "qk_rope_head_dim": 64},
     ("kv_lora_rank", "qk_rope_head_dim")),
    (LLAMA | {"rope_scaling": {"type": "dynamic", "factor": 2.0, "alpha": 1_000.0}},
     ("rope_scaling.alpha",)),
    (LLAMA | {"rope_parameters": {"rope_theta": 5e5, "llama_4_scaling_beta": 0.1}},
     ("rope_parameters.llama_4_scaling_beta",)),
    (LLAMA | {"rope_scaling": {"type": "linear", "factor": 2.0, "truncate": False}},
     ("rope_scaling.truncate",)),
    (of_type("llava", text_config=LLAMA | {"rope_ratio": 2}), ("text_config.rope_ratio",)),
    (of_type("llava", text_config=LLAMA, rope_theta=1e6), ("rope_theta",)),
    ({"model_type": "bert", "rope_theta": 1e4}, ("rope_theta",)),
]  # fmt: skip


@pytest.mark.parametrize(("config", "keys"), UNREAD, ids=lambda one: str(one)[:50])
def test_a_key_that_bears_on_position_and_is_not_read_refuses_the_file(
    config: dict[str, Any], keys: tuple[str, ...]
) -> None:
    error = refusal(config)
    assert error.key == keys[0]
    assert all(key in str(error) for key in keys)
    assert "position and " in str(error)
    assert f"use --assume {error.assume} " in str(error)
    model = read_config(config, error.assume)  # as the sentence says
    assert model.ignored == keys
    assert model.read_as == error.assume
    assert model.assumption.startswith("Read without ")
    assert all(key in model.assumption for key in keys)


# Names of transformers' configuration classes and of published files, one of each sort.
BEARING = [
    "use_sliding_window", "rotary_emb_base", "rotary_dim", "rope_ratio", "dual_chunk_attention_config",
    "attention_chunk_size", "sliding_window", "no_rope_layers", "no_rope_layer_interval", "use_nope",
    "nope_layer_interval", "attn_layer_indices", "attn_layer_offset", "attn_layer_period",
    "full_attention_interval", "linear_key_head_dim", "linear_num_value_heads", "linear_conv_kernel_dim",
    "kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "attn_config", "alibi",
    "position_embedding_type", "attn_temperature_tuning", "floor_scale", "attn_scale",
    "max_window_layers", "sliding_window_pattern", "_sliding_window_pattern", "sliding_window_size",
    "layer_rope_theta", "layers_block_type", "block_types", "attention_types", "attn_type_list",
    "hybrid_layer_ids", "full_attn_idxs", "global_attn_every_n_layers", "local_attention",
    "swa_head_dim", "mamba_d_state", "ssm_state_size", "state_size", "time_step_rank", "lru_width",
    "conv_L_cache", "conv_kernel", "kda_lower_bound", "index_topk", "indexer_types", "compress_rates",
    "num_kv_shared_layers", "num_kv_heads", "kv_channels", "multi_query", "num_query_groups",
    "attention_head_dim", "attention_multiplier", "query_pre_attn_scalar", "log_scaling_alpha",
    "relative_attention_num_buckets", "position_bias_max_distance", "learned_pos_emb", "prefix_lm",
    "is_causal", "use_logn_attn", "rope_scaling_layers",
    "attention_window_size", "compress_rope_theta", "use_cla", "window_size", "chunk_size",
]  # fmt: skip


@pytest.mark.parametrize("name", BEARING)
def test_a_name_that_bears_on_position_is_noticed(name: str) -> None:
    assert refusal(LLAMA | {name: 2}).key == name
    assert read_config(LLAMA | {name: None}) == read_config(LLAMA)


# Keys of published files of a known type that change nothing, with their published values.
HARMLESS: list[dict[str, Any]] = [
    LLAMA | {"pretraining_tp": 1, "max_sequence_length": 2_048, "max_length": 4_096},
    LLAMA | {"use_sliding_window": False, "sliding_window": None, "max_window_layers": 28},
    LLAMA | {"alibi": False, "attn_temperature_tuning": False, "use_cla": False},
    LLAMA | {"rope_scaling": {"type": "yarn", "factor": 32.0, "finetuned": True,
                              "original_max_position_embeddings": 4_096}},
    LLAMA | {"quantization_config": {"kv_cache_scheme": None}, "kv_cache_dtype": "fp8"},
    of_type("qwen3_moe", use_sliding_window=False, sliding_window=4_096, max_window_layers=48),
    of_type("gemma2", sliding_window=4_096, sliding_window_size=4_096, query_pre_attn_scalar=256),
    of_type("cohere", model_max_length=131_072),
    of_type("stablelm", rotary_scaling_factor=1.0),
    of_type("nemotron", kv_channels=128),
    of_type("olmoe", clip_qkv=None, moe_layer_freq=1, mlp_layer_types=["sparse"] * 32),
    {"model_type": "bloom", "n_embed": 1_024, "n_layer": 24, "num_attention_heads": 16,
     "offset_alibi": 100, "seq_length": 2_048},
    {"model_type": "gptj", "rotary": True, "rotary_dim": 64, "scale_attn_weights": True},
    {"model_type": "modernbert", "position_embedding_type": "absolute"},
    {"model_type": "mpt", "attn_config": {"alibi": True, "alibi_bias_max": 8, "attn_impl": "torch",
     "attn_type": "multihead_attention", "rope": False, "rope_theta": 10_000, "rope_impl": "dail",
     "sliding_window_size": -1, "prefix_lm": False}, "learned_pos_emb": True},
    {"model_type": "deepseek_v3", "v_head_dim": 128, "q_lora_rank": 1_536, "moe_layer_freq": 1},
    of_type("qwen2_5_vl", vision_config={"window_size": 112}, text_config=of_type("qwen2_5_vl_text")),
]  # fmt: skip


@pytest.mark.parametrize("config", HARMLESS, ids=lambda one: str(one["model_type"]))
def test_a_key_of_a_published_file_that_changes_nothing_does_not_refuse_it(
    config: dict[str, Any],
) -> None:
    model = read_config(config)
    assert (model.assumption, model.ignored) == ("", ())


def test_a_head_width_of_megatron_that_differs_from_what_is_read_refuses_the_file() -> None:
    """transformers' Nemotron takes hidden_size / heads, here 128, and does not read kv_channels."""
    assert refusal(of_type("nemotron", kv_channels=64)).key == "kv_channels"
    assert read_config(of_type("nemotron", head_dim=64, kv_channels=64)).main.head_dim == 64


def test_windowed_layers_of_a_class_without_windows_are_refused_by_their_list() -> None:
    """A conversion of facebook/cwm names its layers under the type of Llama, whose class passes over it."""
    windowed = LLAMA | {"layer_types": ["sliding_attention"] * 32, "sliding_window": 8_192}
    error = refusal(windowed)
    assert error.key == "layer_types"
    assert str(error).endswith("but no window is given: the class of llama has none.")


def test_a_sentence_names_a_few_keys_of_many() -> None:
    many = LLAMA | {f"rope_{n}": n for n in range(1, 40)}
    error = refusal(many)
    assert str(error).startswith(
        "rope_1, rope_2, rope_3, rope_4, rope_5 and 34 more bear on position"
    )
    assert len(str(error)) < 300
    assert len(read_config(many, "llama").ignored) == 39


def test_a_name_of_somebody_else_s_cannot_break_a_line() -> None:
    odd = LLAMA | {"rope_\n\x1b[31m": 1, "rope_parameters": {"rope_theta": 5e5, "a\nb": 1}}
    for text in (str(refusal(odd)), read_config(odd, "llama").assumption):
        assert "\n" not in text
        assert "\x1b" not in text
    assert "\n" not in str(refusal({"model_type": "a\nb"}))


# What is assumed -------------------------------------------------------------------------------------


def test_an_unknown_type_reads_as_a_llama_of_its_keys_and_says_so() -> None:
    model = read_config(of_type("brand_new"), "llama")
    assert model.layer_kinds == read_config(LLAMA).layer_kinds
    assert (model.model_type, model.read_as) == ("brand_new", "")
    assert model.assumption == (
        'Read as a Llama model on request: model_type "brand_new" is not known, so that layout, layers, '
        "windows and cache may differ from the real ones."
    )


def test_a_size_that_an_unknown_type_leaves_out_is_not_made_up() -> None:
    for name in ("hidden_size", "num_hidden_layers", "num_attention_heads"):
        config = {key: value for key, value in of_type("brand_new").items() if key != name}
        assert refusal(config, "llama").key == name


def test_an_unknown_type_reads_as_the_class_that_is_assumed() -> None:
    config = {"model_type": "brand_new", "num_hidden_layers": 12}
    model, own = (
        read_config(config, "gemma3_text"),
        read_config(config | {"model_type": "gemma3_text"}),
    )
    assert model.layer_kinds == own.layer_kinds
    assert model.to_rope_parameters() == own.to_rope_parameters()
    assert model.read_as == "gemma3_text"
    assert 'Read as model_type "gemma3_text" on request' in model.assumption


def test_a_known_type_that_needs_no_assumption_is_read_as_itself() -> None:
    config = {"model_type": "deepseek_v3"}
    assert read_config(config, "llama") == read_config(config)
    assert read_config(config).assumption == ""


@pytest.mark.parametrize("assume", ["", "Llama", "llama ", "gemma9", "x" * 9_999])
def test_what_is_assumed_must_be_a_known_type(assume: str) -> None:
    error = refusal(LLAMA, assume)
    assert "assume must be a model type that is known, such as llama" in str(error)
    assert len(str(error)) < 300


def test_a_model_of_pictures_and_text_is_assumed_by_its_text_model() -> None:
    config = {"model_type": "brand_new", "num_hidden_layers": 12}
    assert read_config(config, "gemma3") == read_config(config, "gemma3_text")


def test_a_config_without_a_type_is_read_on_request() -> None:
    config = {key: value for key, value in LLAMA.items() if key != "model_type"}
    error = refusal(config)
    assert (error.key, error.assume) == ("model_type", "llama")
    assert str(error) == (
        "model_type is missing, and nothing is guessed; to read it as a Llama model, use --assume llama "
        '(in Python, assume="llama").'
    )
    assert "names no model_type" in read_config(config, "llama").assumption


def test_a_link_carries_the_assumption_and_reads_to_the_same_model() -> None:
    for config in (of_type("brand_new", rope_ratio=2), LLAMA | {"rope_ratio": 2}):
        model = read_config(config, "llama")
        word = config_word(config, "llama")
        assert read_config_word(word) == model
        assert read_config_word(word).assumption
        with pytest.raises(ConfigFileError):
            config_word(config)
    assert config_word(LLAMA, "llama") == config_word(LLAMA)  # nothing is assumed
