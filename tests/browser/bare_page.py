"""Load the JavaScript of the matrices and the clocks in a bare page: no Streamlit and no server.

The tests answer the page's own requests. A component is called as Streamlit calls it, with its shadow
root and its bytes. The example row has one matrix of each form.
"""

import base64
import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from playwright.sync_api import Browser, Locator, Page, Route

from dashboard.components.clock import component as clock
from dashboard.components.matrix import Curve, Full, MatrixValues, Panel, Row, Scale, Triangle
from dashboard.components.matrix import component as matrix
from dashboard.components.matrix.colours import KINDS, shades
from dashboard.components.matrix.payload import encode
from tests.browser.browser import HOST, Visitor, row

LENGTH = 48
TITLES = ["Curve", "Triangle", "Full", "<b>Plain</b>"]
BOUNDARY = LENGTH // 3

_HTML = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Bare page</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
  :root {
    --st-text-color: #0a1017; --st-background-color: #ffffff; --st-font: sans-serif;
    --st-primary-color: #0b62a8; --st-secondary-background-color: #f3f5f8;
  }
  @media (prefers-color-scheme: dark) { :root {
    --st-text-color: #e6ebf0; --st-background-color: #10161d; --st-primary-color: #5aa9e6;
    --st-secondary-background-color: #1a222c;
  } }
  body { margin: 16px; background: var(--st-background-color); color: var(--st-text-color); }
</style>
<script type="module">
  import matrix from "/matrix_code.js";
  import matrixRow from "/matrix_row.js";
  import clock from "/clock_code.js";
  import clockRow from "/clock_row.js";
  const code = { matrix, clock }, component = { matrix: matrixRow, clock: clockRow };
  const unused = () => { throw new Error("the component sends nothing to the server"); };
  window.bringCode = (kind, style) => code[kind]({ data: { style } });
  window.show = (kind, key, data) => {
    let host = document.querySelector(`.st-key-${key}`);
    if (!host) {
      host = document.createElement("div");
      host.className = `st-key-${key}`;
      host.attachShadow({ mode: "open" });
      document.body.append(host);
    }
    // As in a message of Streamlit, bytes start at an odd address.
    if (typeof data === "string")
      data = Uint8Array.from("\\0" + atob(data), (c) => c.charCodeAt(0)).subarray(1);
    component[kind]({
      parentElement: host.shadowRoot, data, key,
      setStateValue: unused, setTriggerValue: unused,
    });
  };
</script></html>"""

_RAISED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
_SHADES = json.dumps({kind: shades(kind).tobytes().hex() for kind in KINDS})
_MATRIX_FILES = [(matrix.FOLDER / f"{name}.js").read_text("utf-8") for name in matrix.SCRIPTS]
_FILES = {
    "matrix_code": "\n".join([f"const SHADE_BYTES = {_SHADES};", *_MATRIX_FILES]),
    "matrix_row": matrix.HAND_OVER,
    "clock_code": clock.SCRIPT,
    "clock_row": clock.HAND_OVER,
}
_STYLES = {"matrix": matrix.FOLDER / "matrix.css", "clock": clock.FOLDER / "clock.css"}
STYLES = {kind: file.read_text("utf-8") for kind, file in _STYLES.items()}


def open_bare(chromium: Browser, **kind: Any) -> tuple[Visitor, Page]:
    """Open a page that this file answers; `kind` is that of the visitor's context."""
    visitor = Visitor(chromium, f"http://{HOST}", **kind)
    visitor.context.route(f"http://{HOST}/**", _answer)
    page = visitor.tab()
    page.goto(f"{visitor.address}/bare")
    for code in STYLES:
        bring_code(page, code)
    return visitor, page


def _answer(route: Route) -> None:
    name = route.request.url.rpartition("/")[2].removesuffix(".js")
    if name in _FILES:
        route.fulfill(body=_FILES[name], content_type="text/javascript")
    else:
        route.fulfill(body=_HTML if name == "bare" else "", content_type="text/html")


def bring_code(page: Page, kind: str) -> None:
    """Call the code component of "matrix" or "clock" as Streamlit does once it has arrived."""
    page.evaluate("([kind, style]) => bringCode(kind, style)", [kind, STYLES[kind]])


def show_data(page: Page, kind: str, key: str, data: bytes | dict[str, Any]) -> None:
    """Call the row component with this data; with the same key this is a rerun."""
    sent = base64.b64encode(data).decode() if isinstance(data, bytes) else data
    page.evaluate("args => show(...args)", [kind, key, sent])


def show_row(
    page: Page, panels: Sequence[Panel], scale: Scale | None = None, *, key: str = "first",
    height: int | None = None, title: str = "", heading: str = "", beside: Sequence[str] = (),
) -> None:  # fmt: skip
    """Draw a row of matrices under this key."""
    scale = scale or Scale(-1.0, 1.0, "diverging", "cosine similarity")
    sent = Row(panels=panels, key=key, scale=scale, text_alternative="Three forms side by side",
               height=height, title=title, heading=heading, beside=beside)  # fmt: skip
    show_data(page, "matrix", key, encode(sent))


def example_matrices(base: float = 3.0, length: int = LENGTH) -> list[MatrixValues]:
    """Return one matrix of each form, the last one of the first form again."""
    offsets = np.arange(1 - length, length)
    curve = np.exp(-np.abs(offsets) / 9) + np.sin(offsets / base) / 3  # not even: shows the sign
    generator = np.random.default_rng(7)
    triangle = generator.normal(size=length * (length + 1) // 2) * base / 4
    full = generator.normal(size=(length, length))
    full[length // 2 :, : length // 4] = np.nan
    full[0, :3] = 1e-30, -123456.789, -0.0
    stationary = Curve(curve.astype(np.float32), length)
    others = Triangle(triangle.astype(np.float32), length), Full(full.astype(np.float32))
    return [stationary, *others, stationary]


def example_panels(base: float = 3.0, length: int = LENGTH) -> list[Panel]:
    """Return the example matrices as panels with a training length, a colour and texts."""
    return [
        Panel(title=title, subtitle="<i>width 64</i>", values=values, boundary=length // 3,
              color="#0072b2")
        for title, values in zip(TITLES, example_matrices(base, length), strict=True)
    ]  # fmt: skip


def dense(base: float = 3.0, length: int = LENGTH) -> list[np.ndarray]:
    """Return the example matrices entry by entry."""
    return [values.dense() for values in example_matrices(base, length)]


def zoom(page: Page, key: str = "first") -> tuple[int, ...] | None:
    """Return the region shown, as first row, rows, first column, columns; None for all cells."""
    text = row(page, key).get_attribute("data-zoom")
    return None if text is None else tuple(int(part) for part in text.split())


def cell_centre(page: Page, panel: int, i: int, j: int) -> tuple[float, float]:
    """Return the middle of a cell on the screen, in a zoomed row too."""
    top, rows, left, columns = zoom(page) or (0, LENGTH, 0, LENGTH)
    box = box_of(canvases(page).nth(panel))
    x = box["x"] + (j - left + 0.5) / columns * box["width"]
    return x, box["y"] + (i - top + 0.5) / rows * box["height"]


def drag(page: Page, panel: int, start: tuple[int, int], end: tuple[int, int]) -> None:
    """Draw a rectangle with the mouse, then take the mouse away."""
    page.mouse.move(*cell_centre(page, panel, *start))
    page.mouse.down()
    page.mouse.move(*cell_centre(page, panel, *end), steps=4)
    page.mouse.up()
    page.mouse.move(5, 5)


def box_of(element: Locator) -> dict[str, float]:
    """Return x, y, width and height of a visible element."""
    box = element.bounding_box()
    assert box is not None
    return {name: float(box[name]) for name in ("x", "y", "width", "height")}


def canvases(page: Page, key: str = "first") -> Locator:
    """Return the pictures of the matrices of a row."""
    return row(page, key).locator("canvas[role=img]")


def readout(page: Page, panel: int = 0) -> Locator:
    return row(page, "first").locator(".readout").nth(panel)


def readouts(page: Page, key: str = "first") -> list[tuple[int, int, np.float32]]:
    """Return what is read under the crosshair: row, column and value of every panel."""
    return [parsed(text) for text in row(page, key).locator(".readout").all_inner_texts()]


def parsed(text: str) -> tuple[int, int, np.float32]:
    """Return row, column and value of a readout; NaN where it says that there is no value."""
    cell, value = text.replace(": no value", " = nan").split(" = ")
    i, j = cell.strip("()").split(", ")
    return int(i), int(j), np.float32(value.replace("\u00a0×\u00a010", "e").translate(_RAISED))


def same_values(left: object, right: object) -> bool:
    """Return whether both are the same float32 numbers: values are sent and read, not computed."""
    ours, theirs = (np.asarray(each, np.float32) for each in (left, right))
    return np.array_equal(ours, theirs, equal_nan=True)


def check_cell(page: Page, i: int, j: int, *matrices: np.ndarray) -> None:
    """Assert that every panel reads this cell, exactly; of the example's matrices unless given."""
    for (r, c, value), cells in zip(readouts(page), matrices or dense(), strict=True):
        assert (r, c) == (i, j)
        assert same_values(value, cells[i, j])


def places(page: Page, selector: str) -> list[dict[str, float]]:
    """Return where the parts of the row are."""
    boxes = "found => found.map((one) => one.getBoundingClientRect().toJSON())"
    return row(page, "first").locator(selector).evaluate_all(boxes)


def sweep(page: Page) -> list[np.ndarray]:
    """Return the readouts of all panels with the pointer on every cell shown, row by row.

    The pointer goes over one panel after the other; each matrix is an array of (i, j, value).
    """
    read = """root => {
        const plots = [...root.querySelectorAll(".plot")];
        const readouts = [...root.querySelectorAll(".readout")];
        const boxes = plots.map((plot) => plot.querySelector("canvas").getBoundingClientRect());
        const { width, height } = plots[0].querySelector("canvas");
        const texts = plots.map(() => []);
        for (let r = 0; r < height; r++) for (let c = 0; c < width; c++) {
          const n = (r + c) % plots.length;
          plots[n].dispatchEvent(new PointerEvent("pointermove", {
            clientX: boxes[n].left + (c + 0.5) / width * boxes[n].width,
            clientY: boxes[n].top + (r + 0.5) / height * boxes[n].height }));
          readouts.forEach((readout, m) => texts[m].push(readout.textContent));
        }
        return texts;
      }"""
    texts: list[list[str]] = row(page, "first").evaluate(read)
    return [np.array([parsed(text) for text in panel], np.float64) for panel in texts]


def hear_keys(page: Page) -> Callable[[], list[str]]:
    """Note the keys that the document hears from now on."""
    page.evaluate("window.keys = []; addEventListener('keydown', (event) => keys.push(event.key))")
    return lambda: [*page.evaluate("keys")]


def painted(page: Page, key: str = "first", selector: str = "canvas[role=img]") -> list[np.ndarray]:
    """Return the canvases' own pixels, (rows, columns, 4) each."""
    found = row(page, key).locator(selector).evaluate_all(
        """canvases => canvases.map((canvas) => {
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          return [canvas.height, canvas.width, [...data]];
        })"""
    )  # fmt: skip
    return [np.array(data, np.uint8).reshape(height, width, 4) for height, width, data in found]
