"""Pages as the files of one folder."""

import html
import io
import json
import zipfile
from collections.abc import Callable, Collection, Mapping
from functools import partial
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


Opened = Callable[[str, Mapping[str, str]], Page]


def files(
    pages: Mapping[str, Page],
    titles: Mapping[str, str],
    about: str,
    parts: Mapping[str, Mapping[str, str]] | None = None,
    opened: Opened | None = None,
) -> dict[str, str]:
    """Return the texts of all files by their paths.

    pages: by the name of their file, in the order of the menu; index.html leads to the first. titles: in
    the menu, by names. about: what the numbers were made with, in a sentence. parts: of a page in several
    files, by its name in the menu: the title of each file by its name. opened: returns the page of a file
    with these tabs open, labels by option; without it only the open tabs are written.
    """
    written = {f"assets/{name}": text for name, text in assets().items()}
    of_file = {name: names for names in (parts or {}).values() for name in names}
    for name, page in pages.items():
        with_tabs = partial(opened, name) if opened else None
        written[f"{name}.html"] = document(
            name, page, titles, about, of_file.get(name, {}), with_tabs
        )
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


def document(
    name: str,
    page: Page,
    titles: Mapping[str, str],
    about: str,
    parts: Mapping[str, str] | None = None,
    opened: Callable[[Mapping[str, str]], Page] | None = None,
) -> str:
    """Return a page as a whole file, with links to the other ones and to its other parts."""
    links = _links({name, *(parts or {})}, titles)
    inside = f'\n<nav aria-label="Parts">{_links({name}, parts)}</nav>' if parts else ""
    body = Writer(page.title, titles, opened=opened).page(page)
    scripts = "".join(
        f'<script src="assets/{script}"></script>'
        for script in ("vega.js", *(f"{one}.js" for one in _COMPONENTS), "gallery.js")
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(page.title)} - posenc</title>"
        '<link rel="stylesheet" href="assets/gallery.css"></head>\n'
        f'<body><nav aria-label="Pages">{links}</nav>{inside}\n<main>{body}</main>\n'
        f'<footer class="caption">{html.escape(about)}</footer>\n{scripts}</body></html>\n'
    )


def _links(current: Collection[str], titles: Mapping[str, str]) -> str:
    """Return links to files by their names, marked where a reader is."""
    return "".join(
        f'<a href="{name}.html"{" aria-current=page" if name in current else ""}>{html.escape(title)}</a>'
        for name, title in titles.items()
    )
