"""Each scheme of a comparison at its own best learning rate, of those that were tried."""

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, replace

from posenc.lab.protocol import loss_in_training
from posenc.lab.runs import Run
from posenc.lab.specification import Specification, Trial

_ANY = 1e-3  # stands for every rate where specifications are compared without theirs


@dataclass(frozen=True, kw_only=True)
class TriedRate:
    """One of the rates that were tried for a scheme.

    scheme_rate: the factor for the scheme's own parameters. tuning_rate: of a second stage, None without
    one. loss: the mean over `trials` of `loss_in_training`, in nats. trials: those that all rates of the
    scheme have, or those of this rate where they share none. runs: the ids of all runs at this rate.
    """

    learning_rate: float
    scheme_rate: float
    tuning_rate: float | None
    loss: float
    trials: int
    runs: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class TriedRates:
    """The rates that were tried for one scheme, lower ones first.

    specification: of the first run. best: the rate with the lowest loss, of equal ones the lower.
    """

    specification: Specification
    rates: tuple[TriedRate, ...]
    best: TriedRate


def rate_text(learning_rate: float, scheme_rate: float) -> str:
    """Return a rate as "0.002", or "0.002 (own parameters x10)"."""
    own = "" if scheme_rate == 1 else f" (own parameters x{scheme_rate:g})"
    return f"{learning_rate:g}{own}"


def scheme_of(specification: Specification) -> Specification:
    """Return what runs of one scheme have in common that differ in rates and trial alone."""
    tuning = specification.fine_tuning
    return replace(
        specification,
        seed=0,
        data_seed=None,
        learning_rate=_ANY,
        scheme_rate=1.0,
        fine_tuning=None if tuning is None else replace(tuning, learning_rate=_ANY),
    )


def tried_rates(runs: Iterable[Run]) -> list[TriedRates]:
    """Return the rates of every scheme of these runs, in the order of the schemes' first runs.

    A scheme with more rates has an advantage, so whoever compares schemes should name the numbers.
    """
    schemes: dict[Specification, dict[tuple[float, ...], list[Run]]] = {}
    for run in runs:
        rates = schemes.setdefault(scheme_of(run.specification), {})
        rates.setdefault(_rates(run.specification), []).append(run)
    found = []
    for by_rate in schemes.values():
        shared = set.intersection(
            *({run.specification.trial for run in own} for own in by_rate.values())
        )
        tried = [_tried(by_rate[rates], shared) for rates in sorted(by_rate)]
        first = next(iter(by_rate.values()))[0].specification
        best = min(tried, key=lambda rate: rate.loss)
        found.append(TriedRates(specification=first, rates=tuple(tried), best=best))
    return found


def at_best_rates(runs: Iterable[Run]) -> list[Run]:
    """Return the runs of every scheme at its best rate; all runs of a scheme that has one rate."""
    every = list(runs)
    chosen = {run_id for each in tried_rates(every) for run_id in each.best.runs}
    return [run for run in every if run.run_id in chosen]


def _rates(specification: Specification) -> tuple[float, ...]:
    tuning = specification.fine_tuning
    own = specification.scheme_rate, specification.learning_rate
    return own if tuning is None else (*own, tuning.learning_rate)


def _tried(runs: list[Run], shared: set[Trial]) -> TriedRate:
    """Return a rate with its mean loss. shared: the trials of all rates."""
    specification = runs[0].specification
    tuning = specification.fine_tuning
    judged = [run for run in runs if run.specification.trial in shared] or runs
    return TriedRate(
        learning_rate=specification.learning_rate,
        scheme_rate=specification.scheme_rate,
        tuning_rate=None if tuning is None else tuning.learning_rate,
        loss=statistics.fmean(map(_loss, judged)),
        trials=len(judged),
        runs=tuple(run.run_id for run in runs),
    )


def _loss(run: Run) -> float:
    """Return the loss by which rates are chosen, infinite for a run without one or with no number."""
    try:
        loss = loss_in_training(run)
    except (StopIteration, statistics.StatisticsError):
        return math.inf
    return math.inf if math.isnan(loss) else loss
