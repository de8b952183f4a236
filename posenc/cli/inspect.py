"""`posenc inspect`: say how each layer of a model encodes position."""

import json

import click

from posenc.cli.models import (
    AS_JSON,
    ASSUME,
    CONFIG,
    print_assumptions,
    print_list,
    print_table,
    read_model,
)
from posenc.planner.record import model_record
from posenc.planner.tables import layer_rows
from posenc.text import printable_name


@click.command(
    name="inspect",
    help="Describe how each layer of a model encodes position, from the path of its config.json, - for "
    "stdin, or the name of a model that posenc knows, such as llama-3.1-8b.",
)
@CONFIG
@ASSUME
@AS_JSON
def inspect_config(config: str, assume: str | None, as_json: bool) -> None:
    model, name = read_model(config, assume)
    if as_json:
        click.echo(json.dumps(model_record(model), indent=2))
        return
    print_assumptions(model, model.assumed)
    context, trained = (
        "not given" if length is None else f"{length:,}"
        for length in (model.context, model.trained_length)
    )
    kind = printable_name(model.model_type)
    click.echo(f"{name}: {kind}, {model.layers} layers of width {model.hidden_size:,}")
    click.echo(f"context {context}, trained length {trained}\n")
    print_table(layer_rows(model))
    notes = [*model.notes, *(note for kind in model.layer_kinds for note in kind.notes)]
    print_list("Notes", list(dict.fromkeys(notes)))
    print_list("Not read", model.ignored)
