"""Published models and presets are read as their layers work and as their papers say, or refused.

The configs stand in published_models, a file each with its source. What their layers do stands in
truth.json there: establish.py observes it in transformers, without posenc.
"""

import dataclasses
import json
import math
from functools import cache
from typing import Any

import pytest
import torch

from posenc import rope_frequencies
from posenc.models import ModelConfig, model_types, read_config
from posenc.models.config_token import config_token, read_config_token
from posenc.models.presets import MODELS
from posenc.schemes.alibi import AlibiConfig
from posenc.schemes.learned import LearnedConfig
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling.longrope import RopeLongConfig
from posenc.schemes.rope_scaling.yarn import RopeYarnConfig
from posenc.schemes.sinusoidal import SinusoidalConfig
from posenc.schemes.t5 import T5Config
from posenc.schemes.transformer_xl import TransformerXLConfig
from tests.models.configs import PUBLISHED, read_or_refuse, refusal
from tests.models.oracle import differences
from tests.models.published_models.establish import TRUTH, establish

# Models of a known type that are refused all the same, by the key that is not read of them.
REFUSED = {
    "cwm-mlx": "layer_types",
    "minimax-text-01": "rotary_dim",
    "ministral-8b-2410": "layer_types",
    "mpt-7b-storywriter": "attn_config.alibi_bias_max",
    "mpt-with-rope": "attn_config.alibi",
    "nomic-embed-v1.5": "n_positions",
    "phi-3.5-moe": "rope_scaling.type",
    "qwen2.5-7b-1m": "dual_chunk_attention_config",
}


@cache
def truth() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(TRUTH.read_text())
    return content


def type_of(name: str) -> str:
    config = PUBLISHED[name]["config"]
    model_type: str = config.get("text_config", config).get("model_type", config["model_type"])
    return model_type


KNOWN = [name for name in PUBLISHED if type_of(name) in model_types()]


@pytest.mark.parametrize("name", KNOWN)
def test_a_published_config_is_read_right_or_refused_by_a_key(name: str) -> None:
    result = read_or_refuse(json.loads(json.dumps(PUBLISHED[name]["config"])))
    if isinstance(result, ModelConfig):
        assert list(differences(result, truth()[name])) == []
    else:
        assert REFUSED[name] == result.key
        assert result.key in str(result)


def test_published_configs_of_unknown_types_are_refused_by_their_type() -> None:
    assert set(truth()) == set(PUBLISHED)
    for name in set(PUBLISHED) - set(KNOWN):
        error = refusal(PUBLISHED[name]["config"])
        assert error.key.endswith("model_type"), name
        assert f'"{type_of(name)}"' in str(error)


def test_a_conversion_that_names_another_type_is_read_by_the_class_that_is_assumed() -> None:
    config = PUBLISHED["cwm-mlx"]["config"]
    model = read_config(config, "cwm")
    assert (model.model_type, model.read_as) == ("llama", "cwm")
    assert list(differences(model, truth()["cwm-mlx"])) == []
    assert model.assumption.startswith(
        'Read as model_type "cwm" on request: the config names model_type "llama", so that '
    )
    assert read_config_token(config_token(config, "cwm")) == model


@pytest.mark.long
@pytest.mark.parametrize("name", PUBLISHED)
def test_the_truth_is_what_transformers_does(name: str) -> None:
    pytest.importorskip("transformers", minversion="5")
    assert json.loads(json.dumps(establish(PUBLISHED[name]))) == truth()[name]


# Models without a published file in this folder, by hand from their papers and cards: scheme, width of a
# token, layers, heads, heads of keys and values, width of a head, context, numbers cached for a token.
ROPE: dict[str, Any] = {"dim": 128, "layout": "half"}
QWEN_YARN = RopeYarnConfig(**ROPE, base=1e6, factor=4, trained_length=32_768)
BY_HAND: dict[str, tuple[Any, ...]] = {
    "transformer": (SinusoidalConfig(dim=512), 512, 6, 8, 8, 64, None, 2 * 512 * 6),
    "bert-base": (LearnedConfig(dim=768, max_len=512), 768, 12, 12, 12, 64, 512, 0),
    "gpt-2": (LearnedConfig(dim=768, max_len=1_024), 768, 12, 12, 12, 64, 1_024, 2 * 768 * 12),
    "t5-base": (T5Config(heads=12), 768, 12, 12, 12, 64, None, 2 * 768 * 12),
    "transformer-xl": (TransformerXLConfig(dim=1_024, heads=16, base=1e4), 1_024, 18, 16, 16, 64, None,
                       2 * 1_024 * 18),
    "llama-1-7b": (RopeConfig(**ROPE, base=1e4), 4_096, 32, 32, 32, 128, 2_048, 2 * 4_096 * 32),
    "qwen2.5-7b": (QWEN_YARN, 3_584, 28, 28, 4, 128, 131_072, 2 * 4 * 128 * 28),
    "bloom-176b": (AlibiConfig(heads=112), 14_336, 70, 112, 112, 128, 2_048, 2 * 14_336 * 70),
}  # fmt: skip
# The header of Phi-3.1-mini-128k-instruct-Q2_K.gguf, which llama.cpp wrote from
# microsoft/Phi-3-mini-128k-instruct, as printed in a public notebook on llama.cpp.
GGUF_OF_PHI_3 = {
    "context_length": 131_072, "rope.scaling.original_context_length": 4_096,
    "embedding_length": 3_072, "block_count": 32, "attention.head_count": 32,
    "attention.head_count_kv": 32, "rope.dimension_count": 96, "rope.freq_base": 10_000.0,
    "attention.sliding_window": 262_144,
}  # fmt: skip
GGUF_ATTENTION_FACTOR = 1.190238118171692  # in float32
UNVERIFIED = {*BY_HAND, "phi-3-mini-128k", "mistral-7b-v0.1"} - {"transformer"}


def test_every_preset_is_compared_with_a_source() -> None:
    assert set(MODELS) == {*BY_HAND, "phi-3-mini-128k"} | (set(MODELS) & set(PUBLISHED))
    assert len(MODELS) == len({preset.label for preset in MODELS.values()}) >= 45
    assert sum(preset.year in (2025, 2026) for preset in MODELS.values()) >= 20
    for name, preset in MODELS.items():
        assert preset.source
        assert bool(preset.unverified) == (name in UNVERIFIED)
        assert preset.read().ignored == ()


@pytest.mark.parametrize("name", [name for name in MODELS if name in PUBLISHED])
def test_a_preset_reads_as_the_published_config(name: str) -> None:
    published = read_config(PUBLISHED[name]["config"])
    preset = MODELS[name].read(scaled=not MODELS[name].optional)
    assert dataclasses.replace(preset, assumed=published.assumed) == published


@pytest.mark.parametrize("name", BY_HAND)
def test_a_preset_without_a_file_has_the_numbers_of_its_paper(name: str) -> None:
    model = MODELS[name].read()
    assert (
        model.main.scheme, model.hidden_size, model.layers, model.main.heads, model.main.kv_heads,
        model.main.head_dim, model.context, model.cache_numbers(1),
    ) == BY_HAND[name]  # fmt: skip
    assert {kind.window for kind in model.layer_kinds} == {None}
    if name == "t5-base":
        assert [kind.name for kind in model.layer_kinds] == ["decoder", "encoder"]
        assert model.layer_kinds[1].scheme == T5Config(heads=12, bidirectional=True)
        assert {kind.softmax_scale for kind in model.layer_kinds} == {1}


def test_phi_3_mini_128k_has_the_numbers_of_its_gguf_file() -> None:
    model = MODELS["phi-3-mini-128k"].read()
    scheme = model.main.scheme
    assert isinstance(scheme, RopeLongConfig)
    numbers = (
        model.context, scheme.trained_length, model.hidden_size, model.layers, model.main.heads,
        model.main.kv_heads, model.main.rotary_dim, scheme.base, model.main.window,
    )  # fmt: skip
    assert numbers == tuple(GGUF_OF_PHI_3.values())
    assert scheme.factor == 32
    assert rope_frequencies(scheme)[1] == pytest.approx(GGUF_ATTENTION_FACTOR, rel=6e-8)
    plain = 1e4 ** (-torch.arange(0, 96, 2, dtype=torch.float64) / 96)
    for length, factors in ((4_096, scheme.short_factor), (4_097, scheme.long_factor)):
        frequencies, _ = rope_frequencies(scheme, length=length)
        torch.testing.assert_close(plain / frequencies, torch.tensor(factors).double(),
                                   rtol=1e-6, atol=0)  # fmt: skip


def test_the_factors_of_phi_3_mini_128k_are_the_published_lists() -> None:
    """As they stand in a script of its makers: both ends, the sum, the sum of (m + 1) f_m."""
    scheme = MODELS["phi-3-mini-128k"].read().main.scheme
    assert isinstance(scheme, RopeLongConfig)
    for factors, first, last, total, moment in (
        (scheme.short_factor, 1.1, 3.049999999999997, 98.4, 2_674.85),
        (scheme.long_factor, 1.0700000524520874, 64.76000213623047, 1_860.29700756073,
         61_919.02561712265),
    ):  # fmt: skip
        assert (len(factors), factors[0], factors[-1]) == (48, first, last)
        # Printed in full; fsum and the products of small integers round once each.
        assert math.fsum(factors) == pytest.approx(total, rel=1e-15)
        moments = (m * factor for m, factor in enumerate(factors, 1))
        assert math.fsum(moments) == pytest.approx(moment, rel=1e-15)
        assert list(factors) == sorted(factors)


def test_an_optional_scaling_can_be_left_out() -> None:
    for name in ("qwen2.5-7b", "qwen3-8b"):
        preset = MODELS[name]
        assert preset.optional
        assert preset.read().main.scheme == QWEN_YARN
        plain = preset.read(scaled=False)
        assert plain.main.scheme == RopeConfig(**ROPE, base=1e6)
        assert plain.trained_length is None
    assert MODELS["llama-3.1-8b"].read(scaled=False) == MODELS["llama-3.1-8b"].read()


def test_trained_lengths_are_those_of_configs_and_papers() -> None:
    of_configs = {name: preset.read().trained_length for name, preset in MODELS.items()}
    assert {name: length for name, length in of_configs.items() if length} == {
        "llama-3.1-8b": 8_192, "qwen2.5-7b": 32_768, "qwen3-8b": 32_768,
        "phi-3-mini-128k": 4_096, "deepseek-v3": 4_096, "gpt-oss-20b": 4_096, "bloom-176b": 2_048,
        "llama-3.3-70b": 8_192, "llama-4-scout-instruct": 8_192, "olmo-3-7b": 8_192,
        "apertus-70b": 8_192, "exaone-4.0-1.2b": 8_192, "exaone-4.0-32b": 8_192,
        "solar-open-100b": 65_536, "afm-4.5b": 4_096, "deepseek-v2-lite": 4_096,
    }  # fmt: skip
    # Makers' words count where the config has another number, or none.
    of_papers = {name: preset.trained_length for name, preset in MODELS.items()}
    assert {name: length for name, length in of_papers.items() if length} == {
        "qwen2.5-7b": 32_768, "qwen3-8b": 32_768, "mistral-7b-v0.1": 8_192,
    }  # fmt: skip
    for preset in MODELS.values():
        assert ("arXiv" in preset.trained_source) == (preset.trained_length is not None)
