"""Reads values from a page in Chromium and operates its controls."""

import re
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs, urlparse

from playwright.sync_api import Locator, Page, TimeoutError, expect

from tests.browser.browser import dial, row, settled

# How many marks each chart has: lines and points of an SVG, or differing pixels of a canvas.
INK = """() => [...document.querySelectorAll(".stVegaLiteChart")].map((chart) => {
  if (!chart.checkVisibility()) return null;  // in a tab that is not chosen
  const marks = [...chart.querySelectorAll(
    "svg .mark-line path, svg .mark-symbol path, svg .role-mark.mark-rect path")];
  const canvas = chart.querySelector("canvas");
  if (!canvas) return marks.filter((path) => path.getAttribute("d")?.length > 8).length;
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  return new Set(new Uint32Array(pixels.buffer)).size - 1;
})"""

# How many colours each canvas has, and one number for all its pixels (FNV-1a): a million are slow to fetch.
CANVASES = """canvases => canvases.map((canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const pixels = new Uint32Array(data.buffer);
  let digest = 0x811c9dc5;
  for (const pixel of pixels) digest = Math.imul(digest ^ pixel, 0x01000193);
  return [new Set(pixels).size, digest];
})"""


def wait_until(page: Page, condition: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until a condition holds that no single element of the page shows."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition never held"
        page.wait_for_timeout(100)


def pixels(page: Page, key: str) -> list[int]:
    """Return what the canvases of a row of matrices show, as one number each."""
    found = row(page, key).locator("canvas[role=img]").evaluate_all(CANVASES)
    return [digest for _, digest in found]


def lines(page: Page) -> list[str]:
    """Return the paths of all lines drawn in charts."""
    found: list[str] = page.locator(".stVegaLiteChart svg .mark-line path").evaluate_all(
        "paths => paths.map(path => path.getAttribute('d'))"
    )
    return found


def asked(page: Page) -> dict[str, Any]:
    """Return what the address asks for, without its version; numbers as numbers, 20000.0 being 20000."""
    found = {name: texts[0] for name, texts in parse_qs(urlparse(page.url).query).items()}
    assert found.pop("v", None) == ("1" if found else None), page.url
    number = re.compile(r"[\d.]+")
    return {name: float(text) if number.fullmatch(text) else text for name, text in found.items()}


def address_of(page: Page) -> str:
    """Return the page's address below the dashboard's, as `Visitor.open` takes it."""
    return urlparse(page.url)._replace(scheme="", netloc="").geturl().lstrip("/")


def alerts(page: Page) -> list[str]:
    return page.get_by_test_id("stAlertContainer").all_inner_texts()


def click(page: Page, target: Locator) -> None:
    """Press something once the page is drawn.

    Playwright finds it anew where the page is drawn anew meanwhile. A second press would meet what the
    first one did: on a slow machine a press that is done is answered late.
    """
    settled(page)
    target.click(timeout=60_000)


DRAWERS = "[data-testid=stExpander] details > summary"


def open_drawers(page: Page) -> None:
    """Open every drawer once; what is drawn anew meanwhile may be closed again.

    A page draws itself anew at any time, so each is pressed by the page's own script, which never waits.
    """
    pills = page.locator(".st-key-drawers button")
    for index in range(pills.count()):
        pills.nth(index).click()
        settled(page)
    drawers = page.locator(DRAWERS).filter(visible=True)
    press = "(found, n) => { if (found[n] && !found[n].parentElement.open) found[n].click(); }"
    for index in range(drawers.count()):
        drawers.evaluate_all(press, index)
        settled(page)


def unfold(page: Page, name: str) -> None:
    """Open the drawer of this name."""
    drawer = page.locator(DRAWERS).filter(has_text=name).first
    closed = page.locator("[data-testid=stExpander] details:not([open]) > summary")
    closed = closed.filter(has_text=re.compile(re.escape(name)), visible=True)
    expect(drawer).to_be_visible()
    for _ in range(20):
        if not closed.evaluate_all("found => (found[0]?.click(), found.length)"):
            break
        settled(page)
    expect(closed).to_have_count(0)


def menu(page: Page, name: str, within: str = "stMain") -> Locator:
    """Open a menu, again if the page is drawn anew meanwhile, and return what it shows.

    within: the test id of the part of the page that has it.
    """
    button = page.get_by_test_id(within).get_by_test_id("stPopover").filter(has_text=name)
    body = page.get_by_test_id("stPopoverBody")
    for _ in range(10):
        with suppress(TimeoutError):
            if not body.is_visible():
                button.locator("button").first.click(timeout=3_000)
            body.wait_for(timeout=3_000)
            break
    expect(body).to_be_visible()
    return body


def picker(page: Page, name: str) -> Locator:
    """Open the menu of the sidebar that chooses the model or the learned table."""
    return menu(page, f"{name}: ", "stSidebar")


def close_menu(page: Page) -> None:
    """Close the menu that is open, again if the page is drawn anew meanwhile."""
    body = page.get_by_test_id("stPopoverBody")
    for _ in range(20):
        page.keyboard.press("Escape")
        page.wait_for_timeout(200)
        if not body.count():
            break
        settled(page)
        body.evaluate_all("found => found[0]?.focus()")  # the new page has it
    expect(body).to_have_count(0)


def copied_link(page: Page) -> str:
    """Copy the link with one click and return it, below the dashboard's address."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    settled(page)
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_role("button", name="Link copied")).to_be_visible()
    text: str = page.evaluate("navigator.clipboard.readText()")
    return urlparse(text)._replace(scheme="", netloc="").geturl().lstrip("/")


def choose(page: Page, name: str, option: str) -> None:
    """Choose from a drop-down list by words of its name, typed: what is far down scrolls from a click."""
    box = page.get_by_role("combobox", name=name)
    found = page.get_by_role("option", name=re.compile(rf"\b{re.escape(option)}"))
    for _ in range(5):
        box.fill(option)
        box.press("ArrowDown")
        page.wait_for_timeout(500)  # the list scrolls its own frame, which may close it again
        if found.is_visible():
            break
    found.click()


def press(page: Page, name: str, key: str, times: int = 1) -> None:
    """Turn a slider by arrow keys."""
    dial(page, name).focus()
    for _ in range(times):
        page.keyboard.press(key)


def paste(page: Page, text: str) -> None:
    """Paste a model's config into the menu of models and use it."""
    body = picker(page, "Model")
    body.get_by_role("textbox", name="Or paste a config.json").fill(text)
    click(page, body.get_by_role("button", name="Use this config"))


def upload(page: Page, name: str, content: bytes, *, model: bool = False) -> None:
    """Give a file to the menu of learned tables, or to that of models."""
    body = picker(page, "Model" if model else "Learned table")
    body.locator("input[type=file]").set_input_files(
        {"name": name, "mimeType": "application/octet-stream", "buffer": content}
    )
