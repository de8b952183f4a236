"""Background processes of the lab in a place of their own, for tests that watch, stop and kill them."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from posenc.lab.queue import Queue

ROOT = Path(__file__).parents[1]
PATIENCE = float(os.environ.get("POSENC_PATIENCE", "300"))  # tests/mutant_runs.py has less


def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Let runs and work be below `tmp_path`; at the end nothing that `worker` started lives."""
    monkeypatch.setenv("POSENC_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("POSENC_WORK", str(tmp_path / "work"))
    yield tmp_path
    for path in (tmp_path / "pids").glob("*"):
        if alive(int(path.name)):
            os.kill(int(path.name), signal.SIGKILL)


def worker(queue: Queue, largest: int | None = None) -> subprocess.Popen[bytes]:
    """Start a background process that does what waits. largest: bytes of a file, None for any number."""

    def limit() -> None:
        assert largest is not None
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))

    process = subprocess.Popen(
        [sys.executable, "-m", "posenc.lab.worker", str(queue.folder), str(queue.running)],
        cwd=ROOT, stdin=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=None if largest is None else limit,
    )  # fmt: skip
    pids = queue.folder.parent / "pids"
    pids.mkdir(exist_ok=True)
    (pids / str(process.pid)).touch()
    return process


def alive(pid: int) -> bool:
    """Whether a process is there and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] != "Z"
    except OSError:
        return False


def wait(for_what: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not for_what():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


def running_at(queue: Queue, name: str, step: int) -> None:
    """Wait until an entry has told of a step."""
    wait(lambda: queue.progress(name).step >= step)
