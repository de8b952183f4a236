"""Readings of inference engines: five models and public cases, against plain loops and transformers."""

from collections.abc import Callable

import pytest
import torch
from transformers import AutoConfig
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3RotaryEmbedding
from transformers.models.gemma3.modeling_gemma3 import Gemma3RotaryEmbedding
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.phi3.modeling_phi3 import Phi3RotaryEmbedding
from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding

from posenc.models.engines import (
    Refusal,
    differences,
    engine_readings,
)
from posenc.models.engines.engine_words import (
    difference_sentences,
    engine_rows,
)
from tests.models.configs import (
    LLAMA,
    YARN_BLOCK,
    of_type,
    preset_config,
)
from tests.models.engine_loops import (
    ALL,
    DYNAMIC,
    G4,
    G40,
    PHI_FACTOR,
    frequencies,
    ggml_yarn_loop,
    grown_loop,
    llama3_loop,
    longrope_loop,
    mlx_yarn_loop,
    plain_loop,
    readings,
)

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
    vllm, llama_cpp = (read[name].served for name in ("vLLM", "llama.cpp"))
    assert vllm == (started or max(4_096, length))  # its default context
    assert llama_cpp == (started or 131_072)  # the file's
    rows = {row["engine"].partition(" (")[0]: row for row in engine_rows([*read.values()])}
    cell = rows["llama.cpp"]["LongRoPE's factors"]
    assert cell.removesuffix(" *").endswith(f"that the server is started with, here {llama_cpp:,}")


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
