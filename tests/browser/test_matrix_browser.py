"""The row of matrices in a bare page: what is read, painted, spoken and laid out."""

import itertools
import re

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from dashboard.components.matrix import Full, Panel, Scale
from dashboard.components.matrix.colours import shades
from tests.browser import bare_page
from tests.browser.bare_page import (
    cell_centre,
    dense,
    example_panels,
    painted,
    readout,
    readouts,
    show_row,
)
from tests.browser.browser import row
from tests.longer import mostly

pytestmark = pytest.mark.browser


def crosses(page: Page) -> Locator:
    return row(page, "first").locator(".cross:visible")


def test_small_value_is_read_with_its_power_of_ten(page: Page) -> None:
    show_row(page, example_panels())
    page.mouse.move(*cell_centre(page, 2, 0, 0))
    expect(readout(page, 2)).to_have_text("(0, 0) = 1.00000\u00a0×\u00a010⁻³⁰")


def test_pointing_at_one_panel_reads_and_marks_the_same_cell_in_all(page: Page) -> None:
    show_row(page, example_panels())
    parts = ".title, .plot, .readout, .legend, .bar, .label"
    before = bare_page.places(page, parts)
    expect(crosses(page)).to_have_count(0)
    for panel, i, j in [(0, 0, 0), (1, 0, 47), (2, 47, 0), (3, 5, 30)]:
        page.mouse.move(*cell_centre(page, panel, i, j))
        expect(readout(page, panel)).to_contain_text(f"({i}, {j})")
        expect(crosses(page)).to_have_count(8)
        bare_page.check_cell(page, i, j)
        for n in range(4):  # the mark lies on the cell, to a pixel
            mark = bare_page.box_of(row(page, "first").locator(".cell").nth(n))
            x, y = cell_centre(page, n, i, j)
            assert abs(mark["x"] + mark["width"] / 2 - x) <= 1
            assert abs(mark["y"] + mark["height"] / 2 - y) <= 1
        assert bare_page.places(page, parts) == before  # nothing shifts
    page.mouse.move(5, 5)
    expect(crosses(page)).to_have_count(0)


def test_pixels_follow_the_colour_bar_and_blanks_are_transparent(page: Page) -> None:
    show_row(page, example_panels())
    (bar,) = painted(page, selector=".bar canvas")
    assert np.array_equal(bar[0, :, :3], shades("diverging"))
    for pixels, matrix in zip(painted(page), dense(), strict=True):
        fraction = np.clip((matrix.astype(np.float64) + 1) / 2, 0, 1)
        blank = np.isnan(fraction)
        shade = np.floor(np.where(blank, 0, fraction) * (len(bar[0]) - 1) + 0.5).astype(int)
        assert np.array_equal(pixels, np.where(blank[..., None], 0, bar[0][shade]))
    ticks = row(page, "first").locator(".bar .tick")
    assert ticks.all_inner_texts() == ["≤ -1", "-0.5", "0", "0.5", "≥ 1"]
    expect(row(page, "first").locator(".unit")).to_have_text("cosine similarity")


def test_arrow_keys_move_the_crosshair_and_only_they_speak(page: Page) -> None:
    show_row(page, example_panels())
    page.evaluate("document.body.style.height = '4000px'")
    heard = bare_page.hear_keys(page)
    live = row(page, "first").get_by_role("status")
    page.mouse.move(*cell_centre(page, 0, 20, 10))
    expect(readout(page)).to_contain_text("(20, 10)")
    expect(live).to_have_text("")
    page.mouse.move(5, 5)
    row(page, "first").locator(".plot").nth(1).focus()
    expected = {
        "ArrowDown": (21, 10), "ArrowRight": (21, 11), "ArrowUp": (20, 11), "ArrowLeft": (20, 10),
        "Shift+ArrowDown": (30, 10), "Shift+ArrowRight": (30, 20), "Shift+ArrowUp": (20, 20),
        "Shift+ArrowLeft": (20, 10), "End": (20, 47), "Home": (20, 0),
    }  # fmt: skip
    for key, (i, j) in expected.items():
        page.keyboard.press(key)
        assert [found[:2] for found in readouts(page)] == [(i, j)] * 4
        expect(live).to_contain_text(f"query position {i}, key position {j}: Curve ")
    page.keyboard.press("ArrowLeft")  # at the edge nothing moves
    expect(readout(page, 1)).to_contain_text("(20, 0)")
    # The page does not scroll, and Streamlit's shortcuts hear no key but those that are not used here.
    page.keyboard.press("c")
    assert page.evaluate("scrollY") == 0
    assert [key for key in heard() if key != "Shift"] == ["c"]


def test_click_pins_and_click_or_escape_releases(page: Page) -> None:
    show_row(page, example_panels())
    page.mouse.click(*cell_centre(page, 2, 40, 6))
    page.mouse.move(*cell_centre(page, 2, 10, 30))
    page.mouse.move(5, 5)
    expect(readout(page)).to_contain_text("(40, 6)")
    expect(row(page, "first").get_by_text("Pinned")).to_be_visible()
    page.mouse.click(*cell_centre(page, 0, 10, 30))
    expect(readout(page)).to_contain_text("(10, 30)")
    page.mouse.move(5, 5)
    expect(readout(page)).not_to_contain_text("=")
    page.mouse.click(*cell_centre(page, 1, 3, 4))
    page.keyboard.press("Escape")
    expect(readout(page)).not_to_contain_text("=")


def test_new_values_repaint_in_place_and_keep_the_crosshair(page: Page) -> None:
    show_row(page, example_panels())
    page.mouse.click(*cell_centre(page, 1, 33, 12))
    row(page, "first").evaluate("root => { root.mark = 'same'; }")
    before = painted(page)
    show_row(page, example_panels(5.0))
    expect(row(page, "first")).to_have_attribute("data-paints", "2")
    bare_page.check_cell(page, 33, 12, *dense(5.0))
    changed = [bool((a != b).any()) for a, b in zip(before, painted(page), strict=True)]
    assert changed == [True, True, False, True]  # the third does not depend on the base
    for panels in (example_panels()[1:3], example_panels()):  # panels leave and return
        show_row(page, panels)
        assert [value[:2] for value in readouts(page)] == [(33, 12)] * len(panels)
    assert row(page, "first").evaluate("root => root.mark") == "same"


@pytest.mark.parametrize(("width", "across"), mostly([(1440, 4), (768, 2), (390, 1)], (768, 2)))
def test_panels_fit_the_width_in_even_lines(page: Page, width: int, across: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    show_row(page, example_panels())
    boxes = [bare_page.box_of(plot) for plot in row(page, "first").locator(".plot").all()]
    assert len({round(box["x"]) for box in boxes}) == across
    assert len({round(box["y"]) for box in boxes}) == 4 // across
    assert len({(box["width"], box["height"]) for box in boxes}) == 1
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= width for box in boxes)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_screen_reader_and_tab_key_reach_every_panel(page: Page) -> None:
    show_row(page, example_panels())
    group = page.get_by_role("group", name="Three forms side by side")
    name = "Curve, 48 rows (query position 0 to 47), 48 columns (key position 0 to 47)"
    expect(group.get_by_role("img", name=name)).to_have_count(1)
    expect(group.get_by_role("application")).to_have_count(4)
    active = "document.activeElement.shadowRoot.activeElement.getAttribute('aria-label')"
    reached = []
    for _ in range(8):
        page.keyboard.press("Tab")
        reached.append(page.evaluate(active).split(":")[0])
    tools = ["Zoom in", "Zoom out", "Show all cells", "Save PNG of this row"]
    assert reached == [*bare_page.TITLES, *tools]


def test_titles_are_text_and_marks_lie_where_they_say(page: Page) -> None:
    show_row(page, example_panels())
    first = row(page, "first")
    expect(first.locator(".title").nth(3)).to_have_text("<b>Plain</b>")
    expect(first.locator("b, i, script, [onclick], [onmousemove]")).to_have_count(0)
    expect(first.get_by_text("training length 16")).to_be_visible()
    expect(first.get_by_text("no value", exact=True)).to_be_visible()
    expect(first.locator(".boundary:visible")).to_have_count(8)
    swatch = first.locator(".swatch").first
    assert swatch.evaluate("one => one.style.backgroundColor") == "rgb(0, 114, 178)"


def test_cell_of_words_is_read_and_spoken_by_its_words(page: Page) -> None:
    words = [*enumerate(("Donaudampfschiff", "sinkt", "today"))]
    values = Full(np.array([[0.5, 0.25, 0.25], [0.1, 0.2, 0.7], [0.07115046, 0.4, 0.5]]))
    panels = [
        Panel(title=title, values=values, row_ticks=words, column_ticks=words)
        for title in ("One", "Two")
    ]
    show_row(page, panels, Scale(0.0, 1.0, "sequential", "weight"), height=120)
    box = bare_page.box_of(bare_page.canvases(page).nth(1))
    page.mouse.move(box["x"] + box["width"] / 6, box["y"] + 5 * box["height"] / 6)
    place = "query position today, key position Donaudampfschiff"
    expect(readout(page, 0)).to_have_text(f"{place}: 0.0712")
    row(page, "first").locator(".plot").first.focus()
    page.keyboard.press("ArrowRight")
    expect(row(page, "first").get_by_role("status")).to_have_text(
        "query position today, key position sinkt: One 0.4; Two 0.4"
    )
    expect(row(page, "first").locator("canvas").first).to_have_attribute(
        "aria-label", re.compile("3 rows .query position Donaudampfschiff to today.")
    )


def test_window_counts_from_its_start_and_names_its_dimensions(page: Page) -> None:
    values = Full(dense()[1][:6, :24])
    ticks = [(n, f"a name wider than column {n}") for n in range(24)]
    window = Panel(
        title="Window", values=values, row_start=100, column_start=100, boundary=102,
        row_label="position",
        column_label="dimension", column_ticks=ticks, features=True,
    )  # fmt: skip
    show_row(page, [window], Scale(0.0, 1.0, "sequential", "value"), height=120)
    first = row(page, "first")
    names = first.locator(".panel .columns > .tick")
    assert names.all_inner_texts() == ["a name wi\u2026"] * 24
    boxes = [bare_page.box_of(name) for name in names.all()]
    assert all(box["height"] > 2 * box["width"] for box in boxes)  # upright: they do not fit else
    for one, other in itertools.pairwise(boxes):
        assert one["x"] + one["width"] < other["x"]
    rows = first.locator(".ticks.rows > .tick").all_inner_texts()
    assert [int(text) for text in rows] == list(range(100, 106, int(rows[1]) - int(rows[0])))
    expect(first.locator(".row-label")).to_have_text("↓ position")
    expect(first.locator(".column-label")).to_have_text("dimension →")
    expect(first.locator(".boundary.row")).to_be_visible()
    expect(first.locator(".boundary.column")).to_be_hidden()  # features have no training length
    assert round(bare_page.box_of(bare_page.canvases(page))["height"]) == 120
    first.locator(".plot").focus()
    for key in ["Home", "Shift+ArrowUp", "ArrowDown", "ArrowRight"]:
        page.keyboard.press(key)
    ((i, j, value),) = readouts(page)
    assert (i, j) == (101, 101)
    assert bare_page.same_values(value, dense()[1][1, 1])
