"""Scalings of RoPE: published numbers, a loop in sixty digits, rotation and kernel, refused values."""

import math
from typing import Any

import mpmath
import pytest
import torch

from posenc import SCHEMES, ConfigError, position_kernel, position_vectors, rope_frequencies
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling import AFTER_TRAINING, ROPE_SCALINGS, length_extensions
from posenc.schemes.rope_scaling.base import factor_reaching
from posenc.schemes.rope_scaling.llama3 import RopeLlama3Config
from posenc.schemes.rope_scaling.longrope import RopeLongConfig
from posenc.schemes.rope_scaling.proportional import RopeProportionalConfig
from posenc.schemes.rope_scaling.yarn import RopeYarnConfig, RopeYarnPaperConfig, attention_scale
from tests.library.scaling_by_hand import by_hand, configs_of_every_scaling
from tests.library.tensors import assert_close

LLAMA_2_BY_16: dict[str, Any] = {"dim": 128, "factor": 16.0, "trained_length": 4_096}
QWEN_3: dict[str, Any] = {"dim": 128, "base": 1e6, "factor": 4.0, "trained_length": 32_768}
DEEPSEEK_V3: dict[str, Any] = {"dim": 64, "factor": 40.0, "trained_length": 4_096}
CONFIGS = configs_of_every_scaling()


def frequencies(config: RopeConfig, length: int | None = None) -> list[float]:
    values: list[float] = rope_frequencies(config, length=length)[0].tolist()
    return values


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.kind)
def test_frequencies_match_a_plain_loop_in_sixty_digits(config: RopeConfig) -> None:
    found = frequencies(config)
    with mpmath.workdps(60):
        expected = by_hand(config)
        assert len(found) == len(expected) == config.rotary_dim // 2
        for theta, exact in zip(found, expected, strict=True):
            assert abs(theta - exact) <= 1e-13 * abs(exact)
    for length in (1, 3_000, 2**31 - 1):
        inv_freq, scale = rope_frequencies(config, length=length)
        at_length = config.at_length(length)
        assert inv_freq.tolist() == frequencies(at_length)  # the same computation
        assert scale == at_length.build().attention_factor > 0
        assert bool(inv_freq.isfinite().all())
        if not hasattr(config, "length"):
            assert at_length is config


def test_yarn_ramps_between_the_published_pairs() -> None:
    config = RopeYarnConfig(**LLAMA_2_BY_16)
    divisors = config.divisors().tolist()
    assert config.ends(128) == (20, 46)
    assert [m for m in range(64) if divisors[m] == 1] == [*range(21)]
    assert [m for m in range(64) if divisors[m] == config.factor] == [*range(46, 64)]
    assert RopeYarnConfig(**QWEN_3).ends(128) == (23, 40)


def test_attention_factors_match_published_values() -> None:
    assert round(attention_scale(16.0), 4) == 1.2773
    assert RopeYarnConfig(**LLAMA_2_BY_16).build().attention_factor == attention_scale(16.0)
    assert attention_scale(1.0) == attention_scale(0.5) == 1.0
    # DeepSeek-V3: the ratio of its two mscales is 1; its softmax scale has another factor, 1.8739.
    both = RopeYarnConfig(**DEEPSEEK_V3, mscale=1.0, mscale_all_dim=1.0)
    assert both.attention_scaling() == 1.0
    assert round(attention_scale(40.0, 1.0) ** 2, 4) == 1.8739
    ratio = (0.1 * 0.707 * math.log(40) + 1) / (0.1 * 0.5 * math.log(40) + 1)
    unequal = both.replace(mscale=0.707, mscale_all_dim=0.5)
    assert unequal.attention_scaling() == pytest.approx(ratio, rel=1e-15)
    alone = unequal.replace(mscale_all_dim=0.0)  # one mscale without the other has no effect
    assert alone.attention_scaling() == attention_scale(40.0)
    assert unequal.replace(attention_factor=1.5).attention_scaling() == 1.5
    # Phi-3-mini-128k multiplies by 1.1902 at every length.
    phi = RopeLongConfig(dim=96, factor=131_072 / 4_096, trained_length=4_096)
    for length in (None, 1, 4_096, 4_097, 131_072):
        assert round(rope_frequencies(phi, length=length)[1], 4) == 1.1902
    assert phi.replace(factor=1.0).attention_scaling() == 1.0


def test_llama_3_1_keeps_29_pairs_blends_6_and_divides_29() -> None:
    config = RopeLlama3Config(dim=128, base=5e5, factor=8.0, trained_length=8_192)
    divisors = config.divisors().tolist()
    assert divisors == [1.0] * 29 + sorted(divisors[29:35]) + [8.0] * 29
    assert 1 < divisors[29] < divisors[34] < 8


def test_proportional_rope_is_not_partial_rope() -> None:
    proportional = RopeProportionalConfig(dim=64, partial_rotary_factor=0.25)
    partial = RopeConfig(dim=64, partial_rotary_factor=0.25)
    whole = frequencies(RopeConfig(dim=64))
    assert frequencies(proportional) == pytest.approx(whole[:8] + [0.0] * 24, rel=1e-15, abs=0)
    assert len(frequencies(partial)) == 8
    assert frequencies(partial)[1:] != whole[1:8]
    assert (proportional.build().unpaired, partial.build().unpaired) == (0, 48)
    for share, dim, rotating in ((0.0, 8, 0), (1.0, 8, 4), (0.58, 100, 29)):
        config = RopeProportionalConfig(dim=dim, partial_rotary_factor=share)
        assert sum(theta > 0 for theta in frequencies(config)) == config.rotating == rotating


def test_attention_factor_is_squared_in_the_kernel_and_absent_from_the_tail() -> None:
    config = RopeYarnConfig(dim=16, partial_rotary_factor=0.5, factor=16.0, trained_length=64)
    scheme, factor = config.build(), attention_scale(16.0)
    kernel = position_kernel(scheme, 7)
    for i in range(7):
        for j in range(7):
            waves = sum(math.cos((i - j) * theta) for theta in frequencies(config))
            assert kernel[i, j] == pytest.approx((2 * factor**2 * waves + 8) / 16, rel=1e-13)
    vectors = position_vectors(scheme, 7)
    assert_close(vectors @ vectors.T, kernel, atol=1e-14)
    q = torch.ones(1, 1, 3, 16, dtype=torch.float64)
    rotated, keys = scheme.rotate(q, q)
    assert torch.equal(rotated[..., 8:], q[..., 8:])  # not computed at all
    assert_close(rotated[0, 0, 0, :8], factor * q[0, 0, 0, :8], atol=1e-14)
    assert_close(rotated, keys, atol=1e-14)


@pytest.mark.parametrize(
    ("trained_length", "rounds_down"),
    [(3, False), (4_096, False), (40_960, False), (49, True), (1_000, True), (4_299, True)],
)
def test_a_factor_reaches_every_length_in_the_arithmetic_of_servers(
    trained_length: int, rounds_down: bool
) -> None:
    short = 0
    for length in range(trained_length, 200_000):
        factor = factor_reaching(length, trained_length)
        assert int(trained_length * factor) == length
        rounded = length / trained_length
        assert factor in (rounded, math.nextafter(rounded, math.inf))
        short += int(trained_length * rounded) < length
    assert (short > 0) == rounds_down


def test_trained_rope_is_stretched_by_the_scalings_that_need_no_training() -> None:
    needs_training = {"rope_longrope", "rope_proportional", "rope_sections"}
    assert {*AFTER_TRAINING} == {*ROPE_SCALINGS} - needs_training
    plain = RopeConfig(dim=32, base=500.0, layout="half", partial_rotary_factor=0.5)
    found = length_extensions(plain, 640, 64)
    assert {"position interpolation", "NTK-aware"} <= {*found}  # the names that runs store
    assert len(found) == len(AFTER_TRAINING)
    for name, config in found.items():
        assert isinstance(config, RopeConfig)
        assert config.scaling_name == name
        assert (config.dim, config.base, config.layout) == (32, 500.0, "half")
        assert config.partial_rotary_factor == 0.5
        assert getattr(config, "factor", None) == 10.0
        assert getattr(config, "trained_length", 64) == 64
        assert getattr(config, "length", 640) == 640
        assert frequencies(config) != frequencies(plain)
    assert length_extensions(SCHEMES["alibi"](), 640, 64) == {}


@pytest.mark.parametrize("kind", [RopeYarnConfig, RopeYarnPaperConfig, RopeLongConfig])
def test_attention_factor_is_zero_or_has_a_usable_square(kind: Any) -> None:
    assert kind(attention_factor=0.0).attention_scaling() > 1
    for factor in (0.01, 1.25, 100.0):
        assert kind(attention_factor=factor).attention_scaling() == factor
    for factor in (1e-200, 0.009, -0.01, 100.5):
        with pytest.raises(ConfigError, match=r"attention_factor must be 0 .* 0\.01 to 100"):
            kind(attention_factor=factor)


@pytest.mark.parametrize(("low", "high"), [(1.0, 32.0), (1.0, 4.0), (0.5, 6.0)])
def test_printed_yarn_divides_as_llama_3_does_at_equal_numbers(low: float, high: float) -> None:
    numbers: dict[str, Any] = {"dim": 128, "base": 5e5, "factor": 8.0, "trained_length": 8_192}
    printed = RopeYarnPaperConfig(beta_slow=low, beta_fast=high, **numbers)
    llama = RopeLlama3Config(low_freq_factor=low, high_freq_factor=high, **numbers)
    assert torch.equal(printed.divisors(), llama.divisors())
