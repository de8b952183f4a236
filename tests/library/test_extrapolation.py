"""Wavelengths, and what a formula gives past the training length: papers' numbers and plain loops."""

import math

import pytest
import torch
from mpmath import mp, mpf

from posenc import Request
from posenc.analysis import (
    base_bound_curve,
    critical_dimension,
    expand_curve,
    first_negative_offset,
    kernel_past,
    nearest_trained_distance,
    scheme_kernel_past,
    spectrum,
)
from tests.library.configs import config_of
from tests.library.small_tables import ladder, noise
from tests.library.tensors import assert_close

mp.dps = 40


def test_wavelengths_and_turns_are_those_of_the_frequencies() -> None:
    short = spectrum(ladder(8), 1)
    assert_close(short.wavelengths, [2 * math.pi * 10**m for m in range(4)], atol=0, rtol=1e-15)
    # The slowest stop short of the 2 pi 10,000 of the paper's text.
    for width, slowest in ((512, 60_611), (64, 47_117)):
        assert round(spectrum(ladder(width), 1).wavelengths[-1].item()) == slowest
    wide = spectrum(ladder(512), 10_000)
    assert (wide.under_one_radian, wide.under_quarter_turn, wide.full_turn_pairs) == (0, 12, 205)
    quarters = torch.tensor([2 * math.pi, math.pi / 2, math.pi / 8, 0.0], dtype=torch.float64)
    short = spectrum(quarters, 4)
    assert_close(short.turns, [4.0, 1.0, 0.25, 0.0], atol=1e-15)
    assert_close(short.wavelengths, [1.0, 4.0, 16.0, math.inf], atol=4e-15)
    assert (short.under_one_radian, short.under_quarter_turn) == (1, 1)
    assert short.full_turn_pairs == 2  # exactly one turn counts


def test_kernel_past_training_is_compared_with_the_range_it_had() -> None:
    past = torch.tensor([5.0, 3.0, 4.0, 3.5, 2.0, 6.0], dtype=torch.float64)
    curve = torch.cat([past.flip(0), torch.full((5,), -100.0, dtype=torch.float64)])
    found = kernel_past(curve, 3)
    assert found.values.tolist() == past.tolist()
    assert (found.outside, found.first_outside) == (2, 4)
    inside = kernel_past(curve, 6)
    assert (inside.outside, inside.first_outside) == (0, None)
    # One ALiBi head of slope 1/2: far below rounding of K(0) = 1, and exact to its own size.
    offsets = torch.arange(-255, 256, dtype=torch.float64)
    assert kernel_past(torch.exp(-offsets.abs() / 2), 128).outside == 128


def test_ninety_two_dimensions_of_llama_2_saw_a_full_period() -> None:
    found = spectrum(ladder(128, 10_000.0), 4_096)
    assert critical_dimension(128, 10_000.0, 4_096) == 92
    assert (found.full_turn_pairs, len(found.turns)) == (46, 64)
    assert found.turns[0].item() == pytest.approx(4_096 / (2 * math.pi))
    for length, dimension in ((1, 0), (6, 0), (7, 2), (10**7, 128)):
        assert critical_dimension(128, 10_000.0, length) == dimension


@pytest.mark.parametrize(
    ("width", "base", "length", "offsets", "tolerance"),
    [(12, 500.0, 150, range(150), 4e-15),
     (128, 1e4, 132_000, (1_023, 1_024, 65_535, 65_536, 65_537, 131_072, 131_999), 5e-14)],
)  # fmt: skip
def test_base_bound_is_the_sum_of_cosines_across_chunks(
    width: int, base: float, length: int, offsets: range, tolerance: float
) -> None:
    inv_freq = ladder(width, base)
    found = base_bound_curve(inv_freq, length)
    assert (len(found), found[0].item()) == (length, width / 2)
    for offset in offsets:
        exact = mp.fsum(mp.cos(offset * mpf(theta)) for theta in inv_freq.tolist())
        assert abs(mpf(found[offset].item()) - exact) < tolerance


@pytest.mark.parametrize(("base", "offset"), [(1e4, 1_707), (5e5, 18_438), (2.7e4, 4_079)])
def test_first_negative_offset_at_width_128_is_as_published(base: float, offset: int) -> None:
    inv_freq = ladder(128, base)
    assert first_negative_offset(inv_freq, 2**16) == offset
    assert first_negative_offset(inv_freq, offset + 1) == offset
    assert first_negative_offset(inv_freq, offset) is None


def test_nearest_seen_positions_match_a_loop() -> None:
    rows = noise(30, 5)
    values = rows.tolist()
    gaps = [[math.dist(values[p], values[s]) for s in range(12)] for p in range(12, 30)]
    relative = [min(gap) / math.hypot(*row) for gap, row in zip(gaps, values[12:], strict=True)]
    found = nearest_trained_distance(12, kernel=rows @ rows.T)
    assert found.positions.tolist() == [*range(12, 30)]
    assert found.distance.tolist() == pytest.approx([*map(min, gaps)], rel=1e-12)
    assert found.relative.tolist() == pytest.approx(relative, rel=1e-12)


def test_nearest_seen_from_a_curve_is_that_of_its_kernel() -> None:
    offsets = torch.arange(-24, 25, dtype=torch.float64)
    curve = torch.cos(offsets) + torch.cos(0.1 * offsets) + 0.01 * offsets
    from_curve = nearest_trained_distance(9, curve=curve)
    from_kernel = nearest_trained_distance(9, kernel=expand_curve(curve))
    assert from_curve.positions.tolist() == from_kernel.positions.tolist() == [*range(9, 25)]
    assert_close(from_curve.distance, from_kernel.distance, rtol=1e-7, atol=1e-7)
    assert_close(from_curve.relative, from_curve.distance / 2**0.5, rtol=1e-7)


def test_missing_rows_are_never_nearest_and_have_no_distance() -> None:
    rows = noise(10, 3)
    rows[2] = rows[8] = math.nan
    kernel = rows @ rows.T
    found = nearest_trained_distance(6, kernel=kernel)
    assert found.distance.isnan().tolist() == [False, False, True, False]
    present = [i for i in range(10) if i not in (2, 8)]
    others = nearest_trained_distance(5, kernel=kernel[present][:, present]).distance
    assert torch.equal(found.distance[[0, 1, 3]], others)
    for nothing_past in (
        nearest_trained_distance(5, kernel=torch.eye(5)), nearest_trained_distance(5, curve=torch.ones(9)),
    ):  # fmt: skip
        assert len(nothing_past.positions) == len(nothing_past.distance) == 0


def test_similarity_past_training_is_exact_for_scaled_frequencies() -> None:
    request = Request(config=config_of("rope_yarn", dim=32), length=1_000_000)
    found = scheme_kernel_past(request, 4_096)
    assert (found.outside, len(found.relative)) == (None, 0)  # distances are sampled
    frequencies = request.build().frequencies
    assert frequencies is not None
    thetas = [mpf(theta) for theta in frequencies.inv_freq.tolist()]
    for index in (0, 700, -1):
        distance = found.distances[index].item()
        exact = mp.fsum(mp.cos(distance * theta) for theta in thetas) / len(thetas)
        assert abs(mpf(found.cosine[index].item()) - exact) < 1e-15
