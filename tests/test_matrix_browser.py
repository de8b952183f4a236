"""The row of matrices in a real browser: what is read, painted, pressed and sent."""

import io

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from tests.matrix_probe import (
    KINDS,
    LENGTH,
    centre,
    dense,
    painted,
    parsed,
    readouts,
    row,
    same_float,
    set_base,
)

pytestmark = pytest.mark.browser


def significant(text: str) -> int:
    """Count the significant digits of the value in a readout (0 where there is none)."""
    digits = text.split("=")[-1].split("e")[0].replace(".", "").strip(" -") if "=" in text else ""
    return len(digits.lstrip("0")) or len(digits)


def shortest(value: np.float32) -> int:
    """Return the fewest digits, from 6 to 9, that name this float32 (0 for a blank)."""
    return next((n for n in range(6, 10) if np.float32(f"{value:.{n - 1}e}") == value), 0)


def test_readout_is_the_exact_float32_at_every_cell_of_every_form(page: Page) -> None:
    # Pointed at in one panel after the other; what is read is read in all of them.
    sweep = """(root, length) => {
        const plots = [...root.querySelectorAll(".plot")].slice(0, 3);
        const readouts = [...root.querySelectorAll(".readout")].slice(0, 3);
        const boxes = plots.map((plot) => plot.querySelector("canvas").getBoundingClientRect());
        const texts = plots.map(() => []);
        for (let i = 0; i < length; i++) for (let j = 0; j < length; j++) {
          const n = (i + j) % 3;
          plots[n].dispatchEvent(new PointerEvent("pointermove", {
            clientX: boxes[n].left + (j + 0.5) / length * boxes[n].width,
            clientY: boxes[n].top + (i + 0.5) / length * boxes[n].height }));
          readouts.forEach((readout, m) => texts[m].push(readout.textContent));
        }
        return texts;
      }"""
    texts = row(page).evaluate(sweep, LENGTH)
    for read, expected in zip(texts, dense(), strict=True):
        places, values = np.zeros((LENGTH**2, 2), int), np.zeros(LENGTH**2, np.float32)
        for n, text in enumerate(read):
            places[n, 0], places[n, 1], values[n] = parsed(text)
            assert significant(text) == shortest(values[n])
        assert np.array_equal(places, np.argwhere(np.ones((LENGTH, LENGTH))))
        assert np.array_equal(values.reshape(LENGTH, LENGTH), expected, equal_nan=True)


@pytest.mark.parametrize("panel", range(3), ids=KINDS)
def test_mouse_over_one_panel_reads_the_same_cell_in_all(page: Page, panel: int) -> None:
    expect(row(page).locator(".cross:visible")).to_have_count(0)
    for i, j in [(0, 0), (0, 47), (47, 0), (47, 47), (30, 5), (5, 30), (1, 2)]:
        page.mouse.move(*centre(page, panel, i, j))
        expect(row(page).locator(".readout").nth(panel)).to_contain_text(f"({i}, {j})")
        expect(row(page).locator(".cross:visible")).to_have_count(8)
        for text, matrix in zip(readouts(page), dense(), strict=False):
            assert parsed(text)[:2] == (i, j)
            assert same_float(parsed(text)[2], matrix[i, j])
        for n in range(4):  # the mark lies on the cell, to a pixel
            mark = row(page).locator(".cell").nth(n).bounding_box()
            x, y = centre(page, n, i, j)
            assert abs(mark["x"] + mark["width"] / 2 - x) <= 1
            assert abs(mark["y"] + mark["height"] / 2 - y) <= 1
    page.mouse.move(5, 5)
    expect(row(page).locator(".cross:visible")).to_have_count(0)


def test_pixels_follow_the_colour_bar_and_blanks_are_transparent(page: Page) -> None:
    (bar,) = painted(page, selector=".bar canvas")
    shades = bar[0]
    for pixels, matrix in zip(painted(page), dense(), strict=False):
        fraction = np.clip((matrix.astype(np.float64) + 1) / 2, 0, 1)
        blank = np.isnan(fraction)
        shade = np.floor(np.where(blank, 0, fraction) * (len(shades) - 1) + 0.5).astype(int)
        expected = np.where(blank[..., None], 0, shades[shade])
        assert np.array_equal(pixels, expected)


def oklab(pixels: np.ndarray) -> np.ndarray:
    """sRGB bytes to OKLab (Ottosson 2020)."""
    coded = pixels[:, :3] / 255
    linear = np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4)
    to_lms = [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
    to_lab = [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
    return np.cbrt(linear @ np.transpose(to_lms)) @ np.transpose(to_lab)


def test_colours_are_even_steps_and_ordered_by_lightness(page: Page) -> None:
    sequential = oklab(painted(page, "second", ".bar canvas")[0][0])
    (bar,) = painted(page, selector=".bar canvas")
    diverging = oklab(bar[0])
    middle = len(diverging) // 2
    # Strides of 16 shades: far above the rounding of 8-bit colour.
    for ramp in (sequential, diverging[: middle + 1], diverging[: middle - 1 : -1]):
        assert (np.diff(ramp[::4, 0]) > 0).all()
        steps = np.linalg.norm(np.diff(ramp[::16], axis=0), axis=1)
        assert steps.max() / steps.min() < 1.25
    neutral = bar[0, middle, :3].astype(int)
    assert np.ptp(neutral) <= 1
    left, right = diverging[0], diverging[-1]
    assert abs(left[0] - right[0]) < 0.01  # both ends equally dark
    assert left[2] < -0.1 < 0.05 < right[2]  # blue against orange, told apart by any eye


def test_cells_are_flat_squares_on_a_dense_screen(visit) -> None:
    page = visit(device_scale_factor=2)
    canvas = row(page, "second").locator("canvas[role=img]")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    picture = np.asarray(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
    y, x = round(2 * box["y"]), round(2 * box["x"])
    picture = picture[y : y + round(2 * box["height"]), x : x + round(2 * box["width"])]
    (cells,) = painted(page, "second")
    height, width = picture.shape[0] / cells.shape[0], picture.shape[1] / cells.shape[1]
    assert height == round(height)
    assert width == round(width)
    for r in range(cells.shape[0]):
        for c in range(cells.shape[1]):
            top, left = round(r * height) + 2, round(c * width) + 2
            inside = picture[top : round((r + 1) * height) - 2, left : round((c + 1) * width) - 2]
            assert inside.size
            assert (inside == cells[r, c, :3]).all()


def test_arrow_keys_move_the_crosshair_and_only_they_speak(visit) -> None:
    page = visit()
    page.mouse.move(*centre(page, 0, 20, 10))
    expect(row(page).locator(".readout").first).to_contain_text("(20, 10)")
    live = row(page).get_by_role("status")
    expect(live).to_have_text("")
    expect(live).to_have_attribute("aria-live", "polite")
    page.mouse.move(5, 5)
    row(page).locator(".plot").nth(1).focus()
    expected = {
        "ArrowDown": (21, 10),
        "ArrowRight": (21, 11),
        "ArrowUp": (20, 11),
        "ArrowLeft": (20, 10),
        "Shift+ArrowDown": (30, 10),
        "Shift+ArrowRight": (30, 20),
        "Shift+ArrowUp": (20, 20),
        "Shift+ArrowLeft": (20, 10),
        "End": (20, 47),
        "Home": (20, 0),
    }
    for key, (i, j) in expected.items():
        page.keyboard.press(key)
        expect(row(page).locator(".readout").nth(1)).to_contain_text(f"({i}, {j})")
        assert [parsed(text)[:2] for text in readouts(page)] == [(i, j)] * 4
        expect(live).to_contain_text(f"query position {i}, key position {j}: Curve ")
    page.keyboard.press("ArrowLeft")  # at the edge nothing moves, and the page does not scroll
    expect(row(page).locator(".readout").nth(1)).to_contain_text("(20, 0)")
    assert page.evaluate("document.querySelector('.stMain').scrollTop") == 0


def test_click_pins_click_and_escape_release(page: Page) -> None:
    readout = row(page).locator(".readout").first
    page.mouse.click(*centre(page, 2, 40, 6))
    page.mouse.move(*centre(page, 2, 10, 30))
    page.mouse.move(5, 5)
    expect(readout).to_contain_text("(40, 6)")
    expect(row(page).get_by_text("Pinned")).to_be_visible()
    page.mouse.click(*centre(page, 0, 10, 30))
    expect(readout).to_contain_text("(10, 30)")
    page.mouse.move(5, 5)
    expect(readout).not_to_contain_text("=")
    page.mouse.click(*centre(page, 1, 3, 4))
    page.keyboard.press("Escape")
    expect(readout).not_to_contain_text("=")
    page.mouse.move(*centre(page, 1, 8, 9))
    expect(readout).to_contain_text("(8, 9)")
    page.mouse.move(5, 5)
    row(page).locator(".plot").first.focus()
    page.keyboard.press("Enter")
    page.locator('input[type=range][aria-label="Base"]').focus()
    expect(readout).to_contain_text("(8, 9)")


def test_a_new_value_repaints_in_place_and_keeps_the_crosshair(visit) -> None:
    page = visit()
    page.mouse.click(*centre(page, 1, 33, 12))
    row(page).evaluate("root => { root.mark = 'kept'; }")
    canvas = row(page).locator("canvas[role=img]").first
    canvas.evaluate("canvas => { canvas.mark = 'kept'; }")
    before = painted(page)
    set_base(page, 5.0)
    expect(row(page).locator(".readout").nth(1)).not_to_have_text(
        f"(33, 12) = {dense()[1][33, 12]}"
    )
    after = painted(page)
    assert row(page).evaluate("root => root.mark") == "kept"
    assert canvas.evaluate("canvas => canvas.mark") == "kept"
    assert int(row(page).get_attribute("data-paints") or 0) > 1
    assert not np.array_equal(before[0], after[0])
    assert not np.array_equal(before[1], after[1])
    assert np.array_equal(before[2], after[2])  # this one does not depend on the base
    for text, matrix in zip(readouts(page), dense(5.0), strict=False):
        assert parsed(text)[:2] == (33, 12)
        assert same_float(parsed(text)[2], matrix[33, 12])


def test_panels_leave_and_return_in_place(visit) -> None:
    page = visit()
    row(page).evaluate("root => { root.mark = 'kept'; }")
    page.mouse.click(*centre(page, 3, 9, 8))
    box = page.get_by_text("Fewer")
    for titles in (KINDS[1:], [*KINDS, "<b>Plain</b>"]):
        box.click()
        expect(row(page)).to_have_attribute("data-panels", str(len(titles)))
        expect(row(page).locator(".title")).to_have_text(titles)
        shown = dense()[1:] if len(titles) == 2 else dense()
        for text, matrix in zip(readouts(page), shown, strict=False):
            assert parsed(text)[:2] == (9, 8)
            assert same_float(parsed(text)[2], matrix[9, 8])
    assert row(page).evaluate("root => root.mark") == "kept"


def test_a_rerun_of_four_256_panels_sends_at_most_150_kilobytes(visit) -> None:
    page = visit("length=256&four=1")
    frames: list[int] = []
    # Frames of the socket that is already open: the page's own event was at the start.
    session = page.context.new_cdp_session(page)
    session.on(
        "Network.webSocketFrameReceived",
        # Binary frames come as base64: four characters for three bytes.
        lambda event: frames.append(len(event["response"]["payloadData"]) * 3 // 4),
    )
    session.send("Network.enable")
    set_base(page, 3.5)
    page.wait_for_timeout(300)
    assert 137_000 < sum(frames) <= 150_000
    page.mouse.move(*centre(page, 3, 200, 100, 256))
    expect(row(page).locator(".readout").nth(3)).to_contain_text("(200, 100)")
    assert same_float(parsed(readouts(page)[3])[2], dense(3.5, 256)[1][200, 100])


@pytest.mark.parametrize(
    ("width", "across", "scheme"), [(1440, 4, "dark"), (768, 2, "light"), (390, 1, "dark")]
)
def test_panels_fit_the_width_in_both_themes(visit, width: int, across: int, scheme: str) -> None:
    page = visit(viewport={"width": width, "height": 900}, color_scheme=scheme)
    plots = [plot.bounding_box() for plot in row(page).locator(".plot").all()]
    assert len({round(box["x"]) for box in plots}) == across
    assert len({round(box["y"]) for box in plots}) == 4 // across
    assert len({(box["width"], box["height"]) for box in plots}) == 1
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= width for box in plots)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    colours = row(page).evaluate(
        "root => [getComputedStyle(root).color, getComputedStyle(document.body).color]"
    )
    lightness = [sum(int(part) for part in text[4:-1].split(", ")) for text in colours]
    assert (lightness[0] > 500) == (scheme == "dark")


def test_a_change_of_theme_or_width_is_followed_in_place(visit) -> None:
    page = visit(color_scheme="light")
    before = painted(page)
    colour = "root => getComputedStyle(root).color"
    light = row(page).evaluate(colour)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(
        "light => getComputedStyle(document.querySelector('.st-key-first [data-testid="
        "stBidiComponentIsolated]').shadowRoot.querySelector('.matrix-row')).color !== light",
        arg=light,
    )
    for one, other in zip(before, painted(page), strict=True):
        assert np.array_equal(one, other)
    page.set_viewport_size({"width": 390, "height": 900})
    page.wait_for_timeout(500)
    plots = [plot.bounding_box() for plot in row(page).locator(".plot").all()]
    assert len({round(box["x"]) for box in plots}) == 1
    assert max(box["width"] for box in plots) <= 390


def test_nothing_shifts_while_the_crosshair_moves(page: Page) -> None:
    places = """root => [...root.querySelectorAll(
        ".title, .plot, .readout, .legend, .bar, .label")]
        .map(element => element.getBoundingClientRect().toJSON())"""
    before = row(page).evaluate(places)
    for i, j in [(0, 1), (47, 47), (30, 2)]:
        page.mouse.move(*centre(page, 0, i, j))
        expect(row(page).locator(".readout").first).to_contain_text(f"({i}, {j})")
        assert row(page).evaluate(places) == before
    page.mouse.click(*centre(page, 0, 1, 1))
    expect(row(page).get_by_text("Pinned")).to_be_visible()
    assert row(page).evaluate(places) == before


def test_a_tap_reads_and_a_second_tap_releases(visit) -> None:
    page = visit(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    plot = row(page).locator(".plot").first
    plot.scroll_into_view_if_needed()
    for i, j in [(10, 20), (30, 5)]:
        page.touchscreen.tap(*centre(page, 0, i, j))
        expect(row(page).locator(".readout").first).to_contain_text(f"({i}, {j})")
        assert same_float(parsed(readouts(page)[0])[2], dense()[0][i, j])
    page.touchscreen.tap(*centre(page, 0, 30, 5))
    expect(row(page).locator(".readout").first).not_to_contain_text("=")


def test_a_reader_hears_what_the_picture_shows(visit) -> None:
    page = visit()
    group = page.get_by_role("group", name="Three forms side by side")
    expect(group).to_have_attribute("data-panels", "4")
    name = "Curve, 48 rows (query position 0 to 47), 48 columns (key position 0 to 47)"
    expect(group.get_by_role("img", name=name)).to_have_count(1)
    expect(group.get_by_role("application")).to_have_count(4)
    for _ in range(4):
        page.keyboard.press("Tab")
    focused = (
        """() => document.activeElement.shadowRoot?.activeElement?.getAttribute("aria-label")"""
    )
    names = []
    for _ in range(12):
        names.append(page.evaluate(focused))
        page.keyboard.press("Tab")
    reached = [name.split(":")[0] for name in names if name]
    assert [title for title in reached if title in [*KINDS, "<b>Plain</b>"]][:4] == [
        *KINDS,
        "<b>Plain</b>",
    ]


def test_titles_are_text_and_marks_say_what_they_are(page: Page) -> None:
    expect(row(page).locator(".title").nth(3)).to_have_text("<b>Plain</b>")
    expect(row(page).locator("b, i, script, [onclick], [onmousemove]")).to_have_count(0)
    expect(row(page).get_by_text("training length 16")).to_be_visible()
    expect(row(page).get_by_text("no value", exact=True)).to_be_visible()
    expect(row(page).locator(".boundary:visible")).to_have_count(8)
    for axis in ("row", "column"):  # the line lies between positions 15 and 16
        line = row(page).locator(f".boundary.{axis}").first.bounding_box()
        plot = row(page).locator(".plot").first.bounding_box()
        side, size = ("y", "height") if axis == "row" else ("x", "width")
        assert abs(line[side] + line[size] / 2 - plot[side] - plot[size] / 3) <= 1
    legend = row(page).locator(".bar .tick").all_inner_texts()
    assert legend == ["≤ -1", "-0.5", "0", "0.5", "≥ 1"]
    ticks = row(page).locator(".panel").first.locator(".columns > .tick").all_inner_texts()
    assert ticks == ["0", "10", "20", "30", "40"]


def test_a_window_counts_from_its_start_and_names_its_dimensions(page: Page) -> None:
    window = row(page, "second")
    ticks = window.locator(".panel .columns > .tick").all_inner_texts()
    assert ticks == ["sin 0", "cos 0", "sin 1", "cos 1"]
    rows = window.locator(".ticks.rows > .tick").all_inner_texts()
    assert [int(text) for text in rows] == list(range(100, 106, int(rows[1]) - int(rows[0])))
    expect(window.locator(".row-label")).to_have_text("↓ position")
    expect(window.locator(".column-label")).to_have_text("dimension →")
    expect(window.get_by_text("no value", exact=True)).to_be_hidden()
    window.locator(".plot").focus()
    for key in ["Home", "Shift+ArrowUp", "ArrowDown", "ArrowRight"]:
        page.keyboard.press(key)
    expect(window.locator(".readout")).to_contain_text("(101, 1) = ")
    text = window.locator(".readout").inner_text()
    assert same_float(parsed(text)[2], dense()[1][1, 1])
