"""Background processes of the lab in a folder of their own, for tests that watch, stop and kill them."""

import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from posenc.lab.jobs import Queue
from posenc.lab.train import Trainer
from posenc.lab.worker import main
from tests.lab.sqlite_calls import sqlite_calls

ROOT = Path(__file__).parents[2]
PATIENCE = float(os.environ.get("POSENC_PATIENCE", "300"))  # tests/mutants/runs.py sets less

# By the test that runs now.
_started: list[subprocess.Popen[bytes]] = []
_forked: list[int] = []


def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Put runs and work below `tmp_path`; at the end kill what `worker` started."""
    monkeypatch.setenv("POSENC_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("POSENC_WORK", str(tmp_path / "work"))
    yield tmp_path
    while _started:
        process = _started.pop()
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stderr):
            if pipe is not None:
                pipe.close()
    while _forked:
        pid = _forked.pop()
        if alive(pid):
            os.kill(pid, signal.SIGKILL)


# A worker has seconds to save in when its server ends; on a busy machine that is not enough each time.
WORKER = f"from posenc.lab import worker; worker.GRACE = {PATIENCE}; worker.run_as_process()"


def worker(queue: Queue) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(queue.folder), str(queue.running)],
        cwd=ROOT, stdin=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    _started.append(process)
    return process


def exit_code(queue: Queue) -> int:
    """Run the jobs in this process, as a worker does, and return its exit code."""
    try:
        main(queue.folder, queue.running)
    except SystemExit as leaving:
        return int(leaving.code or 0)
    return 0


def slow_worker(queue: Queue) -> int:
    """Fork a worker that trains slowly past step 100 and waits at step 150. Return its number."""
    step = Trainer.step

    def slowed(trainer: Trainer) -> float:
        done = len(trainer.losses)
        time.sleep(0.015 if done > 100 else 0)  # so that it reports how far it is
        while done == 150:
            time.sleep(0.05)
        return step(trainer)

    def work() -> None:
        pytest.MonkeyPatch().setattr(Trainer, "step", slowed)
        os._exit(exit_code(queue))

    pid = in_fork(work)
    _forked.append(pid)
    return pid


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] != "Z"
    except OSError:
        return False


def wait(for_what: Callable[[], bool], seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while not for_what():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


def running_at(queue: Queue, name: str, step: int) -> None:
    """Wait until a job has reported a step."""
    wait(lambda: queue.progress(name).step >= step)


def in_fork(work: Callable[[], object]) -> int:
    """Start a fork that does `work` and exits: with 0, or with 1 where that raised. Return its number."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)  # or it would go on as a second run of the tests
    return child


def killed_in_fork(call: str, count: int, work: Callable[[], object]) -> bool:
    """Do `work` in a fork that is killed at its `count`-th call. Return whether it came to that call."""
    owner: Any = {"fsync": os, "link": os, "replace": Path, "unlink": Path, "open": Path}[call]
    real, calls = getattr(owner, call), []

    def killing(*arguments: Any, **named: Any) -> object:
        mode = str(named.get("mode", (*arguments, "r", "r")[1])) if call == "open" else "w"
        if not set(mode) & set("wax+"):  # reading leaves nothing, and how often is the machine's
            return real(*arguments, **named)
        calls.append(call)
        if len(calls) == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **named)

    def work_until_killed() -> None:
        setattr(owner, call, killing)
        work()

    return _was_killed(work_until_killed)


def killed_in_sqlite(call: str, count: int, work: Callable[[], object]) -> bool:
    """Do `work` in a fork that is killed at SQLite's `count`-th call. Return whether it came to that call.

    call: "open" of a file to be made or written, "write", "truncate" or "unlink".
    """
    calls = list[str]()

    def kill(name: str, path: str, flags: int) -> int:
        reads = name == "open" and not flags & (os.O_CREAT | os.O_WRONLY | os.O_RDWR)
        if name == call and not reads:  # reading leaves nothing
            calls.append(path)
            if len(calls) == count:
                os.kill(os.getpid(), signal.SIGKILL)
        return 0

    def work_until_killed() -> None:
        with sqlite_calls(kill):
            work()

    return _was_killed(work_until_killed)


def _was_killed(work: Callable[[], object]) -> bool:
    _, status = os.waitpid(in_fork(work), 0)
    assert os.WIFSIGNALED(status) or status == 0
    return os.WIFSIGNALED(status)
