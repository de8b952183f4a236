"""Pictures of a page at the stops of a slider are those of the page at these stops, bit for bit."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from starlette.applications import Starlette
from starlette.datastructures import QueryParams
from starlette.testclient import TestClient

from dashboard import previews, state
from dashboard.all_pages import kind_of, page_at
from dashboard.blocks import Chart, Clocks, Matrices, Page
from dashboard.components.matrix import Curve, MatrixValues, Waves
from dashboard.server import settings
from dashboard.settings import Setting
from dashboard.state import State

WITH_PICTURES = ("similarity", "encoding", "relative_offsets", "start", "pca")
SMALL = Setting(dim=64, heads=4, length=40, train_length=24)


@pytest.fixture(scope="module")
def browser() -> Iterator[TestClient]:
    with TestClient(Starlette(routes=[previews.route()])) as client:
        yield client


@pytest.fixture(autouse=True)
def _no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer holds every stop that is asked for, however long that takes."""
    monkeypatch.setattr(previews, "SECONDS", 1e9)


def decoded(answer: bytes) -> tuple[dict[str, Any], list[npt.NDArray[np.float32]]]:
    """Return the pictures by stop, and the values of all matrices."""
    length = int.from_bytes(answer[:4], "little")
    header = json.loads(answer[4 : 4 + length])
    words = np.frombuffer(answer[4 + length :], "<f4")
    assert len(words) == sum(header["counts"])
    return header["stops"], np.split(words, np.cumsum(header["counts"])[:-1])


def travelled(values: MatrixValues) -> npt.NDArray[np.float32]:
    """Return the numbers of a matrix in the order in which they travel, without blanks at the end."""
    if isinstance(values, Waves):
        return np.concatenate([values.angles, values.sines.astype(float)]).view("<f4")
    flat = values.values.ravel()
    filled = np.flatnonzero(~np.isnan(flat))
    return flat[: filled[-1] + 1] if len(filled) else flat[:0]


def ask(browser: TestClient, now: State, folder: str, name: str, *stops: str) -> Any:
    """Ask as the browser does, with what a page tells it."""
    blocks = page_at(now, folder).all_blocks
    told = previews.following(now, folder, blocks)
    assert told is not None
    dial = told["dials"][name]
    place = "/".join(quote(part, safe="") for part in (name, dial["drawn"], ";".join(stops)))
    return browser.get(f"{told['path']}/{place}?{dial['query']}")


def lines_of(page: Page, key: str) -> pd.DataFrame | None:
    """Return the frame of a chart of a page, None where there is none of this name."""
    frames = [b.frame for b in page.all_blocks if isinstance(b, Chart) and b.key == key]
    return frames[0] if frames else None


def check_lines(sent: Any, chart: Chart, before: pd.DataFrame | None) -> None:
    """Assert that what is sent of a chart lies on its lines, or is nothing where they are as before."""
    if before is not None and chart.frame.equals(before):
        assert sent is None
        return
    frame = pd.DataFrame(sent["columns"])
    names = [name for name in ("scheme", "name", "setting") if name in frame]
    counts = (
        frame.groupby(names, sort=False)[chart.x].nunique() if names else frame[chart.x].nunique()
    )
    assert np.max(counts) <= previews.POINTS
    whole = chart.drawn.astype(dict.fromkeys(names, str)) if names else chart.drawn
    joined = frame.merge(whole, how="left", on=[*names, chart.x], suffixes=("", "_drawn"))
    y = "y" if "y" in frame else next(c for c in frame if frame[c].dtype.kind == "f")
    left, right = joined[y].astype(float), joined[f"{y}_drawn"].astype(float)
    np.testing.assert_allclose(left, right, rtol=6e-4)


@pytest.mark.parametrize("folder", WITH_PICTURES)
@pytest.mark.parametrize(("name", "stops"), [("base", ("500", "20")), ("dim", ("128", "16"))])
@pytest.mark.parametrize("pinned", [None, Setting(dim=64, heads=4, length=40, base=300.0)])
def test_pictures_are_those_of_the_page_at_the_stop(
    browser: TestClient, folder: str, name: str, stops: tuple[str, ...], pinned: Setting | None
) -> None:
    """Checked against the page that a link to that stop opens."""
    now = State(SMALL, pinned)
    pictures, values = decoded(ask(browser, now, folder, name, *stops).content)
    assert [*pictures] == [*stops]
    kind = kind_of(folder)
    here = {
        block.key: block for block in page_at(now, folder).all_blocks if isinstance(block, Matrices)
    }
    for stop in stops:
        changed = now.changed(folder, kind, {name: float(stop) if name == "base" else int(stop)})
        linked = state.read_query(state.to_query(changed, folder, kind), folder, kind).state
        page = page_at(linked, folder)
        drawn = {b.key: b for b in page.all_blocks if isinstance(b, Matrices | Clocks)}
        charts = {b.key: b for b in page.all_blocks if isinstance(b, Chart) and b.x in b.frame}
        for key, chart in charts.items():
            check_lines(pictures[stop].pop(key), chart, lines_of(page_at(now, folder), key))
        assert pictures[stop].keys() == drawn.keys()
        for key, block in drawn.items():
            picture = pictures[stop][key]
            if isinstance(block, Clocks):
                assert picture == json.loads(json.dumps(block.sent))
                continue
            assert picture["title"].startswith(page.title)
            for n, (panel, sent) in enumerate(zip(block.panels, picture["panels"], strict=True)):
                before = here[key].panels[n].values if n < len(here[key].panels) else None
                if sent["at"] is None:
                    assert before is not None
                    assert type(before) is type(panel.values)
                    found = travelled(before)
                else:
                    found = values[sent["at"]]
                assert sent["subtitle"] == panel.subtitle
                assert sent["kind"] == type(panel.values).__name__.lower()
                assert (sent["rows"]["count"], sent["columns"]["count"]) == panel.values.shape
                assert found.tobytes() == travelled(panel.values).tobytes()


def test_names_of_a_long_address_are_read_in_one_pass(
    browser: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def looks_at_all_names(params: QueryParams, name: str) -> list[str]:
        raise AssertionError(f"{name} is looked for among all names")

    monkeypatch.setattr(QueryParams, "getlist", looks_at_all_names)
    names = "&".join(f"unknown{n}=" for n in range(2_000))
    answer = browser.get(f"/previews/similarity/dim/64/128?length=40&heads=4&{names}")
    pictures, _ = decoded(answer.content)
    assert [*pictures] == ["128"]
    (panel, *_) = pictures["128"]["similarity"]["panels"]
    assert panel["rows"]["count"] == 40


@pytest.mark.parametrize("asked", ["100", "nan", "../../etc/passwd", ";;", "%00", "9" * 4_000])
def test_no_page_is_made_for_a_request_without_a_stop_of_the_slider(
    browser: TestClient, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    made: list[str] = []
    monkeypatch.setattr(previews, "page_at", lambda now, folder: made.append(folder))
    answer = browser.get(f"/previews/similarity/dim/64/{quote(asked, safe=';')}")
    assert answer.status_code == 404 or decoded(answer.content)[0] == {}
    assert made == []


def test_what_does_not_follow_a_slider_is_not_sent_and_equal_values_are_sent_once(
    browser: TestClient,
) -> None:
    """Learned and ALiBi have no base; two stops at which RoPE is asked for twice hold one curve each."""
    now = State(SMALL)
    pictures, values = decoded(ask(browser, now, "similarity", "base", "500", "500", "20").content)
    titles = {
        stop: {p["title"]: p["at"] for p in row["similarity"]["panels"]}
        for stop, row in pictures.items()
    }
    for places in titles.values():
        assert places["Learned"] is None
        assert places["ALiBi"] is None
        assert places["RoPE"] is not None
        assert places["Sinusoidal"] is not None
    assert len(values) == 4  # of two schemes at two stops


def test_curve_of_rope_follows_its_formula(browser: TestClient) -> None:
    """Similarity of RoPE at a distance is the mean cosine of its pairs (Su et al. 2021, 2104.09864)."""
    now = State(SMALL.replace(schemes=("rope",)))
    pictures, values = decoded(ask(browser, now, "similarity", "base", "500").content)
    (panel,) = pictures["500"]["similarity"]["panels"]
    assert panel["kind"] == Curve.__name__.lower()
    offsets = np.arange(-39, 40)
    angles = offsets[:, None] * 500.0 ** -(np.arange(8) / 8)  # 16 dimensions per head
    np.testing.assert_allclose(values[panel["at"]], np.cos(angles).mean(axis=1), atol=2e-6)


def test_a_stop_that_does_not_exist_is_passed_over(browser: TestClient) -> None:
    """With 4 heads a width of 4 is no stop, nor is a base between two."""
    now = State(SMALL)
    for name, stops in (("dim", ("4", "128")), ("base", ("501", "<b>", "500"))):
        pictures, _ = decoded(ask(browser, now, "similarity", name, *stops).content)
        assert [*pictures] == [stops[-1]]


def test_an_answer_that_takes_long_holds_the_first_stop_alone(
    browser: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(previews, "SECONDS", 0.0)
    pictures, _ = decoded(ask(browser, State(SMALL), "similarity", "base", "20", "500").content)
    assert [*pictures] == ["20"]


def test_heads_that_go_with_the_width_alone_stay(browser: TestClient) -> None:
    """Twelve heads do not go with the default width, which a link without a width means."""
    now = State(SMALL.replace(dim=48, heads=12))
    pictures, _ = decoded(ask(browser, now, "similarity", "dim", "96").content)
    notes = [panel["subtitle"] for panel in pictures["96"]["similarity"]["panels"]]
    assert notes[2:] == ["8 dimensions per head, base 10,000", "mean of 12 heads"]


def test_pictures_of_a_slider_have_one_address_wherever_the_slider_is() -> None:
    """Else the browser would ask for all of them again at each stop."""
    now, kind = State(Setting()), kind_of("similarity")
    queries = []
    for changes in ({}, {"base": 500.0}, {"base": 20.0, "reference": 3}, {"reference": 3}):
        changed = now.changed("similarity", kind, changes)
        blocks = page_at(changed, "similarity").all_blocks
        told = previews.following(changed, "similarity", blocks)
        assert told is not None
        queries.append(told["dials"]["base"]["query"])
    assert queries == ["", "", "reference=3", "reference=3"]


def test_an_exact_value_is_a_stop_of_its_own(browser: TestClient) -> None:
    now = State(SMALL.replace(base=1234.5))
    told = previews.following(now, "similarity", page_at(now, "similarity").all_blocks)
    assert told is not None
    assert told["dials"]["base"]["drawn"] == "1,234.5"
    assert "1,234.5" in told["dials"]["base"]["stops"]
    pictures, _ = decoded(ask(browser, now, "similarity", "base", "1,250").content)
    assert [*pictures] == ["1,250"]


@pytest.mark.parametrize(
    "path",
    ["nothing/base/500/600", "similarity/length/8/16", "similarity/base/500", "..%2Fapp/base/5/6"],
)
def test_unknown_page_or_slider_is_not_found(browser: TestClient, path: str) -> None:
    assert browser.get(f"/previews/{path}").status_code == 404


def test_a_fault_at_a_stop_leaves_it_without_pictures(
    browser: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page says what the fault is, once it is there."""

    def faulty(now: State, folder: str) -> Any:
        if now.setting.base == 20:
            raise ValueError("planted")
        return page_at(now, folder)

    now = State(SMALL)
    told = ask(browser, now, "similarity", "base", "500")
    monkeypatch.setattr(previews, "page_at", faulty)
    answer = ask(browser, now, "similarity", "base", "20", "500")
    pictures, _ = decoded(answer.content)
    assert pictures["20"] == {}
    assert pictures["500"] == decoded(told.content)[0]["500"]


def test_server_answers_for_no_more_positions_than_it_shows(
    browser: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = State(SMALL)
    monkeypatch.setenv("POSENC_POSITIONS", "30")
    assert settings.current().positions == 30
    pictures, _ = decoded(ask(browser, now, "similarity", "base", "500").content)
    counts = {panel["rows"]["count"] for panel in pictures["500"]["similarity"]["panels"]}
    assert counts == {30}


def test_pages_without_pictures_and_options_that_no_link_holds_are_not_followed() -> None:
    now = State(SMALL)
    for folder in ("claims", "train", "check_my_encoding"):
        assert previews.following(now, folder, page_at(now, folder).all_blocks) is None
    rounded = State(SMALL.replace(precision="bfloat16"))
    blocks = page_at(rounded, "similarity").all_blocks
    assert previews.following(rounded, "similarity", blocks) is None
    dense = now.changed("relative_offsets", kind_of("relative_offsets"), {"dense": True})
    blocks = page_at(dense, "relative_offsets").all_blocks
    assert previews.following(dense, "relative_offsets", blocks) is None
    alibi = State(SMALL.replace(schemes=("alibi",)))
    blocks = page_at(alibi, "similarity").all_blocks
    told = previews.following(alibi, "similarity", blocks)
    assert told is None or "base" not in told["dials"]  # ALiBi has none


@pytest.mark.parametrize(
    ("folder", "name", "stops"),
    [("lessons", "first_word", ("2",)), ("relative_offsets", "offset", ("2", "7"))],
)
def test_pictures_follow_the_sliders_of_a_page_too(
    browser: TestClient, folder: str, name: str, stops: tuple[str, ...]
) -> None:
    """Checked against the page with that option."""
    now = State(SMALL)
    pictures, values = decoded(ask(browser, now, folder, name, *stops).content)
    assert [*pictures] == [*stops]
    for stop in stops:
        page = page_at(now.changed(folder, kind_of(folder), {name: int(stop)}), folder)
        rows = [block for block in page.all_blocks if isinstance(block, Matrices)]
        assert rows
        for block in rows:
            sent = pictures[stop][block.key]["panels"]
            for panel, one in zip(block.panels, sent, strict=True):
                if one["at"] is not None:  # else it is as the server drew it
                    assert values[one["at"]].tobytes() == travelled(panel.values).tobytes()
        assert any(one["at"] is not None for one in pictures[stop][rows[0].key]["panels"])


def test_slider_shows_the_last_word_where_its_option_is_past_it() -> None:
    """By default the second word is the twelfth, and the sentence has three."""
    now = State(SMALL)
    told = previews.following(now, "lessons", page_at(now, "lessons").all_blocks)
    assert told is not None
    assert told["dials"]["second_word"]["drawn"] == "3"


def test_what_is_too_large_is_left_to_the_page(
    browser: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A curve of 40 positions has 79 numbers of 4 bytes; sinusoidal and RoPE follow base."""
    now, stop = State(SMALL), 2 * 79 * 4
    for most, stops in ((2 * stop, ["20", "500"]), (stop, ["20"])):
        monkeypatch.setattr(previews, "MOST_BYTES", most)
        pictures, values = decoded(
            ask(browser, now, "similarity", "base", "20", "500", "1,000").content
        )
        assert [*pictures] == stops
        assert sum(map(len, values)) * 4 == most
    monkeypatch.setattr(previews, "MOST_BYTES", stop - 1)
    pictures, _ = decoded(ask(browser, now, "similarity", "base", "20", "500").content)
    assert pictures == {"20": {}}


def test_pictures_are_asked_for_below_the_path_of_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Streamlit does not put the path before routes that are not its own."""
    options = {"server.baseUrlPath": "team/posenc"}
    monkeypatch.setattr(previews.st, "get_option", options.__getitem__)
    now = State(SMALL)
    with TestClient(Starlette(routes=[previews.route()])) as client:
        answer = ask(client, now, "similarity", "base", "500")
    assert answer.url.path.startswith("/team/posenc/previews/similarity/")
    assert [*decoded(answer.content)[0]] == ["500"]
