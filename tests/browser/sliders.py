"""Moves the sliders that pictures follow, and says what the pictures show meanwhile."""

from playwright.sync_api import Page

from tests.browser.browser import dial, row
from tests.browser.browser_page import pixels, wait_until

AHEAD = "document.documentElement.classList.contains('ahead')"


def stop(page: Page, name: str) -> str:
    """Return the stop that a slider shows."""
    return dial(page, name).get_attribute("aria-valuetext") or ""


def place(page: Page, name: str, by: int) -> tuple[float, float]:
    """Return where the thumb of a slider stands so many stops further, in CSS pixels."""
    slider = dial(page, name)
    at, last = int(slider.input_value()), int(slider.get_attribute("max") or 0)
    assert 0 <= at + by <= last
    left, width, top, height, track = slider.evaluate(
        """input => {
          const thumb = input.parentElement.parentElement;
          const { x, width, y, height } = thumb.getBoundingClientRect();
          return [x, width, y, height, thumb.parentElement.clientWidth];
        }"""
    )
    return left + width / 2 + by * track / last, top + height / 2


def drag(page: Page, name: str, *by: int) -> None:
    """Take a slider by the mouse and move it, from where it is, by these stops; it stays held."""
    places = [place(page, name, each) for each in by]
    page.mouse.move(*place(page, name, 0))
    page.mouse.down()
    for x, y in places:
        page.mouse.move(x, y)
        page.wait_for_timeout(50)


def follows(page: Page, key: str, before: list[int]) -> list[int]:
    """Return what a row shows once that is a picture of the slider's stop."""
    wait_until(page, lambda: pixels(page, key) != before and not behind(page, key))
    return pixels(page, key)


def behind(page: Page, key: str) -> bool:
    return "behind" in (row(page, key).get_attribute("class") or "")
