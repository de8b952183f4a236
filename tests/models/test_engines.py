"""Readings of inference engines, against plain loops written from their files and against transformers.

The loops take numbers, not configs: what an engine takes from a config stands in each case.
"""

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import AutoConfig
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3RotaryEmbedding
from transformers.models.gemma3.modeling_gemma3 import Gemma3RotaryEmbedding
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.phi3.modeling_phi3 import Phi3RotaryEmbedding
from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding

from posenc.errors import ConfigFileError, SchemeArgumentError
from posenc.models import read_config
from posenc.models.engines import (
    ENGINES,
    SOURCES,
    EngineReading,
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

Config = dict[str, Any]
ALL = [*ENGINES]
DYNAMIC: Config = LLAMA | {"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}


def readings(config: Config, length: int | None = None, **options: Any) -> dict[str, EngineReading]:
    """The reading of each engine of the layers that see farthest."""
    every = engine_readings(config, length, **options)
    return {one.engine: one for one in reversed(every)}


def frequencies(reading: EngineReading) -> list[float]:
    assert reading.inv_freq is not None
    listed: list[float] = reading.inv_freq.tolist()
    return listed


def plain_loop(base: float, dim: int) -> list[float]:
    return [base ** (-2 * m / dim) for m in range(dim // 2)]


def ggml_yarn_loop(base: float, dim: int, factor: float, trained: int) -> list[float]:
    """rope_yarn and ggml_rope_yarn_corr_dims of llama.cpp, with their 32 and 1 turns."""

    def corrected(turns: float) -> float:
        return dim * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(base))

    start = max(0, math.floor(corrected(32)))
    end = min(dim - 1, math.ceil(corrected(1)))
    listed, theta = [], 1.0
    for pair in range(dim // 2):
        y = (pair - start) / max(0.001, end - start)
        mix = 1 - min(1.0, max(0.0, y))
        listed.append(theta / factor * (1 - mix) + theta * mix)
        theta *= base ** (-2.0 / dim)
    return listed


def mlx_yarn_loop(base: float, dim: int, factor: float, trained: int) -> list[float]:
    """YarnRoPE of mlx_lm/models/rope_utils.py, which has wavelengths, not frequencies."""
    turns = [dim * math.log(trained / (n * 2 * math.pi)) / (2 * math.log(base)) for n in (32, 1)]
    low, high = max(math.floor(turns[0]), 0), min(math.ceil(turns[1]), dim - 1)
    listed = []
    for pair in range(dim // 2):
        extra = base ** (2 * pair / dim)
        inter = factor * extra
        mask = 1 - min(max((pair - low) / (high - low), 0.0), 1.0)
        listed.append((inter * mask + extra * (1 - mask)) / (inter * extra))
    return listed


def llama3_loop(base: float, dim: int) -> list[float]:
    """generate_extra_tensors of llama.cpp's conversion/llama.py, with Llama 3.1's numbers."""
    listed = []
    for frequency in plain_loop(base, dim):
        wave = 2 * math.pi / frequency
        if wave < 8_192 / 4:
            listed.append(frequency)
        elif wave > 8_192 / 1:
            listed.append(frequency / 8)
        else:
            smooth = (8_192 / wave - 1) / (4 - 1)
            listed.append(frequency * ((1 - smooth) / 8 + smooth))
    return listed


def grown_loop(base: float, dim: int, growth: float) -> list[float]:
    return plain_loop(base * growth ** (dim / (dim - 2)), dim)


def longrope_loop(name: str) -> list[float]:
    factors = preset_config("phi-3-mini-128k")["rope_scaling"][name]
    return [f / c for f, c in zip(plain_loop(1e4, 96), factors, strict=True)]


G4 = 0.1 * math.log(4) + 1  # attention factor of YaRN by 4
G40 = 0.1 * math.log(40) + 1
PHI_FACTOR = math.sqrt(1 + math.log(32) / math.log(4_096))
# Of each preset: frequencies, attention factor and softmax scale, the same for every engine.
FIVE: dict[str, tuple[Callable[[], list[float]], float, float]] = {
    "llama-3.1-8b": (lambda: llama3_loop(5e5, 128), 1.0, 128**-0.5),
    "qwen3-8b": (lambda: ggml_yarn_loop(1e6, 128, 4, 32_768), G4, 128**-0.5),
    "phi-3-mini-128k": (lambda: longrope_loop("long_factor"), PHI_FACTOR, 96**-0.5),
    "deepseek-v3": (lambda: mlx_yarn_loop(1e4, 64, 40, 4_096), 1.0, G40**2 * 192**-0.5),
    "gemma-3-4b": (lambda: [f / 8 for f in plain_loop(1e6, 256)], 1.0, 256**-0.5),
}
# Default context and rows of the table of cosines: vLLM, SGLang, llama.cpp.
LENGTHS: dict[str, tuple[tuple[int, ...], tuple[int | None, ...]]] = {
    "llama-3.1-8b": ((131_072,) * 3, (131_072, 131_072, None)),
    "qwen3-8b": ((40_960,) * 3, (131_072, 131_072, None)),
    "phi-3-mini-128k": ((4_096, 131_072, 131_072), (135_168, 135_168, None)),
    "deepseek-v3": ((163_840,) * 3, (163_840, 163_840, None)),
    "gemma-3-4b": ((131_072,) * 3, (1_048_576, None, None)),
}


@pytest.mark.parametrize("engine", ALL)
@pytest.mark.parametrize("model", FIVE)
def test_five_models_have_the_numbers_of_plain_loops_in_every_engine(
    model: str, engine: str
) -> None:
    make, attention, softmax = FIVE[model]
    reading = readings(preset_config(model))[engine]
    assert reading.has_numbers
    assert frequencies(reading) == pytest.approx(make(), rel=1e-12)
    assert reading.attention_factor == pytest.approx(attention, rel=1e-14)
    assert reading.softmax_scale == pytest.approx(softmax, rel=1e-14)


@pytest.mark.parametrize("model", FIVE)
def test_five_models_have_the_lengths_of_the_engines_files(model: str) -> None:
    contexts, rows = LENGTHS[model]
    read = readings(preset_config(model))
    servers = [read[name] for name in ("vLLM", "SGLang", "llama.cpp")]
    assert tuple(reading.context for reading in servers) == contexts
    assert tuple(reading.rows for reading in servers) == rows
    for name in ("transformers 5", "transformers 4", "MLX"):
        assert (read[name].context, read[name].rows) == (None, None)


ROTARY = {
    "llama-3.1-8b": LlamaRotaryEmbedding,
    "qwen3-8b": Qwen3RotaryEmbedding,
    "phi-3-mini-128k": Phi3RotaryEmbedding,
    "deepseek-v3": DeepseekV3RotaryEmbedding,
    "gemma-3-4b": Gemma3RotaryEmbedding,
}


@pytest.mark.parametrize("length", [2_000, 100_000])
@pytest.mark.parametrize("model", ROTARY)
def test_transformers_5_turns_pairs_as_its_class_does(model: str, length: int) -> None:
    config = preset_config(model)
    text = config.get("text_config", config)
    built = AutoConfig.for_model(**text)
    module = ROTARY[model](built)
    kind = ("full_attention",) if model == "gemma-3-4b" else ()
    at = torch.tensor([[0, 1, length - 1]])  # the last one says how long the text is
    cos, sin = module(torch.zeros(1), at, *kind)
    reading = readings(config, length)["transformers 5"]
    assert reading.inv_freq is not None
    assert reading.attention_factor is not None
    angles = reading.inv_freq
    factor = reading.attention_factor
    pairs = len(angles)
    torch.testing.assert_close(cos[0, 1, :pairs].double(), factor * angles.cos(), rtol=0, atol=1e-6)
    torch.testing.assert_close(sin[0, 1, :pairs].double(), factor * angles.sin(), rtol=0, atol=1e-6)


# Public cases ----------------------------------------------------------------------------------


def test_yarn_starts_from_its_own_length_and_not_from_the_context() -> None:
    """Megatron-LM#1418: width 64, factor 40, 163,840 tokens; the ramp is over pairs 10 to 23."""
    deepseek = preset_config("deepseek-v3")
    right = ggml_yarn_loop(1e4, 64, 40, 4_096)
    wrong = ggml_yarn_loop(1e4, 64, 40, 163_840)
    assert (right[23], wrong[23]) == pytest.approx((3.334e-5, 1.334e-3), rel=1e-3)
    for reading in readings(deepseek).values():
        assert frequencies(reading)[23] == pytest.approx(3.334e-5, rel=1e-3)
    # Without the key, MLX takes 4,096 and the others take the context; llama.cpp's converter needs it.
    block = {"rope_type": "yarn", "factor": 4.0}
    read = readings(LLAMA | {"max_position_embeddings": 32_768, "rope_scaling": block})
    assert frequencies(read["MLX"]) == pytest.approx(mlx_yarn_loop(5e5, 128, 4, 4_096))
    for name in ("transformers 5", "transformers 4", "vLLM", "SGLang"):
        assert frequencies(read[name]) == pytest.approx(ggml_yarn_loop(5e5, 128, 4, 32_768))
    assert read["llama.cpp"].refused == Refusal("missing", "original_max_position_embeddings")
    (difference,) = [one for one in differences([*read.values()]) if one.engine == "MLX"]
    loops = [mlx_yarn_loop(5e5, 128, 4, length) for length in (4_096, 32_768)]
    ratios = [own / other for own, other in zip(*loops, strict=True)]
    assert difference.ratio == pytest.approx(min(ratios))
    assert difference.pair == ratios.index(min(ratios))
    assert difference.first_pair == next(m for m, ratio in enumerate(ratios) if ratio != 1)


@pytest.mark.parametrize(
    ("length", "started", "expected"),
    [
        (2_000, None, ["short", "short", "short", "short", "long", "long"]),
        (2_000, 131_072, ["short", "short", "long", "short", "long", "long"]),
        (2_000, 4_096, ["short", "short", "short", "short", "short", "long"]),
        (4_097, None, ["long", "long", "long", "short", "long", "long"]),
        (4_098, None, ["long"] * 6),
    ],
)
def test_engines_choose_the_factors_of_longrope_by_different_lengths(
    length: int, started: int | None, expected: list[str]
) -> None:
    """vllm#27431: by one step's positions, by max_model_len, or by the length of the text."""
    read = readings(preset_config("phi-3-mini-128k"), length, started=started)
    assert [read[name].factors for name in ALL] == expected
    for name, word in zip(ALL, expected, strict=True):
        assert frequencies(read[name]) == pytest.approx(longrope_loop(f"{word}_factor"))
    chosen = [read[name].chosen_by for name in ALL]
    assert chosen == ["text", "text", "served", "step", "served", "nothing"]


def test_a_server_caps_the_context_below_what_the_scaling_reaches() -> None:
    """llama.cpp#17459: 262,144 times 1.25 is 327,680, but the file's context is the limit."""
    block = YARN_BLOCK | {"factor": 1.25, "original_max_position_embeddings": 262_144}
    config = of_type("qwen3", head_dim=128, max_position_embeddings=262_144, rope_scaling=block)
    every = engine_readings(config)
    capped = {one.engine: one for one in differences(every) if one.field == "context"}
    assert {*capped} == {"vLLM", "SGLang", "llama.cpp"}
    for one in capped.values():
        assert (one.value, one.reference) == (262_144, 327_680)
    sentences = difference_sentences(every)
    assert (
        "llama.cpp: it takes 262,144 tokens by default, but the scaling is made for 327,680."
        in sentences
    )
    assert not differences(engine_readings(config | {"max_position_embeddings": 327_680}))


def test_dynamic_scaling_over_llama_3s_own_is_another_model_in_every_engine() -> None:
    """vllm#10537: Llama 3.1 is scaled already; an override by dynamic scaling takes that away."""
    own = preset_config("llama-3.1-8b")
    override = {"rope_scaling": {"factor": 8.0, "type": "dynamic"}}
    read, changed = readings(own, 120_000), readings(own | override, 120_000)
    assert {reading.rope_type for reading in read.values()} == {"llama3"}
    assert read["vLLM"].context == 131_072  # so that no override is needed
    for name in ALL:
        assert frequencies(read[name]) == pytest.approx(llama3_loop(5e5, 128))
        assert frequencies(changed[name])[-1] != pytest.approx(frequencies(read[name])[-1])


def test_dynamic_scaling_grows_with_the_text_only_where_angles_follow_the_text() -> None:
    """vllm#5093: a table that is built at the start has one base for every length."""
    for length in (2_000, 16_384):
        read = readings(DYNAMIC, length)
        grown = grown_loop(5e5, 128, 4 * max(length, 8_192) / 8_192 - 3)
        for name in ("transformers 5", "transformers 4", "MLX"):
            assert frequencies(read[name]) == pytest.approx(grown)
            assert read[name].growth == "text"
        for name in ("vLLM", "llama.cpp"):
            assert frequencies(read[name]) == pytest.approx(plain_loop(5e5, 128))
            assert read[name].growth == "none"
        assert frequencies(read["SGLang"]) == pytest.approx(grown_loop(5e5, 128, 13))
        assert read["SGLang"].growth == "fixed"
        contexts = [read[name].context for name in ("vLLM", "SGLang", "llama.cpp")]
        assert contexts == [32_768, 32_768, 8_192]
        assert [read[name].rows for name in ("vLLM", "SGLang")] == [8_192, 32_768]


# Keys that engines read differently --------------------------------------------------------------


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
    block = {"rope_type": "longrope", "short_factor": [1.0] * 64, "long_factor": [2.0] * 64}
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
