"""Uncertainty of measured differences: intervals, p-values and what a design can detect.

Pairs of trials that share weights and data differ less than trials that share nothing, so differences are
taken within pairs. Their mean has Student's t interval. A bootstrap interval of few pairs is too narrow: of
4,000 samples from a normal distribution, one called 95% held the mean in 84% for five pairs and in 67% for
three, Student's in 95% for both.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scipy.special import nctdtrinc, stdtr, stdtrit

CONFIDENCE = 0.95  # of the interval of a difference
POWER = 0.8  # the chance to find the smallest difference that a design can detect


@dataclass(frozen=True)
class PairedMean:
    """The mean of differences within pairs.

    low, high: Student's t interval at CONFIDENCE. p: the two-sided p-value of a mean of 0. The interval is
    infinite and the p-value 1 where differences are no finite numbers, or say nothing of their spread: of
    one pair, or all equal, as shares of a few hundred answers may be by chance.
    """

    mean: float
    low: float
    high: float
    p: float


def paired_mean(differences: Sequence[float]) -> PairedMean:
    """Return the mean of differences within pairs, at least one, with what is known of it."""
    mean, count = statistics.fmean(differences), len(differences)
    if not all(map(math.isfinite, differences)) or min(differences) == max(differences):
        return PairedMean(mean, -math.inf, math.inf, 1.0)
    error = statistics.stdev(differences) / math.sqrt(count)
    half = float(stdtrit(count - 1, (1 + CONFIDENCE) / 2)) * error
    p = 2 * float(stdtr(count - 1, -abs(mean) / error))
    return PairedMean(mean, mean - half, mean + half, p)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number: Holm 1979, Scand. J. Statist. 6, 65-70.

    Whoever calls a difference real where the corrected value is at most 0.05 is wrong about one or more of
    all of them in at most 5% of tables.
    """
    corrected, highest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = highest
    return corrected


def detectable(deviation: float, pairs: int, tests: int = 1) -> float:
    """Return the smallest mean difference that a table would find with the chance POWER.

    deviation: the standard deviation of a difference within a pair. pairs: at least 2. tests: how many
    differences the table has; Holm's first step compares with (1 - CONFIDENCE) / tests.
    """
    level = (1 - CONFIDENCE) / tests
    critical = float(stdtrit(pairs - 1, 1 - level / 2))
    # The other tail of a noncentral t at this distance is below 1e-6.
    return float(nctdtrinc(pairs - 1, 1 - POWER, critical)) * deviation / math.sqrt(pairs)


@dataclass(frozen=True)
class GridDeviation:
    """Standard deviations of a value over a grid of seeds of the weights and of the order of the data.

    together: what the two add besides: the deviation that is neither's alone.
    """

    weights: float
    data: float
    together: float


def grid_deviation(values: Mapping[tuple[int, int], float]) -> GridDeviation:
    """Return how much of the spread is due to the weights and how much to the order of the data.

    values: by (seed of the weights, seed of the data), each of at least two with each of at least two.
    Estimated by a two-way analysis of variance with one value per cell and random effects, from expected
    mean squares (Searle, Casella and McCulloch 1992, Variance Components, chapter 4). A variance that comes
    out below 0 is 0.
    """
    rows, columns = sorted({row for row, _ in values}), sorted({column for _, column in values})
    if len(rows) < 2 or len(columns) < 2 or len(values) != len(rows) * len(columns):
        raise ValueError("A grid has every pair of two or more seeds of each kind.")
    mean = statistics.fmean(values.values())
    of_row = {row: statistics.fmean(values[row, column] for column in columns) for row in rows}
    of_column = {
        column: statistics.fmean(values[row, column] for row in rows) for column in columns
    }
    rest = [
        value - of_row[row] - of_column[column] + mean for (row, column), value in values.items()
    ]
    together = sum(each * each for each in rest) / ((len(rows) - 1) * (len(columns) - 1))
    # The spread of the means has the rest's variance, divided by how many values each is the mean of.
    weights = statistics.variance(of_row.values()) - together / len(columns)
    data = statistics.variance(of_column.values()) - together / len(rows)
    return GridDeviation(*(math.sqrt(max(0.0, each)) for each in (weights, data, together)))
