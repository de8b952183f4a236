"""What the formula says past the training length: papers' numbers, 40-digit sums, plain loops."""

import inspect
import math

import pytest
import torch
from mpmath import mp, mpf

from posenc import SchemeArgumentError
from posenc.analysis import (
    base_bound_curve,
    critical_dimension,
    expand_curve,
    extrapolation,
    first_negative_offset,
    kernel_past,
    long_term_decay_bound,
    nearest_seen_distance,
    phase_coverage,
)


def ladder(width: int, base: float) -> torch.Tensor:
    """Inverse frequencies from Python's own power, one at a time."""
    return torch.tensor([base ** (-2 * m / width) for m in range(width // 2)], dtype=torch.float64)


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def exact_bound(inv_freq: torch.Tensor, offset: int) -> mpf:
    mp.dps = 40
    return mp.fsum(mp.cos(offset * mpf(frequency)) for frequency in inv_freq.tolist())


def test_an_exponential_leaves_what_was_seen_however_small_it_is() -> None:
    """One ALiBi head of slope 1/2: far below rounding of K(0) = 1, and exact to its own size."""
    offsets = torch.arange(-255, 256, dtype=torch.float64)
    found = kernel_past(torch.exp(-offsets.abs() / 2), 128)
    assert (found.outside, found.first_outside) == (128, 128)
    assert kernel_past(torch.full((511,), 1e-30, dtype=torch.float64), 128).outside == 0


def test_ninety_two_dimensions_of_llama_2_saw_a_full_period() -> None:
    assert critical_dimension(128, 10_000.0, 4_096) == 92
    found = phase_coverage(ladder(128, 10_000.0), 4_096)
    assert found.full_turn_pairs == 46
    assert found.share == 46 / 64


@pytest.mark.parametrize(("length", "expected"), [(1, 0), (6, 0), (7, 2), (10**7, 128)])
def test_critical_dimension_stays_between_none_and_all(length: int, expected: int) -> None:
    assert critical_dimension(128, 10_000.0, length) == expected


def test_phase_coverage_is_the_share_of_a_turn_by_pair() -> None:
    found = phase_coverage(ladder(8, 10_000.0), 100)
    expected = [100 / (2 * math.pi) * 10.0**-m for m in range(4)]
    torch.testing.assert_close(found.turns, torch.tensor(expected, dtype=torch.float64))
    assert found.full_turn_pairs == 2
    assert found.share == 0.5
    exactly_one = phase_coverage(torch.tensor([math.pi / 2], dtype=torch.float64), 4)
    assert exactly_one.turns.tolist() == [1.0]
    assert exactly_one.full_turn_pairs == 1


def test_the_base_bound_is_the_sum_of_cosines() -> None:
    inv_freq = ladder(12, 500.0)
    found = base_bound_curve(inv_freq, 150)
    assert found[0].item() == 6.0
    for offset in range(150):
        assert abs(mpf(found[offset].item()) - exact_bound(inv_freq, offset)) < 4e-15


@pytest.mark.parametrize("offset", [1_023, 1_024, 65_535, 65_536, 65_537, 131_072, 199_999])
def test_the_base_bound_stays_exact_across_its_chunks(offset: int) -> None:
    inv_freq = ladder(128, 10_000.0)
    found = base_bound_curve(inv_freq, 200_000)
    assert len(found) == 200_000
    assert abs(mpf(found[offset].item()) - exact_bound(inv_freq, offset)) < 5e-14


@pytest.mark.parametrize(
    ("base", "offset"),
    [(1e4, 1_707), (5e5, 18_438), (1e6, 27_115), (2.7e4, 4_079), (4.9e6, 125_573)],
)
def test_first_negative_offsets_at_width_128_are_as_published(base: float, offset: int) -> None:
    inv_freq = ladder(128, base)
    assert first_negative_offset(inv_freq, 2**18) == offset
    assert first_negative_offset(inv_freq, offset + 1) == offset
    assert first_negative_offset(inv_freq, offset) is None


def test_a_bound_just_below_zero_is_negative() -> None:
    assert first_negative_offset(torch.tensor([math.pi / 2 + 1e-7], dtype=torch.float64), 9) == 1
    assert first_negative_offset(torch.tensor([math.pi / 2 - 1e-7], dtype=torch.float64), 9) == 2


@pytest.mark.parametrize(
    ("base", "length"), [(4_294, 1_024), (26_953, 4_096), (629_998, 32_768), (4.8692e6, 131_072)]
)
def test_the_smallest_passing_bases_pass(base: float, length: int) -> None:
    assert first_negative_offset(ladder(128, base), length) is None


def test_long_term_decay_bound_is_the_mean_size_of_partial_sums() -> None:
    inv_freq = ladder(10, 100.0)
    found = long_term_decay_bound(inv_freq, 40)
    mp.dps = 40
    for offset in range(40):
        terms = [mp.expj(offset * mpf(frequency)) for frequency in inv_freq.tolist()]
        expected = mp.fsum(abs(mp.fsum(terms[:i])) for i in range(1, 6)) / 5
        assert abs(mpf(found[offset].item()) - expected) < 2e-15


def test_long_term_decay_bound_is_above_the_score_and_does_not_depend_on_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inv_freq = ladder(128, 10_000.0)
    bound = long_term_decay_bound(inv_freq, 1_000)
    score = 2 / 128 * base_bound_curve(inv_freq, 1_000)
    assert bound[0].item() == 32.5
    assert (bound >= score.abs()).all()
    monkeypatch.setattr(extrapolation, "_BLOCK_ELEMENTS", 64 * 7)
    torch.testing.assert_close(long_term_decay_bound(inv_freq, 1_000), bound, rtol=1e-14, atol=0)


def test_a_kernel_past_the_training_length_is_set_against_the_range_it_had() -> None:
    past = torch.tensor([5.0, 3.0, 4.0, 3.5, 2.0, 6.0], dtype=torch.float64)
    curve = torch.cat([past.flip(0), torch.full((5,), -100.0, dtype=torch.float64)])
    found = kernel_past(curve, 3)
    assert torch.equal(found.values, past)
    assert (found.seen_low, found.seen_high) == (3.0, 5.0)
    assert (found.outside, found.first_outside) == (2, 4)
    inside = kernel_past(curve, 6)
    assert (inside.outside, inside.first_outside) == (0, None)


def brute_nearest(rows: torch.Tensor, length: int) -> tuple[list[int], list[float]]:
    values = rows.tolist()
    nearest, distance = [], []
    for p in range(length, len(values)):
        gaps = [math.dist(values[p], values[s]) for s in range(length)]
        distance.append(min(gaps))
        nearest.append(gaps.index(min(gaps)))
    return nearest, distance


@pytest.mark.parametrize("block", [1, 37, 2**21])
def test_nearest_seen_positions_are_those_of_a_loop(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extrapolation, "_BLOCK_ELEMENTS", block)
    rows = noise(30, 5)
    nearest, distance = brute_nearest(rows, 12)
    for found in (
        nearest_seen_distance(12, vectors=rows),
        nearest_seen_distance(12, kernel=rows @ rows.T),
    ):
        assert found.positions.tolist() == list(range(12, 30))
        assert found.nearest.tolist() == nearest
        assert found.distance.tolist() == pytest.approx(distance, rel=1e-12)
        relative = [
            d / math.hypot(*row) for d, row in zip(distance, rows[12:].tolist(), strict=True)
        ]
        assert found.relative.tolist() == pytest.approx(relative, rel=1e-12)


def test_nearest_seen_from_a_curve_is_that_of_its_kernel() -> None:
    offsets = torch.arange(-24, 25, dtype=torch.float64)
    curve = torch.cos(offsets) + torch.cos(0.1 * offsets) + 0.01 * offsets
    from_curve = nearest_seen_distance(9, curve=curve)
    from_kernel = nearest_seen_distance(9, kernel=expand_curve(curve))
    assert from_curve.nearest.tolist() == from_kernel.nearest.tolist()
    torch.testing.assert_close(from_curve.distance, from_kernel.distance, rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(from_curve.relative, from_curve.distance / 2**0.5)


def test_vectors_resolve_distances_that_a_kernel_loses() -> None:
    rows = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1e-12]], dtype=torch.float64)
    assert nearest_seen_distance(2, vectors=rows).distance.tolist() == [1e-12]
    assert nearest_seen_distance(2, kernel=rows @ rows.T).distance.item() < 1e-7


def test_missing_rows_are_nobodys_nearest_and_have_no_distance() -> None:
    rows = noise(10, 3)
    rows[2] = math.nan
    rows[8] = math.nan
    for found in (
        nearest_seen_distance(6, vectors=rows),
        nearest_seen_distance(6, kernel=rows @ rows.T),
    ):
        assert found.distance.isnan().tolist() == [False, False, True, False]
        assert found.nearest[2].item() == -1
        assert 2 not in found.nearest.tolist()


def test_nothing_lies_past_a_training_length_that_covers_all() -> None:
    found = nearest_seen_distance(5, vectors=noise(5, 2))
    assert len(found.positions) == len(found.distance) == len(found.nearest) == 0


def test_out_of_range_arguments_are_refused_with_their_range() -> None:
    inv_freq = ladder(8, 100.0)
    rows = noise(5, 2)
    with pytest.raises(
        SchemeArgumentError, match="train_length must be a whole number from 1 to 5"
    ):
        nearest_seen_distance(6, vectors=rows)
    with pytest.raises(SchemeArgumentError, match="exactly one of vectors, kernel and curve"):
        nearest_seen_distance(2, vectors=rows, kernel=rows @ rows.T)
    with pytest.raises(SchemeArgumentError, match="exactly one of kernel and curve"):
        nearest_seen_distance(2)
    with pytest.raises(SchemeArgumentError, match="train_length must be"):
        kernel_past(torch.ones(9, dtype=torch.float64), 0)
    with pytest.raises(SchemeArgumentError, match="limit must be"):
        first_negative_offset(inv_freq, 0)
    with pytest.raises(SchemeArgumentError, match="length must be"):
        base_bound_curve(inv_freq, 2**27 + 1)
    with pytest.raises(SchemeArgumentError, match="dim must be even"):
        critical_dimension(127, 10_000.0, 4_096)
    with pytest.raises(SchemeArgumentError, match="base must be a number greater than 1"):
        critical_dimension(128, 1.0, 4_096)
    with pytest.raises(SchemeArgumentError, match="length must be"):
        critical_dimension(128, 10_000.0, 0)
    with pytest.raises(SchemeArgumentError, match="vectors must be a tensor of real numbers"):
        inspect.unwrap(nearest_seen_distance)(2, vectors=[[1.0]])
