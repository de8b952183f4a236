"""One matrix per offset: the claim holds and fails where it should, by closed form and by fit."""

import inspect
import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posenc import SchemeArgumentError
from posenc.analysis import (
    Verdict,
    block_rotation,
    composition_error,
    expand_curve,
    expanding_shift,
    fit_dense,
    fit_kernel,
    fit_pairs,
    linear_in_offset,
    offset_only,
    verdict,
    verify_map,
)
from posenc.offset_maps import corner
from tests.small_tables import alibi_mean_curve, ladder, noise, table


def alibi_vectors(length: int, slope: float) -> torch.Tensor:
    """phi(0) = e_0, phi(i) = r phi(i-1) + sqrt(1 - r^2) e_i with r = exp(-slope), row by row."""
    ratio = math.exp(-slope)
    rows = np.zeros((length, length))
    rows[0, 0] = 1.0
    for i in range(1, length):
        rows[i] = ratio * rows[i - 1]
        rows[i, i] = math.sqrt(1 - ratio**2)
    return torch.from_numpy(rows)


# One matrix per offset: the closed form.


def test_the_papers_matrix_for_one_pair() -> None:
    angle = 0.5 * 3
    matrix = block_rotation(torch.tensor([0.5], dtype=torch.float64), 3)
    expected = [
        [math.cos(angle), math.sin(angle)],
        [-math.sin(angle), math.cos(angle)],
    ]
    torch.testing.assert_close(
        matrix, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-16
    )
    rotary = block_rotation(torch.tensor([0.5], dtype=torch.float64), 3, first="cos")
    torch.testing.assert_close(rotary, matrix.T, rtol=0, atol=0)


@given(
    width=st.sampled_from([2, 6, 64]),
    base=st.sampled_from([2.0, 500.0, 1e4, 1e6]),
    offset=st.integers(-60, 60),
    layout=st.sampled_from(["interleaved", "half"]),
    first=st.sampled_from(["sin", "cos"]),
    tail=st.sampled_from([0, 3]),
)
def test_the_closed_form_moves_every_position_by_its_offset(
    width: int, base: float, offset: int, layout: str, first: str, tail: int
) -> None:
    rows = table(80, width, base)
    sin, cos = rows[:, 0::2], rows[:, 1::2]
    one, two = (sin, cos) if first == "sin" else (cos, sin)
    vectors = (
        torch.cat([one, two], 1) if layout == "half" else torch.stack([one, two], 2).flatten(1)
    )
    vectors = torch.cat([vectors, torch.full((80, tail), 0.3, dtype=torch.float64)], 1)
    matrix = block_rotation(ladder(width, base), offset, layout=layout, first=first, tail=tail)
    assert verify_map(vectors, matrix, offset) < 1e-13
    other = block_rotation(ladder(width, base), offset + 1, layout=layout, first=first, tail=tail)
    assert verify_map(vectors, other, offset) > 0.01
    assert composition_error(matrix, matrix.T, torch.eye(len(matrix), dtype=torch.float64)) < 1e-15


@pytest.mark.parametrize("wrong", [{"layout": "half"}, {"first": "cos"}])
def test_a_matrix_of_the_wrong_layout_or_direction_shows(wrong: dict[str, str]) -> None:
    rows = table(200, 64)
    assert verify_map(rows, block_rotation(ladder(64), 5), 5) < 1e-13
    assert verify_map(rows, block_rotation(ladder(64), 5, **wrong), 5) > 0.3


def test_matrices_of_two_offsets_compose_to_that_of_their_sum() -> None:
    inv_freq = ladder(128)
    one, two, both = (block_rotation(inv_freq, k) for k in (700, 324, 1_024))
    assert composition_error(one, two, both) < 1e-15
    assert composition_error(one, one, both) > 0.1


def test_the_error_of_a_map_is_the_ratio_of_frobenius_norms() -> None:
    rows = noise(9, 3)
    matrix = noise(3, 3, seed=1)
    gaps = targets = 0.0
    for i in range(7):
        predicted = [
            sum(matrix[a, b].item() * rows[i, b].item() for b in range(3)) for a in range(3)
        ]
        gaps += sum((rows[i + 2, a].item() - predicted[a]) ** 2 for a in range(3))
        targets += sum(rows[i + 2, a].item() ** 2 for a in range(3))
    assert verify_map(rows, matrix, 2) == pytest.approx(math.sqrt(gaps / targets), rel=1e-13)
    assert verify_map(rows, torch.zeros(3, 3, dtype=torch.float64), 2) == 1.0


@pytest.mark.parametrize("offset", [0, 1, 7])
def test_alibis_shift_is_exact_and_adds_a_dimension_per_step(offset: int) -> None:
    vectors = alibi_vectors(40, 0.25)
    shift = expanding_shift(math.exp(-0.25), 40 - offset, offset)
    assert shift.shape == (40, 40 - offset)
    assert verify_map(vectors, shift, offset) < 1e-15


def test_alibis_shifts_compose_and_a_wrong_ratio_shows() -> None:
    ratio = math.exp(-1 / 16)
    three, four = expanding_shift(ratio, 34, 3), expanding_shift(ratio, 30, 4)
    assert composition_error(three, four, expanding_shift(ratio, 30, 7)) < 1e-15
    single = expanding_shift(ratio, 30, 1)
    assert single[:2, 0].tolist() == [ratio, math.sqrt((1 - ratio) * (1 + ratio))]
    assert verify_map(alibi_vectors(31, 0.25), single, 1) > 0.05


def test_a_matrix_is_never_judged_on_rows_it_does_not_reach() -> None:
    rows = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [2.0, 0.0]], dtype=torch.float64)
    double = torch.tensor([[2.0]], dtype=torch.float64)
    assert verify_map(rows, double, 1) == 0.0
    with pytest.raises(SchemeArgumentError, match="fits the matrix of shape"):
        verify_map(rows[:3], double, 1)


def test_shapes_that_do_not_compose_are_refused() -> None:
    one = torch.ones(2, 3, dtype=torch.float64)
    with pytest.raises(SchemeArgumentError, match="must compose"):
        inspect.unwrap(composition_error)(one, one, one)
    with pytest.raises(SchemeArgumentError, match="must fit vectors of width 2"):
        verify_map(noise(5, 2), torch.eye(3, dtype=torch.float64), 1)
    with pytest.raises(SchemeArgumentError, match="no pair of finite positions 5 apart"):
        verify_map(noise(5, 2), torch.eye(2, dtype=torch.float64), 5)


# One matrix per offset: wider than 512 features, where the matrix is stored sparsely.


def turned(rows: torch.Tensor, inv_freq: torch.Tensor, offset: int) -> torch.Tensor:
    """Interleaved (sin, cos) rows moved by an offset, pair by pair, without any matrix."""
    moved = rows.clone()
    for m, w in enumerate(inv_freq.tolist()):
        sin, cos = rows[:, 2 * m], rows[:, 2 * m + 1]
        moved[:, 2 * m] = math.cos(w * offset) * sin + math.sin(w * offset) * cos
        moved[:, 2 * m + 1] = math.cos(w * offset) * cos - math.sin(w * offset) * sin
    return moved


@pytest.mark.parametrize(("width", "tail"), [(512, 0), (514, 0), (512, 2), (2_048, 5)])
@pytest.mark.parametrize("offset", [1, 13, -7])
def test_a_wide_closed_form_moves_every_position_by_its_offset(
    width: int, tail: int, offset: int
) -> None:
    rows = torch.cat([table(40, width), torch.full((40, tail), 0.3, dtype=torch.float64)], 1)
    matrix = block_rotation(ladder(width), offset, tail=tail)
    assert matrix.shape == (width + tail, width + tail)
    assert matrix.is_sparse == (width + tail > 512)
    expected = turned(rows, ladder(width), offset)
    torch.testing.assert_close((matrix @ rows.T).T, expected, rtol=0, atol=1e-15)
    assert verify_map(rows, matrix, offset) < 1e-13
    other = block_rotation(ladder(width), offset + 1, tail=tail)
    assert verify_map(rows, other, offset) > 0.01
    assert verify_map(rows, matrix.to_dense(), offset) == pytest.approx(
        verify_map(rows, matrix, offset), rel=1e-3
    )


@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("first", ["sin", "cos"])
def test_a_wide_matrix_holds_the_entries_of_its_pairs(layout: str, first: str) -> None:
    inv_freq = ladder(1_028)
    matrix = block_rotation(inv_freq, 5, layout=layout, first=first, tail=1).to_dense()
    expected = torch.zeros(1_029, 1_029, dtype=torch.float64)
    expected[1_028, 1_028] = 1.0
    for m, w in enumerate(inv_freq.tolist()):
        one, two = (2 * m, 2 * m + 1) if layout == "interleaved" else (m, m + 514)
        expected[one, one] = expected[two, two] = math.cos(5 * w)
        expected[one, two] = math.sin(5 * w) if first == "sin" else -math.sin(5 * w)
        expected[two, one] = -expected[one, two]
    torch.testing.assert_close(matrix, expected, rtol=0, atol=1e-15)


def test_wide_matrices_compose_in_any_mixture_of_dense_and_sparse() -> None:
    inv_freq = ladder(1_026)
    sparse = [block_rotation(inv_freq, k) for k in (700, 324, 1_024)]
    dense = [matrix.to_dense() for matrix in sparse]
    for mixture in itertools.product(*zip(sparse, dense, strict=True)):
        assert composition_error(*mixture) < 1e-15
    gap = (dense[0] @ dense[0] - dense[2]).norm() / dense[2].norm()
    for one, _, both in (sparse, dense):
        assert composition_error(one, one, both) == pytest.approx(gap.item(), rel=1e-12)
    assert gap > 0.1
    assert composition_error(sparse[0], sparse[0].T, torch.eye(1_026, dtype=torch.float64)) < 1e-15


@pytest.mark.parametrize("width", [64, 512, 514])
@pytest.mark.parametrize("size", [1, 32, 5_000])
def test_the_corner_of_a_matrix_is_its_first_rows_and_columns(width: int, size: int) -> None:
    matrix = block_rotation(ladder(width), 3, layout="half")
    found = corner(matrix, size)
    assert not found.is_sparse
    assert torch.equal(found, matrix.to_dense()[:size, :size])
    shift = expanding_shift(0.5, 40, 2)
    assert torch.equal(corner(shift, size), shift[:size, :size])


def test_the_pair_fit_of_a_wide_table_finds_the_closed_form() -> None:
    tail = torch.full((60, 1), 0.5, dtype=torch.float64)
    fit = fit_pairs(torch.cat([table(60, 1_026), tail], 1), 4, tail=1, train_length=30)
    expected = block_rotation(ladder(1_026), 4, tail=1)
    torch.testing.assert_close(fit.matrix.to_dense(), expected.to_dense(), rtol=0, atol=3e-15)
    assert fit.matrix.is_sparse
    assert (fit.positions, fit.fitted, fit.dimension) == (30, 13, 1_027)
    assert max(fit.in_sample_error, fit.held_out_error, fit.later_error) < 1e-13
    assert fit.control_held_out == pytest.approx(1.0, abs=0.1)
    assert fit.control_later == pytest.approx(1.0, abs=0.1)


# One matrix per offset: fitted, with held-out positions, later positions and a random control.


@pytest.mark.parametrize(("layout", "first"), [("interleaved", "sin"), ("half", "cos")])
def test_the_pair_fit_finds_the_closed_form(layout: str, first: str) -> None:
    rows = table(600, 64)
    sin, cos = rows[:, 0::2], rows[:, 1::2]
    vectors = torch.cat([cos, sin], 1) if layout == "half" else rows
    fit = fit_pairs(vectors, 9, layout=layout, first=first, train_length=300)
    expected = block_rotation(ladder(64), 9, layout=layout, first=first)
    torch.testing.assert_close(fit.matrix, expected, rtol=0, atol=3e-15)
    assert fit.positions == 300
    assert fit.fitted == 146
    assert max(fit.in_sample_error, fit.held_out_error, fit.later_error) < 1e-13
    assert fit.control_held_out == pytest.approx(1.0, abs=0.02)
    assert fit.control_later == pytest.approx(1.0, abs=0.02)


def test_the_pair_fit_keeps_an_untouched_tail() -> None:
    tail = torch.full((50, 2), 0.5, dtype=torch.float64)
    fit = fit_pairs(torch.cat([table(50, 8), tail], 1), 4, tail=2)
    torch.testing.assert_close(fit.matrix, block_rotation(ladder(8), 4, tail=2), rtol=0, atol=1e-14)
    assert fit.later_error is None
    assert fit.control_later is None


def test_the_pair_fit_of_a_random_table_fails() -> None:
    fit = fit_pairs(noise(400, 32), 3)
    assert fit.held_out_error == pytest.approx(1.0, abs=0.02)


def test_the_dense_fit_interpolates_but_does_not_identify_the_matrix() -> None:
    fit = fit_dense(table(2_048, 64), 1, train_length=1_024)
    assert (fit.positions, fit.fitted, fit.dimension, fit.rank) == (1_024, 512, 64, 44)
    assert fit.held_out_error < 1e-13
    assert 0.003 < fit.later_error < 0.03
    assert fit.control_held_out == pytest.approx(math.sqrt(1 + 64 / (512 - 65)), abs=0.02)
    assert fit.control_later == pytest.approx(math.sqrt(1 + 64 / (512 - 65)), abs=0.02)
    later = table(2_048, 64)[1_024:]
    gap = later[1:] - later[:-1] @ fit.matrix.T
    assert fit.later_error == pytest.approx((gap.norm() / later[1:].norm()).item(), rel=1e-12)


def test_the_wider_the_table_the_less_a_dense_fit_says_about_later_positions() -> None:
    fit = fit_dense(table(1_024, 128), 1, train_length=512)
    assert fit.held_out_error < 1e-12
    assert fit.later_error > 0.2
    assert fit.rank < 70


def test_the_numerical_rank_of_a_wide_table_is_far_below_its_width() -> None:
    assert int(torch.linalg.matrix_rank(table(1_024, 512))) == 170
    fit = fit_dense(table(257, 64), 1)
    assert fit.rank == int(np.linalg.matrix_rank(table(257, 64).numpy()))


def test_the_dense_fit_is_the_minimum_norm_least_squares_solution() -> None:
    rows = noise(60, 5)
    fit = fit_dense(rows, 2, seed=7)
    order = torch.randperm(58, generator=torch.Generator().manual_seed(7))
    fitted, held = order[:29], order[29:]
    matrix = np.linalg.lstsq(rows[fitted].numpy(), rows[fitted + 2].numpy(), rcond=None)[0].T
    torch.testing.assert_close(fit.matrix, torch.from_numpy(matrix), rtol=0, atol=1e-13)
    gap = rows[held + 2] - rows[held] @ torch.from_numpy(matrix).T
    assert fit.held_out_error == pytest.approx((gap.norm() / rows[held + 2].norm()).item())


def test_a_random_table_has_no_matrix_and_its_fit_looks_better_in_sample() -> None:
    fit = fit_dense(noise(1_024, 64), 1)
    assert fit.in_sample_error < 0.96
    assert fit.held_out_error == pytest.approx(math.sqrt(1 + 64 / (512 - 65)), abs=0.02)


def test_a_dense_fit_with_too_few_positions_says_how_many_it_needs() -> None:
    fit_dense(noise(64, 16), 1)
    with pytest.raises(
        SchemeArgumentError, match="width 16 at offset 1 needs at least 64 positions"
    ):
        fit_dense(noise(63, 16), 1)
    with pytest.raises(SchemeArgumentError, match="needs at least 74 positions, got 64"):
        fit_dense(noise(64, 16), 40)
    with pytest.raises(SchemeArgumentError, match="got 50"):
        fit_dense(noise(64, 16), 1, train_length=50)


def test_alibis_seen_positions_do_not_predict_later_ones() -> None:
    fit = fit_kernel(expand_curve(alibi_mean_curve(1_024)), 1, train_length=512)
    assert fit.rank == fit.fitted == fit.dimension == 256
    assert fit.in_sample_error < 1e-7
    assert fit.held_out_error == pytest.approx(0.42, abs=0.01)
    assert fit.later_error > 0.97
    assert fit.matrix is None


@pytest.mark.parametrize(("length", "width"), [(80, 6), (24, 30)])
def test_the_fit_through_a_kernel_is_the_fit_of_its_vectors(length: int, width: int) -> None:
    rows = noise(length + 20, width)
    fit = fit_kernel(rows @ rows.T, 2, train_length=length, seed=5)
    order = torch.randperm(length - 2, generator=torch.Generator().manual_seed(5))
    half = (length - 1) // 2
    fitted, held = order[:half], order[half:]
    matrix = np.linalg.lstsq(rows[fitted].numpy(), rows[fitted + 2].numpy(), rcond=None)[0].T
    later = torch.arange(length, length + 18)
    for part, error in ((held, fit.held_out_error), (later, fit.later_error)):
        gap = rows[part + 2] - rows[part] @ torch.from_numpy(matrix).T
        assert error == pytest.approx((gap.norm() / rows[part + 2].norm()).item(), rel=1e-6)
    assert fit.rank == min(half, width)


@pytest.mark.parametrize("fit", [fit_pairs, fit_dense])
def test_fits_are_settled_by_their_seed(fit: Callable[..., object]) -> None:
    rows = noise(80, 4)
    one, same, other = (
        fit(rows, 1, seed=seed) for seed in (3, torch.Generator().manual_seed(3), 4)
    )
    for name in ("in_sample_error", "held_out_error", "control_held_out"):
        assert getattr(one, name) == getattr(same, name)
        assert getattr(one, name) != getattr(other, name)


def test_no_fit_touches_the_global_seed() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    fit_dense(noise(40, 4), 1)
    fit_kernel(torch.eye(9, dtype=torch.float64), 1)
    offset_only(noise(9, 9))
    linear_in_offset(noise(9))
    assert torch.equal(torch.get_rng_state(), before)


def test_missing_rows_take_no_part_in_a_fit() -> None:
    rows = table(300, 8)
    rows[17], rows[200, 3] = math.nan, math.inf
    for fit in (fit_pairs(rows, 3), fit_dense(rows, 3), fit_kernel(rows @ rows.T, 3)):
        assert fit.held_out_error < 1e-6
        assert fit.fitted == (297 - 4 + 1) // 2
    assert verify_map(rows, block_rotation(ladder(8), 3), 3) < 1e-14


def test_bad_fit_arguments_are_refused() -> None:
    with pytest.raises(SchemeArgumentError, match="must be even and positive"):
        fit_pairs(noise(9, 3), 1)
    with pytest.raises(SchemeArgumentError, match="at least two pairs of finite positions"):
        fit_pairs(noise(9, 2), 8)
    with pytest.raises(SchemeArgumentError, match="symmetric kernel"):
        fit_kernel(noise(9, 9), 1)
    with pytest.raises(SchemeArgumentError, match="first must be"):
        inspect.unwrap(fit_pairs)(noise(9, 2), 1, first="tan")
    with pytest.raises(SchemeArgumentError, match="ratio must be from 0 to 1"):
        expanding_shift(1.5, 4, 1)


# Verdicts.


def test_verdicts_follow_the_numbers() -> None:
    sinusoidal = verify_map(table(64, 32), block_rotation(ladder(32), 3), 3)
    assert verdict(sinusoidal, dimension=32, dimension_at_double=32) == (
        Verdict.EXACT,
        "exact in 32 dimensions",
    )
    alibi = verify_map(alibi_vectors(32, 0.5), expanding_shift(math.exp(-0.5), 29, 3), 3)
    kind, text = verdict(alibi, dimension=32, dimension_at_double=64)
    assert kind is Verdict.EXPANDING
    assert "seen positions do not predict later ones" in text
    random = fit_dense(noise(128, 32), 3).held_out_error
    assert verdict(random, dimension=32, dimension_at_double=32)[0] is Verdict.NONE
    with pytest.raises(SchemeArgumentError, match="map_error must be a number"):
        verdict(math.nan, dimension=1, dimension_at_double=1)


# Depends on the offset only.


# Straight line in the offset.
