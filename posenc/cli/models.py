"""Shared by the commands on models: the config that they read, and tables and lists that they print."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from posenc import limits
from posenc.errors import PosencError
from posenc.models import read_config
from posenc.models.model_config import ModelConfig
from posenc.models.presets import MODELS
from posenc.text import printable_name

CONFIG = click.argument("config", metavar="MODEL_OR_CONFIG")
ASSUME = click.option(
    "--assume",
    metavar="TYPE",
    help="Read a config that would be refused as this model type, such as llama, and without keys that "
    "cannot be read. The answer's first line says so.",
)
AS_JSON = click.option(
    "--json", "as_json", is_flag=True, help="Print every number in full, as JSON."
)


class UsageError(click.ClickException):
    """An argument or a config that cannot be used: one sentence, exit status 2."""

    exit_code = 2


def read_model(config: str, assume: str | None) -> tuple[ModelConfig, str]:
    """Return a model and its name: of a known model, of the file, or of the folder of a config.json."""
    if not config:
        raise UsageError("MODEL_OR_CONFIG must name a file or a model, or be - for stdin.")
    preset = MODELS.get(config)
    if preset is not None:
        return preset.read(scaled=False), config
    stdin, path = config == "-", Path(config)
    if not (stdin or path.is_file()):
        fault = "is no regular file" if path.exists() else "does not exist"
        raise UsageError(
            f"{printable_name(path.name)} {fault}: give the path of a config.json, - for stdin, or the "
            "name of a known model, such as llama-3.1-8b."
        )
    try:
        source = sys.stdin.buffer.read(limits.MAX_CONFIG_BYTES + 1) if stdin else path
        model = read_config(source, assume)
    except PosencError as error:
        raise UsageError(str(error)) from None
    name = path.resolve().parent.name if path.name == "config.json" else path.stem
    return model, ("" if stdin else printable_name(name)) or printable_name(model.model_type)


def print_assumptions(model: ModelConfig, assumed: Sequence[str]) -> None:
    """Print what numbers rest on, before any of them."""
    if model.assumption:
        click.echo(f"{model.assumption}\n")
    if assumed:
        click.echo("\n  ".join(["Assumed", *assumed]) + "\n")


def print_table(rows: Sequence[dict[str, str]]) -> None:
    header = {name: name for name in rows[0]}
    widths = {name: max(len(row[name]) for row in (header, *rows)) for name in header}
    for row in (header, *rows):
        click.echo("  ".join(row[name].ljust(widths[name]) for name in header).rstrip())


def print_list(title: str, sentences: Sequence[str]) -> None:
    if sentences:
        click.echo("\n  ".join([f"\n{title}", *sentences]))
