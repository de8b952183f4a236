"""Each scheme of a comparison at its own best learning rate, of those that were tried."""

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from posenc.lab.protocol_record import Recorded, loss_in_training
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

    kind: of the scheme. scheme: what its runs have in common, as `scheme_of`; None of a row of a record.
    best: the rate with the lowest loss, of equal ones the lower.
    """

    kind: str
    scheme: Specification | None
    rates: tuple[TriedRate, ...]
    best: TriedRate


class _Tried(NamedTuple):
    """A run as far as it chooses a rate. rates: of the scheme, of the model, of a second stage if any."""

    kind: str
    scheme: Specification | None
    rates: tuple[float, ...]
    trial: Trial
    loss: float
    run_id: str


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
    return _by_scheme(_of_run(run) for run in runs)


def recorded_rates(record: Iterable[Recorded], part: str) -> list[TriedRates]:
    """Return the rates of every scheme in the sweep of a part, by the record of a protocol's runs."""
    return _by_scheme(_of_row(row) for row in record if row.sweep and row.part == part)


def _by_scheme(runs: Iterable[_Tried]) -> list[TriedRates]:
    schemes: dict[tuple[str, Specification | None], dict[tuple[float, ...], list[_Tried]]] = {}
    for run in runs:
        schemes.setdefault((run.kind, run.scheme), {}).setdefault(run.rates, []).append(run)
    found = []
    for (kind, scheme), by_rate in schemes.items():
        shared = set.intersection(*({run.trial for run in own} for own in by_rate.values()))
        rates = [_rate(by_rate[values], shared) for values in sorted(by_rate)]
        best = min(rates, key=lambda rate: rate.loss)
        found.append(TriedRates(kind=kind, scheme=scheme, rates=tuple(rates), best=best))
    return found


def at_best_rates(runs: Iterable[Run]) -> list[Run]:
    """Return the runs of every scheme at its best rate; all runs of a scheme that has one rate."""
    every = list(runs)
    chosen = {run_id for each in tried_rates(every) for run_id in each.best.runs}
    return [run for run in every if run.run_id in chosen]


def compared_runs(runs: Iterable[Run]) -> list[Run]:
    """Return the runs that count where schemes are compared: each scheme at its best rate, in trials that
    share no seed.

    Trials with the same weights at the start, or the same data, are alike. An interval over them would be
    too narrow. Of those that share a seed one counts, first a trial with one seed for both.
    """
    chosen = at_best_rates(runs)
    trials: dict[Specification, list[Trial]] = {}
    for run in chosen:
        trials.setdefault(scheme_of(run.specification), []).append(run.specification.trial)
    independent = {scheme: _independent(own) for scheme, own in trials.items()}
    return [
        run
        for run in chosen
        if run.specification.trial in independent[scheme_of(run.specification)]
    ]


def _independent(trials: Iterable[Trial]) -> set[Trial]:
    found: set[Trial] = set()
    for trial in sorted(trials, key=lambda each: (each.seed != each.data_seed, each)):
        if all(trial.seed != other.seed and trial.data_seed != other.data_seed for other in found):
            found.add(trial)
    return found


def _of_run(run: Run) -> _Tried:
    spec = run.specification
    rates: tuple[float, ...] = (spec.scheme_rate, spec.learning_rate)
    if spec.fine_tuning is not None:
        rates = (*rates, spec.fine_tuning.learning_rate)
    return _Tried(spec.scheme.kind, scheme_of(spec), rates, spec.trial, _loss(run), run.run_id)


def _of_row(row: Recorded) -> _Tried:
    rates = row.rates.scheme_rate, row.rates.learning_rate
    loss = math.inf if math.isnan(row.loss) else row.loss
    return _Tried(row.scheme, None, rates, row.trial, loss, row.run_id)


def _rate(runs: list[_Tried], shared: set[Trial]) -> TriedRate:
    """Return a rate with its mean loss. shared: the trials of all rates."""
    scheme_rate, learning_rate, *tuning = runs[0].rates
    judged = [run.loss for run in runs if run.trial in shared] or [run.loss for run in runs]
    return TriedRate(
        learning_rate=learning_rate,
        scheme_rate=scheme_rate,
        tuning_rate=tuning[0] if tuning else None,
        loss=statistics.fmean(judged),
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
