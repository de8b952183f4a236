"""The log of a shared server holds nothing that a visitor wrote, whoever logs it."""

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

from dashboard.server import output
from tests.server.served_process import ROOT

SECRET = "xyzzy /home/ann/secret.npy"


def written(log: str, message: str, *args: object, fault: Any = None) -> str:
    """What stands in the log of a record, by a formatter that adds nothing."""
    record = output.without_quotes(log, logging.ERROR, __file__, 7, message, args, fault)
    text = logging.Formatter().format(record)
    assert "xyzzy" not in text
    return text


def raised() -> tuple[Any, Any, Any]:
    try:
        try:
            raise KeyError(SECRET)
        except KeyError as error:
            raise ValueError(f"no {SECRET}\nsecond line") from error
    except ValueError:
        return sys.exc_info()


def test_of_an_exception_its_kinds_and_places_are_logged() -> None:
    first, kinds, place = written("dashboard", "incident 7", fault=raised()).splitlines()
    assert (first, kinds) == ("incident 7", "ValueError from KeyError")
    assert re.fullmatch(r"  tests/server/test_logs.py:\d+ raised", place)


def test_words_put_into_library_messages_are_not_logged() -> None:
    place = "tests/server/test_logs.py:7"
    for message, given, text in (
        ("Port %s is not available", (8501,), "Port %s is not available"),
        ("started on %s:%s", ("demo.example.org", 8501), "started on %s:%s"),
        ("cannot read %s", (SECRET,), "cannot read %s"),
        (f"cannot read {SECRET}", (), place),
        ("one %d of %d", (1,), "one %d of %d"),  # a slip of theirs
        ("%(port)s", ({"port": 1},), "%(port)s"),
    ):
        assert written("streamlit.web", message, *given) == text
    assert written("posenc.worker", "run_begun run=%s", "0" * 20) == f"run_begun run={'0' * 20}"


def test_paths_in_the_log_are_relative() -> None:
    for path, told in (
        ("/home/ann/lib/site-packages/torch/nn/module.py", "torch/nn/module.py"),
        ("/usr/lib/python3.11/threading.py", "threading.py"),
        ("C:\\Users\\ann\\site-packages\\x\\y.py", "x/y.py"),
    ):
        assert output._place(path) == told


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put back after a test what the log of this process was before."""
    root, factory = logging.getLogger(), logging.getLogRecordFactory()
    before = (root.handlers[:], root.level)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    yield
    logging.setLogRecordFactory(factory)
    logging.captureWarnings(False)
    root.handlers[:] = before[0]
    root.setLevel(before[1])


@pytest.mark.filterwarnings("always")  # the warning is to be logged, not raised
@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("quotes", [False, True])
def test_log_quotes_visitors_only_where_it_is_asked_to(
    quotes: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    output.begin_log(quotes=quotes)
    streamlit.logger.get_logger(f"streamlit.made.later.{quotes}").warning("about %s", SECRET)
    logging.getLogger("uvicorn.error.of.a.test").error("fell", exc_info=raised())
    warnings.warn(SECRET, stacklevel=1)
    thread = threading.Thread(target=lambda: raised() and int(SECRET))
    thread.start()
    thread.join()
    logging.getLogger("posenc.worker").info("run_begun")
    text = capsys.readouterr().err
    assert ("xyzzy" in text) is quotes
    for part in ("py.warnings", "uncaught", "ValueError", "INFO posenc.worker: run_begun\n"):
        assert part in text
    assert ("about %s" in text) is not quotes


@pytest.mark.long
def test_server_on_a_taken_port_ends_with_the_reason(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = subprocess.run(
            [sys.executable, "-m", "dashboard", "--server.address=127.0.0.1", f"--server.port={port}"],
            capture_output=True, text=True, check=False, cwd=ROOT, timeout=100,
            env=os.environ | {"POSENC_PROFILE": "shared", "POSENC_WORK": str(tmp_path)},
        )  # fmt: skip
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1].endswith("Port %s is not available")
