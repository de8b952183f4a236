"""`python -m posenc identify`: which scheme made the table in a file, and where it departs from it."""

import json
from pathlib import Path

import click

from posenc.checkpoints.array_files import read_number_table
from posenc.errors import PosencError
from posenc.identification import identify
from posenc.identification.identify import fit_sentence, from_exact, headline, leading_error, record


@click.command(
    name="identify", help="Say which scheme made the table in a .npy or .safetensors file."
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--tensor", help="Its name, where a .safetensors file holds several tables.")
@click.option(
    "--sines",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file of the sines, where FILE holds the cosines.",
)
@click.option("--json", "as_json", is_flag=True, help="Every number, in full.")
def identify_table(file: Path, tensor: str | None, sines: Path | None, as_json: bool) -> None:
    try:
        read = read_number_table(file, tensor)
        beside = read.sines if sines is None else read_number_table(sines).table
        found = identify(read.table, beside)
        apart = from_exact(found, read.table, beside) if found.known else None
    except OSError as error:
        raise click.ClickException(f"{file} cannot be read: {error.strerror}.") from None
    except PosencError as error:
        raise click.ClickException(str(error)) from None
    if as_json:
        said = record(found) | {"largest_error": None if apart is None else apart.largest}
        said |= {"tensor": read.name, "notes": list(read.notes)}
        return click.echo(json.dumps(said, indent=2))
    if leading := leading_error(found, apart):
        click.echo(leading)
    click.echo(headline(found))
    click.echo(fit_sentence(found))
    for one in found.deviations:
        click.echo(f"  {one.sentence}")
    for words in found.also:
        click.echo(f"  It may also be {words}.")
    for note in read.notes:
        click.echo(f"  {note}")
    return None
