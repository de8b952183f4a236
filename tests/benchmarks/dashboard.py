"""Keypress to paint and bytes per rerun: the Similarity page and its matrices beside a bare app.

python -m tests.benchmarks.dashboard [--rounds 15]

The bare app is one slider and one Altair line. "matrix row" is one slider and four panels of 256 x 256
at full precision, no page around them. The Similarity page is asked for another base and for another
dimension, with an untrained table, whose 256 rows are all new numbers then. All stand in one browser
and are asked in turn, one arrow key each; then the key is held for 15 repeats. Targets: no slower than
the bare app, at most 150 kB, and steps painted while a key is held.
Needs Chromium and playwright.
"""

import argparse
import statistics
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, Page

from tests import browser
from tests.benchmarks.timing import ratio, table

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

# The values that the Similarity page draws: three curves and one symmetric matrix, none repeated.
ROW = """
import numpy as np
import streamlit as st
import torch

from dashboard.matrix import Curve, Panel, Scale, Triangle, matrix_row

torch.set_num_threads(1)
st.set_page_config(layout="wide")
base = st.slider("Base", 100, 20_000, 10_000, 100)
offsets = np.arange(-255, 256)


def waves(width):
    angles = offsets[:, None] * float(base) ** (-np.arange(0, width, 2) / width)
    return Curve(np.cos(angles).mean(1), 256)


rows = torch.randn(256, 64, generator=torch.Generator().manual_seed(base), dtype=torch.float64)
rows /= rows.norm(dim=1, keepdim=True)
gram = rows @ rows.T
panels = {
    "Learned": Triangle.from_matrix((gram + gram.T) / 2),
    "Sinusoidal": waves(512),
    "RoPE": waves(64),
    "ALiBi": Curve(np.exp(-np.abs(offsets) / 16), 256),
}
matrix_row(
    [Panel(title=title, values=values, boundary=128) for title, values in panels.items()],
    key="row",
    scale=Scale(-1, 1, "diverging", "cosine similarity"),
    text_alternative="Cosine similarity of four schemes",
)
"""

# Notes when everything watched has been painted after a key: each matrix row when it says so, each
# chart when its marks change; then the next frame, and the task after it, has put it on the screen.
WATCH = """() => {
  window.keyed = null;
  window.painted = {};
  const note = (name) => {
    if (window.keyed === null || name in window.painted) return;
    const start = window.keyed;
    window.painted[name] = null;
    requestAnimationFrame(() => {
      const channel = new MessageChannel();
      channel.port1.onmessage = () => { window.painted[name] = performance.now() - start; };
      channel.port2.postMessage(0);
    });
  };
  document.addEventListener("keydown", () => {
    window.painted = {};
    window.keyed = performance.now();
  }, true);
  for (const host of document.querySelectorAll("[data-testid=stBidiComponentIsolated]")) {
    const row = host.shadowRoot?.querySelector(".matrix-row");
    if (row) new MutationObserver(() => note("matrices")).observe(
      row, { attributes: true, attributeFilter: ["data-paints"] });
  }
  document.querySelectorAll(".stVegaLiteChart").forEach((chart, index) => {
    new MutationObserver(() => note(`chart ${index + 1}`)).observe(
      chart, { attributes: true, subtree: true, childList: true, attributeFilter: ["d"] });
  });
}"""
PAINTED = "names => names.every(name => typeof window.painted[name] === 'number')"
# Counts the repaints from here on: of the matrices, or of the chart where there are none.
COUNT = """() => {
  window.repaints = 0;
  window.released = null;
  const count = () => { window.repaints += 1; window.latest = performance.now(); };
  const rows = [...document.querySelectorAll("[data-testid=stBidiComponentIsolated]")]
    .map((host) => host.shadowRoot?.querySelector(".matrix-row")).filter((row) => row);
  for (const row of rows) new MutationObserver(count).observe(
    row, { attributes: true, attributeFilter: ["data-paints"] });
  const line = document.querySelector(".stVegaLiteChart");
  if (!rows.length) new MutationObserver(count).observe(
    line, { attributes: true, subtree: true, childList: true, attributeFilter: ["d"] });
  document.addEventListener("keyup", () => { window.released = performance.now(); }, true);
}"""
SLIDER = 'input[type=range][aria-label="{}"]'  # of the sidebar where there is one
REPEATS, EVERY = 15, 33  # an arrow key held for half a second, milliseconds between two repeats
IDLE = (
    "() => document.querySelector('[data-testid=stApp]').dataset.testScriptState === 'notRunning'"
)


@dataclass
class Contender:
    """One page of one app in a tab: what must be painted, what was measured."""

    page: Page
    watched: tuple[str, ...]
    dial: str = "Base"
    received: list[int] = field(default_factory=list)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    sizes: list[int] = field(default_factory=list)
    largest: list[int] = field(default_factory=list)

    def press(self) -> None:
        """One arrow key on the slider; note seconds to each paint and the bytes that came."""
        self.page.bring_to_front()
        self.page.locator(SLIDER.format(self.dial)).first.focus()
        self.page.wait_for_timeout(120)
        self.received.clear()
        self.page.keyboard.press("ArrowRight")
        self.page.wait_for_function(PAINTED, arg=list(self.watched), timeout=30_000)
        self.page.wait_for_timeout(150)
        self.page.wait_for_function(IDLE, timeout=30_000)
        self.page.wait_for_timeout(150)
        painted = self.page.evaluate("window.painted")
        for name in self.watched:
            self.seconds.setdefault(name, []).append(painted[name] / 1_000)
        self.sizes.append(sum(self.received))
        self.largest.append(max(self.received, default=0))

    def hold(self) -> tuple[int, float]:
        """Hold an arrow key; return the repaints, and milliseconds from its release to the last."""
        self.page.bring_to_front()
        self.page.locator(SLIDER.format(self.dial)).first.focus()
        self.page.wait_for_timeout(500)
        self.page.evaluate(COUNT)
        for _ in range(REPEATS):
            self.page.keyboard.down("ArrowRight")  # the second and later ones are repeats
            self.page.wait_for_timeout(EVERY)
        self.page.keyboard.up("ArrowRight")
        before = -1
        while before != (before := self.page.evaluate("window.repaints")):
            self.page.wait_for_function(IDLE, timeout=60_000)
            self.page.wait_for_timeout(600)
        late: float = self.page.evaluate("window.latest - window.released")
        return before, max(0.0, late)


def open_tab(
    chromium: Browser, link: str, watched: tuple[str, ...], dial: str = "Base"
) -> Contender:
    """A tab on a link, drawn and watched, its messages counted."""
    page = chromium.new_context(viewport={"width": 1440, "height": 1000}).new_page()
    contender = Contender(page, watched, dial)
    page.on(
        "websocket",
        lambda link: link.on("framereceived", lambda data: contender.received.append(len(data))),
    )
    page.goto(link)
    places = ["[data-testid=stBidiComponentIsolated] .matrix-row"] * ("matrices" in watched)
    places += [".stVegaLiteChart svg"] * any(name.startswith("chart") for name in watched)
    for place in places:
        page.locator(place).first.wait_for(timeout=60_000)
    page.wait_for_function(IDLE, timeout=60_000)
    page.wait_for_timeout(1_000)
    page.evaluate(WATCH)
    return contender


def measure(rounds: int, chromium: Browser, addresses: dict[str, str]) -> None:
    """Press a key in every tab in turn, `rounds` times after one unmeasured one, and print."""
    bare, row = "bare app", "matrix row alone"
    base, dim = "Similarity page, base", "Similarity page, dimension"
    # A random table has a row for every position: four whole matrices.
    link = f"{addresses['dashboard']}/similarity?length=256&learned_source=random&train_length=256"
    drawn = ("matrices", "chart 1")
    tabs = {
        bare: open_tab(chromium, addresses["bare"], ("chart 1",)),
        row: open_tab(chromium, addresses["row"], ("matrices",)),
        base: open_tab(chromium, f"{link}&base=100", drawn),
        dim: open_tab(chromium, f"{link}&dim=8&heads=2", drawn, "Model dimension"),
    }
    for index in range(rounds + 1):
        for tab in tabs.values():
            tab.press()
        if index == 0:
            for tab in tabs.values():
                tab.seconds.clear()
                tab.sizes.clear()
                tab.largest.clear()
    samples = {bare: tabs[bare].seconds["chart 1"], row: tabs[row].seconds["matrices"]}
    for name in (base, dim):
        everything = zip(*tabs[name].seconds.values(), strict=True)
        samples[f"{name}: matrices"] = tabs[name].seconds["matrices"]
        samples[f"{name}: all of it"] = [max(times) for times in everything]
    print(
        table(
            "keypress to paint", {name: {"to bare": ratio(samples, name, bare)} for name in samples}
        )
    )
    print("\nmilliseconds".ljust(42) + "median  quartiles    range")
    for name, seconds in samples.items():
        low, middle, high = (1_000 * one for one in statistics.quantiles(seconds, n=4))
        least, most = 1_000 * min(seconds), 1_000 * max(seconds)
        print(f"{name:<41}{middle:6.0f}  {low:4.0f}-{high:<4.0f}  {least:4.0f}-{most:.0f}")
    print("\nbytes received per rerun: median, and the largest message of them (the matrices)")
    for name, tab in tabs.items():
        middle, largest = statistics.median(tab.sizes), statistics.median(tab.largest)
        print(f"{name:<32}{middle:9,.0f}{largest:9,.0f}")
    print(f"\nkey held for {REPEATS} repeats, one every {EVERY} ms")
    for name in (bare, row, base):
        repaints, late = tabs[name].hold()
        print(f"{name:<32}{repaints:3} repaints, the last {late:.0f} ms after the release")


def main() -> None:
    """Serve the three apps, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    path = browser.find_chromium()
    if path is None:
        raise SystemExit(browser.NO_BROWSER)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        scripts = {"bare": folder / "bare.py", "row": folder / "row.py"}
        scripts["bare"].write_text(BARE)
        scripts["row"].write_text(ROW)
        scripts["dashboard"] = browser.DASHBOARD
        addresses = {
            name: stack.enter_context(browser.served(folder / f"{name}.log", script))
            for name, script in scripts.items()
        }
        measure(rounds, stack.enter_context(browser.launched(path)), addresses)


if __name__ == "__main__":
    main()
