"""Scalings of RoPE: every frequency is that of a plain loop in sixty digits."""

import dataclasses
import math
from collections.abc import Callable

import mpmath
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc import SCHEMES, rope_frequencies
from posenc.schemes.rope import RopeConfig
from tests.scaling_by_hand import by_hand
from tests.scaling_strategies import KINDS, OWN, configs, exact


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
