"""A press of a control: how much of the program runs for it, and that closed menus cost nothing."""

import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import pytest

import dashboard
import posenc
from dashboard import cache, tables, tools
from dashboard.pages.similarity import page as similarity
from dashboard.server import training_process
from tests.dashboard.pages import drawn, visit

pytestmark = pytest.mark.usefixtures("no_shape_checks")

DASHBOARD, LIBRARY = (str(Path(str(one.__file__)).parent) + "/" for one in (dashboard, posenc))
# A reader follows a press through 147 functions in 35 files, which call the library 2,232 times.
MOST_FUNCTIONS, MOST_FILES, MOST_LIBRARY_CALLS = 147, 35, 2_400


def test_press_of_base_runs_through_few_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    # A run looks for waiting jobs every few seconds: on a slow machine this press would be one of them.
    monkeypatch.setattr(training_process, "RESUME_EVERY", float("inf"))
    cache.clear()
    at = drawn(visit("similarity"))
    calls: Counter[tuple[str, str]] = Counter()

    def count(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            calls[frame.f_code.co_filename, frame.f_code.co_qualname] += 1

    slider = at.select_slider(key="base").set_value(500.0)
    threading.setprofile(count)
    try:
        slider.run()
    finally:
        threading.setprofile(None)
    entered = {
        (file, name)
        for file, name in calls
        if file.startswith(DASHBOARD) and not name.rpartition(".")[2].startswith("<")
    }
    assert "page" in {name for _, name in entered}
    assert len(entered) <= MOST_FUNCTIONS, sorted(entered)
    assert len({file for file, _ in entered}) <= MOST_FILES, sorted(entered)
    of_library = {name: n for name, n in calls.items() if name[0].startswith(LIBRARY)}
    assert sum(of_library.values()) <= MOST_LIBRARY_CALLS, of_library


def test_closed_menus_compute_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    script = mock.Mock(wraps=similarity.whole_script)
    link = mock.Mock(wraps=tools.link_of)
    facts = mock.Mock(wraps=tables.facts)
    monkeypatch.setattr(similarity, "whole_script", script)
    monkeypatch.setattr(tools, "link_of", link)
    monkeypatch.setattr(tables, "facts", facts)
    cache.clear()
    drawn(visit("similarity"))
    assert [call.call_count for call in (script, link, facts)] == [0, 0, 0]
    drawn(visit("similarity", menu_python=True, menu_export=True, learned_source_menu=True))
    assert [call.call_count for call in (script, link, facts)] == [1, 1, 1]
