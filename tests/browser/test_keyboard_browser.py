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
def test_what_has_the_focus_is_seen_and_what_a_finger_presses_is_large_enough(
    visitor: Visit, theme: str
) -> None:
    page = visitor(color_scheme=theme).open("similarity")
    tools = page.get_by_test_id("stMain").get_by_test_id("stElementToolbar").first
    expect(tools).to_have_css("opacity", "0")
    controls = {
        "link": page.get_by_test_id("stTopNavLink").first,
        "section": page.get_by_test_id("stTopNavSection").first,
        "schemes": page.get_by_role("combobox", name="Schemes"),
        "number": page.get_by_label("Query", exact=True),
        "slider": page.locator("input[type=range]").first,
        "switch": page.get_by_role("switch", name="Present"),
        "button": page.get_by_role("button", name="Reset").last,
        "drawer": page.locator("summary").first,
        "tool": tools.get_by_role("button", name="Copy Vega-Lite spec"),
    }
    for name, control in controls.items():
        style, width, colour = outline(page, control)
        assert (style, width) == ("solid", "2px"), name
        assert contrast(colour, GROUNDS[theme]) >= 3, name
    expect(tools).to_have_css("opacity", "1")  # while one of them has the focus
    expect(tools.get_by_role("button", name="Show data")).to_have_count(0)  # under Vega's names
    buttons = page.locator("button[aria-label^=Help], button[aria-label^=Remove]")
    sizes = buttons.evaluate_all(SIZES)
    assert len(sizes) > 8
    assert min(min(size) for size in sizes) >= 24
