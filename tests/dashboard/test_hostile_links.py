"""Links of any content: what is illegal is left out, the rest read as written, nothing started."""

import functools
import itertools
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import parse_qs, quote, quote_plus, urlencode

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dashboard import results
from dashboard.controls import link as links
from dashboard.controls import pin
from dashboard.pages.claims.page import Options as ClaimsOptions
from dashboard.server import jobs
from dashboard.settings import Setting, record
from dashboard.settings.chosen_model import MAX_SHOWN_DIM
from dashboard.settings.setting import MAX_SHOWN_ELEMENTS, MAX_SHOWN_LENGTH
from posenc import best_device, fields
from posenc.checkpoints.file_store import ENVIRONMENT
from posenc.schemes import SCHEMES
from posenc.schemes.sizes import own_rules
from tests.dashboard.pages import OPTIONS as OPTION_CLASSES
from tests.dashboard.pages import PAGES, as_read, copied_link, drawn, notices, setting, visit
from tests.dashboard.test_setting import HOSTILE, within
from tests.longer import mostly

pytestmark = pytest.mark.usefixtures("no_shape_checks", "fixed_speed")

OF_PAGES = {name: rule for owner in OPTION_CLASSES for name, rule in fields.rules(owner).items()}
LINKED = {name for owner in OPTION_CLASSES for name in links.linked_rules(owner)}
RULES = fields.rules(Setting) | own_rules() | OF_PAGES


OPTIONS = {str(option) for rule in RULES.values() for option in getattr(rule, "options", ()) or ()}
ENDS = {str(getattr(rule, end, 0)) for rule in RULES.values() for end in ("low", "high")}
legal = st.sampled_from(sorted(OPTIONS | ENDS))
numbers = st.one_of(
    st.integers().map(str), st.integers(-5, 5_000).map(str), st.floats().map(repr),
    st.integers(0, 5_000).map(lambda digits: "9" * digits),
)  # fmt: skip
values = st.one_of(
    legal, numbers, st.text(max_size=60), st.sampled_from(HOSTILE),
    st.lists(st.sampled_from([*SCHEMES, "t5", "", "Learned"]), max_size=9).map(",".join),
    st.binary(max_size=12).map(lambda raw: raw.decode("latin-1")),
    st.lists(legal, max_size=6).map(pin.SEPARATOR.join),
)  # fmt: skip
names = st.one_of(
    st.sampled_from([*RULES]),
    st.sampled_from([*RULES, pin.KEY, "present", "__proto__", "a[]", "dim ", "DIM", "dim.x"]),
    st.text(max_size=12),
)


QUOTED: list[Callable[[str], str]] = [partial(quote, safe=""), quote_plus, str]
BROKEN = ["", "&", "=", "%", "%ff%fe", "dim", "a=b=c", "%00"]


@st.composite
def queries(draw: st.DrawFn) -> str:
    """A query string: pairs quoted in several ways or not at all, and broken parts."""
    parts = []
    for pair in draw(st.lists(st.tuples(names, values), max_size=14)):
        quoted = draw(st.sampled_from(QUOTED))
        parts.append("=".join(quoted(text.encode("utf-8", "replace").decode()) for text in pair))
        if draw(st.integers(0, 9)) == 0:
            parts.append(draw(st.sampled_from(BROKEN)))
    return "&".join(parts)


def read_all(query: dict[str, list[str]]) -> tuple[links.ParsedLink, dict[str, Any], list[str]]:
    """Read a query as `links` does: shared controls, options of all pages, and the names left out."""
    found = links.parse(query)
    parsed = [links.parse_options(query, owner) for owner in OPTION_CLASSES]
    options = {name: value for values, _ in parsed for name, value in values.items()}
    return found, options, [*found.ignored, *(name for _, lost in parsed for name in lost)]


def assert_survives(query: str) -> None:
    """Assert that a query is read as a legal state, whose own link is read whole and as it is."""
    found, options, left_out = read_all(parse_qs(query, keep_blank_values=True))
    within(found.setting)
    assert options.keys() == OF_PAGES.keys()
    for name, value in options.items():
        assert OF_PAGES[name].accepts(value), name
    assert found.setting.length <= MAX_SHOWN_LENGTH
    assert found.setting.dim <= MAX_SHOWN_DIM
    assert found.setting.length * found.setting.dim <= MAX_SHOWN_ELEMENTS
    assert len(found.pinned) <= pin.MOST_CHARACTERS
    if found.pinned:
        setting, changed = pin.read(found.pinned)
        assert setting is not None
        assert changed == []
        within(setting)
    assert sum(len(notice) for notice in links.ignored(left_out)) < 500
    values = record(found.setting) | options
    texts = {name: fields.written(value) for name, value in values.items()}
    again = parse_qs(urlencode(texts | {pin.KEY: found.pinned}), keep_blank_values=True)
    assert read_all(again) == (links.ParsedLink(found.setting, found.pinned, ()), options, [])


HOSTILE_QUERIES = (
    "dim=64&dim=128",
    "dim=1000000000000&base=nan&length=-5&heads=0x10&seed=1_000",
    "schemes=&schemes=Learned&schemes=Learned",
    "&".join(f"key{n}=1" for n in range(1_200)),
    "x=" + "9" * 600_000,
    "dim=" + "9" * 600_000,
    "a=" + "dim~64~" * 100_000,
    "a=dim~64~dim~128~schemes~rope",
    "model=config-" + "A" * 4_083,
    "%ff%fe=%ff&dim=%00&base=%&length=%zz",
    "dim=%D9%A3%D9%A2&heads=%F0%9D%9F%96",
)


@pytest.mark.parametrize("query", HOSTILE_QUERIES, ids=lambda query: query[:32])
def test_of_a_hostile_query_what_is_legal_is_read(query: str) -> None:
    assert_survives(query)


@settings(max_examples=80)
@given(queries())
@example("")
def test_what_is_legal_of_any_query_is_read_back_as_it_was(query: str) -> None:
    assert_survives(query)


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
    link = dict.fromkeys([*RULES, "upload", "start_training", "dense", "hub_fetch"], str(secret))
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


# What a visitor sees ------------------------------------------------------------------------------

SMALL = {"dim": "32", "heads": "4", "length": "24", "train_length": "16"}

# Ranges and defaults of shared numbers: links that people have stored rely on them.
RANGES: dict[str, tuple[float, float, float]] = {
    "dim": (2, 4096, 512),
    "base": (2, 1e12, 10000),
    "length": (2, 2048, 256),
    "train_length": (1, 1_048_576, 128),
    "heads": (1, 64, 8),
    "alibi_head": (0, 64, 0),
    "seed": (0, 2**31 - 1, 0),
}


def read_one(name: str, text: str) -> tuple[Any, tuple[str, ...]]:
    """What a link that names one number gives it, and the names left out."""
    found = links.parse({name: [text]})
    return record(found.setting)[name], found.ignored


@pytest.mark.parametrize("name", RANGES)
def test_number_in_a_link_counts_as_it_is_or_is_left_out(name: str) -> None:
    low, high, default = RANGES[name]
    assert read_one(name, f"{default:.0f}") == (default, ())
    for text in ("nan", "\u0663", "-5", "9999999999999", f"{high * 2:.0f}", ""):
        assert read_one(name, text) == (default, (name,)), text
    fraction = read_one(name, "3.5")
    assert fraction == ((3.5, ()) if name == "base" else (default, (name,)))
    # At its ends, where they go with the default of everything else.
    apart = {("dim", low), ("dim", high), ("heads", high), ("alibi_head", high)}
    for end in (low, high):
        if (name, end) not in apart:
            assert read_one(name, f"{end:.0f}") == (end, ())


@pytest.mark.parametrize(
    ("query", "left_out", "numbers"),
    [
        ({"dim": "40", "heads": "4"}, (), (40, 4, 256)),  # 40 goes with 4 heads, not with 8
        ({"dim": "40"}, ("dim",), (512, 8, 256)),
        ({"heads": "12"}, ("heads",), (512, 8, 256)),
        ({"dim": "4096", "length": "2048", "base": "500"}, ("dim",), (512, 8, 2048)),
        ({"dim": "40", "heads": "3", "length": "9", "seed": "-1"}, ("seed", "dim", "heads"), (512, 8, 9)),
    ],
)  # fmt: skip
def test_number_that_does_not_go_with_the_others_is_left_out(
    query: dict[str, str], left_out: tuple[str, ...], numbers: tuple[int, int, int]
) -> None:
    found = links.parse({name: [text] for name, text in query.items()})
    setting = found.setting
    assert (found.ignored, (setting.dim, setting.heads, setting.length)) == (left_out, numbers)


@pytest.mark.parametrize("text", ["nan", "", "9" * 5_000, "</script>", "../x", "C:\\x"])
def test_nonsense_gives_every_control_its_default_and_is_named(text: str) -> None:
    every = [*fields.rules(Setting), *LINKED]
    found, options, left_out = read_all({name: [text] for name in every})
    assert found.setting == Setting()
    defaults = [fields.defaults(owner).items() for owner in OPTION_CLASSES]
    assert options == dict(itertools.chain(*defaults))
    # An empty text says that no model, and no comparison of runs, is chosen.
    assert {*left_out} == {*every} - ({"model", "comparison"} if text == "" else set())


def test_illegal_option_is_named_and_the_page_has_its_default() -> None:
    at = drawn(
        visit("similarity", SMALL | {"reference": "3", "key_position": "x", "verdict": "maybe"})
    )
    assert notices(at) == ["Ignored in this link: 'key_position' and 'verdict'."]
    assert [at.session_state[name] for name in ("reference", "key_position")] == [3, 0]


def test_option_of_another_page_has_a_meaning_in_a_link() -> None:
    defaults: dict[str, Any] = {}
    for owner in OPTION_CLASSES:
        defaults |= fields.defaults(owner)
    options = {name: fields.written(defaults[name]) for name in LINKED}
    assert not any("Ignored" in notice for notice in notices(visit("learn", options)))
    (told,) = notices(drawn(visit("similarity", SMALL | {"foo": "1"})))
    assert told == "Ignored in this link: 'foo'."


def test_page_names_once_what_it_leaves_out_of_a_link() -> None:
    missing = "mps" if best_device().type == "cuda" else "cuda"
    link: dict[Any, Any] = {f"key{n}": "1" for n in range(900)} | {"a b": "%zz", "<b>": "</b>"}
    link |= {"__proto__": "x", "link_read": "1", "setting": "1", "x": "9" * 1_000}
    wrong = {"dim": ["64", "-7"], "schemes": "Shawl", "base": "x", "device": missing}
    at = drawn(visit("similarity", SMALL | link | wrong))
    assert setting(at).replace(device="auto") == Setting(heads=4, length=24, train_length=16)
    told = [notice for notice in notices(at) if "device" not in notice]
    assert told == [
        "Ignored in this link: '?b?', '__proto__', 'a b', 'base', 'dim', 'key0', 'key1', 'key10' and "
        "901 more."
    ]
    (still,) = notices(drawn(at.run()))
    assert f"no working {missing} device" in still


def test_switching_every_scheme_off_falls_back_with_a_notice() -> None:
    at = drawn(visit("similarity", SMALL))
    at.multiselect(key="schemes_control").set_value([]).run()
    assert setting(drawn(at)).schemes == ("learned", "sinusoidal", "rope", "alibi")
    assert len(notices(at)) == 1


def test_slider_and_exact_value_set_each_other() -> None:
    small = SMALL | {"dim": "500", "heads": "2"}
    at = drawn(visit("similarity", small, exact_values=True, more=True))
    assert at.sidebar.select_slider[1].value == 500  # between two stops: a stop of its own
    at.number_input(key="base_exact").set_value(12345.0).run()
    assert setting(drawn(at)).base == 12345
    assert at.select_slider(key="base_control").value == 12345
    at.select_slider(key="base_control").set_value(12500.0).run()
    assert setting(drawn(at)).base == at.number_input(key="base_exact").value == 12500
    at.slider(key="heads_control").set_value(7).run()  # 500 is no multiple of 14
    assert setting(drawn(at)).dim % 14 == 0
    assert any("twice the heads (14)" in as_read(notice) for notice in notices(at))


def test_no_link_starts_a_dense_fit_and_asking_does(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = mock.Mock(side_effect=results.dense_fit)
    monkeypatch.setattr(results, "dense_fit", asked)
    at = drawn(visit("relative_offsets", SMALL | {"length": "64", "dense": "true"}))
    assert asked.call_count == 0
    at.toggle(key="dense").set_value(True).run()
    drawn(at)
    assert asked.call_count == 4
    assert "dense" not in copied_link(at)


def test_label_of_a_choice_opens_without_a_notice() -> None:
    assert links.parse_options({"verdict": ["partly true"]}, ClaimsOptions) == (
        {"verdict": "partly", "theme": "all"}, [],
    )  # fmt: skip
