"""Runs as text: a line for each run, a line for each curve of results, and every number as CSV."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence

from posenc.lab.best_rates import compared_runs
from posenc.lab.runs import Run
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
    solve_rate,
)
from posenc.lab.tasks import TASKS, Questions
from posenc.text import count_of, csv_cell

COLUMNS = (
    "run", "scheme", "task", "train_length", "seed", "measure", "variant", "x", "until", "value",
    "count", "comparison", "config",
)  # fmt: skip


def run_name(specification: Specification) -> str:
    """Return the name of a run in lists: its task, scheme and sizes."""
    base = getattr(specification.scheme, "base", None)
    parts = [specification.task, specification.scheme.label, f"L={specification.train_length}"]
    parts += [f"base={base:,.10g}"] if base is not None else []
    tuning = specification.fine_tuning
    parts += [f"after={tuning.before.label}"] if tuning else []
    return " ".join([*parts, f"width={specification.model.width}", f"seed={specification.seed}"])


def run_lines(runs: Iterable[Run]) -> Iterator[str]:
    """Iterate over a line for each run: its id, comparison, name and time."""
    for run in runs:
        state = run.stopped or f"{run.seconds:,.0f} s"
        spec = run.specification
        yield f"{run.run_id}  {comparison(spec)}  {run_name(spec)}  {state}"


def result_lines(runs: Sequence[Run]) -> Iterator[str]:
    """Iterate over a line for each curve: perplexity by context, then the accuracies of other tasks."""
    for curve, compared in _compared(runs, "context"):
        length = curve.specification.train_length
        loss = at_training_length(curve, compared)
        if loss is None:
            continue
        beyond, outcome = first_degraded_length(curve, loss), effect(curve, loss)
        past = "nothing longer was read" if outcome is None else f"{outcome} with longer context"
        bend = f" at {beyond:,}" if beyond else ""
        own = curve.at(length)
        at_length = "\u2013" if own is None else f"{perplexity(own):.3f}"
        yield _line(curve, compared, f"perplexity {at_length} at {length:,}, {past}{bend}")
    for kind, task in TASKS.items():
        if issubclass(task, Questions):
            for curve, compared in _compared(runs, kind):
                yield _line(curve, compared, _accuracy(curve, compared, task))


def _accuracy(curve: Curve, compared: list[Curve], task: type[Questions]) -> str:
    """Return what a model gets right in training and past it, beside guessing and a rule on positions."""
    length = curve.specification.train_length
    if not task.longer:
        return ", ".join(
            f"{point.mean:.1%} right at {point.x} (by position alone: "
            f"{task.by_position(length, point.x):.1%})"
            for point in curve.points
        )
    far, inside = reach(curve), in_range(curve)
    parts = ["at least half right " + ("nowhere" if far is None else f"up to {far:,}")]
    if inside is not None:
        guessing = task.chance(length, task.farthest(length))
        solved = solve_rate(curve, compared)
        parts = [
            f"{inside.mean:.0%} right within the training range (guessing: {guessing:.0%})",
            f"{solved} solved it",
            *parts,
        ]
    return ", ".join(parts)


def csv_text(runs: Iterable[Run]) -> str:
    """Return every number of every run as CSV, one row each."""
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    for run in runs:
        spec = run.specification
        begin = [run.run_id, spec.scheme.kind, spec.task, spec.train_length, spec.seed]
        end = [comparison(spec), json.dumps(spec.record["scheme"], sort_keys=True)]
        for score in run.scores:
            row = [*begin, score.measure, score.variant, score.x, score.until, score.value, score.count,
                   *end]  # fmt: skip
            writer.writerow([csv_cell(value) for value in row])
        for step, loss in enumerate(run.losses, start=1):
            writer.writerow([*begin, "training", "", step, 0, loss, 1, *end])
    return out.getvalue()


def _line(curve: Curve, compared: list[Curve], result: str) -> str:
    spec, seeds = curve.specification, count_of(curve.seeds, "seed")
    return f"{comparison(spec)}  {label(curve, compared)}: {result} ({seeds}); {spec.alike}"


def _compared(runs: Sequence[Run], measure: str) -> Iterator[tuple[Curve, list[Curve]]]:
    """Iterate over every curve of a measure with all curves of its comparison, at their best rates."""
    groups: dict[str, list[Curve]] = {}
    for curve in curves(compared_runs(runs), measure):
        groups.setdefault(comparison(curve.specification), []).append(curve)
    for group in groups.values():
        yield from ((curve, group) for curve in group)
