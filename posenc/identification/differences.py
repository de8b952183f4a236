"""Differences between a table and a formula, without the rows and columns that follow none."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from posenc.identification.columns import TableInput, longest_run
from posenc.identification.frequency_fit import Hypothesis, Precision, Recipe, rounding
from posenc.identification.predict import Allowed, Place

OUTLIER_ERROR = 0.1  # root mean square over the formula's: a row or column beyond it is an outlier
MOST_OUTLIERS = 0.1  # of rows not all zeros, and of columns; with more, no formula is the table's
_MIN_RUN = 5  # rows that show whether columns are waves
_BLOCK = 2**20  # numbers of the table that are compared at once
_SAMPLED_ROWS = 256
_BASE_ERROR = 0.05  # most that is allowed, of a base that few rows or one pair do not show


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
    they are more than `MOST_OUTLIERS`. largest: of the outliers. beyond: of the others, the largest that
    no rounding makes. base_within: relative change of the base that makes the same numbers; inf if any
    base does.
    """

    table: TableInput
    hypothesis: Hypothesis
    recipe: Recipe
    all: Differences
    others: Differences
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    largest: float
    beyond: Place | None
    base_within: float


def rows_of_formula(
    table: TableInput, hypothesis: Hypothesis, recipe: Recipe, rows: Int[Tensor, " t"]
) -> Float[Tensor, "t c"]:
    """Return what a formula has in some rows of a table; in its rows of zeros, zeros."""
    columns = hypothesis.arrangement.columns(table.columns.shape[1])
    values = recipe.values(hypothesis, table.places(rows).double(), columns)
    return values.masked_fill(table.zeros[rows].unsqueeze(1), 0.0)


def base_within(table: TableInput, hypothesis: Hypothesis, allowed: Allowed) -> float:
    """Return the relative change of the base that changes no number by more than is allowed."""
    columns = hypothesis.arrangement.columns(table.columns.shape[1])
    last = len(table.columns) - 1
    count = min(last + 1 - table.padding, _SAMPLED_ROWS)
    rows = torch.linspace(table.padding, last, count, dtype=torch.float64).round().long()
    places = table.places(rows).double() + hypothesis.start
    angles = places.unsqueeze(1) * hypothesis.frequencies(columns)
    sin, cos = angles.sin(), angles.cos()
    values = hypothesis.size * torch.where(columns.sines, sin, cos)
    moved = hypothesis.size * angles * columns.exponents * torch.where(columns.sines, cos, sin)
    within = float((allowed.limits(values, angles, hypothesis.size) / moved.abs()).min())
    return within if within < 1 else math.inf


def compare(
    table: TableInput, hypothesis: Hypothesis, recipe: Recipe, precision: Precision
) -> Comparison:
    """Compare every row with a formula; rows of zeros count as no difference.

    Numbers of 16 bits are outliers, too, where most of a column differ by more than a share of themselves:
    a slow pair that stands still differs by little from one that turns.
    """
    numbers, size = table.columns, hypothesis.size
    limit = OUTLIER_ERROR * size * math.sqrt(0.5)
    once = rounding(precision.dtype, len(numbers) + abs(hypothesis.start), size)
    within, allowed = base_within(table, hypothesis, Allowed(once)), precision.allowed(size)
    columns = hypothesis.arrangement.columns(numbers.shape[1])
    frequencies = hypothesis.frequencies(columns)
    of_base = size * min(within, _BASE_ERROR) * columns.exponents

    def differences(rows: Int[Tensor, " t"]) -> tuple[Float[Tensor, "t c"], Bool[Tensor, "t c"]]:
        """Return differences, and which of them no rounding to 16 bits makes."""
        values = rows_of_formula(table, hypothesis, recipe, rows)
        off = (values - numbers[rows]).abs()
        if not allowed.share or recipe.in_16_bits:  # whose angles are wrong themselves
            return off, torch.zeros_like(off, dtype=torch.bool)
        angles = (table.places(rows).double() + hypothesis.start).unsqueeze(1) * frequencies
        return off, off > allowed.limits(values, angles, size) + of_base * angles.abs()

    # Outlying columns differ in most rows, of which a sample is compared.
    rows = (~table.zeros).nonzero().flatten()
    rows = rows[torch.linspace(0, len(rows) - 1, min(len(rows), _SAMPLED_ROWS)).round().long()]
    off, wrong = differences(rows)
    bad_columns = (off.median(0).values > limit) | (wrong.double().mean(0) > 0.5)
    if int(bad_columns.sum()) > MOST_OUTLIERS * len(bad_columns):
        bad_columns = torch.zeros_like(bad_columns)
    every, others = Differences(numbers.shape[1]), Differences(numbers.shape[1])
    bad_rows: list[int] = []
    beyond: list[Place] = []
    largest = 0.0
    for rows in torch.arange(len(numbers)).split(max(1, _BLOCK // numbers.shape[1])):
        part, first, (off, wrong) = numbers[rows], int(rows[0]), differences(rows)
        every.add(off, part, first)
        bad = off[:, ~bad_columns].square().mean(1).sqrt() > limit
        bad_rows += rows[bad].tolist()
        excluded = bad.unsqueeze(1) | bad_columns
        others.add(off.masked_fill(excluded, 0.0), part.masked_fill(excluded, 0.0), first)
        largest = max(largest, float(off.masked_fill(~excluded, 0.0).max()))
        excess = off.masked_fill(excluded | ~wrong, 0.0)
        row, column = divmod(int(excess.argmax()), len(bad_columns))
        beyond.append(Place(first + row, column, float(excess[row, column])))
    outliers = bad_columns.nonzero().flatten().tolist()
    if len(bad_rows) > MOST_OUTLIERS * int((~table.zeros).sum()):
        others, bad_rows, outliers = every, [], []
    places = table.places(torch.arange(len(numbers))) + hypothesis.start
    latest = 1 + int(places.abs().max())
    most = max(beyond, key=lambda place: place.amount)
    if others.largest > 4 * rounding(precision.dtype, latest, max(1.0, size)):
        most = Place(*others.worst, others.largest)
    return Comparison(
        table, hypothesis, recipe, every, others, tuple(bad_rows), tuple(outliers), largest,
        most if most.amount else None, within,
    )  # fmt: skip


def consistent_run(table: Float[Tensor, "t c"]) -> tuple[int, int, list[int]] | None:
    """Return the first row and end of the longest run whose columns are waves, and which columns are none.

    A formula is measured in this run, by which the others' positions are found, as of packed documents.
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
