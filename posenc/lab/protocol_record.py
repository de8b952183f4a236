"""The record of a protocol's runs: a table that says which part a run belongs to, and the losses of sweeps.

An id of a run depends on the text and on the versions of the machine that made it. Somebody else finds the
runs of a part in this table, and need not have the runs of its sweep: their rates and losses are rows here.
"""

import csv
import io
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from posenc.checkpoints.sources import RESULTS
from posenc.errors import RunError
from posenc.lab.evaluate import TRAINED
from posenc.lab.runs import Run, Store
from posenc.lab.specification import Specification, Trial
from posenc.lab.tasks import Language
from posenc.schemes.learned import LearnedConfig

RECORD = "protocol.csv"  # its name in a store
LAST_STEPS = (
    0.1  # share of the steps whose mean loss chooses the rate of a task without validation text
)
_SWEEP, _TABLE = "sweep", "table"
_COLUMNS = (
    "part", "stage", "run_id", "scheme", "learning_rate", "scheme_rate", "seed", "data_seed", "loss",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Of a scheme: the learning rate, and its factor for the scheme's own parameters."""

    learning_rate: float = 2e-3
    scheme_rate: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A run of a part. sweep: it chooses rates, and is no row of the part's table. scheme: its kind.

    loss: see `loss_in_training`.
    """

    part: str
    sweep: bool
    run_id: str
    scheme: str
    rates: Rates
    trial: Trial
    loss: float

    @classmethod
    def of(cls, part: str, *, sweep: bool, run: Run) -> "Recorded":
        """Return the row of a run."""
        spec = run.specification
        return cls(
            part=part, sweep=sweep, run_id=run.run_id, scheme=spec.scheme.kind, rates=rates_of(spec),
            trial=spec.trial, loss=loss_in_training(run),
        )  # fmt: skip


def rates_of(specification: Specification) -> Rates:
    """Return the rates of a run."""
    return Rates(learning_rate=specification.learning_rate, scheme_rate=specification.scheme_rate)


def loss_in_training(run: Run) -> float:
    """Return the loss by which rates are chosen, infinite for a run that stopped early.

    For text that of the validation side at the training length; else the mean of the last tenth of the
    steps, whose data are new at every step.
    """
    if run.stopped is not None:
        return math.inf
    spec = run.specification
    if spec.task == Language.kind:
        return next(
            score.value
            for score in run.scores
            if (score.measure, score.variant, score.x) == ("context", TRAINED, spec.train_length)
        )
    return statistics.fmean(run.losses[-max(1, round(LAST_STEPS * len(run.losses))) :])


def read_record(store: Store) -> tuple[Recorded, ...]:
    """Return the record of a store, empty if it has none. Raises RunError for an unreadable one."""
    try:
        content = store.content(RECORD)
    except FileNotFoundError:
        return ()
    try:
        rows = list(csv.DictReader(io.StringIO(content.decode()), strict=True))
        return tuple(
            Recorded(
                part=row["part"],
                sweep={_SWEEP: True, _TABLE: False}[row["stage"]],
                run_id=row["run_id"],
                scheme=row["scheme"],
                rates=Rates(
                    learning_rate=float(row["learning_rate"]), scheme_rate=float(row["scheme_rate"])
                ),
                trial=Trial(int(row["seed"]), int(row["data_seed"])),
                loss=float(row["loss"]),
            )
            for row in rows
        )
    except (UnicodeDecodeError, csv.Error, LookupError, TypeError, ValueError):
        raise RunError(f"The file {RECORD} of the store cannot be read.") from None


def shipped_record() -> tuple[Recorded, ...]:
    """Return the record of the runs that ship."""
    return read_record(Store(RESULTS))


def record_csv(rows: Iterable[Recorded]) -> bytes:
    """Return the record as `read_record` reads it."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for row in rows:
        writer.writerow(
            [
                row.part, _SWEEP if row.sweep else _TABLE, row.run_id, row.scheme,
                f"{row.rates.learning_rate:g}", f"{row.rates.scheme_rate:g}", row.trial.seed,
                row.trial.data_seed, repr(row.loss),
            ]
        )  # fmt: skip
    return out.getvalue().encode()


def ship(rows: Sequence[Recorded], source: Store, target: Store) -> None:
    """Write the runs of tables, and then the record, from one store to another. Raises RunError.

    The trained parameters of schemes go with runs on text of the parts that choose rates: learned tables,
    which the dashboard offers, with each, others with the first run of a scheme. Of runs on text the loss
    of each step stays behind: it is most of a file, and a rate is chosen by the validation text.
    """
    choose_rates = {row.part for row in rows if row.sweep}
    with_parameters = set()  # of which part and scheme a run has gone
    for row in rows:
        if row.sweep:
            continue
        run = source.read(row.run_id)
        if run.specification.task != Language.kind:
            target.add(run, {})
            continue
        of_scheme = row.part, row.scheme
        tables = {}
        if row.part in choose_rates and (
            row.scheme == LearnedConfig.kind or of_scheme not in with_parameters
        ):
            tables = source.tables(row.run_id)
        with_parameters.add(of_scheme)
        target.add(replace(run, losses=()), tables)
    target.put(RECORD, record_csv(rows))
