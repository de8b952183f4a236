"""Configs that were guessed wrong, read right; and every causal type of the installed transformers."""

import json
from typing import Any

import pytest

from posenc import rope_frequencies
from posenc.errors import ConfigFileError
from posenc.interop import read_config
from posenc.interop.models import ModelConfig, model_types
from posenc.schemes.none import NoneConfig
from posenc.schemes.rope import RopeConfig
from tests.test_model_config_refused import LLAMA, of_type, refusal

# Read right, where it was guessed --------------------------------------------------------------------


def test_kimi_k2_is_read_with_its_latent_cache_and_neighbouring_pairs() -> None:
    """moonshotai/Kimi-K2-Instruct: 61 layers of 64 heads, a latent of 512 and a rotated key of 64."""
    model = read_config({
        "model_type": "kimi_k2", "hidden_size": 7_168, "num_hidden_layers": 61,
        "num_attention_heads": 64, "num_key_value_heads": 64, "max_position_embeddings": 131_072,
        "kv_lora_rank": 512, "q_lora_rank": 1_536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
        "v_head_dim": 128, "rope_theta": 50_000.0, "moe_layer_freq": 1, "rope_scaling": {
            "beta_fast": 1.0, "beta_slow": 1.0, "factor": 32.0, "mscale": 1.0,
            "mscale_all_dim": 1.0, "original_max_position_embeddings": 4_096, "type": "yarn"}})  # fmt: skip
    scheme = model.main.scheme
    assert isinstance(scheme, RopeConfig)
    assert (scheme.rotary_dim, scheme.layout) == (64, "interleaved")
    assert model.main.cache_width == 512 + 64
    assert model.cache_numbers(131_072) == 131_072 * 61 * 576


@pytest.mark.parametrize("model_type", ["qwen2_moe", "qwen3_moe"])
def test_a_window_that_is_switched_off_shortens_no_cache(model_type: str) -> None:
    """Qwen1.5-MoE-A2.7B: 24 layers of 16 heads, a window of 32,768 with use_sliding_window false."""
    model = read_config({
        "model_type": model_type, "hidden_size": 2_048, "num_hidden_layers": 24,
        "num_attention_heads": 16, "num_key_value_heads": 16, "max_position_embeddings": 8_192,
        "rope_theta": 1e6, "sliding_window": 32_768, "max_window_layers": 21,
        "use_sliding_window": False})  # fmt: skip
    assert [kind.window for kind in model.layer_kinds] == [None]
    assert model.cache_numbers(131_072) * 2 == 24 * 2**30  # bytes of bfloat16: 24 GiB, not 6


@pytest.mark.parametrize(
    ("model_type", "layout", "share"),
    [("glm", "interleaved", 0.5), ("glm4", "interleaved", 0.5), ("ernie4_5", "interleaved", 1.0),
     ("helium", "interleaved", 1.0), ("nemotron", "half", 0.5), ("persimmon", "half", 0.5)],
)  # fmt: skip
def test_layout_and_share_are_those_of_the_class_where_the_file_is_silent(
    model_type: str, layout: str, share: float
) -> None:
    scheme = read_config(of_type(model_type, num_key_value_heads=32)).main.scheme
    assert isinstance(scheme, RopeConfig)
    assert (scheme.layout, scheme.rotary_dim) == (layout, int(128 * share))


def test_an_empty_list_of_layers_without_rope_is_the_default_pattern() -> None:
    """meta-llama/Llama-4-Scout-17B-16E: no_rope_layers is [], of 48 layers."""
    scout = of_type("llama4_text", num_hidden_layers=48, no_rope_layers=[])
    assert refusal(scout).key == "model_type"
    for model in (
        read_config(scout, "llama"),
        read_config({"model_type": "smollm3", "num_hidden_layers": 48, "no_rope_layers": []}),
    ):
        (without,) = [kind for kind in model.layer_kinds if isinstance(kind.scheme, NoneConfig)]
        assert without.layers == tuple(range(3, 48, 4))
    every_second = scout | {"no_rope_layer_interval": 2}
    (_, without) = read_config(every_second, "llama").layer_kinds
    assert without.layers == tuple(range(1, 48, 2))


def test_the_default_pattern_is_that_of_transformers() -> None:
    transformers = pytest.importorskip("transformers", minversion="5")
    theirs = transformers.CONFIG_MAPPING["llama4_text"](num_hidden_layers=48, no_rope_layers=[])
    ours = read_config(of_type("llama4_text", num_hidden_layers=48, no_rope_layers=[]), "llama")
    without = next(one for one in ours.layer_kinds if isinstance(one.scheme, NoneConfig))
    assert [int(index not in without.layers) for index in range(48)] == theirs.no_rope_layers


def test_mpt_with_rope_is_not_said_to_have_a_learned_table() -> None:
    config = {"model_type": "mpt", "attn_config": {"alibi": False, "rope": True, "rope_theta": 1e4}}
    model = read_config(config)
    assert model.main.scheme is None
    assert model.main.unsupported.startswith("attn_config.rope is true: these layers use RoPE")
    assert "learned" not in model.main.unsupported


# transformers ----------------------------------------------------------------------------------------


def causal_configs() -> dict[str, dict[str, Any]]:
    """The defaults of every causal class of the installed transformers that has rope parameters."""
    transformers = pytest.importorskip("transformers", minversion="5")
    found = {}
    for name in transformers.models.auto.modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        try:
            config = transformers.CONFIG_MAPPING[name]().to_dict()
        except Exception:
            continue  # of a class whose defaults are no model
        if "rope_parameters" in (config.get("text_config") or config):
            found[name] = json.loads(json.dumps(config))
    return found


def attempt(config: dict[str, Any]) -> ModelConfig | ConfigFileError:
    try:
        return read_config(config)
    except ConfigFileError as error:
        return error


def test_every_causal_type_of_transformers_is_known_or_refused_in_one_sentence() -> None:
    configs = causal_configs()
    assert len(configs) > 100
    refused = set()
    for name, config in configs.items():
        found = attempt(config)
        if isinstance(found, ModelConfig):
            assert found.model_type in model_types()
            assert (found.ignored, found.assumption) == ((), "")
            continue
        refused.add(name)
        own = (config.get("text_config") or config)["model_type"]
        said = str(found)
        assert f'"{own}"' in said or found.key in said
        assert said.endswith(".")
        assert "\n" not in said
    assert len(refused) > 60
    assert not refused & {"llama", "qwen3_moe", "glm4", "deepseek_v3", "ernie4_5", "olmoe"}
    assert refused >= {
        "cohere2", "exaone4", "afmoe", "llama4_text", "qwen3_next", "bamba", "minimax_m2",
        "hunyuan_v1_dense", "phimoe", "granitemoehybrid", "deepseek_v32", "recurrent_gemma",
    }  # fmt: skip


@pytest.mark.parametrize("extra", [{}, {"original_max_position_embeddings": 4_096}])
def test_yarn_without_a_factor_is_refused_by_transformers_too(extra: dict[str, int]) -> None:
    transformers = pytest.importorskip("transformers", minversion="5")
    block = {"rope_type": "yarn"} | extra
    config = LLAMA | {"rope_scaling": block}
    assert refusal(config).key == "rope_scaling.factor"
    with pytest.raises(KeyError, match="factor"):
        transformers.LlamaConfig(rope_scaling=dict(block), max_position_embeddings=32_768)


def test_a_factor_of_null_is_the_ratio_of_the_two_lengths_as_in_transformers() -> None:
    pytest.importorskip("transformers", minversion="5")
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    block = {"rope_type": "yarn", "factor": None, "original_max_position_embeddings": 2_048}
    model = read_config(LLAMA | {"rope_scaling": block})
    config = LlamaConfig(**{key: value for key, value in LLAMA.items() if key != "model_type"},
                         rope_scaling=dict(block))  # fmt: skip
    theirs = LlamaRotaryEmbedding(config)
    assert isinstance(model.main.scheme, RopeConfig)
    ours, scale = rope_frequencies(model.main.scheme, mode="transformers")
    assert ours.tolist() == theirs.inv_freq.tolist()
    assert scale == theirs.attention_scaling
    assert "rope_scaling.factor is null: 4 is taken" in " ".join(model.assumed)


def test_a_nested_truncate_is_read_here_and_passed_over_by_transformers() -> None:
    """The difference that the docstring of `posenc.interop.models.rope_block` names."""
    pytest.importorskip("transformers", minversion="5")
    from transformers import Olmo3Config
    from transformers.models.olmo3.modeling_olmo3 import Olmo3RotaryEmbedding

    def ladders(truncate: bool) -> tuple[list[float], list[float]]:
        yarn = {"rope_type": "yarn", "rope_theta": 5e5, "factor": 8.0, "truncate": truncate,
                "original_max_position_embeddings": 8_192}  # fmt: skip
        sliding = {"rope_type": "default", "rope_theta": 5e5}
        config = Olmo3Config(
            max_position_embeddings=65_536,
            rope_parameters={"full_attention": dict(yarn), "sliding_attention": dict(sliding)},
        )
        scheme = read_config(json.loads(json.dumps(config.to_dict()))).main.scheme
        assert isinstance(scheme, RopeConfig)
        theirs = Olmo3RotaryEmbedding(config).full_attention_inv_freq
        return rope_frequencies(scheme, mode="transformers")[0].tolist(), theirs.tolist()

    ours, theirs = ladders(True)
    assert ours == theirs
    exact, same = ladders(False)
    assert same == theirs
    assert exact != ours
