"""Links of any content on pages: what is illegal is left out, the rest read as written, nothing started."""

import functools
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import parse_qs, quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard import results
from dashboard.server import jobs
from dashboard.settings import Setting
from dashboard.state import RULES
from posenc import best_device, fields
from posenc.checkpoints.file_store import ENVIRONMENT
from tests.dashboard.pages import OPTIONS, PAGES, drawn, link_of, notices, setting, visit
from tests.dashboard.test_state import names_of_links, texts
from tests.longer import mostly

pytestmark = pytest.mark.usefixtures("no_shape_checks", "fixed_speed")

SMALL = {"dim": "32", "heads": "4", "length": "24", "train_length": "16"}
QUOTED: list[Callable[[str], str]] = [partial(quote, safe=""), quote_plus, str]
BROKEN = ["", "&", "=", "%", "%ff%fe", "dim", "a=b=c", "%00"]
OPTION_NAMES = sorted({name for kind in OPTIONS.values() for name in fields.rules(kind)})


@st.composite
def queries(draw: st.DrawFn) -> str:
    """A query string: pairs quoted in several ways or not at all, and broken parts."""
    parts = []
    names = names_of_links | st.sampled_from(OPTION_NAMES)
    for pair in draw(st.lists(st.tuples(names, texts), max_size=14)):
        quoted = draw(st.sampled_from(QUOTED))
        parts.append("=".join(quoted(text.encode("utf-8", "replace").decode()) for text in pair))
        if draw(st.integers(0, 9)) == 0:
            parts.append(draw(st.sampled_from(BROKEN)))
    return "&".join(parts)


@pytest.mark.long
@pytest.mark.timeout(1_800)
@settings(max_examples=200)
@given(queries(), st.sampled_from(PAGES))
def test_two_hundred_queries_draw_a_page(query: str, page: str) -> None:
    at = visit(page, parse_qs(query, keep_blank_values=True))
    assert not at.exception
    assert [box.value for box in at.error] == []
    assert len(at.title) == 1
    assert all(len(notice) < 500 for notice in notices(at))


EVENTS = {
    "open", "os.listdir", "os.scandir", "subprocess.Popen", "os.rename", "os.remove", "os.mkdir",
    "os.link", "os.symlink", "os.truncate", "os.fork", "os.posix_spawn", "os.system", "os.exec",
    "socket.connect", "socket.getaddrinfo",
}  # fmt: skip
# The flags, not the mode: os.open, as of a lock, a touched or a temporary file, has no mode.
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
events: list[tuple[str, str, bool]] = []
watching = threading.Event()


@functools.cache
def watch() -> None:
    """Note what this process opens or starts from now on: an audit hook stays until it ends."""

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        if watching.is_set() and event in EVENTS:
            writes = event == "open" and bool(arguments[2] & WRITING)
            events.append((event, str(arguments[0]), writes))

    sys.addaudithook(note)


@pytest.mark.parametrize("page", mostly(PAGES, "train"))
def test_opening_a_link_starts_nothing_reads_no_file_it_names_and_writes_nothing(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a path in every setting, choice, model and pinned setting."""
    secret = tmp_path / "secret-of-the-server.safetensors"
    secret.write_bytes(b"x")
    store = tmp_path / "runs"
    monkeypatch.setenv(ENVIRONMENT, str(store))
    drawn(visit(page))  # what a page loads once
    link = dict.fromkeys(
        [*RULES, *OPTION_NAMES, "upload", "start_training", "dense", "hub_fetch"], str(secret)
    )
    link |= {"steps": "5000", "seeds": "5", "a": f"learned_source~{secret}~dim~64"}
    watch()
    events.clear()
    watching.set()
    assert secret.read_bytes() == b"x"
    assert events.pop()[:2] == ("open", str(secret))  # the watch notes what is opened
    at = drawn(visit(page, link))
    watching.clear()
    assert notices(at)
    for event, target, writes in events:
        assert secret.name not in target
        assert event in ("open", "os.listdir", "os.scandir"), f"{event} {target}"
        assert not writes, target
    assert not store.exists()
    assert jobs.jobs(jobs.folder()) == []
    assert os.listdir(tmp_path) == [secret.name]


def test_page_names_once_what_it_leaves_out_of_a_link() -> None:
    missing = "mps" if best_device().type == "cuda" else "cuda"
    link: dict[Any, Any] = {f"key{n}": "1" for n in range(900)} | {"a b": "%zz", "<b>": "</b>"}
    link |= {"__proto__": "x", "_state": "1", "setting": "1", "x": "9" * 1_000}
    wrong = {"dim": ["64", "-7"], "schemes": "Shawl", "base": "x", "device": missing}
    at = drawn(visit("similarity", SMALL | link | wrong))
    assert setting(at).replace(device="auto") == Setting(heads=4, length=24, train_length=16)
    told = [notice for notice in notices(at) if "device" not in notice]
    assert told == [
        "Ignored in this link: '?b?', '__proto__', '_state', 'a b', 'base', 'dim', 'key0', 'key1' and "
        "901 more."
    ]
    (still,) = notices(drawn(at.run()))
    assert f"no working {missing} device" in still


def test_no_link_starts_a_dense_fit_and_asking_does(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = mock.Mock(side_effect=results.dense_fit)
    monkeypatch.setattr(results, "dense_fit", asked)
    at = drawn(visit("relative_offsets", SMALL | {"length": "64", "dense": "true"}))
    assert asked.call_count == 0
    at.toggle(key="dense").set_value(True).run()
    drawn(at)
    assert asked.call_count == 4
    assert "dense" not in link_of(at)
