"""The command line: `python -m posenc train`, `runs`, `export`."""

import csv
import sys
from collections.abc import Sequence
from pathlib import Path

import click
from tqdm import tqdm

from posenc.errors import PosencError
from posenc.lab.evaluate import TRAINED
from posenc.lab.runs import Store
from posenc.lab.specification import Specification
from posenc.lab.summary import at_training_length, curves, effect, elbow, perplexity
from posenc.lab.sweep import Job, Outcome, local_sweep, read_text, specifications, sweep, sweep_here
from posenc.lab.tasks import TASKS, Language
from posenc.lab.train import Report
from posenc.schemes import SCHEMES

_STORE = click.option("--store", help="Folder or URL of the runs; default $POSENC_RUNS.")


class _Kind(click.Group):
    """Commands whose expected errors are one sentence and no trace."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except PosencError as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=_Kind, help="Measure positional encodings: train, list and export runs.")
def main() -> None:
    pass


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
@click.option("--task", default=Language.kind, type=click.Choice(list(TASKS)))
@click.option("--seeds", default=1, type=click.IntRange(1, 1_000), help="Seeds 0, 1, ...")
@click.option("--train-length", default=64, help="Tokens of a training sequence (copy: letters).")
@click.option("--steps", default=1_200)
@click.option("--batch", default=32, help="Sequences per step.")
@click.option("--learning-rate", default=2e-3)
@click.option(
    "--base", "bases", multiple=True, type=float, default=[10_000.0], help="May be repeated."
)
@click.option("--width", "widths", multiple=True, type=int, default=[128], help="May be repeated.")
@click.option("--layers", default=3)
@click.option("--heads", default=4)
@click.option("--longest", default=16, help="Read to this many training lengths.")
@click.option("--segments", default=256, help="Segments of text that are scored.")
@click.option(
    "--text", type=click.Path(exists=True, dir_okay=False), help="Default: Python's library."
)
@click.option("--device", default="cpu", help="cpu, cuda or mps.")
@click.option("--threads", default=1, help="Of each run; another number rounds differently.")
@click.option("--workers", default=1, type=click.IntRange(1, 256), help="Runs at a time.")
@click.option("--dask", help="Address of a Dask scheduler, such as tcp://scheduler:8786.")
@_STORE
def train(
    schemes: tuple[str, ...], task: str, seeds: int, train_length: int, steps: int, batch: int,
    learning_rate: float, bases: tuple[float, ...], widths: tuple[int, ...], layers: int, heads: int,
    longest: int, segments: int, text: str | None, device: str, threads: int, workers: int,
    dask: str | None, store: str | None,
) -> None:  # fmt: skip
    corpus = read_text(text) if task == Language.kind else None
    asked = specifications(
        schemes, seeds=seeds, bases=bases, widths=widths, layers=layers, heads=heads, corpus=corpus,
        train_length=train_length, task=task, steps=steps, batch=batch, longest=longest,
        learning_rate=learning_rate, segments=segments, device=device, threads=threads,
    )  # fmt: skip
    place = str(Path(text).resolve()) if text else None
    jobs = [Job(one.record, store, place) for one in asked]
    try:
        if dask:
            outcomes = _on_dask(jobs, dask)
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
@_STORE
def runs(store: str | None) -> None:
    opened = Store(store)
    found = sorted(opened, key=lambda run: (_name(run.specification), run.run_id))
    for run in found:
        state = run.stopped or f"{run.seconds:,.0f} s"
        click.echo(f"{run.run_id}  {_name(run.specification)}  {state}")
    every = curves(found, "context")
    for curve in every:
        length = curve.specification.train_length
        loss = at_training_length(curve, every)
        if loss is None:
            continue
        beyond, said = elbow(curve, loss), effect(curve, loss)
        way = "" if curve.variant == TRAINED else f", {curve.variant}"
        past = "nothing longer was read" if said is None else f"longer context {said}"
        bend = f"elbow at {beyond:,}" if beyond else "no elbow"
        click.echo(
            f"{curve.specification.scheme.label}{way}: perplexity {perplexity(loss):.3f} at "
            f"{length:,}, {past}, {bend} ({curve.seeds} seeds)"
        )
    _say_broken(opened)


@main.command(help="Write every number of every run to FILE, one row each (CSV).")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@_STORE
def export(file: Path, store: str | None) -> None:
    opened = Store(store)  # before the file is begun
    try:
        out = file.open("w", newline="", encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"{file} cannot be written: {error.strerror}.") from None
    with out:
        writer = csv.writer(out)
        writer.writerow(
            ["run", "scheme", "task", "train_length", "seed", "measure", "variant", "x", "until",
             "value", "count"]
        )  # fmt: skip
        for run in opened:
            one = run.specification
            begin = [run.run_id, one.scheme.kind, one.task, one.train_length, one.seed]
            for score in run.scores:
                writer.writerow(
                    [*begin, score.measure, score.variant, score.x, score.until, score.value, score.count]
                )  # fmt: skip
            for step, loss in enumerate(run.losses, start=1):
                writer.writerow([*begin, "training", "", step, 0, loss, 1])
    click.echo(f"Written to {file}.")
    _say_broken(opened)


def _say_broken(store: Store) -> None:
    for name in store.broken:
        click.echo(f"{name} cannot be read and was set aside.", err=True)


def _on_dask(jobs: Sequence[Job], address: str) -> list[Outcome]:
    try:
        from distributed import Client
    except ImportError:
        raise click.ClickException(
            "--dask needs the package distributed: pip install 'posenc[dask]'."
        ) from None
    with Client(address) as client, tqdm(total=len(jobs), unit="run") as bar:
        outcomes = []
        for outcome in sweep(jobs, client.get_executor(retries=2)):
            outcomes.append(outcome)
            bar.update()
        return outcomes


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
    parts += [f"base={base:g}"] if base is not None else []
    return " ".join([*parts, f"width={specification.model.width}", f"seed={specification.seed}"])


if __name__ == "__main__":
    main(prog_name="python -m posenc")
