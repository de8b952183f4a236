"""The values of one matrix: a curve by offset, a triangle, waves or in full, whatever is smallest.

NaN means "no value here". Nothing is rounded after float32.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt
from jaxtyping import Float
from torch import Tensor

from posenc.errors import SchemeArgumentError

Array = npt.NDArray[np.float32]
CLOSE = 2.0**-23  # a float32 near 1 and its neighbour


def float32(values: npt.ArrayLike | Tensor) -> Array:
    """Return a read-only contiguous float32 copy; float64 is rounded once, to nearest."""
    if isinstance(values, Tensor):
        values = values.detach().cpu().float().numpy()
    # C order also for a transposed input: the bytes are sent as they lie.
    array = np.array(values, dtype=np.float32, order="C")
    array.setflags(write=False)
    return array


@dataclass(frozen=True, eq=False)
class Curve:
    """A stationary (length, length) matrix: entry (i, j) is `values[j - i + length - 1]`.

    `values` is (2 length - 1,), by offset = key minus query from -(length - 1) to length - 1.
    """

    values: Array
    length: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", float32(self.values))

    @classmethod
    def from_tensor(cls, curve: Float[Tensor, " offsets"]) -> Self:
        """Make a curve from its (2 T - 1,) values by offset; the length follows from them."""
        return cls(float32(curve), (len(curve) + 1) // 2)

    @property
    def shape(self) -> tuple[int, int]:
        return self.length, self.length

    def dense(self) -> Array:
        """Return the (length, length) matrix that the browser draws."""
        position = np.arange(self.length)
        return self.values[position[None, :] - position[:, None] + self.length - 1]


@dataclass(frozen=True, eq=False)
class Triangle:
    """A symmetric (length, length) matrix: entry (i, j <= i) is `values[i (i + 1) / 2 + j]`.

    `values` is (length (length + 1) / 2,), the lower triangle row by row.
    """

    values: Array
    length: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", float32(self.values))

    @property
    def shape(self) -> tuple[int, int]:
        return self.length, self.length

    def dense(self) -> Array:
        """Return the (length, length) matrix that the browser draws."""
        matrix = np.empty(self.shape, np.float32)
        row, column = np.tril_indices(self.length)
        matrix[row, column] = matrix[column, row] = self.values
        return matrix


@dataclass(frozen=True, eq=False)
class Full:
    """Any (rows, columns) matrix, every value sent."""

    values: Array

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", float32(self.values))

    @classmethod
    def from_tensor(cls, matrix: Float[Tensor, "rows columns"]) -> Self:
        """Make a full matrix from a tensor of any float dtype, on any device."""
        return cls(float32(matrix))

    @property
    def shape(self) -> tuple[int, int]:
        return self.values.shape[0], self.values.shape[1]

    def dense(self) -> Array:
        """Return the (rows, columns) matrix that the browser draws."""
        return self.values


@dataclass(frozen=True, eq=False)
class Waves:
    """A (rows, columns) table: entry (i, j) is the sine or cosine of i times the angle of column j.

    angles: (columns,) radians per row. sines: (columns,) whether a column is a sine. Only these travel:
    the browser computes the sines in float64, as here, so that the last bit may differ.
    """

    rows: int
    angles: npt.NDArray[np.float64]
    sines: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, table: Array, angles: npt.ArrayLike, sines: npt.ArrayLike) -> Self | None:
        """Return this form of a (rows, columns) table, None where its numbers are others."""
        waves = cls(len(table), np.asarray(angles, np.float64), np.asarray(sines, np.bool_))
        return waves if np.all(np.abs(waves.values - table) <= CLOSE) else None

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows, len(self.angles)

    @cached_property
    def values(self) -> Array:
        """The (rows, columns) matrix that the browser computes."""
        turned = np.arange(self.rows)[:, None] * self.angles
        table = np.empty(self.shape, np.float32)
        table[:, self.sines] = np.sin(turned[:, self.sines])
        table[:, ~self.sines] = np.cos(turned[:, ~self.sines])
        table.setflags(write=False)
        return table

    def dense(self) -> Array:
        """Return the (rows, columns) matrix that the browser draws."""
        return self.values

    @property
    def words(self) -> Array:
        """Return each wave as 32-bit words: its angle, and 1 for a sine or 0 for a cosine, in float64."""
        return np.concatenate([self.angles, self.sines.astype("<f8")]).astype("<f8").view("<f4")


MatrixValues = Curve | Triangle | Full | Waves


def smallest(
    matrix: Float[Tensor, "rows columns"] | Float[np.ndarray, "rows columns"],
) -> MatrixValues:
    """Return the lossless form with the fewest bytes: Curve, else Triangle, else Full.

    Bits decide, not a flag: a table in low precision is not exactly stationary and goes in full.
    """
    array = float32(matrix)
    rows, columns = array.shape
    if rows == columns > 0:
        if _same_bits(array[1:, 1:], array[:-1, :-1]):
            return Curve(np.concatenate([array[:0:-1, 0], array[0]]), rows)
        if _same_bits(array, array.T):
            return Triangle(array[np.tril_indices(rows)], rows)
    return Full(array)


def minus(after: MatrixValues, before: MatrixValues) -> MatrixValues:
    """Return `after - before`, entry by entry, subtracted in float64 and rounded once.

    A blank on either side stays a blank. Raises SchemeArgumentError for unequal shapes.
    """
    if after.shape != before.shape:
        raise SchemeArgumentError(
            f"only matrices of one shape can be subtracted, got {after.shape} and {before.shape}."
        )
    return smallest(float32(after.dense().astype(np.float64) - before.dense()))


def _same_bits(left: Array, right: Array) -> bool:
    """Return whether two float32 arrays hold the same bits."""
    # On bits: a NaN equals itself here, and 0.0 differs from -0.0, so nothing is lost.
    return bool(np.array_equal(left.view(np.uint32), right.view(np.uint32)))
