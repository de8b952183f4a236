"""Statistics of paired trials, against scipy.stats and simulations."""

import math
import random

import numpy as np
import pytest
import scipy.stats

from posenc.lab.statistics import detectable, grid_deviation, holm, paired_mean

GAPS = [-0.02, 0.01, 0.05, 0.03, 0.02]


def test_mean_of_pairs_has_student_s_interval_and_p_value() -> None:
    found = paired_mean(GAPS)
    expected = scipy.stats.ttest_1samp(GAPS, 0.0)
    interval = expected.confidence_interval(0.95)
    assert (found.mean, found.p) == pytest.approx((np.mean(GAPS), expected.pvalue), rel=1e-12)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), rel=1e-12)


@pytest.mark.parametrize("gaps", [[0.3], [0.25, 0.25], [-0.0025, -0.0025, -0.0025], [0.0, 0.0]])
def test_pairs_without_a_spread_say_nothing(gaps: list[float]) -> None:
    found = paired_mean(gaps)
    assert (found.mean, found.low, found.high, found.p) == (
        pytest.approx(gaps[0]), -math.inf, math.inf, 1.0,
    )  # fmt: skip


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_a_difference_that_is_no_finite_number_says_nothing(loss: float) -> None:
    found = paired_mean([0.25, loss, 0.5])
    assert (found.low, found.high, found.p) == (-math.inf, math.inf, 1.0)
    assert not math.isfinite(found.mean)


def test_holm_corrects_by_the_number_that_is_left() -> None:
    """By hand: 4 * 0.005, 3 * 0.01, then 2 * 0.03, and 0.04, which may not be below the one before."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([]) == []


def test_holm_is_wrong_in_one_table_of_twenty_where_nothing_differs() -> None:
    draw = np.random.default_rng(0)
    tables = draw.uniform(size=(4_000, 9))
    wrong = np.mean([min(holm(table.tolist())) <= 0.05 for table in tables])
    assert 0.04 < wrong < 0.06  # three standard errors are 0.0103


@pytest.mark.parametrize(("pairs", "tests"), [(3, 1), (5, 1), (5, 21)])
def test_detectable_difference_is_found_in_four_of_five_simulated_tables(
    pairs: int, tests: int
) -> None:
    draw = np.random.default_rng(pairs)
    size = detectable(0.02, pairs, tests)
    samples = draw.normal(size, 0.02, size=(20_000, pairs))
    p_values = scipy.stats.ttest_1samp(samples, 0.0, axis=1).pvalue
    assert np.mean(p_values <= 0.05 / tests) == pytest.approx(0.8, abs=0.01)


def test_student_s_interval_holds_the_mean_where_a_bootstrap_of_few_pairs_does_not() -> None:
    """The figures of the module, from fewer samples."""
    draw, chosen = np.random.default_rng(1), random.Random(1)
    samples = draw.normal(size=(1_000, 5))
    student = [(one := paired_mean(row.tolist())).low <= 0 <= one.high for row in samples]
    boot = []
    for row in samples:
        means = [np.mean(chosen.choices(row.tolist(), k=5)) for _ in range(200)]
        low, high = np.quantile(means, [0.025, 0.975])
        boot.append(low <= 0 <= high)
    assert np.mean(student) == pytest.approx(0.95, abs=0.021)
    assert np.mean(boot) == pytest.approx(0.84, abs=0.035)


def test_a_grid_without_interaction_has_the_deviation_of_its_rows_and_of_its_columns() -> None:
    """By hand: rows 0, 2, 4 (deviation 2), columns 0, 1, 2 (deviation 1), and nothing else."""
    found = grid_deviation(
        {(row, column): 2 * row + column for row in range(3) for column in range(3)}
    )
    assert (found.weights, found.data, found.together) == pytest.approx((2, 1, 0), abs=1e-12)


def test_seeds_that_matter_only_together_have_no_deviation_of_their_own() -> None:
    """By hand: +1 and -1 in turn: rows and columns all have the mean 0; the rest's square sum 4 over 1."""
    found = grid_deviation({(0, 0): 1, (0, 1): -1, (1, 0): -1, (1, 1): 1})
    assert (found.weights, found.data, found.together) == pytest.approx((0, 0, 2))


def test_deviations_of_many_simulated_grids_are_those_that_were_drawn() -> None:
    draw = np.random.default_rng(0)
    drawn = (0.03, 0.01, 0.02)
    squares = np.zeros(3)
    for _ in range(400):
        rows, columns = draw.normal(0, drawn[0], (6, 1)), draw.normal(0, drawn[1], (1, 8))
        grid = rows + columns + draw.normal(0, drawn[2], (6, 8))
        found = grid_deviation({(3 * i, 5 * j): grid[i, j] for i in range(6) for j in range(8)})
        squares += np.square([found.weights, found.data, found.together])
    # The variance of a row's effect over 6 rows spreads by 63%: by 3% over 400 grids.
    assert squares / 400 == pytest.approx(np.square(drawn), rel=0.15)


@pytest.mark.parametrize("cells", [[(0, 0), (0, 1)], [(0, 0), (0, 1), (1, 0)], []])
def test_a_grid_without_every_pair_of_two_seeds_is_refused(cells: list[tuple[int, int]]) -> None:
    with pytest.raises(ValueError, match="every pair"):
        grid_deviation(dict.fromkeys(cells, 1.0))
