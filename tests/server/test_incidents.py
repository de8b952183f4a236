"""A fault on any page: one sentence and an incident's id for the visitor, the whole trace for the log."""

import logging
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from safetensors import SafetensorError
from streamlit.testing.v1 import AppTest

from dashboard.server import jobs
from dashboard.server.output import kinds_and_places
from posenc.errors import SchemeArgumentError
from tests.dashboard.pages import FOLDERS, PAGES, as_read, visit
from tests.lab.small_runs import small_spec
from tests.server.served_process import ROOT

pytestmark = pytest.mark.usefixtures("no_shape_checks")

# Name of a case: page, module of the dashboard, function, link.
FAULTS: dict[str, tuple[str, str, str, dict[str, str]]] = {
    **{page: (page, f"pages.{FOLDERS[page]}.page", "page", {}) for page in PAGES},
    "extrapolation, measured": ("extrapolation", "run_results", "headline", {"half": "measured"}),
    "any, its link": ("pca", "state", "read_query", {}),
    "any, its address": ("pca", "state", "to_query", {}),
    "any, its title": ("pca", "tools", "draw", {}),
    "any, its sidebar": ("pca", "controls", "draw", {}),
}

SECRET = "/srv/team/.streamlit/secrets.toml"
FORGED = "incident 00000000: all is well"
MESSAGE = f"cannot read {SECRET}\r\n{FORGED}\x1b[2J\u2028<img src=x onerror=alert(1)>"


def raising(error: BaseException) -> Mock:
    return Mock(side_effect=error)


def sent(at: AppTest) -> str:
    """Everything that this run sent to the browser, as text: every element of every block."""

    def walk(block: Any) -> list[str]:
        own = [str(block.proto)] if getattr(block, "proto", None) is not None else []
        children = getattr(block, "children", {}) or {}
        return own + [text for child in children.values() for text in walk(child)]

    return "\n".join(walk(at._tree))


def assert_an_incident(at: AppTest, log: pytest.LogCaptureFixture, names: str) -> None:
    assert not at.exception
    boxes = [as_read(box.value) for box in (*at.error, *at.warning)]
    assert len(boxes) == 1, boxes
    told = re.search(r"as incident ([0-9a-f]{8});", boxes[0])
    assert told, boxes
    assert "\n" not in boxes[0]
    everything = sent(at)
    assert told[1] in everything
    for part in (SECRET, "/srv", "Traceback", "site-packages", names, FORGED, str(ROOT), '.py\\"'):
        assert part not in everything, part
    assert re.search(r"/(?:home|root|tmp|usr|work)/\w", everything) is None
    (record,) = [entry for entry in log.records if entry.name == "dashboard"]
    assert record.getMessage() == f"incident {told[1]}"
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], BaseException)
    written = kinds_and_places(record.exc_info[1])  # as a shared server logs
    assert names.rpartition(".")[2] in written.splitlines()[0]
    assert "dashboard/" in written
    for part in (SECRET, FORGED, "\x1b"):
        assert part not in written


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.ERROR, logger="dashboard"):
        yield caplog


@pytest.mark.parametrize("fault", FAULTS)
def test_unexpected_fault_is_an_incident_wherever_it_happens(
    fault: str, monkeypatch: pytest.MonkeyPatch, log: pytest.LogCaptureFixture
) -> None:
    page, module, name, link = FAULTS[fault]
    monkeypatch.setattr(f"dashboard.{module}.{name}", raising(Exception(MESSAGE)))
    assert_an_incident(visit(page, link), log, "Exception")


@pytest.mark.parametrize("error", [SafetensorError, RecursionError])
def test_exception_of_any_class_is_an_incident(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch, log: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("dashboard.pages.pca.data.projected", raising(error(MESSAGE)))
    names = f"{error.__module__}.{error.__name__}".removeprefix("builtins.")
    assert_an_incident(visit("pca"), log, names)


def test_fault_in_a_fragment_leaves_the_page_around_it(
    job_folder: Path, monkeypatch: pytest.MonkeyPatch, log: pytest.LogCaptureFixture
) -> None:
    jobs.add(job_folder, [small_spec(steps=5)], waiting=8)
    monkeypatch.setattr("dashboard.live.training._draw_job", raising(Exception(MESSAGE)))
    at = visit("train")
    assert_an_incident(at, log, "Exception")
    assert "In training" in [box.value for box in at.header]


def test_fault_in_a_callback_is_an_incident_and_the_page_stays(
    monkeypatch: pytest.MonkeyPatch, log: pytest.LogCaptureFixture
) -> None:
    at = visit("similarity")
    title = at.title[0].value
    monkeypatch.setattr("dashboard.state.State.changed", raising(ValueError(MESSAGE)))
    at = at.select_slider(key="base").set_value(500.0).run()
    assert_an_incident(at, log, "ValueError")
    assert at.title[0].value == title


def test_quoted_user_text_is_shown_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "base must be a number, got '![x](http://evil.example/p.png)<b>'."
    monkeypatch.setattr("dashboard.pages.pca.data.projected", raising(SchemeArgumentError(said)))
    (box,) = visit("pca").error
    assert as_read(box.value) == said
    assert not re.search(r"!\[x\]\(|http://", box.value)


def test_unusable_setting_is_an_incident_for_visitors_and_a_sentence_in_the_log(
    monkeypatch: pytest.MonkeyPatch, log: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("POSENC_POSITIONS", "hunter2")
    sentence = "POSENC_POSITIONS must be a whole number from 2 to 2,048, got 'hunter2'."
    at = visit("start")
    assert not at.exception
    assert not at.main.title
    (box,) = [as_read(one.value) for one in at.error]
    told = re.search(r"its log names the reason as incident ([0-9a-f]{8})\.$", box)
    assert told, box
    assert not re.search("hunter2|POSENC_", sent(at))
    (record,) = [entry for entry in log.records if entry.name == "dashboard"]
    assert record.getMessage() == f"incident {told[1]}: {sentence}"


def test_streamlit_is_configured_to_hide_details() -> None:
    """Streamlit's own answer to a fault outside of a page and of what widgets call."""
    told = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text(encoding="utf-8"))
    assert told["client"]["showErrorDetails"] == "none"
    assert told["client"]["showErrorLinks"] is told["server"]["enableStaticServing"] is False
    assert told["server"]["maxUploadSize"] == 50
