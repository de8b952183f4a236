"""Where the sines and cosines of the pairs stand in the columns of a table.

Every column c is sin or cos of position * base^-exponent(c). As published, the exponent of pair m is
2m/d: side by side (Vaswani et al. 2017, arXiv 1706.03762), sines first (tensor2tensor), or, for
RoPE (Su et al. 2021, arXiv 2104.09864), cosines and sines apart, each frequency once or for both
features of its pair. The others are mistakes seen in public code.
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

    form: one table, or cosines and sines of the same width. layout: of the pairs; None where each frequency
    occurs once. words: the order, for a sentence. fault: what is wrong with it, or "".
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
        interleaved = column.div(2, rounding_mode="floor") / pairs  # 0 0 1 1 ...
        half = (column % pairs) / pairs  # 0 1 2 ... 0 1 2 ...
        odd, second = column % 2 == 1, column >= pairs
        always = torch.ones(width, dtype=torch.bool)
        by_letter = {"h": half, "i": interleaved, "o": half, "n": half + 1 / pairs}
        if self.name in _JOINED:
            exponents = by_letter[self.name[-1]][: width // 2]
            last = column >= width // 2
            sines = last if self.name.startswith("joined") else ~last
            return Columns(sines, torch.cat((exponents, exponents)), 2 * pairs)
        if self.form == "cosines and sines":
            of_cosines = always if self.name.startswith("swapped") else ~always
            sines = torch.cat((of_cosines, ~of_cosines))
            exponents = torch.cat([by_letter[letter] for letter in self.name[-2:]])
            return Columns(sines, exponents, 2 * pairs)
        sines, exponents = {
            "interleaved": (~odd, interleaved),
            "half": (~second, half),
            "interleaved_swapped": (odd, interleaved),
            "cosines_first": (second, half),
            "column": (~odd, column / width),
            "next": (~odd, interleaved + odd / pairs),
            "mixed": (~odd, half),
            "cosines_half": (~always, half),
            "cosines_interleaved": (~always, interleaved),
            "cosines_once": (~always, half),
            "sines_half": (always, half),
            "sines_interleaved": (always, interleaved),
            "sines_once": (always, half),
        }[self.name]
        return Columns(sines, exponents, 2 * pairs)


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


MIN_ROWS = 2
LARGEST, SMALLEST = 1e30, 1e-30  # squares of numbers beyond these are no longer exact in float64


@dataclass(frozen=True, eq=False)
class TableInput:
    """A table in float64 on the CPU; of cosines and sines, the cosines' columns come first.

    width: columns of the table, or of the cosines alone. padding: number of first rows that are all
    zeros; `columns` includes them. blank (rows,): which later rows are all zeros.
    """

    columns: Float[Tensor, "t c"]
    form: Form
    width: int
    padding: int
    blank: Bool[Tensor, " t"]

    @property
    def longest_run(self) -> tuple[int, int]:
        """First row and end of the longest run of rows without padding and blank rows."""
        edges = [self.padding - 1, *torch.nonzero(self.blank).flatten().tolist(), len(self.blank)]
        runs = [(low + 1, high) for low, high in itertools.pairwise(edges)]
        return max(runs, key=lambda run: run[1] - run[0])

    @classmethod
    def of(cls, table: Tensor, sines: Tensor | None = None) -> "TableInput":
        """Read a table, a complex table (cos + i sin), (rows, pairs, 2), or cosines and sines.

        Axes of size 1 are dropped. Raises SchemeArgumentError unless the numbers are finite and there are
        two rows or more.
        """
        if not isinstance(table, Tensor):
            raise SchemeArgumentError(f"table must be a tensor, got {type(table).__name__}.")
        if table.is_complex():
            if sines is not None:
                raise SchemeArgumentError("A complex table has its sines in it: give no others.")
            table, sines = table.real, table.imag
        elif sines is None and (both := cosines_and_sines(table)) is not None:
            table, sines = both
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


def _numbers(name: str, tensor: Tensor) -> Float[Tensor, "t c"]:
    if not isinstance(tensor, Tensor) or not tensor.is_floating_point():
        raise SchemeArgumentError(f"{name} must hold floating-point numbers.")
    table = tensor.detach()
    while table.ndim > 2 and 1 in table.shape:
        table = table.squeeze(table.shape.index(1))
    if table.ndim != 2 or table.shape[1] < 1 or table.shape[0] < MIN_ROWS:
        raise SchemeArgumentError(
            f"{name} must be rows by columns, with {MIN_ROWS} rows or more, got shape "
            f"{tuple(tensor.shape)}."
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
