"""The app as a server of its own for a load test, with its memory and its containers to be read."""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.server.served_process import server


def resident_memory(process: int | str) -> float:
    """Return the resident memory of a process in MB (10^6 bytes); "self" is this one."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1_024 / 1e6
    raise ProcessLookupError(process)


@dataclass(frozen=True)
class Served:
    """A running app. address: of it. pid: of its process. inside: the socket that answers `census`."""

    address: str
    pid: int
    inside: Path

    def address_of(self, number: int) -> str:
        """Return where the visitor of that number goes."""
        return self.address

    def memory(self) -> float:
        """Return the resident memory of the server's process in MB (10^6 bytes)."""
        return resident_memory(self.pid)

    def cpu(self) -> float:
        """Return the seconds of processor time that the server's process has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def census(self) -> dict[str, tuple[str, int]]:
        """Return every container of the server that holds something: what it is, and how much."""
        with socket.socket(socket.AF_UNIX) as asked:
            asked.connect(str(self.inside))
            with asked.makefile("rb") as answer:
                found: dict[str, tuple[str, int]] = json.load(answer)
        return found


@dataclass(frozen=True)
class Replicas:
    """Several servers of one store; a visitor stays with one, as behind a proxy that is sticky."""

    each: tuple[Served, ...]

    def address_of(self, number: int) -> str:
        return self.each[number % len(self.each)].address

    def memory(self) -> float:
        return sum(one.memory() for one in self.each)

    def cpu(self) -> float:
        return sum(one.cpu() for one in self.each)


@contextmanager
def served(place: Path, name: str = "server", **variables: str) -> Iterator[Served]:
    """Serve the app with runs and work below `place`, until the context ends."""
    inside = place / f"{name}-inside"
    with server(place, name, module=("tests.load.inside", str(inside)), **variables) as one:
        yield Served(one.address, one.process.pid, inside)


@contextmanager
def replicas(place: Path, count: int, **variables: str) -> Iterator[Replicas]:
    """Serve the app by several processes that share runs and work, until the context ends."""
    with ExitStack() as stack:
        names = [f"server-{number}" for number in range(count)]
        each = [stack.enter_context(served(place, name, **variables)) for name in names]
        yield Replicas(tuple(each))
