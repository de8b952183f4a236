"""Charts and matrices as pictures without a browser: specifications with their data, as SVG and PNG."""

import base64
import io
import json
import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
import vl_convert
from PIL import Image

from dashboard.charts.theme import Spec, titled
from dashboard.components.matrix import Panel, Row
from dashboard.components.matrix.colours import coloured, shades
from dashboard.components.matrix.payload import Tick

WIDTH = 720  # of a chart
DENSITY = 2.0  # pixels of a chart's PNG per unit of its SVG
SIDE = 640  # pixels of a matrix's PNG, in both directions, at least
NO_VALUE = "#dddddd"  # of cells
_CONFIG = {
    "background": "white",
    "font": "sans-serif",
    "axis": {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"},
    "legend": {"labelFontSize": 12},
}


def svg(spec: Spec) -> str:
    """Return a specification with its data, drawn by Vega, as an SVG."""
    drawing: str = vl_convert.vegalite_to_svg(
        json.dumps(spec | {"config": _CONFIG}, allow_nan=False)
    )
    return drawing


def png(drawing: str) -> bytes:
    """Return an SVG as a PNG."""
    picture: bytes = vl_convert.svg_to_png(drawing, scale=DENSITY)
    return picture


def chart(spec: Spec, frame: pd.DataFrame) -> Spec:
    """Return the specification of a chart with its data."""
    return {"width": WIDTH} | spec | {"data": {"values": _rows(frame)}}


def matrix(panel: Panel, row: Row) -> Spec:
    """Return the specification of a matrix: its cells as an image, title, axes, colour bar and lines."""
    pixels = coloured(panel.values, row.scale)
    rows, columns = pixels.shape[:2]
    image = io.BytesIO()
    Image.fromarray(pixels, "RGBA").save(image, "PNG")
    url = f"data:image/png;base64,{base64.b64encode(image.getvalue()).decode()}"
    x, first_column, last_column = _axis(
        panel.column_start, columns, panel.column_label or row.column_label, panel.column_ticks
    )
    y, first_row, last_row = _axis(
        panel.row_start, rows, panel.row_label or row.row_label, panel.row_ticks
    )
    y["scale"]["reverse"] = True
    cells = {
        "mark": {"type": "image", "aspect": False, "smooth": False, "aria": False},
        "encoding": {
            "url": {"value": url}, "x": x | {"datum": first_column}, "x2": {"datum": last_column},
            "y": y | {"datum": first_row}, "y2": {"datum": last_row},
        },
    }  # fmt: skip
    scale = row.scale
    colours = [f"rgb({red},{green},{blue})" for red, green, blue in shades(scale.kind).tolist()]
    bar = {
        "mark": {"type": "point", "opacity": 0},
        "encoding": {
            "color": {
                "datum": scale.low,
                "type": "quantitative",
                "scale": {"domain": [scale.low, scale.high], "range": colours},
                "legend": {"orient": "bottom", "title": scale.unit, "gradientLength": 250},
            }
        },
    }
    notes = [panel.subtitle]
    if not pixels[..., 3].all():
        notes.append("gray: no value")
    lines = []
    if panel.boundary is not None:
        notes.append(f"dashed: training length {panel.boundary:,}")
        for axis in ("y",) if panel.features else ("x", "y"):
            place = {axis: {"datum": panel.boundary - 0.5}}
            lines += [
                {"mark": {"type": "rule", "size": 2} | style, "encoding": place}
                for style in ({"color": "white"}, {"color": "black", "strokeDash": [4, 4]})
            ]
    spec = {
        "width": columns * math.ceil(SIDE / columns) / DENSITY,
        "height": rows * math.ceil(SIDE / rows) / DENSITY,
        "autosize": "pad",
        "view": {"fill": NO_VALUE},
        "data": {"values": [{}]},
        "layer": [cells, bar, *lines],
    }
    below = [text for text in (row.caption, "; ".join(filter(None, notes))) if text]
    return titled(spec, panel.title, below, projected=False)


def _axis(
    start: int, count: int, label: str, ticks: Sequence[Tick] | None
) -> tuple[dict[str, Any], float, float]:
    """Return the encoding of an axis whose cells have their positions in the middle, and its ends."""
    first, last = start - 0.5, start + count - 0.5
    axis: dict[str, Any] = {"title": label, "grid": False, "tickMinStep": 1, "format": "d"}
    if ticks is not None:
        words = {str(start + index): text for index, text in ticks}
        axis |= {
            "values": [start + index for index, _ in ticks],
            "labelExpr": f"{json.dumps(words)}[datum.value]",
        }
    scale = {"domain": [first, last], "nice": False, "zero": False}
    return {"type": "quantitative", "axis": axis, "scale": scale}, first, last


def _rows(frame: pd.DataFrame) -> list[dict[Any, Any]]:
    """Return the rows of a frame as JSON holds them: what is no number is null."""
    cells = frame.replace([math.inf, -math.inf], math.nan).astype(object)
    rows: list[dict[Any, Any]] = cells.where(cells.notna(), None).to_dict("records")
    return rows
