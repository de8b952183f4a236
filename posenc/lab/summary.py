"""Runs of several seeds as curves with a band, and what they say of longer context.

Absolute loss comes first: a scheme that is flat but worse at the training length is not called better.
"""

import hashlib
import json
import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from scipy.special import stdtrit

from posenc import fields
from posenc.lab.evaluate import TRAINED, Score
from posenc.lab.runs import Run
from posenc.lab.specification import Specification
from posenc.lab.tasks import Recall

DEGRADED = math.log(1.1)  # nats: perplexity 1.1 times that at the training length
NOTICED = math.log(1.01)  # nats, 0.00995: perplexity 1.01 times, the least that counts
CONFIDENCE = 0.95  # of the interval of a difference
LEARNED = 0.9  # share right within the distances of training from which recall counts as learned


class Effect(StrEnum):
    """How a model's perplexity changes past its training length, over all longer lengths measured."""

    HOLDS = "holds"
    DEGRADES = "degrades"
    BREAKS = "breaks"

    @property
    def rule(self) -> str:
        """The rule of the class, of the mean over seeds against the training length."""
        little, much = percent(NOTICED), percent(DEGRADED)
        rules = {
            Effect.HOLDS: f"perplexity never more than {little} higher",
            Effect.DEGRADES: f"perplexity up to {much} higher",
            Effect.BREAKS: f"perplexity more than {much} higher at some length",
        }
        return rules[self]


@dataclass(frozen=True)
class Point:
    """One x of a curve: the mean over seeds with the lowest and highest seed.

    by_seed: (seed, value) of every run, sorted.
    """

    x: int
    until: int
    mean: float
    low: float
    high: float
    by_seed: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class Curve:
    """One measure of one scheme read in one way, over the seeds of otherwise equal runs.

    specification: of the first seed. measure, variant: as in `Score`.
    """

    specification: Specification
    measure: str
    variant: str
    seeds: int
    points: tuple[Point, ...]

    def at(self, x: int) -> float | None:
        """Return the mean at x, None where nothing was measured."""
        return next((point.mean for point in self.points if point.x == x), None)

    def seeds_at(self, x: int) -> dict[int, float]:
        """Return the value of every seed at x, empty where nothing was measured."""
        return dict(next((point.by_seed for point in self.points if point.x == x), ()))


@dataclass(frozen=True)
class Difference:
    """Loss of one scheme minus that of another, paired by seed.

    Runs of a seed share the data, and the first weights where their shapes agree.

    by_seed: of every seed that both have. low, high: the interval of Student's t for the mean at
    CONFIDENCE, infinite for one seed.
    """

    mean: float
    low: float
    high: float
    by_seed: tuple[float, ...]

    @property
    def counts(self) -> bool:
        """Whether it is a difference: the interval leaves out 0, and the mean is above NOTICED."""
        return (self.low > 0 or self.high < 0) and abs(self.mean) > NOTICED


def difference(one: Curve, other: Curve, x: int) -> Difference | None:
    """Return one curve minus another at x, paired by seed; None where no seed has both."""
    ours, theirs = one.seeds_at(x), other.seeds_at(x)
    found = tuple(ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys()))
    if not found:
        return None
    mean, half = statistics.fmean(found), math.inf
    if len(found) > 1:
        quantile = float(stdtrit(len(found) - 1, (1 + CONFIDENCE) / 2))
        half = quantile * statistics.stdev(found) / math.sqrt(len(found))
    return Difference(mean, mean - half, mean + half, found)


def lowest(found: Iterable[Curve], x: int) -> list[Curve]:
    """Return the curve with the lowest finite loss at x, then those that may be as low.

    Those are the curves with the same loss, or whose difference over several seeds does not count.
    """
    there = {curve: loss for curve in found if (loss := curve.at(x)) is not None}
    there = {curve: loss for curve, loss in there.items() if math.isfinite(loss)}
    if not there:
        return []
    best = min(there, key=there.__getitem__)

    def alike(one: Curve) -> bool:
        gap = difference(one, best, x)
        several = gap is not None and len(gap.by_seed) > 1
        return there[one] == there[best] or (several and gap is not None and not gap.counts)

    return [best, *(one for one in there if one is not best and alike(one))]


def in_range(curve: Curve, every: Iterable[Curve] = ()) -> Point | None:
    """Return the mean share of a recall curve over the distances that training shows, of every seed.

    Of another reading, that of the scheme as trained, if `every` has it; None where there is none.
    """
    end = Recall.farthest(curve.specification.train_length) + 1
    inside = [dict(point.by_seed) for point in curve.points if point.x < end]
    if inside:
        seeds = sorted(set[int]().union(*inside))
        means = [(seed, statistics.fmean(one[seed] for one in inside)) for seed in seeds]
        return _point(1, end, means)
    for other in every:
        if other.specification == curve.specification and other.variant == TRAINED:
            return in_range(other)
    return None


def learned(curve: Curve) -> bool:
    """Whether a recall curve is of a task that was learned within the distances of training.

    Where it was not, what it does past them says nothing of extrapolation.
    """
    found = in_range(curve)
    return found is not None and found.mean >= LEARNED


def comparison(specification: Specification) -> str:
    """Return the name of a run's comparison: that of all runs that differ in scheme and seed alone.

    Such as "language-64-1f2e3d4c": the task, the training length, and a hash of all that is alike.
    """
    alike = specification.record
    del alike["scheme"], alike["seed"], alike["corpus_name"]
    alike.pop("scalings", None)  # more readings of one scheme, which change no other number
    alike.pop("start", None)  # a part of the scheme: how its models begin
    text = json.dumps(alike, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{specification.task}-{specification.train_length}-{digest}"


def curves(runs: Iterable[Run], measure: str) -> list[Curve]:
    """Return the curves of one measure: runs that differ in nothing but the seed make one curve."""
    groups: dict[tuple[Specification, str], list[tuple[Specification, Score]]] = {}
    for run in runs:
        alike = replace(run.specification, seed=0)
        for score in run.scores:
            if score.measure == measure:
                groups.setdefault((alike, score.variant), []).append((run.specification, score))
    return [_curve(measure, variant, scores) for (_, variant), scores in groups.items()]


def _curve(measure: str, variant: str, scores: list[tuple[Specification, Score]]) -> Curve:
    by_seed: dict[int, list[tuple[int, float]]] = {}
    until: dict[int, int] = {}
    for specification, score in scores:
        by_seed.setdefault(score.x, []).append((specification.seed, score.value))
        until[score.x] = score.until
    return Curve(
        specification=scores[0][0],
        measure=measure,
        variant=variant,
        seeds=len({specification.seed for specification, _ in scores}),
        points=tuple(_point(x, until[x], by_seed[x]) for x in sorted(by_seed)),
    )


def percent(nats: float) -> str:
    """Return a change of loss as that of perplexity: 0.01 nats are 1%."""
    return f"{100 * math.expm1(nats):.3g}%"


def _point(x: int, until: int, by_seed: list[tuple[int, float]]) -> Point:
    values = [value for _, value in by_seed]
    mean = statistics.fmean(values)
    return Point(x, until, mean, min(values), max(values), tuple(sorted(by_seed)))


def at_training_length(curve: Curve, every: Iterable[Curve]) -> float | None:
    """Return the loss at the training length; of another reading, that of the scheme as trained."""
    length = curve.specification.train_length
    own = curve.at(length)
    if own is not None:
        return own
    for other in every:
        if other.specification == curve.specification and other.variant == TRAINED:
            return other.at(length)
    return None


def first_degraded_length(curve: Curve, at_length: float) -> int | None:
    """Return the first context past L at which perplexity exceeds 1.1 times that at L, else None."""
    length = curve.specification.train_length
    past = (point for point in curve.points if point.x > length)
    return next((point.x for point in past if not point.mean <= at_length + DEGRADED), None)


def effect(curve: Curve, at_length: float) -> Effect | None:
    """Return the class of a model past L, None where nothing longer was read."""
    past = [point for point in curve.points if point.x > curve.specification.train_length]
    if not past:
        return None
    if first_degraded_length(curve, at_length) is not None:
        return Effect.BREAKS
    held = all(point.mean <= at_length + NOTICED for point in past)
    return Effect.HOLDS if held else Effect.DEGRADES


def reach(curve: Curve, share: float = 0.5) -> int | None:
    """Return the largest x up to which every share is at least this, None where the first is not."""
    found = None
    for point in curve.points:
        if not point.mean >= share:
            break
        found = point.x
    return found


def bits_per_byte(loss: float) -> float:
    """Nats as bits; a token of the language task is a byte."""
    return loss / math.log(2)


def perplexity(loss: float) -> float:
    """The exponential of a loss in nats, infinite past the largest number."""
    return math.inf if loss >= 700 else math.exp(loss)


def read_as(curve: Curve, found: Iterable[Curve]) -> str:
    """Return how a curve was read, and what tells its scheme from another of the same kind."""
    own = curve.specification.scheme
    others = [
        one.specification.scheme for one in found if one.specification.scheme.kind == own.kind
    ]
    parts = [
        f"{rule.label.lower()} {rule.describe(getattr(own, name))}"
        for name, rule in fields.rules(own).items()
        if any(getattr(other, name) != getattr(own, name) for other in others)
    ]
    return ", ".join([curve.variant, *parts])


def label(curve: Curve, found: Iterable[Curve]) -> str:
    """Return a curve's name: its scheme's, and how it was read if not plainly as trained."""
    name, read = curve.specification.scheme.label, read_as(curve, found)
    return name if read == TRAINED else f"{name}, {read}"
