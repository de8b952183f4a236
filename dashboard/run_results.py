"""Measured results of trained models, whatever they learned: headline, table, what was drawn."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pandas as pd

from dashboard import run_accuracies, run_descriptions, run_losses
from posenc.lab.evaluate import TRAINED
from posenc.lab.runs import RunInfo
from posenc.lab.summary import Curve
from posenc.lab.tasks import Language, questions_of


class HardlyLearned(NamedTuple):
    """The lowest loss of models, and the lower one of byte pairs, which know no position; nats per byte."""

    loss: float
    pair_loss: float

    def __str__(self) -> str:
        return (
            f"These models have hardly learned: their loss is {self.loss:.2f} nats or more, and the "
            f"frequencies of byte pairs, which know no position, reach {self.pair_loss:.2f}. What happens "
            "past the training length says nothing yet: train longer."
        )


def hardly_learned(curves: Sequence[Curve], infos: Iterable[RunInfo]) -> HardlyLearned | None:
    """Return the losses by which models as trained have learned less than byte pairs, None for others.

    infos: of their runs, on one text or on none.
    """
    pair_loss = next((info.pair_loss for info in infos if info.pair_loss is not None), None)
    losses = [
        loss
        for curve in curves
        if curve.variant == TRAINED
        and (loss := curve.at(curve.specification.train_length)) is not None
    ]
    if pair_loss is None or not losses or min(losses) < pair_loss:
        return None
    return HardlyLearned(min(losses), pair_loss)


def headline(curves: Sequence[Curve], hardly: HardlyLearned | None) -> str:
    """Return how each scheme as trained does past its training length, or that it is too early to tell."""
    if not curves:
        return "Every training of this comparison stopped early."
    if hardly:
        return str(hardly)
    results = run_losses if curves[0].measure == "context" else run_accuracies
    return results.sentence(curves)


def table(curves: Sequence[Curve], hardly: HardlyLearned | None = None) -> pd.DataFrame:
    """Return a row per curve: what it measured in training, and past it, where models have learned."""
    language = bool(curves) and curves[0].measure == "context"
    row, length = (
        (run_losses.row, "breaks at") if language else (run_accuracies.row, "half correct up to")
    )
    frame = pd.DataFrame([row(curve, curves) for curve in curves])
    rates = [
        _short_rate(curve.specification.learning_rate, curve.specification.scheme_rate)
        for curve in curves
    ]
    if len({*rates}) > 1:
        frame = frame.assign(**{"learning rate": rates})
    if hardly:
        frame = frame.assign(**{"past training": "not judged", length: None})
    return frame.astype({length: "Int64"}) if length in frame else frame  # an integer or blank


def _short_rate(learning_rate: float, scheme_rate: float) -> str:
    return f"{learning_rate:g}" + ("" if scheme_rate == 1 else f", own ×{scheme_rate:g}")


def about(
    curves: Sequence[Curve], hardly: HardlyLearned | None = None, *, is_cut: bool = True
) -> str:
    """Return what lines and bands are, and the rules of the classes, where models have learned.

    is_cut: whether the lines of models whose text is cut to the training length are drawn, too.
    """
    specification = curves[0].specification
    if specification.task != Language.kind:
        task, trained = questions_of(specification.task), specification.train_length
        last = max(point.x for curve in curves for point in curve.points)
        return task.about.format(
            length=trained,
            farthest=run_descriptions.farthest(specification),
            last=last,
            by_position=task.by_position(trained, last),
        )
    lines = run_losses.lines(curves, is_cut=is_cut)
    if hardly:
        return lines
    return " ".join(part for part in (run_losses.lowest(curves), lines, run_losses.rules()) if part)
