"""The app as a server of its own for a load test, with its memory and its containers to be read."""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.served_process import server


@dataclass(frozen=True)
class Served:
    """A running app. address: of it. pid: of its process. inside: the socket that answers `census`."""

    address: str
    pid: int
    inside: Path

    def memory(self) -> float:
        """Return the resident memory of the server's process in MB (10^6 bytes)."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1_024 / 1e6
        raise ProcessLookupError(self.pid)

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


@contextmanager
def served(place: Path, **variables: str) -> Iterator[Served]:
    """Serve the app with runs and work below `place`, until the context ends."""
    inside = place / "inside"
    with server(place, module=("tests.load.inside", str(inside)), **variables) as one:
        yield Served(one.address, one.process.pid, inside)
