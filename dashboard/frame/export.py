"""A page as one zip: its figures, numbers, settings, script and link."""

import io
import json
import math
import re
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import vl_convert
from PIL import Image

from dashboard.ab import AB
from dashboard.charts import csv_file
from dashboard.components.matrix import Panel, Row, Scale
from dashboard.components.matrix.colours import coloured
from dashboard.frame.page_contents import PageContents, Picture
from posenc.settings import Setting, record

# A file without a date of its own, so that the same page gives the same bytes.
_WHEN = (1980, 1, 1, 0, 0, 0)
WIDTH = 720  # of a chart
DENSITY = 2.0  # pixels of a chart's PNG per unit of its SVG
SIDE = 640  # pixels of a matrix's longer side, at least
_CONFIG = {
    "background": "white",
    "font": "sans-serif",
    "axis": {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"},
    "legend": {"labelFontSize": 12},
}


def archive(contents: PageContents, settings: AB[Setting], link: str) -> bytes:
    """Return the zip of a page: text, figures, tables and matrices as CSV, and what made them.

    Charts are PNG and SVG. Of a matrix the cells are a PNG; its axes are in the PNG that the matrix itself
    offers. settings.json is B, which the script prints; a pinned setting stands in pinned.json.
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
            for file, panel in _panels(picture):
                files[file] = _matrix_png(panel, picture.scale)
            files[f"numbers/{file_name(name)}-matrices.csv"] = matrix_csv(picture)
        else:
            drawing = _svg(picture)
            files[f"figures/{file_name(name)}.svg"] = drawing.encode()
            files[f"figures/{file_name(name)}.png"] = vl_convert.svg_to_png(drawing, scale=DENSITY)
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
        f"{file}: {'; '.join(filter(None, (panel.title, panel.subtitle)))}. "
        f"Colours from {row.scale.low:.3g} to {row.scale.high:.3g}. "
        f"Down: {panel.row_label or row.row_label}. Across: {panel.column_label or row.column_label}."
        for row in contents.pictures.values()
        if isinstance(row, Row)
        for file, panel in _panels(row)
    ]
    parts = [contents.title, *contents.sentences, *contents.pinned, *captions, f"Link: {link}"]
    settings = "settings.json (B)" if compared else "settings.json"
    if contents.script:
        parts.append(
            f"script.py prints the page's main numbers at {settings}; it needs the package posenc."
        )
    return "\n\n".join(parts) + "\n"


def _panels(picture: Row) -> Iterator[tuple[str, Panel]]:
    """Yield the matrices of a row, each with the file of its cells."""
    for number, panel in enumerate(picture.panels, 1):
        yield f"figures/{file_name(f'{picture.key} {number} {panel.title}')}.png", panel


def _matrix_png(panel: Panel, scale: Scale) -> bytes:
    """Return the cells as a PNG, enlarged whole so that no viewer blurs them."""
    pixels = coloured(panel.values, scale)
    by = math.ceil(SIDE / max(pixels.shape[:2]))
    file = io.BytesIO()
    Image.fromarray(pixels.repeat(by, axis=0).repeat(by, axis=1), "RGBA").save(file, "PNG")
    return file.getvalue()


def _svg(picture: Picture) -> str:
    """Return a chart as an SVG file, drawn by Vega outside a browser."""
    spec = picture.spec | {"data": {"values": _rows(picture.frame)}, "config": _CONFIG}
    if "width" not in picture.spec:
        spec["width"] = WIDTH
    drawing: str = vl_convert.vegalite_to_svg(json.dumps(spec, allow_nan=False))
    return drawing


def _rows(frame: pd.DataFrame) -> list[dict[Any, Any]]:
    """Return the rows of a frame as JSON holds them: what is no number is null."""
    cells = frame.replace([math.inf, -math.inf], math.nan).astype(object)
    rows: list[dict[Any, Any]] = cells.where(cells.notna(), None).to_dict("records")
    return rows
