"""A page to take away: one zip of its figures, numbers, settings, script and link."""

import io
import json
import re
import zipfile

from dashboard.ab import Pair
from dashboard.charts import csv_file
from dashboard.components.matrix import Row
from dashboard.frame import figures
from dashboard.frame.page_contents import Sheet
from posenc.settings import Setting, record

# A file without a date of its own, so that the same page gives the same bytes.
_WHEN = (1980, 1, 1, 0, 0, 0)


def archive(sheet: Sheet, settings: Pair[Setting], link: str) -> bytes:
    """Return the zip of a page: text, figures as PNG and SVG, tables as CSV, and what made them.

    settings.json is B, which the script prints; a pinned setting stands in pinned.json.
    """
    files: dict[str, bytes] = {
        "README.txt": _words(sheet, link).encode(),
        "settings.json": json.dumps(record(settings.now), indent=2).encode(),
    }
    if settings.pinned is not None:
        files["pinned.json"] = json.dumps(record(settings.pinned), indent=2).encode()
    if sheet.script:
        files["script.py"] = sheet.script.encode()
    for name, table in sheet.tables.items():
        files[f"numbers/{file_name(name)}.csv"] = csv_file.written(table())
    for name, picture in sheet.pictures.items():
        drawing = figures.svg(picture)
        files[f"figures/{file_name(name)}.png"] = figures.png(drawing)
        files[f"figures/{file_name(name)}.svg"] = drawing.encode()
        if isinstance(picture, Row):
            files[f"numbers/{file_name(name)}-matrices.csv"] = figures.cells(picture)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as folder:
        for name, content in files.items():
            # A PNG is packed already: packing it again takes a second and saves nothing.
            packing = zipfile.ZIP_STORED if name.endswith(".png") else zipfile.ZIP_DEFLATED
            folder.writestr(zipfile.ZipInfo(name, _WHEN), content, packing)
    return made.getvalue()


def _words(sheet: Sheet, link: str) -> str:
    parts = [sheet.title, *sheet.sentences, *sheet.pinned, f"Link: {link}"]
    if sheet.script:
        parts.append(
            "script.py prints the page's main numbers at settings.json (B); it needs the package posenc."
        )
    return "\n\n".join(parts) + "\n"


def file_name(name: str) -> str:
    """Return a name as a file has it."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
