"""Whether a kernel depends on the offset only, and by a straight line: both can fail and have a control."""

import math

import numpy as np
import pytest
import torch

from posenc.analysis import (
    diagonal_spread,
    expand_curve,
    linear_in_offset,
    offset_only,
)
from tests.small_tables import alibi_mean_curve, noise, table


def spread_by_loop(kernel: np.ndarray) -> float:
    count = len(kernel)
    spreads = []
    for k in range(1, (count + 1) // 2):
        entries = [kernel[i, i + k] for i in range(count - k)]
        mean = sum(entries) / len(entries)
        spreads.append(math.sqrt(sum((x - mean) ** 2 for x in entries) / len(entries)))
    others = [kernel[i, j] for i in range(count) for j in range(count) if i != j]
    mean = sum(others) / len(others)
    overall = math.sqrt(sum((x - mean) ** 2 for x in others) / len(others))
    return sum(spreads) / len(spreads) / overall


@pytest.mark.parametrize("count", [3, 4, 16, 31])
def test_offset_only_is_the_spread_along_diagonals_over_that_of_all(count: int) -> None:
    kernel = noise(count, count)
    found = offset_only(kernel)
    assert found.error == pytest.approx(spread_by_loop(kernel.numpy()), rel=1e-12)
    assert found.offsets.tolist() == list(range(1, (count + 1) // 2))
    assert diagonal_spread(kernel) == (found.error, None)


def test_stationary_kernels_pass_and_random_ones_do_not() -> None:
    rows = table(128, 64)
    assert offset_only(rows @ rows.T).error < 1e-13
    assert offset_only(expand_curve(alibi_mean_curve(100))).error == 0.0
    random = noise(128, 64)
    found = offset_only(random @ random.T)
    assert found.error == pytest.approx(found.control, abs=0.02)
    scaled = rows * torch.linspace(1.0, 1.2, 128, dtype=torch.float64)[:, None]
    assert 0.01 < offset_only(scaled @ scaled.T).error < 1.0


@pytest.mark.parametrize(("count", "expected"), [(16, 0.94), (64, 0.985)])
def test_the_random_control_of_offset_only_is_just_below_one(count: int, expected: float) -> None:
    controls = [
        offset_only(torch.eye(count, dtype=torch.float64), seed=seed).control for seed in range(40)
    ]
    assert sum(controls) / 40 == pytest.approx(expected, abs=0.015)


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (torch.full((9, 9), 0.1), "equal, so there is no spread"),
        (torch.eye(9), "equal, so there is no spread"),
        (torch.eye(2), "too few positions"),
        (torch.eye(1), "too few positions"),
        (torch.full((9, 9), math.nan), "too few positions"),
    ],
)
def test_offset_only_is_undefined_with_a_reason(kernel: torch.Tensor, reason: str) -> None:
    found = offset_only(kernel.double())
    assert found.error is None
    assert reason in found.reason


def test_alibis_bias_is_a_straight_line_with_its_slope() -> None:
    found = linear_in_offset(-0.25 * torch.arange(200, dtype=torch.float64) + 3.0)
    assert found.r_squared == 1.0
    assert found.slope == pytest.approx(-0.25, rel=1e-14)
    assert found.intercept == pytest.approx(3.0, rel=1e-14)
    assert found.control < 0.1


def test_the_line_is_that_of_least_squares() -> None:
    values = table(90, 64) @ table(1, 64)[0]
    found = linear_in_offset(values)
    steps = np.arange(90.0)
    slope, intercept = np.polyfit(steps, values.numpy(), 1)
    assert found.slope == pytest.approx(slope, rel=1e-12)
    assert found.intercept == pytest.approx(intercept, rel=1e-12)
    assert found.r_squared == pytest.approx(
        np.corrcoef(steps, values.numpy())[0, 1] ** 2, rel=1e-12
    )
    assert found.r_squared < 0.9


def test_the_random_control_of_a_line_is_one_over_the_count() -> None:
    controls = [linear_in_offset(torch.arange(11.0), seed=seed).control for seed in range(300)]
    assert sum(controls) / 300 == pytest.approx(1 / 10, abs=0.025)


def test_a_constant_has_no_line_to_be_straight() -> None:
    found = linear_in_offset(torch.full((10,), 0.1, dtype=torch.float64))
    assert found.r_squared is None
    assert "do not change" in found.reason


@pytest.mark.parametrize("bad", [[1.0, 2.0], [1.0, math.nan, 2.0], [0.0, -math.inf, 1.0]])
def test_a_line_through_two_points_has_no_answer_but_a_reason(bad: list[float]) -> None:
    found = linear_in_offset(torch.tensor(bad, dtype=torch.float64))
    assert found.r_squared is None
    assert "too few" in found.reason


def test_offsets_without_a_value_are_left_out_of_the_line() -> None:
    values = -0.5 * torch.arange(9, dtype=torch.float64) + 2.0
    values[[0, 4, 8]] = torch.tensor([math.nan, math.inf, math.nan], dtype=torch.float64)
    found = linear_in_offset(values)
    assert found.r_squared == pytest.approx(1.0, abs=1e-15)
    assert (found.slope, found.intercept) == (pytest.approx(-0.5), pytest.approx(2.0))
