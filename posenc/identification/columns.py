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
    frequency occurs once. fault: what is wrong with it: sines and cosines have changed places, or those of
    one pair differ in frequency. also: what else has these numbers in this order: a rotary cache, or a
    sinusoidal table whose sines and cosines have changed places. `order_words` has the words for each.
    """

    order: str
    form: Form
    scheme: Literal["sinusoidal", "rope"]
    layout: Layout | None
    fault: Literal["swapped", "wrong pairs"] | None = None
    also: Literal["cache", "swapped table"] | None = None

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


_TABLE: Form = "table"
_CACHE: Form = "cosines and sines"

ARRANGEMENTS = (
    Arrangement("sc", _TABLE, "sinusoidal", "interleaved"),
    Arrangement("s+c", _TABLE, "sinusoidal", "half", also="cache"),
    Arrangement("sh", _TABLE, "sinusoidal", "interleaved", "wrong pairs"),
    Arrangement("sn", _TABLE, "sinusoidal", "interleaved", "wrong pairs"),
    Arrangement("SC", _TABLE, "sinusoidal", "interleaved", "wrong pairs"),
    Arrangement("c+c", _TABLE, "rope", "half"),
    Arrangement("cc", _TABLE, "rope", "interleaved"),
    Arrangement("c", _TABLE, "rope", None),
    Arrangement("s+s", _TABLE, "rope", "half"),
    Arrangement("ss", _TABLE, "rope", "interleaved"),
    Arrangement("s", _TABLE, "rope", None),
    Arrangement("c+s", _TABLE, "rope", None, also="swapped table"),
    Arrangement("cs", _TABLE, "rope", None, also="swapped table"),
    Arrangement("c+c+s+s", _TABLE, "rope", "half"),
    Arrangement("cc+ss", _TABLE, "rope", "interleaved"),
    Arrangement("s+s+c+c", _TABLE, "rope", "half"),
    Arrangement("ss+cc", _TABLE, "rope", "interleaved"),
    Arrangement("c+c+s+s", _CACHE, "rope", "half"),
    Arrangement("cc+ss", _CACHE, "rope", "interleaved"),
    Arrangement("c+s", _CACHE, "rope", None),
    Arrangement("s+s+c+c", _CACHE, "rope", "half", "swapped"),
    Arrangement("ss+cc", _CACHE, "rope", "interleaved", "swapped"),
    Arrangement("s+c", _CACHE, "rope", None, "swapped"),
    Arrangement("c+c+ss", _CACHE, "rope", None, "wrong pairs"),
    Arrangement("cc+s+s", _CACHE, "rope", None, "wrong pairs"),
    Arrangement("n+s", _CACHE, "rope", None, "wrong pairs"),
)


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
