"""Questions of the quiz on Extrapolation: their answers are read from the page's results."""

import math
from collections.abc import Mapping, Sequence
from functools import partial

from dashboard.compute.run_results import UNITS, judged
from dashboard.frame.quiz import OneOf, Question, Slider
from posenc.analysis import SchemeCoverage, SchemeKernelPast
from posenc.lab import summary
from posenc.lab.evaluate import TRAINED
from posenc.lab.summary import Curve
from posenc.schemes import SCHEMES
from posenc.settings import Setting
from posenc.text import count_of

Past = Mapping[str, SchemeKernelPast]
Coverage = Mapping[str, SchemeCoverage]
Curves = Sequence[Curve]

NOWHERE = "nowhere"
STAYS, LEAVES, ENDS = (
    "it stays within the values of training",
    "it leaves them",
    "it has no value there",
)


def of_formula(setting: Setting, past: Past) -> list[Question[Past]]:
    """Return a question on each scheme's similarity past the training length."""
    return [
        Question(
            key=f"past.{kind}",
            text=f"What does the similarity of {SCHEMES[kind].label} do past position "
            f"{setting.train_length - 1:,}?",
            control=OneOf(options=(STAYS, LEAVES, ENDS)),
            truth=partial(_past, kind),
        )
        for kind, one in past.items()
        if one.limit is not None or one.outside is not None
    ]


def of_turns(setting: Setting, coverage: Coverage) -> list[Question[Coverage]]:
    """Return a question on the pairs of each scheme that complete a turn."""
    return [
        Question(
            key=f"turns.{kind}",
            text=f"How many pairs of {SCHEMES[kind].label} complete a full turn within the training "
            f"length, {count_of(setting.train_length, 'position')}? It has "
            f"{count_of(len(one.turns), 'pair')}.",
            control=Slider(
                stops=tuple(float(n) for n in range(len(one.turns) + 1)),
                unit="pairs",
                near=len(one.turns) // 32,
            ),
            truth=partial(_turns, kind),
        )
        for kind, one in coverage.items()
    ]


def _turns(kind: str, coverage: Coverage) -> float | str:
    return float(coverage[kind].full_turn_pairs)


def _past(kind: str, past: Past) -> frozenset[str]:
    one = past[kind]
    return frozenset({ENDS if one.limit is not None else LEAVES if one.outside else STAYS})


def of_runs(curves: Curves) -> list[Question[Curves]]:
    """Return the questions on what the runs of a comparison measured."""
    if not curves:
        return []
    return of_losses(curves) if curves[0].measure == "context" else of_accuracies(curves)


def of_losses(curves: Curves) -> list[Question[Curves]]:
    """Return the questions on loss by context: its change past L, and who is best where."""
    trained = _trained(curves)
    length = curves[0].specification.train_length
    longest = max(point.x for one in curves for point in one.points)
    lengths = [x for x in dict.fromkeys((2 * length, longest)) if x > length]
    changes = Slider(
        stops=tuple(n / 20 for n in range(-20, 101)),
        unit="nats",
        digits=2,
        signed=True,
        near=0.1,
        within=0.1,
    )
    asked: list[Question[Curves]] = [
        Question(
            key=f"change.{to}.{label}",
            text=f"By how much does the loss of {label} change from {length:,} to {to:,} tokens?",
            control=changes,
            truth=partial(_change, label, length, to),
        )
        for to in lengths
        for label, one in trained.items()
        if _has(one, length) and _has(one, to)
    ]
    for x in (length, *lengths):
        there = tuple(label for label, one in trained.items() if _has(one, x))
        if len(there) > 1:
            asked.append(
                Question(
                    key=f"best.{x}",
                    text=f"Which scheme has the lowest loss at {x:,} tokens?",
                    control=OneOf(options=there),
                    truth=partial(_best, x),
                )
            )
    return asked


def of_accuracies(curves: Curves) -> list[Question[Curves]]:
    """Return the questions on accuracy: how far at least half of the answers stay right."""
    unit = UNITS[curves[0].measure]
    control = Slider(
        stops=tuple(float(x) for x in sorted({point.x for one in curves for point in one.points})),
        unit=unit,
        within=0.1,
        beyond=NOWHERE,
    )
    return [
        Question(
            key=f"reach.{label}",
            text=f"Up to how many {unit} does {label} stay at least half right?",
            control=control,
            truth=partial(_reach, label),
        )
        for label, one in _trained(curves).items()
        if judged(one)
    ]


def _trained(curves: Curves) -> dict[str, Curve]:
    """Return the curves of models evaluated as they were trained, by their names."""
    return {summary.label(one, curves): one for one in curves if one.variant == TRAINED}


def _has(one: Curve, x: int) -> bool:
    loss = one.at(x)
    return loss is not None and math.isfinite(loss)


def _change(label: str, length: int, to: int, curves: Curves) -> float | str:
    curve = _trained(curves)[label]
    first, last = curve.at(length), curve.at(to)
    assert first is not None
    assert last is not None
    return last - first


def _best(x: int, curves: Curves) -> frozenset[str]:
    lowest = summary.lowest(_trained(curves).values(), x)
    return frozenset(label for label, one in _trained(curves).items() if one in lowest)


def _reach(label: str, curves: Curves) -> float | str:
    reached = summary.reach(_trained(curves)[label])
    return NOWHERE if reached is None else float(reached)
