"""A whole table beside the formula found for it, with the few rows and columns that do not follow it."""

import itertools
import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from posenc.identification.given import Given
from posenc.identification.search import Fit

OUTLIER_ERROR = 0.1  # root mean square over the formula's: a row or column beyond it is an outlier
MOST_OUTLIERS = 0.1  # of the rows, and of the columns; with more, the formula is not the table's
_BLOCK = 2**20  # numbers of the table that are compared at once
_SAMPLED_ROWS = 256
_FEWEST_ROWS = 5  # of a run that shows waves


class Compared(NamedTuple):
    """Differences between a table and a formula.

    residual: root mean square of the difference over that of the table. by_column (c,): the largest
    difference in each column. largest, worst: the largest of all, its row and column. rows, columns:
    those that do not follow the formula, none where they are more than `MOST_OUTLIERS`. The fields
    that begin with others_ leave these rows and columns out.
    """

    given: Given
    fit: Fit
    residual: float
    by_column: Float[Tensor, " c"]
    largest: float
    worst: tuple[int, int]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    others_residual: float
    others_largest: float
    others_worst: tuple[int, int]


class _Differences:
    """Sums and the largest of differences that are added block by block."""

    def __init__(self) -> None:
        self.left, self.power, self.largest, self.worst = 0.0, 0.0, -1.0, (0, 0)

    def add(self, off: Float[Tensor, "t c"], part: Float[Tensor, "t c"], row: int) -> None:
        # By NumPy, whose sum is the same on any number of threads.
        self.left += float(off.square().numpy().sum())
        self.power += float(part.square().numpy().sum())
        if float(off.max()) > self.largest:
            self.largest, at = float(off.max()), int(off.argmax())
            self.worst = (row + at // off.shape[1], at % off.shape[1])

    @property
    def residual(self) -> float:
        return math.sqrt(self.left / max(self.power, 1e-300))


def compared(given: Given, fit: Fit) -> Compared:
    """Compare every row after the padding with a formula; rows of zeros count as no difference."""
    body = given.columns[given.padding :]
    blank = given.blank[given.padding :]
    limit = OUTLIER_ERROR * abs(fit.guess.size) * math.sqrt(0.5)
    outlying_columns = _outlying_columns(given, fit, limit)
    by_column = torch.zeros(body.shape[1], dtype=torch.float64)
    every, others, rows = _Differences(), _Differences(), []
    step = max(1, _BLOCK // body.shape[1])
    for begin in range(0, len(body), step):
        part = body[begin : begin + step]
        off = _differences(fit, given, torch.arange(begin, begin + len(part)))
        off[blank[begin : begin + step]] = 0.0
        every.add(off, part, given.padding + begin)
        by_column = torch.maximum(by_column, off.amax(0))
        outlying = off[:, ~outlying_columns].square().mean(1).sqrt() > limit
        rows += (outlying.nonzero().flatten() + given.padding + begin).tolist()
        left_out = outlying.unsqueeze(1) | outlying_columns
        others.add(
            off.masked_fill(left_out, 0.0), part.masked_fill(left_out, 0.0), given.padding + begin
        )
    columns = outlying_columns.nonzero().flatten().tolist()
    if len(rows) > MOST_OUTLIERS * len(body):
        rows, columns, others = [], [], every
    return Compared(
        given, fit, every.residual, by_column, every.largest, every.worst, tuple(rows), tuple(columns),
        others.residual, others.largest, others.worst,
    )  # fmt: skip


def _differences(fit: Fit, given: Given, index: Tensor) -> Float[Tensor, "t c"]:
    columns = fit.guess.arrangement.columns(given.width)
    made = fit.recipe.values(fit.guess, index.double(), columns)
    return (made - given.columns[given.padding :][index]).abs()


def _outlying_columns(given: Given, fit: Fit, limit: float) -> Bool[Tensor, " c"]:
    """Return the columns that differ in most rows, none where they are too many."""
    last = len(given.columns) - given.padding - 1
    index = torch.linspace(0, last, min(last + 1, _SAMPLED_ROWS)).round().long()
    index = index[~given.blank[given.padding :][index]]
    found = _differences(fit, given, index).median(0).values > limit
    few = int(found.sum()) <= MOST_OUTLIERS * len(found)
    return found if few else torch.zeros_like(found)


def consistent(table: Float[Tensor, "t c"]) -> tuple[int, int, Bool[Tensor, " c"]] | None:
    """Return the longest run of rows whose columns are waves, and which columns are none.

    That is its first row, the row after its last, and a mask of columns. A wave obeys
    x(p + 1) + x(p - 1) = 2 cos(theta) x(p) at every row p. None where nothing breaks that rule, where more
    than `MOST_OUTLIERS` of the columns do, or where the run has fewer than 5 rows.
    """
    size = float(table.abs().median())
    if len(table) < _FEWEST_ROWS or size == 0:
        return None
    middle, around = table[1:-1], table[2:] + table[:-2]
    weight = middle.abs().clamp_max(size)
    ratio = torch.where(weight > 0, around / middle, 0.0)
    order = ratio.argsort(0)
    total = weight.gather(0, order).cumsum(0)
    half = (total < total[-1:] / 2).sum(0, keepdim=True).clamp_max(len(ratio) - 1)
    turning = ratio.gather(0, order).gather(0, half)  # 2 cos(theta): the weighted median
    broken = (around - turning * middle).abs() > 2 * OUTLIER_ERROR * size
    columns = broken.double().mean(0) > 0.5
    if float(columns.double().mean()) > MOST_OUTLIERS:
        return None
    rows = broken[:, ~columns].double().mean(1) > MOST_OUTLIERS
    if not bool(columns.any() or rows.any()):
        return None
    edges = [-1, *rows.nonzero().flatten().tolist(), len(rows)]
    low, high = max(itertools.pairwise(edges), key=lambda run: run[1] - run[0])
    run = low + 1, high + 2
    return (*run, columns) if run[1] - run[0] >= _FEWEST_ROWS else None
