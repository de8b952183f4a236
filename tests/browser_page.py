"""What a visitor reads off a page of the dashboard, and does on it."""

import re
from typing import Any
from urllib.parse import parse_qs, urlparse

import numpy as np
from playwright.sync_api import Page

from tests.browser import SCREENS, dial, row, settled

# How many marks each chart has: lines and areas of an SVG, or differing pixels of a canvas.
INK = """() => [...document.querySelectorAll(".stVegaLiteChart")].map((chart) => {
  const marks = [...chart.querySelectorAll("svg .mark-line path, svg .mark-symbol path")];
  const canvas = chart.querySelector("canvas");
  if (!canvas) return marks.filter((path) => path.getAttribute("d")?.length > 8).length;
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  return new Set(new Uint32Array(pixels.buffer)).size - 1;
})"""


SHADES = """canvases => canvases.map((canvas) => {
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  return new Set(new Uint32Array(pixels.buffer)).size;
})"""


# One word for all pixels of a canvas (FNV-1a): a million numbers are slow to fetch.
DIGEST = """canvases => canvases.map((canvas) => {
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  let digest = 0x811c9dc5;
  for (const pixel of new Uint32Array(pixels.buffer)) digest = Math.imul(digest ^ pixel, 0x01000193);
  return digest;
})"""


def pixels(page: Page, key: str) -> list[int]:
    """What the canvases of a row of matrices show, as one number each."""
    found: list[int] = row(page, key).locator("canvas[role=img]").evaluate_all(DIGEST)
    return found


def opacity(page: Page, key: str) -> np.ndarray:
    """Which cells of the first matrix of a row have a colour: (rows, columns) from 0 to 255."""
    height, width, alpha = (
        row(page, key)
        .locator("canvas[role=img]")
        .first.evaluate(
            """canvas => [canvas.height, canvas.width, Array.from(canvas.getContext("2d")
               .getImageData(0, 0, canvas.width, canvas.height).data).filter((_, n) => n % 4 == 3)]"""
        )
    )
    return np.array(alpha).reshape(height, width)


def lines(page: Page) -> list[str]:
    """The paths of all lines drawn in charts."""
    found: list[str] = page.locator(".stVegaLiteChart svg .mark-line path").evaluate_all(
        "paths => paths.map(path => path.getAttribute('d'))"
    )
    return found


def asked(page: Page) -> dict[str, Any]:
    """What the address asks for; numbers as numbers, 20000.0 being 20000."""
    found = parse_qs(urlparse(page.url).query)
    return {
        name: float(texts[0]) if re.fullmatch(r"[\d.]+", texts[0]) else texts[0]
        for name, texts in found.items()
    }


def alerts(page: Page) -> list[str]:
    return page.get_by_test_id("stAlertContainer").all_inner_texts()


def unfold(page: Page, name: str) -> None:
    """Open a drawer of the sidebar."""
    page.get_by_test_id("stSidebar").get_by_test_id("stExpander").filter(has_text=name).locator(
        "summary"
    ).click()


def choose(page: Page, name: str, option: str) -> None:
    """Choose from a drop-down list by a part of its name, typed: what is far down scrolls from a click."""
    box, found = page.get_by_role("combobox", name=name), page.get_by_role("option", name=option)
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


def resize(page: Page, width: int) -> None:
    """Give the window the size of this screen and wait until all that is shown has followed."""
    page.set_viewport_size(SCREENS[width]["viewport"])
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    settled(page)
