"""A row of matrices and its encoding to bytes: a JSON header, then float32 values.

A stationary matrix travels as its curve by offset (2 T - 1 values), a symmetric one as its lower
triangle, sines and cosines as one angle per column, any other in full; the browser expands
them. Nothing is rounded after float32.
Blanks at the end of the values are not sent: a table shorter than its matrix costs what it holds.
Layout: uint32 header length | header, space-padded so that values start 4-aligned | values.
Everything is little-endian. NaN means "no value here" and is drawn as a blank.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from dashboard.components.matrix.values import Array, MatrixValues, Waves
from posenc.errors import SchemeArgumentError

Tick = tuple[int, str]


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
    def of_weights(cls, matrices: Iterable[MatrixValues], unit: str) -> "Scale":
        """Return the scale of weights from 0 to 1 that reaches just past those drawn, in steps of 0.1."""
        drawn = np.concatenate([each.values.ravel() for each in matrices])
        low = math.floor(10 * drawn.min())
        return cls(low / 10, max(math.ceil(10 * drawn.max()), low + 1) / 10, "sequential", unit)

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


@dataclass(frozen=True, eq=False, kw_only=True)
class Row:
    """Panels side by side on one colour scale and under one crosshair, and what is said of all of them.

    key: names the row for good. text_alternative: the sentence a reader hears instead of the picture.
    title: over a saved picture; on the page a heading says it. heading: what it is beside others. beside:
    keys of rows that one picture saves with this one, itself among them; the first names the file.
    height: of the plots in CSS pixels, None for square ones. together: how many panels in a row belong
    together; no line ends between them where there is room for one group. cell: the pinned query and key
    of a row that tells the page which cell is pinned; (0, 0) is none.
    """

    panels: Sequence[Panel]
    key: str
    scale: Scale
    text_alternative: str
    title: str = ""
    heading: str = ""
    beside: Sequence[str] = ()
    row_label: str = "query position"
    column_label: str = "key position"
    height: int | None = None
    together: int = 1
    cell: tuple[int, int] | None = None

    @property
    def caption(self) -> str:
        """The title of a picture of this row alone."""
        return ", ".join(filter(None, (self.title, self.heading)))


def encode(row: Row) -> bytes:
    """Return the bytes that the browser decodes: header and values of all panels, in order."""
    values = [sent_bytes(panel.values) for panel in row.panels]
    return joined(row_header(row, values), values)


def joined(header: Mapping[str, Any], values: Iterable[bytes]) -> bytes:
    """Return a header and the values that it describes as the browser decodes them."""
    text = json.dumps(header, allow_nan=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 4)
    return len(text).to_bytes(4, "little") + text + b"".join(values)


def row_header(row: Row, sent: Sequence[bytes]) -> dict[str, Any]:
    """Return what the browser is told of a row besides the values of its panels, which are `sent`."""
    header: dict[str, Any] = {
        "name": row.key,
        "title": row.title,
        "text": row.text_alternative,
        "height": row.height,
        "together": row.together,
        "scale": asdict(row.scale),
        "panels": [
            panel_header(panel, row.row_label, row.column_label) | {"count": len(values) // 4}
            for panel, values in zip(row.panels, sent, strict=True)
        ],
    }
    if row.heading:
        header |= {"heading": row.heading, "beside": list(row.beside)}
    if row.cell is not None:
        header["cell"] = list(row.cell)
    return header


def sent_bytes(values: MatrixValues) -> bytes:
    """Return what is sent of a matrix."""
    return words(values).astype("<f4").tobytes()


def words(values: MatrixValues) -> Array:
    """Return what is sent of a matrix, in 32-bit words."""
    return values.words if isinstance(values, Waves) else without_last_blanks(values.values)


def without_last_blanks(values: Array) -> Array:
    """Return values in the order they are sent, up to the last that is not a blank."""
    flat = values.reshape(-1)
    filled = np.flatnonzero(~np.isnan(flat[::-1]))
    return flat[: flat.size - filled[0]] if filled.size else flat[:0]


def panel_header(panel: Panel, row_label: str, column_label: str) -> dict[str, Any]:
    """Return what the browser is told of a panel besides its values."""
    rows, columns = panel.values.shape
    return {
        "title": panel.title,
        "subtitle": panel.subtitle,
        "color": panel.color,
        "kind": type(panel.values).__name__.lower(),
        "boundary": panel.boundary,
        "rows": axis_header(rows, panel.row_start, panel.row_label or row_label, panel.row_ticks),
        "columns": axis_header(
            columns, panel.column_start, panel.column_label or column_label, panel.column_ticks
        ),
    } | ({"features": True} if panel.features else {})


def axis_header(count: int, start: int, label: str, ticks: Sequence[Tick] | None) -> dict[str, Any]:
    """Return the count, start, label and ticks of an axis for the browser."""
    return {
        "count": count,
        "start": start,
        "label": label,
        "ticks": None if ticks is None else [list(tick) for tick in ticks],
    }
