"""A small app with two rows of matrices, a browser on it, and what its rows say and paint."""

import base64
import inspect
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, Locator, Page, expect

from dashboard.matrix import MatrixValues
from tests.browser import Visitor

LENGTH = 48
KINDS = ["Curve", "Triangle", "Full"]


def matrices(length: int, base: float) -> list[MatrixValues]:
    """One matrix of each form; the probe app carries a copy of this function."""
    import numpy as np

    from dashboard.matrix import Curve, Full, Triangle

    offsets = np.arange(1 - length, length)
    curve = np.exp(-np.abs(offsets) / 9) + np.sin(offsets / base) / 3  # not even: shows the sign
    generator = np.random.default_rng(7)
    triangle = generator.normal(size=length * (length + 1) // 2) * base / 4
    full = generator.normal(size=(length, length))
    full[length // 2 :, : length // 4] = np.nan
    full[0, 0], full[0, 1], full[0, 2] = 1e-30, -123456.789, -0.0
    return [Curve(curve, length), Triangle(triangle, length), Full(full)]


PROBE = """
import streamlit as st
from dashboard.matrix import Full, MatrixValues, Panel, Scale, matrix_row, minus

{matrices}

st.set_page_config(page_title="Probe", page_icon="📐", layout="wide")
length = int(st.query_params.get("length", {length}))
base = st.slider("Base", 1.0, 9.0, 3.0, 0.5)
fewer = st.checkbox("Fewer")
length //= 2 if st.checkbox("Half") else 1
names = ["Curve", "Triangle", "Full", "<b>Plain</b>"]
shown = matrices(length, base)
if "four" in st.query_params:
    shown = [shown[0], shown[0], shown[0], shown[1]]
else:
    shown.append(shown[0])
panels = [
    Panel(title=name, subtitle="<i>width 64</i>", values=values, boundary=length // 3,
          color="#0072b2")
    for name, values in zip(names, shown)
]
if fewer:
    panels = panels[1:3]
matrix_row(panels, key="first", scale=Scale(-1.0, 1.0, "diverging", "cosine similarity"),
           text_alternative="Three forms side by side")
st.text(f"run {{base}}")
window = Panel(title="Window", values=Full(shown[1].dense()[:6, :4]), row_start=100,
               row_label="position", column_label="dimension",
               column_ticks=[(0, "sin 0"), (1, "cos 0"), (2, "sin 1"), (3, "cos 1")])
matrix_row([window], key="second", scale=Scale(0.0, 1.0, "sequential", "value"), height=120,
           text_alternative="A window of a table")
if "four" not in st.query_params:
    difference = minus(matrices(length, base + 1.0)[1], matrices(length, base)[1])
    matrix_row([Panel(title="Change", values=difference)], key="difference",
               scale=Scale.around_zero([difference], "B minus A"), text_alternative="What changed")
"""


def written(folder: Path) -> Path:
    """Write the app into a folder and return its script."""
    script = folder / "probe.py"
    source = inspect.getsource(matrices)
    script.write_text(PROBE.format(matrices=source, length=LENGTH), encoding="utf-8")
    return script


PAINTED = """(rows) => {
  const hosts = [...document.querySelectorAll("[data-testid=stBidiComponentIsolated]")];
  const found = hosts.map((host) => host.shadowRoot?.querySelector(".matrix-row"));
  return found.filter((row) => Number(row?.dataset.paints) > 0).length == rows;
}"""


def opened(visitor: Visitor, query: str = "") -> Page:
    """Open the app in a new tab and wait until it is drawn for the first time."""
    page = visitor.tab()
    page.goto(f"{visitor.address}/?{query}")
    expect(row(page)).to_have_attribute("data-paints", "1", timeout=30_000)
    expect(row(page, "second")).to_have_attribute("data-paints", "1")
    page.wait_for_function(PAINTED, arg=2 if "four" in query else 3)
    page.wait_for_timeout(300)  # fonts and the last layout
    return page


def row(page: Page, key: str = "first") -> Locator:
    return page.locator(f".st-key-{key} .matrix-row")


def dense(base: float = 3.0, length: int = LENGTH) -> list[np.ndarray]:
    return [values.dense() for values in matrices(length, base)]


def centre(page: Page, panel: int, i: int, j: int, length: int = LENGTH) -> tuple[float, float]:
    box = row(page).locator("canvas[role=img]").nth(panel).bounding_box()
    assert box is not None
    return (
        box["x"] + (j + 0.5) / length * box["width"],
        box["y"] + (i + 0.5) / length * box["height"],
    )


def place(page: Page, panel: int, i: int, j: int) -> tuple[float, float]:
    """The middle of a cell on the screen, wherever the row is zoomed to."""
    top, height, left, width = zoom(page) or (0, LENGTH, 0, LENGTH)
    box = row(page).locator("canvas[role=img]").nth(panel).bounding_box()
    assert box is not None
    return (
        box["x"] + (j - left + 0.5) / width * box["width"],
        box["y"] + (i - top + 0.5) / height * box["height"],
    )


def zoom(page: Page, key: str = "first") -> tuple[int, ...] | None:
    """The region shown, as first row, rows, first column, columns; None for all cells."""
    text = row(page, key).get_attribute("data-zoom")
    return None if text is None else tuple(int(part) for part in text.split())


def drag(page: Page, panel: int, start: tuple[int, int], end: tuple[int, int]) -> None:
    """Draw a rectangle from one cell to another with the mouse, then take the mouse away."""
    page.mouse.move(*place(page, panel, *start))
    page.mouse.down()
    page.mouse.move(*place(page, panel, *end), steps=4)
    page.mouse.up()
    page.mouse.move(5, 5)


def sweep(page: Page, panel: int) -> np.ndarray:
    """(i, j, value) as read under the pointer at every cell that a panel shows, row by row."""
    read = """(root, panel) => {
        const plot = root.querySelectorAll(".plot")[panel], texts = [];
        const canvas = plot.querySelector("canvas"), box = canvas.getBoundingClientRect();
        for (let r = 0; r < canvas.height; r++) for (let c = 0; c < canvas.width; c++) {
          plot.dispatchEvent(new PointerEvent("pointermove", {
            clientX: box.left + (c + 0.5) / canvas.width * box.width,
            clientY: box.top + (r + 0.5) / canvas.height * box.height }));
          texts.push(root.querySelectorAll(".readout")[panel].textContent);
        }
        return texts;
      }"""
    return np.array([parsed(text) for text in row(page).evaluate(read, panel)], np.float64)


def readouts(page: Page) -> list[str]:
    return row(page).locator(".readout").all_inner_texts()


def parsed(text: str) -> tuple[int, int, np.float32]:
    place, value = text.replace(": no value", " = nan").split(" = ")
    i, j = place.strip("()").split(", ")
    return int(i), int(j), np.float32(value)


def same_float(left: object, right: object) -> bool:
    return bool(np.array_equal(np.float32(left), np.float32(right), equal_nan=True))


def set_base(page: Page, base: float) -> None:
    slider = page.locator('input[type=range][aria-label="Base"]')
    slider.focus()
    while float(slider.input_value()) != base:
        page.keyboard.press("ArrowRight" if float(slider.input_value()) < base else "ArrowLeft")
    expect(page.get_by_test_id("stText")).to_have_text(f"run {base}")
    page.wait_for_timeout(100)


def painted(
    page: Page, key: str = "first", selector: str = "canvas[role=img]", only: int | None = None
) -> list[np.ndarray]:
    """The canvases' own pixels, (rows, columns, 4) each; `only` one of them where the others are
    not asked for.
    """
    found = row(page, key).locator(selector)
    found = found if only is None else found.nth(only)
    return [
        np.frombuffer(base64.b64decode(pixels), np.uint8).reshape(height, width, 4)
        for height, width, pixels in found.evaluate_all(
            """canvases => canvases.map((canvas) => {
              const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
              let text = "";
              for (let n = 0; n < data.length; n += 8192)
                text += String.fromCharCode(...data.subarray(n, n + 8192));
              return [canvas.height, canvas.width, btoa(text)];
            })"""
        )
    ]


# All that can be seen and said of the rows, and where the page stands.
STATE = """() => [
  ...[...document.querySelectorAll("[data-testid=stBidiComponentIsolated]")].map((host) => {
    const root = host.shadowRoot?.querySelector(".matrix-row");
    if (!root) return null;
    const shown = [...root.querySelectorAll(".cross, .cell, .selection, .boundary, .panel, .hint")]
      .filter((one) => one.checkVisibility())
      .map((one) => [one.className, JSON.stringify(one.getBoundingClientRect())]);
    const said = root.cloneNode(true);
    for (const live of said.querySelectorAll("[role=status]")) live.remove();
    return [root.dataset.zoom, root.dataset.panels, said.textContent, shown];
  }),
  [...document.querySelectorAll("input")].map((input) => [input.value, input.checked]),
  document.querySelector(".stMain").scrollTop,
  document.activeElement.tagName,
]"""


def state(page: Page) -> list[Any]:
    found: list[Any] = page.evaluate(STATE)
    return found


def tidied(page: Page) -> list[Any]:
    """Take back what a pointer and keys did to the rows; return what is seen then."""
    page.keyboard.press("Escape")
    page.mouse.move(5, 5)
    for reset in page.get_by_role("button", name="Show all cells", disabled=False).all():
        reset.click()
        page.keyboard.press("Escape")
    page.mouse.move(5, 5)
    page.evaluate("() => { document.activeElement.blur(); }")
    page.evaluate("() => { document.querySelector('.stMain').scrollTop = 0; }")
    return state(page)


class Desk:
    """The small app open in one tab, lent to one test after another while it stays as it was."""

    def __init__(self, chromium: Browser, address: str) -> None:
        self.chromium, self.address = chromium, address
        self.visitor: Visitor | None = None

    def lend(self) -> Page:
        """The page as it is after its first drawing: a new one unless the last was left so."""
        if self.visitor is None:
            self.visitor = Visitor(self.chromium, self.address)
            self.page = opened(self.visitor)
            self.first = state(self.page)
        return self.page

    def take_back(self, *, whole: bool) -> None:
        """Tidy up, check for faults, and close what is not as it was."""
        assert self.visitor is not None
        faults = self.visitor.faults
        if faults or not whole or tidied(self.page) != self.first:
            self.close()
        assert faults == []

    def close(self) -> None:
        if self.visitor is not None:
            self.visitor.context.close()
        self.visitor = None
