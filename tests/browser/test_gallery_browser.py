"""A gallery opened from disk in a browser without a network: pictures are drawn, links lead on."""

from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, expect

from dashboard.blocks import Page
from dashboard.gallery.write import files, write
from dashboard.settings import Setting
from tests.dashboard.test_gallery import made

pytestmark = pytest.mark.browser
SHOWN = ("start", "lessons", "similarity")


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a gallery of some pages."""
    folder = tmp_path_factory.mktemp("gallery")
    pages: dict[str, Page] = {name: made(name, Setting(length=64)) for name in SHOWN}
    write(folder, files(pages, {name: name.title() for name in SHOWN}, "About"))
    return folder


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_charts_and_matrices_are_drawn_and_read_without_a_network(
    chromium: Browser, gallery: Path, scheme: Literal["light", "dark"]
) -> None:
    context = chromium.new_context(offline=True, color_scheme=scheme)
    page, faults = context.new_page(), []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("requestfailed", lambda request: faults.append(request.url))
    page.goto((gallery / "index.html").as_uri())
    expect(page).to_have_url((gallery / "start.html").as_uri())
    expect(page.locator(".chart svg").first).to_be_visible()  # all scripts have arrived
    page.get_by_role("navigation").get_by_role("link", name="Similarity").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Similarity")
    chart = page.locator(".chart svg").first
    expect(chart).to_be_visible()
    assert chart.locator(".mark-line path").count() >= 4
    plot = page.locator(".matrix canvas").first
    expect(plot).to_be_visible()
    plot.hover(position={"x": 20, "y": 20})
    expect(page.locator(".matrix").first).to_contain_text("query")
    chart.hover(position={"x": 200, "y": 150})
    expect(page.locator("#vg-tooltip-element")).to_contain_text("RoPE")
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == {"light": "rgb(255, 255, 255)", "dark": "rgb(16, 22, 29)"}[scheme]
    assert faults == []
    context.close()


def test_clocks_turn_in_a_file(chromium: Browser, gallery: Path) -> None:
    context = chromium.new_context(offline=True)
    page = context.new_page()
    folder = gallery.parent / "clocks"
    from dashboard.pages.lessons import page as lessons

    step = lessons.page(Setting(), lessons.Options(step="3"))
    write(folder, files({"lessons": step}, {"lessons": "Learn"}, "About"))
    page.goto((folder / "lessons.html").as_uri())
    slider = page.locator(".clocks input[type=range]").first
    expect(slider).to_be_visible()
    before = slider.input_value()
    slider.press("ArrowRight")
    assert int(slider.input_value()) == int(before) + 1
    context.close()
