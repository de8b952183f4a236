"""How a table differs from the formula that fits it, and what else its numbers may be."""

import itertools
import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from posenc.identification.columns import TableInput
from posenc.identification.frequency_fit import Hypothesis, rounding
from posenc.identification.scalings import USUAL_BASES, ScaledHypothesis, ntk_bases
from posenc.identification.search import Fit, exponent_powers

OUTLIER_ERROR = 0.1  # root mean square over the formula's: a row or column beyond it is an outlier
MOST_OUTLIERS = 0.1  # of the rows, and of the columns; with more, the formula is not the table's
_BLOCK = 2**20  # numbers of the table that are compared at once
_SAMPLED_ROWS = 256
_MIN_RUN = 5  # rows that show whether columns are waves
_PADDING_TOKEN = 1  # fairseq's padding_idx, whose row it sets to zero
_MOST_LISTED = 5  # rows, or columns, in one sentence
_NEGATED = {
    (-1, 1.0): "Every sine is negated: angles run the other way.",
    (1, -1.0): "Every number is negated.",
    (-1, -1.0): "Every cosine is negated.",
}

Kind = Literal[
    "swapped", "wrong pairs", "sign", "exponent", "scale", "size", "start", "angles", "padding",
    "zero rows", "unexplained",
]  # fmt: skip


@dataclass(frozen=True)
class Deviation:
    """One way in which a table differs from its formula. sentence: in words, with numbers."""

    kind: Kind
    sentence: str


class Differences:
    """Root mean square and largest of differences, added block by block."""

    def __init__(self) -> None:
        self.error, self.power, self.largest, self.worst = 0.0, 0.0, -1.0, (0, 0)

    def add(self, off: Float[Tensor, "t c"], part: Float[Tensor, "t c"], row: int) -> None:
        """Add differences of a part of the table that begins at a row."""
        # By NumPy, whose sum is the same on any number of threads.
        self.error += float(off.square().numpy().sum())
        self.power += float(part.square().numpy().sum())
        if float(off.max()) > self.largest:
            self.largest, at = float(off.max()), int(off.argmax())
            self.worst = (row + at // off.shape[1], at % off.shape[1])

    @property
    def residual(self) -> float:
        """Root mean square of the differences over that of the table."""
        return math.sqrt(self.error / max(self.power, 1e-300))


class Comparison(NamedTuple):
    """Differences between a table and a formula.

    all: of every row and column; others: without the outliers. by_column (c,): the largest in each
    column. rows, columns: the outliers, none if they are more than `MOST_OUTLIERS`.
    """

    table: TableInput
    fit: Fit
    all: Differences
    others: Differences
    by_column: Float[Tensor, " c"]
    rows: tuple[int, ...]
    columns: tuple[int, ...]


def compare(table: TableInput, fit: Fit) -> Comparison:
    """Compare every row after the padding with a formula; rows of zeros count as no difference."""
    padding = table.padding
    body, blank = table.columns[padding:], table.blank[padding:]
    limit = OUTLIER_ERROR * abs(fit.hypothesis.size) * math.sqrt(0.5)
    outlying_columns = _outlying_columns(table, fit, limit)
    by_column = torch.zeros(body.shape[1], dtype=torch.float64)
    every, others, rows = Differences(), Differences(), []
    step = max(1, _BLOCK // body.shape[1])
    for begin in range(0, len(body), step):
        part = body[begin : begin + step]
        off = _differences(fit, table, torch.arange(begin, begin + len(part)))
        off[blank[begin : begin + step]] = 0.0
        every.add(off, part, padding + begin)
        by_column = torch.maximum(by_column, off.amax(0))
        outlying = off[:, ~outlying_columns].square().mean(1).sqrt() > limit
        rows += (outlying.nonzero().flatten() + padding + begin).tolist()
        excluded = outlying.unsqueeze(1) | outlying_columns
        others.add(off.masked_fill(excluded, 0.0), part.masked_fill(excluded, 0.0), padding + begin)
    columns = outlying_columns.nonzero().flatten().tolist()
    if len(rows) > MOST_OUTLIERS * len(body):
        rows, columns, others = [], [], every
    return Comparison(table, fit, every, others, by_column, tuple(rows), tuple(columns))


def _differences(fit: Fit, table: TableInput, index: Tensor) -> Float[Tensor, "t c"]:
    columns = fit.hypothesis.arrangement.columns(table.width)
    values = fit.recipe.values(fit.hypothesis, index.double(), columns)
    return (values - table.columns[table.padding :][index]).abs()


def _outlying_columns(table: TableInput, fit: Fit, limit: float) -> Bool[Tensor, " c"]:
    """Return the columns that differ in most rows, none if they are too many."""
    last = len(table.columns) - table.padding - 1
    index = torch.linspace(0, last, min(last + 1, _SAMPLED_ROWS)).round().long()
    index = index[~table.blank[table.padding :][index]]
    outlying = _differences(fit, table, index).median(0).values > limit
    few = int(outlying.sum()) <= MOST_OUTLIERS * len(outlying)
    return outlying if few else torch.zeros_like(outlying)


def consistent_run(table: Float[Tensor, "t c"]) -> tuple[int, int, Bool[Tensor, " c"]] | None:
    """Return the longest run of rows whose columns are waves, and which columns are none.

    That is its first row, the row after its last, and a mask of columns. A wave obeys
    x(p + 1) + x(p - 1) = 2 cos(theta) x(p) at every row p. None if no row or column breaks that rule, if
    more than `MOST_OUTLIERS` of the columns do, or if the run has fewer than 5 rows.
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
    edges = [-1, *rows.nonzero().flatten().tolist(), len(rows)]
    low, high = max(itertools.pairwise(edges), key=lambda run: run[1] - run[0])
    first, end = low + 1, high + 2
    return (first, end, columns) if end - first >= _MIN_RUN else None


class Reading(NamedTuple):
    """A usual base and the exponent of 1/base that together make the numbers of an unusual base."""

    base: float
    exponent: str

    @property
    def tensor2tensor(self) -> bool:
        """Whether it is Tensor2Tensor's, where the last of d/2 pairs has the frequency 1/base."""
        return self.exponent == "2m/(d - 2)"


def other_reading(hypothesis: Hypothesis, width: int, uncertainty: float) -> Reading | None:
    """Return what makes the numbers of an unusual base, None if the base is usual or nothing does.

    uncertainty: the relative change of the base that makes the same numbers: base 10,001 is not 100
    squared where the numbers separate both.
    """
    base = hypothesis.base
    if base in USUAL_BASES or isinstance(hypothesis, ScaledHypothesis):
        return None
    return _reading(base, 2 * hypothesis.arrangement.pairs(width), uncertainty, USUAL_BASES)


def _reading(
    base: float, dim: int, uncertainty: float, usual_bases: tuple[float, ...]
) -> Reading | None:
    close = min(1e-3, max(1e-9, 2 * uncertainty))
    for exponent, power in exponent_powers(dim)[1:]:
        for usual in usual_bases:
            if math.isclose(base, usual**power, rel_tol=close):
                return Reading(usual, exponent)
    return None


def published(hypothesis: Hypothesis, reading: Reading | None) -> bool:
    """Whether published models have these frequencies in this order: Tensor2Tensor's in halves."""
    ordered = hypothesis.arrangement.name in ("half", "cosines_first")
    return ordered and reading is not None and reading.tensor2tensor


def deviations_of(
    comparison: Comparison, dtype: torch.dtype, in_config: set[str], reading: Reading | None
) -> tuple[Deviation, ...]:
    """Return every way in which a table differs from the formula that fits it.

    dtype: the format of its numbers. in_config: which of scale and size the scheme's config contains.
    reading: the usual base with another exponent.
    """
    table, fit, others = comparison.table, comparison.fit, comparison.others
    hypothesis, arrangement = fit.hypothesis, fit.hypothesis.arrangement
    deviations: list[Deviation] = []

    def add(kind: Kind, sentence: str) -> None:
        deviations.append(Deviation(kind, sentence[0].upper() + sentence[1:]))

    if arrangement.fault:
        swapped = "changed places" in arrangement.fault
        add("swapped" if swapped else "wrong pairs", f"{arrangement.fault} ({arrangement.words}).")
    if hypothesis.signs != (1, 1.0):
        add("sign", _NEGATED[hypothesis.signs])
    if reading is not None and not published(hypothesis, reading):
        add(
            "exponent",
            f"Base {hypothesis.base:,.6g} is unusual: base {reading.base:,.6g} with the exponent "
            f"{reading.exponent} in place of 2m/d makes the same numbers.",
        )
    if hypothesis.scale != 1.0 and "scale" not in in_config:
        shifted = _shifted_exponent(hypothesis, 2 * arrangement.pairs(table.width))
        reason = f", as by the exponent {shifted} in place of 2m/d" if shifted else ""
        add(
            "exponent" if shifted else "scale",
            f"Every angle is multiplied by {hypothesis.scale:.6g}{reason}.",
        )
    if abs(hypothesis.size) != 1.0 and "size" not in in_config:
        add("size", f"Every number is multiplied by {abs(hypothesis.size):.6g}.")
    if table.padding:
        rows = "row is" if table.padding == 1 else f"{table.padding:,} rows are"
        add("padding", f"The first {rows} all zeros, as padding is.")
    if blank := _blank_rows(table, hypothesis):
        rows = f"Row {blank[0]:,} is"
        if len(blank) > 1:
            rows = f"{len(blank):,} rows, the first of them row {blank[0]:,}, are"
        if blank == [_PADDING_TOKEN]:
            add("padding", f"{rows} all zeros, as that of a padding token is.")
        else:
            add("zero rows", f"{rows} all zeros, as that of a padding token may be.")
    if first := hypothesis.start - table.padding:
        add("start", f"Row 0 stands for position {first:,}, not for 0.")
    if fit.recipe.low:
        add("angles", f"Made with {fit.recipe.words}, where float64 would be exact.")
    latest = len(table.columns) + abs(hypothesis.start)
    differs = others.largest > 4 * rounding(dtype, latest, max(1.0, abs(hypothesis.size)))
    if comparison.rows or comparison.columns:
        add("unexplained", _outliers(comparison, only=not differs))
    if differs:
        row, column = others.worst
        verb = "Made like that, it still differs" if fit.recipe.low else "Differs"
        add(
            "unexplained",
            f"{verb} from the formula by up to {others.largest:.2g}, most in row {row:,}, "
            f"column {column:,}.",
        )
    return tuple(deviations)


def _blank_rows(table: TableInput, hypothesis: Hypothesis) -> list[int]:
    """Return the rows of zeros but for position 0 of sines, where the formula is 0, too."""
    sines_only = bool(hypothesis.arrangement.columns(table.width).sines.all())
    rows = table.blank.nonzero().flatten().tolist()
    return [row for row in rows if not (sines_only and row - table.padding + hypothesis.start == 0)]


def _outliers(comparison: Comparison, *, only: bool) -> str:
    """Return which rows and columns do not follow the formula; only: whether all others do."""
    width = comparison.table.width
    names = [f"{n:,}" if n < width else f"{n - width:,} of the sines" for n in comparison.columns]
    lists = (_listed("row", [f"{n:,}" for n in comparison.rows]), _listed("column", names))
    single = len(comparison.rows) + len(comparison.columns) == 1
    return (
        f"{' and '.join(words for words in lists if words)} {'does' if single else 'do'} not follow the "
        f"formula (largest difference {comparison.all.largest:.2g}){'; all the rest does' if only else ''}."
    )


def _listed(noun: str, names: list[str]) -> str:
    if len(names) > _MOST_LISTED:
        return f"{len(names):,} {noun}s (the first is {names[0]})"
    if len(names) > 1:
        return f"{noun}s {', '.join(names[:-1])} and {names[-1]}"
    return f"{noun} {names[0]}" if names else ""


def _shifted_exponent(hypothesis: Hypothesis, dim: int) -> str:
    """Return the exponent that counts pairs from 1 or 1/2, if that is why all angles are smaller."""
    for shift, exponent in ((2, "2(m + 1)/d"), (1, "(2m + 1)/d")):
        if math.isclose(hypothesis.scale, hypothesis.base ** (-shift / dim), rel_tol=1e-5):
            return exponent
    return ""


def other_descriptions(
    hypothesis: Hypothesis, width: int, uncertainty: float, reading: Reading | None
) -> tuple[str, ...]:
    """Return other descriptions of the same numbers."""
    base, rope = hypothesis.base, hypothesis.arrangement.scheme == "rope"
    dim, name = 2 * hypothesis.arrangement.pairs(width), hypothesis.arrangement.name
    plain = type(hypothesis) is Hypothesis
    if published(hypothesis, reading):
        return (f"base {base:,.6g} with the exponent 2m/d of Vaswani et al. 2017",)
    descriptions = []
    if name == "half":
        descriptions.append("a rotary cache in one tensor, sines first (GPT-J)")
    if name == "cosines_first" and plain:
        descriptions.append("a sinusoidal table whose sines and cosines have changed places")
    if name == "interleaved_swapped":
        descriptions.append(
            "a rotary cache in one tensor, the cosine and the sine of each pair side by side"
        )
    if math.isinf(uncertainty):
        return (*descriptions, "the same with any other base, which one pair does not show")
    usual = base in USUAL_BASES
    more_usual = USUAL_BASES[: USUAL_BASES.index(base)] if usual else USUAL_BASES
    if intended := _reading(base, dim, uncertainty, more_usual):
        descriptions.append(
            f"base {intended.base:,.6g} with the exponent {intended.exponent} in place of 2m/d"
        )
    if rope and (shifted := _shifted_exponent(hypothesis, dim)):
        descriptions.append(f"base {base:,.6g} with the exponent {shifted} in place of 2m/d")
    if rope and plain and not usual:
        descriptions += [words for _, words in ntk_bases(dim, base, USUAL_BASES[:3])]
    return tuple(descriptions)
