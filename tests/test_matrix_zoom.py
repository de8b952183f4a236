"""Zoom in a row of matrices: drag, keys, buttons, touch; what is read and painted there."""

import io

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from tests.longer import mostly
from tests.matrix_probe import (
    KINDS,
    LENGTH,
    dense,
    drag,
    painted,
    parsed,
    place,
    readouts,
    row,
    same_float,
    set_base,
    sweep,
    zoom,
)

pytestmark = pytest.mark.browser

REGION = (10, 20, 5, 24)  # rows 10 to 29, columns 5 to 28


def button(page: Page, name: str):
    return row(page).get_by_role("button", name=name, exact=True)


@pytest.mark.parametrize("panel", range(3), ids=KINDS)
def test_a_drag_zooms_all_panels_and_every_cell_reads_exactly(page: Page, panel: int) -> None:
    whole = painted(page)
    drag(page, panel, (29, 5), (10, 28))  # from the lower left: any corner may be the first
    assert zoom(page) == REGION
    for before, now in zip(whole, painted(page), strict=True):
        assert np.array_equal(now, before[10:30, 5:29])
    found = sweep(page, panel)
    rows, columns = np.mgrid[10:30, 5:29]
    assert np.array_equal(found[:, 0], rows.ravel())
    assert np.array_equal(found[:, 1], columns.ravel())
    expected = dense()[panel][10:30, 5:29].ravel()
    assert np.array_equal(found[:, 2].astype(np.float32), expected, equal_nan=True)


def test_ticks_lines_crosshair_and_names_follow_the_zoom(page: Page) -> None:
    drag(page, 1, (10, 5), (29, 28))
    figure = row(page).locator(".panel").first
    plot = row(page).locator("canvas[role=img]").first.bounding_box()
    for axis, size, start, first, count in (
        ("columns", "width", "x", 5, 24),
        ("rows", "height", "y", 10, 20),
    ):
        ticks = figure.locator(f".{axis} > .tick").all()
        numbers = [int(tick.inner_text()) for tick in ticks]
        assert len(numbers) >= 3
        assert all(first <= number < first + count for number in numbers)
        for tick, number in zip(ticks, numbers, strict=True):
            box = tick.bounding_box()
            middle = box[start] + box[size] / 2 - plot[start]
            assert abs(middle - (number - first + 0.5) / count * plot[size]) <= 1
    for name, start, size, fraction in (
        ("row", "y", "height", (16 - 10) / 20),
        ("column", "x", "width", (16 - 5) / 24),
    ):
        line = row(page).locator(f".boundary.{name}").first.bounding_box()
        middle = line[start] + line[size] / 2 - plot[start]
        assert abs(middle - fraction * plot[size]) <= 1
    for i, j in [(10, 5), (29, 28), (17, 11)]:
        x, y = place(page, 2, i, j)
        page.mouse.move(x, y)
        expect(row(page).locator(".readout").nth(2)).to_contain_text(f"({i}, {j})")
        mark = row(page).locator(".cell").nth(2).bounding_box()
        assert abs(mark["x"] + mark["width"] / 2 - x) <= 1
        assert abs(mark["y"] + mark["height"] / 2 - y) <= 1
        for text, matrix in zip(readouts(page), dense(), strict=False):
            assert same_float(parsed(text)[2], matrix[i, j])
    zoomed = "zoomed to 20 rows (query position 10 to 29), 24 columns (key position 5 to 28)"
    expect(row(page).get_by_role("img", name=zoomed)).to_have_count(4)
    drag(page, 0, (20, 20), (29, 28))  # again, inside: no line of the training length any more
    assert zoom(page) == (20, 10, 20, 9)
    expect(row(page).locator(".boundary:visible")).to_have_count(0)
    expect(row(page).get_by_text("training length")).to_be_hidden()


def test_a_click_with_an_unsteady_hand_pins_and_does_not_zoom(page: Page) -> None:
    x, y = place(page, 0, 20, 10)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 1, y + 2)
    page.mouse.up()
    page.mouse.move(5, 5)
    assert zoom(page) is None
    expect(row(page).locator(".readout").first).to_contain_text("(20, 10)")
    drag(page, 0, (2, 2), (30, 30))  # a drag neither releases the pin nor sets another
    assert zoom(page) == (2, 29, 2, 29)
    expect(row(page).locator(".readout").first).to_contain_text("(20, 10)")
    page.mouse.click(*place(page, 1, 25, 12))
    expect(row(page).locator(".readout").first).to_contain_text("(25, 12)")


def test_the_rectangle_shows_in_all_panels_and_escape_gives_it_up(page: Page) -> None:
    page.mouse.move(*place(page, 2, 8, 12))
    page.mouse.down()
    page.mouse.move(*place(page, 2, 31, 35), steps=3)
    expect(row(page).locator(".selection:visible")).to_have_count(4)
    plot = row(page).locator("canvas[role=img]").first.bounding_box()
    box = row(page).locator(".selection").first.bounding_box()
    assert abs(box["x"] - plot["x"] - 12 / LENGTH * plot["width"]) <= 1
    assert abs(box["height"] - 24 / LENGTH * plot["height"]) <= 1
    page.keyboard.press("Escape")
    expect(row(page).locator(".selection:visible")).to_have_count(0)
    page.mouse.up()
    assert zoom(page) is None
    expect(row(page).get_by_text("Pinned")).to_be_hidden()


def test_a_small_rectangle_grows_until_its_cells_can_be_pointed_at(page: Page) -> None:
    drag(page, 0, (46, 0), (47, 2))
    assert zoom(page) == (40, 8, 0, 8)
    cell = row(page).locator("canvas[role=img]").first.bounding_box()["width"] / 8
    assert cell >= 6


def test_shift_and_drag_move_the_region(page: Page) -> None:
    drag(page, 0, (10, 10), (29, 29))
    page.mouse.move(*place(page, 0, 15, 15))
    page.keyboard.down("Shift")
    page.mouse.down()
    end = place(page, 0, 18, 11)
    page.mouse.move(*end, steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")
    assert zoom(page) == (7, 20, 14, 20)
    expect(row(page).locator(".readout").first).to_contain_text("(15, 15)")


def test_keys_zoom_around_the_crosshair_and_walk_over_the_edge(page: Page) -> None:
    page.mouse.move(*place(page, 0, 30, 20))
    row(page).locator(".plot").first.focus()
    live = row(page).get_by_role("status")
    for key, region in [
        ("+", (18, 24, 8, 24)),
        ("+", (24, 12, 14, 12)),
        ("=", (26, 8, 16, 8)),
        ("+", (26, 8, 16, 8)),  # large enough
    ]:
        page.keyboard.press(key)
        assert zoom(page) == region
        expect(live).to_contain_text(f"Zoomed to {region[1]} rows (query position {region[0]} to ")
    assert row(page).locator("canvas[role=img]").first.bounding_box()["width"] / 8 >= 6
    expect(button(page, "Zoom in")).to_have_attribute("aria-disabled", "true")
    for _ in range(6):
        page.keyboard.press("ArrowDown")
    assert zoom(page) == (29, 8, 16, 8)
    page.keyboard.press("End")
    assert zoom(page) == (29, 8, 40, 8)
    assert [parsed(text)[:2] for text in readouts(page)] == [(36, 47)] * 4
    for text, matrix in zip(readouts(page), dense(), strict=False):
        assert same_float(parsed(text)[2], matrix[36, 47])
    expect(row(page).locator(".cross:visible")).to_have_count(8)
    page.keyboard.press("-")
    assert zoom(page) == (28, 16, 32, 16)
    page.keyboard.press("0")
    assert zoom(page) is None
    expect(live).to_have_text("All cells are shown")
    expect(row(page).locator(".readout").first).to_contain_text("(36, 47)")
    page.keyboard.press("+")
    for _ in range(3):
        page.keyboard.press("-")
    assert zoom(page) is None


def test_buttons_zoom_and_reset_and_say_when_they_cannot(page: Page) -> None:
    nearer, farther = button(page, "Zoom in"), button(page, "Zoom out")
    everything = button(page, "Show all cells")
    for one in (farther, everything):
        expect(one).to_have_attribute("aria-disabled", "true")
    page.mouse.click(*place(page, 1, 30, 12))
    nearer.click()
    assert zoom(page) == (18, 24, 0, 24)
    expect(row(page).locator(".readout").first).to_contain_text("(30, 12)")
    expect(farther).to_have_attribute("aria-disabled", "false")
    everything.focus()
    page.keyboard.press("Enter")
    assert zoom(page) is None
    for _ in range(4):
        nearer.click(force=True)
    assert zoom(page) == (26, 8, 8, 8)
    for _ in range(4):
        farther.click(force=True)
    assert zoom(page) is None
    page.keyboard.press("Control+=")  # the browser's own zoom is left alone
    assert zoom(page) is None
    second = row(page, "second")  # six rows and four columns are large enough as they are
    expect(second.get_by_role("button", name="Zoom in")).to_have_attribute("aria-disabled", "true")


def test_nothing_below_or_beside_moves_as_the_zoom_changes(page: Page) -> None:
    places = """root => [...root.querySelectorAll(
        ".title, .subtitle, .row-label, .readout, .legend, .tools, .hints")]
        .map(element => element.getBoundingClientRect().toJSON())"""
    before = row(page).evaluate(places)
    for end in [(17, 18), (26, 40), (33, 12)]:
        drag(page, 0, (4, 3), end)
        assert zoom(page) is not None
        assert row(page).evaluate(places) == before
        button(page, "Show all cells").click()
        page.mouse.move(5, 5)


def test_the_zoom_outlives_new_values_and_ends_where_its_cells_do(visit) -> None:
    page = visit()
    drag(page, 1, (4, 3), (19, 20))
    set_base(page, 5.0)
    assert zoom(page) == (4, 16, 3, 18)
    expected = dense(5.0)[1][4:20, 3:21]
    assert np.array_equal(sweep(page, 1)[:, 2].astype(np.float32), expected.ravel())
    page.get_by_text("Fewer").click()
    expect(row(page)).to_have_attribute("data-panels", "2")
    assert zoom(page) == (4, 16, 3, 18)
    assert all(cells.shape == (16, 18, 4) for cells in painted(page))
    page.get_by_text("Fewer").click()
    expect(row(page)).to_have_attribute("data-panels", "4")
    page.get_by_text("Half").click()  # 24 positions: the region is still there
    expect(row(page).get_by_role("img", name="24 rows (query position 0 to 23)")).to_have_count(4)
    assert zoom(page) == (4, 16, 3, 18)
    page.get_by_text("Half").click()
    expect(row(page).get_by_role("img", name="48 rows (query position 0 to 47)")).to_have_count(4)
    button(page, "Show all cells").click()
    drag(page, 0, (20, 20), (40, 40))
    page.get_by_text("Half").click()
    expect(row(page).get_by_role("img", name="24 rows (query position 0 to 23)")).to_have_count(4)
    assert zoom(page) is None
    expect(row(page).get_by_text("no longer there: all cells are shown").first).to_be_visible()
    page.mouse.move(*place(page, 0, 3, 3))
    expect(row(page).locator(".hint.lost")).to_be_hidden()


@pytest.mark.parametrize(
    ("density", "scheme"), mostly([(1, "light"), (1.5, "dark"), (2, "light")], (1.5, "dark"))
)
def test_cells_are_flat_and_of_their_exact_colour_at_every_density(
    visit, density: float, scheme: str
) -> None:
    page = visit(device_scale_factor=density, color_scheme=scheme)
    drag(page, 1, (20, 18), (36, 41))  # beside the boundary lines, 17 rows and 24 columns
    assert zoom(page) == (20, 17, 18, 24)
    picture = np.asarray(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
    canvases = row(page).locator("canvas[role=img]").all()
    for canvas, cells in list(zip(canvases, painted(page), strict=True))[:2]:
        box = canvas.bounding_box()
        height = box["height"] * density / cells.shape[0]
        width = box["width"] * density / cells.shape[1]
        assert abs(height - round(height)) < 0.01
        assert abs(width - round(width)) < 0.01
        y, x = box["y"] * density, box["x"] * density
        for r in range(cells.shape[0]):
            for c in range(cells.shape[1]):
                top, left = round(y + r * height) + 1, round(x + c * width) + 1
                inside = picture[
                    top : round(y + (r + 1) * height) - 1, left : round(x + (c + 1) * width) - 1
                ]
                assert inside.size
                assert (inside == cells[r, c, :3]).all()


def test_many_cells_are_averaged_until_a_zoom_makes_each_of_them_a_pixel(visit) -> None:
    page = visit("length=500&four=1")
    canvas = row(page).locator("canvas[role=img]").first
    assert "dense" in canvas.get_attribute("class")
    row(page).locator(".plot").first.focus()
    for _ in range(3):
        page.keyboard.press("+")
    assert zoom(page)[1] == 63
    assert "dense" not in canvas.get_attribute("class")
    page.keyboard.press("0")
    assert "dense" in canvas.get_attribute("class")


def test_a_finger_scrolls_over_a_matrix_and_zooms_by_the_buttons(visit) -> None:
    page = visit(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    plot = row(page).locator(".plot").first
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    session = page.context.new_cdp_session(page)
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] - 20
    before = page.evaluate("document.querySelector('.stMain').scrollTop")

    def touch(kind: str, *points: tuple[float, float]) -> None:
        touches = [{"x": one, "y": other} for one, other in points]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": touches})

    touch("touchStart", (x, y))
    for step in range(1, 11):
        touch("touchMove", (x, y - 20 * step))
        page.wait_for_timeout(16)
    touch("touchEnd")
    page.wait_for_timeout(300)
    assert page.evaluate("document.querySelector('.stMain').scrollTop") > before + 100
    assert zoom(page) is None
    expect(row(page).get_by_text("Pinned")).to_be_hidden()

    plot.scroll_into_view_if_needed()
    page.touchscreen.tap(*place(page, 0, 30, 11))
    expect(row(page).locator(".readout").first).to_contain_text("(30, 11)")
    nearer = button(page, "Zoom in")
    expect(nearer).to_be_in_viewport()  # within reach, though four panels stand in a column
    size = nearer.bounding_box()
    assert min(size["width"], size["height"]) >= 40
    nearer.tap()
    nearer.tap()
    assert zoom(page) == (24, 12, 5, 12)
    page.touchscreen.tap(*place(page, 0, 27, 9))
    expect(row(page).locator(".readout").first).to_contain_text("(27, 9)")
    assert same_float(parsed(readouts(page)[0])[2], dense()[0][27, 9])
    button(page, "Show all cells").tap()
    assert zoom(page) is None


def test_a_difference_has_its_own_scale_around_zero_and_says_what_it_is(page: Page) -> None:
    difference = dense(4.0)[1].astype(np.float64) - dense(3.0)[1]
    end = np.abs(difference.astype(np.float32)).max()
    legend = row(page, "difference").locator(".bar .tick").all_inner_texts()
    assert float(legend[-1]) == float(f"{end:.3g}") == -float(legend[0])
    assert "0" in legend
    expect(row(page, "difference").locator(".unit")).to_have_text("B minus A")
    (cells,) = painted(page, "difference")
    (bar,) = painted(page, "difference", ".bar canvas")
    shade = np.floor((difference.astype(np.float32) / float(end) + 1) / 2 * 254 + 0.5).astype(int)
    assert (np.abs(cells.astype(int) - bar[0][shade]).max(axis=-1) <= 3).all()
    exact = (cells == bar[0][shade]).all(axis=-1)
    assert exact.mean() > 0.999  # a float32 division here may tip a rounding
