"""The PNG of a row of matrices in a bare page: its name, size, colours and text."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Locator, Page, expect

from tests.browser import bare_page
from tests.browser.bare_page import BOUNDARY, box_of, canvases, example_panels, painted, show_row
from tests.browser.browser import row
from tests.longer import mostly

pytestmark = pytest.mark.browser

MARGIN = 16


class Picture:
    """A saved PNG, and where on it the page's elements are."""

    def __init__(self, page: Page, folder: Path) -> None:
        with page.expect_download() as waiting:
            row(page, "first").get_by_role("button", name="Save PNG").click()
        self.name = waiting.value.suggested_filename
        waiting.value.save_as(folder / self.name)
        self.image = Image.open(folder / self.name, formats=["PNG"])
        self.pixels = np.asarray(self.image.convert("RGB")).astype(int)
        boxes = bare_page.places(page, ".panel, .legend")
        self.left, self.top = (min(box[side] for box in boxes) - MARGIN for side in ("left", "top"))
        right, bottom = (max(box[side] for box in boxes) + MARGIN for side in ("right", "bottom"))
        self.scale = self.image.width / (right - self.left)
        self.height = (bottom - self.top) * self.scale  # expected

    def part(self, element: Locator) -> np.ndarray:
        """Return the pixels where an element of the page is drawn."""
        box = box_of(element)
        y, x = box["y"] - self.top, box["x"] - self.left
        ends = (y, y + box["height"], x, x + box["width"])
        top, bottom, left, right = (round(end * self.scale) for end in ends)
        return self.pixels[top:bottom, left:right]


@pytest.mark.parametrize(
    ("density", "scheme"),
    mostly([(1, "light"), (1, "dark"), (1.5, "dark"), (2, "light")], (1.5, "dark")),
)
def test_picture_shows_the_view_in_its_exact_colours(
    bare: Callable[..., Page], tmp_path: Path, scheme: str, density: float
) -> None:
    page = bare(device_scale_factor=density, color_scheme=scheme)
    show_row(page, example_panels())
    check_picture(page, tmp_path, scheme, density)
    bare_page.drag(page, 0, (9, 12), (30, 33))
    check_picture(page, tmp_path, scheme, density)


def check_picture(page: Page, folder: Path, scheme: str, density: float) -> None:
    """Assert that the saved picture has the size, cells, text, lines and legend of the page."""
    first, picture = row(page, "first"), Picture(page, folder)
    assert picture.name == "posenc-first.png"
    assert picture.scale == pytest.approx({1: 2, 1.5: 3, 2: 2}[density], rel=2e-3)
    assert picture.image.height == pytest.approx(picture.height, abs=2)
    top, height, left, width = bare_page.zoom(page) or (0, 48, 0, 48)
    i, j = np.mgrid[top : top + height, left : left + width]
    line = np.isin(i, (BOUNDARY - 1, BOUNDARY)) | np.isin(j, (BOUNDARY - 1, BOUNDARY))
    for canvas, cells in zip(canvases(page).all(), painted(page), strict=True):
        seen, plot = (cells[..., 3] == 255) & ~line, picture.part(canvas)
        assert seen.sum() > 0.6 * seen.size
        y = ((np.arange(height) + 0.5) * plot.shape[0] / height).astype(int)
        x = ((np.arange(width) + 0.5) * plot.shape[1] / width).astype(int)
        assert np.array_equal(plot[np.ix_(y, x)][seen], cells[seen][:, :3])
    paper = picture.pixels[2, 2]
    assert (paper.min() > 240) if scheme == "light" else (paper.max() < 40)
    for text in (".title", ".subtitle", ".row-label", ".column-label", ".tick", ".unit"):
        elements = first.locator(text).all()
        assert elements, text
        for element in elements:
            assert np.abs(picture.part(element) - paper).max() > 60, text
    bar = picture.part(first.locator(".bar canvas"))
    (shades,) = painted(page, selector=".bar canvas")
    ends = bar[len(bar) // 2][[2, -3]] - shades[0, [0, -1], :3].astype(int)
    assert np.abs(ends).max() <= 6  # some pixels from the ends of the bar


@pytest.mark.long
def test_picture_has_training_length_blanks_and_pinned_cell(page: Page, tmp_path: Path) -> None:
    show_row(page, example_panels())
    plain, first = Picture(page, tmp_path), row(page, "first")
    line = plain.part(first.locator(".boundary.row").first)
    assert {tuple(pixel) for pixel in line.reshape(-1, 3)} == {(0, 0, 0), (255, 255, 255)}
    plot = plain.part(canvases(page).nth(2))
    blank = plot[len(plot) * 3 // 5 :, : plot.shape[1] // 5]
    assert len(np.unique(blank.reshape(-1, 3), axis=0)) > 1  # stripes
    page.mouse.click(*bare_page.cell_centre(page, 0, 30, 20))
    page.mouse.move(5, 5)
    marked = Picture(page, tmp_path)
    expect(first.get_by_role("status")).to_have_text("Saved posenc-first.png")
    ring = marked.part(first.locator(".cell").first)
    assert (255, 255, 255) in {tuple(pixel) for pixel in ring.reshape(-1, 3)}
    readout = first.locator(".readout").first
    assert not np.array_equal(marked.part(readout), plain.part(readout))


@pytest.mark.long
def test_rows_that_are_compared_are_one_picture_with_a_heading_each(
    page: Page, tmp_path: Path
) -> None:
    beside, panels = ("second", "first"), example_panels()[:1]
    for key, heading in (("first", "A: base 500"), ("second", "B: base 100")):
        show_row(page, panels, key=key, title="Similarity", heading=heading, beside=beside)
    pictures = [Picture(page, tmp_path)]  # saved by the button of the first row
    with page.expect_download() as waiting:
        row(page, "second").get_by_role("button", name="Save PNG of this comparison").click()
    waiting.value.save_as(tmp_path / "again.png")
    assert pictures[0].name == waiting.value.suggested_filename == "posenc-second.png"
    again = np.asarray(Image.open(tmp_path / "again.png").convert("RGB")).astype(int)
    assert np.array_equal(again, pictures[0].pixels)
    picture, title = pictures[0], 28
    # The second click has scrolled the page.
    panels_at, legends = (
        [box_of(row(page, key).locator(part).first) for key in beside]
        for part in (".panel", ".legend")
    )
    picture.top = min(box["y"] for box in panels_at) - MARGIN - 2 * title  # title and headings
    height = max(box["y"] + box["height"] for box in legends) + MARGIN - picture.top
    assert picture.image.height == pytest.approx(height * picture.scale, abs=3)
    for key in beside:
        canvas = picture.part(row(page, key).locator("canvas").first)
        assert np.ptp(canvas.reshape(-1, 3), axis=0).min() > 100
        box = box_of(row(page, key).locator(".panel").first)
        y = round((box["y"] - picture.top) * picture.scale)
        x = round((box["x"] - picture.left) * picture.scale)
        over = picture.pixels[y - round(title * picture.scale) : y, x : x + 160]
        assert np.abs(over - picture.pixels[0, 0]).max() > 100, key


@pytest.mark.long
def test_title_stands_above_the_picture_and_its_end_is_not_cut_off(
    page: Page, tmp_path: Path
) -> None:
    panels = example_panels()[:1]
    show_row(page, panels)
    plain = Picture(page, tmp_path).pixels
    for title in ("Similarity, A: base 500", "Similarity, A: " + 60 * "base "):
        show_row(page, panels, title=title)
        pixels = Picture(page, tmp_path).pixels
        height, width = plain.shape[:2]
        above = pixels.shape[0] - height
        margin = 2 * MARGIN  # the title's descenders reach into it
        assert np.array_equal(pixels[above + margin :, :width], plain[margin:])
        ink = np.abs(pixels - pixels[0, 0]).max(axis=2) > 60
        rows, columns = (np.flatnonzero(ink[: above + margin].any(axis=axis)) for axis in (1, 0))
        assert 0 < rows[0] < rows[-1] < above + margin - 1
        assert MARGIN < columns[0] < columns[-1] < pixels.shape[1] - MARGIN
    assert pixels.shape[1] > 1.5 * width
