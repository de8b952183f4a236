"""Processes in a folder of their own, for tests that start, watch and kill them."""

import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PATIENCE = float(os.environ.get("POSENC_PATIENCE", "300"))  # tests/mutants/runs.py sets less


def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Put runs and work below `tmp_path`."""
    monkeypatch.setenv("POSENC_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("POSENC_WORK", str(tmp_path / "work"))
    yield tmp_path


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


def _was_killed(work: Callable[[], object]) -> bool:
    _, status = os.waitpid(in_fork(work), 0)
    assert os.WIFSIGNALED(status) or status == 0
    return os.WIFSIGNALED(status)
