"""Keypress to paint and bytes per rerun: the Similarity page and its matrices beside a bare app.

python -m tests.benchmarks.dashboard [--rounds 15]

The bare app is one slider and one Altair line. The Similarity page is asked for another base and for
another dimension, with an untrained table, whose 256 rows are all new numbers then. All stand in one
browser and are asked in turn, one arrow key each; then the key is held for 15 repeats. Targets: no slower
than the bare app, at most 150 kB, and steps painted while a key is held.
"""

import statistics
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, Page

from tests.benchmarks.timing import options, ratio, table
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
IDLE = "document.querySelector('[data-testid=stApp]').dataset.testScriptState === 'notRunning'"


@dataclass
class Contender:
    """One page of one app in a tab: what must be painted, what was measured."""

    page: Page
    watched: tuple[str, ...]
    dial: str = "Base"
    received: list[int] = field(default_factory=list)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    sizes: list[int] = field(default_factory=list)

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
    bare, base, dim = "bare app", "Similarity page, base", "Similarity page, dimension"
    # A random table has a row for every position: four whole matrices.
    link = f"{addresses['dashboard']}/similarity?length=256&learned_source=random&train_length=256"
    drawn = ("matrices", "chart 1")
    tabs = {
        bare: open_tab(chromium, addresses["bare"], ("chart 1",)),
        base: open_tab(chromium, f"{link}&base=100", drawn),
        dim: open_tab(chromium, f"{link}&dim=8&heads=2", drawn, "Model dimension"),
    }
    for index in range(rounds + 1):
        for tab in tabs.values():
            tab.press()
            if index == 0:  # is not measured
                tab.seconds.clear()
                tab.sizes.clear()
    samples = {bare: tabs[bare].seconds["chart 1"]}
    for name in (base, dim):
        everything = zip(*tabs[name].seconds.values(), strict=True)
        samples[f"{name}: matrices"] = tabs[name].seconds["matrices"]
        samples[f"{name}: all of it"] = [max(times) for times in everything]
    rows = {}
    for name, seconds in samples.items():
        rows[name] = {"median": 1_000 * statistics.median(seconds)}
        rows[name] |= {"to bare": ratio(samples, name, bare)}
    print(table("keypress to paint, milliseconds", rows))
    print("\nbytes received per rerun, median")
    for name, tab in tabs.items():
        print(f"{name:<32}{statistics.median(tab.sizes):9,.0f}")
    print(f"\nkey held for {REPEATS} repeats, one every {EVERY} ms")
    for name in (bare, base):
        repaints, late = tabs[name].hold()
        print(f"{name:<32}{repaints:3} repaints, the last {late:.0f} ms after the release")


def main() -> None:
    rounds = options(__doc__, rounds=15).rounds
    path = browser.find_chromium()
    if path is None:
        raise SystemExit(browser.NO_BROWSER)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        scripts = {"bare": folder / "bare.py", "dashboard": browser.DASHBOARD}
        scripts["bare"].write_text(BARE)
        addresses = {
            name: stack.enter_context(browser.served(folder / f"{name}.log", script))
            for name, script in scripts.items()
        }
        measure(rounds, stack.enter_context(browser.launched(path)), addresses)


if __name__ == "__main__":
    main()
