"""Pictures of a page as files, PNG and SVG, drawn by Vega outside a browser."""

import base64
import io
import json
import math
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import vl_convert
from PIL import Image

from dashboard.charts import csv_file
from dashboard.charts.theme import Spec, own_widths
from dashboard.components.matrix.colours import SHADES, coloured, shades
from dashboard.components.matrix.payload import Panel, Row, Scale, Tick
from dashboard.frame.page_contents import Picture

WIDTH = 720  # of a chart
PLOT = 320  # side of a matrix
DENSITY = 2.0  # pixels of a PNG per unit of its SVG
_PLAIN = {"anchor": "start", "fontSize": 12, "fontWeight": "normal"}
_CONFIG = {
    "background": "white",
    "font": "sans-serif",
    "axis": {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"},
    "legend": {"labelFontSize": 12},
}


def png(drawing: str) -> bytes:
    """Return a drawing, the text of an SVG file, as a PNG file; Vega draws only once."""
    made: bytes = vl_convert.svg_to_png(drawing, scale=DENSITY)
    return made


def svg(picture: Picture | Row) -> str:
    """Return the picture as an SVG file."""
    made: str = vl_convert.vegalite_to_svg(specification(picture))
    return made


def specification(picture: Picture | Row) -> str:
    """Return the picture as one Vega-Lite specification with its data in it."""
    spec = _of_chart(picture) if isinstance(picture, Picture) else _of_matrices(picture)
    return json.dumps(spec | {"config": _CONFIG}, allow_nan=False)


def cells(picture: Row) -> bytes:
    """Return every cell of a row of matrices as CSV: panel, row, column, value, in float32."""
    parts = []
    for panel in picture.panels:
        dense = panel.values.dense()
        row, column = np.indices(dense.shape)
        part = {
            "panel": panel.title,
            "row": row.ravel() + panel.row_start,
            "column": column.ravel() + panel.column_start,
            "value": dense.ravel(),
        }
        for name, ticks, index in (
            ("row", panel.row_ticks, row),
            ("column", panel.column_ticks, column),
        ):
            if ticks is not None:
                words = dict(ticks)
                part[f"{name} name"] = [words.get(int(n), "") for n in index.ravel()]
        parts.append(pd.DataFrame(part))
    return csv_file.written(pd.concat(parts, ignore_index=True))


def _of_chart(picture: Picture) -> Spec:
    values = {"data": {"values": _rows(picture.frame)}}  # in the place of a name
    return picture.spec | values | ({} if own_widths(picture.spec) else {"width": WIDTH})


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a frame as JSON holds them: what is no number is null."""
    return [
        {
            str(key): None if isinstance(v, float) and not math.isfinite(v) else v
            for key, v in row.items()
        }
        for row in frame.astype(object).to_dict("records")
    ]


def _of_matrices(picture: Row) -> Spec:
    panels = [_panel(panel, picture) for panel in picture.panels]
    return {
        "vconcat": [
            {"hconcat": panels, "spacing": 24},
            _legend(picture.scale) | {"title": {"text": _keys(picture.panels), **_PLAIN}},
        ],
        "spacing": 16,
    }


def _panel(panel: Panel, picture: Row) -> Spec:
    rows, columns = panel.values.shape
    height = round(PLOT * rows / columns) if rows < columns else PLOT
    url = _data_url(coloured(panel.values, picture.scale), PLOT, height)
    across, down = panel.column_label or picture.column_label, panel.row_label or picture.row_label
    x = _axis("column", panel.column_start, columns, across, panel.column_ticks)
    y = _axis("row", panel.row_start, rows, down, panel.row_ticks)
    y["scale"]["reverse"] = True
    layers: list[Spec] = [
        {
            "mark": {"type": "image", "width": PLOT, "height": height},
            "encoding": {
                "x": {"value": PLOT / 2},
                "y": {"value": height / 2},
                "url": {"value": url},
            },
        },
        {"mark": {"type": "point", "opacity": 0}, "encoding": {"x": x, "y": y}},
    ]
    if panel.boundary is not None:
        for axis, name, start, count in (
            (x, "x", panel.column_start, columns),
            (y, "y", panel.row_start, rows),
        ):
            if start < panel.boundary < start + count and not (name == "x" and panel.features):
                at = axis | {"datum": panel.boundary - 0.5}
                del at["field"]
                layers.append(
                    {
                        "mark": {"type": "rule", "strokeDash": [4, 4], "color": "black"},
                        "encoding": {name: at},
                    }
                )
    return {
        "title": {
            "text": panel.title,
            "subtitle": textwrap.wrap(panel.subtitle, 48),
            "anchor": "start",
        },
        "width": PLOT,
        "height": height,
        "data": {"values": [{"row": panel.row_start, "column": panel.column_start}]},
        "layer": layers,
    }


def _axis(
    field: str, start: int, count: int, label: str, ticks: Sequence[Tick] | None
) -> dict[str, Any]:
    axis: dict[str, Any] = {"grid": False, "tickMinStep": 1, "format": "d"}
    if ticks is not None:
        words = {str(start + index): text for index, text in ticks}
        axis |= {
            "values": [start + index for index, _ in ticks],
            "labelExpr": f"({json.dumps(words)})[datum.value]",
        }
    return {
        "field": field,
        "type": "quantitative",
        "title": label,
        "scale": {"domain": [start - 0.5, start + count - 0.5], "nice": False, "zero": False},
        "axis": axis,
    }


def _keys(panels: Sequence[Panel]) -> list[str]:
    """Say what dashes and blanks mean where there are any."""
    lengths = {one.boundary for one in panels if one.boundary is not None}
    said = (
        [f"dashed: training length {', '.join(f'{n:,}' for n in sorted(lengths))}"]
        if lengths
        else []
    )
    if any(np.isnan(one.values.values).any() for one in panels):
        said.append("white: no value")
    return said


def _legend(scale: Scale) -> Spec:
    steps = np.linspace(scale.low, scale.high, SHADES + 1)
    colours = ["#" + bytes(shade).hex() for shade in shades(scale.kind)]
    bars = [
        {"low": low, "high": high, "colour": colour}
        for low, high, colour in zip(steps[:-1].tolist(), steps[1:].tolist(), colours, strict=True)
    ]
    return {
        "width": PLOT,
        "height": 12,
        "data": {"values": bars},
        "mark": {"type": "rect", "strokeWidth": 0},
        "encoding": {
            "x": {
                "field": "low",
                "type": "quantitative",
                "title": scale.unit or None,
                "scale": {"domain": [scale.low, scale.high], "nice": False, "zero": False},
                "axis": {"grid": False, "tickCount": 5},
            },
            "x2": {"field": "high"},
            "color": {"field": "colour", "type": "nominal", "scale": None},
        },
    }


def _data_url(pixels: np.ndarray[Any, Any], width: int, height: int) -> str:
    """Return the cells as the address of a PNG, enlarged whole so that no viewer blurs them."""
    rows, columns = pixels.shape[:2]
    by = max(1, math.ceil(DENSITY * max(width / columns, height / rows)))
    large = pixels.repeat(by, axis=0).repeat(by, axis=1)
    file = io.BytesIO()
    Image.fromarray(large, "RGBA").save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
