"""The log of a server is JSON lines without a visitor's words; its counters are in its metrics."""

import json
import logging
import os
import re
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import streamlit.logger

from dashboard import cache
from dashboard.server import counters, log_lines, logs
from posenc.lab.jobs import Queue
from tests.dashboard.pages import visit
from tests.lab.small_runs import make_small_run, small_spec
from tests.server.served_process import ROOT

pytestmark = pytest.mark.usefixtures("no_shape_checks")

SECRET = "xyzzy /home/ann/secret.npy"


def line(log: str, message: str, *args: object, **more: Any) -> dict[str, Any]:
    logger = logging.getLogger(log)
    fault = more.pop("exc_info", None)
    record = logger.makeRecord(log, logging.ERROR, __file__, 7, message, args, fault, extra=more)
    written = log_lines.JsonLines().format(record)
    assert "\n" not in written
    assert "xyzzy" not in written
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


def test_log_line_has_time_level_logger_event_and_the_class_and_place_of_a_fault() -> None:
    found = line("dashboard", "the queue cannot be used", exc_info=raised())
    assert found.pop("at").endswith("+00:00")
    assert re.fullmatch(r"tests/server/test_logs.py:\d+ raised", found.pop("where")[-1])
    event = {"event": "the queue cannot be used", "fault": ["ValueError", "KeyError"]}
    assert found == event | {"level": "ERROR", "logger": "dashboard"}


def test_words_put_into_library_messages_are_not_logged() -> None:
    for message, given, event in (
        ("Port %s is not available", (8501,), "Port %s is not available"),
        ("started on %s:%s", ("demo.example.org", 8501), "started on %s:%s"),
        ("cannot read %s", (SECRET,), "cannot read %s"),
        (f"cannot read {SECRET}", (), "log"),
        ("one %d of %d", (1,), "one %d of %d"),  # a slip of theirs
        ("%(port)s", ({"port": 1},), "%(port)s"),
    ):
        found = line("streamlit.web", message, *given)
        assert (found["event"], found["place"]) == (event, "tests/server/test_logs.py:7")


def test_paths_in_the_log_are_relative() -> None:
    for path, told in (
        ("/home/ann/lib/site-packages/torch/nn/module.py", "torch/nn/module.py"),
        ("/usr/lib/python3.11/threading.py", "threading.py"),
        ("C:\\Users\\ann\\site-packages\\x\\y.py", "x/y.py"),
    ):
        assert log_lines._place(path) == told


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put back after a test what the log of this process was before."""
    root, own = logging.getLogger(), streamlit.logger._loggers
    before = (root.handlers[:], root.level)
    streams = {name: (one.handlers[:], one.propagate) for name, one in own.items()}
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    monkeypatch.setattr(streamlit.logger, "setup_formatter", streamlit.logger.setup_formatter)
    monkeypatch.setenv("POSENC_PROFILE", "shared")
    yield
    logging.captureWarnings(False)
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    for name, (handlers, propagate) in streams.items():
        own[name].handlers[:], own[name].propagate = handlers, propagate


@pytest.mark.filterwarnings("always")  # the warning is to be logged, not raised
@pytest.mark.usefixtures("installed")
def test_every_record_is_one_json_line(capsys: pytest.CaptureFixture[str]) -> None:
    logs.install()
    capsys.readouterr()
    streamlit.logger.get_logger("streamlit.made.later").warning("about %s", SECRET)
    streamlit.logger.get_logger("uvicorn.error").error("fell", exc_info=raised())
    warnings.warn(SECRET, stacklevel=1)
    thread = threading.Thread(target=lambda: raised() and int(SECRET))
    thread.start()
    thread.join()
    log_lines.event(logging.getLogger("posenc.worker"), "run_begun", run="0" * 20)
    found = [json.loads(text) for text in capsys.readouterr().err.splitlines()]
    events = [one["event"] for one in found]
    assert events == ["about %s", "log", "log", "uncaught", "run_begun"]
    _, fell, warned, uncaught, begun = found
    assert (fell["fault"], uncaught["fault"]) == (["ValueError", "KeyError"], ["ValueError"])
    assert (warned["logger"], begun["run"]) == ("py.warnings", "0" * 20)
    assert "xyzzy" not in json.dumps(found)


def counts(family: str, label: str) -> dict[str, int]:
    """Return the values of a family of the metrics by the value of a label."""
    found = counters.here.get_stats()[f"posenc_{family}"]
    return {(one.labels or {}).get(label, ""): one.value for one in found}


def test_counters_count_pages_sessions_and_cached_bytes() -> None:
    cache.RESULTS.clear()
    assert counts("results_bytes", "") == {"": 0}
    sessions, pages = counts("sessions", ""), counts("reruns", "page")
    visit("similarity", {"length": "12", "dim": "16", "heads": "2"}).run()
    visit("start")
    assert counts("sessions", "")[""] == sessions.get("", 0) + 2
    assert counts("reruns", "page")["similarity"] >= pages.get("similarity", 0) + 2
    of_results = sum(map(cache.size_in_bytes, cache.RESULTS.values()))
    assert counts("results_bytes", "") == {"": of_results}
    assert of_results > 0
    assert {*counters.here.get_stats()} == {*counters.Counters.stats_families}


def test_counters_report_states_of_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSENC_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("POSENC_WORK", str(tmp_path / "work"))
    make_small_run(tmp_path)
    queue = Queue()
    for scheme in ("alibi", "none"):
        queue.add([small_spec(scheme)])
    none_yet = {"queued": 0, "running": 0, "failed": 0, "finished": 1}
    assert counts("runs", "state") == none_yet | {"queued": 2}
    with queue.take() as entry:
        assert counts("runs", "state") == none_yet | {"queued": 1, "running": 1}
        assert entry is not None
        queue.fail(entry.name, "It did.")
    assert counts("runs", "state") == none_yet | {"queued": 1, "failed": 1}


@pytest.mark.long
def test_server_on_a_taken_port_ends_with_the_reason(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = subprocess.run(
            [sys.executable, "-m", "dashboard", "--server.address=127.0.0.1", f"--server.port={port}"],
            capture_output=True, text=True, check=False, cwd=ROOT, timeout=100,
            env=os.environ | {"POSENC_LOGS": "lines", "POSENC_WORK": str(tmp_path)},
        )  # fmt: skip
    event = json.loads(ran.stderr.splitlines()[-1])["event"]
    assert (ran.returncode, event) == (1, "Port %s is not available")
