"""Counters of several servers in one folder: containers whose servers have the same process number."""

import os
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboard import counters
from dashboard.counters import Counters, ask


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of sockets, whose paths may have some hundred characters."""
    with tempfile.TemporaryDirectory() as place:
        monkeypatch.setenv("POSENC_WORK", place)
        yield Path(place) / counters.FOLDER


def test_two_servers_of_one_process_number_both_answer(folder: Path) -> None:
    servers = [Counters(), Counters()]  # as two containers are, each of which calls its server 1
    for times, one in enumerate(servers, start=1):
        for _ in range(times):
            one.count("uploads")
        one.serve()
        one.serve()  # again is once
    assert len(list(folder.glob("*.sock"))) == 2
    told = list(ask())
    assert sorted(one["uploads"] for one in told) == [1, 2]
    assert {(one["process"], one["host"]) for one in told} == {(os.getpid(), socket.gethostname())}


def bound(path: Path, age: float) -> socket.socket:
    """A socket that has its name and is not listened at."""
    made = socket.socket(socket.AF_UNIX)
    made.bind(str(path))
    os.utime(path, (time.time() - age, time.time() - age))
    return made


def test_a_server_that_starts_removes_what_killed_ones_left_and_nothing_else(folder: Path) -> None:
    folder.mkdir(parents=True)
    bound(folder / "1-dead.sock", 3_600).close()
    starting = bound(folder / "2-starting.sock", 0)
    living = bound(folder / "3-living.sock", 3_600)
    living.listen()
    (folder / "4-no-socket.sock").write_text("x")
    one = Counters()
    one.serve()
    left = {path.name for path in folder.iterdir()} - {Path(one._serving or "").name}
    assert left == {"2-starting.sock", "3-living.sock", "4-no-socket.sock"}
    starting.close()
    living.close()
