"""The runs that ship, read once per test run, and means over their seeds by a plain loop."""

import functools
import statistics

from posenc.checkpoints.sources import RESULTS
from posenc.lab import Run, Store
from posenc.lab.summary import comparison

CODE = "language-64-8c2dbbee"  # the protocol's table of losses by context
RECALL_TASK = "recall-32-d89b5de4"


@functools.cache
def shipped_runs() -> tuple[Run, ...]:
    store = Store(str(RESULTS))
    runs = tuple(store)
    assert (store.broken, store.foreign) == ([], [])
    return runs


def runs_of(name: str) -> list[Run]:
    """The runs of a comparison that pages compare: not fine-tuned, one seed for weights and data."""
    return [
        run
        for run in shipped_runs()
        if comparison(run.specification) == name
        and run.specification.fine_tuning is None
        and run.specification.trial.seed == run.specification.trial.data_seed
    ]


def means(name: str, measure: str) -> dict[str, dict[int, float]]:
    """Mean score by x of every scheme as it was trained, of the comparison that has this name."""
    values: dict[str, dict[int, list[float]]] = {}
    for run in runs_of(name):
        for score in run.scores:
            if score.measure == measure and score.variant == "as trained":
                by_x = values.setdefault(run.specification.scheme.kind, {})
                by_x.setdefault(score.x, []).append(score.value)
    return {
        kind: {x: statistics.fmean(own) for x, own in by_x.items()} for kind, by_x in values.items()
    }
