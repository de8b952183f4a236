"""Pictures follow a slider while it moves: by mouse, touch and keys, and back."""

import re

import pytest
from playwright.sync_api import Page, expect

from dashboard import previews, results
from dashboard.settings import Setting
from posenc.analysis import scheme_projection
from posenc.schemes import SCHEMES
from tests.browser.browser import Visit, go, headline, row, settled
from tests.browser.browser_page import asked, lines, pixels, press, wait_until
from tests.browser.sliders import AHEAD, behind, drag, follows, place, stop

pytestmark = pytest.mark.browser

POINTS = previews.POINTS
# What every matrix of the page shows, or what the server sent of it: its numbers as one (FNV-1a of their
# bits), how many they are, and what is written over it.
NUMBERS = """sent => {
  const { pictures } = globalThis[Symbol.for("posenc.preview")];
  const rows = [...pictures.values()].filter(({ root }) => root.isConnected && root.matches(".matrix-row"));
  return rows.flatMap((row) => (sent ? row.sent : row).panels.map(({ values, title, subtitle }) => {
    const words = new Uint32Array(values.slice().buffer);
    const digest = words.reduce((sum, word) => Math.imul(sum ^ word, 0x01000193), 0x811c9dc5);
    return [digest, values.length, title, subtitle];
  }));
}"""
# Streamlit's charts as a browser shows them that has no way to what Vega notes on them.
NO_WAY = """(() => {
  const all = Element.prototype.querySelectorAll;
  Element.prototype.querySelectorAll = function (selector) {
    return selector === "svg g" ? [] : all.call(this, selector);
  };
})()"""
# The rows of a chart, as they are drawn.
ROWS = """chart => {
  for (const group of chart.querySelectorAll("svg g")) {
    const view = group.__data__?.context?.dataflow;
    if (view) return view.data("source").map(({ position, PC1, PC2 }) => [position, PC1, PC2]);
  }
}"""
# The rows of the first chart, as they are drawn.
VALUES = """() => {
  for (const group of document.querySelectorAll(".stVegaLiteChart svg g")) {
    const view = group.__data__?.context?.dataflow;
    if (view) return view.data("source").map(({ scheme, x, y }) => ({ scheme, x, y }));
  }
}"""


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
    setting = Setting(base=20_000.0)
    expected = {
        SCHEMES[kind].label: results.cosine(results.request(setting, kind)).mean
        for kind in ("sinusoidal", "rope")
    }

    def passes_through() -> bool:
        # The slider moves first, and its lines a frame or more later: until then they are of 15,000.
        shown = [row for row in page.evaluate(VALUES) if row["scheme"] in expected]
        return len(shown) == len(expected) * POINTS and all(
            abs(row["y"] - expected[row["scheme"]][int(row["x"])]) < 1e-4 for row in shown
        )

    wait_until(page, lambda: stop(page, "Base") == "20,000" and passes_through())
    page.mouse.up()
    expect(chart).not_to_have_class(re.compile("follows"))


def test_dots_of_pca_lie_where_the_page_has_them_at_the_stop(visitor: Visit) -> None:
    page = visitor().open("pca")
    chart = page.locator(".st-key-chart_projection_rope .stVegaLiteChart")
    before = chart.evaluate(ROWS)
    drag(page, "Base", -1, -2, -3)
    expect(chart).to_have_class(re.compile("follows"))
    expected = scheme_projection(
        results.request(Setting(base=5_000.0), "rope"), fitted=128, components=3
    )
    scores = expected.scores.numpy()

    def lies_there() -> bool:
        rows = chart.evaluate(ROWS)
        return len(rows) == POINTS < len(before) and all(
            abs(shown - own) < 1e-3
            for position, *place in rows
            for shown, own in zip(place, scores[position], strict=False)
        )

    wait_until(page, lambda: stop(page, "Base") == "5,000" and lies_there())
    page.mouse.up()
    wait_until(page, lambda: len(chart.evaluate(ROWS)) == len(before))


@pytest.mark.long
def test_charts_that_cannot_be_reached_wait_for_the_server_and_are_pale_meanwhile(
    visitor: Visit,
) -> None:
    somebody = visitor()
    page = somebody.tab()
    page.add_init_script(NO_WAY)
    page.goto(f"{somebody.address}/similarity")
    settled(page)
    before, drawn = pixels(page, "similarity"), lines(page)
    drag(page, "Base", 1, 2)
    follows(page, "similarity", before)
    for chart in page.locator(".stVegaLiteChart").all():
        expect(chart).to_have_css("opacity", "0.4")
    assert lines(page) == drawn
    page.mouse.up()
    page.wait_for_function("location.search.includes('base=16000')")
    page.wait_for_function(f"!({AHEAD})")
    settled(page)
    other = visitor().open("similarity?base=16000")
    assert lines(page) == lines(other)


MATRICES = [
    ("similarity", "similarity"),
    ("encoding", "encoding_entry"),
    ("relative_offsets", "offset_maps"),
    ("similarity?present=true", "similarity"),
]


@pytest.mark.long
@pytest.mark.parametrize(("link", "key"), MATRICES)
def test_ten_stops_show_the_numbers_of_the_pages_that_the_server_draws(
    visitor: Visit, link: str, key: str
) -> None:
    """Bit for bit, on the bar at the bottom edge of what is presented, too."""
    page = visitor().open(link)
    numbers, places = {}, [place(page, "Base", by) for by in range(11)]
    page.mouse.move(*places[0])
    page.mouse.down()
    for x, y in places[1:]:
        page.mouse.move(x, y)
        wait_until(page, lambda: not behind(page, key))
        numbers[stop(page, "Base")] = page.evaluate(NUMBERS, False)
    page.mouse.move(*places[0])
    page.mouse.up()
    page.wait_for_function(f"!({AHEAD})")
    assert len(numbers) == 10
    for expected, found in numbers.items():
        press(page, "Base", "ArrowRight")
        assert stop(page, "Base") == expected
        page.wait_for_function(
            "address => location.search.includes(address)", arg=f"base={expected.replace(',', '')}"
        )
        page.wait_for_function(f"!({AHEAD})")
        settled(page)
        assert page.evaluate(NUMBERS, True) == found


@pytest.mark.long
def test_charts_of_a_page_stay_while_their_rows_and_subtitles_follow(visitor: Visit) -> None:
    """A chart that Streamlit made anew would not have the mark, and would take twice as long."""
    page = visitor().open("similarity")
    drawings = page.locator(".stVegaLiteChart svg")
    drawings.evaluate_all("all => all.forEach((drawing) => { drawing.dataset.marked = ''; })")
    press(page, "Base", "ArrowRight")
    subtitle = page.locator(".stVegaLiteChart .role-title-subtitle text")
    expect(subtitle.first).to_contain_text("base 12,500, ")
    expect(subtitle.last).to_contain_text("base 12,500, ")
    expect(page.locator(".stVegaLiteChart svg[data-marked]")).to_have_count(2)


@pytest.mark.long
def test_keys_ask_for_nothing_where_charts_alone_follow(visitor: Visit) -> None:
    """Charts follow a drag alone: what the server made of other stops would keep it from its answer."""
    somebody = visitor()
    page = somebody.open("")
    press(page, "Base", "ArrowRight")
    page.wait_for_function("location.search.includes('base=12500')")
    settled(page)
    page.wait_for_timeout(500)
    assert not [url for url in somebody.requests if "/previews/" in url]
    drag(page, "Base", 1)
    wait_until(page, lambda: any("/previews/" in url for url in somebody.requests))


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
def test_page_that_is_left_while_its_picture_is_ahead_leaves_nothing(visitor: Visit) -> None:
    page = visitor().open("similarity")
    before = pixels(page, "similarity")
    drag(page, "Base", 1, 2)
    follows(page, "similarity", before)
    page.mouse.up()
    go(page, "pca")
    page.wait_for_function(f"!({AHEAD})")
    assert asked(page) == {"base": 16_000}


@pytest.mark.long
def test_pictures_of_a_lesson_follow_its_slider(visitor: Visit) -> None:
    page = visitor().open("learn")
    before = pixels(page, "lesson_orders")
    drag(page, "Swap word", 1)
    moved = follows(page, "lesson_orders", before)
    assert asked(page) == {}
    page.mouse.up()
    page.wait_for_function("location.search.includes('first_word=2')")
    page.wait_for_function(f"!({AHEAD})")
    settled(page)
    assert pixels(page, "lesson_orders") == moved


@pytest.mark.long
def test_chosen_line_of_a_lesson_follows_its_slider(visitor: Visit) -> None:
    page = visitor().open("learn?step=4")

    def widths(page: Page) -> list[str | None]:
        drawn = page.locator(".stVegaLiteChart svg .mark-line path").all()
        return [line.get_attribute("stroke-width") for line in drawn]

    assert widths(page) == ["4", *7 * ["1"]]
    drag(page, "Head", 1)
    wait_until(page, lambda: widths(page) == ["1", "4", *6 * ["1"]])
    assert asked(page) == {"step": 4}
    page.mouse.up()
    page.wait_for_function("location.search.includes('slope_head=2')")
    page.wait_for_function(f"!({AHEAD})")
    settled(page)
    other = visitor().open("learn?step=4&slope_head=2")
    assert widths(page) == widths(other) == ["1", "4", *6 * ["1"]]
    assert lines(page) == lines(other)
