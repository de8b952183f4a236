"""`posenc identify`: say which scheme made a table of numbers."""

import contextlib
import json
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import torch
from torch import Tensor

from posenc.checkpoints.array_files import NumberTable, read_number_table
from posenc.cli.identify_logits import print_bias, print_logits
from posenc.cli.models import UsageError, read_model
from posenc.device import fixed_threads
from posenc.identification import Identification, identify, match_model, match_rotation, rotation_of
from posenc.identification.columns import TableInput
from posenc.identification.identify import from_exact
from posenc.identification.match import expected_positions
from posenc.identification.rotation_words import layout_sentence
from posenc.identification.sentences import (
    alternative_sentences,
    deviation_sentences,
    fit_sentence,
    headline,
    leading_error,
    match_sentences,
    record,
    rotation_sentences,
)
from posenc.schemes.base import SchemeConfig

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_MOST_TEXT = 2**26  # characters of a file of positions


@click.command(
    name="identify",
    help="Say which scheme made the table in a .npy or .safetensors file, or which softmax scale, bias and "
    "mask made attention logits. The exit status is 2 if a file cannot be read or is refused and, with "
    "--config, 1 if the numbers deviate from the model's.",
)
@click.argument("file", type=_FILE, required=False)
@click.option("--tensor", help="Its name, where a .safetensors file holds several tables.")
@click.option(
    "--sines",
    type=_FILE,
    help="A file of the sines, where FILE holds the cosines.",
)
@click.option(
    "--before",
    type=_FILE,
    help="Queries or keys before the rotation, where FILE holds the same after it: positions x "
    "features, or 2 x positions x features with queries first.",
)
@click.option("--config", help="A config.json: does the table belong to this model? - is stdin.")
@click.option(
    "--positions",
    type=_FILE,
    help="A text file with the position expected of every row, such as 0 1 2 0 1 2 of two packed "
    "documents; with --config.",
)
@click.option(
    "--logits",
    type=_FILE,
    help="In place of FILE, attention logits, heads x queries x keys, or the weights after the softmax; "
    "with --queries and --keys.",
)
@click.option("--queries", type=_FILE, help="Of the logits: heads x queries x head width.")
@click.option("--keys", type=_FILE, help="Of the logits: heads x keys x head width.")
@click.option(
    "--rotated/--not-rotated",
    default=None,
    help="Whether queries and keys are rotated already; without it, either is tried.",
)
@click.option("--bias", type=_FILE, help="In place of FILE, a bias, heads x queries x keys.")
@click.option(
    "--first-head",
    default=0,
    show_default=True,
    help="Of the layer, where logits or a bias are those of a tensor-parallel rank.",
)
@click.option("--json", "as_json", is_flag=True, help="Print every number in full, as JSON.")
def identify_table(
    file: Path | None, tensor: str | None, sines: Path | None, before: Path | None, config: str | None,
    positions: Path | None, logits: Path | None, queries: Path | None, keys: Path | None,
    rotated: bool | None, bias: Path | None, first_head: int, as_json: bool,
) -> None:  # fmt: skip
    if (file is not None) + (logits is not None) + (bias is not None) != 1:
        raise UsageError("Give one of FILE, --logits and --bias.")
    model = None if config is None else read_model(config, None)[0]
    if file is None:
        if tensor or sines or before or positions:
            raise UsageError("--tensor, --sines, --before and --positions go with FILE.")
        with fixed_threads(1):
            is_right = (
                print_bias(bias, model, first_head, as_json)
                if logits is None
                else print_logits(logits, queries, keys, model, rotated, first_head, as_json)
            )
        raise click.exceptions.Exit(0 if is_right else 1)
    if queries or keys or rotated is not None or first_head:
        raise UsageError(
            "--queries, --keys, --rotated and --first-head go with --logits or --bias."
        )
    schemes = None if model is None else {kind.name: kind.scheme for kind in model.layer_kinds}
    if before is not None and (sines is not None or tensor is not None):
        raise UsageError("--before goes with neither --sines nor --tensor.")
    if positions is not None and config is None:
        raise UsageError("--positions goes with --config.")
    places = None if positions is None else _read_positions(positions)
    try:
        table = read_number_table(file, tensor)
        second = table.sines if sines is None else read_number_table(sines).table
        vectors = None if before is None else read_number_table(before)
    except OSError as error:
        where = error.filename or file
        raise click.ClickException(f"{where} cannot be read: {error.strerror}.") from None
    if places is not None:  # before a search that may take long
        source = table.table if vectors is not None else TableInput.of(table.table, second).columns
        expected_positions(places, source.shape[-2])
    with _search_notice(), fixed_threads(1):
        if vectors is not None:
            belong = _print_rotations(_parts(vectors), _parts(table), schemes, places, as_json)
            raise click.exceptions.Exit(0 if belong else 1)
        result = identify(table.table, second)
        match = None if schemes is None else match_model(schemes, table.table, second, places)
    sentences = [] if match is None else match_sentences(match, result)
    if as_json:
        belongs = None if match is None else match.belongs
        values = _table_record(result, table.table, second, belongs, sentences)
        click.echo(
            json.dumps(values | {"tensor": table.name, "notes": list(table.notes)}, indent=2)
        )
    else:
        belongs = match is not None and match.belongs
        _print_identification(result, table.table, second, belongs, sentences, table.notes)
    if match is not None and not match.belongs:
        raise click.exceptions.Exit(1)


@contextlib.contextmanager
def _search_notice() -> Iterator[None]:
    """Say on standard error what takes long, if it takes more than a second."""
    text = "Comparing the numbers with known tables: about 10 seconds where none is near."
    timer = threading.Timer(1.0, click.echo, (text,), {"err": True})
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _read_positions(file: Path) -> Tensor:
    """Read whole numbers that blanks, commas, lines or brackets separate."""
    words = re.split(r"[\s,\[\]]+", file.read_text("utf-8", "replace")[:_MOST_TEXT])
    try:
        return torch.tensor([int(word) for word in words if word], dtype=torch.int64)
    except (ValueError, OverflowError, RuntimeError):
        raise UsageError(f"{file} must hold whole numbers, one for each row.") from None


def _parts(table: NumberTable) -> list[Tensor]:
    return [table.table] if table.sines is None else [table.table, table.sines]


def _print_rotations(
    before: Sequence[Tensor], after: Sequence[Tensor], schemes: dict[str, SchemeConfig | None] | None,
    positions: Tensor | None, as_json: bool,
) -> bool:  # fmt: skip
    """Print how queries, and keys where there are two arrays, were rotated.

    Returns whether all belong to the model, if one is compared.
    """
    if len(before) != len(after):
        raise UsageError("FILE and --before must have one shape.")
    records, belong = [], True
    for part, (x, y) in enumerate(zip(before, after, strict=True)):
        rotation = rotation_of(x, y).as_in(schemes or {})
        name = ("queries", "keys")[part] if len(before) == 2 else "vectors"
        match = None if schemes is None else match_rotation(rotation, schemes, positions)
        sentences: list[str] = []
        if match is not None:
            sentences = rotation_sentences(match, rotation.identified)
            belong = belong and match.belongs
        values = {
            "vectors": name, "layout": rotation.layout, "rotated": rotation.features,
            "permuted": rotation.permuted,
        }  # fmt: skip
        if not as_json:
            click.echo(f"{name.capitalize()}: {layout_sentence(rotation)}")
        if rotation.cosines is not None and (result := rotation.identified) is not None:
            tables = rotation.cosines, rotation.sines
            if as_json:
                belongs = None if match is None else match.belongs
                values = _table_record(result, *tables, belongs, sentences) | values
            else:
                belongs = match is not None and match.belongs
                _print_identification(result, *tables, belongs, sentences, of_vectors=True)
        elif sentences and not as_json:
            click.echo(" ".join(sentences))
        records.append(values)
    if as_json:
        click.echo(json.dumps(records, indent=2))
    return belong


def _table_record(
    result: Identification, table: Tensor, sines: Tensor | None, belongs: bool | None,
    sentences: Sequence[str],
) -> dict[str, Any]:  # fmt: skip
    exact = from_exact(result, table, sines) if result.known else None
    return record(result) | {
        "belongs": belongs,
        "match": " ".join(sentences) or None,
        "largest_error": None if exact is None else exact.largest,
    }


def _print_identification(
    result: Identification, table: Tensor, sines: Tensor | None, belongs: bool,
    sentences: Sequence[str], notes: Sequence[str] = (), of_vectors: bool = False,
) -> None:  # fmt: skip
    """Print the cause first, if a model is compared; then what the table is and how it deviates."""
    if sentences:
        click.echo(" ".join(sentences))
    if belongs:  # what deviates from float64 is the model's own
        result = replace(result, deviations=())
    exact = from_exact(result, table, sines) if result.known else None
    if leading := leading_error(result, exact):
        click.echo(leading)
    if result.known or not belongs:  # else the model's own scaling is the answer
        click.echo(headline(result))
        if not of_vectors:  # whose angles have the rounding of two numbers
            click.echo(fit_sentence(result))
    for line in (*deviation_sentences(result), *alternative_sentences(result), *notes):
        click.echo(f"  {line}")
