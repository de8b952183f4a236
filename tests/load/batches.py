"""Batches of visitors, all at once or each with its pauses, and the figures of what they measured."""

import asyncio
import itertools
import random
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from websockets.exceptions import WebSocketException

from tests.load.server import Replicas, Served
from tests.load.visitor import Answer, Visitor

DIAL = "Base"  # turned by every visitor
_OWN = 190  # positions of the first visitor; the others have one more each
_FAULTS = (OSError, TimeoutError, WebSocketException, LookupError)


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
    lines = [["batch", *Figures().row()]]
    for title, figures in rows:
        lines.append([title, *(f"{value:,.4g}" for value in figures.row().values())])
    first, *widths = (max(map(len, column)) for column in zip(*lines, strict=True))
    return "\n".join(
        "  ".join([name.ljust(first), *map(str.rjust, cells, widths)]) for name, *cells in lines
    )


async def batch(
    server: Served | Replicas, *, visitors: int, reruns: int, pause: float, page: str = "similarity",
    alike: bool = True, patience: float = 60.0, seed: int = 0,
) -> Figures:  # fmt: skip
    """Let `visitors` open a page at once; then each turns a control `reruns` times.

    alike: whether all open the page as it is. Else each shows as many positions as nobody else, so that
    no setting has been computed for another.

    pause: seconds between two turns of one visitor, on average; they are drawn evenly from half to one
    and a half of it, so that visitors do not march in step.
    """
    figures = Figures()
    ready = asyncio.Event()
    opened = 0

    async def visit(number: int) -> None:
        nonlocal opened
        pauses = random.Random(f"{seed} {number}")
        query = "" if alike else f"length={_OWN + number}"
        visitor = Visitor(server.address_of(number), page, query, patience)
        try:
            async with visitor:
                figures.first.append(await visitor.look())
                opened += 1
                if opened == visitors:
                    ready.set()
                await ready.wait()  # nobody turns while others still open the page
                await asyncio.sleep(pauses.uniform(0, pause))
                for turn in range(reruns):
                    figures.turned.append(await visitor.turn(DIAL, number * 7 + turn))
                    await asyncio.sleep(pauses.uniform(0.5, 1.5) * pause)
        except _FAULTS as error:
            visitor.faults.append(f"{type(error).__name__}: {str(error)[:80]}")
            opened += 1
            if opened >= visitors:
                ready.set()
        figures.faults += visitor.faults

    began, worked = time.perf_counter(), server.cpu()
    await asyncio.gather(*(visit(number) for number in range(visitors)))
    figures.wall = time.perf_counter() - began
    figures.worked = server.cpu() - worked
    figures.memory = server.memory()
    return figures


def run(server: Served | Replicas, **asked: object) -> Figures:
    # In a thread of its own: the caller's may have a loop that runs, as browsers' tests do.
    with ThreadPoolExecutor(1) as alone:
        return alone.submit(asyncio.run, batch(server, **asked)).result()  # type: ignore[arg-type]


Census = dict[str, tuple[str, int]]


def multiplied(*censuses: Census, least: int) -> dict[str, list[int]]:
    """Return the kinds of containers of which there are at least `least` more each time."""
    counts = [Counter(told for told, _ in one.values()) for one in censuses]
    numbers = {kind: [one[kind] for one in counts] for kind in counts[0]}
    return {kind: found for kind, found in numbers.items() if _rise(found, least)}


def grown(*censuses: Census) -> dict[str, list[int]]:
    """Return the containers that every census has and that are larger each time, with their lengths."""
    lengths = {
        f"{told} at {name}": [one[name][1] for one in censuses]
        for name, (told, _) in censuses[0].items()
        if all(name in one and one[name][0] == told for one in censuses)
    }
    return {name: found for name, found in lengths.items() if _rise(found, 1)}


def _rise(numbers: list[int], least: int) -> bool:
    return all(after >= before + least for before, after in itertools.pairwise(numbers))
