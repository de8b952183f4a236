"""A page as one zip: its figures, numbers, settings, script and link."""

import io
import json
import re
import zipfile
from collections.abc import Iterator

import numpy as np
import pandas as pd

from dashboard import pictures
from dashboard.ab import AB
from dashboard.charts import csv_file
from dashboard.charts.theme import Spec
from dashboard.components.matrix import Panel, Row
from dashboard.frame.page_contents import PageContents, Picture
from dashboard.settings import Setting, record
from dashboard.text import number

# A file without a date of its own, so that the same page gives the same bytes.
_WHEN = (1980, 1, 1, 0, 0, 0)


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
                files |= _drawn(figure, pictures.matrix(panel, picture))
            files[f"numbers/{file_name(name)}-matrices.csv"] = matrix_csv(picture)
        else:
            files |= _drawn(file_name(name), pictures.chart(picture.spec, picture.frame))
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
    """Return the files of a figure."""
    drawing = pictures.svg(spec)
    return {
        f"figures/{figure}.svg": drawing.encode(),
        f"figures/{figure}.png": pictures.png(drawing),
    }
