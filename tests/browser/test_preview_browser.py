"""Pictures follow a slider while it moves: by mouse, touch and keys, and back."""

import re

import pytest
from playwright.sync_api import Page, expect

from dashboard import previews, results
from dashboard.settings import Setting
from posenc.schemes import SCHEMES
from tests.browser.browser import Visit, go, headline, row, settled
from tests.browser.browser_page import asked, lines, pixels, wait_until
from tests.browser.sliders import AHEAD, behind, drag, follows, place, stop

pytestmark = pytest.mark.browser

POINTS = previews.POINTS
# The rows of the first chart, as they are drawn.
VALUES = """() => {
  for (const group of document.querySelectorAll(".stVegaLiteChart svg g")) {
    const view = group.__data__?.context?.dataflow;
    if (view) return view.data("source").map(({ scheme, x, y }) => ({ scheme, x, y }));
  }
}"""


def rows_of(page: Page) -> int:
    """Return how many rows the first chart has of RoPE."""
    return sum(row["scheme"] == "RoPE" for row in page.evaluate(VALUES))


def test_matrices_follow_the_mouse_and_stay_when_it_is_released(visitor: Visit) -> None:
    somebody = visitor()
    page = somebody.open("similarity")
    text, before, drawn = headline(page).inner_text(), pixels(page, "similarity"), lines(page)
    drag(page, "Base", 1, 2, 3, 4)
    moved = follows(page, "similarity", before)
    assert stop(page, "Base") == "25,000"
    assert asked(page) == {}  # the server knows nothing of it
    assert [a != b for a, b in zip(before, moved, strict=True)] == [False, True, True, False]
    subtitle = row(page, "similarity").locator(".subtitle").nth(1)
    expect(subtitle).to_have_text("512 dimensions, base 25,000")
    assert headline(page).inner_text() == text
    expect(
        headline(page).locator("xpath=ancestor::*[contains(@class, 'stMarkdown')]").last
    ).to_have_css("opacity", "0.4")
    wait_until(page, lambda: all(a != b for a, b in zip(drawn, lines(page), strict=True)))
    page.mouse.up()
    expect(headline(page)).not_to_have_text(text)
    page.wait_for_function(f"!({AHEAD})")
    settled(page)
    assert asked(page) == {"base": 25_000}
    assert pixels(page, "similarity") == moved
    other = visitor().open("similarity?base=25000")
    assert pixels(other, "similarity") == moved
    assert lines(page) == lines(other)


def test_lines_pass_through_the_values_of_the_stop(visitor: Visit) -> None:
    """This rests on what Vega notes on its marks: it fails where Streamlit no longer lets us at it."""
    page = visitor().open("")
    chart = page.locator(".stVegaLiteChart").first
    drag(page, "Base", 1, 2, 3)
    expect(chart).to_have_class(re.compile("follows"))
    wait_until(page, lambda: stop(page, "Base") == "20,000" and rows_of(page) == POINTS)
    shown = page.evaluate(VALUES)
    setting = Setting(base=20_000.0)
    for kind in ("sinusoidal", "rope"):
        request = results.request(setting, kind)
        expected = results.cosine(request).mean
        label = SCHEMES[kind].label
        points = {row["x"]: row["y"] for row in shown if row["scheme"] == label}
        assert len(points) == POINTS
        for x, y in points.items():
            assert abs(y - expected[int(x)]) < 1e-4
    page.mouse.up()
    expect(chart).not_to_have_class(re.compile("follows"))


def test_slider_released_where_it_began_shows_what_was_there(visitor: Visit) -> None:
    page = visitor().open("similarity")
    before, drawn = pixels(page, "similarity"), lines(page)
    drag(page, "Model dimension", -1, -2)
    follows(page, "similarity", before)
    wait_until(page, lambda: lines(page) != drawn)
    page.mouse.move(*place(page, "Model dimension", 2))
    page.mouse.up()
    page.wait_for_function(f"!({AHEAD})")
    assert stop(page, "Model dimension") == "512"
    assert pixels(page, "similarity") == before
    wait_until(page, lambda: lines(page) == drawn)
    assert asked(page) == {}


def test_matrices_follow_a_finger(visitor: Visit) -> None:
    page = visitor(has_touch=True).open("similarity")
    before = pixels(page, "similarity")
    session = page.context.new_cdp_session(page)

    def touch(kind: str, *at: tuple[float, float]) -> None:
        points = [{"x": x, "y": y} for x, y in at]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    start, end = place(page, "Base", 0), place(page, "Base", 5)
    touch("touchStart", start)
    touch("touchMove", end)
    moved = follows(page, "similarity", before)
    assert asked(page) == {}
    touch("touchEnd")
    page.wait_for_function("location.search.includes('base=')")
    page.wait_for_function(f"!({AHEAD})")
    assert pixels(page, "similarity") == moved


def test_b_and_the_difference_follow_while_a_stays(visitor: Visit) -> None:
    link = "similarity?v=1&schemes=sinusoidal&schemes=rope&a=v~1~base~500"
    page = visitor().open(link)
    keys = ("similarity_pinned", "similarity", "similarity_change")
    before = {key: pixels(page, key) for key in keys}
    drag(page, "Base", 1, 2)
    follows(page, "similarity_change", before["similarity_change"])
    moved = {key: pixels(page, key) for key in keys}
    assert [key for key in keys if moved[key] != before[key]] == ["similarity", "similarity_change"]
    assert not any(behind(page, key) for key in keys)
    page.mouse.up()
    page.wait_for_function("location.search.includes('base=16000')")
    page.wait_for_function(f"!({AHEAD})")
    settled(page)
    assert {key: pixels(page, key) for key in keys} == moved


def test_clocks_follow_base(visitor: Visit) -> None:
    page = visitor().open("encoding")
    periods = page.locator(".clock td.period")
    before = periods.all_inner_texts()
    drag(page, "Base", 1, 2)
    wait_until(page, lambda: periods.all_inner_texts() != before)
    moved = periods.all_inner_texts()
    page.mouse.up()
    page.wait_for_function("location.search.includes('base=16000')")
    page.wait_for_function(f"!({AHEAD})")
    settled(page)
    assert periods.all_inner_texts() == moved


def test_page_that_is_left_while_its_picture_is_ahead_leaves_nothing(visitor: Visit) -> None:
    page = visitor().open("similarity")
    before = pixels(page, "similarity")
    drag(page, "Base", 1, 2)
    follows(page, "similarity", before)
    page.mouse.up()
    go(page, "pca")
    page.wait_for_function(f"!({AHEAD})")
    assert asked(page) == {"base": 16_000}
