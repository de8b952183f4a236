"""The command `posenc gallery`: all pages as files that open without a server."""

from pathlib import Path
from urllib.parse import parse_qs, urlparse

import click

from dashboard import all_pages, state
from dashboard.gallery import write
from dashboard.menu import PATHS
from posenc.plugins import load_plugin


@click.command(
    name="gallery",
    help="Write the pages of the dashboard into FOLDER as HTML that opens without a server or a network.",
)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--link", metavar="ADDRESS", default="", help="Link of a page, which says the setting."
)
@click.option(
    "--plugin", "plugins", multiple=True, metavar="FILE", help="Python file with own schemes."
)
def write_gallery(folder: Path, link: str, plugins: tuple[str, ...]) -> None:
    """Write the files, and say what of the link was ignored."""
    for file in plugins:
        load_plugin(file)
    asked = urlparse(link)
    folders = {path: folder for folder, path in PATHS.items()}
    page = folders.get(asked.path.strip("/").rpartition("/")[2], "start")
    linked = state.read_query(parse_qs(asked.query), page, all_pages.kind_of(page))
    if linked.notice:
        click.echo(linked.notice, err=True)
    texts = all_pages.files(linked.state)
    write.write(folder, texts)
    click.echo(f"{len(texts)} files in {folder}; begin with {folder / 'index.html'}.")
