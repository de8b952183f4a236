"""Differences between a table and a formula, without the rows and columns that follow none."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.identification.columns import TableInput, longest_run
from posenc.identification.frequency_fit import Hypothesis, Recipe

OUTLIER_ERROR = 0.1  # root mean square over the formula's: a row or column beyond it is an outlier
MOST_OUTLIERS = 0.1  # of rows not all zeros, and of columns; with more, no formula is the table's
_MIN_RUN = 5  # rows that show whether columns are waves
_BLOCK = 2**20  # numbers of the table that are compared at once
_SAMPLED_ROWS = 256


class Differences:
    """Differences between a table and a formula, added block by block.

    by_column (c,): the largest in each column. largest: of all, at row and column `worst`.
    """

    def __init__(self, columns: int) -> None:
        self.by_column = torch.zeros(columns, dtype=torch.float64)
        self.largest, self.worst = -1.0, (0, 0)
        self._error, self._power = 0.0, 0.0

    def add(self, off: Float[Tensor, "t c"], part: Float[Tensor, "t c"], row: int) -> None:
        """Add differences of a part of the table that begins at a row."""
        # By NumPy, whose sum is the same on any number of threads.
        self._error += float(off.square().numpy().sum())
        self._power += float(part.square().numpy().sum())
        self.by_column = torch.maximum(self.by_column, off.amax(0))
        if float(off.max()) > self.largest:
            self.largest, at = float(off.max()), int(off.argmax())
            self.worst = (row + at // off.shape[1], at % off.shape[1])

    @property
    def residual(self) -> float:
        """Root mean square of the differences over that of the table."""
        return math.sqrt(self._error / max(self._power, 1e-300))


class Comparison(NamedTuple):
    """Differences between a table and a formula.

    all: of every row and column; others: without the outliers. rows, columns: the outliers, none if
    they are more than `MOST_OUTLIERS`.
    """

    table: TableInput
    hypothesis: Hypothesis
    recipe: Recipe
    all: Differences
    others: Differences
    rows: tuple[int, ...]
    columns: tuple[int, ...]


def rows_of_formula(
    table: TableInput, hypothesis: Hypothesis, recipe: Recipe, rows: Int[Tensor, " t"]
) -> Float[Tensor, "t c"]:
    """Return what a formula has in some rows of a table; in its rows of zeros, zeros."""
    columns = hypothesis.arrangement.columns(table.columns.shape[1])
    values = recipe.values(hypothesis, table.places(rows).double(), columns)
    return values.masked_fill(table.zeros[rows].unsqueeze(1), 0.0)


def compare(table: TableInput, hypothesis: Hypothesis, recipe: Recipe) -> Comparison:
    """Compare every row with a formula; rows of zeros count as no difference."""
    numbers = table.columns
    limit = OUTLIER_ERROR * hypothesis.size * math.sqrt(0.5)

    def differences(rows: Int[Tensor, " t"]) -> Float[Tensor, "t c"]:
        return (rows_of_formula(table, hypothesis, recipe, rows) - numbers[rows]).abs()

    # Outlying columns differ in most rows, of which a sample is compared.
    rows = (~table.zeros).nonzero().flatten()
    rows = rows[torch.linspace(0, len(rows) - 1, min(len(rows), _SAMPLED_ROWS)).round().long()]
    bad_columns = differences(rows).median(0).values > limit
    if int(bad_columns.sum()) > MOST_OUTLIERS * len(bad_columns):
        bad_columns = torch.zeros_like(bad_columns)
    every, others = Differences(numbers.shape[1]), Differences(numbers.shape[1])
    bad_rows: list[int] = []
    for rows in torch.arange(len(numbers)).split(max(1, _BLOCK // numbers.shape[1])):
        part, off, first = numbers[rows], differences(rows), int(rows[0])
        every.add(off, part, first)
        bad = off[:, ~bad_columns].square().mean(1).sqrt() > limit
        bad_rows += rows[bad].tolist()
        excluded = bad.unsqueeze(1) | bad_columns
        others.add(off.masked_fill(excluded, 0.0), part.masked_fill(excluded, 0.0), first)
    columns = bad_columns.nonzero().flatten().tolist()
    if len(bad_rows) > MOST_OUTLIERS * int((~table.zeros).sum()):
        others, bad_rows, columns = every, [], []
    return Comparison(table, hypothesis, recipe, every, others, tuple(bad_rows), tuple(columns))


def consistent_run(table: Float[Tensor, "t c"]) -> tuple[int, int, list[int]] | None:
    """Return the first row and end of the longest run whose columns are waves, and which columns are none.

    A wave obeys x(p + 1) + x(p - 1) = 2 cos(theta) x(p) at every row p. None if no row or column breaks
    that rule, if more than `MOST_OUTLIERS` of the columns do, or if the run has fewer than 5 rows.
    """
    size = float(table.abs().median())
    if len(table) < _MIN_RUN or size == 0:
        return None
    middle, neighbours = table[1:-1], table[2:] + table[:-2]
    weight = middle.abs().clamp_max(size)
    ratio = torch.where(weight > 0, neighbours / middle, 0.0)
    order = ratio.argsort(0)
    total = weight.gather(0, order).cumsum(0)
    half = (total < total[-1:] / 2).sum(0, keepdim=True).clamp_max(len(ratio) - 1)
    twice_cosine = ratio.gather(0, order).gather(0, half)  # the weighted median
    broken = (neighbours - twice_cosine * middle).abs() > 2 * OUTLIER_ERROR * size
    columns = broken.double().mean(0) > 0.5
    if float(columns.double().mean()) > MOST_OUTLIERS:
        return None
    rows = broken[:, ~columns].double().mean(1) > MOST_OUTLIERS
    if not bool(columns.any() or rows.any()):
        return None
    first, end = longest_run(rows)
    end += 2  # the rule spans three rows
    return (first, end, columns.nonzero().flatten().tolist()) if end - first >= _MIN_RUN else None
