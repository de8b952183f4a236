"""Key press to paint, bytes per rerun and first loads: every page with a slider beside a bare app.

python -m tests.benchmarks.dashboard [--rounds 20] [--pages similarity,pca] [--beside FOLDER]

The bare app is one slider and one Altair line. Each page stands in a browser beside the bare app and is
asked in turn with it, one arrow key on the base and one on the model dimension, so that a load of the
machine slows both. A page is painted when the last of its charts, matrices and sentences that change has
reached the screen; its picture, when the first chart or matrix has: where a page has previews, that is
before the server is heard. The ratio of the medians has its 95 percent interval. A busy machine makes wall
time noise: the processor time of a press, of the page's main thread and of the server, has a ratio of its
own. FOLDER is another working tree of this repository, whose pages are pressed in the same rounds.

Then a key is held for 15 repeats. Before that, each page is loaded in a browser without a cache, the first
one from a server that has just answered; and two pages are exported. Targets: at most 2.5 times the bare
app, steps painted while a key is held; first page at most 3 s, others 1 s, an export 3 s.
"""

import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, Page

from tests.benchmarks.timing import interval, options, table
from tests.browser import browser
from tests.server.served_process import ROOT, Served, server

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
  const note = (first, picture) => {
    if (first) window.repaints += 1;
    requestAnimationFrame(() => {
      const channel = new MessageChannel();
      channel.port1.onmessage = () => {
        window.painted = performance.now();
        if (picture) window.pictured ??= window.painted;
      };
      channel.port2.postMessage(0);
    });
  };
  document.addEventListener("keydown", (event) => {
    if (event.repeat) return;
    window.keyed = window.painted = performance.now();
    window.pictured = null;
  }, true);
  document.addEventListener("keyup", () => { window.released = performance.now(); }, true);
  const charts = [...document.querySelectorAll("[data-testid=stMain] .stVegaLiteChart")];
  const rows = [...document.querySelectorAll("[data-testid=stBidiComponentIsolated]")]
    .map((host) => host.shadowRoot?.querySelector(".matrix-row, canvas, svg")).filter((row) => row);
  [...rows, ...charts].forEach((picture, index) => {
    new MutationObserver(() => note(index === 0, true)).observe(picture, {
      attributes: true, subtree: true, childList: true,
      attributeFilter: ["d", "transform", "data-paints"] });
  });
  for (const text of document.querySelectorAll("[data-testid=stMain] .stMarkdown"))
    new MutationObserver(() => note(false, false)).observe(
      text, { subtree: true, childList: true, characterData: true });
}"""


@dataclass(frozen=True)
class Press:
    """The cost of a key press: milliseconds to the last paint, to that of a picture and of two processors,
    and bytes.
    """

    painted: float
    picture: float
    page: float
    server: float
    size: int

    @property
    def processor(self) -> float:
        return self.page + self.server


@dataclass
class Tab:
    """One page in a tab, with its presses by slider and round. pid: of its server."""

    page: Page
    pid: int
    presses: dict[str, dict[int, Press]] = field(default_factory=dict)
    received: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._link = self.page.context.new_cdp_session(self.page)
        self._link.send("Performance.enable", {"timeDomain": "threadTicks"})

    def processor(self) -> tuple[float, float]:
        """Return the milliseconds of processor time so far of the page's main thread and of the server."""
        metrics = self._link.send("Performance.getMetrics")["metrics"]
        seconds = next(each["value"] for each in metrics if each["name"] == "TaskDuration")
        threads = Path(f"/proc/{self.pid}/task").glob("*/schedstat")
        return 1e3 * seconds, sum(int(thread.read_text().split()[0]) for thread in threads) / 1e6

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

    def press(self, dial: str, key: str, turn: int) -> None:
        """Press an arrow key on a slider, and note what it took as that of a round."""
        if not self.focus(dial):
            return
        self.received.clear()
        before = self.processor()
        self.page.keyboard.press(key)
        self.settle()
        painted, picture = self.page.evaluate(
            "[window.painted - window.keyed, (window.pictured ?? window.painted) - window.keyed]"
        )
        own, of_server = (now - then for now, then in zip(self.processor(), before, strict=True))
        if painted > 0:  # else the page draws the same at this value
            press = Press(painted, picture, own, of_server, sum(self.received))
            self.presses.setdefault(dial, {})[turn] = press

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


def open_tab(chromium: Browser, served: Served, link: str = "") -> Tab:
    """Open a page, wait until it is drawn, and watch it."""
    page = chromium.new_context(viewport={"width": 1440, "height": 900}).new_page()
    tab = Tab(page, served.process.pid)
    page.on(
        "websocket",
        lambda socket: socket.on("framereceived", lambda data: tab.received.append(len(data))),
    )
    page.goto(f"{served.address}/{link}")
    page.locator("[data-testid=stMain] .stVegaLiteChart, h1").first.wait_for(timeout=60_000)
    page.wait_for_function(IDLE, timeout=60_000)
    page.wait_for_timeout(1_500)
    page.evaluate(WATCH)
    return tab


def first_loads(chromium: Browser, bare: Served, app: Served) -> None:
    """Print the seconds until a page is drawn in a browser without a cache, and those of an export."""
    pages = {"start, the server's first": app.address, "bare app": bare.address}
    pages |= {page or "start": f"{app.address}/{page}" for page in PAGES}
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


def compared(name: str, tab: Tab, bare: Tab) -> dict[str, dict[str, float]]:
    """Return medians of a page's presses, and their ratios to the bare app's with 95 percent intervals."""
    rows = {}
    for dial, presses in tab.presses.items():
        others = bare.presses[DIALS[0]]
        rounds = sorted(presses.keys() & others.keys())
        if len(rounds) < 3:
            continue
        row = {"presses": float(len(rounds))}
        for what in ("painted", "picture", "processor"):
            own, other = ([getattr(of[n], what) for n in rounds] for of in (presses, others))
            low, high = interval(own, other)
            ratio = statistics.median(own) / statistics.median(other)
            row |= {f"{what}, ms": statistics.median(own), f"{what}, ratio": ratio}
            row |= {f"{what}, from": low, f"{what}, to": high}
        row["server, ms"] = statistics.median(presses[n].server for n in rounds)
        row["kB"] = statistics.median(presses[n].size for n in rounds) / 1_000
        rows[f"{name}, {dial.lower()}"] = row
    return rows


def measure(
    rounds: int, pages: Sequence[str], chromium: Browser, bare: Served, apps: dict[str, Served]
) -> None:
    """Press keys in the bare app and in each page in turn, `rounds` times after one unmeasured one."""
    for page in pages:
        tabs = {"bare app": open_tab(chromium, bare)}
        tabs |= {name: open_tab(chromium, app, page) for name, app in apps.items()}
        for turn in range(rounds + 1):
            for tab in [*tabs.values()][
                :: (-1) ** turn
            ]:  # to and fro, so that none is always first
                for dial in DIALS:  # left and right in turn: the slider stays where it is
                    tab.press(dial, ("ArrowLeft", "ArrowRight")[turn % 2], turn)
                if turn == 0:
                    tab.presses.clear()
        rows: dict[str, dict[str, float]] = {}
        for name, tab in tabs.items():
            title = name if name == "bare app" else f"{page or 'start'}{name}"
            rows |= compared(title, tab, tabs["bare app"])
            tab.page.context.close()
        print(table("\nkey press to paint", rows), flush=True)


def held(chromium: Browser, bare: Served, app: Served) -> None:
    """Hold a key in the bare app and on Similarity, and print what was painted meanwhile."""
    print(f"\nkey held for {REPEATS} repeats, one every {EVERY} ms")
    tabs = {
        "bare app": open_tab(chromium, bare),
        "similarity": open_tab(chromium, app, "similarity"),
    }
    for name, tab in tabs.items():
        repaints, late = tab.hold()
        print(f"{name:<12}{repaints:3} repaints, the last {late:.0f} ms after the release")


def main() -> None:
    asked = options(__doc__, rounds=20, pages=",".join(PAGES), beside="")
    path = browser.find_chromium()
    if path is None:
        raise SystemExit(browser.NO_BROWSER)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "bare.py").write_text(BARE)

        def serve(name: str, script: Path, tree: Path = ROOT) -> Served:
            module = ("streamlit", "run", str(script))
            started = server(folder, name, module, cwd=tree, PYTHONPATH=str(tree))
            return stack.enter_context(started)

        bare, apps = serve("bare", folder / "bare.py"), {"": serve("app", browser.DASHBOARD)}
        if asked.beside:
            tree = Path(asked.beside).resolve()
            apps[" beside"] = serve("beside", tree / "dashboard" / "app.py", tree)
        chromium = stack.enter_context(browser.launched(path))
        if asked.pages == ",".join(PAGES):
            first_loads(chromium, bare, apps[""])
        measure(asked.rounds, asked.pages.split(","), chromium, bare, apps)
        held(chromium, bare, apps[""])


if __name__ == "__main__":
    main()
