"""A fault on any page: one sentence and an incident's id for the visitor, the whole trace for the log.

The read function of every page is made to raise what nobody foresaw, with a path of the server and a
made-up line of the log in its message.
"""

import ast
import importlib
import json
import logging
import re
import tomllib
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from safetensors import SafetensorError
from streamlit.testing.v1 import AppTest

from dashboard.log_text import of_fault, one_line
from posenc.errors import SchemeArgumentError
from posenc.lab.estimate import Speed
from posenc.lab.log_lines import JsonLines
from tests.browser import ROOT
from tests.page_queue import page_queue
from tests.pages import PAGES, as_read, visit
from tests.small_runs import small

pytestmark = pytest.mark.usefixtures("no_shape_checks")

# What every page shows of a setting comes from here: module of the dashboard, function, link.
READ: dict[str, tuple[str, str, dict[str, str]]] = {
    "start": ("start", "read", {}),
    "encoding": ("encoding", "read", {}),
    "overview": ("overview", "read", {}),
    "similarity": ("similarity", "read", {}),
    "pca": ("pca", "read", {}),
    "relative_offsets": ("relative_offsets", "read", {}),
    "extrapolation": ("formula", "read", {}),
    "train": ("training", "offer", {}),
    "why_position": ("why_position", "read", {}),
    "claims": ("claims", "read", {}),
    "context_planner": ("planner", "read", {}),
    "check_my_encoding": ("check", "read", {}),
}
MORE = {
    "extrapolation, measured": ("extrapolation", "run_frames", "headline", {"half": "measured"}),
    "train, the board": ("train", "training_board", "board", {}),
    "similarity, its question": ("similarity", "predictions", "of_similarity", {}),
    "any, its link": ("pca", "links", "restore", {}),
    "any, what keeps its link": ("pca", "links", "write", {}),
    "any, its sheet": ("pca", "sheet", "begin", {}),
    "any, its sidebar": ("pca", "controls", "shared", {}),
}

SECRET = "/srv/team/.streamlit/secrets.toml"
FORGED = "incident 00000000: all is well"
MESSAGE = f"cannot read {SECRET}\r\n{FORGED}\x1b[2J\u2028<img src=x onerror=alert(1)>"


def raising(error: BaseException) -> Callable[..., Any]:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise error

    return fail


def sent(at: AppTest) -> str:
    """Everything that this run sent to the browser, as text: every element of every block."""

    def walk(block: Any) -> list[str]:
        own = [str(block.proto)] if getattr(block, "proto", None) is not None else []
        children = getattr(block, "children", {}) or {}
        return own + [text for child in children.values() for text in walk(child)]

    return "\n".join(walk(at._tree))


def assert_an_incident(at: AppTest, log: pytest.LogCaptureFixture, names: str) -> None:
    """One box with an id; nothing of the fault in what was sent; all of it in the log."""
    assert not at.exception
    boxes = [box.value for box in at.error]
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
    lines = record.getMessage().splitlines()
    assert all(line.startswith(f"incident {told[1]}: ") for line in lines)
    assert names in lines[0]
    assert SECRET in record.getMessage()
    assert "Traceback" in record.getMessage()
    assert not any(line.startswith(FORGED) for line in lines)
    assert "\x1b" not in record.getMessage()


def test_every_page_is_made_to_fail() -> None:
    assert set(READ) == set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_a_fault_nobody_foresaw_is_an_incident_on_every_page(
    page: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    module, name, link = READ[page]
    place = importlib.import_module(f"dashboard.{module}")
    monkeypatch.setattr(place, name, raising(Exception(MESSAGE)))
    with caplog.at_level(logging.ERROR, logger="dashboard"):
        at = visit(page, link)
    assert_an_incident(at, caplog, "Exception")


@pytest.mark.parametrize("error", [zlib.error, SafetensorError, RecursionError, StopAsyncIteration])
def test_an_error_of_any_family_is_an_incident(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Those of readers of files derive from nothing narrower than Exception."""
    monkeypatch.setattr("dashboard.pca.read", raising(error(MESSAGE)))
    with caplog.at_level(logging.ERROR, logger="dashboard"):
        at = visit("pca")
    assert_an_incident(at, caplog, f"{error.__module__}.{error.__name__}".removeprefix("builtins."))


def test_a_fault_of_the_part_that_is_drawn_again_by_itself_leaves_the_page_around_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing of the page stands around it when Streamlit draws it by the clock."""
    queue = page_queue(tmp_path, monkeypatch, Speed(3e-3, 3e-9, 1e-9))
    queue.add([small(steps=5)])
    monkeypatch.setattr("dashboard.training_board._row", raising(Exception(MESSAGE)))
    with caplog.at_level(logging.ERROR, logger="dashboard"):
        at = visit("train")
    assert_an_incident(at, caplog, "Exception")
    assert "In training" in [box.value for box in at.subheader]
    board = ast.parse((ROOT / "dashboard" / "training_board.py").read_text())
    fragments = [
        node
        for node in ast.walk(board)
        if isinstance(node, ast.FunctionDef)
        and "fragment" in "".join(map(ast.unparse, node.decorator_list))
    ]
    assert [ast.unparse(part.body[0]).splitlines()[0] for part in fragments] == [
        "with faults.kind_errors():"
    ]


def test_a_chain_of_faults_is_in_the_log_whole_and_in_lines_of_its_own() -> None:
    try:
        try:
            raise KeyError(MESSAGE)
        except KeyError as first:
            raise ValueError(f"then\n{FORGED}") from first
    except ValueError as error:
        text = of_fault("0a1b2c3d", error)
    lines = text.splitlines()
    assert len(lines) > 6
    assert all(line.startswith("incident 0a1b2c3d: ") and line.isprintable() for line in lines)
    assert any("KeyError" in line for line in lines)
    assert lines[0].endswith(": ValueError")
    assert any("direct cause" in line for line in lines)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\r\nb\tc", "a\\r\\nb\\tc"),
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("left\u202eright\u2028\ud800\x85", "left\\u202eright\\u2028\\ud800\\x85"),
        ("M\xfcnchen \u2713", "M\xfcnchen \u2713"),
        ("x" * 9_000, "x" * 2_000 + "…"),
    ],
    ids=["line ends", "a terminal's commands", "invisible", "words", "long"],
)
def test_a_line_of_the_log_is_one_printable_line(text: str, line: str) -> None:
    assert one_line(text) == line
    assert one_line(text).isprintable()


def test_a_library_error_that_quotes_a_visitor_is_shown_as_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = "base must be a number, got '![x](http://evil.example/p.png)<b>'."
    monkeypatch.setattr("dashboard.pca.read", raising(SchemeArgumentError(said)))
    at = visit("pca")
    (box,) = at.error
    assert as_read(box.value) == said
    assert "![x](" not in box.value
    assert "http://" not in box.value


@pytest.mark.parametrize("page", ["start", "train", "similarity"])
def test_a_setting_that_cannot_be_used_is_an_incident_to_visitors_and_a_sentence_in_the_log(
    page: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("POSENC_POSITIONS", "hunter2")
    with caplog.at_level(logging.ERROR, logger="dashboard"):
        at = visit(page)
    assert not at.exception
    assert not at.main.title
    (box,) = [as_read(one.value) for one in at.error]
    told = re.fullmatch(
        "This server is not set up so that it can show pages; its log names the reason as incident "
        r"([0-9a-f]{8})\.",
        box,
    )
    assert told, box
    assert "hunter2" not in sent(at)
    assert "POSENC_" not in sent(at)
    sentence = "POSENC_POSITIONS must be a whole number from 2 to 2,048, got 'hunter2'."
    (record,) = [entry for entry in caplog.records if entry.name == "dashboard"]
    assert sentence in record.getMessage()
    assert all(
        line.startswith(f"incident {told[1]}: ") for line in record.getMessage().splitlines()
    )
    line = json.loads(JsonLines().format(record))  # as a hosted server logs
    assert (line["event"], line["incident"], line["said"]) == ("incident", told[1], sentence)


@pytest.mark.parametrize("fault", MORE)
def test_a_fault_beside_the_page_is_an_incident_too(
    fault: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    page, module, name, link = MORE[fault]
    place = importlib.import_module(f"dashboard.{module}")
    if not hasattr(place, name):
        pytest.fail(f"dashboard.{module} has no {name}")
    monkeypatch.setattr(place, name, raising(Exception(MESSAGE)))
    with caplog.at_level(logging.ERROR, logger="dashboard"):
        at = visit(page, link)
    if not at.error:
        pytest.fail(f"{module}.{name} was not called")
    assert_an_incident(at, caplog, "Exception")


def test_a_fault_in_what_a_widget_calls_is_an_incident_and_the_page_stands(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    at = visit("similarity")
    title = at.title[0].value
    monkeypatch.setattr("dashboard.real_model._choose", raising(ValueError(MESSAGE)))
    box = at.selectbox(key="model_control")
    with caplog.at_level(logging.ERROR, logger="dashboard"):
        at = box.select_index(1).run()
    assert_an_incident(at, caplog, "ValueError")
    assert at.title[0].value == title


def callbacks() -> Iterator[tuple[str, str, bool]]:
    """Every function of the dashboard that a widget calls: its file, its name, whether it is answered."""
    for path in sorted((ROOT / "dashboard").rglob("*.py")):
        tree = ast.parse(path.read_text())
        safe = {
            node.name: any(ast.unparse(one).endswith("answered") for one in node.decorator_list)
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef)
        }
        for node in ast.walk(tree):
            if not isinstance(node, ast.keyword) or not re.fullmatch("on_[a-z]+", node.arg or ""):
                continue
            if isinstance(node.value, ast.Constant):  # "rerun", "ignore"
                continue
            name = ast.unparse(node.value)
            yield path.name, name, safe.get(name, False)


def test_no_widget_calls_what_may_fail_without_an_id() -> None:
    found = list(callbacks())
    assert len(found) > 10
    assert [(file, name) for file, name, safe in found if not safe] == []


def test_the_server_sends_no_details_of_what_no_page_catches() -> None:
    """Streamlit's own answer to a fault outside of a page and of what widgets call."""
    told = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text(encoding="utf-8"))
    assert told["client"]["showErrorDetails"] == "none"
    assert told["client"]["showErrorLinks"] is False
    assert told["client"]["toolbarMode"] == "minimal"
    assert told["server"]["maxUploadSize"] == 50
    assert told["server"]["enableStaticServing"] is False
    assert told["browser"]["gatherUsageStats"] is False
