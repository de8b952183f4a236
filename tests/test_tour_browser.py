"""Every page in a real browser: drawn whole, on every screen, in both themes, for every reader.

A visitor goes through the pages as people do, by the list of pages: an app that is loaded once.
"""

import re
from urllib.parse import urlparse

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser import PAGES, SCREENS, Visit, go
from tests.browser_page import INK, SHADES, alerts, resize
from tests.longer import mostly

pytestmark = pytest.mark.browser

# Charts and matrices of every page, with the four schemes that are shown by default.
DRAWN = {
    "": (1, 0),
    "why_position": (1, 10),
    "encoding": (5, 10),
    "claims": (0, 2),
    "overview": (4, 4),
    "similarity": (1, 4),
    "pca": (5, 0),
    "relative_offsets": (1, 3),
    "extrapolation": (3, 0),
    "train": (0, 0),
    "context_planner": (6, 0),
    "check_my_encoding": (1, 7),
}


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


# Streamlit's own list of pages nests a section's items in a div, its formulas are two pixels wider than
# the box it gives them, and Vega gives a brush's marks no name: nothing here can change these.
NOT_OURS = {
    "exclude": [
        ["[data-testid=stSidebarNavItems]"],
        [".katex-display"],
        [".brush_brush"],
        [".brush_brush_bg"],
    ]
}


def hindrances(page: Page) -> list[str]:
    """What axe finds that is serious: its rule, how often, the first two places."""
    found = []
    for fault in Axe().run(page, context=NOT_OURS).response["violations"]:
        if fault["impact"] in ("serious", "critical"):
            nodes = [node["html"][:120] for node in fault["nodes"][:2]]
            found.append(f"{fault['id']} in {len(fault['nodes'])} places, such as {nodes}")
    return found


@pytest.mark.parametrize("colours", mostly(["light", "dark"], "light"))
def test_every_page_draws_whole_hinders_nobody_and_asks_no_other_host(
    visitor: Visit, colours: str
) -> None:
    somebody = visitor(color_scheme=colours)
    page = somebody.open()
    background = page.evaluate("getComputedStyle(document.querySelector('.stApp')).backgroundColor")
    brightness = sum(int(part) for part in re.findall(r"\d+", background)[:3])
    assert (brightness > 3 * 128) == (colours == "light")
    assert set(DRAWN) == set(PAGES)
    wrong: dict[str, list[str]] = {}
    for path, (charts, matrices) in DRAWN.items():
        if path:
            go(page, path)
        ink = page.evaluate(INK)
        assert len(ink) == charts, path
        assert all(marks >= 1 for marks in ink), path
        shades = page.locator(".matrix-row canvas[role=img]").evaluate_all(SHADES)
        assert len(shades) == matrices, path
        fewest = 2 if path == "claims" else 3  # there a matrix is of zeros and ones
        assert min(shades, default=3) >= fewest, path
        assert page.get_by_test_id("stException").count() == 0
        errors = [text for text in alerts(page) if "could not" in text or "must be" in text]
        wrong[path] = errors + hindrances(page)
        if colours == "light":  # colours take no room: a tablet is looked at in one of them
            resize(page, 768)
            wrong[path] += page.evaluate(CUT)
            resize(page, 1440)
    assert {path: found for path, found in wrong.items() if found} == {}
    assert somebody.faults == []
    own = {urlparse(url).hostname for url in somebody.requests if url.startswith(("http", "ws"))}
    assert own == {"127.0.0.1"}
    assert any(url.startswith("ws:") for url in somebody.requests)


def test_nothing_is_cut_off_or_overflows_on_a_phone(visitor: Visit) -> None:
    page = visitor(**SCREENS[390]).open()
    wrong = {"": page.evaluate(CUT)}
    for path in PAGES:
        if path:
            page.get_by_test_id("stExpandSidebarButton").click()
            go(page, path)
            expect(page.get_by_test_id("stSidebar")).not_to_be_in_viewport()  # out of the way again
            wrong[path] = page.evaluate(CUT)
    assert {path: found for path, found in wrong.items() if found} == {}


def test_a_tablet_that_opens_a_page_by_its_link_sees_it_whole(visitor: Visit) -> None:
    page = visitor(**SCREENS[768]).open("encoding")
    assert page.evaluate(CUT) == []


def test_the_sidebar_opens_and_closes_on_a_phone(visitor: Visit) -> None:
    page = visitor(**SCREENS[390]).open("similarity")
    sidebar = page.get_by_test_id("stSidebar")
    expect(sidebar).not_to_be_in_viewport()
    page.get_by_test_id("stExpandSidebarButton").click()
    expect(sidebar).to_be_in_viewport()
    expect(sidebar.get_by_text("Model dimension").first).to_be_visible()
    assert page.evaluate(CUT) == []
