"""The PNG of a row of matrices: its name, size, colours and text, whole and zoomed."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Locator, Page, expect

from tests.longer import mostly
from tests.matrix_probe import drag, painted, place, row, zoom

pytestmark = pytest.mark.browser

MARGIN = 16


class Picture:
    """A saved PNG, and where on it the page's elements are."""

    def __init__(self, page: Page, folder: Path, press=Locator.click) -> None:
        save = row(page).get_by_role("button", name="Save PNG")
        with page.expect_download() as waiting:
            press(save)
        self.name = waiting.value.suggested_filename
        waiting.value.save_as(folder / self.name)
        self.image = Image.open(folder / self.name)
        self.image.load()
        self.pixels = np.asarray(self.image.convert("RGB"))
        boxes = [one.bounding_box() for one in row(page).locator(".panel, .legend").all()]
        self.left = min(box["x"] for box in boxes) - MARGIN
        self.top = min(box["y"] for box in boxes) - MARGIN
        self.width = max(box["x"] + box["width"] for box in boxes) + MARGIN - self.left
        self.height = max(box["y"] + box["height"] for box in boxes) + MARGIN - self.top
        self.scale = self.image.width / self.width

    def part(self, element: Locator) -> np.ndarray:
        """The pixels where an element of the page is drawn."""
        box = element.bounding_box()
        y, x = (box["y"] - self.top) * self.scale, (box["x"] - self.left) * self.scale
        bottom, right = y + box["height"] * self.scale, x + box["width"] * self.scale
        return self.pixels[round(y) : round(bottom), round(x) : round(right)]

    def cells(self, element: Locator, rows: int, columns: int) -> np.ndarray:
        """The colour in the middle of every cell of a plot: (rows, columns, 3)."""
        plot = self.part(element)
        y = ((np.arange(rows) + 0.5) * plot.shape[0] / rows).astype(int)
        x = ((np.arange(columns) + 0.5) * plot.shape[1] / columns).astype(int)
        return plot[np.ix_(y, x)]


def off_the_lines(top: int, rows: int, left: int, columns: int, boundary: int = 16) -> np.ndarray:
    """Which cells no line of the training length touches."""
    i, j = np.mgrid[top : top + rows, left : left + columns]
    return ~(np.isin(i, (boundary - 1, boundary)) | np.isin(j, (boundary - 1, boundary)))


@pytest.mark.parametrize(
    ("density", "scheme"),
    mostly([(1, "light"), (1, "dark"), (1.5, "dark"), (2, "light")], (1.5, "dark")),
)
def test_the_picture_shows_the_view_in_its_exact_colours_whole_and_zoomed(
    visit, tmp_path, scheme: str, density: float
) -> None:
    page = visit(device_scale_factor=density, color_scheme=scheme)
    shows_the_view(page, tmp_path, scheme, density)
    drag(page, 0, (9, 12), (30, 33))
    assert zoom(page) == (9, 22, 12, 22)
    shows_the_view(page, tmp_path, scheme, density)


def shows_the_view(page: Page, folder: Path, scheme: str, density: float) -> None:
    """Assert that the saved picture has the size, cells, text, lines and legend of the page."""
    picture = Picture(page, folder)
    assert picture.name == "posenc-first.png"
    assert picture.image.format == "PNG"
    assert picture.scale == pytest.approx({1: 2, 1.5: 3, 2: 2}[density], rel=2e-3)
    assert picture.image.height == pytest.approx(picture.height * picture.scale, abs=2)
    plots = row(page).locator("canvas[role=img]").all()
    assert len(plots) == 4
    for plot, cells in zip(plots, painted(page), strict=True):
        shape = cells.shape[:2]
        top, height, left, width = zoom(page) or (0, 48, 0, 48)
        seen = (cells[..., 3] == 255) & off_the_lines(top, height, left, width)
        found = picture.cells(plot, *shape)
        assert seen.sum() > 0.6 * seen.size
        assert np.array_equal(found[seen], cells[seen][:, :3])
    # Paper, title, subtitle, ticks, labels and legend.
    paper = picture.pixels[2, 2].astype(int)
    assert (paper.min() > 240) if scheme == "light" else (paper.max() < 40)
    for place_of_text in (".title", ".subtitle", ".row-label", ".column-label", ".tick", ".unit"):
        for element in row(page).locator(place_of_text).all():
            contrast = np.abs(picture.part(element).astype(int) - paper).max()
            assert contrast > 60, place_of_text
    swatch = picture.part(row(page).locator(".swatch").first)
    assert tuple(swatch[len(swatch) // 2, swatch.shape[1] // 2]) == (0x00, 0x72, 0xB2)
    bar = picture.part(row(page).locator(".bar canvas"))
    middle = bar[len(bar) // 2]
    (shades,) = painted(page, selector=".bar canvas")
    assert np.abs(middle[[2, -3]].astype(int) - shades[0, [0, -1], :3].astype(int)).max() <= 6


def test_the_picture_has_the_training_length_and_hatched_blanks(visit, tmp_path) -> None:
    page = visit()
    picture = Picture(page, tmp_path)
    line = picture.part(row(page).locator(".boundary.row").first)
    assert {tuple(pixel) for pixel in line.reshape(-1, 3)} == {(0, 0, 0), (255, 255, 255)}
    third = row(page).locator("canvas[role=img]").nth(2)
    plot = picture.part(third)
    blank = plot[len(plot) * 3 // 5 :, : plot.shape[1] // 5]
    paper = picture.pixels[2, 2]
    assert len(np.unique(blank.reshape(-1, 3), axis=0)) > 1  # stripes
    assert np.abs(blank.astype(int) - paper).max() < 80  # of a quiet grey


def test_the_keyboard_saves_too_and_a_pinned_cell_is_marked(visit, tmp_path) -> None:
    page = visit()
    plain = Picture(page, tmp_path)
    page.mouse.click(*place(page, 0, 30, 20))
    page.mouse.move(5, 5)

    def enter(save: Locator) -> None:
        save.focus()
        page.keyboard.press("Enter")

    marked = Picture(page, tmp_path, enter)
    assert marked.name == plain.name
    assert marked.image.size == plain.image.size
    ring = marked.part(row(page).locator(".cell").first)
    assert (255, 255, 255) in {tuple(pixel) for pixel in ring.reshape(-1, 3)}
    readout = row(page).locator(".readout").first
    assert not np.array_equal(marked.part(readout), plain.part(readout))
    expect(row(page).get_by_role("status")).to_have_text("Saved posenc-first.png")
    centre = ring[len(ring) // 2, ring.shape[1] // 2]
    assert tuple(centre) == tuple(painted(page)[0][30, 20, :3])


def test_a_column_of_panels_on_a_phone_is_one_tall_picture(visit, tmp_path) -> None:
    page = visit(
        viewport={"width": 390, "height": 844},
        has_touch=True,
        is_mobile=True,
        device_scale_factor=3,
    )
    picture = Picture(page, tmp_path, Locator.tap)
    assert picture.image.height > 3 * picture.image.width
    assert picture.scale == pytest.approx(3, rel=2e-3)


def test_more_cells_than_pixels_get_a_pixel_each_in_the_picture(visit, tmp_path) -> None:
    page = visit("length=500&four=1")
    picture = Picture(page, tmp_path)
    plot = row(page).locator("canvas[role=img]").first
    assert picture.part(plot).shape[0] >= 500
    seen = off_the_lines(0, 500, 0, 500, boundary=166)
    found = picture.cells(plot, 500, 500)
    assert (found[seen] == painted(page, only=0)[0][seen][:, :3]).all(axis=-1).mean() > 0.99
