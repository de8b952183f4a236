"""A page as one zip: its figures, numbers, settings, script and link."""

import io
import json
import re
import textwrap
import zipfile
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from dashboard import pictures
from dashboard.blocks import Block, Chart, Page, Text, pictures_of, tables_of
from dashboard.charts import csv_file, theme
from dashboard.charts.theme import Spec
from dashboard.components.matrix import Panel, Row
from dashboard.settings import Setting, record
from dashboard.text import number

CAPTION = 100  # letters of a line under the title of a saved chart
# A file without a date of its own, so that the same page gives the same bytes.
_WHEN = (1980, 1, 1, 0, 0, 0)


def archive(
    page: Page, blocks: Sequence[Block], setting: Setting, pinned: Setting | None, link: str
) -> bytes:
    """Return the zip of a page: text, figures, tables and matrices as CSV, and what made them.

    blocks: what was drawn. Figures are PNG and SVG. settings.json is B, which the script prints; a pinned
    setting stands in pinned.json.
    """
    files: dict[str, bytes] = {
        "README.txt": _readme(page, blocks, link, compared=pinned is not None).encode(),
        "settings.json": json.dumps(record(setting), indent=2).encode(),
    }
    if pinned is not None:
        files["pinned.json"] = json.dumps(record(pinned), indent=2).encode()
    if page.script is not None:
        files["script.py"] = page.script().encode()
    for table in tables_of(blocks):
        files[f"numbers/{file_name(table.title)}.csv"] = csv_file.written(table.numbers())
    for picture in pictures_of(blocks):
        if isinstance(picture, Chart):
            below = (picture.subtitle(page.title), *textwrap.wrap(picture.alt or "", CAPTION))
            spec = theme.titled(picture.spec, picture.title, below, projected=False)
            files |= _drawn(file_name(picture.key), pictures.chart(spec, picture.drawn))
            continue
        row = picture.row(page.title)
        for figure, panel in _panels(row):
            files |= _drawn(figure, pictures.matrix(panel, row))
        files[f"numbers/{file_name(row.key)}-matrices.csv"] = matrix_csv(row)
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


def _readme(page: Page, blocks: Sequence[Block], link: str, *, compared: bool) -> str:
    """Return the page's sentences, captions of its pictures and its link."""
    captions = []
    for picture in pictures_of(blocks):
        if isinstance(picture, Chart):
            captions.append(f"figures/{file_name(picture.key)}.png: {picture.title}.")
            continue
        row = picture.row(page.title)
        low, high = number(row.scale.low), number(row.scale.high)
        for figure, panel in _panels(row):
            title = "; ".join(filter(None, (row.caption, panel.title, panel.subtitle)))
            captions.append(
                f"figures/{figure}.png: {title}. Colours from {low} to {high}. Down: "
                f"{panel.row_label or row.row_label}. Across: {panel.column_label or row.column_label}."
            )
    captions += [
        f"numbers/{file_name(table.title)}.csv: {table.title}." for table in tables_of(blocks)
    ]
    above = [block.text for block in page.above if isinstance(block, Text)]
    said = [re.sub(r"\\(.)", r"\1", text) for text in (*above, page.beside, page.headline)]
    parts = [page.title, *said, *captions, f"Link: {link}"]
    settings = "settings.json (B)" if compared else "settings.json"
    if page.script is not None:
        parts.append(
            f"script.py prints the page's main numbers at {settings}; it needs the package posenc."
        )
    return "\n\n".join(filter(None, parts)) + "\n"


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
