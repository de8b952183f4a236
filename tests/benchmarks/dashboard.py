"""Key press to paint, bytes per rerun and first loads: every page with a slider beside a bare app.

python -m tests.benchmarks.dashboard [--rounds 9]

The bare app is one slider and one Altair line. All pages stand in one browser at their default settings
and are asked in turn: one arrow key on the base, one on the model dimension. A page is painted when the
last of its charts, matrices and sentences that change has reached the screen. Then a key is held for 15
repeats. Before that, each page is loaded in a browser without a cache, the first one from a server that
has just answered; and two pages are exported. Targets: at most 2.5 times the bare app, steps painted
while a key is held; first page at most 3 s, others 1 s, an export 3 s.
"""

import statistics
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, Page

from tests.benchmarks.timing import options, table
from tests.browser import browser

BARE = """
import altair as alt
import numpy as np
import pandas as pd
import streamlit as st

st.set_page_config(layout="wide")
base = st.slider("Base", 100, 20_000, 10_000, 100)
x = np.arange(256)
y = np.cos(x[:, None] * float(base) ** (-np.arange(0, 64, 2) / 64)).mean(1)
line = alt.Chart(pd.DataFrame({"x": x, "y": y})).mark_line().encode(x="x", y="y")
st.altair_chart(line, key="line")
"""
PAGES = ("", "encoding", "overview", "similarity", "pca", "relative_offsets",
         "extrapolation?half=formula", "why_position", "claims")  # fmt: skip
DIALS = ("Base", "Model dimension")
SLIDER = 'input[type=range][aria-label="{}"]'
IDLE = "document.querySelector('[data-testid=stApp]').dataset.testScriptState === 'notRunning'"
BARE_DRAWN = "document.querySelector('.stVegaLiteChart svg, .stVegaLiteChart canvas') !== null"
EXPORTED = ("encoding", "pca")
REPEATS, EVERY = 15, 33  # an arrow key held for half a second, milliseconds between two repeats

# Notes when the latest change of a chart, a matrix or a sentence is on the screen: the next frame after
# it, and the task after that frame. `repaints` counts those of the first picture.
WATCH = """() => {
  const note = (first) => {
    if (first) window.repaints += 1;
    requestAnimationFrame(() => {
      const channel = new MessageChannel();
      channel.port1.onmessage = () => { window.painted = performance.now(); };
      channel.port2.postMessage(0);
    });
  };
  document.addEventListener("keydown", (event) => {
    if (!event.repeat) window.keyed = window.painted = performance.now();
  }, true);
  document.addEventListener("keyup", () => { window.released = performance.now(); }, true);
  const charts = [...document.querySelectorAll("[data-testid=stMain] .stVegaLiteChart")];
  const rows = [...document.querySelectorAll("[data-testid=stBidiComponentIsolated]")]
    .map((host) => host.shadowRoot?.querySelector(".matrix-row, canvas, svg")).filter((row) => row);
  [...rows, ...charts].forEach((picture, index) => {
    new MutationObserver(() => note(index === 0)).observe(picture, {
      attributes: true, subtree: true, childList: true,
      attributeFilter: ["d", "transform", "data-paints"] });
  });
  for (const text of document.querySelectorAll("[data-testid=stMain] .stMarkdown"))
    new MutationObserver(() => note(false)).observe(
      text, { subtree: true, childList: true, characterData: true });
}"""


@dataclass
class Tab:
    """One page in a tab, with the seconds and bytes that a key press on each slider took."""

    page: Page
    received: list[int] = field(default_factory=list)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    sizes: dict[str, list[int]] = field(default_factory=dict)

    def focus(self, dial: str) -> bool:
        """Focus a slider of this page; False if it has none of that name."""
        self.page.bring_to_front()
        slider = self.page.locator(SLIDER.format(dial))
        if slider.count():
            slider.first.focus()
            self.page.wait_for_timeout(120)
        return slider.count() > 0

    def settle(self) -> None:
        """Wait until the server has ended the run and the page has not changed for a while."""
        painted = -1.0
        while painted != (painted := self.page.evaluate("window.painted")):
            self.page.wait_for_timeout(150)
            self.page.wait_for_function(IDLE, timeout=60_000)
            self.page.wait_for_timeout(150)

    def press(self, dial: str, key: str) -> None:
        """Press an arrow key on a slider; note seconds until the last paint, and the bytes."""
        if not self.focus(dial):
            return
        self.received.clear()
        self.page.keyboard.press(key)
        self.settle()
        waited = self.page.evaluate("window.painted - window.keyed") / 1_000
        if waited == 0:  # the page draws the same at this value
            return
        self.seconds.setdefault(dial, []).append(waited)
        self.sizes.setdefault(dial, []).append(sum(self.received))

    def hold(self) -> tuple[int, float]:
        """Hold an arrow key; return the repaints, and milliseconds from its release to the last."""
        self.focus(DIALS[0])
        self.page.evaluate("window.repaints = 0")
        for _ in range(REPEATS):
            self.page.keyboard.down("ArrowLeft")  # the second and later ones are repeats
            self.page.wait_for_timeout(EVERY)
        self.page.keyboard.up("ArrowLeft")
        self.settle()
        late: float = self.page.evaluate("window.painted - window.released")
        return self.page.evaluate("window.repaints"), max(0.0, late)


def open_tab(chromium: Browser, link: str) -> Tab:
    """Open a page, wait until it is drawn, and watch it."""
    page = chromium.new_context(viewport={"width": 1440, "height": 900}).new_page()
    tab = Tab(page)
    page.on(
        "websocket",
        lambda socket: socket.on("framereceived", lambda data: tab.received.append(len(data))),
    )
    page.goto(link)
    page.locator("[data-testid=stMain] .stVegaLiteChart, h1").first.wait_for(timeout=60_000)
    page.wait_for_function(IDLE, timeout=60_000)
    page.wait_for_timeout(1_500)
    page.evaluate(WATCH)
    return tab


def first_loads(chromium: Browser, addresses: dict[str, str]) -> None:
    """Print the seconds until a page is drawn in a browser without a cache, and those of an export."""
    pages = {"start, the server's first": addresses["app"], "bare app": addresses["bare"]}
    pages |= {page or "start": f"{addresses['app']}/{page}" for page in PAGES}
    for name, address in pages.items():
        page = chromium.new_context(viewport={"width": 1440, "height": 900}).new_page()
        began = time.perf_counter()
        page.goto(address)
        page.wait_for_function(BARE_DRAWN if name == "bare app" else browser.DRAWN, timeout=60_000)
        print(f"first load of {name:<30}{time.perf_counter() - began:6.2f} s")
        if name in EXPORTED:
            page.get_by_role("button", name="Export").first.click()
            with page.expect_download(timeout=60_000) as download:
                button = page.get_by_role("button", name="Download this page")
                button.wait_for()
                began = time.perf_counter()
                button.click()
            download.value.path()
            print(f"  its export{time.perf_counter() - began:34.2f} s")
        page.context.close()


def measure(rounds: int, chromium: Browser, addresses: dict[str, str]) -> None:
    """Press a key in every tab in turn, `rounds` times after one unmeasured one, and print."""
    tabs = {"bare app": open_tab(chromium, addresses["bare"])}
    tabs |= {page or "start": open_tab(chromium, f"{addresses['app']}/{page}") for page in PAGES}
    for index in range(rounds + 1):
        for tab in tabs.values():
            for dial in DIALS:  # left and right in turn: the slider stays where it is
                tab.press(dial, ("ArrowLeft", "ArrowRight")[index % 2])
            if index == 0:
                tab.seconds.clear()
                tab.sizes.clear()
    bare = tabs["bare app"].seconds[DIALS[0]]
    rows = {}
    for name, tab in tabs.items():
        for dial, seconds in tab.seconds.items():
            if len(seconds) <= rounds / 2:
                continue
            rows[f"{name}, {dial.lower()}"] = {
                "median": 1_000 * statistics.median(seconds),
                "to bare": statistics.median(seconds) / statistics.median(bare),
                "kB": statistics.median(tab.sizes[dial]) / 1_000,
            }
    print(table("key press to paint, milliseconds", rows))
    print(f"\nkey held for {REPEATS} repeats, one every {EVERY} ms")
    for name in ("bare app", "similarity"):
        repaints, late = tabs[name].hold()
        print(f"{name:<12}{repaints:3} repaints, the last {late:.0f} ms after the release")


def main() -> None:
    rounds = options(__doc__, rounds=9).rounds
    path = browser.find_chromium()
    if path is None:
        raise SystemExit(browser.NO_BROWSER)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "bare.py").write_text(BARE)
        scripts = {"bare": folder / "bare.py", "app": browser.DASHBOARD}
        addresses = {
            name: stack.enter_context(browser.served(folder / f"{name}.log", script))
            for name, script in scripts.items()
        }
        chromium = stack.enter_context(browser.launched(path))
        first_loads(chromium, addresses)
        measure(rounds, chromium, addresses)


if __name__ == "__main__":
    main()
