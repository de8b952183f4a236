"""`posenc train`: train combinations in this process, several processes or on a cluster."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from tqdm import tqdm

from posenc.checkpoints.file_store import ENVIRONMENT, is_shared
from posenc.cli.runs import PLUGIN, STORE
from posenc.lab.corpus import TEXTS
from posenc.lab.evaluate import Passed, evaluation_lengths, length_reached
from posenc.lab.listing import run_name
from posenc.lab.runs import Store
from posenc.lab.specification import DEFAULT_SCALINGS, Specification
from posenc.lab.sweep import (
    MAX_SEEDS,
    Outcome,
    SweepTask,
    local_sweep,
    read_text,
    specifications,
    sweep,
    sweep_here,
)
from posenc.lab.tasks import TASKS, Language
from posenc.lab.train import Report
from posenc.plugins import loaded_plugins
from posenc.schemes import SCHEMES
from posenc.schemes.rope_scaling import AFTER_TRAINING
from posenc.text import install_command, with_advanced

_UNITS = ", ".join(f"{kind}: {task.unit}s" for kind, task in TASKS.items() if task.unit != "token")
_SIZES = ", ".join(kind for kind, task in TASKS.items() if task.sizes)
_ADVANCED = tuple(kind for kind, config in SCHEMES.items() if config.advanced)
FAILED = 1  # exit status where a run failed
ANSWERS_WITHIN = 10  # seconds for a Dask scheduler to answer


class _Text(click.Path):
    """The path of a text, or a name of TEXTS."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if value in TEXTS else super().convert(value, param, ctx)


@click.command(
    name="train",
    help="Train every combination asked for; runs that are in the store are not repeated. The exit status "
    "is 2 if an option cannot be used, before anything is trained, and 1 if a run fails: the others are "
    "stored, and the same command tries it again.",
)
@click.option(
    "--scheme",
    "schemes",
    multiple=True,
    required=True,
    metavar="KIND",
    help=with_advanced(f"One of {', '.join(SCHEMES)}, or of --plugin. May be repeated.", _ADVANCED),
)
@click.option(
    "--task",
    default=Language.kind,
    type=click.Choice(list(TASKS)),
    help=f"What is learned. Where no option gives them, {_SIZES} have sizes, steps and rates of their own.",
)
@click.option("--seeds", default=1, type=click.IntRange(1, MAX_SEEDS), help="Seeds 0, 1, ...")
@click.option("--train-length", default=64, help=f"Of a training sequence, in tokens; {_UNITS}.")
@click.option(
    "--steps",
    "steps",
    multiple=True,
    type=int,
    default=[1_200],
    help="Of training. May be repeated: each number is a run with a schedule of its own.",
)
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
    "--text",
    type=_Text(exists=True, dir_okay=False),
    help=f"A file, or {' or '.join(TEXTS)}: the sources of Python's library without generated tables, or "
    "its documentation, where training and validation have no 64 bytes in common. Default: all of its "
    "sources.",
)
@click.option(
    "--scaling",
    "scalings",
    multiple=True,
    type=click.Choice(list(AFTER_TRAINING)),
    default=DEFAULT_SCALINGS,
    help=with_advanced(
        "By which plain RoPE is read past its length, too. May be repeated.",
        (kind for kind in _ADVANCED if kind in AFTER_TRAINING),
    ),
)
@click.option(
    "--before",
    metavar="KIND",
    help="A scheme that every model is trained with first; then it is fine-tuned with --scheme.",
)
@click.option(
    "--tuning-length", type=int, help="Tokens of a sequence while fine-tuned; as before by default."
)
@click.option("--tuning-steps", type=int, help="Of fine-tuning; a tenth of --steps by default.")
@click.option(
    "--tuning-rate", type=float, help="Of fine-tuning; a tenth of --learning-rate by default."
)
@click.option("--device", default="cpu", help="cpu, cuda or mps.")
@click.option("--threads", default=1, help="Of each run; another number rounds differently.")
@click.option("--compile", "compiled", is_flag=True, help="By torch.compile; rounds differently.")
@click.option("--workers", default=1, type=click.IntRange(1, 256), help="Runs at a time.")
@click.option("--dask", help="Address of a Dask scheduler, such as tcp://scheduler:8786.")
@STORE
@PLUGIN
def train_schemes(
    schemes: tuple[str, ...], task: str, seeds: int, train_length: int, steps: tuple[int, ...],
    batch: int, learning_rate: float, bases: tuple[float, ...], widths: tuple[int, ...],
    layers: int, heads: int,
    longest: int, segments: int, scalings: tuple[str, ...], text: str | None, before: str | None,
    tuning_length: int | None, tuning_steps: int | None, tuning_rate: float | None, device: str,
    threads: int, compiled: bool, workers: int, dask: str | None, store: str | None,
) -> None:  # fmt: skip
    asked = {"length": tuning_length, "steps": tuning_steps, "learning_rate": tuning_rate}
    if before is None and any(value is not None for value in asked.values()):
        raise click.UsageError("--tuning-length, --tuning-steps and --tuning-rate need --before.")
    corpus = read_text(text) if task == Language.kind else None
    sizes: dict[str, Any] = {
        "bases": bases, "widths": widths, "layers": layers, "heads": heads, "train_length": train_length,
        "steps": steps, "batch": batch, "learning_rate": learning_rate, "longest": longest,
    }  # fmt: skip
    context = click.get_current_context()
    sizes |= {
        name: value
        for name, value in TASKS[task].sizes.items()
        if context.get_parameter_source(name) is ParameterSource.DEFAULT
    }
    tuning = {"length": sizes["train_length"], "learning_rate": sizes["learning_rate"] / 10}
    tuning |= {name: value for name, value in asked.items() if value is not None}
    specs = [
        specification
        for number in dict.fromkeys(sizes.pop("steps"))
        for specification in specifications(
            schemes, seeds=seeds, corpus=corpus, task=task, steps=number, segments=segments,
            device=device, threads=threads, compiled=compiled, before=before,
            tuning={"steps": max(1, number // 10)} | tuning,
            scalings=tuple(kind for kind in AFTER_TRAINING if kind in scalings), **sizes,
        )
    ]  # fmt: skip
    if dask and store is None and not os.environ.get(ENVIRONMENT):
        raise click.ClickException(
            f"--dask needs a place of runs that every machine reaches: --store or ${ENVIRONMENT}."
        )
    opened = Store(store)
    if not is_shared(opened.url):
        raise click.ClickException("--store memory:// would be gone with the command.")
    opened.check_writable()
    # Absolute places: other processes have their own folders and environment.
    path = str(Path(text).resolve()) if text and text not in TEXTS else text
    plugins = loaded_plugins()
    tasks = [SweepTask(spec.record, opened.url, path, plugins) for spec in specs]
    try:
        if dask:
            outcomes = _on_dask(tasks, dask, opened)
        elif workers > 1:
            with tqdm(local_sweep(tasks, workers), total=len(tasks), unit="run") as bar:
                outcomes = list(bar)
        else:
            outcomes = list(sweep_here(tasks, _bars))
    except KeyboardInterrupt:
        click.echo("\nStopped. The same command goes on from here.", err=True)
        sys.exit(130)
    for outcome in outcomes:
        spec, state = outcome.specification, outcome.error or outcome.stopped or "done"
        click.echo(f"{spec.run_id}  {run_name(spec)}  {state}")
    if any(outcome.error for outcome in outcomes):
        sys.exit(FAILED)


def _on_dask(tasks: Sequence[SweepTask], address: str, store: Store) -> list[Outcome]:
    try:
        from distributed import Client
    except ImportError:
        raise click.ClickException(
            f"--dask needs the package distributed: {install_command('dask')}."
        ) from None
    try:
        client = Client(address, timeout=ANSWERS_WITHIN)
    except (OSError, ValueError) as error:
        raise click.ClickException(f"The Dask scheduler cannot be reached: {error}.") from None
    outcomes = []
    with client, tqdm(total=len(tasks), unit="run") as bar:
        for outcome in sweep(tasks, client.get_executor(retries=2)):
            if not outcome.error and not store.has(outcome.specification.run_id):
                lost = "its machine kept the run in a place of its own: --store must be one that all reach"
                outcome = Outcome(outcome.specification, error=lost)
            outcomes.append(outcome)
            bar.update()
    return outcomes


def _bars(specification: Specification) -> tuple[Report, Passed]:
    """Return reports that draw a bar for the steps of a run, then one for its evaluation.

    A bar begins where the run goes on: a run that is resumed has done some steps, or all.
    """
    name, lengths = run_name(specification), evaluation_lengths(specification)
    total = sum(length * count for length, count in lengths)
    bars: list[Any] = []  # the one that is drawn

    def report(step: int, loss: float) -> None:
        if not bars:
            steps = specification.all_steps
            bars.append(tqdm(total=steps, initial=step - 1, desc=name, unit="step", leave=False))
        bars[-1].update(step - bars[-1].n)
        bars[-1].set_postfix(loss=f"{loss:.3f}", refresh=False)
        if step == specification.all_steps:
            bars.pop().close()

    def passed(tokens: int) -> None:
        if not bars:
            desc = f"{name}, evaluating"
            bars.append(tqdm(total=total, desc=desc, unit="token", unit_scale=True, leave=False))
        reached = length_reached(lengths, bars[-1].n + tokens)
        bars[-1].set_postfix_str(f"length {reached} of {len(lengths)}", refresh=False)
        bars[-1].update(tokens)
        if bars[-1].n == total:
            bars.pop().close()

    return report, passed
