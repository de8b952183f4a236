"""What visitors measured, as figures."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tests.load.visitor import Answer


@dataclass
class Figures:
    """Of one batch. first: loads of the page. turned: reruns after it. faults: of all visitors.

    memory: of the server afterwards, MB. worked: seconds of its processor. wall: seconds it took.
    """

    first: list[Answer] = field(default_factory=list)
    turned: list[Answer] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    memory: float = 0.0
    worked: float = 0.0
    wall: float = 0.0

    def quantile(self, share: float, what: str = "turned") -> float:
        """Return the time that this share of the answers took at most, seconds; NaN for none."""
        found = [one.seconds for one in getattr(self, what)]
        return float(np.quantile(found, share)) if found else float("nan")

    def size(self, what: str = "turned") -> float:
        """Return the largest answer in kB (10^3 bytes)."""
        return max((one.size for one in getattr(self, what)), default=0) / 1e3

    def row(self) -> dict[str, float | int]:
        """Return the figures of a report's row."""
        return {
            "first p50 s": self.quantile(0.5, "first"),
            "first max s": self.quantile(1.0, "first"),
            "p50 ms": self.quantile(0.5) * 1e3,
            "p95 ms": self.quantile(0.95) * 1e3,
            "faults": len(self.faults),
            "first kB": self.size("first"),
            "rerun kB": self.size(),
            "memory MB": self.memory,
            "processor %": 100 * self.worked / self.wall if self.wall else float("nan"),
        }


def table(rows: Sequence[tuple[str, Figures]]) -> str:
    """Return a report as text, one line per batch."""
    if not rows:
        return ""
    names = list(rows[0][1].row())
    lines = [["batch", *names]]
    for title, figures in rows:
        lines.append([title, *(f"{value:,.4g}" for value in figures.row().values())])
    widths = [max(len(line[n]) for line in lines) for n in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if n == 0 else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )
