"""Batches of visitors: all at once, or each with its pauses; and the same batch again and again."""

import asyncio
import itertools
import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from websockets.exceptions import WebSocketException

from tests.load.figures import Figures
from tests.load.server import Replicas, Served
from tests.load.visitor import Visitor

DIAL = "Base"  # turned by every visitor
_OWN = 190  # positions of the first visitor; the others have one more each
_FAULTS = (OSError, TimeoutError, WebSocketException, LookupError)


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
    """Run one batch to its end."""
    # In a thread of its own: the caller's may have a loop that runs, as browsers' tests do.
    with ThreadPoolExecutor(1) as alone:
        return alone.submit(asyncio.run, batch(server, **asked)).result()  # type: ignore[arg-type]


def multiplied(*censuses: dict[str, tuple[str, int]], least: int) -> dict[str, list[int]]:
    """Return the kinds of containers of which there are at least `least` more each time."""
    counts = [Counter(told for told, _ in one.values()) for one in censuses]
    found = {}
    for kind in counts[0]:
        numbers = [one[kind] for one in counts]
        if all(after >= before + least for before, after in itertools.pairwise(numbers)):
            found[kind] = numbers
    return found


def grown(*censuses: dict[str, tuple[str, int]]) -> dict[str, list[int]]:
    """Return the containers that every census has and that are larger each time, with their lengths."""
    first = censuses[0]
    found = {}
    for name, (told, _) in first.items():
        if any(name not in one or one[name][0] != told for one in censuses):
            continue
        lengths = [one[name][1] for one in censuses]
        if all(after > before for before, after in itertools.pairwise(lengths)):
            found[f"{told} at {name}"] = lengths
    return found
