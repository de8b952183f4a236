"""Pictures follow a slider while it moves: by mouse, touch and keys, on a slow network, and back."""

import re

import pytest
from playwright.sync_api import Page, Route, expect

from dashboard import previews, results
from dashboard.settings import Setting
from posenc.schemes import SCHEMES
from tests.browser.browser import Visit, dial, go, headline, row, settled
from tests.browser.browser_page import asked, lines, pixels, press, wait_until
from tests.browser.test_dials_browser import LAG

pytestmark = pytest.mark.browser

POINTS = previews.POINTS
# The rows of the first chart, as they are drawn.
VALUES = """() => {
  for (const group of document.querySelectorAll(".stVegaLiteChart svg g")) {
    const view = group.__data__?.context?.dataflow;
    if (view) return view.data("source").map(({ scheme, x, y }) => ({ scheme, x, y }));
  }
}"""
AHEAD = "document.documentElement.classList.contains('ahead')"


def stop(page: Page, name: str) -> str:
    """Return the stop that a slider shows."""
    return dial(page, name).get_attribute("aria-valuetext") or ""


def place(page: Page, name: str, by: int) -> tuple[float, float]:
    """Return where the thumb of a slider stands so many stops further, in CSS pixels."""
    slider = dial(page, name)
    at, last = int(slider.input_value()), int(slider.get_attribute("max") or 0)
    assert 0 <= at + by <= last
    left, width, top, height, track = slider.evaluate(
        """input => {
          const thumb = input.parentElement.parentElement;
          const { x, width, y, height } = thumb.getBoundingClientRect();
          return [x, width, y, height, thumb.parentElement.clientWidth];
        }"""
    )
    return left + width / 2 + by * track / last, top + height / 2


def drag(page: Page, name: str, *by: int) -> None:
    """Take a slider by the mouse and move it, from where it is, by these stops; it stays held."""
    places = [place(page, name, each) for each in by]
    page.mouse.move(*place(page, name, 0))
    page.mouse.down()
    for x, y in places:
        page.mouse.move(x, y)
        page.wait_for_timeout(50)


def rows_of(page: Page) -> int:
    """Return how many rows the first chart has of RoPE."""
    return sum(row["scheme"] == "RoPE" for row in page.evaluate(VALUES))


def follows(page: Page, key: str, before: list[int]) -> list[int]:
    """Return what a row shows once that is a picture of the slider's stop."""
    wait_until(page, lambda: pixels(page, key) != before and not behind(page, key))
    return pixels(page, key)


def behind(page: Page, key: str) -> bool:
    return "behind" in (row(page, key).get_attribute("class") or "")


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


def test_matrices_follow_a_held_key_before_the_server_is_heard(visitor: Visit) -> None:
    """Every answer is heard 1.5 s late; older answers turn nothing back."""
    somebody = visitor()
    page = somebody.tab()
    page.add_init_script(LAG)
    page.goto(f"{somebody.address}/similarity")
    settled(page)
    text, shown, drawn = headline(page).inner_text(), pixels(page, "similarity"), lines(page)
    for _ in range(4):
        press(page, "Base", "ArrowRight")
        shown = follows(page, "similarity", shown)
    assert stop(page, "Base") == "25,000"
    assert headline(page).inner_text() == text
    assert lines(page) == drawn  # at a key the server's answer is not far
    expect(headline(page)).not_to_have_text(text)
    page.wait_for_function(f"!({AHEAD})")
    assert pixels(page, "similarity") == shown
    page.wait_for_timeout(2_000)  # longer than the lag
    assert pixels(page, "similarity") == shown
    other = visitor().open("similarity?base=25000")
    assert pixels(other, "similarity") == shown


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


def test_second_slider_waits_for_the_server_and_is_pale_meanwhile(visitor: Visit) -> None:
    """Nobody but the server knows the picture of two sliders that both moved."""
    somebody = visitor()
    page = somebody.tab()
    page.add_init_script(LAG)
    page.goto(f"{somebody.address}/similarity")
    settled(page)
    before = pixels(page, "similarity")
    press(page, "Model dimension", "ArrowRight")
    moved = follows(page, "similarity", before)
    press(page, "Base", "ArrowRight")
    assert behind(page, "similarity")
    assert pixels(page, "similarity") == moved
    wait_until(page, lambda: not behind(page, "similarity"))
    page.wait_for_function(f"!({AHEAD})")
    assert asked(page) == {"dim": 640, "base": 12_500}
    other = visitor().open("similarity?dim=640&base=12500")
    assert pixels(page, "similarity") == pixels(other, "similarity")


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


def test_without_an_answer_the_page_follows_as_ever(visitor: Visit) -> None:
    somebody = visitor()
    page = somebody.tab()

    def refuse(route: Route) -> None:
        route.fulfill(status=404)

    page.route("**/previews/**", refuse)
    page.goto(f"{somebody.address}/similarity")
    settled(page)
    text, before = headline(page).inner_text(), pixels(page, "similarity")
    drag(page, "Base", 1)
    page.wait_for_function(AHEAD)
    assert behind(page, "similarity")
    page.mouse.up()
    expect(headline(page)).not_to_have_text(text)
    page.wait_for_function(f"!({AHEAD})")
    assert not behind(page, "similarity")
    assert pixels(page, "similarity") != before
    somebody.faults[:] = [fault for fault in somebody.faults if "404" not in fault]
