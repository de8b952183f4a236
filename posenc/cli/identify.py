"""`python -m posenc identify`: which scheme made the table in a file, and how it differs from it."""

import json
from pathlib import Path

import click

from posenc.checkpoints.array_files import read_number_table
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
        table = read_number_table(file, tensor)
        second = table.sines if sines is None else read_number_table(sines).table
        result = identify(table.table, second)
        exact = from_exact(result, table.table, second) if result.known else None
    except OSError as error:
        raise click.ClickException(f"{file} cannot be read: {error.strerror}.") from None
    if as_json:
        values = record(result) | {
            "largest_error": None if exact is None else exact.largest,
            "tensor": table.name,
            "notes": list(table.notes),
        }
        click.echo(json.dumps(values, indent=2))
        return
    if leading := leading_error(result, exact):
        click.echo(leading)
    click.echo(headline(result))
    click.echo(fit_sentence(result))
    also = [f"It may also be {words}." for words in result.also]
    for line in (*(deviation.sentence for deviation in result.deviations), *also, *table.notes):
        click.echo(f"  {line}")
