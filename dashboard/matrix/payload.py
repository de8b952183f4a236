"""What one row of matrices holds, and its encoding to bytes: a JSON header, then float32 values.

A stationary matrix travels as its curve by offset (2 T - 1 values), a symmetric one as its lower
triangle, any other in full; the browser expands them. Nothing is rounded after float32.
Blanks at the end of the values are not sent: a table shorter than its matrix costs what it holds.
Layout: uint32 header length | header, space-padded so that values start 4-aligned | values.
Everything is little-endian. NaN means "no value here" and is drawn as a blank.
"""

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor

from posenc.errors import SchemeArgumentError
from posenc.limits import MAX_DRAWN_CELLS, check_count

Array = npt.NDArray[np.float32]
Tick = tuple[int, str]
COLOR = re.compile(r"#[0-9a-fA-F]{6}")


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
    def from_matrix(cls, matrix: Float[Tensor, "n n"]) -> "Triangle":
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


MatrixValues = Curve | Triangle | Full


def smallest(matrix: Float[Tensor, "rows columns"]) -> MatrixValues:
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

    Two curves give a curve and two triangles a triangle; other pairs give the smallest form that
    fits. A blank on either side stays a blank. Raises SchemeArgumentError for unequal shapes.
    """
    if after.shape != before.shape:
        raise SchemeArgumentError(
            f"only matrices of one shape can be subtracted, got {after.shape} and {before.shape}."
        )
    if isinstance(after, Curve) and isinstance(before, Curve):
        return Curve(subtracted(after.values, before.values), after.length)
    if isinstance(after, Triangle) and isinstance(before, Triangle):
        return Triangle(subtracted(after.values, before.values), after.length)
    return smallest(torch.tensor(subtracted(after.dense(), before.dense())))


def subtracted(after: Array, before: Array) -> Array:
    return float32(after.astype(np.float64) - before.astype(np.float64))


@dataclass(frozen=True)
class Scale:
    """The colours of a row: `low` and `high` are its ends; values outside take the end's colour.

    `kind` is "sequential" (dark to bright) or "diverging" (blue, neutral in the middle, orange).
    `unit` is written beside the colour bar: what the values are, such as "B minus A".
    """

    low: float
    high: float
    kind: Literal["sequential", "diverging"] = "sequential"
    unit: str = ""

    def __post_init__(self) -> None:
        if self.kind not in ("sequential", "diverging"):
            raise SchemeArgumentError(
                f"kind of a scale must be sequential or diverging, got {self.kind!r}."
            )
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise SchemeArgumentError(
                f"a scale needs finite ends, low < high, got {self.low!r} and {self.high!r}."
            )

    @classmethod
    def around_zero(cls, matrices: Iterable[MatrixValues], unit: str) -> "Scale":
        """Return the diverging scale with 0 in the middle that reaches the largest magnitude drawn.

        Where all values are 0, blank or infinite its ends are -1 and 1: everything is neutral.
        """
        sizes = [np.abs(each.values[np.isfinite(each.values)]) for each in matrices]
        end = max((float(size.max()) for size in sizes if size.size), default=0.0) or 1.0
        return cls(-end, end, "diverging", unit)


@dataclass(frozen=True, eq=False, kw_only=True)
class Panel:
    """One matrix of a row, with what is written around it.

    `row_start` and `column_start` are the positions of entry (0, 0). `boundary` is the training
    length: a line on both axes before that position. `row_label` and `column_label` replace the
    row's own for an axis of another kind (a dimension); `row_ticks` and `column_ticks`, pairs of
    0-based index and text, replace the numbers along it. `color` (#rrggbb) marks the title.
    `features`: columns are features, not positions, so the training length marks rows alone.
    """

    title: str
    values: MatrixValues
    subtitle: str = ""
    row_start: int = 0
    column_start: int = 0
    boundary: int | None = None
    row_label: str | None = None
    column_label: str | None = None
    row_ticks: Sequence[Tick] | None = None
    column_ticks: Sequence[Tick] | None = None
    color: str | None = None
    features: bool = False

    def __post_init__(self) -> None:
        if self.color is not None and not COLOR.fullmatch(self.color):
            raise SchemeArgumentError(f"color must be written #rrggbb, got {self.color!r}.")
        rows, columns = self.values.shape
        check_ticks("row_ticks", self.row_ticks, rows)
        check_ticks("column_ticks", self.column_ticks, columns)


def encode(
    panels: Sequence[Panel],
    *,
    name: str,
    scale: Scale,
    row_label: str,
    column_label: str,
    height: int | None,
    text_alternative: str,
    together: int = 1,
) -> bytes:
    """Return the bytes that the browser decodes: header and values of all panels, in order."""
    if not panels:
        raise SchemeArgumentError("a row needs at least one panel, got none.")
    if height is not None:
        check_count("height", height, 80, 4_000)
    check_count("together", together, 1, len(panels))
    sent = [without_last_blanks(panel.values.values) for panel in panels]
    header: dict[str, Any] = {
        "name": name,
        "text": text_alternative,
        "height": height,
        "together": together,
        "scale": {"low": scale.low, "high": scale.high, "kind": scale.kind, "unit": scale.unit},
        "panels": [
            panel_header(panel, row_label, column_label) | {"count": values.size}
            for panel, values in zip(panels, sent, strict=True)
        ],
    }
    text = json.dumps(header, allow_nan=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 4)
    values = b"".join(each.astype("<f4").tobytes() for each in sent)
    return len(text).to_bytes(4, "little") + text + values


def without_last_blanks(values: Array) -> Array:
    """Return values in the order they are sent, up to the last that is not a blank."""
    flat = values.reshape(-1)
    filled = np.flatnonzero(~np.isnan(flat[::-1]))
    return flat[: flat.size - filled[0]] if filled.size else flat[:0]


def panel_header(panel: Panel, row_label: str, column_label: str) -> dict[str, Any]:
    rows, columns = panel.values.shape
    features = {"features": True} if panel.features else {}
    return features | {
        "title": panel.title,
        "subtitle": panel.subtitle,
        "color": panel.color,
        "kind": type(panel.values).__name__.lower(),
        "boundary": panel.boundary,
        "rows": axis_header(rows, panel.row_start, panel.row_label or row_label, panel.row_ticks),
        "columns": axis_header(
            columns, panel.column_start, panel.column_label or column_label, panel.column_ticks
        ),
    }


def axis_header(count: int, start: int, label: str, ticks: Sequence[Tick] | None) -> dict[str, Any]:
    return {
        "count": count,
        "start": start,
        "label": label,
        "ticks": None if ticks is None else [list(tick) for tick in ticks],
    }


def check_shape(name: str, values: Array, shape: tuple[int, ...]) -> None:
    if values.shape != shape:
        raise SchemeArgumentError(f"{name} needs values of shape {shape}, got {values.shape}.")


def check_ticks(name: str, ticks: Sequence[Tick] | None, count: int) -> None:
    for index, _ in ticks or ():
        if not 0 <= index < count:
            raise SchemeArgumentError(
                f"{name} must lie in 0 to {count - 1}, the axis they label, got {index}."
            )


def is_symmetric(array: Array) -> bool:
    return array.ndim == 2 and array.shape[0] == array.shape[1] and same_bits(array, array.T)


def same_bits(left: Array, right: Array) -> bool:
    # On bits: a NaN equals itself here, and 0.0 differs from -0.0, so nothing is lost.
    return bool(np.array_equal(left.view(np.uint32), right.view(np.uint32)))
