"""The command `posenc gallery`: all pages as files that open without a server."""

from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlparse

import click

from dashboard import all_pages, state
from dashboard.gallery import write
from dashboard.menu import PATHS
from posenc.errors import quoted
from posenc.plugins import load_plugin


@click.command(
    name="gallery",
    help="Write the pages of the dashboard into FOLDER as HTML that opens without a server or a network.",
)
@click.argument("folder", type=click.Path(file_okay=False))
@click.option(
    "--link", metavar="ADDRESS", default="", help="Link of a page, which says the setting."
)
@click.option(
    "--plugin", "plugins", multiple=True, metavar="FILE", help="Python file with own schemes."
)
def write_gallery(folder: str, link: str, plugins: tuple[str, ...]) -> None:
    """Write the files, and say what of the link was ignored."""
    if not folder:  # a variable that is not set would fill the folder at hand
        raise click.UsageError("FOLDER must be the name of a folder, got an empty one.")
    try:
        asked = urlparse(link)
    except ValueError:
        raise click.UsageError(
            f"--link must be the address of a page, such as '/similarity?base=500', got {quoted(link)}."
        ) from None
    for file in plugins:
        load_plugin(file)
    folders = {path: folder for folder, path in PATHS.items()}
    name = asked.path.removesuffix("/").rpartition("/")[2]
    page = folders.get(name, "start")
    linked = state.read_query(parse_qs(asked.query), page, all_pages.kind_of(page))
    if name not in folders and not asked.path.endswith("/"):  # which Start below another folder has
        linked = replace(linked, ignored=(name, *linked.ignored))
    if linked.notice:
        click.echo(linked.notice, err=True)
    texts = all_pages.files(linked.state)
    write.write(Path(folder), texts)
    click.echo(f"{len(texts)} files in {folder}; begin with {Path(folder) / 'index.html'}.")
