"""Tables as they are given: one of sines and cosines, or cosines and sines, or complex numbers."""

import itertools
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from posenc import limits
from posenc.errors import SchemeArgumentError
from posenc.identification.arrangements import Form
from posenc.interop.number_tables import cosines_and_sines

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
