"""What this project measured of scalings without training: ratios of perplexity, read from its runs."""

import functools
import math
import statistics
from dataclasses import dataclass

from posenc.interop.sources import RESULTS
from posenc.schemes import SCHEMES
from posenc.words import counted

RUNS = "this project's runs, posenc/lab/results"


@dataclass(frozen=True, kw_only=True)
class MeasuredRatio:
    """Perplexity of small RoPE models at a longer context over that at their training length.

    kind: of the scaling that they were read with; "rope" is RoPE as trained. train_length: in tokens.
    factor: the context over that length. seeds: how many models. mean: geometric, over the seeds;
    low, high: the lowest and the highest seed. Each seed is compared to itself.
    """

    kind: str
    train_length: int
    factor: float
    seeds: int
    mean: float
    low: float
    high: float

    @property
    def said(self) -> str:
        """The ratio in words."""
        return (
            f"{self.mean:.3g} times (geometric mean of {counted(self.seeds, 'seed')}, {self.low:.3g} to "
            f"{self.high:.3g}, trained on {self.train_length:,} bytes)"
        )


@functools.cache
def measured_ratios() -> tuple[MeasuredRatio, ...]:
    """Return every ratio of the language runs of plain RoPE that ship; none without the lab's packages."""
    try:
        from posenc.lab.evaluate import TRAINED
        from posenc.lab.runs import Store
        from posenc.lab.summary import comparison
    except ImportError:
        return ()
    kinds = {config.reading: kind for kind, config in SCHEMES.items() if config.reading}
    kinds[TRAINED] = "rope"
    store = Store(RESULTS)
    gained: dict[tuple[str, str, int, int], list[float]] = {}
    for run_id in store.ids():
        heading = store.heading(run_id)
        spec = heading.specification
        if heading.stopped or spec.task != "language" or spec.scheme.kind != "rope":
            continue
        scores = [one for one in store.read(run_id).scores if one.measure == "context"]
        length = spec.train_length
        own = next(one.value for one in scores if (one.variant, one.x) == (TRAINED, length))
        for one in scores:
            if one.x > length and one.variant in kinds:
                key = (comparison(spec), kinds[one.variant], length, one.x)
                gained.setdefault(key, []).append(one.value - own)
    return tuple(
        MeasuredRatio(
            kind=kind,
            train_length=length,
            factor=x / length,
            seeds=len(found),
            mean=math.exp(statistics.fmean(found)),
            low=math.exp(min(found)),
            high=math.exp(max(found)),
        )
        for (_, kind, length, x), found in sorted(
            gained.items(), key=lambda item: (item[0][2], item[0])
        )
    )


def measured_at(kind: str, factor: float) -> tuple[MeasuredRatio, ...]:
    """Return what was measured of a scaling at a factor, one ratio for each training length.

    Where the factor itself was not measured, that of the next larger one stands for it, and past the
    largest that of the largest.
    """
    by_length: dict[int, list[MeasuredRatio]] = {}
    for one in measured_ratios():
        if one.kind == kind:
            by_length.setdefault(one.train_length, []).append(one)
    return tuple(
        next((one for one in found if one.factor >= factor), found[-1])
        for found in by_length.values()
    )
