"""`python -m posenc inspect` and `plan`: what a config.json says, and a longer context for it."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from posenc import limits
from posenc.checkpoints import printable_name
from posenc.device import fixed_threads
from posenc.errors import PosencError
from posenc.models import read_config
from posenc.models.model_config import ModelConfig, full_cache_note
from posenc.planner import (
    METHODS,
    RANKING,
    ContextPlan,
    cautions,
    emit,
    layer_notes,
    loss_by_position_script,
    plan,
    verdict,
)
from posenc.planner.methods import UNSCALED
from posenc.planner.report import EXPLAINED, layer_rows, model_record, plan_record, ranked
from posenc.planner.warnings import bound_said, resolution_said, suggested
from posenc.text import with_advanced

_CONFIG = click.argument("config", metavar="CONFIG.JSON")
_ASSUME = click.option(
    "--assume",
    metavar="TYPE",
    help="Read a config that would be refused: a model type that is not known as this one, such as "
    "llama, and without keys that cannot be read. The answer's first line says so.",
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Every number, in full.")


class _Refused(click.ClickException):
    """What was given cannot be used: one sentence, exit status 2."""

    exit_code = 2


@click.command(name="inspect", help="Say what a model's config.json tells of position. - is stdin.")
@_CONFIG
@_ASSUME
@_JSON
def inspect_config(config: str, assume: str | None, as_json: bool) -> None:
    model, name = _read(config, assume)
    if as_json:
        return click.echo(_written(model_record(model)))
    _tell_assumed(model, model.assumed)
    context = "not told" if model.context is None else f"{model.context:,}"
    trained = "not told" if model.trained_length is None else f"{model.trained_length:,}"
    kind = printable_name(model.model_type)
    click.echo(f"{name}: {kind}, {model.layers} layers of width {model.hidden_size:,}")
    click.echo(f"context {context}, trained length {trained}\n")
    _table(layer_rows(model))
    notes = [*model.notes, *(note for kind in model.layer_kinds for note in kind.notes)]
    _list("Notes", list(dict.fromkeys(notes)))
    _list("Not read", model.ignored)
    return None


@click.command(
    name="plan", help="Plan a longer context for a model, from its config.json. - is stdin."
)
@_CONFIG
@click.option("--context", required=True, type=int, help="Tokens to read.")
@click.option("--trained", type=int, help="Tokens of a training text, where the config is silent.")
@click.option(
    "--methods",
    help=with_advanced(
        f"Some of {','.join(METHODS)}, with commas between them; default all.",
        (name for name, method in METHODS.items() if method.advanced),
    ),
)
@click.option("--script", type=click.Choice(list(METHODS)), help="Print the script that measures.")
@_ASSUME
@_JSON
def plan_context(
    config: str, context: int, trained: int | None, methods: str | None, script: str | None,
    assume: str | None, as_json: bool,
) -> None:  # fmt: skip
    model, name = _read(config, assume)
    asked = None if methods is None else [word.strip() for word in methods.split(",")]
    try:
        with fixed_threads(
            1
        ):  # a second one waits more than it computes: half again the processor's time
            made = plan(
                model, context, name=name, trained_length=trained,
                methods=[script] if script else asked, search_base=script in (None, "base"),
            )  # fmt: skip
    except PosencError as error:
        raise _Refused(str(error)) from None
    if script:
        return click.echo(_script(made, script))
    if as_json:
        return click.echo(_written(plan_record(made)))
    _tell(made)
    return None


def _tell_assumed(model: ModelConfig, assumed: Sequence[str]) -> None:
    """Say what numbers rest on, before any of them."""
    if model.assumption:
        click.echo(f"{model.assumption}\n")
    if assumed:
        click.echo("\n  ".join(["Assumed", *assumed]) + "\n")


def _tell(made: ContextPlan) -> None:
    _tell_assumed(made.model, (*made.assumed, *made.model.assumed))
    click.echo(f"{verdict(made)}\n{_next_step(made)}")
    if made.methods:
        for part, rows in ranked(made).items():
            click.echo(part)
            numbered = [{"#": str(rank)} | row for rank, row in enumerate(rows, start=1)]
            _table(numbered)
            click.echo()
        click.echo(f"{RANKING}\n{EXPLAINED}")
    _list("Left out", made.left_out)
    sizes = ", ".join(f"{gib:,.4g} GiB in {name}" for name, gib in made.cache.items())
    click.echo(f"\nKeys and values of one sequence of {made.target:,} tokens: {sizes}.")
    if windows := full_cache_note(made.model, made.target):
        click.echo(windows)
    click.echo(resolution_said(made))
    if bound := bound_said(made):
        click.echo(bound)
    notes = layer_notes(made.model, made.target, made.trained_length)
    _list("Layers", [f"{note.layers}: {note.sentence} ({note.source})" for note in notes])
    _list(
        "Sources",
        [f"{one.method.label}: {said} ({source})"
         for one in made.methods for said, source in one.statements],
    )  # fmt: skip
    found = cautions(made)
    _list("Beware", [f"{one.sentence} ({one.rule} Source: {one.source})" for one in found])
    if made.longer:
        _paste(made)


def _next_step(made: ContextPlan) -> str:
    """Name the option that prints a script for what the verdict begins with, or the next that has one."""
    if made.trained_length is None or made.target <= made.trained_length:
        return ""
    first = suggested(made)
    for one in (*([first] if first else []), *made.methods):
        if one.method.name in METHODS and emit(made, one).rope_parameters:
            return (
                f"Next: measure it on your own checkpoint and texts; --script {one.method.name} added to "
                "this command prints the script.\n"
            )
    return ""


def _paste(made: ContextPlan) -> None:
    if where := next((said for one in made.methods if (said := emit(made, one).where)), ""):
        _list("Ready to paste", [f"Keys of config.json: {where}"])
    for one in made.methods:
        if one.method.name == UNSCALED.name:
            continue
        emitted = emit(made, one)
        click.echo(f"\n{one.method.label}")
        if emitted.rope_parameters:
            click.echo(f"  config.json, transformers 5:  {json.dumps(emitted.rope_parameters)}")
        if emitted.rope_scaling:
            click.echo(f"  config.json, transformers 4:  {json.dumps(emitted.rope_scaling)}")
        for line in (emitted.vllm, emitted.llama_cpp, *emitted.why):
            if line:
                click.echo(f"  {line}")


def _script(made: ContextPlan, name: str) -> str:
    found = next((one for one in made.methods if one.method.name == name), None)
    written = "" if found is None else loss_by_position_script(made, found)
    if not written:
        raise _Refused(
            f"There is no script for {METHODS[name].label}: nothing to paste, or no scaling."
        )
    return written


def _read(config: str, assume: str | None) -> tuple[ModelConfig, str]:
    """Return a model and its name: the file's, or its folder's where it is a config.json."""
    try:
        model = read_config(
            sys.stdin.buffer.read(limits.MAX_CONFIG_BYTES + 1) if config == "-" else Path(config),
            assume,
        )
    except PosencError as error:
        raise _Refused(str(error)) from None
    path = Path(config)
    # What is printed may be a terminal's command, in a config of somebody else's.
    kind = printable_name(model.model_type)
    if config == "-":
        return model, kind
    name = path.resolve().parent.name if path.name == "config.json" else path.stem
    return model, printable_name(name) or kind


def _table(rows: Sequence[dict[str, str]]) -> None:
    names = list(rows[0])
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in names}
    for row in [{name: name for name in names}, *rows]:
        click.echo("  ".join(row[name].ljust(widths[name]) for name in names).rstrip())


def _list(title: str, sentences: Sequence[str]) -> None:
    if sentences:
        click.echo(f"\n{title}")
        for sentence in sentences:
            click.echo(f"  {sentence}")


def _written(record: dict[str, Any]) -> str:
    return json.dumps(record, indent=2)
