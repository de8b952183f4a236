"""How a table differs from the formula that fits it, and what else its numbers may be."""

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.identification.columns import SWAPPED, TableInput, longest_run
from posenc.identification.facts import size_of
from posenc.identification.frequency_fit import Hypothesis, Recipe, rounding
from posenc.identification.positions import Cause, cause_of
from posenc.identification.scalings import USUAL_BASES, ntk_bases, scaling_words
from posenc.identification.search import exponent_powers
from posenc.text import significant

OUTLIER_ERROR = 0.1  # root mean square over the formula's: a row or column beyond it is an outlier
MOST_OUTLIERS = 0.1  # of rows not all zeros, and of columns; with more, no formula is the table's
_MIN_RUN = 5  # rows that show whether columns are waves
_BLOCK = 2**20  # numbers of the table that are compared at once
_SAMPLED_ROWS = 256
_PADDING_TOKEN = 1  # fairseq's padding_idx, whose row it sets to zero
_MOST_LISTED = 5  # rows, or columns, in one sentence

Kind = Literal[
    "swapped", "wrong pairs", "sign", "exponent", "scale", "size", "start", "angles", "padding",
    "zero rows", "positions", "unexplained",
]  # fmt: skip


@dataclass(frozen=True)
class Deviation:
    """One way in which a table differs from its formula.

    word: of `clauses.deviation_sentence`, which says what the values are.
    """

    kind: Kind
    word: str
    values: tuple[Any, ...] = ()


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


class UsualBase(NamedTuple):
    """A usual base and the exponent of 1/base that together make the numbers of an unusual base."""

    base: float
    exponent: str


def usual_base(
    base: float, dim: int, uncertainty: float, candidates: tuple[float, ...] = USUAL_BASES
) -> UsualBase | None:
    """Return a usual base, and its exponent, that make the numbers of another base; None if none does.

    uncertainty: the relative change of the base that makes the same numbers: base 10,001 is not 100
    squared where the numbers separate both.
    """
    close = min(1e-3, max(1e-9, 2 * uncertainty))
    for exponent, power in exponent_powers(dim)[1:]:
        for usual in candidates:
            if math.isclose(base, usual**power, rel_tol=close):
                return UsualBase(usual, exponent)
    return None


def published(hypothesis: Hypothesis, usual: UsualBase | None) -> bool:
    """Whether published models have these frequencies in this order: Tensor2Tensor's in halves."""
    arrangement = hypothesis.arrangement
    ordered = arrangement.form == "table" and arrangement.order in ("s+c", "c+s")
    return ordered and usual is not None and usual.exponent == "2m/(d - 2)"


def deviations_of(
    comparison: Comparison, dtype: torch.dtype, scaled: bool, usual: UsualBase | None
) -> tuple[Deviation, ...]:
    """Return every way in which a table differs from the formula that fits it.

    dtype: the format of its numbers. scaled: whether the scheme's config contains the scale.
    usual: the usual base with another exponent.
    """
    table, hypothesis, recipe, others = (
        comparison.table, comparison.hypothesis, comparison.recipe, comparison.others,
    )  # fmt: skip
    arrangement, scale, size = hypothesis.arrangement, abs(hypothesis.scale), hypothesis.size
    deviations: list[Deviation] = []

    def add(kind: Kind, word: str, *values: Any) -> None:
        deviations.append(Deviation(kind, word, values))

    if arrangement.fault:
        kind: Kind = "swapped" if arrangement.fault == SWAPPED else "wrong pairs"
        add(kind, "order", arrangement)
    if hypothesis.scale < 0:
        add("sign", "sign")
    if usual is not None and not published(hypothesis, usual):
        add("exponent", "base", hypothesis.base, usual.base, usual.exponent)
    if scale != 1.0 and not scaled:
        if shifted := _shifted_exponent(hypothesis, dim_of(table, hypothesis)):
            add("exponent", "shifted exponent", scale, shifted)
        else:
            add("scale", "scale", scale)
    if hypothesis.config is not None:
        if (wrong := size_of(size, hypothesis.config.attention_scaling(), dtype)) is not None:
            add("size", "attention factor", wrong)
    elif size != 1.0:
        add("size", "size", size)
    if table.padding:
        add("padding", "padding", table.padding)
    if blank := [row for row in table.zeros.nonzero().flatten().tolist() if row >= table.padding]:
        is_token = blank == [_PADDING_TOKEN]
        add("padding" if is_token else "zero rows", "zero rows", len(blank), blank[0], is_token)
    if (cause := cause_of_rows(table.positions)) is not None:
        add("positions", "positions", cause)
    if first := hypothesis.start - table.padding:
        add("start", "start", first)
    if recipe.low:
        add("angles", "angles", recipe)
    places = table.places(torch.arange(len(table.columns))) + hypothesis.start
    latest = 1 + int(places.abs().max())
    differs = others.largest > 4 * rounding(dtype, latest, max(1.0, size))
    if comparison.rows or comparison.columns:
        outliers = comparison.rows, comparison.columns
        add("unexplained", "outliers", *outliers, table.width, comparison.all.largest, not differs)
    if differs:
        row, column = others.worst
        where = row, column, table.form, table.width
        add("unexplained", "difference", recipe.low, others.largest, *where)
    return tuple(deviations)


def cause_of_rows(positions: Int[Tensor, " t"] | None) -> Cause | None:
    """Return why rows do not stand for positions 0, 1, 2 ..., None where they do."""
    return None if positions is None else cause_of(positions, torch.arange(len(positions)))


def dim_of(table: TableInput, hypothesis: Hypothesis) -> int:
    """Return twice the number of pairs of a table."""
    return hypothesis.arrangement.columns(table.columns.shape[1]).dim


def _shifted_exponent(hypothesis: Hypothesis, dim: int) -> str:
    """Return the exponent that counts pairs from 1 or 1/2, if that is why all angles are smaller."""
    for shift, exponent in ((2, "2(m + 1)/d"), (1, "(2m + 1)/d")):
        if math.isclose(abs(hypothesis.scale), hypothesis.base ** (-shift / dim), rel_tol=1e-5):
            return exponent
    return ""


def other_descriptions(
    hypothesis: Hypothesis, dim: int, uncertainty: float, usual: UsualBase | None
) -> tuple[str, ...]:
    """Return other descriptions of the same numbers."""
    base, arrangement = hypothesis.base, hypothesis.arrangement
    if hypothesis.others:
        names = [f"{each.label} ({scaling_words(each)})" for each in hypothesis.others]
        more = len(names) - _MOST_LISTED
        return (*names[:_MOST_LISTED], *([f"one of {more:,} other scalings"] if more > 0 else []))
    rope, plain = arrangement.scheme == "rope", hypothesis.config is None
    if published(hypothesis, usual):
        return (f"base {significant(base, 6)} with the exponent 2m/d of Vaswani et al. 2017",)
    descriptions = [arrangement.also] if arrangement.also and plain else []
    if math.isinf(uncertainty):
        return (*descriptions, "the same with any other base, which one pair does not show")
    is_usual = base in USUAL_BASES
    more_usual = USUAL_BASES[: USUAL_BASES.index(base)] if is_usual else USUAL_BASES
    if other := usual_base(base, dim, uncertainty, more_usual):
        descriptions.append(
            f"base {significant(other.base, 6)} with the exponent {other.exponent} in place of 2m/d"
        )
    if rope and (shifted := _shifted_exponent(hypothesis, dim)):
        descriptions.append(
            f"base {significant(base, 6)} with the exponent {shifted} in place of 2m/d"
        )
    if rope and plain and not is_usual:
        descriptions += [words for _, words in ntk_bases(dim, base, USUAL_BASES[:3])]
    return tuple(descriptions)
