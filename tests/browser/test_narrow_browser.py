"""Controls of a narrow window stand together, and a table that goes on shows it; no barriers by axe."""

from collections import Counter

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.bare_page import box_of
from tests.browser.browser import SCREENS, Visit, go, settled
from tests.browser.browser_page import click
from tests.browser.test_tour_browser import barriers

pytestmark = pytest.mark.browser


def in_lines(controls: Locator) -> list[int]:
    """Return how many controls stand in each line, from above."""
    lines = Counter(round(box_of(one)["y"]) for one in controls.filter(visible=True).all())
    return [lines[y] for y in sorted(lines)]


@pytest.mark.long
def test_no_control_of_a_tablet_or_a_phone_stands_alone_beside_a_full_line(visitor: Visit) -> None:
    tablet = visitor(**SCREENS[768])
    page = tablet.open("claims")
    assert in_lines(page.locator(".st-key-verdict [role=radio]")) == [9]
    page = tablet.open("train")
    assert in_lines(page.locator("[class*=st-key-preset_] button")) == [2]
    page = tablet.open("learn")
    assert in_lines(page.get_by_test_id("stMain").get_by_test_id("stSlider")) == [2]
    page = visitor(**SCREENS[390]).open("why_position")
    assert in_lines(page.locator(".st-key-reorder [role=radio]")) == [2, 2]


@pytest.mark.long
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_table_that_goes_on_beyond_a_phone_shows_it_and_is_scrolled_from_the_keyboard(
    visitor: Visit, theme: str
) -> None:
    page = visitor(**SCREENS[390], color_scheme=theme).open("overview")
    table = page.locator("[data-testid=stTable] > div").first
    assert table.evaluate("one => one.scrollWidth > one.clientWidth")
    expect(table).to_have_css("background-attachment", "local, scroll")
    ground = page.get_by_test_id("stApp").evaluate("one => getComputedStyle(one).backgroundColor")
    assert ground in table.evaluate("one => getComputedStyle(one).backgroundImage")
    assert barriers(page) == []
    click(page, page.get_by_test_id("stExpandSidebarButton"))
    go(page, "context_planner")
    page.get_by_text("What each engine makes of the model's own config").click()
    settled(page)
    expect(table).to_have_attribute("tabindex", "0")
    table.focus()
    page.keyboard.press("ArrowRight")
    expect(table).not_to_have_js_property("scrollLeft", 0)
    assert barriers(page) == []


@pytest.mark.long
def test_table_of_measured_schemes_shows_all_its_columns_on_a_small_laptop(visitor: Visit) -> None:
    page = visitor(viewport={"width": 1280, "height": 720}).open("extrapolation")
    scroller = page.locator(".stDataFrame .dvn-scroller")
    assert scroller.evaluate("one => one.scrollWidth - one.clientWidth") <= 1
