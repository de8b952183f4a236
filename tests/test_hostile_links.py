"""Five thousand made-up addresses: no exception, everything within its caps, and read back as written."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, quote_plus, urlencode

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dashboard import links, pinned
from dashboard.choices import PAGE_CHOICES
from dashboard.workers import server_workers
from posenc import Setting, fields, limits, own_fields
from posenc.run_files import ENVIRONMENT
from posenc.schemes import SCHEMES
from tests.longer import mostly
from tests.pages import PAGES, drawn, notices, visit
from tests.test_setting import HOSTILE, within

pytestmark = pytest.mark.usefixtures("no_shape_checks")

OF_PAGES = {name: rule for owner in PAGE_CHOICES for name, rule in fields.rules(owner).items()}
RULES = fields.rules(Setting) | own_fields.rules() | OF_PAGES
SECONDS = 2.0


def words_of(rule: fields.Rule) -> list[str]:
    """Some texts that mean something to a rule."""
    options = [str(one) for one in getattr(rule, "options", ()) or ()]
    ends = [str(getattr(rule, end)) for end in ("low", "high") if hasattr(rule, end)]
    return [*options, *ends]


legal = st.sampled_from(sorted({word for rule in RULES.values() for word in words_of(rule)}))
numbers = st.one_of(
    st.integers().map(str), st.integers(-5, 5_000).map(str), st.floats().map(repr),
    st.integers(0, 5_000).map(lambda digits: "9" * digits),
)  # fmt: skip
values = st.one_of(
    legal, numbers, st.text(max_size=60), st.sampled_from(HOSTILE),
    st.lists(st.sampled_from([*SCHEMES, "t5", "", "Learned"]), max_size=9).map(",".join),
    st.binary(max_size=12).map(lambda raw: raw.decode("latin-1")),
    st.lists(legal, max_size=6).map(pinned.SEPARATOR.join),
)  # fmt: skip
names = st.one_of(
    st.sampled_from([*RULES]),
    st.sampled_from([*RULES, pinned.KEY, "present", "__proto__", "a[]", "dim ", "DIM", "dim.x"]),
    st.text(max_size=12),
)


@st.composite
def queries(draw: st.DrawFn) -> str:
    """An address' query: pairs written rightly, twice, half or not at all."""
    pairs = draw(st.lists(st.tuples(names, values), max_size=14))
    parts = []
    for name, value in pairs:
        written = draw(st.sampled_from([quote, quote_plus, lambda text, **_: text]))
        name, value = (one.encode("utf-8", "replace").decode() for one in (name, value))
        parts.append(f"{written(name, safe='')}={written(value, safe='')}")
        if draw(st.integers(0, 9)) == 0:
            parts.append(
                draw(st.sampled_from(["", "&", "=", "%", "%ff%fe", "dim", "a=b=c", "%00"]))
            )
    return "&".join(parts)


def read(query: str) -> links.Meant:
    """As Streamlit reads an address and `links` what it says."""
    return links.meant(parse_qs(query, keep_blank_values=True))


def assert_legal(found: links.Meant) -> None:
    within(found.setting)
    assert found.choices.keys() == OF_PAGES.keys()
    for name, value in found.choices.items():
        assert OF_PAGES[name].accepts(value), name
    assert found.setting.length <= limits.MAX_SHOWN_LENGTH
    assert found.setting.dim <= limits.MAX_SHOWN_DIM
    assert found.setting.length * found.setting.dim <= limits.MAX_SHOWN_ELEMENTS
    assert len(found.pinned) <= pinned.MOST_CHARACTERS
    if found.pinned:
        setting, changed = pinned.read(found.pinned)
        assert setting is not None
        assert changed == []
        within(setting)
    for notice in found.notices:
        assert notice.endswith(".")
        assert len(notice) < 500


def assert_survives(query: str) -> None:
    found = read(query)
    assert_legal(found)
    again = read(urlencode(links.address(found), doseq=True))
    assert (again.setting, again.choices, again.pinned) == (
        found.setting, found.choices, found.pinned,
    )  # fmt: skip
    assert again.notices == ()


KINDS_OF_ADDRESS = (
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


@pytest.mark.parametrize("query", KINDS_OF_ADDRESS, ids=lambda query: query[:32])
def test_an_address_of_a_known_kind_of_nonsense_is_made_legal(query: str) -> None:
    begin = time.thread_time()
    assert_survives(query)
    assert time.thread_time() - begin < SECONDS


@settings(max_examples=150)
@given(queries())
@example("")
def test_any_address_is_made_legal_and_read_back_as_it_is_written(query: str) -> None:
    assert_survives(query)


@pytest.mark.long
@pytest.mark.timeout(1_800)
@settings(max_examples=5_000)
@given(queries())
def test_five_thousand_addresses_are_made_legal_and_read_back(query: str) -> None:
    assert_survives(query)


@pytest.mark.long
@pytest.mark.timeout(1_800)
@settings(max_examples=200)
@given(queries(), st.sampled_from(PAGES))
def test_two_hundred_addresses_draw_a_page_without_a_fault(query: str, page: str) -> None:
    asked: dict[str, Any] = dict(parse_qs(query, keep_blank_values=True))
    at = drawn(visit(page, asked))
    assert all(len(notice) < 500 for notice in notices(at))


# What opening a link does not do --------------------------------------------------------------------


class Watch:
    """What this process opens, by Python's audit events; an audit hook cannot be taken out again."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, Any]] = []
        self.active = False
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.active and event in ("open", "os.listdir", "os.scandir", "subprocess.Popen", "os.rename",
                                     "os.remove", "os.mkdir", "socket.connect"):  # fmt: skip
            self.seen.append(
                (event, str(arguments[0]), arguments[1] if len(arguments) > 1 else None)
            )

    @contextmanager
    def ing(self) -> Iterator[list[tuple[str, str, Any]]]:
        self.seen, self.active = [], True
        try:
            yield self.seen
        finally:
            self.active = False


@pytest.fixture(scope="module")
def watch() -> Watch:
    return Watch()


@pytest.mark.parametrize("page", mostly(PAGES, "train"))
def test_opening_a_link_starts_nothing_reads_no_file_it_names_and_writes_nothing(
    page: str, watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever path stands in it: in a setting, a choice, a model, a pinned setting."""
    secret = tmp_path / "secret-of-the-server.safetensors"
    secret.write_bytes(b"x")
    store = tmp_path / "runs"
    monkeypatch.setenv(ENVIRONMENT, str(store))
    drawn(visit(page))  # what a page loads once
    said = dict.fromkeys([*RULES, "upload", "start_training", "dense", "hub_fetch"], str(secret))
    said |= {"steps": "5000", "seeds": "5", "a": f"learned_source~{secret}~dim~64"}
    with watch.ing() as seen:
        at = drawn(visit(page, said))
    assert notices(at)
    assert not [one for one in seen if secret.name in one[1]]
    assert not [one for one in seen if one[0] in ("subprocess.Popen", "os.rename", "os.remove")]
    writes = [
        one
        for one in seen
        if one[0] == "open" and isinstance(one[2], str) and set(one[2]) & set("wax+")
    ]
    assert writes == []
    assert not store.exists()
    assert server_workers().queue.entries() == []
    assert os.listdir(tmp_path) == [secret.name]


def test_paths_are_no_names_of_tables() -> None:
    """Every box that takes a name takes names of an allowed form alone: no path has one."""
    for text in (
        "../x",
        "%2e%2e%2fx",
        "%252e",
        "a\0b",
        "~",
        "//host/share",
        "C:\\x",
        "x::$DATA",
        "/" * 4_096,
    ):
        found = links.meant({"learned_source": [text], "table": [text], "model": [text]})
        assert found.setting.learned_source == "trained"
        assert found.choices["table"] == "sinusoidal"
        assert found.setting.model == ""
