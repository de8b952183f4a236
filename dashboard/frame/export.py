"""A page as one zip: its figures, numbers, settings, script and link."""

import base64
import io
import json
import math
import re
import zipfile
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import vl_convert
from PIL import Image

from dashboard.ab import AB
from dashboard.charts import csv_file
from dashboard.charts.theme import Spec, titled
from dashboard.components.matrix import Panel, Row
from dashboard.components.matrix.colours import coloured, shades
from dashboard.components.matrix.payload import Tick
from dashboard.frame.page_contents import PageContents, Picture
from dashboard.settings import Setting, record
from dashboard.text import number

# A file without a date of its own, so that the same page gives the same bytes.
_WHEN = (1980, 1, 1, 0, 0, 0)
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


def archive(contents: PageContents, settings: AB[Setting], link: str) -> bytes:
    """Return the zip of a page: text, figures, tables and matrices as CSV, and what made them.

    Figures are PNG and SVG. settings.json is B, which the script prints; a pinned setting stands in
    pinned.json.
    """
    files: dict[str, bytes] = {
        "README.txt": _readme(contents, link, compared=settings.compared).encode(),
        "settings.json": json.dumps(record(settings.current), indent=2).encode(),
    }
    if settings.pinned is not None:
        files["pinned.json"] = json.dumps(record(settings.pinned), indent=2).encode()
    if contents.script:
        files["script.py"] = contents.script.encode()
    for name, table in contents.tables.items():
        files[f"numbers/{file_name(name)}.csv"] = csv_file.written(table())
    for name, picture in contents.pictures.items():
        if isinstance(picture, Row):
            for figure, panel in _panels(picture):
                files |= _drawn(figure, matrix_spec(panel, picture))
            files[f"numbers/{file_name(name)}-matrices.csv"] = matrix_csv(picture)
        else:
            files |= _drawn(file_name(name), _chart_spec(picture))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as folder:
        for name, content in files.items():
            # A PNG is packed already: packing it again takes a second and saves nothing.
            packing = zipfile.ZIP_STORED if name.endswith(".png") else zipfile.ZIP_DEFLATED
            folder.writestr(zipfile.ZipInfo(name, _WHEN), content, packing)
    return packed.getvalue()


def file_name(name: str) -> str:
    """Return a name as a file has it."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def matrix_csv(picture: Row) -> bytes:
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
    cells = pd.concat(parts, ignore_index=True)
    return csv_file.written(cells.astype({"panel": "category"}))  # made safe once, not per cell


def _readme(contents: PageContents, link: str, *, compared: bool) -> str:
    """Return the page's sentences, captions of its matrices and its link."""
    captions = [
        f"figures/{figure}.png: {'; '.join(filter(None, (row.title, panel.title, panel.subtitle)))}. "
        f"Colours from {number(row.scale.low)} to {number(row.scale.high)}. "
        f"Down: {panel.row_label or row.row_label}. Across: {panel.column_label or row.column_label}."
        for row in contents.pictures.values()
        if isinstance(row, Row)
        for figure, panel in _panels(row)
    ]
    captions += [
        f"figures/{file_name(name)}.png: {picture.spec['title']['text']}."
        for name, picture in contents.pictures.items()
        if isinstance(picture, Picture)
    ]
    captions += [f"numbers/{file_name(name)}.csv: {name}." for name in contents.tables]
    parts = [contents.title, *contents.sentences, *contents.pinned, *captions, f"Link: {link}"]
    settings = "settings.json (B)" if compared else "settings.json"
    if contents.script:
        parts.append(
            f"script.py prints the page's main numbers at {settings}; it needs the package posenc."
        )
    return "\n\n".join(parts) + "\n"


def _panels(picture: Row) -> Iterator[tuple[str, Panel]]:
    """Yield the matrices of a row, each with the name of its figure."""
    for place, panel in enumerate(picture.panels, 1):
        yield file_name(f"{picture.key} {place} {panel.title}"), panel


def _drawn(figure: str, spec: Spec) -> dict[str, bytes]:
    """Return the files of a figure, drawn by Vega outside a browser."""
    drawing = vl_convert.vegalite_to_svg(json.dumps(spec | {"config": _CONFIG}, allow_nan=False))
    return {
        f"figures/{figure}.svg": drawing.encode(),
        f"figures/{figure}.png": vl_convert.svg_to_png(drawing, scale=DENSITY),
    }


def _chart_spec(picture: Picture) -> Spec:
    """Return the specification of a chart with its data."""
    return {"width": WIDTH} | picture.spec | {"data": {"values": _rows(picture.frame)}}


def matrix_spec(panel: Panel, row: Row) -> Spec:
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
    below = filter(None, (row.title, "; ".join(filter(None, notes))))
    return titled(spec, panel.title, *below, projected=False)


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
