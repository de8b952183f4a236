"""Zoom of a row of matrices in a bare page: by drag, keys, buttons and touch."""

import io
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Locator, Page, expect

from dashboard.components.matrix import Full, Panel
from tests.browser import bare_page
from tests.browser.bare_page import (
    box_of,
    cell_centre,
    dense,
    drag,
    example_panels,
    readout,
    show_row,
    zoom,
)
from tests.browser.browser import SCREENS, row
from tests.longer import mostly

pytestmark = pytest.mark.browser


@pytest.fixture
def page(page: Page) -> Page:
    """A bare page with the example row."""
    show_row(page, example_panels())
    return page


def button(page: Page, name: str) -> Locator:
    return row(page, "first").get_by_role("button", name=name, exact=True)


def test_drag_zooms_all_panels_and_every_cell_reads_exactly(page: Page) -> None:
    whole = bare_page.painted(page)
    drag(page, 1, (25, 5), (16, 18))  # from the lower left: any corner may be the first
    assert zoom(page) == (16, 10, 5, 14)
    for before, now in zip(whole, bare_page.painted(page), strict=True):
        assert np.array_equal(now, before[16:26, 5:19])
    rows, columns = np.mgrid[16:26, 5:19].reshape(2, -1)
    for read, matrix in zip(bare_page.sweep(page), dense(), strict=True):
        expected = np.stack([rows, columns, matrix[rows, columns]], axis=1)
        assert bare_page.same_values(read, expected)


def test_ticks_lines_crosshair_and_names_follow_the_zoom(page: Page) -> None:
    drag(page, 1, (10, 5), (29, 28))
    first = row(page, "first")
    plot = box_of(bare_page.canvases(page).first)
    axes = ("column", "width", "x", 5, 24), ("row", "height", "y", 10, 20)
    for axis, size, side, start, count in axes:
        ticks = first.locator(".panel").first.locator(f".{axis}s > .tick").all()
        assert len(ticks) >= 3
        marks = [(tick, int(tick.inner_text()) + 0.5) for tick in ticks]
        marks.append((first.locator(f".boundary.{axis}").first, 16))
        for element, at in marks:
            box = box_of(element)
            middle = box[side] + box[size] / 2 - plot[side]
            assert abs(middle - (at - start) / count * plot[size]) <= 1
    zoomed = "zoomed to 20 rows (query position 10 to 29), 24 columns (key position 5 to 28)"
    expect(first.get_by_role("img", name=zoomed)).to_have_count(4)
    drag(page, 0, (20, 20), (29, 28))  # again, inside: no line of the training length any more
    assert zoom(page) == (20, 10, 20, 9)
    expect(first.locator(".boundary:visible")).to_have_count(0)
    page.keyboard.down("Shift")  # moves the region, by the cell that is taken hold of
    drag(page, 0, (22, 22), (25, 21))
    page.keyboard.up("Shift")
    assert zoom(page) == (17, 10, 21, 9)


def test_keys_zoom_around_the_crosshair_and_walk_over_the_edge(page: Page) -> None:
    page.mouse.move(*cell_centre(page, 0, 30, 20))
    row(page, "first").locator(".plot").first.focus()
    live = row(page, "first").get_by_role("status")
    for key, region in [
        ("+", (18, 24, 8, 24)),
        ("+", (24, 12, 14, 12)),
        ("=", (26, 8, 16, 8)),
        ("+", (26, 8, 16, 8)),  # large enough
    ]:
        page.keyboard.press(key)
        assert zoom(page) == region
        expect(live).to_contain_text(f"Zoomed to {region[1]} rows (query position {region[0]} to ")
    for _ in range(6):
        page.keyboard.press("ArrowDown")
    assert zoom(page) == (29, 8, 16, 8)
    page.keyboard.press("End")
    assert zoom(page) == (29, 8, 40, 8)
    bare_page.check_cell(page, 36, 47)
    page.keyboard.press("-")
    assert zoom(page) == (28, 16, 32, 16)
    page.keyboard.press("0")
    assert zoom(page) is None
    expect(live).to_have_text("All cells are shown")
    page.keyboard.press("Control+=")  # the browser's own zoom is left alone
    assert zoom(page) is None


def test_buttons_zoom_and_say_when_they_cannot_and_nothing_else_moves(page: Page) -> None:
    parts = ".title, .subtitle, .row-label, .readout, .legend, .tools, .hints"
    nearer, farther = button(page, "Zoom in"), button(page, "Zoom out")
    expect(farther).to_have_attribute("aria-disabled", "true")
    page.mouse.click(*cell_centre(page, 1, 30, 12))
    before = bare_page.places(page, parts)
    nearer.click()
    assert zoom(page) == (18, 24, 0, 24)
    assert bare_page.places(page, parts) == before
    expect(readout(page)).to_contain_text("(30, 12)")
    for _ in range(3):
        nearer.click(force=True)
    assert zoom(page) == (26, 8, 8, 8)
    for _ in range(4):
        farther.click(force=True)
    assert zoom(page) is None
    small = Panel(title="Small", values=Full(dense()[1][:6, :4]))  # large enough as it is
    show_row(page, [small], key="second")
    nearer = row(page, "second").get_by_role("button", name="Zoom in")
    expect(nearer).to_have_attribute("aria-disabled", "true")


def test_zoom_outlives_new_values_and_ends_where_its_cells_do(page: Page) -> None:
    drag(page, 1, (4, 3), (13, 14))
    region = (4, 10, 3, 12)
    show_row(page, example_panels(5.0, length=24)[1:3])  # the region is still there
    assert zoom(page) == region
    expected = dense(5.0, length=24)[1][4:14, 3:15]
    assert bare_page.same_values(bare_page.sweep(page)[0][:, 2], expected.ravel())
    show_row(page, example_panels())
    button(page, "Show all cells").click()
    drag(page, 0, (20, 20), (40, 40))
    show_row(page, example_panels(length=24))
    assert zoom(page) is None
    expect(row(page, "first").locator(".hint.lost")).to_be_visible()


@pytest.mark.parametrize(
    ("density", "scheme"), mostly([(1, "light"), (1.5, "dark"), (2, "light")], (1.5, "dark"))
)
def test_cells_are_flat_and_of_their_exact_colour_at_every_density(
    bare: Callable[..., Page], density: float, scheme: str
) -> None:
    page = bare(device_scale_factor=density, color_scheme=scheme)
    show_row(page, example_panels())
    drag(page, 1, (20, 18), (36, 41))  # beside the boundary lines, 17 rows and 24 columns
    picture = np.asarray(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
    for n, cells in enumerate(bare_page.painted(page)[:2]):
        box = box_of(bare_page.canvases(page).nth(n))
        height = box["height"] * density / cells.shape[0]
        width = box["width"] * density / cells.shape[1]
        assert abs(height - round(height)) < 0.01
        assert abs(width - round(width)) < 0.01
        y, x = box["y"] * density, box["x"] * density
        for r, c in np.ndindex(cells.shape[:2]):
            top, bottom = round(y + r * height), round(y + (r + 1) * height)
            left, right = round(x + c * width), round(x + (c + 1) * width)
            inside = picture[top + 1 : bottom - 1, left + 1 : right - 1]
            assert inside.size
            assert (inside == cells[r, c, :3]).all()


def test_finger_scrolls_over_a_matrix_and_zooms_by_the_buttons(bare: Callable[..., Page]) -> None:
    page = bare(**SCREENS[390])
    show_row(page, example_panels())
    expect(row(page, "first").locator(".hint.free")).to_have_text("Tap a cell to read and pin it")
    for scrolled in (0, 300, 600):  # the tools cover no cell
        page.evaluate("top => scrollTo(0, top)", scrolled)
        tools = box_of(row(page, "first").locator(".tools"))
        for plot in bare_page.canvases(page).all():
            box = box_of(plot)
            below, above = box["y"] + box["height"], tools["y"] + tools["height"]
            assert below <= tools["y"] or above <= box["y"]
    page.evaluate("scrollTo(0, 0)")
    page.touchscreen.tap(*cell_centre(page, 0, 30, 11))
    expect(readout(page)).to_contain_text("(30, 11)")
    nearer = button(page, "Zoom in")
    expect(nearer).to_be_in_viewport()  # within reach, though four panels stand in a column
    assert min(box_of(nearer)["width"], box_of(nearer)["height"]) >= 40
    nearer.tap()
    nearer.tap()
    assert zoom(page) == (24, 12, 5, 12)
    page.touchscreen.tap(*cell_centre(page, 0, 27, 9))
    expect(readout(page)).to_contain_text("(27, 9)")
    bare_page.check_cell(page, 27, 9)
    button(page, "Show all cells").tap()
    assert zoom(page) is None
    page.touchscreen.tap(*cell_centre(page, 0, 27, 9))
    pinned = row(page, "first").get_by_text("Pinned")
    expect(pinned).to_be_hidden()
    session = page.context.new_cdp_session(page)
    x, y = cell_centre(page, 0, 40, 20)

    def touch(kind: str, *points: tuple[float, float]) -> None:
        touches = [{"x": left, "y": top} for left, top in points]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": touches})

    for right, down in ((5, 0), (0, -20)):  # along the row it moves the crosshair, else it scrolls
        touch("touchStart", (x, y))
        for step in range(1, 11):
            touch("touchMove", (x + right * step, y + down * step))
        touch("touchEnd")
        assert zoom(page) is None
    page.wait_for_function("scrollY > 100")
    expect(pinned).to_be_hidden()
