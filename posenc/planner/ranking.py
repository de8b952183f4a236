"""The order of methods: training and precedents, then direct comparisons, then what was released."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

from posenc.models.model_config import ModelConfig
from posenc.planner.evidence import (
    COMPARISONS,
    RELEASED,
    Comparison,
    Derivative,
    Evidence,
    MeasuredRatio,
    Released,
    Training,
    derivatives_of,
)

MEASURED_LIMIT = 2.0  # ratio of perplexities from which small models contradict a source
NEAR = 4.0  # a comparison counts at factors within this of its own
# The measures that decide, and the difference from which one is clearly better: a share of the lower
# perplexity, or points.
PERPLEXITIES = {"perplexity": 0.01, "book_perplexity": 0.01, "short_perplexity": 0.01}
POINTS = {"retrieval": 2.0, "needle": 2.0}


class Readiness(StrEnum):
    """Readiness of a method for use at a factor, the most ready first."""

    OWN_SCALING = "own_scaling"
    RECOMMENDED = "recommended"
    MADE = "made"
    UNTRAINED = "untrained"
    TRAINED = "trained"
    NEW_LENGTH = "new_length"
    UNREPORTED = "unreported"
    PAST = "past"
    FAILS = "fails"


# What the model's config or its makers name for a length, whatever angles it meets.
BEST = (Readiness.OWN_SCALING, Readiness.RECOMMENDED, Readiness.MADE)
NO_TRAINING = (*BEST, Readiness.UNTRAINED)  # to be measured without training first
_AT_ANY_FACTOR = {
    "trained": Readiness.OWN_SCALING,
    "made": Readiness.MADE,
    "new length": Readiness.NEW_LENGTH,
    "unknown": Readiness.PAST,
    "fails": Readiness.FAILS,
}

Verdict = Literal["first", "second", "equal", "disagree"]


@dataclass(frozen=True, kw_only=True)
class Compared:
    """The verdict of direct comparisons of two methods after the same training, named by their kinds.

    verdict: which is better, whether they are "equal", or whether measures or sources "disagree".
    comparisons: those that count.
    """

    first: str
    second: str
    training: Training
    verdict: Verdict
    comparisons: tuple[Comparison, ...]


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Facts that rank a method at a factor, but for its comparisons with others.

    kind: its name in comparisons. training: whose comparisons count. fine_tuning: the least training after
    which a source reports this factor, None where none does; a method that is tested without training may
    be fine-tuned, too. precedent: a model of the asked one's family that others extended so, and that
    works at the target. released: a model of any family that was trained so to this factor. unseen: whether
    a pair meets angles that training did not show.
    """

    kind: str
    readiness: Readiness
    training: Training
    fine_tuning: Training | None = None
    precedent: Derivative | None = None
    released: Released | None = None
    unseen: bool = False


def readiness(
    evidence: Evidence, factor: float, *, recommended: bool, measured: Sequence[MeasuredRatio]
) -> Readiness:
    """Return how ready a method is. measured: its ratios at the factor, one per training length."""
    if recommended:
        return Readiness.RECOMMENDED
    if evidence.training in _AT_ANY_FACTOR:
        return _AT_ANY_FACTOR[evidence.training]
    confirmed = all(ratio.mean < MEASURED_LIMIT for ratio in measured)
    if factor <= evidence.untrained_to and confirmed:
        return Readiness.UNTRAINED
    return Readiness.TRAINED if factor <= evidence.trained_to else Readiness.UNREPORTED


def precedent_of(model: ModelConfig, kind: str, length: int) -> Derivative | None:
    """Return a model that others extended from a model's family by a method, and that works at `length`."""
    fitting = (one for one in derivatives_of(model, kind) if one.effective >= length)
    return next(fitting, None)


def released_at(kind: str, factor: float) -> Released | None:
    """Return a released model that was trained by a method to a factor or more; None for none."""
    return next((one for one in RELEASED if one.kind == kind and one.factor >= factor), None)


def compared(first: str, second: str, factor: float, training: Training) -> Compared | None:
    """Return what direct comparisons say of two kinds of methods; None where there is none."""
    counted = [
        study
        for study in COMPARISONS
        if study.training == training and study.compares(first, second)
        if max(study.factor / factor, factor / study.factor) <= NEAR
    ]
    counted = [study for study in counted if study.controlled] or counted
    if not counted:
        return None
    ahead = {
        clearly_ahead(measure, by_kind[first], by_kind[second])
        for study in counted
        for measure, by_kind in study.values.items()
        if first in by_kind and second in by_kind
    } - {0}
    verdicts: dict[frozenset[int], Verdict] = {
        frozenset(): "equal",
        frozenset({1}): "first",
        frozenset({-1}): "second",
    }
    verdict = verdicts.get(frozenset(ahead), "disagree")
    return Compared(
        first=first, second=second, training=training, verdict=verdict, comparisons=tuple(counted)
    )


def clearly_ahead(measure: str, first: float, second: float) -> int:
    """Return 1 where the first value is clearly better, -1 where the second is, else 0.

    0 for every measure that does not decide.
    """
    if measure in PERPLEXITIES:
        better, margin = second - first, PERPLEXITIES[measure] * min(first, second)
    elif measure in POINTS:
        better, margin = first - second, POINTS[measure]
    else:
        return 0
    return (better > margin) - (better < -margin)


def ranks(standings: Sequence[Standing], factor: float) -> list[int]:
    """Return the rank of each method from 1; equal methods share one, and the next rank counts them."""
    keys = [_key(standing, standings, factor) for standing in standings]
    return [1 + sum(other < key for other in keys) for key in keys]


def first_after(
    standings: Sequence[Standing], training: Training, factor: float
) -> tuple[str, ...]:
    """Return the kinds of methods that share the first rank after fine-tuning, () for none."""
    tuned = [
        each
        for each in _with_fine_tuning(standings)
        if (each.readiness, each.training) == (Readiness.TRAINED, training)
    ]
    return tuple(
        each.kind for each, rank in zip(tuned, ranks(tuned, factor), strict=True) if rank == 1
    )


def pairs_compared(standings: Sequence[Standing], factor: float) -> tuple[Compared, ...]:
    """Return what is known of each pair of methods that are ready after the same training."""
    results = (
        compared(one.kind, other.kind, factor, one.training)
        for one, other in itertools.combinations(_with_fine_tuning(standings), 2)
        if _group(one) == _group(other)
    )
    return tuple(result for result in results if result is not None)


def _with_fine_tuning(standings: Sequence[Standing]) -> list[Standing]:
    """Return the standings, and those after fine-tuning of methods that are tested without any."""
    tuned = (
        replace(each, readiness=Readiness.TRAINED, training=each.fine_tuning)
        for each in standings
        if each.readiness is Readiness.UNTRAINED and each.fine_tuning is not None
    )
    return [*standings, *tuned]


def _group(standing: Standing) -> tuple[int, int]:
    steps: tuple[Training, ...] = ("none", "light", "continued")
    return list(Readiness).index(standing.readiness), steps.index(standing.training)


def _key(
    standing: Standing, standings: Sequence[Standing], factor: float
) -> tuple[tuple[int, int], bool, int, bool, bool]:
    wins = 0
    for other in standings:
        if other is not standing and _group(other) == _group(standing):
            result = compared(standing.kind, other.kind, factor, standing.training)
            if result is not None:
                wins += (result.verdict == "first") - (result.verdict == "second")
    return (
        _group(standing),
        standing.precedent is None,
        -wins,
        standing.released is None,
        standing.unseen,
    )
