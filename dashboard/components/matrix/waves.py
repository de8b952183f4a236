"""Tables of sines and cosines: sent as one turn per column, and expanded to the same bits everywhere.

A column is a point that is turned by one angle from row to row, in float64. A product and a sum are rounded
alike by every machine (IEEE 754), so the browser finds what was found here; the few entries that the
turning rounds otherwise than the table travel beside it. Nothing is lost: where they are not few, there
is no such form.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]
MOST_CORRECTED = 1 / 16  # of the entries


@dataclass(frozen=True, eq=False)
class Waves:
    """A (rows, columns) matrix whose entry (i, j) is the float32 of x after i turns of column j.

    points: (4, columns) float64, each column's x and y in row 0, cosine and sine of its turn; a turn
    makes x cos + y sin of x, and y cos - x sin of y. at, corrected: entries by their index in row order
    that are these values instead.
    """

    rows: int
    points: npt.NDArray[np.float64]
    at: npt.NDArray[np.uint32]
    corrected: Array

    @classmethod
    def of(cls, table: Array, angles: npt.ArrayLike, sines: npt.ArrayLike) -> Self | None:
        """Return this form of a (rows, columns) table, None where it is not one of unit waves.

        angles: (columns,) turns per row in radians. sines: (columns,) whether a column is a sine.
        """
        turn = np.asarray(angles, np.float64)
        sine = np.asarray(sines, np.float64)
        points = np.stack((1 - sine, sine, np.cos(turn), np.sin(turn)))
        found = turned(len(table), points)
        other = np.flatnonzero(found.view(np.uint32) != table.view(np.uint32))
        if len(other) > MOST_CORRECTED * table.size:
            return None
        return cls(len(table), points, other.astype(np.uint32), table.reshape(-1)[other])

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows, self.points.shape[1]

    @cached_property
    def values(self) -> Array:
        """The (rows, columns) matrix that the browser expands."""
        found = turned(self.rows, self.points)
        found.reshape(-1)[self.at] = self.corrected
        found.setflags(write=False)
        return found

    def dense(self) -> Array:
        """Return the (rows, columns) matrix that the browser draws."""
        return self.values

    def first(self, rows: int, columns: int) -> "Waves":
        """Return the first rows and columns, as many as there are."""
        rows, columns = min(rows, self.shape[0]), min(columns, self.shape[1])
        down, across = np.divmod(self.at, np.uint32(self.shape[1]))
        kept = (down < rows) & (across < columns)
        at = (down[kept] * np.uint32(columns) + across[kept]).astype(np.uint32)
        points = np.ascontiguousarray(self.points[:, :columns])
        return Waves(rows, points, at, self.corrected[kept])

    @property
    def words(self) -> Array:
        """What is sent, as 32-bit words: points, indices, corrected values."""
        parts = (self.points.astype("<f8"), self.at.astype("<u4"), self.corrected.astype("<f4"))
        return np.frombuffer(b"".join(part.tobytes() for part in parts), "<f4")


@dataclass(frozen=True, eq=False)
class Difference:
    """`after - before` of two tables of waves, subtracted in float64 and rounded once, in the browser."""

    after: Waves
    before: Waves

    @property
    def shape(self) -> tuple[int, int]:
        return self.after.shape

    @cached_property
    def values(self) -> Array:
        """The (rows, columns) matrix that the browser expands."""
        found = self.after.values.astype(np.float64) - self.before.values.astype(np.float64)
        return found.astype(np.float32)

    def dense(self) -> Array:
        """Return the (rows, columns) matrix that the browser draws."""
        return self.values

    @property
    def words(self) -> Array:
        """What is sent: the words of both."""
        return np.concatenate((self.after.words, self.before.words))

    @property
    def parts(self) -> tuple[int, int]:
        """How many words each has."""
        return len(self.after.words), len(self.before.words)


def turned(rows: int, points: npt.NDArray[np.float64]) -> Array:
    """Return x of every column in every row, (rows, columns) in float32."""
    found = np.empty((rows, points.shape[1]), np.float32)
    x, y, cosine, sine = points
    for row in found:
        row[:] = x
        x, y = x * cosine + y * sine, y * cosine - x * sine
    return found
