"""Scalings of RoPE: what none can mean is refused by name, and odd values never end in anything else."""

import dataclasses
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc import (
    SCHEMES,
    ConfigError,
    PosencError,
    SchemeArgumentError,
    Setting,
    fields,
    rope_frequencies,
)
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling import ROPE_SCALINGS
from posenc.schemes.rope_scaling.longrope import RopeLongConfig
from posenc.schemes.rope_scaling.yarn import RopeYarnConfig
from posenc.schemes.rope_scaling.yarn_paper import RopeYarnPaperConfig
from tests.scaling_strategies import OWN, exact


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
