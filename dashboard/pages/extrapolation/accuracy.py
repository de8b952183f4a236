"""Tasks that are scored by accuracy, copy and recall: their words, sentences and tables."""

from dataclasses import dataclass

import pandas as pd

from dashboard.text import listed
from posenc.lab import summary
from posenc.lab.evaluate import TRAINED
from posenc.lab.specification import Specification
from posenc.lab.summary import Curve
from posenc.lab.tasks import Copy, Recall


@dataclass(frozen=True)
class AccuracyTask:
    """How a task that is scored by accuracy is described."""

    unit: str
    y_title: str
    about: str
    chance: float | None = None  # the accuracy of guessing, where that is not 0


TASKS = {
    Copy.kind: AccuracyTask(
        "letters",
        "strings copied without an error",
        "Models copy a string of up to {length} letters in training and up to twice as many here "
        "(Kazemnejad et al. 2023, arXiv 2305.19466).",
    ),
    Recall.kind: AccuracyTask(
        "tokens between value and question",
        "values recalled",
        "Four key-value pairs stand at random places; one of the keys asks for its value. Training on "
        "{length} tokens shows distances up to {farthest}. The dotted line is guessing among the four "
        "values.",
        Recall.CHANCE,
    ),
}


def about(one: Specification) -> str:
    """Return what the models of a task do, and which lengths or distances training shows."""
    return TASKS[one.task].about.format(length=one.train_length, farthest=farthest(one))


def farthest(one: Specification) -> int:
    """Return the largest length or distance that training shows."""
    return Recall.farthest(one.train_length) if one.task == Recall.kind else one.train_length


def _trained(curve: Curve) -> float | None:
    """Return the accuracy at the training length, of recall the mean over trained distances."""
    if curve.measure != Recall.kind:
        return curve.at(curve.specification.train_length)
    point = summary.in_range(curve)
    return None if point is None else point.mean


def _learned(curve: Curve) -> bool:
    """Whether longer distances say anything: recall that was not learned cannot extrapolate."""
    return curve.measure != Recall.kind or summary.learned(curve)


def headline(found: list[Curve]) -> str:
    """Return the accuracy that each scheme has in training, and how far half of it stays right."""
    near, failed, far = [], [], []
    for curve in found:
        accuracy = _trained(curve)
        if curve.variant != TRAINED or accuracy is None:
            continue
        name = summary.label(curve, found)
        near.append(f"{name} {accuracy:.0%}")
        if not _learned(curve):
            failed.append(name)
            continue
        reach = summary.reach(curve)
        far.append(f"{name} {'nowhere' if reach is None else f'{reach:,}'}")
    one = found[0].specification
    unit, length = TASKS[one.task].unit, farthest(one)
    where = f"1 to {length:,}" if one.task == Recall.kind else f"{length:,}"
    parts = [f"Correct at {where} {unit}: {listed(near)}."] if near else []
    if far:
        parts.append(f"At least half correct up to: {listed(far)}.")
    if failed:
        parts.append(
            f"Not learned in training (below {summary.LEARNED:.0%}), so not judged past it: "
            f"{listed(failed)}."
        )
    return " ".join(parts)


def table(found: list[Curve]) -> pd.DataFrame:
    """Return a row per curve: accuracy in training, at the longest, and up to where half is right."""
    return pd.DataFrame(
        [
            {
                "scheme": summary.label(curve, found),
                "in training": _trained(curve),
                "evaluated to": curve.points[-1].x,
                "accuracy there": curve.points[-1].mean,
                "half correct up to": summary.reach(curve) if _learned(curve) else None,
                "seeds": curve.seeds,
            }
            for curve in found
        ]
    )


def in_range(found: list[Curve]) -> list[float | None]:
    """Return the accuracy at trained distances for every point of every curve, of its scheme as trained."""
    points = [summary.in_range(curve, found) for curve in found]
    return [
        None if point is None else point.mean
        for curve, point in zip(found, points, strict=True)
        for _ in curve.points
    ]
