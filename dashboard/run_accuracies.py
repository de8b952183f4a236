"""Accuracies of trained models as sentences and rows: in training, and how far half of it stays right."""

from collections.abc import Sequence

import pandas as pd

from dashboard import run_descriptions
from dashboard.text import listed
from posenc.lab import summary
from posenc.lab.evaluate import TRAINED
from posenc.lab.summary import Curve
from posenc.lab.tasks import Questions, Recall, questions_of

ACCURACIES = "accuracy in training", "accuracy at the end"  # columns of tables, shares of 1


def sentence(curves: Sequence[Curve]) -> str:
    """Return the accuracy that each scheme has in training, and how far half of it stays right."""
    specification = curves[0].specification
    task = questions_of(specification.task)
    if not task.longer:
        return _at_every_x(curves, task)
    near, failed, far = [], [], []
    for curve in curves:
        accuracy = _accuracy(curve)
        if curve.variant != TRAINED or accuracy is None:
            continue
        name = summary.label(curve, curves)
        rate = summary.solve_rate(curve)
        groups = f" ({rate} trials solved it)" if rate and 0 < rate.solved < rate.trials else ""
        near.append(f"{name} {accuracy:.0%}{groups}")
        if summary.judged(curve, curves):
            reach = summary.reach(curve)
            far.append(f"{name} {'nowhere' if reach is None else f'{reach:,}'}")
        else:
            failed.append(name)
    where = f"{run_descriptions.farthest(specification):,} {task.x}"
    where = f"1 to {where}" if specification.task == Recall.kind else where
    never = f"Not learned in training (below {summary.LEARNED:.0%}), so not judged past it"
    clauses = {f"Correct at {where}": near, "At least half correct up to": far, never: failed}
    return " ".join(f"{lead}: {listed(names)}." for lead, names in clauses.items() if names)


def _accuracy(curve: Curve) -> float | None:
    """Return the accuracy in training, a mean where several lengths or distances belong to it."""
    point = summary.in_range(curve)
    return None if point is None else point.mean


def _at_every_x(curves: Sequence[Curve], task: type[Questions]) -> str:
    """Return the accuracy of each scheme as trained at all that is evaluated."""
    trained = [curve for curve in curves if curve.variant == TRAINED]
    if not trained:
        return ""
    shares = [
        f"{summary.label(curve, curves)} {listed([f'{point.mean:.0%}' for point in curve.points])}"
        for curve in trained
    ]
    places = listed([f"{point.x:,}" for point in trained[0].points])
    solved = [rate for curve in trained if (rate := summary.solve_rate(curve)) and rate.solved]
    none = (
        "" if solved else f"No model has learned it in training ({summary.LEARNED:.0%} correct). "
    )
    return f"{none}{task.y.capitalize()} at {places} {task.x}: {'; '.join(shares)}."


def row(curve: Curve, curves: Sequence[Curve]) -> dict[str, object]:
    """Return the accuracies of a curve as a row of the table."""
    in_training, at_the_end = ACCURACIES
    longer = questions_of(curve.specification.task).longer
    rate, last = summary.solve_rate(curve), curve.points[-1]
    is_past = last.x > run_descriptions.farthest(curve.specification)
    return {
        "scheme": summary.label(curve, curves),
        in_training: _accuracy(curve),
        "half correct up to": summary.reach(curve)
        if longer and summary.judged(curve, curves)
        else None,
        "solved in training": None if rate is None else str(rate),
        "evaluated to": last.x,
        at_the_end: last.mean if is_past or not longer else None,
        "seeds": curve.seeds,
    }


def in_percent(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose accuracies are in percent, as people read them."""
    return table.assign(
        **{name: 100 * table[name].astype(float) for name in ACCURACIES if name in table}
    ).rename(columns={name: f"{name} (%)" for name in ACCURACIES})


def details(curves: Sequence[Curve]) -> pd.DataFrame:
    """Return accuracies in percent: a row per scheme and measure, a column per x."""
    rows = [
        {"scheme": f"{summary.label(curve, curves)}: {curve.measure}"}
        | {f"{point.x:,}": 100 * point.mean for point in curve.points}
        for curve in curves
    ]
    return pd.DataFrame(rows)


def recall_past_training(curve: Curve) -> str:
    """Return the accuracy of recall at the longest distance in words; none where it was not learned."""
    last = curve.points[-1]
    if not summary.learned(curve):
        return "not learned"
    if last.x <= run_descriptions.farthest(curve.specification):
        return f"ends at {last.x:,}"
    return f"{last.mean:.0%}"


def recall_distances(curves: Sequence[Curve]) -> str:
    """Return the longest distance of recall, and the longest that training shows."""
    distance = max(point.x for curve in curves for point in curve.points)
    return f"distance {distance:,}, trained up to {run_descriptions.farthest(curves[0].specification):,}"
