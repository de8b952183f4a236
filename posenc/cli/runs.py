"""The commands `runs` and `export`: list a store of runs, write it as CSV."""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from posenc.checkpoints.file_store import reason, write_whole
from posenc.checkpoints.sources import RESULTS
from posenc.lab.runs import Run, Store
from posenc.lab.specification import Specification
from posenc.lab.summary import (
    Curve,
    at_training_length,
    comparison,
    curves,
    effect,
    first_degraded_length,
    in_range,
    label,
    perplexity,
    reach,
)
from posenc.lab.tasks import Copy, Recall
from posenc.plugins import load_plugin
from posenc.text import count_of, csv_cell

SHIPPED = "shipped"  # what --store calls the runs that ship


def _place_to_read(
    context: click.Context, option: click.Parameter, store: str | None
) -> str | None:
    return str(RESULTS) if store == SHIPPED else store


def _place_to_write(
    context: click.Context, option: click.Parameter, store: str | None
) -> str | None:
    if store == SHIPPED:
        raise click.BadParameter(f"{SHIPPED} names the runs that ship, which no command changes.")
    return store


STORE = click.option(
    "--store", callback=_place_to_write, help="Folder or URL of the runs; default $POSENC_RUNS."
)
READ_STORE = click.option(
    "--store",
    callback=_place_to_read,
    help=f"Folder or URL of the runs, or {SHIPPED} for those that ship; default $POSENC_RUNS.",
)


def _load(context: click.Context, option: click.Parameter, files: tuple[str, ...]) -> None:
    for file in files:
        load_plugin(file)


PLUGIN = click.option(
    "--plugin",
    multiple=True,
    metavar="FILE",
    callback=_load,
    expose_value=False,
    is_eager=True,  # before options that name a scheme
    help="Python file that registers schemes of your own. May be repeated.",
)


def open_store(store: str | None) -> Store:
    """Open a store to read it, with a hint if it is empty."""
    opened = Store(store)
    if not opened.ids():
        click.echo(
            f"There are no runs in {opened.url}. --store {SHIPPED} reads those that ship.",
            err=True,
        )
    return opened


def say_left_out(store: Store) -> None:
    """Print which files of the store were left out, and why."""
    for clause in store.left_out():
        click.echo(f"{clause[0].upper()}{clause[1:]}.", err=True)


def run_name(specification: Specification) -> str:
    """Return the name of a run in lists: its task, scheme and sizes."""
    base = getattr(specification.scheme, "base", None)
    parts = [specification.task, specification.scheme.label, f"L={specification.train_length}"]
    parts += [f"base={base:,.10g}"] if base is not None else []
    return " ".join([*parts, f"width={specification.model.width}", f"seed={specification.seed}"])


@click.command(name="runs", help="List the runs of the store and their results.")
@READ_STORE
@PLUGIN
def list_runs(store: str | None) -> None:
    opened = open_store(store)
    listed = sorted(opened, key=lambda run: (run_name(run.specification), run.run_id))
    for run in listed:
        state = run.stopped or f"{run.seconds:,.0f} s"
        click.echo(
            f"{run.run_id}  {comparison(run.specification)}  {run_name(run.specification)}  {state}"
        )
    for curve, compared in _compared(listed, "context"):
        length = curve.specification.train_length
        loss = at_training_length(curve, compared)
        if loss is None:
            continue
        beyond, outcome = first_degraded_length(curve, loss), effect(curve, loss)
        past = "nothing longer was read" if outcome is None else f"{outcome} with longer context"
        bend = f" at {beyond:,}" if beyond else ""
        own = curve.at(length)
        at_length = "\u2013" if own is None else f"{perplexity(own):.3f}"
        _print(curve, compared, f"perplexity {at_length} at {length:,}, {past}{bend}")
    for task in (Copy.kind, Recall.kind):
        for curve, compared in _compared(listed, task):
            far = reach(curve)
            right = "nowhere" if far is None else f"up to {far:,}"
            inside = in_range(curve) if task == Recall.kind else None
            within = (
                f"{inside.mean:.0%} right within the training range (guessing: {Recall.CHANCE:.0%}), "
                if inside
                else ""
            )
            _print(curve, compared, f"{within}at least half right {right}")
    say_left_out(opened)


@click.command(name="export", help="Write every number of every run to FILE, one row each (CSV).")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@READ_STORE
@PLUGIN
def export_runs(file: Path, store: str | None) -> None:
    opened = open_store(store)
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(
        ["run", "scheme", "task", "train_length", "seed", "measure", "variant", "x", "until",
         "value", "count", "comparison", "config"]
    )  # fmt: skip
    for run in opened:
        spec = run.specification
        begin = [run.run_id, spec.scheme.kind, spec.task, spec.train_length, spec.seed]
        end = [comparison(spec), json.dumps(spec.record["scheme"], sort_keys=True)]
        for score in run.scores:
            row = [*begin, score.measure, score.variant, score.x, score.until, score.value, score.count,
                   *end]  # fmt: skip
            writer.writerow([csv_cell(value) for value in row])
        for step, loss in enumerate(run.losses, start=1):
            writer.writerow([*begin, "training", "", step, 0, loss, 1, *end])
    try:  # after every run is read, so that a failure leaves the old file
        content = out.getvalue().encode()
        if file.exists() and not file.is_file():  # a device or a pipe
            file.write_bytes(content)
        else:
            write_whole(file.resolve(), content)
    except OSError as error:
        raise click.ClickException(f"{file} cannot be written: {reason(error)}.") from None
    click.echo(f"Written to {file}.")
    say_left_out(opened)


def _print(curve: Curve, compared: list[Curve], result: str) -> None:
    spec, seeds = curve.specification, count_of(curve.seeds, "seed")
    click.echo(f"{comparison(spec)}  {label(curve, compared)}: {result} ({seeds}); {spec.alike}")


def _compared(runs: Sequence[Run], measure: str) -> Iterator[tuple[Curve, list[Curve]]]:
    """Return every curve of a measure with all curves of its comparison."""
    groups: dict[str, list[Curve]] = {}
    for curve in curves(runs, measure):
        groups.setdefault(comparison(curve.specification), []).append(curve)
    for group in groups.values():
        yield from ((curve, group) for curve in group)
