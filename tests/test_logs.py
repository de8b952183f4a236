"""The log of a server is JSON lines without a visitor's words; its counters are its operator's alone."""

import json
import logging
import os
import socket
import stat
import subprocess
import sys
import threading
import urllib.error
import urllib.request
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import streamlit.logger
from streamlit.testing.v1 import AppTest
from websockets.exceptions import InvalidStatus

from dashboard import counters, faults, kept, logs
from posenc.lab import log_lines
from posenc.lab.queue import Queue
from tests.pages import visit
from tests.served_process import ROOT, server, visiting
from tests.small_runs import made, small

pytestmark = pytest.mark.usefixtures("no_shape_checks")

SECRET = "xyzzy /home/ann/secret.npy"


def line(log: str, level: int, message: str, *args: object, **more: Any) -> dict[str, Any]:
    """What one record is written as."""
    logger = logging.getLogger(log)
    fault = more.pop("exc_info", None)
    record = logger.makeRecord(log, level, __file__, 7, message, args, fault, extra=more or None)
    written = log_lines.JsonLines().format(record)
    assert "\n" not in written
    found: dict[str, Any] = json.loads(written)
    return found


def raised() -> tuple[Any, Any, Any]:
    try:
        try:
            raise KeyError(SECRET)
        except KeyError as error:
            raise ValueError(f"no {SECRET}\nsecond line") from error
    except ValueError:
        return sys.exc_info()


def test_a_line_says_when_how_bad_who_and_what() -> None:
    found = line("dashboard", logging.ERROR, "the queue cannot be used")
    assert set(found) == {"at", "level", "logger", "event"}
    assert (found["level"], found["logger"]) == ("ERROR", "dashboard")
    assert found["event"] == "the queue cannot be used"
    assert found["at"].endswith("+00:00")


def test_an_exception_is_its_kinds_and_places_never_its_words() -> None:
    found = line("dashboard", logging.ERROR, "it failed", exc_info=raised())
    assert found["fault"] == ["ValueError", "KeyError"]
    assert found["where"][-1].startswith("tests/test_logs.py:")
    assert found["where"][-1].endswith(" raised")
    assert "xyzzy" not in json.dumps(found)


def test_what_a_library_puts_into_its_message_is_left_out() -> None:
    found = line("streamlit.web", logging.WARNING, "cannot read %s", SECRET)
    assert found["event"] == "cannot read %s"
    assert found["place"] == "tests/test_logs.py:7"
    found = line("streamlit.web", logging.WARNING, f"cannot read {SECRET}")
    assert found["event"] == "log"
    assert "xyzzy" not in json.dumps(found)


@pytest.mark.parametrize(
    ("message", "given", "event"),
    [
        ("Port %s is not available", (8501,), "Port 8501 is not available"),
        ("from %d to %d", (1, 2), "from 1 to 2"),
        ("started on %s:%s", ("demo.example.org", 8501), "started on %s:%s"),
        ("sent %s", (True,), "sent %s"),  # no number
        ("took %d", (10**5_000,), "took %d"),
        ("one %d of %d", (1,), "one %d of %d"),  # a slip of theirs
        ("%(port)s", ({"port": 1},), "%(port)s"),
    ],
)
def test_whole_numbers_alone_are_told_of_what_a_library_puts_into_its_message(
    message: str, given: tuple[object, ...], event: str
) -> None:
    assert line("streamlit.web", logging.ERROR, message, *given)["event"] == event


def test_no_place_tells_a_folder_of_the_machine() -> None:
    for path, told in (
        ("/home/ann/venv/lib/python3.11/site-packages/torch/nn/modules/module.py",
         "torch/nn/modules/module.py"),
        (str(ROOT / "dashboard" / "app.py"), "dashboard/app.py"),
        ("/usr/lib/python3.11/threading.py", "threading.py"),
        ("C:\\Users\\ann\\site-packages\\x\\y.py", "x/y.py"),
    ):  # fmt: skip
        assert log_lines._place(path) == told


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The log of this process as lines, what it was before put back after."""
    root = logging.getLogger()
    before = (root.handlers[:], root.level, sys.excepthook, threading.excepthook)
    shown, captured, plain = warnings.showwarning, logging._warnings_showwarning, None  # type: ignore
    setup = streamlit.logger.setup_formatter
    monkeypatch.setenv("POSENC_PROFILE", "shared")
    streams = {
        name: (one.handlers[:], one.propagate) for name, one in streamlit.logger._loggers.items()
    }
    yield logs
    root.handlers[:], level = before[0], before[1]
    root.setLevel(level)
    sys.excepthook, threading.excepthook = before[2], before[3]
    logging.captureWarnings(False)
    warnings.showwarning, _ = shown, (captured, plain)
    streamlit.logger.setup_formatter = setup
    for name, (handlers, propagate) in streams.items():
        streamlit.logger._loggers[name].handlers[:] = handlers
        streamlit.logger._loggers[name].propagate = propagate


def test_all_that_is_logged_is_one_line_each(
    installed: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    installed.install()
    streamlit.logger.get_logger("streamlit.made.later").warning("about %s", SECRET)
    streamlit.logger.get_logger("uvicorn.error").error("fell", exc_info=raised())
    warnings.warn(SECRET, stacklevel=1)
    thread = threading.Thread(target=lambda: raised() and int(SECRET))
    thread.start()
    thread.join()
    log_lines.event(logging.getLogger("posenc.worker"), "run_begun", run="0" * 20)
    found = [json.loads(text) for text in capsys.readouterr().err.splitlines()]
    events = [one["event"] for one in found]
    assert events == ["server_started", "about %s", "log", "warning", "uncaught", "run_begun"]
    assert found[0]["profile"] == "shared"
    assert found[2]["fault"] == ["ValueError", "KeyError"]
    assert found[3]["kind"] == "UserWarning"
    assert found[4]["fault"] == ["ValueError"]
    assert found[5]["run"] == "0" * 20
    assert "xyzzy" not in json.dumps(found)


def test_an_incident_is_counted_and_in_the_log_by_its_id(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dashboard import sheet

    def fail() -> None:
        raise RuntimeError(SECRET)

    monkeypatch.setattr(sheet, "begin", fail)
    before = counters.here.read()["incidents"]
    at: AppTest = visit("similarity")
    (box,) = at.error
    assert "xyzzy" not in box.value
    (record,) = [one for one in caplog.records if getattr(one, "event", "") == "incident"]
    written = json.loads(log_lines.JsonLines().format(record))
    assert written["incident"] in box.value
    assert written["fault"] == ["RuntimeError"]
    assert any("test_logs.py" in place for place in written["where"])
    assert "xyzzy" not in json.dumps(written)
    assert counters.here.read()["incidents"] == before + 1
    assert faults.log.name == "dashboard"


def test_counters_count_pages_and_sessions() -> None:
    before = counters.here.read()
    at = visit("pca")
    at.run()
    visit("start")
    after = counters.here.read()
    assert after["sessions_begun"] == before["sessions_begun"] + 2
    assert after["reruns_by_page"]["pca"] >= before["reruns_by_page"].get("pca", 0) + 2
    assert after["reruns_by_page"]["start"] == before["reruns_by_page"].get("start", 0) + 1
    assert after["reruns"] == sum(after["reruns_by_page"].values())


def test_states_of_runs_are_those_of_queue_and_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POSENC_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("POSENC_WORK", str(tmp_path / "work"))
    made(tmp_path)
    queue = Queue()
    queue.add([small("alibi")])
    queue.add([small("none")])
    assert counters.here.read()["runs"] == {"waiting": 2, "running": 0, "failed": 0, "finished": 1}
    with queue.taken() as entry:
        assert counters.here.read()["runs"]["running"] == 1
        assert entry is not None
        queue.fail(entry, "It did.")
    assert counters.here.read()["runs"] == {"waiting": 1, "running": 0, "failed": 1, "finished": 1}


def test_counters_tell_what_pages_have_kept() -> None:
    kept.readings.clear()
    assert counters.here.read()["cache_bytes"]["kept_readings"] == 0
    visit("similarity", {"length": "12", "dim": "16", "heads": "2"})
    (reading,) = [found for found, _ in kept.readings._held.values()]
    of_matrices = sum(kept.weight(one.matrix) for one in reading.found.values())
    told = counters.here.read()["cache_bytes"]["kept_readings"]
    assert kept.weight(reading) == told > of_matrices > 0


def test_a_server_logs_lines_and_tells_its_operator_alone(tmp_path: Path) -> None:
    """A whole server in a process of its own: what a visitor does is counted and never quoted."""
    hosts = {"POSENC_HOSTS": "demo.example.org,127.0.0.1"}
    with server(tmp_path, POSENC_PROFILE="shared", POSENC_PATH="tools/posenc", **hosts) as one:
        with pytest.raises(InvalidStatus), visiting(one, host="evil.example"):
            pass
        query = "learned_source=xyzzy&a=xyzzy&hub_model=xyzzy&present=true"
        for page in ("", "similarity"):
            with visiting(one, page, query, "demo.example.org") as found:
                assert sum(message.WhichOneof("type") == "delta" for message in found) > 5
        asked = subprocess.run(
            [sys.executable, "-m", "dashboard.counters", "--json"], capture_output=True, text=True,
            check=False, cwd=ROOT, env=os.environ | {"POSENC_WORK": str(tmp_path / "work")},
        )  # fmt: skip
        assert asked.returncode == 0, asked.stderr
        (told,) = map(json.loads, asked.stdout.splitlines())
        (place,) = (tmp_path / "work" / "servers").iterdir()
        assert stat.S_IMODE(place.stat().st_mode) == 0o600
        assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
        for path in ("/counters", "/servers", "/_stcore/counters"):
            with urllib.request.urlopen(one.address + path, timeout=10) as answer:
                assert b"sessions_begun" not in answer.read()  # any path is the page itself
    assert told["process"] == one.process.pid
    assert told["sessions_begun"] == 2
    assert told["reruns_by_page"]["similarity"] >= 1
    assert told["memory_bytes"] > 50 * 2**20
    assert set(told["cache_bytes"]) >= {"st_cache_data", "kept_readings"}
    assert all(told["cache_bytes"][name] > 0 for name in ("st_cache_data", "kept_readings"))
    assert told["runs"] == {"waiting": 0, "running": 0, "failed": 0, "finished": 0}
    lines = [json.loads(text) for text in one.lines()]
    events = [entry["event"] for entry in lines]
    assert events[0] == "server_started"
    assert events.count("session_begun") == 2
    assert "xyzzy" not in one.log.read_text()
    again = subprocess.run(
        [sys.executable, "-m", "dashboard.counters"], capture_output=True, text=True,
        check=False, cwd=ROOT, env=os.environ | {"POSENC_WORK": str(tmp_path / "work")},
    )  # fmt: skip
    assert again.returncode == 1
    assert "No server answers" in again.stderr
    assert not list((tmp_path / "work" / "servers").iterdir())  # what the dead one left is swept


@pytest.mark.long
def test_a_server_whose_port_is_taken_says_which_in_its_log(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = subprocess.run(
            [sys.executable, "-m", "dashboard", "--server.address=127.0.0.1", f"--server.port={port}"],
            capture_output=True, text=True, check=False, cwd=ROOT, timeout=60,
            env=os.environ | {"POSENC_LOGS": "lines", "POSENC_WORK": str(tmp_path)},
        )  # fmt: skip
    assert ran.returncode == 1
    said = [json.loads(text) for text in ran.stderr.splitlines()][-1]
    assert said["level"] == "ERROR"
    assert said["event"] == f"Port {port} is not available"


@pytest.mark.long
def test_a_server_with_a_bad_setting_never_serves(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "dashboard"], capture_output=True, text=True, check=False, cwd=ROOT,
        timeout=60, env=os.environ | {"POSENC_UPLOADS": "maybe", "POSENC_WORK": str(tmp_path)},
    )  # fmt: skip
    assert ran.returncode == 2
    assert ran.stderr == "posenc: POSENC_UPLOADS must be 0 or 1, got 'maybe'.\n"
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen("http://127.0.0.1:8639/_stcore/health", timeout=2)
