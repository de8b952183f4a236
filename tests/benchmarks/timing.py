"""Paired timing: contenders take turns in one process, so that a busy machine slows all alike."""

import statistics
import time
from collections.abc import Callable, Mapping


def paired_seconds(
    contenders: Mapping[str, Callable[[], object]],
    *,
    rounds: int = 15,
    shortest: float = 2e-4,
) -> dict[str, list[float]]:
    """Seconds per call of each contender, one sample per round, all contenders in every round.

    rounds: samples per contender, after one unmeasured round. shortest: a call faster than this
    many seconds is repeated within a sample until the sample lasts as long.
    """
    repeats = {}
    for name, call in contenders.items():
        call()
        begin = time.perf_counter()
        call()
        repeats[name] = max(1, round(shortest / max(time.perf_counter() - begin, 1e-9)))
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, call in contenders.items():
            begin = time.perf_counter()
            for _ in range(repeats[name]):
                call()
            samples[name].append((time.perf_counter() - begin) / repeats[name])
    return samples


def ratio(samples: Mapping[str, list[float]], name: str, to: str) -> float:
    """Median over the rounds of the time of `name` divided by the time of `to`."""
    return statistics.median(a / b for a, b in zip(samples[name], samples[to], strict=True))


def table(title: str, rows: Mapping[str, Mapping[str, float]], unit: str = "x") -> str:
    """Plain text: one line per row name, one column per column name, aligned."""
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    width = max(len(name) for name in [*rows, title])
    lines = [title.ljust(width) + "".join(f"  {column:>14}" for column in columns)]
    for name, row in rows.items():
        cells = (f"{row[c]:.2f}{unit}" if c in row else "-" for c in columns)
        lines.append(name.ljust(width) + "".join(f"  {cell:>14}" for cell in cells))
    return "\n".join(lines)
