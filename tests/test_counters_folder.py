"""Counters of several servers in one folder: containers whose servers have the same process number."""

import json
import os
import re
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

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


def test_the_operator_is_told_what_can_be_asked_and_that_a_word_is_none() -> None:
    asked = CliRunner().invoke(counters.main, ["--help"])
    assert asked.exit_code == 0
    told = " ".join(asked.stdout.split())
    for word in ("Usage:", "--json", "$POSENC_WORK", "sessions", "Exit status 1"):
        assert word in told
    slip = CliRunner().invoke(counters.main, ["--jsno"])
    assert slip.exit_code == 2
    assert "No such option" in slip.output


def test_what_is_asked_is_printed_for_people_and_as_json(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = CliRunner().invoke(counters.main, [])
    assert (nobody.exit_code, nobody.stdout) == (1, "")
    assert nobody.stderr == f"No server answers in {folder}.\n"
    Counters().serve()
    (told,) = map(json.loads, CliRunner().invoke(counters.main, ["--json"]).stdout.splitlines())
    assert told["process"] == os.getpid()
    shown = CliRunner().invoke(counters.main, []).stdout
    assert re.search(rf"^process +{os.getpid()}$", shown, re.MULTILINE)
    monkeypatch.setenv("POSENC_UPLOADS", "maybe")
    slip = CliRunner().invoke(counters.main, [])
    assert slip.exit_code == 2
    assert slip.stderr == "posenc: POSENC_UPLOADS must be 0 or 1, got 'maybe'.\n"
