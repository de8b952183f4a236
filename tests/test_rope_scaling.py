"""Scalings of RoPE: published numbers by name; how they turn, their kernels, what they make of weights."""

import math
from typing import Any

import pytest
import torch

from posenc import (
    SCHEMES,
    position_kernel,
    position_vectors,
    rope_frequencies,
)
from posenc.errors import NotStationary
from posenc.kernel import offset_curve
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling import ROPE_SCALINGS
from posenc.schemes.rope_scaling.dynamic import RopeDynamicConfig
from posenc.schemes.rope_scaling.llama3 import RopeLlama3Config
from posenc.schemes.rope_scaling.longrope import RopeLongConfig
from posenc.schemes.rope_scaling.ntk import RopeNtkConfig
from posenc.schemes.rope_scaling.proportional import RopeProportionalConfig
from posenc.schemes.rope_scaling.sections import RopeSectionsConfig
from posenc.schemes.rope_scaling.yarn import RopeYarnConfig, attention_scale
from posenc.schemes.rope_scaling.yarn_paper import RopeYarnPaperConfig
from posenc.schemes.stretched import AFTER_TRAINING, stretched
from tests.conftest import SMALL
from tests.scaling_by_hand import axes_by_hand
from tests.scaling_strategies import KINDS, exact

LLAMA_2_BY_16 = {"dim": 128, "base": 1e4, "factor": 16.0, "trained_length": 4_096}
QWEN_3 = {"dim": 128, "base": 1e6, "factor": 4.0, "trained_length": 32_768}
DEEPSEEK_V3 = {"dim": 64, "base": 1e4, "factor": 40.0, "trained_length": 4_096}
LLAMA_3_1 = {"dim": 128, "base": 5e5, "factor": 8.0, "trained_length": 8_192}


# Published numbers --------------------------------------------------------------------------------


def test_yarn_of_llama_2_by_16_ramps_from_pair_20_to_46() -> None:
    config = RopeYarnConfig(**LLAMA_2_BY_16)
    assert config.ends() == (20, 46)
    kept = config.kept().tolist()
    assert [m for m in range(64) if kept[m] == 1] == [*range(21)]
    assert [m for m in range(64) if kept[m] == 0] == [*range(46, 64)]


def test_yarn_of_qwen_3_by_4_ramps_from_pair_23_to_40() -> None:
    assert RopeYarnConfig(**QWEN_3).ends() == (23, 40)


@pytest.mark.parametrize(
    ("sizes", "percent", "pair"),
    [(LLAMA_2_BY_16, 204, 38), (QWEN_3, 71, None), (DEEPSEEK_V3, 328, None)],
)
def test_yarn_s_code_exceeds_its_paper(
    sizes: dict[str, Any], percent: int, pair: int | None
) -> None:
    code, paper = exact(RopeYarnConfig(**sizes)), exact(RopeYarnPaperConfig(**sizes))
    above = [100 * (a / b - 1) for a, b in zip(code, paper, strict=True)]
    assert round(max(above)) == percent
    if pair is not None:
        assert above.index(max(above)) == pair


def test_yarn_s_attention_factor_by_16_is_1_2773() -> None:
    assert round(attention_scale(16.0), 4) == 1.2773
    assert RopeYarnConfig(**LLAMA_2_BY_16).build().attention_factor == attention_scale(16.0)
    assert attention_scale(1.0) == attention_scale(0.5) == 1.0


def test_deepseek_s_ratio_is_1_and_its_softmax_scale_another_1_8739() -> None:
    config = RopeYarnConfig(**DEEPSEEK_V3, mscale=1.0, mscale_all_dim=1.0)
    assert config.attention_scaling() == 1.0
    assert round(attention_scale(40.0, 1.0) ** 2, 4) == 1.8739


def test_yarn_s_pair_of_mscales_divides_one_by_the_other() -> None:
    by_hand = (0.1 * 0.707 * math.log(40) + 1) / (0.1 * 0.5 * math.log(40) + 1)
    config = RopeYarnConfig(**DEEPSEEK_V3, mscale=0.707, mscale_all_dim=0.5)
    assert config.attention_scaling() == pytest.approx(by_hand, rel=1e-15)
    alone = config.replace(mscale_all_dim=0.0)  # one without the other counts for nothing
    assert alone.attention_scaling() == attention_scale(40.0)
    assert config.replace(attention_factor=1.5).attention_scaling() == 1.5


def test_llama_3_1_keeps_29_pairs_blends_6_and_divides_29() -> None:
    config = RopeLlama3Config(**LLAMA_3_1)
    divisors = config.divisors().tolist()
    assert [sum(d == 1 for d in divisors), sum(d == 8 for d in divisors)] == [29, 29]
    assert sum(1 < d < 8 for d in divisors) == 6
    assert divisors == sorted(divisors)


def test_phi_3_mini_128k_multiplies_by_1_1902_at_every_length() -> None:
    config = RopeLongConfig(dim=96, factor=131_072 / 4_096, trained_length=4_096)
    for length in (None, 1, 4_096, 4_097, 131_072):
        assert round(rope_frequencies(config, length=length)[1], 4) == 1.1902
    assert config.replace(factor=1.0).attention_scaling() == 1.0


def test_ntk_aware_keeps_the_first_pair_and_divides_the_last_by_the_factor_exactly() -> None:
    plain, found = exact(RopeConfig()), exact(RopeNtkConfig(factor=7.0))
    assert found[0] == plain[0] == 1.0
    assert found[-1] == plain[-1] / 7


def test_dynamic_ntk_is_plain_up_to_the_trained_length_and_moves_past_it() -> None:
    config = RopeDynamicConfig(factor=4.0, trained_length=1_024)
    plain = exact(RopeConfig())
    assert exact(config) == exact(config, 1) == exact(config, 1_024) == plain
    assert exact(config, 1_025) != plain
    assert exact(config, 4_096) == exact(RopeNtkConfig(factor=4.0 * 4 - 3))
    grown = [exact(config, n)[-1] for n in (1_024, 1_100, 2_048, 2_049, 4_096)]
    assert grown == sorted(grown, reverse=True)
    assert len({*grown}) == 5
    assert exact(config.at_length(2_048)) == exact(config, 2_048)


def test_proportional_is_not_partial() -> None:
    """p-RoPE leaves gaps at the slow end; partial rotary squeezes the whole ladder into a part."""
    p = RopeProportionalConfig(dim=64, partial_rotary_factor=0.25)
    partial = RopeConfig(dim=64, partial_rotary_factor=0.25)
    whole = exact(RopeConfig(dim=64))
    assert exact(p) == whole[:8] + [0.0] * 24
    assert len(exact(partial)) == 8
    assert exact(partial)[1:] != whole[1:8]
    assert p.build().unpaired == 0
    assert partial.build().unpaired == 48


@pytest.mark.parametrize(("share", "dim", "turning"), [(0.0, 8, 0), (1.0, 8, 4), (0.58, 100, 29)])
def test_proportional_turns_a_share_of_the_pairs(share: float, dim: int, turning: int) -> None:
    config = RopeProportionalConfig(dim=dim, partial_rotary_factor=share)
    assert sum(theta > 0 for theta in exact(config)) == config.turning == turning


@pytest.mark.parametrize(("dim", "base"), [(64, 1e4), (2, 1e4), (100, 5e5)])
def test_proportional_of_the_whole_width_is_plain_rope(
    dim: int, base: float, draw: torch.Generator
) -> None:
    whole = RopeProportionalConfig(dim=dim, base=base, partial_rotary_factor=1.0)
    plain = RopeConfig(dim=dim, base=base)
    assert exact(whole) == exact(plain)
    q, k = torch.randn(2, 1, 3, 300, dim, generator=draw)
    positions = torch.arange(1_000, 1_300)
    both = zip(
        whole.build().rotate(q, k, positions, positions),
        plain.build().rotate(q, k, positions, positions),
        strict=True,
    )
    assert all(torch.equal(ours, theirs) for ours, theirs in both)
    shorter = RopeProportionalConfig(dim=dim, base=base, partial_rotary_factor=1 - 2 / dim)
    assert exact(shorter) == [*exact(plain)[:-1], 0.0]


# Plain loops in high precision ---------------------------------------------------------------------


def test_yarn_s_ramp_is_safe_where_a_pair_s_number_is_infinite() -> None:
    config = RopeYarnConfig(beta_slow=1e-6)
    object.__setattr__(config, "beta_slow", 1e-320)  # what the rule keeps out
    assert config.ends()[1] == config.rotary_dim - 1
    assert bool(config.kept().isfinite().all())


# Rotation, kernel and vectors ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_every_scaling_turns_as_a_complex_multiplication(kind: str, layout: str) -> None:
    config = SCHEMES[kind](dim=12, layout=layout)
    q = torch.randn(1, 1, 9, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    turned, _ = config.build().rotate(q, q)
    inv_freq, scale = exact(config), config.attention_scaling()
    for p in range(9):
        for m in range(6):
            place = [p] * 6
            if kind == "rope_sections":
                place = [(p // 16, p % 16)[axis] for axis in axes_by_hand(config)]
            one, two = (2 * m, 2 * m + 1) if layout == "interleaved" else (m, m + 6)
            before = complex(q[0, 0, p, one], q[0, 0, p, two])
            angle = place[m] * inv_freq[m]
            after = scale * before * complex(math.cos(angle), math.sin(angle))
            assert complex(turned[0, 0, p, one], turned[0, 0, p, two]) == pytest.approx(after)


def test_the_attention_factor_is_squared_in_the_kernel_but_not_of_the_untouched_tail() -> None:
    config = RopeYarnConfig(dim=16, partial_rotary_factor=0.5, factor=16.0, trained_length=64)
    kernel, a = position_kernel(config.build(), 7), attention_scale(16.0)
    for i in range(7):
        for j in range(7):
            waves = sum(math.cos((i - j) * theta) for theta in exact(config))
            assert kernel[i, j] == pytest.approx((2 * a**2 * waves + 8) / 16, rel=1e-13)
    vectors = position_vectors(config.build(), 7)
    torch.testing.assert_close(vectors @ vectors.T, kernel, rtol=0, atol=1e-14)
    q = torch.ones(1, 1, 3, 16, dtype=torch.float64)
    turned, keys = config.build().rotate(q, q)
    assert torch.equal(turned[..., 8:], q[..., 8:])
    assert turned[0, 0, 0, :8].tolist() == [a] * 8
    assert torch.equal(turned, keys)


def test_transformers_leaves_the_untouched_tail_of_partial_rotary_unscaled() -> None:
    modeling = pytest.importorskip("transformers.models.phi.modeling_phi")
    from transformers import PhiConfig

    made = PhiConfig(
        hidden_size=32, num_attention_heads=2, max_position_embeddings=1_024,
        rope_parameters={
            "rope_type": "yarn", "rope_theta": 1e4, "factor": 16.0, "partial_rotary_factor": 0.5,
            "original_max_position_embeddings": 64,
        },
    )  # fmt: skip
    q = torch.randn(1, 1, 5, 16, generator=torch.Generator().manual_seed(1))
    cos, sin = modeling.PhiRotaryEmbedding(made)(q, torch.arange(5)[None])
    theirs, _ = modeling.apply_rotary_pos_emb(q[..., :8], q[..., :8], cos, sin)
    config = RopeYarnConfig(
        dim=16, partial_rotary_factor=0.5, factor=16.0, trained_length=64, layout="half"
    )
    found, _ = config.build().rotate(q, q)
    torch.testing.assert_close(found[..., :8], theirs, rtol=0, atol=2e-6)
    assert torch.equal(found[..., 8:], q[..., 8:])


def test_equal_positions_on_all_axes_are_plain_rope() -> None:
    plain, text = RopeConfig(dim=64), RopeSectionsConfig(dim=64, grid=0, sections=(10, 12, 10))
    assert exact(text) == exact(plain)
    q = torch.randn(1, 2, 9, 64, generator=torch.Generator().manual_seed(1))
    assert torch.equal(text.build().rotate(q, q)[0], plain.build().rotate(q, q)[0])
    assert torch.equal(offset_curve(text.build(), 40), offset_curve(plain.build(), 40))
    assert text.build().stationary


def test_a_grid_is_no_function_of_the_offset_but_of_rows_and_columns() -> None:
    config = RopeSectionsConfig(dim=16, grid=5)
    scheme = config.build()
    kernel, theta = position_kernel(scheme, 23), exact(config)
    for i in range(23):
        for j in range(23):
            across = (i // 5 - j // 5, i % 5 - j % 5)
            waves = sum(
                math.cos(across[axis] * t)
                for axis, t in zip(axes_by_hand(config), theta, strict=True)
            )
            assert kernel[i, j] == pytest.approx(waves / 8, abs=1e-13)
    assert kernel[4, 5] != pytest.approx(kernel[5, 6].item())  # a row ends between them
    with pytest.raises(NotStationary):
        offset_curve(scheme, 5)
    assert scheme.inv_freq is None
    assert scheme.offset_map(3) is None


def test_places_of_negative_tokens_go_on_backwards() -> None:
    scheme = RopeSectionsConfig(dim=16, grid=4, sections=(2, 3, 3)).build()
    places = [one.tolist() for one in scheme.places(torch.tensor([-1, 0, 5, 37]))]
    assert places == [[-1, 0, 0, 2], [3, 0, 1, 1], [3, 0, 1, 1]]


# Reading trained weights ---------------------------------------------------------------------------


def test_every_scaling_but_three_needs_no_training() -> None:
    without = {"rope_longrope", "rope_proportional", "rope_sections"}
    assert {*AFTER_TRAINING} == {*ROPE_SCALINGS} - without


def test_a_trained_rope_is_stretched_with_its_own_width_base_and_share() -> None:
    plain = RopeConfig(dim=32, base=500.0, layout="half", partial_rotary_factor=0.5)
    found = stretched(plain, 640, 64)
    assert len(found) == len(AFTER_TRAINING)
    assert {"position interpolation", "NTK-aware"} <= {*found}  # as runs name them
    for name, config in found.items():
        assert isinstance(config, RopeConfig)
        assert config.reading == name
        assert (config.dim, config.base, config.layout) == (32, 500.0, "half")
        assert config.partial_rotary_factor == 0.5
        assert getattr(config, "factor", None) == 10.0
        assert getattr(config, "trained_length", 64) == 64
        assert getattr(config, "length", 640) == 640
        assert exact(config) != exact(plain)
    assert stretched(SCHEMES["alibi"](), 640, 64) == {}


# What is refused -----------------------------------------------------------------------------------


def test_plain_rope_is_unchanged_by_scalings_of_factor_one() -> None:
    plain = exact(RopeConfig(dim=64))
    for kind in ROPE_SCALINGS:
        config = SCHEMES[kind](dim=64)
        if hasattr(config, "factor") and kind != "rope_proportional":
            config = config.replace(factor=1.0)
            assert exact(config) == plain, kind
            assert config.attention_scaling() == 1.0
            small = SMALL.config(kind).replace(factor=1.0)
            assert small.build().phases == SMALL.config("rope").build().phases


@pytest.mark.parametrize("kind", ["rope_ntk", "rope_dynamic"])
def test_one_pair_keeps_its_frequency_in_either_mode(kind: str) -> None:
    config = SCHEMES[kind](dim=2)
    assert isinstance(config, RopeConfig)
    for mode in ("exact", "transformers"):
        ladder, _ = rope_frequencies(config, length=100_000, mode=mode)  # type: ignore[arg-type]
        assert ladder.tolist() == [1.0]
