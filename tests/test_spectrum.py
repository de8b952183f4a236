"""Wavelengths and accurate angles: against the paper's numbers and 40-digit arithmetic."""

import inspect
import math

import pytest
import torch
from mpmath import mp, mpf

from posenc import SchemeArgumentError
from posenc.analysis import spectrum
from posenc.analysis.spectrum import cos_sin


def ladder(width: int, base: float) -> torch.Tensor:
    """Inverse frequencies from Python's own power, one at a time."""
    return torch.tensor([base ** (-2 * m / width) for m in range(width // 2)], dtype=torch.float64)


def test_wavelengths_of_the_worked_example_are_powers_of_ten_turns() -> None:
    found = spectrum(ladder(8, 10_000.0))
    expected = [2 * math.pi * 10**m for m in range(4)]
    torch.testing.assert_close(
        found.wavelengths, torch.tensor(expected, dtype=torch.float64), rtol=1e-15, atol=0
    )
    assert found.turns is None
    assert found.over_full_turn is None


@pytest.mark.parametrize(("width", "slowest"), [(512, 60_611), (64, 47_117)])
def test_slowest_wavelength_stops_short_of_the_papers_text(width: int, slowest: int) -> None:
    assert round(spectrum(ladder(width, 10_000.0)).wavelengths[-1].item()) == slowest


def test_no_pair_stays_nearly_linear_below_ten_thousand_positions() -> None:
    found = spectrum(ladder(512, 10_000.0), 10_000)
    assert found.under_one_radian == 0
    assert found.under_quarter_turn == 12
    assert found.over_full_turn == 205


def test_turns_count_whole_circles_within_the_length() -> None:
    quarter = torch.tensor([2 * math.pi, math.pi / 2, math.pi / 8, 0.0], dtype=torch.float64)
    found = spectrum(quarter, 4)
    assert found.turns is not None
    assert found.turns.tolist() == [4.0, 1.0, 0.25, 0.0]
    assert found.wavelengths.tolist() == [1.0, 4.0, 16.0, math.inf]
    assert (found.under_one_radian, found.under_quarter_turn, found.over_full_turn) == (1, 1, 1)


@pytest.mark.parametrize(
    ("position", "tolerance"),
    [
        (0, 0),
        (1, 2e-16),
        (4095, 3e-16),
        (2**20 - 1, 3e-16),
        (411557987, 4e-15),
        (2**31 - 1, 2e-14),
        (-(2**31) + 1, 2e-14),
    ],
)
def test_angles_are_exact_to_rounding_at_every_position(position: int, tolerance: float) -> None:
    inv_freq = ladder(128, 500_000.0)
    cos, sin = cos_sin(torch.tensor([position]), inv_freq)
    mp.dps = 40
    for m, frequency in enumerate(inv_freq.tolist()):
        angle = position * mpf(frequency)
        assert abs(mpf(cos[0, m].item()) - mp.cos(angle)) <= tolerance
        assert abs(mpf(sin[0, m].item()) - mp.sin(angle)) <= tolerance


@pytest.mark.parametrize("bad", [[-1.0], [math.nan], [math.inf]])
def test_frequencies_that_turn_backwards_or_not_at_all_are_refused(bad: list[float]) -> None:
    with pytest.raises(SchemeArgumentError, match="inv_freq must be finite and not negative"):
        spectrum(torch.tensor(bad, dtype=torch.float64))


@pytest.mark.parametrize("bad", [0, -1, 2**31 + 1])
def test_a_length_without_positions_is_refused(bad: int) -> None:
    with pytest.raises(SchemeArgumentError, match="length must be a whole number from 1"):
        spectrum(ladder(8, 10_000.0), bad)


@pytest.mark.parametrize(
    "bad",
    [torch.zeros(0), torch.zeros(2, 2), torch.zeros(2, dtype=torch.complex64), [1.0]],
)
def test_anything_but_one_row_of_real_numbers_is_refused(bad: torch.Tensor) -> None:
    with pytest.raises(SchemeArgumentError, match="inv_freq must be"):
        inspect.unwrap(spectrum)(bad)
