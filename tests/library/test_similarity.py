"""Similarities of positions and their profile by offset, against loops over single entries."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from posenc.analysis import (
    cosine_curve,
    cosine_matrix,
    expand_curve,
    similarity,
    similarity_by_offset,
    similarity_row,
)
from tests.library.small_tables import noise
from tests.library.tensors import assert_close

NAN, INF = math.nan, math.inf


def cosine_by_loop(kernel: torch.Tensor) -> torch.Tensor:
    values = kernel.tolist()
    count = len(values)
    return torch.tensor(
        [
            [values[i][j] / math.sqrt(values[i][i] * values[j][j]) for j in range(count)]
            for i in range(count)
        ],
        dtype=torch.float64,
    )


def test_cosine_matrix_is_the_kernel_over_both_norms() -> None:
    rows, asymmetric = noise(23, 7), noise(9, 9).abs() + 0.1
    for kernel in (rows @ rows.T, asymmetric, (rows[:6] @ rows[:6].T).to(torch.float16)):
        found = cosine_matrix(kernel)
        expected = cosine_by_loop(kernel.double())
        assert_close(found, expected, rtol=1e-14, atol=1e-15)
        assert (found.diagonal() == 1).all()


@pytest.mark.parametrize("bad", [0.0, -1.0, NAN, INF])
def test_position_without_a_positive_norm_is_undefined_and_counted(bad: float) -> None:
    rows = noise(12, 4)
    kernel = rows @ rows.T
    expected = cosine_by_loop(kernel)
    kernel[5, 5], kernel[0, 2] = bad, INF
    expected[0, 2] = NAN  # an infinite entry is not a similarity
    found = cosine_matrix(kernel)
    assert found.diagonal().isnan().nonzero().tolist() == [[5]]
    assert found[5].isnan().all()
    assert found[:, 5].isnan().all()
    others = [i for i in range(12) if i != 5]
    np.testing.assert_allclose(found[others][:, others], expected[others][:, others])
    assert similarity_row(5, kernel).isnan().all()
    assert similarity_row(1, kernel).isnan().tolist() == [i == 5 for i in range(12)]


@pytest.mark.parametrize("power", [1_000, -1_000])
def test_scale_of_a_kernel_changes_rounding_only(power: int) -> None:
    rows = noise(10, 6)
    kernel = rows @ rows.T
    # Two square roots right to one unit in the last place, a product and a quotient, on either side.
    within = 8 * torch.finfo(torch.float64).eps
    scaled, plain = cosine_matrix(kernel * 2.0**power), cosine_matrix(kernel)
    assert_close(scaled, plain, rtol=within, atol=0)


def test_curve_expands_by_key_minus_query_and_its_cosine_is_over_its_value_at_zero() -> None:
    curve = noise(13)
    curve[6] = 3.0
    expected = [[curve[j - i + 6].item() for j in range(7)] for i in range(7)]
    assert expand_curve(curve).tolist() == expected  # copied
    found, whole = expand_curve(cosine_curve(curve)), cosine_matrix(expand_curve(curve))
    assert_close(found, whole, rtol=1e-15, atol=1e-16)


def test_row_of_a_reference_is_the_row_of_the_matrix() -> None:
    curve, reference = noise(17), 3
    curve[8] = 2.5
    kernel = expand_curve(curve)
    expected = cosine_by_loop(kernel)[reference]
    for row in (similarity_row(reference, kernel), similarity_row(reference, curve=curve)):
        assert_close(row, expected, rtol=1e-14, atol=1e-15)


OFFSETS: dict[similarity.Side, Callable[[int], range]] = {
    "after": lambda count: range(count),
    "before": lambda count: range(0, -count, -1),
    "both": lambda count: range(1 - count, count),
}


@pytest.mark.parametrize("side", OFFSETS)
@pytest.mark.parametrize(("count", "holes"), [(1, 0), (1, 1), (7, 9), (24, 30)])
def test_statistics_by_offset_match_a_loop_over_diagonals(
    side: similarity.Side, count: int, holes: int
) -> None:
    draw = np.random.default_rng(count)
    kernel = draw.normal(size=(count, count)) + 100.0
    for _ in range(holes):
        kernel[draw.integers(count), draw.integers(count)] = draw.choice([NAN, INF, -INF])
    profile = similarity_by_offset(torch.from_numpy(kernel), side=side)
    assert profile.offsets.tolist() == [*OFFSETS[side](count)]
    for index, offset in enumerate(OFFSETS[side](count)):
        entries = [x for x in np.diagonal(kernel, offset).tolist() if math.isfinite(x)]
        found = [
            getattr(profile, name)[index].item() for name in ("mean", "deviation", "low", "high")
        ]
        if entries:
            mean = math.fsum(entries) / len(entries)
            spread = math.sqrt(math.fsum((x - mean) ** 2 for x in entries) / len(entries))
            assert found == pytest.approx([mean, spread, min(entries), max(entries)], abs=1e-12)
        else:
            assert all(map(math.isnan, found))


def test_profile_of_a_curve_is_that_of_its_kernel() -> None:
    curve = noise(15)
    curve[2] = NAN
    from_curve = similarity_by_offset(curve=curve, side="both")
    from_kernel = similarity_by_offset(expand_curve(curve), side="both")
    for name in ("offsets", "mean", "deviation", "low", "high"):
        found, expected = getattr(from_curve, name), getattr(from_kernel, name)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-15)
