"""Is a shift by an offset linear: closed forms and fits, against NumPy, loops and random controls."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from posenc import SchemeArgumentError
from posenc.analysis import (
    composition_error,
    expand_curve,
    expanding_shift,
    fit_dense,
    fit_kernel,
    fit_pairs,
    linear_in_offset,
    offset_only,
    verify_map,
)
from posenc.frequencies import Frequencies
from posenc.rotation import pair_matrix
from posenc.tables import cos_sin
from tests.library.small_tables import alibi_mean_curve, ladder, noise, table
from tests.library.tensors import assert_close


def sinusoidal_vectors(
    length: int, width: int, *, layout: str = "interleaved", first: str = "sin", tail: int = 0
) -> torch.Tensor:
    """Return sinusoidal rows in any order of features, with a constant tail."""
    rows = table(length, width)
    parts = (rows[:, 0::2], rows[:, 1::2]) if first == "sin" else (rows[:, 1::2], rows[:, 0::2])
    rows = torch.cat(parts, 1) if layout == "half" else torch.stack(parts, 2).flatten(1)
    return torch.cat([rows, torch.full((length, tail), 0.3, dtype=torch.float64)], 1)


def block_rotation(
    inv_freq: torch.Tensor,
    offset: int,
    *,
    layout: Any = "interleaved",
    first: Any = "sin",
    tail: int = 0,
) -> torch.Tensor:
    """Return the closed form of these frequencies, as the schemes make theirs."""
    frequencies = Frequencies.from_inv_freq(inv_freq)
    cos, sin = cos_sin(torch.tensor(offset), frequencies, dtype=torch.float64)
    return pair_matrix(cos, sin, layout, first, tail)


def rotation_by_entries(
    width: int, offset: int, *, layout: str = "interleaved", first: str = "sin", tail: int = 0
) -> torch.Tensor:
    """Return the closed-form matrix, one entry at a time; the tail stays as it is."""
    expected = torch.eye(width + tail, dtype=torch.float64)
    for m, theta in enumerate(ladder(width).tolist()):
        a, b = (2 * m, 2 * m + 1) if layout == "interleaved" else (m, m + width // 2)
        expected[a, a] = expected[b, b] = math.cos(offset * theta)
        expected[a, b] = math.sin(offset * theta) * (1 if first == "sin" else -1)
        expected[b, a] = -expected[a, b]
    return expected


@pytest.mark.parametrize("width", [2, 514])
@pytest.mark.parametrize(
    "order",
    [{"layout": "interleaved", "first": "sin", "tail": 3}, {"layout": "half", "first": "cos"},
     {"layout": "half", "first": "sin"}],
    ids=lambda order: "-".join(map(str, order.values())),
)  # fmt: skip
def test_closed_form_moves_every_position_by_its_offset(width: int, order: dict[str, Any]) -> None:
    vectors = sinusoidal_vectors(40, width, **order)
    for offset in (1, -7):
        matrix = block_rotation(ladder(width), offset, **order)
        assert matrix.is_sparse == (len(matrix) > 512)
        expected = rotation_by_entries(width, offset, **order)
        assert_close(matrix.to_dense(), expected, atol=1e-15)
        assert verify_map(vectors, matrix, offset) < 1e-13
        assert verify_map(vectors, matrix.to_dense(), offset) < 1e-13
        other = block_rotation(ladder(width), offset + 1, **order)
        assert verify_map(vectors, other, offset) > 0.01


def test_matrices_of_two_offsets_compose_to_that_of_their_sum() -> None:
    matrices = [block_rotation(ladder(514), offset) for offset in (700, 324, 1_024)]
    dense = [matrix.to_dense() for matrix in matrices]
    for mixture in (matrices, dense, (matrices[0], dense[1], matrices[2])):
        assert composition_error(*mixture) < 1e-15
    gap = (dense[0] @ dense[0] - dense[2]).norm() / dense[2].norm()
    assert composition_error(matrices[0], matrices[0], matrices[2]) == pytest.approx(gap.item())
    assert gap > 0.1


def test_error_of_a_map_is_the_ratio_of_frobenius_norms() -> None:
    rows, matrix = noise(9, 3), noise(3, 3, seed=1)
    gaps = targets = 0.0
    for i, a in itertools.product(range(7), range(3)):
        predicted = sum(matrix[a, b].item() * rows[i, b].item() for b in range(3))
        gaps += (rows[i + 2, a].item() - predicted) ** 2
        targets += rows[i + 2, a].item() ** 2
    assert verify_map(rows, matrix, 2) == pytest.approx(math.sqrt(gaps / targets), rel=1e-13)


def test_alibi_shift_by_k_maps_into_k_more_dimensions() -> None:
    """That it moves ALiBi's vectors is among the laws."""
    three, four, seven = (expanding_shift(0.78, size, k) for size, k in ((34, 3), (30, 4), (30, 7)))
    assert (three.shape, seven.shape) == ((37, 34), (37, 30))
    assert composition_error(three, four, seven) < 1e-15


def test_rows_that_a_matrix_does_not_reach_are_not_compared() -> None:
    rows = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [2.0, 0.0]], dtype=torch.float64)
    double = torch.tensor([[2.0]], dtype=torch.float64)
    assert verify_map(rows, double, 1) == 0.0
    with pytest.raises(SchemeArgumentError, match="fits the matrix of shape"):
        verify_map(rows[:3], double, 1)


# Fits, with held-out positions, later positions and a random control.


@pytest.mark.parametrize(
    ("length", "width", "order"),
    [(600, 64, {"layout": "half", "first": "cos"}), (60, 1_026, {"tail": 1})],
    ids=["half", "wide"],
)
def test_pair_fit_finds_the_closed_form(length: int, width: int, order: dict[str, Any]) -> None:
    vectors = sinusoidal_vectors(length, width, **order)
    fit: Any = fit_pairs(vectors, 8, train_length=length // 2, **order)
    expected = rotation_by_entries(width, 8, **order)
    assert_close(fit.matrix.to_dense(), expected, atol=5e-15)
    assert fit.matrix.is_sparse == (width > 512)
    assert fit.fitted == (length // 2 - 8 + 1) // 2
    assert max(fit.in_sample_error, fit.held_out_error, fit.later_error) < 1e-13
    assert fit.control_held_out == pytest.approx(1.0, abs=0.1)
    assert fit.control_later == pytest.approx(1.0, abs=0.1)


def test_dense_fit_interpolates_and_does_not_identify_the_matrix() -> None:
    rows = table(2_048, 64)
    fit: Any = fit_dense(rows, 1, train_length=1_024)
    assert (fit.fitted, fit.dimension, fit.rank) == (512, 64, 44)
    assert fit.held_out_error < 1e-13
    assert 0.003 < fit.later_error < 0.03
    # A fit of noise is off by sqrt(1 + n / (m - n - 1)) for m rows of width n.
    expected = math.sqrt(1 + 64 / (512 - 65))
    assert fit.control_held_out == pytest.approx(expected, abs=0.02)
    assert fit.control_later == pytest.approx(expected, abs=0.02)


def least_squares(rows: torch.Tensor, offset: int, seed: int) -> tuple[np.ndarray, torch.Tensor]:
    """Fit one half of the positions with NumPy; return the matrix and the held-out half."""
    order = torch.randperm(len(rows) - offset, generator=torch.Generator().manual_seed(seed))
    fitted, held_out = order.tensor_split([(len(order) + 1) // 2])
    solution = np.linalg.lstsq(rows[fitted].numpy(), rows[fitted + offset].numpy(), rcond=None)[0]
    return solution.T, held_out


def relative_gap(rows: torch.Tensor, matrix: np.ndarray, at: torch.Tensor, offset: int) -> float:
    gap = rows[at + offset] - rows[at] @ torch.from_numpy(matrix).T
    return (gap.norm() / rows[at + offset].norm()).item()


def test_dense_fit_is_the_least_squares_solution() -> None:
    rows = noise(60, 5)
    fit: Any = fit_dense(rows, 2, seed=7)
    matrix, held_out = least_squares(rows, 2, 7)
    np.testing.assert_allclose(fit.matrix, matrix, rtol=0, atol=1e-13)
    assert fit.held_out_error == pytest.approx(relative_gap(rows, matrix, held_out, 2))


@pytest.mark.parametrize(("length", "width"), [(80, 6), (24, 30)])
def test_fit_through_a_kernel_is_the_fit_of_its_vectors(length: int, width: int) -> None:
    rows = noise(length + 20, width)
    fit: Any = fit_kernel(rows @ rows.T, 2, train_length=length, seed=5)
    matrix, held_out = least_squares(rows[:length], 2, 5)
    for error, at in (
        (fit.held_out_error, held_out),
        (fit.later_error, torch.arange(length, length + 18)),
    ):
        assert error == pytest.approx(relative_gap(rows, matrix, at, 2), rel=1e-6)
    assert fit.rank == min((length - 1) // 2, width)


def test_alibi_positions_of_training_do_not_predict_later_ones() -> None:
    fit: Any = fit_kernel(expand_curve(alibi_mean_curve(400)), 1, train_length=200)
    assert fit.rank == fit.fitted == fit.dimension == 100
    assert fit.in_sample_error < 1e-7 < 0.2 < fit.held_out_error < 0.9 < fit.later_error
    assert fit.matrix is None


@pytest.mark.parametrize("fit", [fit_pairs, fit_dense])
def test_seed_decides_a_fit_and_the_global_generator_is_untouched(fit: Callable[..., Any]) -> None:
    rows, before = noise(80, 4), torch.get_rng_state()
    first, same, other = (
        fit(rows, 1, seed=seed).held_out_error for seed in (3, torch.Generator().manual_seed(3), 4)
    )
    assert first == pytest.approx(same, rel=1e-12)
    assert first != pytest.approx(other, rel=1e-6)
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
