"""Where the sines and cosines of the pairs stand in the columns of a table.

Every column c is sin or cos of position * base^-exponent(c). As published, the exponent of pair m is
2m/d: side by side (Vaswani et al. 2017, arXiv 1706.03762), sines first (tensor2tensor), or, for
RoPE (Su et al. 2021, arXiv 2104.09864), cosines and sines apart, each frequency once or for both
features of its pair. The others are mistakes seen in public code.

Tables as they are given: one of sines and cosines, or cosines and sines, or complex numbers.
"""

import functools
import itertools
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from posenc import limits
from posenc.checkpoints.array_files import cosines_and_sines
from posenc.errors import SchemeArgumentError
from posenc.frequencies import Layout

Form = Literal["table", "cosines and sines"]


class Columns(NamedTuple):
    """Columns of a table: which are sines; exponents of 1/base of their frequencies; twice the pairs."""

    sines: Bool[Tensor, " c"]
    exponents: Float[Tensor, " c"]
    dim: int

    def at(self, index: Int[Tensor, " n"]) -> "Columns":
        """Return some of the columns."""
        return Columns(self.sines[index], self.exponents[index], self.dim)


@dataclass(frozen=True)
class Arrangement:
    """One order of columns.

    name: unique. form: what it is an order of: one table, or cosines beside sines of the same width.
    scheme: whose table this is. layout: of the pairs; None where each frequency stands once.
    words: the order as a sentence says it. fault: what is wrong with it, "" where nothing is.
    """

    name: str
    form: Form
    scheme: Literal["sinusoidal", "rope"]
    layout: Layout | None
    words: str
    fault: str = ""

    def fits(self, width: int) -> bool:
        """Whether a table of `width` columns can have this order."""
        if self.name in _ANY_WIDTH:
            return width >= 1
        return width >= 2 and width % (4 if self.name in _JOINED else 2) == 0

    def pairs(self, width: int) -> int:
        """Number of pairs in a table of `width` columns."""
        if self.name in _JOINED:
            return width // 4
        return width if self.name in _ONCE else (width + 1) // 2

    @functools.lru_cache(maxsize=128)  # noqa: B019 - there are as many of these as names below
    def columns(self, width: int) -> Columns:
        """Return what the columns are.

        width: of the table, or of the cosines alone (the columns are those of both, cosines first).
        """
        pairs = self.pairs(width)
        column = torch.arange(width, dtype=torch.float64)
        beside = torch.div(column, 2, rounding_mode="floor") / pairs  # 0 0 1 1 ...
        apart = (column % pairs) / pairs  # 0 1 2 ... 0 1 2 ...
        odd = column % 2 == 1
        second = column >= pairs
        one = torch.ones(width, dtype=torch.bool)
        sines, exponents = {
            "interleaved": (~odd, beside),
            "half": (~second, apart),
            "interleaved_swapped": (odd, beside),
            "cosines_first": (second, apart),
            "column": (~odd, column / width),
            "next": (~odd, beside + odd / pairs),
            "mixed": (~odd, apart),
            "cosines_half": (~one, apart),
            "cosines_interleaved": (~one, beside),
            "cosines_once": (~one, apart),
            "sines_half": (one, apart),
            "sines_interleaved": (one, beside),
            "sines_once": (one, apart),
        }.get(self.name, (one, apart))
        if self.name in _JOINED:
            part = torch.arange(width // 2, dtype=torch.float64)
            alike = self.layout == "half"
            each = (part % pairs if alike else part.div(2, rounding_mode="floor")) / pairs
            later = column >= width // 2
            sines = later if self.name.startswith("joined") else ~later
            return Columns(sines, torch.cat((each, each)), 2 * pairs)
        if self.form == "table":
            return Columns(sines, exponents, 2 * pairs)
        by_layout = {"h": apart, "i": beside, "o": apart, "n": apart + 1 / pairs}
        cosine_order, sine_order = self.name[-2], self.name[-1]
        swapped = self.name.startswith("swapped")
        return Columns(
            torch.cat((one if swapped else ~one, ~one if swapped else one)),
            torch.cat((by_layout[cosine_order], by_layout[sine_order])),
            2 * pairs,
        )


_WRONG_PAIRS = "cosines and sines of a pair differ in frequency"
_SWAPPED = "sines and cosines have changed places"

ARRANGEMENTS = (
    Arrangement("interleaved", "table", "sinusoidal", "interleaved", "sine and cosine side by side"),
    Arrangement("half", "table", "sinusoidal", "half", "all sines, then all cosines"),
    Arrangement("interleaved_swapped", "table", "sinusoidal", "interleaved",
                "cosine and sine side by side, the cosine first", _SWAPPED),
    Arrangement("column", "table", "sinusoidal", "interleaved",
                "sine and cosine side by side, each column with a frequency of its own", _WRONG_PAIRS),
    Arrangement("next", "table", "sinusoidal", "interleaved",
                "sine and cosine side by side, each cosine with the next pair's frequency",
                _WRONG_PAIRS),
    Arrangement("mixed", "table", "sinusoidal", "interleaved",
                "sine and cosine side by side, the frequencies in the order of halves", _WRONG_PAIRS),
    Arrangement("cosines_half", "table", "rope", "half", "cosines alone, halves repeated"),
    Arrangement("cosines_interleaved", "table", "rope", "interleaved",
                "cosines alone, neighbours repeated"),
    Arrangement("cosines_once", "table", "rope", None, "cosines alone, one for each pair"),
    Arrangement("sines_half", "table", "rope", "half", "sines alone, halves repeated"),
    Arrangement("sines_interleaved", "table", "rope", "interleaved",
                "sines alone, neighbours repeated"),
    Arrangement("sines_once", "table", "rope", None, "sines alone, one for each pair"),
    Arrangement("cosines_first", "table", "rope", None, "all cosines, then all sines"),
    Arrangement("joined_hh", "table", "rope", "half",
                "cosines, then sines, halves repeated, in one tensor"),
    Arrangement("joined_ii", "table", "rope", "interleaved",
                "cosines, then sines, neighbours repeated, in one tensor"),
    Arrangement("sines_first_hh", "table", "rope", "half",
                "sines, then cosines, halves repeated, in one tensor"),
    Arrangement("sines_first_ii", "table", "rope", "interleaved",
                "sines, then cosines, neighbours repeated, in one tensor"),
    Arrangement("cache_hh", "cosines and sines", "rope", "half",
                "cosines and sines, halves repeated"),
    Arrangement("cache_ii", "cosines and sines", "rope", "interleaved",
                "cosines and sines, neighbours repeated"),
    Arrangement("cache_oo", "cosines and sines", "rope", None,
                "cosines and sines, one of each for a pair"),
    Arrangement("swapped_hh", "cosines and sines", "rope", "half",
                "cosines and sines, halves repeated", _SWAPPED),
    Arrangement("swapped_ii", "cosines and sines", "rope", "interleaved",
                "cosines and sines, neighbours repeated", _SWAPPED),
    Arrangement("swapped_oo", "cosines and sines", "rope", None,
                "cosines and sines, one of each for a pair", _SWAPPED),
    Arrangement("cache_hi", "cosines and sines", "rope", None,
                "cosines in halves, sines in neighbours", _WRONG_PAIRS),
    Arrangement("cache_ih", "cosines and sines", "rope", None,
                "cosines in neighbours, sines in halves", _WRONG_PAIRS),
    Arrangement("cache_no", "cosines and sines", "rope", None,
                "one cosine and sine for a pair, the cosine with the next pair's frequency",
                _WRONG_PAIRS),
)  # fmt: skip
_ONCE = ("cosines_once", "sines_once", "cache_oo", "swapped_oo", "cache_no")
_ANY_WIDTH = (*_ONCE, "interleaved")
_JOINED = ("joined_hh", "joined_ii", "sines_first_hh", "sines_first_ii")


FEWEST_ROWS = 2
LARGEST, SMALLEST = 1e30, 1e-30  # beyond these, squares leave float64 or mean nothing


@dataclass(frozen=True, eq=False)
class Given:
    """A table as columns of float64 on the CPU, cosines before sines where it is both.

    columns: (rows, c). form: what they are. width: columns of the table, or of the cosines alone.
    padding: how many of the first rows hold nothing but zeros; they are in `columns`, too. blank (rows,):
    which later rows do, as fairseq's row of its padding token.
    """

    columns: Float[Tensor, "t c"]
    form: Form
    width: int
    padding: int
    blank: Bool[Tensor, " t"]

    @property
    def longest(self) -> tuple[int, int]:
        """The longest run of rows after the padding without a blank one: its first row, its end."""
        edges = [self.padding - 1, *torch.nonzero(self.blank).flatten().tolist(), len(self.blank)]
        runs = [(low + 1, high) for low, high in itertools.pairwise(edges)]
        return max(runs, key=lambda run: run[1] - run[0])

    @classmethod
    def of(cls, table: Tensor, sines: Tensor | None = None) -> "Given":
        """Read a table, a complex one (cos + i sin), or cosines and sines; axes of size 1 are dropped.

        A table (rows, pairs, 2) holds the cosine and the sine of every pair, as torchtune keeps them.
        Raises SchemeArgumentError for what is no table of finite numbers with two rows or more.
        """
        if not isinstance(table, Tensor):
            raise SchemeArgumentError(f"table must be a tensor, got {type(table).__name__}.")
        if table.is_complex():
            if sines is not None:
                raise SchemeArgumentError("A complex table has its sines in it: give no others.")
            table, sines = table.real, table.imag
        elif sines is None and (apart := cosines_and_sines(table)) is not None:
            table, sines = apart
        parts = [_numbers("table", table)]
        if sines is not None:
            parts.append(_numbers("sines", sines))
            if parts[0].shape != parts[1].shape:
                raise SchemeArgumentError(
                    "Cosines and sines must have one shape, got "
                    f"{tuple(parts[0].shape)} and {tuple(parts[1].shape)}."
                )
        columns = torch.cat(parts, 1)
        zeros = (columns == 0).all(1)
        padding = int(zeros.long().cumprod(0).sum())
        blank = zeros & (torch.arange(len(zeros)) >= padding)
        form: Form = "table" if sines is None else "cosines and sines"
        return cls(columns, form, parts[0].shape[1], padding, blank)


def _numbers(name: str, given: Tensor) -> Float[Tensor, "t c"]:
    if not isinstance(given, Tensor) or not given.is_floating_point():
        raise SchemeArgumentError(f"{name} must hold floating-point numbers.")
    table = given.detach()
    while table.ndim > 2 and 1 in table.shape:
        table = table.squeeze(table.shape.index(1))
    if table.ndim != 2 or table.shape[1] < 1 or table.shape[0] < FEWEST_ROWS:
        raise SchemeArgumentError(
            f"{name} must be rows by columns, with {FEWEST_ROWS} rows or more, got shape "
            f"{tuple(given.shape)}."
        )
    if table.numel() > limits.MAX_TENSOR_ELEMENTS:
        raise SchemeArgumentError(
            f"{name} may hold {limits.MAX_TENSOR_ELEMENTS:,} numbers, got {table.numel():,}."
        )
    numbers = table.to("cpu", torch.float64)
    if len(bad := (~numbers.isfinite()).nonzero()):
        row, column = bad[0].tolist()
        raise SchemeArgumentError(
            f"{name} must be finite, but it holds NaN or infinity, first in row {row:,}, column {column:,}."
        )
    largest = float(numbers.abs().max())
    if largest > LARGEST:
        raise SchemeArgumentError(
            f"{name} may hold numbers up to {LARGEST:g}, as no sine times a factor exceeds; this holds "
            f"{largest:.2g}."
        )
    return numbers
