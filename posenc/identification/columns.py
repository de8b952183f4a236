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
from posenc.hook_arguments import is_real, type_and_shape

Form = Literal["table", "cosines and sines"]


class Columns(NamedTuple):
    """Columns of a table: which are sines; exponents of 1/base of their frequencies; twice the pairs."""

    sines: Bool[Tensor, " c"]
    exponents: Float[Tensor, " c"]
    dim: int

    def at(self, index: Int[Tensor, " n"]) -> "Columns":
        """Return some of the columns."""
        return Columns(self.sines[index], self.exponents[index], self.dim)


_SHIFTS = {"s": 0.0, "c": 0.0, "h": 0.5, "n": 1.0}  # of the pair that a letter stands for


@dataclass(frozen=True)
class Arrangement:
    """One order of columns.

    order: blocks of columns, each with a column of every letter for one pair after the other: s the sine,
    c the cosine, h and n the cosines of pairs m + 1/2 and m + 1; in capitals, the frequencies are those of
    halves. form: one table, or cosines and sines of the same width. layout: of the pairs; None if each
    frequency occurs once. words: the order, for a sentence. fault: what is wrong with it, or "". also: what
    else has these numbers in this order, or "".
    """

    order: str
    form: Form
    scheme: Literal["sinusoidal", "rope"]
    layout: Layout | None
    words: str
    fault: str = ""
    also: str = ""

    def fits(self, count: int) -> bool:
        """Whether `count` columns, of cosines and sines together, can have this order."""
        return count >= 1 if self.order == "sc" else count % self._per_pair == 0

    @property
    def _per_pair(self) -> int:
        return len(self.order.replace("+", ""))

    @functools.lru_cache(maxsize=128)  # noqa: B019 - there are as many of these as orders below
    def columns(self, count: int) -> Columns:
        """Return what `count` columns are."""
        pairs = -(-count // self._per_pair)
        m = torch.arange(pairs, dtype=torch.float64)
        exponents, sines = [], []
        for block in self.order.split("+"):
            shifted = torch.stack([m + _SHIFTS[letter] for letter in block.lower()])
            exponents.append((shifted if block.isupper() else shifted.T).flatten())
            sines.append(torch.tensor([letter in "sS" for letter in block]).repeat(pairs))
        return Columns(torch.cat(sines)[:count], torch.cat(exponents)[:count] / pairs, 2 * pairs)


def _table(
    order: str, layout: Layout | None, words: str, fault: str = "", also: str = ""
) -> Arrangement:
    return Arrangement(order, "table", "sinusoidal", layout, words, fault, also)


def _rope(order: str, layout: Layout | None, words: str, also: str = "") -> Arrangement:
    return Arrangement(order, "table", "rope", layout, words, also=also)


def _cache(order: str, layout: Layout | None, words: str, fault: str = "") -> Arrangement:
    return Arrangement(order, "cosines and sines", "rope", layout, words, fault)


WRONG_PAIRS = "cosines and sines of a pair differ in frequency"
SWAPPED = "sines and cosines have changed places"
_SWAPPED_TABLE = f"a sinusoidal table whose {SWAPPED}"

ARRANGEMENTS = (
    _table("sc", "interleaved", "sine and cosine side by side"),
    _table("s+c", "half", "all sines, then all cosines",
           also="a rotary cache in one tensor, sines first (GPT-J)"),
    _table("sh", "interleaved", "sine and cosine side by side, each column with a frequency of its own",
           WRONG_PAIRS),
    _table("sn", "interleaved", "sine and cosine side by side, each cosine with the next pair's frequency",
           WRONG_PAIRS),
    _table("SC", "interleaved", "sine and cosine side by side, the frequencies in the order of halves",
           WRONG_PAIRS),
    _rope("c+c", "half", "cosines alone, halves repeated"),
    _rope("cc", "interleaved", "cosines alone, neighbours repeated"),
    _rope("c", None, "cosines alone, one for each pair"),
    _rope("s+s", "half", "sines alone, halves repeated"),
    _rope("ss", "interleaved", "sines alone, neighbours repeated"),
    _rope("s", None, "sines alone, one for each pair"),
    _rope("c+s", None, "all cosines, then all sines", _SWAPPED_TABLE),
    _rope("cs", None, "cosine and sine of each pair side by side", _SWAPPED_TABLE),
    _rope("c+c+s+s", "half", "cosines, then sines, halves repeated, in one tensor"),
    _rope("cc+ss", "interleaved", "cosines, then sines, neighbours repeated, in one tensor"),
    _rope("s+s+c+c", "half", "sines, then cosines, halves repeated, in one tensor"),
    _rope("ss+cc", "interleaved", "sines, then cosines, neighbours repeated, in one tensor"),
    _cache("c+c+s+s", "half", "cosines and sines, halves repeated"),
    _cache("cc+ss", "interleaved", "cosines and sines, neighbours repeated"),
    _cache("c+s", None, "cosines and sines, one of each for a pair"),
    _cache("s+s+c+c", "half", "cosines and sines, halves repeated", SWAPPED),
    _cache("ss+cc", "interleaved", "cosines and sines, neighbours repeated", SWAPPED),
    _cache("s+c", None, "cosines and sines, one of each for a pair", SWAPPED),
    _cache("c+c+ss", None, "cosines in halves, sines in neighbours", WRONG_PAIRS),
    _cache("cc+s+s", None, "cosines in neighbours, sines in halves", WRONG_PAIRS),
    _cache("n+s", None, "one cosine and sine for a pair, the cosine with the next pair's frequency",
           WRONG_PAIRS),
)  # fmt: skip


MIN_ROWS = 2
LARGEST, SMALLEST = 1e30, 1e-30  # squares of numbers beyond these are no longer exact in float64


@dataclass(frozen=True, eq=False)
class TableInput:
    """A table in float64 on the CPU; of cosines and sines, the cosines' columns come first.

    width: columns of the table, or of the cosines alone. zeros (rows,): which rows are all zeros.
    padding: how many of them come first. positions (rows,): of the rows, None where they rise by 1 after
    the padding.
    """

    columns: Float[Tensor, "t c"]
    form: Form
    width: int
    zeros: Bool[Tensor, " t"]
    padding: int
    positions: Int[Tensor, " t"] | None = None

    def places(self, rows: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
        """Return the positions of some rows, before the first position of a formula is added.

        A row that stands for no position is compared with position 0, from which it differs.
        """
        if self.positions is None:
            return rows - self.padding
        places = self.positions[rows]
        return places.masked_fill(places < -limits.MAX_POSITION, 0)

    @classmethod
    def of(cls, table: Tensor, sines: Tensor | None = None) -> "TableInput":
        """Read a table, a complex table (cos + i sin), (rows, pairs, 2), or cosines and sines.

        Axes of size 1 are dropped. Raises SchemeArgumentError unless the numbers are finite and there are
        two rows or more.
        """
        if not isinstance(table, Tensor) or table.layout != torch.strided:
            raise SchemeArgumentError(f"table must be a dense tensor, got {type_and_shape(table)}.")
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
        form: Form = "table" if sines is None else "cosines and sines"
        return cls(columns, form, parts[0].shape[1], zeros, padding)

    def rows(self, kept: Bool[Tensor, " t"]) -> "TableInput":
        """Return some of the rows."""
        zeros = self.zeros[kept]
        padding = int(zeros.long().cumprod(0).sum())
        return TableInput(self.columns[kept], self.form, self.width, zeros, padding)


def column_words(form: Form, width: int, column: int) -> str:
    """Return the words for a column, which of two tables is a column of the cosines or of the sines.

    width: of one of the tables. column: counted over both.
    """
    if form == "table":
        return f"column {column:,}"
    part = "sines" if column >= width else "cosines"
    return f"column {column % width:,} of the {part}"


def longest_run(excluded: Bool[Tensor, " t"]) -> tuple[int, int]:
    """Return the first row and the end of the longest run of rows that are not excluded."""
    edges = [-1, *excluded.nonzero().flatten().tolist(), len(excluded)]
    low, high = max(itertools.pairwise(edges), key=lambda run: run[1] - run[0])
    return low + 1, high


def _numbers(name: str, tensor: Tensor) -> Float[Tensor, "t c"]:
    if not is_real(tensor):
        raise SchemeArgumentError(
            f"{name} must be a tensor of floating-point numbers, got {type_and_shape(tensor)}."
        )
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
