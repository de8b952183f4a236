"""Runs of several seeds as curves with a band, and what they say: the elbow, and what context did.

Absolute loss comes first: a scheme that is flat but worse at the training length is not called better.
"""

import hashlib
import json
import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from posenc import fields
from posenc.lab.evaluate import TRAINED
from posenc.lab.run import Run
from posenc.lab.specification import Specification

ELBOW = math.log(1.1)  # nats: perplexity 1.1 times that at the training length
NOTICED = math.log(1.01)  # nats: perplexity moved by one part in a hundred


class Effect(StrEnum):
    """What context beyond the training length did to the loss of the same targets."""

    HELPED = "helped"
    IGNORED = "was ignored"
    HURT = "hurt"

    @property
    def rule(self) -> str:
        """The rule that calls it so, of the longest context read against the training length."""
        moved = {
            Effect.HELPED: "lower by more than",
            Effect.IGNORED: "moved by no more than",
            Effect.HURT: "higher by more than",
        }
        return f"perplexity {moved[self]} {counts()}"


@dataclass(frozen=True)
class Point:
    """One x of a curve: the mean over seeds with the lowest and highest seed."""

    x: int
    until: int
    mean: float
    low: float
    high: float


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
    groups: dict[tuple[Specification, str], dict[int, list[float]]] = {}
    first: dict[tuple[Specification, str], Specification] = {}
    seeds: dict[tuple[Specification, str], set[int]] = {}
    until: dict[tuple[Specification, str], dict[int, int]] = {}
    for run in runs:
        for score in run.scores:
            if score.measure != measure:
                continue
            key = (replace(run.specification, seed=0), score.variant)
            first.setdefault(key, run.specification)
            seeds.setdefault(key, set()).add(run.specification.seed)
            groups.setdefault(key, {}).setdefault(score.x, []).append(score.value)
            until.setdefault(key, {})[score.x] = score.until
    return [
        Curve(
            specification=first[key],
            measure=measure,
            variant=key[1],
            seeds=len(seeds[key]),
            points=tuple(
                Point(x, until[key][x], statistics.fmean(found[x]), min(found[x]), max(found[x]))
                for x in sorted(found)
            ),
        )
        for key, found in groups.items()
    ]


def counts() -> str:
    """Return the smallest change of perplexity that counts, in words."""
    return f"{100 * math.expm1(NOTICED):.3g}%"


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


def elbow(curve: Curve, at_length: float) -> int | None:
    """Return the first context past L at which perplexity exceeds 1.1 times that at L, else None."""
    length = curve.specification.train_length
    past = (point for point in curve.points if point.x > length)
    return next((point.x for point in past if not point.mean <= at_length + ELBOW), None)


def effect(curve: Curve, at_length: float) -> Effect | None:
    """Return what the longest context read did against L, None where nothing longer was read."""
    past = [point for point in curve.points if point.x > curve.specification.train_length]
    if not past:
        return None
    gained = at_length - past[-1].mean
    if gained > NOTICED:
        return Effect.HELPED
    return Effect.IGNORED if gained >= -NOTICED else Effect.HURT


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
        f"{rule.label.lower()} {rule.told(getattr(own, name))}"
        for name, rule in fields.rules(own).items()
        if any(getattr(other, name) != getattr(own, name) for other in others)
    ]
    return ", ".join([curve.variant, *parts])


def label(curve: Curve, found: Iterable[Curve]) -> str:
    """Return a curve's name: its scheme's, and how it was read if not plainly as trained."""
    name, read = curve.specification.scheme.label, read_as(curve, found)
    return name if read == TRAINED else f"{name}, {read}"
