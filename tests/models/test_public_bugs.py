"""Mistakes of public code, each made again in a few lines, are named, or are not made here."""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from posenc.frequencies import Layout
from posenc.identification import match_rotation, rotation_of
from posenc.models.presets import MODELS
from posenc.planner import paste
from posenc.testing import assert_matches
from tests.library.configs import config_of
from tests.models.configs import plan_config

pytestmark = pytest.mark.usefixtures("no_shape_checks")

Tables = tuple[Tensor, Tensor]


def plain(dim: int, base: float) -> Tensor:
    return base ** -(torch.arange(0, dim, 2, dtype=torch.float64) / dim)


def halves(angles: Tensor, size: float = 1.0) -> Tables:
    """Cosines and sines as transformers caches them, both halves of a head the same."""
    both = torch.cat((angles, angles), -1)
    return (size * both.cos()).float(), (size * both.sin()).float()


def positions(rows: int) -> Tensor:
    return torch.arange(rows, dtype=torch.float64)[:, None]


def yarn(dim: int, base: float, factor: float, trained: int) -> Tensor:
    """Frequencies of Peng et al. 2023 as in their code, with their 32 and 1 turns, written again."""
    turns = [
        dim * math.log(trained / (turn * 2 * math.pi)) / (2 * math.log(base)) for turn in (32, 1)
    ]
    low, high = max(math.floor(turns[0]), 0), min(math.ceil(turns[1]), dim - 1)
    ramp = ((torch.arange(dim // 2, dtype=torch.float64) - low) / (high - low)).clamp(0, 1)
    inv_freq = plain(dim, base)
    return inv_freq / factor * ramp + inv_freq * (1 - ramp)


def published(model: str) -> Mapping[str, Any]:
    config = MODELS[model].config
    assert config is not None
    return config


LLAMA3 = config_of(
    "rope_llama3", dim=128, base=5e5, factor=8.0, trained_length=8_192, layout="half"
)
QWEN_YARN = config_of(
    "rope_yarn", dim=128, base=1e6, factor=4.0, trained_length=32_768, layout="half"
)
PHI = published("phi-3-mini-128k")
MSCALE = 0.1 * math.log(4) + 1


def low_angles(dtype: torch.dtype, rows: int = 512) -> Tables:
    """As `arange(rows).type_as(inv_freq)` times frequencies in the format of the model."""
    angles = torch.arange(rows).to(dtype)[:, None] * plain(128, 1e6).float().to(dtype)
    cos, sin = halves(angles.float())
    return cos.to(dtype), sin.to(dtype)


def low_frequencies() -> Tables:
    """As a buffer inv_freq that model.to(bfloat16) casts, times float32 positions."""
    inv_freq = (1.0 / (1e4 ** (torch.arange(0, 64, 2).float() / 64))).bfloat16().float()
    return halves(torch.arange(512.0)[:, None] * inv_freq)


def grown_yarn() -> Tables:
    """As a YaRN cache that grows by the formula of plain RoPE from row 400 on."""
    cos, sin = halves(positions(400) * yarn(128, 1e6, 4.0, 32_768), MSCALE)
    more = halves(positions(600)[400:] * plain(128, 1e6))
    return torch.cat((cos, more[0])), torch.cat((sin, more[1]))


def neighbours() -> Tables:
    """As `freqs.repeat_interleave(2)` beside a rotate_half of halves."""
    angles = (positions(128) * plain(64, 1e4)).repeat_interleave(2, 1)
    return angles.cos().float(), angles.sin().float()


def short_factors() -> Tables:
    """As LongRoPE that rotates 5,000 tokens, past the 4,096 trained ones, by its short factors."""
    short = torch.tensor(PHI["rope_scaling"]["short_factor"], dtype=torch.float64)
    return halves(
        positions(5_000) * plain(96, 1e4) / short, math.sqrt(1 + math.log(32) / math.log(4096))
    )


def squared_factor() -> Tables:
    """As dynamic NTK scaling of base 1,000 by 2 whose length has the factor in it, so that it cancels."""
    return halves(positions(300) * plain(64, 1e3 * (2 * 2 - 1) ** (64 / 62)))


def shifted_sines() -> Tables:
    """As sines read from a cache of both at the offset of a width padded from 96 to 128."""
    angles = positions(256) * plain(96, 1e4)
    cache = torch.cat((angles.cos(), angles.sin(), torch.zeros(256, 16)), 1).float()
    return cache[:, :48].contiguous(), cache[:, 64:112].contiguous()


BUGS: dict[str, tuple[Callable[[], Tables], Any, str]] = {
    "huggingface/candle#3520": (
        lambda: low_angles(torch.bfloat16), config_of("rope", dim=128, base=1e6, layout="half"),
        "Computed with bfloat16 angles",
    ),
    "EleutherAI/gpt-neox#1003": (
        lambda: low_angles(torch.float16), config_of("rope", dim=128, base=1e6, layout="half"),
        "Computed with float16 angles",
    ),
    "huggingface/transformers#25681": (
        low_frequencies, config_of("rope", dim=64, layout="half"), "frequencies are rounded to bfloat16",
    ),
    "vllm-project/vllm#46280": (
        lambda: halves(positions(300) * yarn(128, 5e5, 64.0, 4_096), 0.1 * math.log(64) + 1),
        QWEN_YARN.replace(base=5e5, factor=64.0, trained_length=4_096, attention_factor=1.0),
        "Every number is multiplied by 1.416, where the attention factor is 1",
    ),
    "turboderp-org/exllamav3#259": (
        lambda: halves(positions(300) * yarn(128, 1e6, 4.0, 32_768)), QWEN_YARN,
        r"The attention factor 1\.139 is missing",
    ),
    "sgl-project/sglang#33558": (
        lambda: halves(
            positions(300) * yarn(128, 5e5, 128.0, 4_096), (0.1 * math.log(128) + 1) ** 2
        ),
        QWEN_YARN.replace(base=5e5, factor=128.0, trained_length=4_096),
        r"The attention factor 1\.485 is applied twice",
    ),
    "sgl-project/sglang#38786": (
        grown_yarn, QWEN_YARN,
        "first in row 400, .*: from there on, the frequencies are not scaled, .*YaRN by 4 and the "
        "attention factor 1.139 is missing",
    ),
    "ikawrakow/ik_llama.cpp#2291": (
        lambda: halves(positions(300) * plain(128, 5e5)), published("llama-3.1-8b"),
        "The frequencies are not scaled, where the scheme has Llama 3 scaling by 8",
    ),
    "lablup/mlxcel#1688": (
        lambda: halves(positions(300) * plain(128, 5e5) / 8), LLAMA3,
        "Every frequency is divided by 8, where the scheme has Llama 3",
    ),
    "pie-project/pie#603": (
        lambda: halves(positions(300) * plain(256, 1e7)[:32]),
        config_of("rope", dim=256, base=1e7, partial_rotary_factor=0.25, layout="half"),
        "The exponents are 2m/256, of the whole head, in place of 2m/64",
    ),
    "huggingface/candle#2891": (
        lambda: halves(positions(300) * plain(256, 1e6)), config_of("rope", dim=256, layout="half"),
        "What it is: RoPE, base 1,000,000",
    ),
    "Lightning-AI/litgpt#2217": (
        lambda: halves(positions(300) * plain(128, 1e4)),
        config_of("rope", dim=128, base=1e6, layout="half"), "What it is: RoPE, base 10,000",
    ),
    "lyogavin/airllm#368": (
        lambda: halves(positions(300) * plain(128, 1e4)), published("llama-3-8b"),
        "first in row 1, pair 1, by .*What it is: RoPE, base 10,000",
    ),
    "raiyanyahya/how-to-train-your-gpt#7": (
        neighbours, config_of("rope", dim=64, layout="half"),
        "columns are repeated in neighbours, the model's in halves. It differs first in row 1, pair 0, by ",
    ),
    "Blaizzy/mlx-vlm#1927": (
        short_factors, PHI, "The frequencies are those of short texts, not of 5,000 tokens",
    ),
    "vllm-project/vllm#41236": (
        squared_factor, config_of("rope_dynamic", dim=64, base=1e3, factor=2.0, layout="half"),
        "It differs first in row 1, pair 1, by 0.02. What it is: RoPE, base 3,108.22",
    ),
    "vllm-project/vllm-ascend#12723": (
        shifted_sines, config_of("rope", dim=96, layout="half"), "differs first in row 1, pair 0, by 0.795",
    ),
    "kekzl/imp#880": (
        lambda: halves(positions(300) * yarn(64, 1e4, 40.0, 4_096), 0.1 * 0.707 * math.log(40) + 1),
        config_of("rope_yarn", dim=64, factor=40.0, trained_length=4_096, mscale=0.707,
                  mscale_all_dim=0.707, layout="half"),
        "Every number is multiplied by 1.261, where the attention factor is 1",
    ),
    "Blaizzy/mlx-vlm#1709": (
        lambda: halves(positions(300) * plain(256, 1e6)), published("gemma-3-4b"),
        "The frequencies are not scaled, where the scheme has position interpolation by 8",
    ),
}  # fmt: skip


@pytest.mark.parametrize("bug", BUGS)
def test_bug_of_public_code_is_named(bug: str) -> None:
    make, expected, message = BUGS[bug]
    with pytest.raises(AssertionError, match=f"(?s){message}"):
        assert_matches(make(), expected)


# How code pairs the features of queries, and how the config of the model that it runs pairs them.
LAYOUTS: dict[str, tuple[Layout, Layout]] = {
    "huggingface/transformers#25199": ("interleaved", "half"),
    "huggingface/nanotron#427": ("interleaved", "half"),
    "vllm-project/vllm-ascend#12820": ("half", "interleaved"),
}
# Five threads are not replayed, because what they report could not be read when these tests were written:
# sgl-project/sglang-jax#1472, Lightning-AI/litgpt#1860, ml-explore/mlx-lm#1698,
# ggml-org/llama.cpp#24823 and Modalities/modalities#462.


@pytest.mark.parametrize("bug", LAYOUTS)
def test_layout_of_another_model_is_named_from_queries(bug: str) -> None:
    used, meant = LAYOUTS[bug]
    before = torch.randn(40, 64, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    turn = torch.exp(1j * positions(40) * plain(64, 1e4))
    pairs = before.view(40, 32, 2) if used == "interleaved" else before.view(40, 2, 32).mT
    turned = torch.view_as_real(torch.view_as_complex(pairs.contiguous()) * turn)
    after = (turned if used == "interleaved" else turned.mT).reshape(40, 64)
    rotation = rotation_of(before, after)
    assert rotation.layout == used
    match = match_rotation(rotation, {"all": config_of("rope", dim=64, layout=meant)})
    assert not match.belongs
    assert match.sentence.startswith("These vectors have the wrong layout: the model pairs ")
    names: dict[str, Any] = {}
    exec(match.code, names)
    again = names["rotate"](before, turn.real, turn.imag)
    assert rotation_of(before, again).layout == meant
    assert match_rotation(
        rotation_of(before, again), {"all": config_of("rope", dim=64, layout=meant)}
    ).belongs
    assert match_rotation(rotation, {"all": config_of("rope", dim=64, layout=used)}).belongs


def test_softmax_scale_has_the_factor_that_huggingface_transformers_47435_adds() -> None:
    (kind,) = MODELS["deepseek-v2-lite"].read().layer_kinds
    factor = 0.1 * 0.707 * math.log(40) + 1
    assert kind.softmax_scale == pytest.approx(factor**2 / math.sqrt(128 + 64), rel=1e-12)


def test_vllm_counts_the_factor_once_unlike_safe_synthesizer_623() -> None:
    """vLLM makes a linear cache of max_position_embeddings times the factor."""
    found = plan_config(dict(published("llama-3-8b")), 16_384, methods=["linear"], scan=64)
    overrides = json.loads(paste(found, found.methods[0]).vllm.split("'")[1])
    assert 8_192 * overrides["rope_parameters"]["factor"] == 16_384
    assert "max_position_embeddings" not in overrides


def test_same_cache_without_the_mistake_matches() -> None:
    assert_matches(halves(positions(300) * yarn(128, 1e6, 4.0, 32_768), MSCALE), QWEN_YARN)
    assert_matches(halves(positions(300) * plain(128, 5e5)), published("llama-3-8b"))


def test_frequencies_scaled_twice_are_named() -> None:
    inv_freq = plain(128, 1e6)
    twice = yarn(128, 1e6, 4.0, 32_768) ** 2 / inv_freq
    with pytest.raises(AssertionError, match="The frequencies are scaled twice by YaRN by 4"):
        assert_matches(halves(positions(300) * twice, MSCALE), QWEN_YARN)
