"""A background process that hangs: it is ended from outside, and what it was at work on is not lost."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboard import workers
from dashboard.workers import Workers
from posenc import limits
from posenc.lab.entry import State
from posenc.lab.queue import Queue
from tests.small_runs import CORPUS, sentences, small
from tests.worker_processes import ROOT, alive, own_place, running_at, wait, worker

pytestmark = pytest.mark.timeout(1_200)
TEXT = {"text": sentences(), "text_name": CORPUS.name}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    yield from own_place(tmp_path, monkeypatch)


def hangs(queue: Queue, name: str) -> None:
    """Let whoever reads the text of an entry wait for ever, deaf to all but the system."""
    (text,) = queue.folder.glob("*.txt")
    text.unlink()
    os.mkfifo(text)


@pytest.fixture
def hanging(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Workers, str, int]]:
    """A crew whose one process hangs with an entry: the crew, the entry, the process."""
    monkeypatch.setattr(workers, "PAUSE", 3_600.0)  # no other process is started meanwhile
    monkeypatch.setattr(workers, "LOOK_EVERY", 0.2)
    queue = Queue(place / "queue")
    name = queue.add([small()], **TEXT)
    hangs(queue, name)
    crew = Workers(queue)
    crew.ensure()
    (process,) = crew._processes
    try:
        wait(lambda: [one.state for one in queue.entries()] == [State.RUNNING])
        yield crew, name, process.pid
    finally:
        process.kill()
        process.wait()


def test_a_process_that_does_not_hear_a_stop_is_ended_and_its_entry_with_it(
    hanging: tuple[Workers, str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_STOPPING", 1.0)
    crew, name, pid = hanging
    queue = crew.queue
    assert queue.hung(pid) is None
    queue.stop(name)
    wait(lambda: not alive(pid))
    wait(lambda: not list(queue.folder.glob(f"{name}*")))


def test_a_process_that_tells_nothing_is_ended_and_its_entry_waits(
    hanging: tuple[Workers, str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    crew, name, pid = hanging
    queue = crew.queue
    assert queue.hung(pid) is None
    monkeypatch.setattr(limits, "MAX_SILENCE", 1.0)
    wait(lambda: not alive(pid))
    # A look at whether a lock is held takes it for a moment, and the crew looks, too.
    wait(lambda: [one.state for one in queue.entries()] == [State.WAITING])
    (entry,) = queue.entries()
    assert (entry.name, entry.attempts) == (name, 1)
    wait(lambda: crew.failed)  # no other is started at once
    assert queue.hung(pid) is None


def test_a_process_at_work_does_not_hang(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Queue(place / "queue")
    name = queue.add([small(steps=100_000)], **TEXT)
    process = worker(queue)
    running_at(queue, name, 3)
    assert queue.hung(process.pid) is None
    assert queue.hung(os.getpid()) is None
    old = time.time() - limits.MAX_SILENCE - 1
    for ending in ("progress", "working"):
        assert (queue.folder / f"{name}.{ending}").exists()
    os.utime(queue.folder / f"{name}.working", (old, old))
    assert queue.hung(process.pid) is None  # it tells how far it is
    os.kill(process.pid, signal.SIGTERM)  # as a system does that wants it gone: it saves first
    assert process.wait(60) in (0, 3)
    (entry,) = queue.entries()
    assert (entry.state, entry.attempts) == (State.WAITING, 0)
    assert len(list((place / "work").rglob("*.safetensors"))) == 1


@pytest.mark.long
def test_a_server_told_to_end_saves_the_run_ends_within_ten_seconds_and_is_followed(
    place: Path,
) -> None:
    queue = Queue(place / "work" / "queue")
    name = queue.add([small(steps=100_000)], **TEXT)
    command = [sys.executable, "-m", "streamlit", "run", "dashboard/app.py"]
    command += ["--server.port", "0", "--server.address", "127.0.0.1"]

    def serve() -> subprocess.Popen[bytes]:
        # The first page that is asked for lets the queue go on; no visitor is here, so this does.
        code = (
            "import runpy, sys, threading, dashboard.workers as w;"
            "threading.Timer(1, w.resume).start();"
            f"sys.argv = {command[2:]!r};"
            "runpy.run_module('streamlit', run_name='__main__')"
        )
        return subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)

    pids: list[int] = []
    for sitting in (1, 2):
        server = serve()
        holder = 0
        try:
            began = queue.progress(name).step if sitting == 2 else 0
            wait(lambda began=began: queue.progress(name).step > began)
            holder = int((queue.folder / f"{name}.working").read_text().split()[0])
            pids.append(holder)
            told = time.monotonic()
            server.terminate()
            server.wait(60)
            wait(lambda holder=holder: not alive(holder), 60)
            assert time.monotonic() - told <= 10  # seconds that a deployment waits
        finally:
            server.kill()  # its worker ends with it, and is not waited for
            server.wait()
            if holder and alive(holder):
                os.kill(holder, signal.SIGKILL)
        (entry,) = queue.entries()
        assert (entry.state, entry.attempts) == (State.WAITING, 0)
        assert len(list((place / "work").rglob("*.safetensors"))) == 1
    assert len(set(pids)) == 2
