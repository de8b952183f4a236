"""Every page in a real browser: drawn whole, on every screen, in both themes, for every reader."""

import io
import re
from itertools import pairwise, product
from pathlib import Path
from urllib.parse import urlparse

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from PIL import Image
from playwright.sync_api import Page, expect

from tests.browser.bare_page import box_of
from tests.browser.browser import PAGES, SCREENS, Visit, go, settled
from tests.browser.browser_page import CANVASES, INK, alerts, click, wait_until
from tests.longer import mostly

pytestmark = pytest.mark.browser

# Charts and matrices of every page, with the four schemes that are shown by default.
DRAWN = {
    "": (2, 0), "why_position": (0, 2), "encoding": (1, 6), "claims": (0, 0), "overview": (4, 0),
    "similarity": (2, 4), "pca": (4, 0), "relative_offsets": (0, 2), "extrapolation": (4, 0),
    "train": (1, 0), "context_planner": (0, 0), "check_my_encoding": (1, 2),
    "learn": (0, 4), "inside_model": (3, 0),
}  # fmt: skip

# Parts of the main column that stand out of their frame, and pictures cut off by it.
CUT = """() => {
  const main = document.querySelector("[data-testid=stMain]");
  const cut = [];
  if (document.documentElement.scrollWidth > innerWidth) cut.push("the page scrolls sideways");
  if (main.scrollWidth > main.clientWidth) cut.push("the main column scrolls sideways");
  for (const host of document.querySelectorAll("[data-testid=stBidiComponentIsolated]")) {
    for (const plot of host.shadowRoot?.querySelectorAll(".plot, .bar, .legend, svg") ?? []) {
      const box = plot.getBoundingClientRect();
      if (box.left < 0 || box.right > innerWidth + 1) cut.push(plot.className);
    }
  }
  for (const chart of document.querySelectorAll(".stVegaLiteChart")) {
    if (!chart.checkVisibility()) continue;
    const frame = chart.getBoundingClientRect();
    const picture = chart.querySelector("svg, canvas").getBoundingClientRect();
    if (picture.right > Math.min(frame.right, innerWidth) + 1) cut.push("a chart");
  }
  return cut;
}"""

LEVELS = """() => [...document.querySelectorAll(":is(h1, h2, h3, h4, h5, h6)")]
  .filter((one) => one.checkVisibility()).map((one) => Number(one.tagName[1]))"""

# Streamlit's own list of pages nests a section's items in a div, its formulas are two pixels wider than
# the box it gives them: nothing here can change these.
FOREIGN = (
    "[data-testid=stSidebarNavItems]",
    ".katex-display",
    "[data-testid=stTable] div:has(.katex)",
)
NOT_OURS = {"exclude": [[place] for place in FOREIGN]}
VIOLATIONS = {"resultTypes": ["violations"]}


def barriers(page: Page) -> list[str]:
    """Return what axe finds that is serious: its rule, how often, the first two places."""
    found = []
    for fault in Axe().run(page, context=NOT_OURS, options=VIOLATIONS).response["violations"]:
        if fault["impact"] in ("serious", "critical"):
            nodes = [node["html"][:120] for node in fault["nodes"][:2]]
            found.append(f"{fault['id']} in {len(fault['nodes'])} places, such as {nodes}")
    return found


def skipped_headings(page: Page) -> list[str]:
    """Return the headings that skip a level below the one before; a page begins with its title."""
    levels = [0, *page.evaluate(LEVELS)]
    return [f"h{level} after h{above}" for above, level in pairwise(levels) if level > above + 1]


def is_dark(page: Page) -> bool:
    colour = page.evaluate("getComputedStyle(document.querySelector('.stApp')).backgroundColor")
    return sum(int(part) for part in re.findall(r"\d+", colour)[:3]) < 3 * 128


def steady_canvases(page: Page) -> list[tuple[int, int]]:
    """Return what the canvases hold once twice the same is there: some arrive after the run has ended."""
    found: list[list[tuple[int, int]]] = [[]]

    def same_again() -> bool:
        found.append(page.locator(".matrix-row canvas[role=img]").evaluate_all(CANVASES))
        page.wait_for_timeout(250)
        return len(found) > 2 and found[-1] == found[-2]

    wait_until(page, same_again)
    return found[-1]


def check_drawn(page: Page, path: str) -> None:
    """Assert that all charts and matrices of a page are there and hold a picture."""
    charts, matrices = DRAWN[path]
    assert len(page.evaluate(INK)) == charts, path
    tabs = page.get_by_test_id("stMain").get_by_role("tab")
    shown: list[tuple[int, int]] = []  # of the tab with most: a tab that is left drops its own
    for tab in [None, *tabs.all()]:  # as it opens, then every tab that can be seen
        if tab is not None and tab.is_visible():
            tab.click()
            settled(page)
        # A chart of a tab that was just opened is drawn a moment after the run.
        wait_until(page, lambda: all(marks is None or marks >= 1 for marks in page.evaluate(INK)))
        shown = max(shown, steady_canvases(page), key=len)
    assert len(shown) == matrices, path
    fewest = 2 if path == "claims" else 3  # there a matrix is of zeros and ones
    assert min((colours for colours, _ in shown), default=3) >= fewest, path
    assert page.get_by_test_id("stException").count() == 0, path


@pytest.mark.parametrize(
    ("theme", "half"),
    mostly([("light", 0), ("dark", 1), ("light", 1), ("dark", 0)], ("dark", 1)),
)
def test_every_page_is_drawn_whole_and_asks_no_other_host(
    visitor: Visit, theme: str, half: int
) -> None:
    assert set(DRAWN) == set(PAGES), "DRAWN counts the charts and matrices of every page."
    first, *others = [*DRAWN][half::2]
    somebody = visitor(color_scheme=theme)
    page = somebody.open(first)
    assert is_dark(page) == (theme == "dark")
    wrong: dict[str, list[str]] = {}
    for path in (first, *others):
        if path != first:
            go(page, path)
        check_drawn(page, path)
        errors = [text for text in alerts(page) if "could not" in text or "must be" in text]
        wrong[path] = errors + barriers(page) + page.evaluate(CUT) + skipped_headings(page)
    assert {path: found for path, found in wrong.items() if found} == {}
    own = {urlparse(url).hostname for url in somebody.requests if url.startswith(("http", "ws"))}
    assert own == {"127.0.0.1"}


@pytest.mark.long
def test_every_page_fits_a_phone_whose_sidebar_opens_and_closes(visitor: Visit) -> None:
    page = visitor(**SCREENS[390], color_scheme="dark").open()
    sidebar = page.get_by_test_id("stSidebar")
    wrong = {"": page.evaluate(CUT)}
    for path in PAGES:
        if path:
            click(page, page.get_by_test_id("stExpandSidebarButton"))
            expect(sidebar).to_be_in_viewport()
            go(page, path)
            expect(sidebar).not_to_be_in_viewport()  # out of the way again
            check_drawn(page, path)
            wrong[path] = page.evaluate(CUT)
    assert {path: found for path, found in wrong.items() if found} == {}


# A desk's window may be as narrow as a phone.
WINDOWS = {str(width): kind for width, kind in SCREENS.items()}
WINDOWS["narrow"] = {"viewport": SCREENS[390]["viewport"]}


@pytest.mark.long
def test_menu_over_a_narrow_window_closes_when_a_page_is_chosen(visitor: Visit) -> None:
    page = visitor(**WINDOWS["narrow"]).open()
    click(page, page.get_by_test_id("stExpandSidebarButton"))
    expect(page.get_by_test_id("stSidebar")).to_be_in_viewport()
    go(page, "similarity")
    expect(page.get_by_test_id("stSidebar")).not_to_be_in_viewport()


# At a desk every page is looked at for the same by the first test.
NARROWER = [name for name in WINDOWS if name != "1440"]


@pytest.mark.parametrize(("path", "window"), mostly(product(PAGES, NARROWER), ("pca", "390")))
def test_page_opened_by_its_link_fits_every_screen(visitor: Visit, path: str, window: str) -> None:
    page = visitor(**WINDOWS[window]).open(path)
    assert page.evaluate(CUT) == []
    assert barriers(page) == []


@pytest.mark.long
def test_formula_is_drawn_whole_up_to_the_raised_letters_of_its_first_line(visitor: Visit) -> None:
    page = visitor().open("inside_model")
    click(page, page.get_by_role("button", name="Definition"))
    formula = page.locator(".katex-display").last
    formula.scroll_into_view_if_needed()
    ink = np.asarray(Image.open(io.BytesIO(formula.screenshot())).convert("L"), int)
    rows = np.ptp(ink, axis=1) > 100  # of pixels, those with letters
    assert rows.any()
    assert not rows[:3].any()  # a letter that reaches the edge is cut


@pytest.mark.parametrize(("width", "named"), mostly([(1440, 1), (390, 0)], (1440, 1)))
def test_ends_of_lines_have_names_on_a_wide_chart_and_a_legend_on_every_one(
    visitor: Visit, width: int, named: int
) -> None:
    page = visitor(**SCREENS[width]).open("extrapolation?half=measured")
    chart = page.locator(".stVegaLiteChart").first
    schemes = ["Learned", "Sinusoidal", "RoPE", "ALiBi"]
    expect(chart.locator(".role-legend-label text")).to_have_text(schemes)
    names = chart.locator(".role-mark.mark-text text")
    # The name of a line that ends inside the chart is drawn over its own edge.
    drawn_times = [2 * named, named, named, named]
    assert [names.filter(has_text=scheme).count() for scheme in schemes] == drawn_times


@pytest.mark.parametrize(
    "link",
    mostly(
        ["similarity", "extrapolation", "extrapolation?variants=true", "encoding?tab=Wavelengths"],
        "extrapolation",
    ),
)
def test_click_on_the_legend_hides_a_scheme_and_another_shows_it(visitor: Visit, link: str) -> None:
    page = visitor().open(link)
    for chart in [one for one in page.locator(".stVegaLiteChart").all() if one.is_visible()]:
        label = chart.locator(".role-legend-label text").filter(has_text="RoPE").first
        if not label.count():
            continue
        hidden = chart.locator(".role-mark [opacity='0']")
        before = hidden.count()  # rules that follow a pointer
        label.click()
        expect(hidden.nth(before)).to_be_attached()
        label.click()
        expect(hidden).to_have_count(before)


@pytest.mark.parametrize(("present", "band"), mostly([("false", 35), ("true", 47)], ("false", 35)))
def test_saved_chart_has_a_title_that_is_not_on_the_page(
    visitor: Visit, tmp_path: Path, present: str, band: int
) -> None:
    page = visitor().open(f"similarity?present={present}")
    chart = page.get_by_test_id("stVegaLiteChart").first
    title = chart.locator(".role-title")
    expect(title).to_contain_text("Position similarity by distance")
    height = box_of(chart.locator("svg"))["height"]
    assert box_of(title)["y"] + box_of(title)["height"] <= box_of(chart)["y"]
    assert box_of(chart)["height"] == pytest.approx(height - band, abs=2)
    expect(chart).to_have_css("overflow", "clip")
    with page.expect_download() as waiting:
        # Not a click: the button shows only while the pointer rests on the chart, and a page may move.
        page.get_by_role("button", name="Download as PNG").first.dispatch_event("click")
    waiting.value.save_as(tmp_path / "chart.png")
    with Image.open(tmp_path / "chart.png") as image:
        pixels = np.asarray(image.convert("L")).astype(int)
    assert pixels.shape[0] == pytest.approx(2 * height, abs=4)
    assert np.ptp(pixels[: 2 * band]) > 100
