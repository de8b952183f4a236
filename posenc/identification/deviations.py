"""What departs from a formula in a table that it makes, and what else the numbers may be.

A whole table beside the formula found for it, with the few rows and columns that do not follow it.
"""

import itertools
import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from posenc.identification.columns import Given
from posenc.identification.frequency_fit import Guess, rounding
from posenc.identification.scalings import USUAL_BASES, ScaledGuess, ntk_bases
from posenc.identification.search import Fit, exponent_powers

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


_NEGATED = {
    (-1, 1.0): "Every sine is negated: angles run the other way.",
    (1, -1.0): "Every number is negated.",
    (-1, -1.0): "Every cosine is negated.",
}

_PADDING_TOKEN = 1  # fairseq's padding_idx, whose row it sets to zero
_MOST_LISTED = 5  # rows, or columns, in one sentence

Kind = Literal[
    "swapped",
    "wrong pairs",
    "sign",
    "exponent",
    "scale",
    "size",
    "start",
    "angles",
    "padding",
    "zero rows",
    "unexplained",
]


@dataclass(frozen=True)
class Deviation:
    """One way in which a table is not what its formula says. sentence: in words, with numbers."""

    kind: Kind
    sentence: str


class Reading(NamedTuple):
    """A usual base and the exponent of 1/base that together make the same numbers as an unusual base."""

    base: float
    exponent: str

    @property
    def tensor2tensor(self) -> bool:
        """Whether it is Tensor2Tensor's, where the last of d/2 pairs has the frequency 1/base."""
        return self.exponent == "2m/(d - 2)"


def other_reading(guess: Guess, width: int, within: float) -> Reading | None:
    """Return what makes the numbers of an unusual base, None where the base is usual or nothing does.

    within: the share by which another base would make the same numbers.
    """
    if guess.base in USUAL_BASES or isinstance(guess, ScaledGuess):
        return None
    return _meant(guess, 2 * guess.arrangement.pairs(width), within)


def deviations_of(
    compared: Compared, written: torch.dtype, taken: set[str], reading: Reading | None
) -> tuple[Deviation, ...]:
    """Return every way in which a table departs from the formula that fits it.

    written: the format of its numbers. taken: which of scale and size the scheme's config takes care
    of. reading: the usual base with another exponent.
    """
    given, fit = compared.given, compared.fit
    guess, arrangement = fit.guess, fit.guess.arrangement
    found: list[Deviation] = []
    if arrangement.fault:
        kind: Kind = "swapped" if "changed places" in arrangement.fault else "wrong pairs"
        found.append(Deviation(kind, f"{_sentence(arrangement.fault)} ({arrangement.words})."))
    if guess.signs != (1, 1.0):
        found.append(Deviation("sign", _NEGATED[guess.signs]))
    dim = 2 * arrangement.pairs(given.width)
    if reading is not None and not published(guess, reading):
        found.append(
            Deviation(
                "exponent",
                f"Base {guess.base:,.6g} is unusual: base {reading.base:,.6g} with the exponent "
                f"{reading.exponent} in place of 2m/d makes the same numbers.",
            )
        )
    if guess.scale != 1.0 and "scale" not in taken:
        shifted = _shifted(guess, dim)
        also_said = f", as by the exponent {shifted} in place of 2m/d" if shifted else ""
        found.append(
            Deviation(
                "exponent" if shifted else "scale",
                f"Every angle is multiplied by {guess.scale:.6g}{also_said}.",
            )
        )
    if abs(guess.size) != 1.0 and "size" not in taken:
        found.append(Deviation("size", f"Every number is multiplied by {abs(guess.size):.6g}."))
    first = guess.start - given.padding
    if given.padding:
        rows = "row is" if given.padding == 1 else f"{given.padding:,} rows are"
        found.append(Deviation("padding", f"The first {rows} all zeros, as padding is."))
    blank = [
        row
        for row in given.blank.nonzero().flatten().tolist()
        if not _is_zero(guess, row - given.padding, given.width)
    ]
    if blank:
        rows = f"Row {blank[0]:,} is"
        if len(blank) > 1:
            rows = f"{len(blank):,} rows, the first of them row {blank[0]:,}, are"
        if blank == [_PADDING_TOKEN]:
            found.append(Deviation("padding", f"{rows} all zeros, as that of a padding token is."))
        else:
            found.append(
                Deviation("zero rows", f"{rows} all zeros, as that of a padding token may be.")
            )
    if first:
        found.append(Deviation("start", f"Row 0 stands for position {first:,}, not for 0."))
    if fit.recipe.low:
        found.append(
            Deviation("angles", f"Made with {fit.recipe.words}, where float64 would be exact.")
        )
    latest = len(given.columns) + abs(guess.start)
    left = compared.others_largest > 4 * rounding(written, latest, max(1.0, abs(guess.size)))
    if compared.rows or compared.columns:
        found.append(Deviation("unexplained", _outliers(compared, alone=not left)))
    if left:
        row, column = compared.others_worst
        differs = "Made like that, it still differs" if fit.recipe.low else "Differs"
        found.append(
            Deviation(
                "unexplained",
                f"{differs} from the formula by up to {compared.others_largest:.2g}, most in row {row:,}, "
                f"column {column:,}.",
            )
        )
    return tuple(found)


def published(guess: Guess, reading: Reading | None) -> bool:
    """Whether models are published with these frequencies in this order: Tensor2Tensor's in halves."""
    ordered = guess.arrangement.name in ("half", "cosines_first")
    return ordered and reading is not None and reading.tensor2tensor


def _outliers(compared: Compared, *, alone: bool) -> str:
    """Say which rows and columns do not follow the formula; alone: whether all others do."""
    width = compared.given.width
    of = [f"{n:,}" if n < width else f"{n - width:,} of the sines" for n in compared.columns]
    which = (_listed("row", [f"{n:,}" for n in compared.rows]), _listed("column", of))
    one = len(compared.rows) + len(compared.columns) == 1
    return _sentence(
        f"{' and '.join(words for words in which if words)} {'does' if one else 'do'} not follow the "
        f"formula (largest difference {compared.largest:.2g}){'; all the rest does' if alone else ''}."
    )


def _listed(noun: str, which: list[str]) -> str:
    if len(which) > _MOST_LISTED:
        return f"{len(which):,} {noun}s (the first is {which[0]})"
    if len(which) > 1:
        return f"{noun}s {', '.join(which[:-1])} and {which[-1]}"
    return f"{noun} {which[0]}" if which else ""


def _meant(guess: Guess, dim: int, within: float) -> Reading | None:
    """Return a usual base with another exponent that makes the same ladder, if there is one.

    The same as far as the numbers tell bases apart: base 10,001 is not 100 squared.
    """
    close = min(1e-3, max(1e-9, 2 * within))
    for exponent, power in exponent_powers(dim)[1:]:
        for usual in USUAL_BASES[: _rank(guess.base)]:
            if math.isclose(guess.base, usual**power, rel_tol=close):
                return Reading(usual, exponent)
    return None


def _is_zero(guess: Guess, row: int, width: int) -> bool:
    """Whether the formula itself is 0 there, as sines alone are at position 0."""
    return row + guess.start == 0 and bool(guess.arrangement.columns(width).sines.all())


def _shifted(guess: Guess, dim: int) -> str:
    """Return the exponent in which pairs count from 1 or 1/2, if that is why all angles are smaller."""
    for shift, exponent in ((2, "2(m + 1)/d"), (1, "(2m + 1)/d")):
        if math.isclose(guess.scale, guess.base ** (-shift / dim), rel_tol=1e-5):
            return exponent
    return ""


def _rank(base: float) -> int:
    """Return how many bases are more usual than this one."""
    return USUAL_BASES.index(base) if base in USUAL_BASES else len(USUAL_BASES)


def also(guess: Guess, width: int, within: float, reading: Reading | None) -> tuple[str, ...]:
    """Return other descriptions of the same numbers."""
    arrangement, found = guess.arrangement, []
    dim = 2 * arrangement.pairs(width)
    name = arrangement.name
    if published(guess, reading):
        return (f"base {guess.base:,.6g} with the exponent 2m/d of Vaswani et al. 2017",)
    if name == "half":
        found.append("a rotary cache in one tensor, sines first (GPT-J)")
    if name == "cosines_first" and type(guess) is Guess:
        found.append("a sinusoidal table whose sines and cosines have changed places")
    if name == "interleaved_swapped":
        found.append(
            "a rotary cache in one tensor, the cosine and the sine of each pair side by side"
        )
    if math.isinf(within):
        found.append("the same with any other base, which one pair does not show")
        return tuple(found)
    meant = _meant(guess, dim, within)
    if meant is not None:
        found.append(f"base {meant[0]:,.6g} with the exponent {meant[1]} in place of 2m/d")
    shifted = _shifted(guess, dim)
    if arrangement.scheme == "rope" and shifted:
        found.append(f"base {guess.base:,.6g} with the exponent {shifted} in place of 2m/d")
    plain = type(guess) is Guess and guess.base not in USUAL_BASES
    if arrangement.scheme == "rope" and plain:
        found += [words for _, words in ntk_bases(dim, guess.base, USUAL_BASES[:3])]
    return tuple(found)


def _sentence(words: str) -> str:
    return words[0].upper() + words[1:]
