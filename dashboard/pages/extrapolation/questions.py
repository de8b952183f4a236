"""Questions of the quiz on Extrapolation: their answers are read from the page's results."""

import math
from collections.abc import Mapping, Sequence
from functools import partial

from dashboard.frame.quiz import OneOf, Question, Slider
from posenc.analysis import SchemeCoverage, SchemeKernelPast
from posenc.lab import summary
from posenc.lab.evaluate import TRAINED
from posenc.lab.summary import Curve
from posenc.lab.tasks import Recall
from posenc.schemes import SCHEMES
from posenc.settings import Setting
from posenc.text import count_of

Formulas = tuple[Mapping[str, SchemeKernelPast], Mapping[str, SchemeCoverage | None]]
Curves = Sequence[Curve]

NOWHERE = "nowhere"
STAYS, LEAVES, ENDS = (
    "it stays within the values of training",
    "it leaves them",
    "it has no value there",
)


def of_formula(setting: Setting, found: Formulas) -> list[Question[Formulas]]:
    """Return the questions on the schemes that have an answer."""
    past, ladders = found
    length = setting.train_length
    asked = [
        Question(
            key=f"turns.{kind}",
            text=f"How many pairs of {SCHEMES[kind].label} complete a full turn within the training "
            f"length, {count_of(length, 'position')}? It has {count_of(len(ladder.turns), 'pair')}.",
            control=Slider(
                stops=tuple(float(n) for n in range(len(ladder.turns) + 1)),
                unit="pairs",
                near=len(ladder.turns) // 32,
            ),
            truth=partial(_turns, kind),
        )
        for kind, ladder in ladders.items()
        if ladder is not None
    ]
    asked += [
        Question(
            key=f"past.{kind}",
            text=f"What does the similarity of {SCHEMES[kind].label} do past position {length - 1:,}?",
            control=OneOf(options=(STAYS, LEAVES, ENDS)),
            truth=partial(_past, kind),
        )
        for kind, one in past.items()
        if one.limit is not None or one.outside is not None
    ]
    return asked


def _turns(kind: str, found: Formulas) -> float | str:
    ladder = found[1][kind]
    assert ladder is not None  # a scheme without one is not asked about
    return float(ladder.full_turn_pairs)


def _past(kind: str, found: Formulas) -> frozenset[str]:
    one = found[0][kind]
    if one.limit is not None:
        return frozenset({ENDS})
    return frozenset({LEAVES if one.outside else STAYS})


def of_losses(found: Curves) -> list[Question[Curves]]:
    """Return the questions on loss by context: its change past L, and who is best where."""
    trained = _trained(found)
    if not trained:
        return []
    length = next(iter(trained.values())).specification.train_length
    longest = max(point.x for one in trained.values() for point in one.points)
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
        if _read(one, length) and _read(one, to)
    ]
    for x in (length, *lengths):
        there = tuple(label for label, one in trained.items() if _read(one, x))
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


def of_shares(found: Curves, unit: str) -> list[Question[Curves]]:
    """Return the questions on a share of right answers: how far at least half of them stay right."""
    control = Slider(
        stops=tuple(float(x) for x in sorted({point.x for one in found for point in one.points})),
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
        for label, one in _trained(found).items()
        if one.measure != Recall.kind or summary.learned(one)
    ]


def _trained(found: Curves) -> dict[str, Curve]:
    """Return the curves of models read as they were trained, by their names."""
    return {summary.label(one, found): one for one in found if one.variant == TRAINED}


def _read(one: Curve, x: int) -> bool:
    loss = one.at(x)
    return loss is not None and math.isfinite(loss)


def _change(label: str, length: int, to: int, found: Curves) -> float | str:
    curve = _trained(found)[label]
    first, last = curve.at(length), curve.at(to)
    assert first is not None
    assert last is not None
    return last - first


def _best(x: int, found: Curves) -> frozenset[str]:
    lowest = summary.lowest(_trained(found).values(), x)
    return frozenset(label for label, one in _trained(found).items() if one in lowest)


def _reach(label: str, found: Curves) -> float | str:
    reached = summary.reach(_trained(found)[label])
    return NOWHERE if reached is None else float(reached)
