"""Every page in a real browser: drawn whole, on every screen, in both themes."""

import re
from urllib.parse import urlparse

import pytest
from playwright.sync_api import expect

from tests.browser import SCREENS, Visit, go
from tests.browser_page import INK, SHADES, alerts

pytestmark = pytest.mark.browser


# Charts and matrices of every page, with the four schemes that are shown by default.
DRAWN = {
    "": (1, 0),
    "why_position": (1, 10),
    "encoding": (5, 10),
    "overview": (4, 4),
    "similarity": (2, 4),
    "pca": (5, 0),
    "relative_offsets": (1, 3),
    "extrapolation": (3, 0),
    "train": (0, 0),
}


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_every_page_draws_without_a_fault_and_asks_no_other_host(
    visitor: Visit, colours: str
) -> None:
    somebody = visitor(color_scheme=colours)
    page = somebody.open()
    background = page.evaluate("getComputedStyle(document.querySelector('.stApp')).backgroundColor")
    brightness = sum(int(part) for part in re.findall(r"\d+", background)[:3])
    assert (brightness > 3 * 128) == (colours == "light")
    for path, (charts, matrices) in DRAWN.items():
        if path:
            go(page, path)
        ink = page.evaluate(INK)
        assert len(ink) == charts, path
        assert all(marks >= 1 for marks in ink), path
        shades = page.locator(".matrix-row canvas[role=img]").evaluate_all(SHADES)
        assert len(shades) == matrices, path
        assert min(shades, default=3) >= 3, path
        assert page.get_by_test_id("stException").count() == 0
        errors = [text for text in alerts(page) if "could not" in text or "must be" in text]
        assert errors == []
    assert somebody.faults == []
    own = {urlparse(url).hostname for url in somebody.requests if url.startswith(("http", "ws"))}
    assert own == {"127.0.0.1"}
    assert any(url.startswith("ws:") for url in somebody.requests)


# Parts of the main column that stand out of their frame, and pictures cut off by it.
CUT = """() => {
  const main = document.querySelector("[data-testid=stMain]");
  const cut = [];
  if (document.documentElement.scrollWidth > innerWidth) cut.push("the page scrolls sideways");
  if (main.scrollWidth > main.clientWidth) cut.push("the main column scrolls sideways");
  for (const host of document.querySelectorAll("[data-testid=stBidiComponentIsolated]")) {
    for (const plot of host.shadowRoot?.querySelectorAll(".plot, .bar, .legend") ?? []) {
      const box = plot.getBoundingClientRect();
      if (box.left < 0 || box.right > innerWidth + 1) cut.push(plot.className);
    }
  }
  for (const chart of document.querySelectorAll(".stVegaLiteChart")) {
    const frame = chart.getBoundingClientRect();
    const picture = chart.querySelector("svg, canvas").getBoundingClientRect();
    if (picture.right > Math.min(frame.right, innerWidth) + 1) cut.push("a chart");
  }
  return cut;
}"""


@pytest.mark.parametrize("width", [768, 390])
def test_nothing_is_cut_off_or_overflows_on_narrow_screens(visitor: Visit, width: int) -> None:
    somebody = visitor(**SCREENS[width])
    for path in DRAWN:
        page = somebody.open(path)
        assert page.evaluate(CUT) == [], path
        page.close()


def test_the_sidebar_opens_and_closes_on_a_phone(visitor: Visit) -> None:
    page = visitor(**SCREENS[390]).open("similarity")
    sidebar = page.get_by_test_id("stSidebar")
    expect(sidebar).not_to_be_in_viewport()
    page.get_by_test_id("stExpandSidebarButton").click()
    expect(sidebar).to_be_in_viewport()
    expect(sidebar.get_by_text("Model dimension").first).to_be_visible()
    assert page.evaluate(CUT) == []
