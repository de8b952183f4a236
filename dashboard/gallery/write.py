"""Pages as the files of one folder."""

import html
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path

import vl_convert

from dashboard.blocks import Page
from dashboard.components.clock import component as clock
from dashboard.components.matrix import component as matrix
from dashboard.gallery.page_html import Writer

FOLDER = Path(__file__).parent
# As the components stand on a page of the dashboard, but as one script each: a browser loads no module
# from a file.
_COMPONENTS = {"matrix": (matrix.SCRIPT, matrix.STYLE), "clock": (clock.SCRIPT, clock.STYLE)}


def files(pages: Mapping[str, Page], titles: Mapping[str, str], about: str) -> dict[str, str]:
    """Return the texts of all files by their paths.

    pages: by the name of their file, in the order of the menu; index.html leads to the first. titles: in
    the menu, by the same names. about: what the numbers were made with, in a sentence.
    """
    written = {f"assets/{name}": text for name, text in assets().items()}
    written |= {f"{name}.html": document(name, page, titles, about) for name, page in pages.items()}
    first = next(iter(pages))
    return written | {"index.html": f'<meta http-equiv="refresh" content="0; url={first}.html">\n'}


def write(folder: Path, texts: Mapping[str, str]) -> None:
    """Write files into a folder, which is made where there is none."""
    for name, text in texts.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def zipped(texts: Mapping[str, str]) -> bytes:
    """Return files as one zip, the same bytes for the same texts."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as folder:
        for name, text in texts.items():
            entry = zipfile.ZipInfo(name)  # dated 1980, not now
            folder.writestr(entry, text, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def assets() -> dict[str, str]:
    """Return the scripts and the style sheet that all pages share, by name."""
    components = {}
    for name, (script, style) in _COMPONENTS.items():
        code = script.replace("export default function", "const start = function", 1)
        begin = f"start({{ data: {{ style: {json.dumps(style)} }} }});"
        components[f"{name}.js"] = f"(() => {{\n{code}\n{begin}\n}})();\n"
    return {
        "vega.js": vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"),
        "gallery.css": (FOLDER / "gallery.css").read_text(encoding="utf-8"),
        "gallery.js": (FOLDER / "gallery.js").read_text(encoding="utf-8"),
        **components,
    }


def document(name: str, page: Page, titles: Mapping[str, str], about: str) -> str:
    """Return a page as a whole file, with links to the other ones."""
    links = "".join(
        f'<a href="{other}.html"{" aria-current=page" if other == name else ""}>{html.escape(title)}</a>'
        for other, title in titles.items()
    )
    body = Writer(page.title, titles).page(page)
    scripts = "".join(
        f'<script src="assets/{script}"></script>'
        for script in ("vega.js", *(f"{one}.js" for one in _COMPONENTS), "gallery.js")
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(page.title)} - posenc</title>"
        '<link rel="stylesheet" href="assets/gallery.css"></head>\n'
        f"<body><nav>{links}</nav>\n<main>{body}</main>\n"
        f'<footer class="caption">{html.escape(about)}</footer>\n{scripts}</body></html>\n'
    )
