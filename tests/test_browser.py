"""The dashboard in a real browser: what is drawn, turned by keyboard, shared by link and uploaded."""

import re
from typing import Any
from urllib.parse import parse_qs, urlparse

import numpy as np
import pytest
import torch
from playwright.sync_api import Page, expect
from safetensors.numpy import save

from dashboard.text import JOINER
from tests.browser import (
    PAGES,
    PROBES,
    SCREENS,
    Visit,
    dial,
    go,
    headline,
    row,
    settled,
)
from tests.hostile_files import zipped_pickle

pytestmark = pytest.mark.browser

# Charts and matrices of every page, with the four schemes that are shown by default.
DRAWN = {
    "": (1, 0),
    "why_position": (1, 10),
    "encoding": (5, 10),
    "overview": (4, 4),
    "similarity": (2, 4),
    "pca": (5, 0),
    "relative_offsets": (1, 3),
    "extrapolation": (3, 0),
    "train": (0, 0),
}


# How many marks each chart has: lines and areas of an SVG, or differing pixels of a canvas.
INK = """() => [...document.querySelectorAll(".stVegaLiteChart")].map((chart) => {
  const marks = [...chart.querySelectorAll("svg .mark-line path, svg .mark-symbol path")];
  const canvas = chart.querySelector("canvas");
  if (!canvas) return marks.filter((path) => path.getAttribute("d")?.length > 8).length;
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  return new Set(new Uint32Array(pixels.buffer)).size - 1;
})"""
SHADES = """canvases => canvases.map((canvas) => {
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  return new Set(new Uint32Array(pixels.buffer)).size;
})"""


# One word for all pixels of a canvas (FNV-1a): a million numbers are slow to fetch.
DIGEST = """canvases => canvases.map((canvas) => {
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  let digest = 0x811c9dc5;
  for (const pixel of new Uint32Array(pixels.buffer)) digest = Math.imul(digest ^ pixel, 0x01000193);
  return digest;
})"""


def pixels(page: Page, key: str) -> list[int]:
    """What the canvases of a row of matrices show, as one number each."""
    found: list[int] = row(page, key).locator("canvas[role=img]").evaluate_all(DIGEST)
    return found


def opacity(page: Page, key: str) -> np.ndarray:
    """Which cells of the first matrix of a row have a colour: (rows, columns) from 0 to 255."""
    height, width, alpha = (
        row(page, key)
        .locator("canvas[role=img]")
        .first.evaluate(
            """canvas => [canvas.height, canvas.width, Array.from(canvas.getContext("2d")
               .getImageData(0, 0, canvas.width, canvas.height).data).filter((_, n) => n % 4 == 3)]"""
        )
    )
    return np.array(alpha).reshape(height, width)


def lines(page: Page) -> list[str]:
    """The paths of all lines drawn in charts."""
    found: list[str] = page.locator(".stVegaLiteChart svg .mark-line path").evaluate_all(
        "paths => paths.map(path => path.getAttribute('d'))"
    )
    return found


def asked(page: Page) -> dict[str, Any]:
    """What the address asks for; numbers as numbers, 20000.0 being 20000."""
    found = parse_qs(urlparse(page.url).query)
    return {
        name: float(texts[0]) if re.fullmatch(r"[\d.]+", texts[0]) else texts[0]
        for name, texts in found.items()
    }


def alerts(page: Page) -> list[str]:
    return page.get_by_test_id("stAlertContainer").all_inner_texts()


def unfold(page: Page, name: str) -> None:
    """Open a drawer of the sidebar."""
    page.get_by_test_id("stSidebar").get_by_test_id("stExpander").filter(has_text=name).locator(
        "summary"
    ).click()


def choose(page: Page, name: str, option: str) -> None:
    """Choose from a drop-down list, opened by its arrow key."""
    found = page.get_by_role("option", name=option)
    for _ in range(5):
        page.get_by_role("combobox", name=name).press("ArrowDown")
        page.wait_for_timeout(500)  # the list scrolls its own frame, which may close it again
        if found.is_visible():
            break
    found.click()


def press(page: Page, name: str, key: str, times: int = 1) -> None:
    """Turn a slider by arrow keys."""
    dial(page, name).focus()
    for _ in range(times):
        page.keyboard.press(key)


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_every_page_draws_without_a_fault_and_asks_no_other_host(
    visitor: Visit, colours: str
) -> None:
    somebody = visitor(color_scheme=colours)
    page = somebody.open()
    background = page.evaluate("getComputedStyle(document.querySelector('.stApp')).backgroundColor")
    brightness = sum(int(part) for part in re.findall(r"\d+", background)[:3])
    assert (brightness > 3 * 128) == (colours == "light")
    for path, (charts, matrices) in DRAWN.items():
        if path:
            go(page, path)
        ink = page.evaluate(INK)
        assert len(ink) == charts, path
        assert all(marks >= 1 for marks in ink), path
        shades = page.locator(".matrix-row canvas[role=img]").evaluate_all(SHADES)
        assert len(shades) == matrices, path
        assert min(shades, default=3) >= 3, path
        assert page.get_by_test_id("stException").count() == 0
        errors = [text for text in alerts(page) if "could not" in text or "must be" in text]
        assert errors == []
    assert somebody.faults == []
    own = {urlparse(url).hostname for url in somebody.requests if url.startswith(("http", "ws"))}
    assert own == {"127.0.0.1"}
    assert any(url.startswith("ws:") for url in somebody.requests)


@pytest.mark.parametrize("path", [path for path in PAGES if path])
def test_a_deep_link_opens_its_page_and_asks_only_what_streamlit_asks(
    visitor: Visit, path: str
) -> None:
    somebody = visitor()
    page = somebody.tab()
    refused = []
    page.on("response", lambda answer: answer.status >= 400 and refused.append(answer.url))
    page.goto(f"{somebody.address}/{path}?base=500")
    settled(page)
    expect(page.get_by_test_id("stMain").locator("h1")).to_have_text(PAGES[path][1])
    assert asked(page) == {"base": 500}
    assert {urlparse(url).path for url in refused} == {
        f"/{path}/_stcore/health",
        f"/{path}/_stcore/host-config",
    }
    assert all(PROBES.fullmatch(url) for url in refused)
    assert somebody.faults == []


def test_an_arrow_key_repaints_charts_and_matrices_and_turns_the_link(visitor: Visit) -> None:
    page = visitor().open("similarity")
    said, drawn, painted = headline(page).inner_text(), lines(page), pixels(page, "similarity")
    press(page, "Base", "ArrowRight", 3)
    expect(headline(page)).not_to_have_text(said)
    settled(page)
    assert asked(page) == {"base": 20_000}
    assert lines(page) != drawn
    repainted = pixels(page, "similarity")
    changed = [before != after for before, after in zip(painted, repainted, strict=True)]
    assert changed == [False, True, True, False]  # learned and ALiBi have no base
    press(page, "Base", "ArrowLeft", 3)
    expect(headline(page)).to_have_text(said)
    settled(page)
    assert asked(page) == {}
    assert lines(page) == drawn
    assert pixels(page, "similarity") == painted


def test_a_held_arrow_key_ends_where_it_should(visitor: Visit) -> None:
    page = visitor().open("similarity")
    dial(page, "Base").focus()
    page.keyboard.down("ArrowRight")
    for _ in range(14):  # the key's repeats, as fast as a keyboard sends them
        page.wait_for_timeout(30)
        page.keyboard.down("ArrowRight")
    page.keyboard.up("ArrowRight")
    # Fifteen of ten stops a decade on from 10,000.
    page.wait_for_function("location.search.includes('base=320000')", timeout=15_000)
    settled(page)
    page.wait_for_timeout(500)  # nothing older arrives and turns it back
    assert asked(page) == {"base": 320_000}
    expect(page.get_by_test_id("stSidebar")).to_contain_text("320,000")
    said = headline(page).inner_text()
    again = visitor().open("similarity?base=320000")
    assert headline(again).inner_text() == said


def test_a_typed_value_moves_the_slider_and_stays_exact(visitor: Visit) -> None:
    page = visitor().open("similarity")
    said = headline(page).inner_text()
    unfold(page, "Exact values")
    box = page.get_by_role("spinbutton", name="Base")
    box.fill("1234.5")
    box.press("Enter")
    expect(headline(page)).not_to_have_text(said)
    settled(page)
    assert asked(page) == {"base": 1234.5}
    slider = page.get_by_test_id("stSlider").filter(has_text="Base")
    expect(slider).to_contain_text("Base, exactly 1,234.5")
    expect(slider).to_contain_text("1,250")
    press(page, "Base, exactly 1,234.5", "ArrowRight")
    page.wait_for_function("location.search.includes('base=1600')")
    expect(box).to_have_value("1600")
    expect(slider).not_to_contain_text("exactly")
    page.keyboard.press("ArrowRight")  # the dial still has the focus
    page.wait_for_function("location.search.includes('base=2000')")


LINK = {
    "dim": "96", "base": "777.5", "length": "50", "train_length": "20", "heads": "3", "seed": "9",
    "equal_width": "true", "alibi_head": "2", "precision": "bfloat16", "device": "cpu",
    "sinusoidal.layout": "half", "rope.layout": "half", "rope.partial_rotary_factor": "0.5",
    "reference": "7",
}  # fmt: skip
LINKED = {
    name: float(text) if re.fullmatch(r"[\d.]+", text) else text for name, text in LINK.items()
}


def test_a_link_with_every_number_opens_the_same_view_in_another_tab(visitor: Visit) -> None:
    somebody = visitor()
    query = "&".join(f"{name}={value}" for name, value in LINK.items())
    page = somebody.open(f"similarity?{query}")
    assert alerts(page) == []
    assert asked(page) == LINKED
    other = visitor().open(page.url.removeprefix(somebody.address + "/"))
    assert headline(other).inner_text() == headline(page).inner_text()
    assert lines(other) == lines(page)
    assert pixels(other, "similarity") == pixels(page, "similarity")
    expect(other.get_by_role("spinbutton", name="Reference position")).to_have_value("7")
    go(other, "relative_offsets")  # the shared numbers follow to other pages
    assert asked(other) == {name: LINKED[name] for name in LINKED if name != "reference"}


def test_a_link_keeps_the_schemes_and_the_learned_table_that_were_chosen(visitor: Visit) -> None:
    somebody = visitor()
    page = somebody.open("similarity")
    sidebar = page.get_by_test_id("stSidebar")
    for name in ("Sinusoidal", "NoPE"):
        sidebar.get_by_role("button", name=name, exact=True).click()
        settled(page)
    choose(page, "Learned table", "MiniLM")
    expect(row(page, "similarity").locator(".subtitle").first).to_contain_text("512x384")
    settled(page)
    other = visitor().open(page.url.removeprefix(somebody.address + "/"))
    assert alerts(other) == []
    assert headline(other).inner_text() == headline(page).inner_text()
    assert row(other, "similarity").locator(".title").all_inner_texts() == [
        "Learned",
        "RoPE",
        "ALiBi",
        "NoPE",
    ]


@pytest.mark.parametrize(
    "query",
    ["dim=-7&heads=1&fit=sideways", "dim=%ff%fe&base=%00&fit=<script>alert(1)</script>"],
)
def test_an_odd_link_is_put_right_with_a_notice_on_the_page_it_names(
    visitor: Visit, query: str
) -> None:
    page = visitor().open(f"pca?{query}")
    expect(page.get_by_test_id("stMain").locator("h1")).to_have_text("PCA")
    told = alerts(page)
    assert any("Model dimension must be" in text for text in told)
    assert any(
        "Axes fitted on must be one of seen, all; seen is used instead." in text for text in told
    )
    assert urlparse(page.url).path == "/pca"
    assert set(asked(page)) <= {"dim", "heads"}
    press(page, "Base", "ArrowRight")
    page.wait_for_function("location.search.includes('base=12500')")
    settled(page)
    expect(page.get_by_test_id("stAlertContainer")).to_have_count(0)  # told once


def test_back_and_forward_lead_through_the_pages(visitor: Visit) -> None:
    page = visitor().open("?base=500")
    go(page, "similarity")
    go(page, "pca")
    title = page.get_by_test_id("stMain").locator("h1")
    back, forward = page.go_back, page.go_forward
    for step, shown in ((back, "similarity"), (back, ""), (forward, "similarity")):
        step()
        expect(title).to_have_text(PAGES[shown][1], timeout=15_000)
        settled(page)
        assert urlparse(page.url).path == f"/{shown}"
        assert asked(page) == {"base": 500}
        expect(
            page.get_by_test_id("stSidebar").get_by_test_id("stSlider").filter(has_text="Base")
        ).to_contain_text("500")


def test_back_after_a_slider_move_shows_the_slider_where_the_address_says(visitor: Visit) -> None:
    page = visitor().open("similarity")
    for stop in ("12500", "16000"):
        press(page, "Base", "ArrowRight")
        page.wait_for_function(f"location.search.includes('base={stop}')")
        settled(page)
    page.go_back()
    page.wait_for_function("!location.search.includes('base=16000')")
    settled(page)
    page.wait_for_timeout(1_000)
    base = asked(page).get("base", 10_000)
    expect(page.get_by_test_id("stSlider").filter(has_text="Base")).to_contain_text(f"{base:,.0f}")


def test_reload_restores_the_view(visitor: Visit) -> None:
    page = visitor().open("similarity")
    press(page, "Base", "ArrowLeft", 4)
    page.wait_for_function("location.search.includes('base=4000')")
    press(page, "Positions shown", "ArrowLeft", 2)
    page.wait_for_function("location.search.includes('length=192')")
    settled(page)
    said, drawn, painted = headline(page).inner_text(), lines(page), pixels(page, "similarity")
    page.reload()
    settled(page)
    assert asked(page) == {"base": 4000, "length": 192}
    expect(headline(page)).to_have_text(said)
    assert lines(page) == drawn
    assert pixels(page, "similarity") == painted


@pytest.mark.parametrize("path", ["", "relative_offsets"])
def test_the_previous_picture_stays_while_a_new_one_is_computed(visitor: Visit, path: str) -> None:
    page = visitor().open(path)
    page.evaluate(
        """() => {
          const count = () => [
            document.querySelectorAll(".stVegaLiteChart :is(svg, canvas)").length,
            ...[...document.querySelectorAll("[data-testid=stBidiComponentIsolated]")].map(
              (host) => host.shadowRoot?.querySelectorAll("canvas[role=img]").length ?? 0),
            document.querySelectorAll("[data-testid=stMain] h1").length,
          ].join();
          window.seen = new Set();
          const look = () => { window.seen.add(count()); requestAnimationFrame(look); };
          look();
        }"""
    )
    said = lines(page)
    for name, key in (("Model dimension", "ArrowRight"), ("Base", "ArrowLeft")):
        press(page, name, key)
        page.wait_for_timeout(300)
        settled(page)
    page.wait_for_function("location.search.includes('base=')")
    settled(page)
    assert lines(page) != said or path == "relative_offsets"
    assert len(page.evaluate("[...window.seen]")) == 1


def test_a_dense_fit_is_made_when_asked_for_and_not_before(visitor: Visit) -> None:
    page = visitor().open("relative_offsets?dim=64&length=64&dense=true")
    tables = page.get_by_test_id("stMain").get_by_test_id("stDataFrame")
    before = tables.count()
    page.get_by_text("Fit one matrix without knowing the scheme").click()
    expect(tables).to_have_count(before + 1, timeout=30_000)


def upload(page: Page, name: str, content: bytes) -> None:
    """Give a file to the uploader of the sidebar."""
    if not page.get_by_test_id("stFileUploader").is_visible():
        unfold(page, "Upload a table")
    page.locator("input[type=file]").set_input_files(
        {"name": name, "mimeType": "application/octet-stream", "buffer": content}
    )


def position_table() -> np.ndarray:
    return np.random.default_rng(3).normal(size=(40, 16)).astype(np.float32)


def test_an_uploaded_table_becomes_the_learned_one_and_its_shape_is_shown(visitor: Visit) -> None:
    page = visitor().open("similarity?length=64")
    before = pixels(page, "similarity")
    upload(page, "model.safetensors", save({"wpe.weight": position_table()}))
    expect(page.get_by_text("wpe.weight: 40 x 16")).to_be_visible()
    page.get_by_role("button", name="Use this table").click()
    subtitle = row(page, "similarity").locator(".subtitle").first
    expect(subtitle).to_contain_text("40x16 from model.safetensors")
    settled(page)
    after = pixels(page, "similarity")
    assert [one != other for one, other in zip(before, after, strict=True)] == [
        True,
        False,
        False,
        False,
    ]
    shown = opacity(page, "similarity")
    assert (shown[:40, :40] == 255).all()
    assert (shown[40:] == 0).all()  # no row, no colour
    assert (shown[:, 40:] == 0).all()
    go(page, "pca")
    expect(page.get_by_test_id("stMain")).to_contain_text("40x16 from model.safetensors")


def test_an_uploaded_table_is_shared_by_its_link(visitor: Visit) -> None:
    somebody = visitor()
    page = somebody.open("similarity?length=64")
    upload(page, "model.safetensors", save({"wpe.weight": position_table()}))
    page.get_by_role("button", name="Use this table").click()
    expect(row(page, "similarity").locator(".subtitle").first).to_contain_text("40x16")
    settled(page)
    other = visitor().open(page.url.removeprefix(somebody.address + "/"))
    assert alerts(other) == []
    expect(row(other, "similarity").locator(".subtitle").first).to_contain_text("40x16")


def test_one_of_several_tables_is_chosen_before_it_is_used(visitor: Visit) -> None:
    page = visitor().open("similarity?length=64")
    both = {"wpe.weight": position_table(), "decoder.embed_positions.weight": position_table()[:24]}
    upload(page, "model.safetensors", save(both))
    expect(page.get_by_text("Several position tables")).to_be_visible()
    settled(page)
    choose(page, "Several position tables", "40 x 16")
    settled(page)
    page.get_by_role("button", name="Use this table").click()
    subtitle = row(page, "similarity").locator(".subtitle").first
    expect(subtitle).to_contain_text("40x16 from model.safetensors, wpe.weight")


def test_a_pickle_is_refused_with_the_reason_and_nothing_is_lost(visitor: Visit) -> None:
    page = visitor().open("similarity?base=500")
    said = headline(page).inner_text()
    upload(page, "model.pt", zipped_pickle({"wpe.weight": torch.zeros(4, 4)}))
    alert = page.get_by_test_id("stSidebar").get_by_test_id("stAlertContainer")
    expect(alert).to_contain_text("pickle")
    expect(alert).to_contain_text("safetensors")
    assert "Traceback" not in alert.inner_text()
    expect(page.get_by_role("button", name="Use this table")).to_have_count(0)
    assert headline(page).inner_text() == said
    assert asked(page) == {"base": 500}


@pytest.mark.parametrize("taken", [False, True], ids=["refused", "taken"])
def test_a_file_name_is_shown_as_text(visitor: Visit, taken: bool) -> None:
    somebody = visitor()
    page = somebody.open("pca")
    name = "![x](http://10.11.12.13/p.png)<img src=x onerror=window.pwned=1>.safetensors"
    upload(page, name, save({"wpe.weight": position_table()}) if taken else b"garbage")
    if taken:
        page.get_by_role("button", name="Use this table").click()
        expect(page.get_by_test_id("stMain")).to_contain_text("40x16")
        settled(page)
    page.wait_for_timeout(500)
    foreign, somebody.faults = somebody.faults, []
    assert foreign == []
    assert page.evaluate("window.pwned") is None
    shown = page.locator("body").inner_text().replace(JOINER, "")
    assert "![x](http://10.11.12.13/p.png)" in shown


# Parts of the main column that stand out of their frame, and pictures cut off by it.
CUT = """() => {
  const main = document.querySelector("[data-testid=stMain]");
  const cut = [];
  if (document.documentElement.scrollWidth > innerWidth) cut.push("the page scrolls sideways");
  if (main.scrollWidth > main.clientWidth) cut.push("the main column scrolls sideways");
  for (const host of document.querySelectorAll("[data-testid=stBidiComponentIsolated]")) {
    for (const plot of host.shadowRoot?.querySelectorAll(".plot, .bar, .legend") ?? []) {
      const box = plot.getBoundingClientRect();
      if (box.left < 0 || box.right > innerWidth + 1) cut.push(plot.className);
    }
  }
  for (const chart of document.querySelectorAll(".stVegaLiteChart")) {
    const frame = chart.getBoundingClientRect();
    const picture = chart.querySelector("svg, canvas").getBoundingClientRect();
    if (picture.right > Math.min(frame.right, innerWidth) + 1) cut.push("a chart");
  }
  return cut;
}"""


@pytest.mark.parametrize("width", [768, 390])
def test_nothing_is_cut_off_or_overflows_on_narrow_screens(visitor: Visit, width: int) -> None:
    somebody = visitor(**SCREENS[width])
    for path in DRAWN:
        page = somebody.open(path)
        assert page.evaluate(CUT) == [], path
        page.close()


def test_the_sidebar_opens_and_closes_on_a_phone(visitor: Visit) -> None:
    page = visitor(**SCREENS[390]).open("similarity")
    sidebar = page.get_by_test_id("stSidebar")
    expect(sidebar).not_to_be_in_viewport()
    page.get_by_test_id("stExpandSidebarButton").click()
    expect(sidebar).to_be_in_viewport()
    expect(sidebar.get_by_text("Model dimension").first).to_be_visible()
    assert page.evaluate(CUT) == []


def test_a_tiny_run_is_started_watched_by_another_to_its_end_and_its_curve_is_seen(
    visitor: Visit,
) -> None:
    """The starter's tab is closed amid the run, which goes on; it is opened again by its link."""
    asks = "train?schemes=RoPE&run_length=16&steps=4000&width=16&layers=1&run_heads=2"
    one, other = visitor(), visitor()
    page = one.open(asks)
    page.get_by_role("button", name="Start").click()
    curve = page.locator(".stVegaLiteChart").first
    expect(curve).to_be_visible(timeout=90_000)
    watched = other.open("train")
    far = watched.get_by_text(re.compile(r"RoPE, seed 0: step [\d,]+ of 4,000"))
    expect(far).to_be_visible()
    before = far.inner_text()
    page.close()
    one.context.close()
    expect(far).not_to_have_text(before, timeout=30_000)  # it goes on, and shows
    assert watched.evaluate(INK)[0] > 0
    link = watched.get_by_test_id("stMain").get_by_role("link", name="RoPE", exact=True)
    expect(link).to_be_visible(timeout=120_000)
    expect(watched.get_by_text("Nothing is being trained on this server.")).to_be_visible()
    expect(watched.locator(".stVegaLiteChart")).to_have_count(0)
    link.click()
    settled(watched)
    expect(watched.get_by_text("Best at 16 tokens: RoPE").first).to_be_visible()
    assert watched.evaluate(INK)[0] > 0
    assert asked(watched)["half"] == "measured"
