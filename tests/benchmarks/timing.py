"""Paired timing: contenders take turns in one process, so that a busy machine slows all alike."""

import argparse
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

Contenders = Mapping[str, Callable[[], object]]
Samples = dict[str, list[float]]


def paired_seconds(
    contenders: Contenders,
    *,
    rounds: int = 15,
    shortest: float = 2e-3,
    clock: Callable[[], float] = time.perf_counter,
) -> Samples:
    """Seconds per call of each contender, one sample per round, all contenders in every round.

    A call faster than `shortest` seconds is repeated within a sample until the sample lasts as long.
    """
    repeats = {}
    for name, call in contenders.items():
        call()
        begin = clock()
        call()
        repeats[name] = max(1, round(shortest / max(clock() - begin, 1e-9)))
    samples: Samples = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, call in contenders.items():
            begin = clock()
            for _ in range(repeats[name]):
                call()
            samples[name].append((clock() - begin) / repeats[name])
    return samples


def ratio(samples: Samples, name: str, to: str) -> float:
    """Median over the rounds of the time of `name` divided by the time of `to`."""
    return statistics.median(a / b for a, b in zip(samples[name], samples[to], strict=True))


def interval(
    values: Sequence[float], to: Sequence[float], draws: int = 2_000
) -> tuple[float, float]:
    """Ends of the 95 percent interval of the ratio of two medians, whole rounds drawn again and again."""
    rounds = np.random.default_rng(0).integers(len(values), size=(draws, len(values)))
    own, other = (np.median(np.array(each)[rounds], axis=1) for each in (values, to))
    low, high = np.quantile(own / other, (0.025, 0.975))
    return float(low), float(high)


def table(title: str, rows: Mapping[str, Mapping[str, float]], unit: str = "") -> str:
    """Plain text: one line per row name, one aligned column per column name, "-" for no number."""
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    width = max(len(name) for name in [*rows, title])
    lines = [[title.ljust(width), *columns]]
    for name, row in rows.items():
        cells = (f"{row[column]:.2f}{unit}" if column in row else "-" for column in columns)
        lines.append([name.ljust(width), *cells])
    sizes = [max(9, *(len(line[at]) for line in lines)) for at in range(len(columns) + 1)]
    return "\n".join(
        "  ".join(cell.rjust(size) for cell, size in zip(line, sizes, strict=True))
        for line in lines
    )


def options(description: str | None, **defaults: int | str) -> argparse.Namespace:
    """Read a benchmark's command line: one whole number, or one text, for each of these defaults."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    return parser.parse_args()
