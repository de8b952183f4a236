"""The values of one matrix: a curve by offset, a triangle, waves or in full, whatever is smallest.

NaN means "no value here". Nothing is rounded after float32.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor

from dashboard.components.matrix.waves import Difference, Waves
from dashboard.limits import MAX_DRAWN_CELLS
from posenc.errors import SchemeArgumentError
from posenc.limits import check_count

Array = npt.NDArray[np.float32]


def float32(values: npt.ArrayLike | Tensor) -> Array:
    """Return a read-only contiguous float32 copy; float64 is rounded once, to nearest."""
    if isinstance(values, Tensor):
        values = values.detach().to("cpu", torch.float32).numpy()
    # C order also for a transposed input: the bytes are sent as they lie.
    array = np.array(values, dtype=np.float32, order="C")
    array.setflags(write=False)
    return array


@dataclass(frozen=True, eq=False)
class Curve:
    """A stationary (length, length) matrix: entry (i, j) is `values[j - i + length - 1]`.

    `values` is (2 length - 1,), by offset = key minus query from -(length - 1) to length - 1.
    Raises SchemeArgumentError where the two do not fit.
    """

    values: Array
    length: int

    def __post_init__(self) -> None:
        check_count("length of a drawn matrix", self.length, 1, MAX_DRAWN_CELLS)
        object.__setattr__(self, "values", float32(self.values))
        check_shape("a curve", self.values, (2 * self.length - 1,))

    @classmethod
    def from_tensor(cls, curve: Float[Tensor, " offsets"]) -> "Curve":
        """Make a curve from its (2 T - 1,) values by offset; the length follows from them."""
        if curve.ndim != 1 or curve.shape[0] % 2 == 0:
            raise SchemeArgumentError(
                f"a curve needs an odd number of values, 2 T - 1, got shape {tuple(curve.shape)}."
            )
        return cls(float32(curve), (curve.shape[0] + 1) // 2)

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
    Raises SchemeArgumentError where the two do not fit.
    """

    values: Array
    length: int

    def __post_init__(self) -> None:
        check_count("length of a drawn matrix", self.length, 1, MAX_DRAWN_CELLS)
        object.__setattr__(self, "values", float32(self.values))
        check_shape("a triangle", self.values, (self.length * (self.length + 1) // 2,))

    @classmethod
    def from_matrix(cls, matrix: Float[Tensor, "n n"] | Float[np.ndarray, "n n"]) -> "Triangle":
        """Make a triangle from a (T, T) matrix that is symmetric to the last bit of float32.

        Raises SchemeArgumentError for any other; `smallest` sends such a matrix in full.
        """
        array = float32(matrix)
        if not is_symmetric(array):
            raise SchemeArgumentError(
                f"a triangle needs a symmetric matrix, got {array.shape} with unequal halves."
            )
        return cls(array[np.tril_indices(len(array))], len(array))

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
        if self.values.ndim != 2:
            raise SchemeArgumentError(
                f"a matrix needs two axes, rows and columns, got shape {self.values.shape}."
            )
        check_count("rows of a drawn matrix", self.values.shape[0], 1, MAX_DRAWN_CELLS)
        check_count("columns of a drawn matrix", self.values.shape[1], 1, MAX_DRAWN_CELLS)

    @classmethod
    def from_tensor(cls, matrix: Float[Tensor, "rows columns"]) -> "Full":
        """Make a full matrix from a tensor of any float dtype, on any device."""
        return cls(float32(matrix))

    @property
    def shape(self) -> tuple[int, int]:
        return self.values.shape[0], self.values.shape[1]

    def dense(self) -> Array:
        """Return the (rows, columns) matrix that the browser draws."""
        return self.values


MatrixValues = Curve | Triangle | Full | Waves | Difference


def smallest(
    matrix: Float[Tensor, "rows columns"] | Float[np.ndarray, "rows columns"],
) -> MatrixValues:
    """Return the lossless form with the fewest bytes: Curve, else Triangle, else Full.

    Bits decide, not a flag: a table in low precision is not exactly stationary and goes in full.
    """
    array = float32(matrix)
    if array.ndim == 2 and array.shape[0] == array.shape[1] > 0:
        if same_bits(array[1:, 1:], array[:-1, :-1]):
            return Curve(np.concatenate([array[:0:-1, 0], array[0]]), len(array))
        if is_symmetric(array):
            return Triangle.from_matrix(matrix)
    return Full(array)


def minus(after: MatrixValues, before: MatrixValues) -> MatrixValues:
    """Return `after - before`, entry by entry: what is drawn, subtracted in float64 and rounded once.

    Two curves give a curve, two triangles a triangle, two tables of waves their difference; other pairs
    give the smallest form that fits. A blank on either side stays a blank. Raises SchemeArgumentError
    for unequal shapes.
    """
    if after.shape != before.shape:
        raise SchemeArgumentError(
            f"only matrices of one shape can be subtracted, got {after.shape} and {before.shape}."
        )
    if isinstance(after, Curve) and isinstance(before, Curve):
        return Curve(subtracted(after.values, before.values), after.length)
    if isinstance(after, Triangle) and isinstance(before, Triangle):
        return Triangle(subtracted(after.values, before.values), after.length)
    if isinstance(after, Waves) and isinstance(before, Waves):
        return Difference(after, before)
    return smallest(torch.tensor(subtracted(after.dense(), before.dense())))


def subtracted(after: Array, before: Array) -> Array:
    """Return after - before, computed in float64, as float32."""
    return float32(after.astype(np.float64) - before.astype(np.float64))


def check_shape(name: str, values: Array, shape: tuple[int, ...]) -> None:
    """Raise SchemeArgumentError for values of another shape."""
    if values.shape != shape:
        raise SchemeArgumentError(f"{name} needs values of shape {shape}, got {values.shape}.")


def is_symmetric(array: Array) -> bool:
    """Return whether a square array equals its transpose in every bit."""
    return array.ndim == 2 and array.shape[0] == array.shape[1] and same_bits(array, array.T)


def same_bits(left: Array, right: Array) -> bool:
    """Return whether two float32 arrays hold the same bits."""
    # On bits: a NaN equals itself here, and 0.0 differs from -0.0, so nothing is lost.
    return bool(np.array_equal(left.view(np.uint32), right.view(np.uint32)))
