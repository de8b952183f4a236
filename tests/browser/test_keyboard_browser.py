"""For those without a mouse: what has the focus is seen, and what a finger presses is large enough."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.browser import Visit
from tests.dashboard.test_curves import contrast
from tests.longer import mostly

pytestmark = pytest.mark.browser

GROUNDS = {"light": "#ffffff", "dark": "#10161d"}
OUTLINE = """one => {
  const seen = one.closest("[data-testid=stSlider], [data-testid=stCheckbox]")
    ?.querySelector("[data-focus-visible]") ?? one;
  const { outlineStyle, outlineWidth, outlineColor } = getComputedStyle(seen);
  return [outlineStyle, outlineWidth, outlineColor];
}"""
SIZES = "all => all.map((one) => one.getBoundingClientRect()).map((box) => [box.width, box.height])"


def outline(page: Page, target: Locator) -> tuple[str, str, str]:
    """Return style, width and colour of the outline of what the keyboard has led to."""
    page.keyboard.press("Shift")  # else the focus that a script sets is that of a pointer
    target.focus()
    style, width, colour = target.evaluate(OUTLINE)
    red, green, blue = (int(part) for part in re.findall(r"\d+", colour)[:3])
    return style, width, f"#{red:02x}{green:02x}{blue:02x}"


@pytest.mark.parametrize("theme", mostly(GROUNDS, "dark"))
def test_everything_that_has_the_focus_has_an_outline_that_is_seen(
    visitor: Visit, theme: str
) -> None:
    page = visitor(color_scheme=theme).open("similarity")
    controls = {
        "link": page.get_by_test_id("stTopNavLink").first,
        "section": page.get_by_test_id("stTopNavSection").first,
        "schemes": page.get_by_role("combobox", name="Schemes"),
        "number": page.get_by_label("Query", exact=True),
        "slider": page.locator("input[type=range]").first,
        "switch": page.get_by_role("switch", name="Present"),
        "button": page.get_by_role("button", name="Reset").last,
        "drawer": page.locator("summary").first,
        "tool": page.get_by_role("button", name="Copy Vega-Lite spec").first,
    }
    for name, control in controls.items():
        style, width, colour = outline(page, control)
        assert (style, width) == ("solid", "2px"), name
        assert contrast(colour, GROUNDS[theme]) >= 3, name


def test_tools_of_a_chart_are_seen_while_one_has_the_focus(visitor: Visit) -> None:
    page = visitor().open("similarity")
    tools = page.get_by_test_id("stMain").get_by_test_id("stElementToolbar").first
    expect(tools).to_have_css("opacity", "0")
    outline(page, tools.get_by_role("button", name="Copy Vega-Lite spec"))
    expect(tools).to_have_css("opacity", "1")
    expect(tools.get_by_role("button", name="Show data")).to_have_count(0)  # under Vega's names


def test_buttons_of_help_and_of_chosen_schemes_can_be_pressed_by_a_finger(visitor: Visit) -> None:
    page = visitor().open("similarity")
    buttons = page.locator("button[aria-label^=Help], button[aria-label^=Remove]")
    sizes = buttons.evaluate_all(SIZES)
    assert len(sizes) > 8
    assert min(min(size) for size in sizes) >= 24
