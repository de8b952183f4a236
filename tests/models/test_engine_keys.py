"""Keys that engines read differently, configs that they do not load, and the words of both."""

import json
import math

import pytest

from posenc.errors import ConfigFileError, SchemeArgumentError
from posenc.models import read_config
from posenc.models.engines import (
    SOURCES,
    Refusal,
    differences,
    engine_readings,
)
from posenc.models.engines.engine_words import (
    difference_sentences,
    engine_rows,
    readings_record,
    source_lines,
)
from posenc.models.presets import MODELS
from posenc.schemes.rope import RopeConfig
from tests.models.configs import (
    LLAMA,
    LLAMA3_BLOCK,
    YARN_BLOCK,
    of_type,
    preset_config,
)
from tests.models.engine_loops import (
    ALL,
    G4,
    G40,
    Config,
    frequencies,
    ggml_yarn_loop,
    llama3_loop,
    plain_loop,
    readings,
)


def test_keys_of_the_second_generation_are_plain_rope_to_transformers_4_and_mlx() -> None:
    block = LLAMA3_BLOCK | {"rope_theta": 5e5}
    config = {key: value for key, value in LLAMA.items() if key != "rope_theta"}
    config |= {"max_position_embeddings": 131_072, "rope_parameters": block}
    read = readings(config)
    for name in ("transformers 4", "MLX"):
        assert read[name].base == 10_000
        assert frequencies(read[name]) == pytest.approx(plain_loop(1e4, 128))
    for name in ("transformers 5", "vLLM", "SGLang", "llama.cpp"):
        assert frequencies(read[name]) == pytest.approx(llama3_loop(5e5, 128))
    qwen = of_type("qwen3", head_dim=128) | {"rope_parameters": {"rope_theta": 5e5}}
    del qwen["rope_theta"]
    assert readings(qwen)["MLX"].refused == Refusal("missing", "rope_theta")


@pytest.mark.parametrize(
    ("keys", "expected"),
    [  # transformers 5, transformers 4, vLLM, SGLang, llama.cpp, MLX
        ({"attention_factor": 1.0}, [1.0, 1.0, 1.0, G4, G4, G4]),
        ({"mscale": 0.5}, [G4, G4, G4, G4, G4, 0.05 * math.log(4) + 1]),
        ({"mscale": 1.0, "mscale_all_dim": 1.0}, [1.0, 1.0, 1.0, 1.0, G4, 1.0]),
    ],
)
def test_engines_make_yarns_attention_factor_of_different_keys(
    keys: Config, expected: list[float]
) -> None:
    block = YARN_BLOCK | {"original_max_position_embeddings": 8_192} | keys
    read = readings(LLAMA | {"max_position_embeddings": 32_768, "rope_scaling": block})
    factors = [read[name].attention_factor for name in ALL]
    assert factors == pytest.approx(expected)


def test_the_ramp_keeps_its_ends_only_where_truncate_is_read() -> None:
    block = YARN_BLOCK | {"original_max_position_embeddings": 8_192, "truncate": False}
    read = readings(LLAMA | {"max_position_embeddings": 32_768, "rope_scaling": block})
    differs = {one.engine for one in differences([*read.values()])}
    assert differs == {"llama.cpp", "MLX"}
    for name in differs:
        assert frequencies(read[name]) == pytest.approx(ggml_yarn_loop(5e5, 128, 4, 8_192))


def test_deepseeks_softmax_scale_in_llama_cpp_needs_mscale_all_dim() -> None:
    config = preset_config("deepseek-v3")
    del config["rope_scaling"]["mscale_all_dim"]
    del config["rope_scaling"]["mscale"]
    read = readings(config)
    for name in ("transformers 5", "transformers 4", "vLLM", "SGLang", "MLX"):
        assert read[name].softmax_scale == pytest.approx(192**-0.5)
        assert read[name].attention_factor == pytest.approx(G40)
    assert read["llama.cpp"].softmax_scale == pytest.approx(192**-0.5 * G40**2)
    assert read["llama.cpp"].attention_factor == pytest.approx(G40)


def test_gemma_3_scales_by_query_pre_attn_scalar_but_in_llama_cpp() -> None:
    config = preset_config("gemma-3-4b")
    config["text_config"]["query_pre_attn_scalar"] = 168
    read = readings(config)
    scales = [read[name].softmax_scale for name in ALL]
    assert scales == pytest.approx([168**-0.5] * 4 + [256**-0.5, 168**-0.5])
    sizes = {"num_hidden_layers": 62, "hidden_size": 5_376, "num_attention_heads": 32}
    config["text_config"] |= sizes | {"head_dim": 128, "num_key_value_heads": 16}
    assert readings(config)["llama.cpp"].softmax_scale == pytest.approx(168**-0.5)


def test_local_layers_of_gemma_3_have_a_base_of_their_own_and_no_scaling() -> None:
    every = engine_readings(preset_config("gemma-3-4b"))
    local = [one for one in every if one.kind.block_name == "sliding_attention"]
    assert [one.engine for one in local] == ALL
    for reading in local:
        assert frequencies(reading) == pytest.approx(plain_loop(1e4, 256))


def test_llama_3s_factors_are_written_to_gguf_for_llama_alone() -> None:
    config = of_type("qwen3", head_dim=128, rope_scaling=LLAMA3_BLOCK)
    read = readings(config)
    assert frequencies(read["llama.cpp"]) == pytest.approx(plain_loop(5e5, 128))
    assert frequencies(read["vLLM"]) == pytest.approx(llama3_loop(5e5, 128))


def test_some_files_build_plain_rope_of_every_block() -> None:
    block = YARN_BLOCK | {"original_max_position_embeddings": 8_192}
    scaled = {"max_position_embeddings": 32_768, "rope_scaling": block}
    moe = readings(of_type("qwen3_moe", head_dim=128) | scaled)
    assert frequencies(moe["MLX"]) == pytest.approx(plain_loop(5e5, 128))
    assert frequencies(moe["SGLang"]) == pytest.approx(ggml_yarn_loop(5e5, 128, 4, 8_192))
    mixtral = readings(of_type("mixtral", head_dim=128) | scaled)
    for name in ("MLX", "SGLang"):
        assert frequencies(mixtral[name]) == pytest.approx(plain_loop(5e5, 128))
        assert mixtral[name].attention_factor == 1
    for name in ("transformers 5", "transformers 4", "vLLM", "llama.cpp"):
        assert frequencies(mixtral[name]) == pytest.approx(ggml_yarn_loop(5e5, 128, 4, 8_192))


@pytest.mark.parametrize("is_given", [True, False])
def test_gpt_oss_keeps_the_ends_of_its_ramp_but_in_llama_cpp_and_mlx(is_given: bool) -> None:
    config = preset_config("gpt-oss-20b")
    if not is_given:  # the class's own block, which MLX's class has not
        del config["rope_scaling"]
    read = readings(config)
    whole = ggml_yarn_loop(150_000, 64, 32, 4_096)
    mlx = whole if is_given else plain_loop(150_000, 64)
    assert frequencies(read["MLX"]) == pytest.approx(mlx)
    assert frequencies(read["llama.cpp"]) == pytest.approx(whole)
    ends = [64 * math.log(4_096 / (n * 2 * math.pi)) / (2 * math.log(150_000)) for n in (32, 1)]
    shares = [min(max((m - ends[0]) / (ends[1] - ends[0]), 0), 1) for m in range(32)]
    plain = plain_loop(150_000, 64)
    kept = [f / 32 * share + f * (1 - share) for f, share in zip(plain, shares, strict=True)]
    for name in ("transformers 5", "transformers 4", "vLLM", "SGLang"):
        assert frequencies(read[name]) == pytest.approx(kept)
        assert read[name].attention_factor == pytest.approx(0.1 * math.log(32) + 1)


def test_an_engine_without_a_rule_that_was_read_has_no_numbers() -> None:
    read = readings(of_type("olmo2"))
    assert read["transformers 5"].has_numbers
    for name in ALL[1:]:
        assert not read[name].is_read
        assert read[name].inv_freq is None
    unknown = readings(of_type("nothing_known", rope_scaling=LLAMA3_BLOCK), assume="llama")
    assert [unknown[name].is_read for name in ALL] == [True] + [False] * 5
    rows = engine_rows([*read.values()])
    assert "not read" in json.dumps(rows)
    assert differences([*read.values()]) == ()


def test_longrope_of_another_class_needs_its_factor_in_transformers_4() -> None:
    block: Config = {"rope_type": "longrope", "short_factor": [1.0] * 64, "long_factor": [2.0] * 64}
    block |= {"original_max_position_embeddings": 4_096}
    config = LLAMA | {"rope_scaling": block}
    assert readings(config)["transformers 4"].refused == Refusal("missing", "factor")
    # It takes the context, 8,192, for the length before scaling, and so the short factors up to there.
    read = readings(LLAMA | {"rope_scaling": block | {"factor": 4.0}}, 6_000)
    assert [read[name].factors for name in ("transformers 5", "transformers 4")] == [
        "long",
        "short",
    ]
    expected = math.sqrt(1 + math.log(4) / math.log(8_192))
    assert read["transformers 4"].attention_factor == pytest.approx(expected)


def test_vllm_starts_longrope_at_the_trained_length_only_where_the_config_has_it_beside_the_block() -> (
    None
):
    """get_max_model_len asks the config for the key, which Phi-3's class alone has by itself."""
    block: Config = {"rope_type": "longrope", "short_factor": [1.0] * 64, "long_factor": [2.0] * 64}
    block |= {"original_max_position_embeddings": 4_096, "factor": 2.0}
    within = LLAMA | {"rope_scaling": block}
    beside = within | {"original_max_position_embeddings": 4_096}
    for config, context, factors in ((within, 8_192, "long"), (beside, 4_096, "short")):
        read = readings(config, 2_000)["vLLM"]
        assert (read.context, read.served, read.factors) == (context, context, factors)


@pytest.mark.parametrize("length", [None, 2, 2**20])
@pytest.mark.parametrize("model", [name for name, preset in MODELS.items() if preset.config])
def test_every_well_known_model_with_rope_has_readings_that_json_can_hold(
    model: str, length: int | None
) -> None:
    config = preset_config(model)
    if all(not isinstance(kind.scheme, RopeConfig) for kind in read_config(config).layer_kinds):
        with pytest.raises(ConfigFileError, match="no RoPE"):
            engine_readings(config, length)
        return
    every = engine_readings(config, length)
    assert len(engine_rows(every)) == len(every) >= len(ALL)
    json.dumps(readings_record(every, "llama"), allow_nan=False)


def test_a_null_factor_is_missing_where_no_length_stands_in_for_it() -> None:
    block = {"type": "yarn", "factor": None, "original_max_position_embeddings": 2_048}
    read = readings(LLAMA | {"rope_scaling": block})
    for name in ("transformers 4", "MLX"):
        assert read[name].refused == Refusal("missing", "factor")
    assert frequencies(read["vLLM"]) == pytest.approx(ggml_yarn_loop(5e5, 128, 4, 2_048))


def test_refusals_name_the_key() -> None:
    block = {"rope_type": "longrope", "short_factor": [1.0] * 48, "long_factor": [2.0] * 48}
    phi = preset_config("phi-3-mini-128k") | {"rope_scaling": block}
    read = readings(phi)
    assert read["transformers 4"].refused == Refusal("keys", "rope_scaling")
    assert read["MLX"].refused == Refusal("missing", "type")
    cells = {row["engine"].partition(" (")[0]: row for row in engine_rows([*read.values()])}
    assert cells["MLX"]["scaling"] == "not loaded: type is missing"


def test_words_mark_what_differs_and_records_are_json() -> None:
    every = engine_readings(preset_config("phi-3-mini-128k"), 2_000)
    rows = {row["engine"].partition(" (")[0]: row for row in engine_rows(every)}
    assert rows["MLX"]["slowest frequency"].endswith(" *")
    assert not rows["SGLang"]["slowest frequency"].endswith("*")
    sentences = difference_sentences(every)
    assert [one for one in sentences if one.startswith("MLX:")] == [
        "MLX: the frequencies differ from pair 0 on, most in pair 32, which turns 0.03338 times as fast "
        "as in transformers 5.",
        "MLX: LongRoPE's long factors in place of the short ones.",
    ]
    record = json.loads(json.dumps(readings_record(every, "phi3")))
    assert len(record["readings"]) == len(ALL)
    assert record["differences"][0]["engine"] == "vLLM"


@pytest.mark.parametrize("engine", ALL)
def test_every_rule_names_its_file_and_release(engine: str) -> None:
    source = SOURCES[engine]
    assert source.release
    for link in source.links("deepseek_v3"):
        assert link.startswith("https://github.com/")
    every = engine_readings(preset_config("deepseek-v3"))
    (line,) = [one for one in source_lines(every, "deepseek_v3") if one.startswith(f"{engine} (")]
    assert all(path in line for path in source.paths("deepseek_v3"))
    assert line.endswith(source.url)


def test_bad_input_is_refused_in_one_sentence() -> None:
    with pytest.raises(ConfigFileError, match="no RoPE"):
        engine_readings(preset_config("bloom-176b"))
    with pytest.raises(SchemeArgumentError, match="length must be a whole number"):
        engine_readings(LLAMA, 0)
    with pytest.raises(SchemeArgumentError, match="started must be a whole number from 9,000"):
        engine_readings(LLAMA, 9_000, started=8_192)
