"""Questions of the quiz on Extrapolation, whose correct answers are read from the page's results."""

import math
from collections.abc import Mapping, Sequence

from dashboard.compute.run_results import UNITS, judged
from dashboard.frame.quiz import OneOf, Question, Slider
from dashboard.settings import Setting
from posenc.analysis import SchemeCoverage, SchemeKernelPast
from posenc.lab import summary
from posenc.lab.evaluate import TRAINED
from posenc.lab.summary import Curve
from posenc.schemes import SCHEMES
from posenc.text import count_of

NOWHERE = "nowhere"
STAYS, LEAVES, ENDS = (
    "it stays within the values of training",
    "it leaves them",
    "it has no value there",
)


def of_formula(setting: Setting, past: Mapping[str, SchemeKernelPast]) -> list[Question]:
    """Return a question on each scheme's similarity past the training length."""
    return [
        Question(
            key=f"past.{kind}",
            text=f"What does the similarity of {SCHEMES[kind].label} do past position "
            f"{setting.train_length - 1:,}?",
            control=OneOf(options=(STAYS, LEAVES, ENDS)),
            truth=frozenset(
                {ENDS if kernel.limit is not None else LEAVES if kernel.outside else STAYS}
            ),
        )
        for kind, kernel in past.items()
        if kernel.limit is not None or kernel.outside is not None
    ]


def of_turns(setting: Setting, coverage: Mapping[str, SchemeCoverage]) -> list[Question]:
    """Return a question on the pairs of each scheme that complete a turn."""
    return [
        Question(
            key=f"turns.{kind}",
            text=f"How many pairs of {SCHEMES[kind].label} complete a full turn within the training "
            f"length, {count_of(setting.train_length, 'position')}? It has "
            f"{count_of(len(covered.turns), 'pair')}.",
            control=Slider(
                stops=tuple(float(n) for n in range(len(covered.turns) + 1)),
                unit="pairs",
                near=len(covered.turns) // 32,
            ),
            truth=float(covered.full_turn_pairs),
        )
        for kind, covered in coverage.items()
    ]


def of_runs(curves: Sequence[Curve]) -> list[Question]:
    """Return the questions on what the runs of a comparison measured."""
    if not curves:
        return []
    return of_losses(curves) if curves[0].measure == "context" else of_accuracies(curves)


def of_losses(curves: Sequence[Curve]) -> list[Question]:
    """Return the questions on loss by context: its change past L, and who is best where."""
    length, trained = curves[0].specification.train_length, _trained(curves)
    longest = max(point.x for curve in curves for point in curve.points)
    lengths = [x for x in dict.fromkeys((2 * length, longest)) if x > length]
    losses = {
        x: {
            label: loss
            for label, curve in trained.items()
            if (loss := curve.at(x)) is not None and math.isfinite(loss)
        }
        for x in (length, *lengths)
    }
    changes = Slider(
        stops=tuple(n / 20 for n in range(-20, 101)),
        unit="nats",
        digits=2,
        signed=True,
        near=0.1,
        within=0.1,
    )
    asked = [
        Question(
            key=f"change.{x}.{label}",
            text=f"By how much does the loss of {label} change from {length:,} to {x:,} tokens?",
            control=changes,
            truth=losses[x][label] - loss,
        )
        for x in lengths
        for label, loss in losses[length].items()
        if label in losses[x]
    ]
    asked += [
        Question(
            key=f"best.{x}",
            text=f"Which scheme has the lowest loss at {x:,} tokens?",
            control=OneOf(options=(*by_label,)),
            truth=frozenset(
                summary.label(curve, curves) for curve in summary.lowest(trained.values(), x)
            ),
        )
        for x, by_label in losses.items()
        if len(by_label) > 1
    ]
    return asked


def of_accuracies(curves: Sequence[Curve]) -> list[Question]:
    """Return the questions on accuracy: how far at least half of the answers stay right."""
    unit = UNITS[curves[0].measure]
    lengths = sorted({point.x for curve in curves for point in curve.points})
    control = Slider(stops=tuple(map(float, lengths)), unit=unit, within=0.1, beyond=NOWHERE)
    return [
        Question(
            key=f"reach.{label}",
            text=f"Up to how many {unit} does {label} stay at least half right?",
            control=control,
            truth=NOWHERE if (reached := summary.reach(curve)) is None else float(reached),
        )
        for label, curve in _trained(curves).items()
        if judged(curve, curves)
    ]


def _trained(curves: Sequence[Curve]) -> dict[str, Curve]:
    """Return the curves of models evaluated as they were trained, by their names."""
    return {summary.label(curve, curves): curve for curve in curves if curve.variant == TRAINED}
