"""Scalings of RoPE: published numbers by name, plain loops in high precision, and transformers' bits."""

import dataclasses
import functools
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import mpmath
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from posenc import (
    SCHEMES,
    ConfigError,
    PosencError,
    SchemeArgumentError,
    Setting,
    fields,
    position_kernel,
    position_vectors,
    rope_frequencies,
)
from posenc.errors import NotStationary
from posenc.kernel import offset_curve
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling import ROPE_SCALINGS
from posenc.schemes.rope_scaling.dynamic import RopeDynamicConfig
from posenc.schemes.rope_scaling.linear import RopeLinearConfig
from posenc.schemes.rope_scaling.llama3 import RopeLlama3Config
from posenc.schemes.rope_scaling.longrope import RopeLongConfig
from posenc.schemes.rope_scaling.ntk import RopeNtkConfig
from posenc.schemes.rope_scaling.proportional import RopeProportionalConfig
from posenc.schemes.rope_scaling.sections import RopeSectionsConfig
from posenc.schemes.rope_scaling.yarn import RopeYarnConfig, attention_scale
from posenc.schemes.rope_scaling.yarn_paper import RopeYarnPaperConfig
from posenc.schemes.stretched import AFTER_TRAINING, stretched
from tests.conftest import SMALL

KINDS = ("rope", *ROPE_SCALINGS)

LLAMA_2_BY_16 = {"dim": 128, "base": 1e4, "factor": 16.0, "trained_length": 4_096}
QWEN_3 = {"dim": 128, "base": 1e6, "factor": 4.0, "trained_length": 32_768}
DEEPSEEK_V3 = {"dim": 64, "base": 1e4, "factor": 40.0, "trained_length": 4_096}
LLAMA_3_1 = {"dim": 128, "base": 5e5, "factor": 8.0, "trained_length": 8_192}


def exact(config: RopeConfig, length: int | None = None) -> list[float]:
    found: list[float] = rope_frequencies(config, length=length)[0].tolist()
    return found


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


# Plain loops in high precision ---------------------------------------------------------------------


def by_hand(config: RopeConfig) -> list[Any]:
    """The frequencies by the formulas as they are written, 60 digits, one pair after the other."""
    d, b = config.rotary_dim, mpmath.mpf(config.base)
    theta = [b ** (-mpmath.mpf(2 * m) / d) for m in range(d // 2)]
    two_pi = 2 * mpmath.pi
    match config:
        case RopeLinearConfig(factor=s):
            return [t / mpmath.mpf(s) for t in theta]
        case RopeNtkConfig(factor=s):
            if d == 2:
                return theta
            larger = b * mpmath.mpf(s) ** (mpmath.mpf(d) / (d - 2))
            return [larger ** (-mpmath.mpf(2 * m) / d) for m in range(d // 2)]
        case RopeDynamicConfig(factor=s, trained_length=trained, length=n):
            if d == 2:
                return theta
            growth = mpmath.mpf(s) * max(n, trained) / trained - (mpmath.mpf(s) - 1)
            larger = b * growth ** (mpmath.mpf(d) / (d - 2))
            return [larger ** (-mpmath.mpf(2 * m) / d) for m in range(d // 2)]
        case RopeYarnConfig(factor=s, trained_length=trained):
            low, high = (
                d * mpmath.log(trained / (two_pi * mpmath.mpf(r))) / (2 * mpmath.log(b))
                for r in (config.beta_fast, config.beta_slow)
            )
            if config.truncate:
                low, high = mpmath.floor(low), mpmath.ceil(high)
            low, high = max(low, 0), min(high, d - 1)
            high += mpmath.mpf("0.001") if low == high else 0
            found = []
            for m, t in enumerate(theta):
                divided = min(max((m - low) / (high - low), 0), 1)
                found.append(t / mpmath.mpf(s) * divided + t * (1 - divided))
            return found
        case RopeYarnPaperConfig(factor=s, trained_length=trained):
            ends = mpmath.mpf(config.beta_slow), mpmath.mpf(config.beta_fast)
            return [ramped(t, trained * t / two_pi, *ends, mpmath.mpf(s)) for t in theta]
        case RopeLlama3Config(factor=s, trained_length=trained):
            low, high = mpmath.mpf(config.low_freq_factor), mpmath.mpf(config.high_freq_factor)
            found = []
            for t in theta:
                wave = two_pi / t
                if wave < trained / high:
                    found.append(t)
                elif wave > trained / low:
                    found.append(t / mpmath.mpf(s))
                else:
                    found.append(ramped(t, trained / wave, low, high, mpmath.mpf(s)))
            return found
        case RopeLongConfig(factor=s):
            is_long = config.length > config.trained_length
            given = config.long_factor if is_long else config.short_factor
            if len(given) > 1:
                return [t / mpmath.mpf(f) for t, f in zip(theta, given, strict=True)]
            if len(given) == 1:
                return [t / mpmath.mpf(given[0]) for t in theta]
            if config.length <= config.trained_length or d == 2:
                return theta
            return [
                t / mpmath.mpf(s) ** (mpmath.mpf(m) / (d // 2 - 1)) for m, t in enumerate(theta)
            ]
        case RopeProportionalConfig(factor=s):
            # A share is a number of hundredths here, so the product is the one that was meant.
            turning = round(config.partial_rotary_factor * 100) * d // 200
            return [
                t / mpmath.mpf(s) if m < turning else mpmath.mpf(0) for m, t in enumerate(theta)
            ]
        case RopeSectionsConfig(ladders="each"):
            taken: dict[int, int] = {}
            found = []
            for axis in axes_by_hand(config):
                m = taken.get(axis, 0)
                taken[axis] = m + 1
                found.append(b ** (-mpmath.mpf(m) / sizes_by_hand(config)[axis]))
            return found
    return theta


def ramped(theta: Any, at: Any, low: Any, high: Any, factor: Any) -> Any:
    kept = min(max((at - low) / (high - low), 0), 1)
    return (1 - kept) * theta / factor + kept * theta


def sizes_by_hand(config: RopeSectionsConfig) -> tuple[int, ...]:
    pairs = config.rotary_dim // 2
    return config.sections or ((pairs + 1) // 2, pairs // 2)


def axes_by_hand(config: RopeSectionsConfig) -> list[int]:
    """As Qwen2-VL splits (m[i % 3] for i, m of the sections) and Qwen3-VL fills slices of every third."""
    sizes = sizes_by_hand(config)
    if not config.interleaved:
        return [axis for axis, size in enumerate(sizes) for _ in range(size)]
    found = [0] * sum(sizes)
    for axis in range(1, len(sizes)):
        for m in range(axis, sizes[axis] * len(sizes), len(sizes)):
            if m < len(found):
                found[m] = axis
    return found


REALS = st.floats(1, 64).map(lambda x: round(x, 3))
SIZES = st.fixed_dictionaries(
    {
        "dim": st.integers(1, 96).map(lambda half: 2 * half),
        "base": st.sampled_from([1.5, 10.0, 500.0, 1e4, 5e5, 1e6, 1e12]),
    }
)
OWN: dict[str, Any] = {
    "rope": {},
    "rope_linear": {"factor": REALS},
    "rope_ntk": {"factor": REALS},
    "rope_dynamic": {
        "factor": REALS, "trained_length": st.integers(2, 9_999), "length": st.integers(0, 10**6),
    },
    "rope_yarn": {
        "factor": REALS, "trained_length": st.integers(2, 10**6), "truncate": st.booleans(),
        "beta_fast": st.sampled_from([1.0, 4.0, 32.0, 64.5]), "beta_slow": st.sampled_from([0.25, 1.0]),
        "mscale": st.sampled_from([0.0, 0.707, 1.0]),
        "mscale_all_dim": st.sampled_from([0.0, 0.5, 1.0]),
        "attention_factor": st.sampled_from([0.0, 1.25]),
    },
    "rope_yarn_paper": {
        "factor": REALS, "trained_length": st.integers(2, 10**6),
        "beta_fast": st.sampled_from([2.0, 32.0]), "beta_slow": st.sampled_from([0.25, 1.0]),
        "attention_factor": st.sampled_from([0.0, 1.25]),
    },
    "rope_longrope": {
        "factor": REALS, "trained_length": st.integers(2, 9_999), "length": st.integers(0, 20_000),
        "short_factor": st.sampled_from([(), (1.5,)]), "long_factor": st.sampled_from([(), (3.25,)]),
        "attention_factor": st.sampled_from([0.0, 1.25]),
    },
    "rope_llama3": {
        "factor": REALS, "trained_length": st.integers(2, 10**6),
        "low_freq_factor": st.sampled_from([0.5, 1.0]), "high_freq_factor": st.sampled_from([2.0, 4.0]),
    },
    "rope_proportional": {
        "factor": REALS, "partial_rotary_factor": st.integers(0, 100).map(lambda n: n / 100),
    },
    "rope_sections": {
        "grid": st.integers(0, 40), "interleaved": st.booleans(), "sections": st.just(()),
        "ladders": st.sampled_from(["one", "each"]),
    },
}  # fmt: skip


def configs(kinds: tuple[str, ...] = KINDS) -> st.SearchStrategy[Callable[[], RopeConfig]]:
    """Makers of configs of every scaling, of sizes that public models have and of odd ones.

    Makers, because what checks the types of a config draws by chance which entries it looks at, and
    no strategy may: the same example would not come again.
    """
    return st.one_of(
        *(
            st.tuples(SIZES, st.fixed_dictionaries({}, optional=OWN[kind])).map(
                lambda given, kind=kind: functools.partial(SCHEMES[kind], **given[0], **given[1])
            )
            for kind in kinds
        )
    )


def test_the_strategies_cover_every_scaling_and_its_fields() -> None:
    assert set(OWN) == {*KINDS}
    for kind in KINDS:
        fields = {field.name for field in dataclasses.fields(SCHEMES[kind])} - {"kind"}
        assert {*OWN[kind]} | {"dim", "base", "layout", "partial_rotary_factor"} >= fields


@settings(max_examples=150)
@given(configs())
def test_every_frequency_is_that_of_a_plain_loop_in_sixty_digits(
    made: Callable[[], RopeConfig],
) -> None:
    config = made()
    found = exact(config)
    with mpmath.workdps(60):
        expected = by_hand(config)
        assert len(found) == len(expected) == config.rotary_dim // 2
        for theta, number in zip(found, expected, strict=True):
            # Where a rotation count is within rounding of a whole one, floor and ceil may differ.
            assert abs(theta - number) <= 1e-13 * abs(number) + mpmath.mpf(10) ** -300


@given(configs(), st.integers(1, 2**31 - 1))
def test_a_length_gives_the_config_of_that_length(
    made: Callable[[], RopeConfig], length: int
) -> None:
    config = made()
    at, scale = rope_frequencies(config, length=length)
    assert torch.equal(at, config.at_length(length).build().phases.inv_freq)
    assert scale == config.at_length(length).build().attention_factor
    if not hasattr(config, "length"):
        assert config.at_length(length) is config
    assert bool(at.isfinite().all())
    assert 0 < scale < math.inf


@pytest.mark.parametrize("kind", [RopeYarnConfig, RopeYarnPaperConfig, RopeLongConfig])
def test_an_attention_factor_is_not_given_or_one_whose_square_is_usable(kind: Any) -> None:
    assert kind(attention_factor=0.0).attention_scaling() > 1
    for factor in (0.01, 1.25, 100.0):
        assert kind(attention_factor=factor).attention_scaling() == factor
    for factor in (1e-200, 0.009, -0.01, 100.5, 1e200):
        with pytest.raises(
            ConfigError, match=r"attention_factor must be 0 or a number from 0\.01 to 100"
        ):
            kind(attention_factor=factor)
    read = fields.rules(kind)["attention_factor"].nearest
    assert [read(text) for text in ("-1", "0", "1e-200", "0.004", "0.006", "0.5", "1e9")] == [
        0.0, 0.0, 0.0, 0.0, 0.01, 0.5, 100.0,
    ]  # fmt: skip


@pytest.mark.parametrize("kind", [RopeYarnConfig, RopeYarnPaperConfig])
def test_turns_that_would_underflow_are_refused(kind: Any) -> None:
    for name in ("beta_slow", "beta_fast"):
        for turns in (0.0, 1e-320, 9e-7, 1.1e6):
            with pytest.raises(ConfigError, match=f"{name} must be a number from 1e-06 to 1e"):
                kind(**{"beta_slow": 1e-6, name: turns})
    assert all(exact(kind(beta_slow=1e-6, base=base)) for base in (math.nextafter(1, 2), 1e12))


def test_yarn_s_ramp_is_safe_where_a_pair_s_number_is_infinite() -> None:
    config = RopeYarnConfig(beta_slow=1e-6)
    object.__setattr__(config, "beta_slow", 1e-320)  # what the rule keeps out
    assert config.ends()[1] == config.rotary_dim - 1
    assert bool(config.kept().isfinite().all())


# transformers --------------------------------------------------------------------------------------

TYPES = {
    "rope": "default", "rope_linear": "linear", "rope_dynamic": "dynamic", "rope_yarn": "yarn",
    "rope_longrope": "longrope", "rope_llama3": "llama3", "rope_proportional": "proportional",
}  # fmt: skip


def transformers_frequencies(config: Any, length: int | None) -> tuple[Tensor, float]:
    """Inverse frequencies and attention factor of the installed transformers."""
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
    from transformers.models.gpt_neox.modeling_gpt_neox import GPTNeoXRotaryEmbedding

    values = {
        "rope_type": TYPES[config.kind], "rope_theta": config.base,
        "partial_rotary_factor": config.partial_rotary_factor,
    }  # fmt: skip
    own = {field.name for field in dataclasses.fields(config)}
    for name in own - {"kind", "dim", "base", "layout", "length", "trained_length"}:
        value = getattr(config, name)
        if name in ("attention_factor", "mscale", "mscale_all_dim") and value == 0:
            continue
        pairs = int(config.dim * config.partial_rotary_factor) // 2
        if name in ("short_factor", "long_factor"):
            value = [*value] if len(value) == pairs else [*(value or (1.0,))] * pairs
        values[name] = value
    trained = getattr(config, "trained_length", 2_048)
    if "trained_length" in own and config.kind != "rope_dynamic":
        values["original_max_position_embeddings"] = trained
    made = LlamaConfig(
        hidden_size=config.dim, num_attention_heads=1, head_dim=config.dim,
        max_position_embeddings=trained, rope_parameters=values,
    )  # fmt: skip
    if config.kind == "rope":
        return GPTNeoXRotaryEmbedding.compute_default_rope_parameters(made)
    return ROPE_INIT_FUNCTIONS[TYPES[config.kind]](made, torch.device("cpu"), seq_len=length)


def ulps(found: Tensor, theirs: Tensor) -> int:
    """The largest distance of two float32 rows of positive numbers, in units of the last place."""
    return int((found.float().view(torch.int32) - theirs.view(torch.int32)).abs().max())


SHARES = st.sampled_from([1.0, 0.5, 0.25, 0.4])


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=200)
@given(configs(tuple(TYPES)), SHARES, st.none() | st.integers(1, 300_000))
def test_frequencies_are_transformers_bit_for_bit(
    made: Callable[[], RopeConfig], share: float, length: int | None
) -> None:
    pytest.importorskip("transformers")
    config = made()
    if config.kind != "rope_proportional":
        if int(config.dim * share) < 4 or int(config.dim * share) % 2:
            share = 1.0
        config = config.replace(partial_rotary_factor=share)
    if hasattr(config, "length"):
        config = config.replace(length=0)
        if config.kind == "rope_dynamic" and config.rotary_dim == 2:
            with pytest.raises(ZeroDivisionError):  # it divides by width - 2
                transformers_frequencies(config, length)
            return
    theirs, scale = transformers_frequencies(config, length)
    if config.kind == "rope_longrope" and not getattr(
        config, "long_factor" if (length or 0) > config.trained_length else "short_factor"
    ):
        config = config.replace(short_factor=(1.0,), long_factor=(1.0,))
    found, own = rope_frequencies(config, length=length, mode="transformers")
    assert found.dtype == torch.float32
    assert torch.equal(found, theirs)
    assert own == scale
    if not (theirs.isfinite().all() and (theirs >= 2**-126).logical_or(theirs == 0).all()):
        return  # past the range of float32
    right, exactly = rope_frequencies(config, length=length)
    assert right.dtype == torch.float64
    assert exactly == scale


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", list(TYPES))
@pytest.mark.parametrize(
    ("dim", "base", "most"),
    [(64, 1e4, 4), (128, 1e4, 4), (128, 5e5, 4), (128, 1e6, 4), (256, 1e6, 4), (96, 1e4, 8)],
)
@pytest.mark.parametrize("length", [None, 131_072])
def test_exact_frequencies_are_within_4_ulp_of_transformers(
    kind: str, dim: int, base: float, most: int, length: int | None
) -> None:
    """Its float32 powers alone are off by up to 6 ulp at widths that are no power of two."""
    pytest.importorskip("transformers")
    config = SCHEMES[kind](dim=dim, base=base)
    if kind == "rope_longrope":
        grown = tuple(1 + m / 4 for m in range(dim // 2))
        config = config.replace(short_factor=(1.0,) * (dim // 2), long_factor=grown)
    theirs, scale = transformers_frequencies(config, length)
    found, own = rope_frequencies(config, length=length)
    assert ulps(found, theirs) <= most
    assert own == scale
    assert torch.equal(rope_frequencies(config, length=length, mode="transformers")[0], theirs)


@pytest.mark.parametrize("length", [8_192, 65_536])
def test_ntk_aware_is_the_alpha_of_hunyuan_bit_for_bit(length: int) -> None:
    modeling = pytest.importorskip("transformers.models.hunyuan_v1_dense.modeling_hunyuan_v1_dense")
    from transformers import HunYuanDenseV1Config

    made = HunYuanDenseV1Config(
        hidden_size=128, num_attention_heads=1, head_dim=128, max_position_embeddings=length,
        rope_parameters={"rope_type": "dynamic", "rope_theta": 1e4, "alpha": 1000.0, "factor": 1.0},
    )  # fmt: skip
    theirs, _ = modeling.HunYuanDenseV1RotaryEmbedding.compute_ntk_alpha_rope_parameters(made)
    found, scale = rope_frequencies(RopeNtkConfig(factor=1000.0), mode="transformers")
    assert torch.equal(found, theirs)
    assert scale == 1


@pytest.mark.parametrize("dim", [8, 64, 128])
def test_a_ladder_of_each_axis_is_transformers_axial_bit_for_bit(dim: int) -> None:
    modeling = pytest.importorskip("transformers.models.cohere_compass.modeling_cohere_compass")

    made = SimpleNamespace(rope_parameters={"rope_theta": 1e4}, head_dim=dim)
    theirs, _ = modeling.CohereCompassVisionRotaryEmbedding.compute_axial_rope_parameters(made)
    config = RopeSectionsConfig(dim=dim, ladders="each")
    found, _ = rope_frequencies(config, mode="transformers")
    assert torch.equal(found, torch.cat((theirs, theirs)))
    assert ulps(rope_frequencies(config)[0], found) <= 4


@pytest.mark.parametrize("interleaved", [False, True])
def test_sections_turn_as_those_of_qwen_vl(interleaved: bool) -> None:
    """Qwen2-VL's sections in blocks and Qwen3-VL's in turn, at the places of a grid."""
    name = "qwen3_vl" if interleaved else "qwen2_vl"
    modeling = pytest.importorskip(f"transformers.models.{name}.modeling_{name}")
    sizes = (6, 5, 5)
    config = RopeSectionsConfig(
        dim=32, sections=sizes, interleaved=interleaved, grid=4, layout="half"
    )
    scheme = config.build()
    at = torch.arange(40)
    places = torch.stack((at // 16, at // 4 % 4, at % 4))  # frame, row, column
    inv_freq = rope_frequencies(config)[0].float()
    freqs = places[:, None, :, None].float() * inv_freq

    owned = SimpleNamespace(mrope_section=[*sizes])
    owner = modeling.Qwen3VLTextRotaryEmbedding if interleaved else modeling.Qwen2VLRotaryEmbedding
    recompose = owner.recomposition_frequencies
    if interleaved:
        angles = recompose(owned, freqs)
        cos, sin = angles.cos(), angles.sin()
    else:
        cos, sin = recompose(owned, freqs.cos()), recompose(owned, freqs.sin())
    found = scheme.cos_sin(at, dtype=torch.float32)
    for plane, theirs in zip(found, (cos, sin), strict=True):
        torch.testing.assert_close(plane, theirs[0, :, :16], rtol=0, atol=2e-6)


def test_transformers_has_no_yarn_as_printed() -> None:
    with pytest.raises(SchemeArgumentError, match="RoPE YaRN as printed"):
        rope_frequencies(RopeYarnPaperConfig(), mode="transformers")


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


@pytest.mark.parametrize(
    ("kind", "values", "said"),
    [
        (
            "rope_linear",
            {"factor": 0.99},
            "RopeLinearConfig.factor must be a number from 1 to 4096",
        ),
        ("rope_ntk", {"factor": math.nan}, "RopeNtkConfig.factor"),
        ("rope_yarn", {"beta_fast": 0.5}, "beta_fast must be at least beta_slow, got 0.5 and 1"),
        ("rope_yarn", {"beta_fast": 0.0}, "beta_fast must be a number from 1e-06"),
        ("rope_yarn", {"truncate": 1}, "truncate must be true or false"),
        ("rope_yarn_paper", {"beta_fast": 1.0}, "beta_fast must be greater than beta_slow"),
        ("rope_llama3", {"low_freq_factor": 4.0}, "high_freq_factor must be greater than low_freq"),
        ("rope_llama3", {"trained_length": 1}, "trained_length must be a whole number from 2"),
        ("rope_longrope", {"dim": 8, "long_factor": (1.0, 2.0)}, "each of the 4 pairs, .* got 2"),
        ("rope_longrope", {"short_factor": (0.0,)}, "short_factor must be 1 to 32,768 numbers"),
        ("rope_longrope", {"short_factor": [1.0]}, "short_factor must be"),
        ("rope_proportional", {"partial_rotary_factor": 1.1}, "partial_rotary_factor"),
        ("rope_sections", {"dim": 8, "sections": (1, 2)}, "sum to the 4 pairs, got 3"),
        ("rope_sections", {"dim": 8, "sections": (1.0, 3.0)}, "whole numbers"),
        ("rope_sections", {"dim": 8, "sections": (1, 3), "interleaved": True}, r"got \[2, 2\]"),
        ("rope_dynamic", {"length": -1}, "RopeDynamicConfig.length"),
    ],
)
@pytest.mark.usefixtures("no_shape_checks")
def test_impossible_scalings_are_refused_by_name(
    kind: str, values: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        SCHEMES[kind](**values)


@pytest.mark.usefixtures("no_shape_checks")
def test_what_is_no_rope_has_no_frequencies() -> None:
    for call, said in (
        (lambda: rope_frequencies(SCHEMES["alibi"]()), "config must be"),
        (lambda: rope_frequencies(RopeConfig(), mode="float16"), "mode must be"),
        (lambda: rope_frequencies(RopeConfig(), length=0), "length must be"),
    ):
        with pytest.raises(SchemeArgumentError, match=said):
            call()


@pytest.mark.parametrize(
    "changes",
    [
        {"dim": 2, "heads": 1},
        {"dim": 128, "heads": 64},
        {"train_length": 1},
        {"base": 1e12, "train_length": 1_048_576},
        {"base": 2.0, "length": 2},
        {"dim": 4_096, "equal_width": True},
    ],
)
def test_no_setting_is_too_odd_for_the_defaults(changes: dict[str, Any]) -> None:
    setting = Setting(**changes)
    for kind in ROPE_SCALINGS:
        config = setting.config(kind)
        inv_freq, scale = rope_frequencies(config)  # type: ignore[arg-type]
        assert bool((inv_freq >= 0).all())
        assert 1 <= scale < 10


@given(st.sampled_from(sorted(OWN)), st.data())
def test_odd_values_make_a_config_or_a_named_error(kind: str, data: st.DataObject) -> None:
    names = [field.name for field in dataclasses.fields(SCHEMES[kind])][1:]
    odd: Any = st.sampled_from(
        [0, 1, 2, 3, -1, 0.5, 7, 10**9, 1e-9, math.inf, math.nan, (), (1.0,), (2, 2), True, "half"]
    )
    values = data.draw(st.dictionaries(st.sampled_from(names), odd, max_size=4))
    try:
        config = _made(kind, values)
    except PosencError as error:
        said = str(error)
    else:
        said = ""
        inv_freq, scale = rope_frequencies(config)
        assert bool(inv_freq.isfinite().all())
        assert math.isfinite(scale)
    assert "\n" not in said


def _made(kind: str, values: dict[str, Any]) -> Any:
    import jaxtyping

    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        return SCHEMES[kind](**values)
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


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
