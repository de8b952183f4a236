"""A gallery opened from disk in a browser without a network: pictures are drawn, links lead on."""

from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, expect

from dashboard import all_pages
from dashboard.gallery.write import write
from dashboard.settings import Setting
from dashboard.state import State
from tests.longer import mostly

pytestmark = pytest.mark.browser
SHOWN = ("start", "lessons", "encoding", "similarity")


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a gallery of some pages."""
    folder = tmp_path_factory.mktemp("gallery")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(all_pages, "TITLES", {name: name.title() for name in SHOWN})
        write(folder, all_pages.files(State(Setting(length=64))))
    return folder


@pytest.mark.parametrize("scheme", mostly(["light", "dark"], "light"))
def test_charts_and_matrices_are_drawn_and_read_without_a_network(
    chromium: Browser, gallery: Path, scheme: Literal["light", "dark"]
) -> None:
    context = chromium.new_context(offline=True, color_scheme=scheme)
    page, faults = context.new_page(), []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("requestfailed", lambda request: faults.append(f"{request.url} {request.failure}"))
    page.goto((gallery / "index.html").as_uri())
    expect(page).to_have_url((gallery / "start.html").as_uri())
    expect(page.locator(".chart svg").first).to_be_visible()  # all scripts have arrived
    pages, parts = (page.get_by_role("navigation", name=name) for name in ("Pages", "Parts"))
    pages.get_by_role("link", name="Lessons").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("1. ")
    page.wait_for_load_state("load")  # a script that is still loading is given up on the way
    for step, picture in enumerate(
        (".matrix canvas", ".matrix canvas", ".clocks svg", ".chart svg", ".chart svg"), 1
    ):
        parts.get_by_role("link", name=f"Step {step}").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text(f"{step}. ")
        expect(page.locator(picture).first).to_be_visible()
        page.wait_for_load_state("load")
    assert page.locator(".chart .mark-line path").count() >= 4  # measured, past the training length
    pages.get_by_role("link", name="Encoding").click()
    for tab in ("Matrix", "Wavelengths", "Added to token embeddings", "Worked by hand"):
        expect(page.get_by_role("heading", name=tab, exact=True)).to_be_visible()
    expect(page.locator(".chart svg").last).to_be_visible()
    pages.get_by_role("link", name="Similarity").click()
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
    page.goto((gallery / "lessons-3.html").as_uri())
    slider = page.locator(".clocks input[type=range]").first
    expect(slider).to_be_visible()
    before = slider.input_value()
    slider.press("ArrowRight")
    assert int(slider.input_value()) == int(before) + 1
    context.close()
