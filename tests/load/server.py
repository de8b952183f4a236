"""The app as a server of its own for a load test, with its memory and its containers to be read."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
START = 120.0  # seconds


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
def served(place: Path, *, environment: dict[str, str] | None = None) -> Iterator[Served]:
    """Serve the app with runs and work below `place`, until the context ends."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    inside = place / "inside"
    own = {"POSENC_RUNS": str(place / "runs"), "POSENC_WORK": str(place / "work")}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.load.inside", str(inside), "run", "dashboard/app.py",
         "--server.port", str(port), "--server.address", "127.0.0.1"],
        cwd=ROOT, env=os.environ | own | (environment or {}),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    address = f"http://127.0.0.1:{port}"
    try:
        _await(f"{address}/_stcore/health", process)
        yield Served(address, process.pid, inside)
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await(url: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            if process.poll() is not None or time.monotonic() > end:
                raise
            time.sleep(0.1)
