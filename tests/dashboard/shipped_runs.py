"""The runs that ship, read once per test run, and means over their seeds by a plain loop."""

import functools
import statistics

from posenc.checkpoints.sources import RESULTS
from posenc.lab import Run, Store


@functools.cache
def shipped_runs() -> tuple[Run, ...]:
    store = Store(str(RESULTS))
    runs = tuple(store)
    assert (store.broken, store.foreign) == ([], [])
    return runs


def means(task: str, length: int, measure: str) -> dict[str, dict[int, float]]:
    """Mean score by x of every scheme that was trained on a task at a length."""
    values: dict[str, dict[int, list[float]]] = {}
    for run in shipped_runs():
        specification = run.specification
        if (specification.task, specification.train_length) != (task, length):
            continue
        for score in run.scores:
            if score.measure == measure and score.variant == "as trained":
                by_x = values.setdefault(specification.scheme.kind, {})
                by_x.setdefault(score.x, []).append(score.value)
    return {
        kind: {x: statistics.fmean(own) for x, own in by_x.items()} for kind, by_x in values.items()
    }
