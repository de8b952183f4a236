"""Curves of runs over several seeds, and how schemes compare past the training length."""

import hashlib
import itertools
import json
import math
import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from posenc import fields
from posenc.lab.evaluate import TRAINED, Score
from posenc.lab.runs import Run
from posenc.lab.specification import Specification, Trial
from posenc.lab.statistics import PairedMean, paired_mean
from posenc.lab.tasks import Recall, questions_of
from posenc.notebook import Shown, View

DEGRADED = math.log(1.1)  # nats: perplexity 1.1 times that at the training length
# Perplexity 1.05 times: another seed alone changes it by up to 2.8% where a scheme has a position, and by
# 7% without one (standard deviation, shipped runs).
HELD = math.log(1.05)
NOTICED = math.log(
    1.01
)  # nats: perplexity 1.01 times, the smallest difference of two schemes that counts
LEARNED = 0.9  # accuracy in training from which a task counts as learned
# In the names of comparisons, which links hold: the rates of the first models that shipped.
_NAMED_RATE, _NAMED_RATES = 2e-3, {Recall.kind: 3e-3}


class Effect(StrEnum):
    """The change of a model's loss past its training length.

    The loss at that length is what the model reaches when longer texts are cut to it: a model that is not
    below it makes no use of the longer text.
    """

    USES = "uses more context"
    HOLDS = "holds"
    DEGRADES = "degrades"
    BREAKS = "breaks"

    @property
    def plural(self) -> str:
        """The verb for several schemes."""
        verb, _, rest = self.partition(" ")
        return f"{verb.removesuffix('s')} {rest}".rstrip()

    @property
    def keeps(self) -> bool:
        """Whether a longer text does no harm."""
        return self in (Effect.USES, Effect.HOLDS)

    @property
    def rule(self) -> str:
        """The rule, on the loss of the mean over seeds against that at the training length."""
        return {
            Effect.USES: f"more than {NOTICED:.3f} nats lower at the end, by an interval over seeds",
            Effect.HOLDS: f"at most {HELD:.3f} nats higher",
            Effect.DEGRADES: f"at most {DEGRADED:.3f} nats higher",
            Effect.BREAKS: f"more than {DEGRADED:.3f} nats higher",
        }[self]


@dataclass(frozen=True)
class Point:
    """Mean, lowest and highest trial at one x; by_trial has (trial, value) of every run, sorted."""

    x: int
    until: int
    mean: float
    low: float
    high: float
    by_trial: tuple[tuple[Trial, float], ...] = ()


@dataclass(frozen=True)
class Curve(Shown):
    """One measure and variant of a `Score` over runs that differ in their trial alone.

    specification: of the first trial. seeds: the number of trials.
    """

    specification: Specification
    measure: str
    variant: str
    seeds: int
    points: tuple[Point, ...]

    def at(self, x: int) -> float | None:
        """Return the mean at x, None where nothing was measured."""
        return next((point.mean for point in self.points if point.x == x), None)

    def view(self) -> View:
        return View(
            title=f"{self.specification.scheme.label}: {self.measure}, {self.variant}",
            numbers={
                "task": self.specification.task,
                "training length": self.specification.train_length,
                "seeds": self.seeds,
            },
            columns={
                self.measure: [point.x for point in self.points],
                "mean": [point.mean for point in self.points],
                "low": [point.low for point in self.points],
                "high": [point.high for point in self.points],
            },
            x=self.measure,
            lines=("mean", "low", "high"),
        )


@dataclass(frozen=True)
class Difference(PairedMean):
    """Loss of one scheme minus that of another, paired by trial: runs of a trial share their data."""

    by_trial: tuple[float, ...]

    @property
    def counts(self) -> bool:
        """Whether the interval excludes 0 and the mean exceeds NOTICED."""
        return (self.low > 0 or self.high < 0) and abs(self.mean) > NOTICED


def difference(curve: Curve, other: Curve, x: int, other_x: int | None = None) -> Difference | None:
    """Return one curve at x minus another, paired by trial; None where they share none.

    other_x: where the other one is read, at x if None.
    """
    first, second = (
        {trial: value for point in each.points if point.x == at for trial, value in point.by_trial}
        for each, at in ((curve, x), (other, x if other_x is None else other_x))
    )
    gaps = tuple(first[trial] - second[trial] for trial in sorted(first.keys() & second.keys()))
    return Difference(**asdict(paired_mean(gaps)), by_trial=gaps) if gaps else None


def lowest(compared: Iterable[Curve], x: int) -> list[Curve]:
    """Return the curve with the lowest finite loss at x, then those that may be as low.

    Those are the curves with the same loss, or whose difference over several seeds does not count.
    """
    losses = {
        curve: loss
        for curve in compared
        if (loss := curve.at(x)) is not None and math.isfinite(loss)
    }
    if not losses:
        return []
    best = min(losses, key=losses.__getitem__)
    ties = [best]
    for curve, loss in losses.items():
        gap = difference(curve, best, x)
        several = gap is not None and len(gap.by_trial) > 1 and not gap.counts
        if curve is not best and (several or loss == losses[best]):
            ties.append(curve)
    return ties


def in_range(curve: Curve, every: Iterable[Curve] = ()) -> Point | None:
    """Return the mean accuracy of a curve over what belongs to training, such as distances of recall.

    A curve without that gives that of its scheme as trained, None if `every` lacks it.
    """
    task, length = questions_of(curve.specification.task), curve.specification.train_length
    end = task.farthest(length) + 1
    inside = [
        dict(point.by_trial) for point in curve.points if task.as_in_training(length, point.x)
    ]
    if inside:
        trials = sorted(set[Trial]().union(*inside))
        means = [(trial, statistics.fmean(values[trial] for values in inside)) for trial in trials]
        return _point(1, end, means)
    trained = _as_trained(curve, every)
    return None if trained is None else in_range(trained)


def _as_trained(curve: Curve, every: Iterable[Curve]) -> Curve | None:
    own = (other for other in every if other.specification == curve.specification)
    return next((other for other in own if other.variant == TRAINED), None)


def learned(curve: Curve, every: Iterable[Curve] = ()) -> bool:
    """Whether a task was learned in training: else it cannot extrapolate.

    Of a curve without accuracies in training, its scheme as trained counts: False if `every` lacks it.
    """
    accuracy = in_range(curve, every)
    return accuracy is not None and accuracy.mean >= LEARNED


def judged(curve: Curve, every: Iterable[Curve] = ()) -> bool:
    """Whether accuracies past training say anything of a curve."""
    return not questions_of(curve.specification.task).learned_first or learned(curve, every)


class SolveRate(NamedTuple):
    """The number of trials that learned their task, of all: a mean says little of trials in two groups."""

    solved: int
    trials: int

    def __str__(self) -> str:
        return f"{self.solved} of {self.trials}"


def solve_rate(curve: Curve, every: Iterable[Curve] = ()) -> SolveRate | None:
    """Return how many trials learned the task in training, as `in_range` has their accuracy."""
    accuracy = in_range(curve, every)
    if accuracy is None:
        return None
    values = [value for _, value in accuracy.by_trial]
    return SolveRate(sum(value >= LEARNED for value in values), len(values))


def comparison(specification: Specification) -> str:
    """Return the name, as "language-64-1f2e3d4c", of runs that differ in scheme, rates and trial alone.

    Of several rates of a scheme `posenc.lab.best_rates` chooses one.
    """
    shared = specification.record
    shared["learning_rate"] = _NAMED_RATES.get(specification.task, _NAMED_RATE)
    shared.pop("scheme_rate", None)
    del shared["scheme"], shared["seed"], shared["corpus_name"]
    shared.pop("data_seed", None)
    shared.pop("scalings", None)  # more variants of one scheme, which change no other number
    shared.pop("start", None)  # follows from the scheme
    shared.pop("fine_tuning", None)  # how the model came to its scheme
    text = json.dumps(shared, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{specification.task}-{specification.train_length}-{digest}"


def curves(runs: Iterable[Run], measure: str) -> list[Curve]:
    """Return the curves of one measure: runs that differ only in the trial share a curve."""
    groups: dict[tuple[Specification, str], list[tuple[Specification, Score]]] = {}
    for run in runs:
        key = replace(run.specification, seed=0, data_seed=None)
        for score in run.scores:
            if score.measure == measure:
                groups.setdefault((key, score.variant), []).append((run.specification, score))
    result = []
    for (_, variant), scores in groups.items():
        by_x: dict[tuple[int, int], list[tuple[Trial, float]]] = {}
        for specification, score in scores:
            by_x.setdefault((score.x, score.until), []).append((specification.trial, score.value))
        points = tuple(_point(x, until, by_x[x, until]) for x, until in sorted(by_x))
        seeds = len({specification.trial for specification, _ in scores})
        result.append(Curve(scores[0][0], measure, variant, seeds, points))
    return result


def apart_from_steps(specification: Specification) -> str:
    """Return the name of runs that differ in scheme, rates, trial and the number of steps alone."""
    return comparison(replace(specification, steps=1))


def by_steps(runs: Iterable[Run], x: int) -> list[Curve]:
    """Return loss at a context of x tokens by the steps of training, curves of the measure "steps".

    Each number of steps is a training with a schedule of its own. Of a scheme those trials count that all
    its numbers of steps have. A scheme without two numbers has no curve; fine-tuned models are left out.
    """
    groups: dict[Specification, dict[int, dict[Trial, float]]] = {}
    for run in runs:
        specification = run.specification
        losses = [
            score.value
            for score in run.scores
            if (score.measure, score.variant, score.x) == ("context", TRAINED, x)
        ]
        if losses and specification.fine_tuning is None:
            key = replace(specification, steps=1, seed=0, data_seed=None)
            own = groups.setdefault(key, {}).setdefault(specification.steps, {})
            own[specification.trial] = losses[0]
    found = []
    for specification, values in groups.items():
        trials = set[Trial].intersection(*map(set, values.values()))
        if len(values) > 1 and trials:
            points = tuple(
                _point(steps, 0, [(trial, values[steps][trial]) for trial in sorted(trials)])
                for steps in sorted(values)
            )
            found.append(Curve(specification, "steps", TRAINED, len(trials), points))
    return found


def _point(x: int, until: int, by_trial: list[tuple[Trial, float]]) -> Point:
    values = [value for _, value in by_trial]
    mean = statistics.fmean(values)
    return Point(x, until, mean, min(values), max(values), tuple(sorted(by_trial)))


def at_training_length(curve: Curve, every: Iterable[Curve]) -> float | None:
    """Return the loss at the training length, where not measured that of the scheme as trained."""
    length = curve.specification.train_length
    loss = curve.at(length)
    trained = _as_trained(curve, every) if loss is None else None
    return loss if trained is None else trained.at(length)


def first_degraded_length(curve: Curve, at_length: float) -> int | None:
    """Return the first context past L at which perplexity exceeds 1.1 times that at L, else None."""
    worse = (point.x for point in _past(curve) if not point.mean <= at_length + DEGRADED)
    return next(worse, None)


def effect(curve: Curve, at_length: float) -> Effect | None:
    """Return how perplexity changes past L, None where no longer context was evaluated."""
    past = _past(curve)
    if not past:
        return None
    if first_degraded_length(curve, at_length) is not None:
        return Effect.BREAKS
    if any(point.mean > at_length + HELD for point in past):
        return Effect.DEGRADES
    gain = difference(curve, curve, past[-1].x, curve.specification.train_length)
    uses = gain is not None and gain.counts and gain.mean < 0
    return Effect.USES if uses else Effect.HOLDS


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The verdict of the trials on a model past its training length.

    change: of the loss from the training length to `x`, the longer context with the highest loss, paired by
    trial. effects: those that the interval of this change admits, one where the trials decide.
    """

    x: int
    change: Difference
    effects: tuple[Effect, ...]


def judgement(curve: Curve) -> Judgement | None:
    """Return what the trials of a curve say, None where no longer context was read."""
    length, past = curve.specification.train_length, _past(curve)
    at_length = curve.at(length)
    if not past or at_length is None:
        return None
    # A loss that is no number is the worst of all.
    worst = max(past, key=lambda point: math.inf if math.isnan(point.mean) else point.mean)
    change = difference(curve, curve, worst.x, length)
    outcome = effect(curve, at_length)
    if change is None or outcome is None:
        return None
    if not math.isfinite(change.mean):
        return Judgement(x=worst.x, change=change, effects=(outcome,))
    admitted = {
        outcome if outcome.keeps else Effect.HOLDS: change.low <= HELD,
        Effect.DEGRADES: change.low <= DEGRADED and change.high > HELD,
        Effect.BREAKS: change.high > DEGRADED,
    }
    effects = tuple(each for each, is_admitted in admitted.items() if is_admitted)
    return Judgement(x=worst.x, change=change, effects=effects)


def _past(curve: Curve) -> list[Point]:
    return [point for point in curve.points if point.x > curve.specification.train_length]


def reach(curve: Curve) -> int | None:
    """Return the largest x up to which every mean is at least 0.5, None if the first is not."""
    reached = itertools.takewhile(lambda point: point.mean >= 0.5, curve.points)
    return max((point.x for point in reached), default=None)


def bits_per_byte(loss: float) -> float:
    """Return nats as bits; a token of the language task is a byte."""
    return loss / math.log(2)


def perplexity(loss: float) -> float:
    """Return the exponential of a loss in nats, infinite from 700 nats."""
    return math.inf if loss >= 700 else math.exp(loss)


def read_as(curve: Curve, compared: Iterable[Curve]) -> str:
    """Return the variant of a curve and the values that tell its scheme from others of its kind."""
    own, tuning = curve.specification.scheme, curve.specification.fine_tuning
    # A scaling is named by the length of its fine-tuning, which its factor is made for.
    others = [
        other.specification.scheme
        for other in compared
        if other.specification.scheme.kind == own.kind and _tuning(other) == _tuning(curve)
    ]
    parts = [
        f"{rule.label.lower()} {fields.described(getattr(own, name))}"
        for name, rule in fields.rules(own).items()
        if any(getattr(other, name) != getattr(own, name) for other in others)
    ]
    if tuning is not None:
        of_another = "" if isinstance(own, type(tuning.before)) else f" from {tuning.before.label}"
        parts.append(f"fine-tuned{of_another} at {tuning.length:,} tokens")
    if parts and curve.variant == TRAINED:
        return ", ".join(parts)
    if tuning is not None:  # a scaling that came after the fine-tuning, not one that was fine-tuned
        return ", ".join([*parts, f"then {curve.variant}"])
    return ", ".join([curve.variant, *parts])


def _tuning(curve: Curve) -> tuple[int, str] | None:
    """Return what names a fine-tuning: the length of its texts, and the scheme before."""
    tuning = curve.specification.fine_tuning
    return None if tuning is None else (tuning.length, tuning.before.label)


def label(curve: Curve, compared: Iterable[Curve]) -> str:
    """Return a curve's name: its scheme's, then `read_as` unless that is "as trained"."""
    name, variant = curve.specification.scheme.label, read_as(curve, compared)
    return name if variant == TRAINED else f"{name}, {variant}"
