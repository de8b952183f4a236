"""The command line: `python -m posenc train`, `runs`, `label`, `export`, `inspect`, `plan`, `identify`."""

import csv
import io
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from tqdm import tqdm

from posenc.commands.identifying import identify_table
from posenc.commands.labelling import label_run
from posenc.commands.planning import inspect_config, plan_context
from posenc.csv_cells import cell
from posenc.errors import PosencError
from posenc.lab.labels import Labels, hidden
from posenc.lab.run import Run
from posenc.lab.runs import Store
from posenc.lab.specification import DEFAULT_SCALINGS, Specification
from posenc.lab.summary import (
    Curve,
    at_training_length,
    comparison,
    curves,
    effect,
    elbow,
    label,
    perplexity,
    reach,
)
from posenc.lab.sweep import Job, Outcome, local_sweep, read_text, specifications, sweep, sweep_here
from posenc.lab.tasks import TASKS, Copy, Language, Recall
from posenc.lab.train import Report
from posenc.run_files import ENVIRONMENT, lasting, reason
from posenc.schemes import SCHEMES
from posenc.schemes.stretched import AFTER_TRAINING

ANSWERS_WITHIN = 10  # seconds that a Dask scheduler has to answer in

_STORE = click.option("--store", help="Folder or URL of the runs; default $POSENC_RUNS.")


class _Kind(click.Group):
    """Commands whose expected errors are one sentence and no trace."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except PosencError as error:
            raise click.ClickException(str(error)) from error


@click.group(
    cls=_Kind,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    help="Measure positional encodings, plan with them, and tell what a table is.",
)
def main() -> None:
    pass


main.add_command(inspect_config)
main.add_command(plan_context)
main.add_command(identify_table)
main.add_command(label_run)


@main.command(
    help="Train every combination asked for; runs that are in the store are not repeated."
)
@click.option(
    "--scheme",
    "schemes",
    multiple=True,
    required=True,
    type=click.Choice(list(SCHEMES)),
    help="May be repeated.",
)
@click.option(
    "--task", default=Language.kind, type=click.Choice(list(TASKS)), help="What is learned."
)
@click.option("--seeds", default=1, type=click.IntRange(1, 1_000), help="Seeds 0, 1, ...")
@click.option("--train-length", default=64, help="Tokens of a training sequence (copy: letters).")
@click.option("--steps", default=1_200, help="Of training.")
@click.option("--batch", default=32, help="Sequences per step.")
@click.option("--learning-rate", default=2e-3, help="The highest, after the warm-up.")
@click.option(
    "--base", "bases", multiple=True, type=float, default=[10_000.0], help="May be repeated."
)
@click.option("--width", "widths", multiple=True, type=int, default=[128], help="May be repeated.")
@click.option("--layers", default=3, help="Of the model.")
@click.option("--heads", default=4, help="Of every layer.")
@click.option("--longest", default=16, help="Read to this many training lengths.")
@click.option("--segments", default=256, help="Segments of text that are scored.")
@click.option(
    "--text", type=click.Path(exists=True, dir_okay=False), help="Default: Python's library."
)
@click.option(
    "--scaling",
    "scalings",
    multiple=True,
    type=click.Choice(list(AFTER_TRAINING)),
    default=DEFAULT_SCALINGS,
    help="By which plain RoPE is read past its length, too. May be repeated.",
)
@click.option("--device", default="cpu", help="cpu, cuda or mps.")
@click.option("--threads", default=1, help="Of each run; another number rounds differently.")
@click.option("--compile", "compiled", is_flag=True, help="By torch.compile; rounds differently.")
@click.option("--workers", default=1, type=click.IntRange(1, 256), help="Runs at a time.")
@click.option("--dask", help="Address of a Dask scheduler, such as tcp://scheduler:8786.")
@_STORE
def train(
    schemes: tuple[str, ...], task: str, seeds: int, train_length: int, steps: int, batch: int,
    learning_rate: float, bases: tuple[float, ...], widths: tuple[int, ...], layers: int, heads: int,
    longest: int, segments: int, scalings: tuple[str, ...], text: str | None, device: str, threads: int,
    compiled: bool, workers: int, dask: str | None, store: str | None,
) -> None:  # fmt: skip
    corpus = read_text(text) if task == Language.kind else None
    asked = specifications(
        schemes, seeds=seeds, bases=bases, widths=widths, layers=layers, heads=heads, corpus=corpus,
        train_length=train_length, task=task, steps=steps, batch=batch, longest=longest,
        learning_rate=learning_rate, segments=segments, device=device, threads=threads,
        compiled=compiled, scalings=tuple(kind for kind in AFTER_TRAINING if kind in scalings),
    )  # fmt: skip
    place = str(Path(text).resolve()) if text else None
    if dask and store is None and not os.environ.get(ENVIRONMENT):
        raise click.ClickException(
            f"--dask needs a place of runs that every machine reaches: --store or ${ENVIRONMENT}."
        )
    opened = Store(store)
    if not lasting(opened.url):
        raise click.ClickException("--store memory:// would be gone with the command.")
    opened.check_writable()
    # Where the runs go is decided here: other processes have folders and an environment of their own.
    jobs = [Job(one.record, opened.url, place) for one in asked]
    try:
        if dask:
            outcomes = _on_dask(jobs, dask, opened)
        elif workers > 1:
            with tqdm(local_sweep(jobs, workers), total=len(jobs), unit="run") as bar:
                outcomes = list(bar)
        else:
            outcomes = list(sweep_here(jobs, _bar))
    except KeyboardInterrupt:
        click.echo("\nStopped. The same command goes on from here.", err=True)
        sys.exit(130)
    for outcome in outcomes:
        said = outcome.error or outcome.stopped or "done"
        click.echo(f"{outcome.specification.run_id}  {_name(outcome.specification)}  {said}")
    if any(outcome.error for outcome in outcomes):
        sys.exit(1)


@main.command(help="List the runs of the store, with what they found.")
@click.option("--hidden", "also_hidden", is_flag=True, help="Those that their owners hid, too.")
@_STORE
def runs(also_hidden: bool, store: str | None) -> None:
    opened = _reading(store)
    labels = Labels(opened.url).all()
    found = sorted(opened, key=lambda run: (_name(run.specification), run.run_id))
    left_out = {run.run_id for run in found if hidden(labels.get(run.run_id, ()))}
    if not also_hidden:
        found = [run for run in found if run.run_id not in left_out]
    for run in found:
        state = run.stopped or f"{run.seconds:,.0f} s"
        names = "".join(
            f"  {label.name or 'no name'}{f' ({label.owner})' if label.owner else ''}"
            f"{', hidden' if label.hidden else ''}"
            for label in labels.get(run.run_id, ())
        )
        click.echo(
            f"{run.run_id}  {comparison(run.specification)}  {_name(run.specification)}  {state}"
            f"{names}"
        )
    if left_out and not also_hidden:
        click.echo(f"{len(left_out)} hidden: --hidden lists them, too.", err=True)
    for curve, alike in _compared(found, "context"):
        length = curve.specification.train_length
        loss = at_training_length(curve, alike)
        if loss is None:
            continue
        beyond, said = elbow(curve, loss), effect(curve, loss)
        past = "nothing longer was read" if said is None else f"longer context {said}"
        bend = f"elbow at {beyond:,}" if beyond else "no elbow"
        _tell(curve, alike, f"perplexity {perplexity(loss):.3f} at {length:,}, {past}, {bend}")
    for task in (Copy.kind, Recall.kind):
        for curve, alike in _compared(found, task):
            far = reach(curve)
            right = "nowhere" if far is None else f"up to {far:,}"
            _tell(curve, alike, f"at least half right {right}")
    _say_left_out(opened)


@main.command(help="Write every number of every run to FILE, one row each (CSV).")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@_STORE
def export(file: Path, store: str | None) -> None:
    opened = _reading(store)
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(
        ["run", "scheme", "task", "train_length", "seed", "measure", "variant", "x", "until",
         "value", "count", "comparison", "config"]
    )  # fmt: skip
    for run in opened:
        one = run.specification
        begin = [run.run_id, one.scheme.kind, one.task, one.train_length, one.seed]
        end = [comparison(one), json.dumps(one.record["scheme"], sort_keys=True)]
        for score in run.scores:
            row = [*begin, score.measure, score.variant, score.x, score.until, score.value, score.count,
                   *end]  # fmt: skip
            writer.writerow([cell(value) for value in row])
        for step, loss in enumerate(run.losses, start=1):
            writer.writerow([*begin, "training", "", step, 0, loss, 1, *end])
    try:  # once every run is read: what the file held stays until then
        file.write_bytes(out.getvalue().encode())
    except OSError as error:
        raise click.ClickException(f"{file} cannot be written: {reason(error)}.") from None
    click.echo(f"Written to {file}.")
    _say_left_out(opened)


def _tell(curve: Curve, alike: list[Curve], what: str) -> None:
    one, seeds = curve.specification, f"{curve.seeds} {'seed' if curve.seeds == 1 else 'seeds'}"
    click.echo(f"{comparison(one)}  {label(curve, alike)}: {what} ({seeds}); {one.alike}")


def _compared(found: Sequence[Run], measure: str) -> Iterator[tuple[Curve, list[Curve]]]:
    """Return every curve of a measure, with all of its comparison."""
    groups: dict[str, list[Curve]] = {}
    for curve in curves(found, measure):
        groups.setdefault(comparison(curve.specification), []).append(curve)
    for alike in groups.values():
        yield from ((curve, alike) for curve in alike)


def _reading(store: str | None) -> Store:
    """Open a store to read it, and say so where there is nothing in it."""
    opened = Store(store)
    if not opened.ids():
        click.echo(
            f"There are no runs in {opened.url}. Those that ship are in posenc/lab/results: "
            "--store reads another place.",
            err=True,
        )
    return opened


def _say_left_out(store: Store) -> None:
    for clause in store.left_out():
        click.echo(f"{clause[0].upper()}{clause[1:]}.", err=True)


def _on_dask(jobs: Sequence[Job], address: str, store: Store) -> list[Outcome]:
    try:
        from distributed import Client
    except ImportError:
        raise click.ClickException(
            "--dask needs the package distributed: pip install 'posenc[dask]'."
        ) from None
    try:
        client = Client(address, timeout=ANSWERS_WITHIN)
    except (OSError, ValueError) as error:
        raise click.ClickException(f"The Dask scheduler cannot be reached: {error}.") from None
    with client, tqdm(total=len(jobs), unit="run") as bar:
        outcomes = []
        for outcome in sweep(jobs, client.get_executor(retries=2)):
            outcomes.append(_arrived(outcome, store))
            bar.update()
        return outcomes


def _arrived(outcome: Outcome, store: Store) -> Outcome:
    """Return what became of a job, which is an error if its run is nowhere to be found here."""
    if outcome.error or store.has(outcome.specification.run_id):
        return outcome
    lost = "its machine kept the run in a place of its own: --store must be one that all reach"
    return Outcome(outcome.specification, error=lost)


def _bar(specification: Specification) -> Report:
    """Return a report that draws one progress bar per run."""
    bar = tqdm(total=specification.steps, desc=_name(specification), unit="step", leave=False)

    def report(step: int, loss: float) -> None:
        bar.update(step - bar.n)
        bar.set_postfix(loss=f"{loss:.3f}", refresh=False)
        if step == specification.steps:
            bar.close()

    return report


def _name(specification: Specification) -> str:
    base = getattr(specification.scheme, "base", None)
    parts = [specification.task, specification.scheme.label, f"L={specification.train_length}"]
    parts += [f"base={base:,.10g}"] if base is not None else []
    return " ".join([*parts, f"width={specification.model.width}", f"seed={specification.seed}"])


if __name__ == "__main__":
    main(prog_name="python -m posenc")
