"""Pages that follow a slider while it moves, beside the same pages without that, in one run.

python -m tests.benchmarks.previews [--rounds 6] [--sessions 25]

A count of 0 leaves its part out. First many sessions without a browser move the base, and those that are
followed ask for pictures meanwhile. Then every page that follows base is open twice in one browser, at 256
and at 2,048 positions: once as it is, and once without the part that lets pictures follow. Keys are pressed
on the base in the order with, without, without, with; then the base is dragged. The picture is what changes
first of the matrices and clocks of a page, or of its charts where it has none. What was asked of the server
meanwhile is asked again for its size.
"""

import asyncio
import gzip
import statistics
import tempfile
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Browser, Page

from tests.benchmarks.dashboard import IDLE, SLIDER
from tests.benchmarks.timing import options, table
from tests.browser import browser
from tests.browser.sliders import place
from tests.load import server
from tests.load.visitor import Visitor

PAGES = ("", "overview", "encoding", "similarity", "relative_offsets")
LENGTHS = (256, 2_048)
STOPS, EVERY = 25, 33  # of a drag, to and fro; milliseconds between two moves of the pointer
ASKED = 8  # stops of one request, as the browser asks
PAUSE, TURNS = 1.0, 8  # seconds between two turns of a session, and how many it makes

# A page without the part that follows: it never starts, and whatever it asks for has no answer.
WITHOUT = """
globalThis[Symbol.for("posenc.preview")] = { pictures: new Map(), ahead: new Set(), started: true };
const ask = window.fetch;
window.fetch = (url, ...rest) =>
  String(url).includes("/previews/") ? Promise.reject(new Error("left out")) : ask(url, ...rest);
"""
# Notes, in milliseconds, when the picture first reached the screen after a key, and when anything last did:
# the next frame after a change, and the task after that frame. While a pointer moves: the time of each
# frame, the stops of the slider and those at which the picture was drawn, and the time from a move to the
# picture.
WATCH = """name => {
  const onScreen = (then) => requestAnimationFrame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => then(performance.now());
    channel.port2.postMessage(0);
  });
  const slider = document.querySelector(`input[type=range][aria-label="${name}"]`);
  const stop = () => slider.getAttribute("aria-valuetext");
  const said = Object.assign(window, { first: 0, last: 0, keyed: 0, moved: 0, frames: [], waits: [] });
  window.stops = new Set();
  window.drawn = new Set();
  const pictured = () => {
    window.drawn.add(stop());
    const moved = window.moved;
    window.moved = 0;
    onScreen((now) => {
      said.first ||= now;
      said.last = now;
      if (moved) window.waits.push(now - moved);
    });
  };
  document.addEventListener("keydown", () => {
    said.first = said.last = 0;
    said.keyed = performance.now();
  }, true);
  new MutationObserver(() => {
    window.stops.add(stop());
    window.moved = window.pointed;
  }).observe(slider, { attributeFilter: ["aria-valuetext"] });
  document.addEventListener("pointermove", () => { window.pointed = performance.now(); }, true);
  const main = document.querySelector("[data-testid=stMain]");
  const rows = [...main.querySelectorAll("[data-testid=stBidiComponentIsolated]")]
    .map((host) => host.shadowRoot?.querySelector(".matrix-row, .clock")).filter((row) => row);
  const charts = [...main.querySelectorAll(".stVegaLiteChart")];
  const look = { attributes: true, subtree: true, childList: true, attributeFilter: ["d", "data-paints"] };
  for (const picture of rows.length ? rows : charts)
    new MutationObserver(pictured).observe(picture, look);
  for (const other of rows.length ? charts : [])
    new MutationObserver(() => onScreen((now) => { said.last = now; })).observe(other, look);
  for (const text of main.querySelectorAll(".stMarkdown"))
    new MutationObserver(() => onScreen((now) => { said.last = now; })).observe(
      text, { subtree: true, childList: true, characterData: true });
  const frame = (now) => { window.frames.push(now); requestAnimationFrame(frame); };
  requestAnimationFrame(frame);
}"""


@dataclass
class Tab:
    """A page in a tab: milliseconds from a key to the picture and to the last change, and of drags."""

    page: Page
    first: list[float] = field(default_factory=list)
    last: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    frames: list[float] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)

    def settle(self) -> None:
        """Wait until the server has ended the run and the page has not changed for a while."""
        last = -1.0
        while last != (last := self.page.evaluate("last")):
            self.page.wait_for_timeout(200)
            self.page.wait_for_function(IDLE, timeout=60_000)
            self.page.wait_for_timeout(200)

    def press(self, key: str) -> None:
        """Press an arrow key on the base; what a press draws is there before the next one."""
        self.page.bring_to_front()
        self.page.locator(SLIDER.format("Base")).first.focus()
        self.page.wait_for_timeout(600)  # pictures around this stop are here
        self.page.keyboard.press(key)
        self.page.wait_for_function("first > 0", timeout=60_000)
        self.settle()
        first, last = self.page.evaluate("[first - keyed, last - keyed]")
        self.first.append(first)
        self.last.append(last)

    def drag(self) -> None:
        """Take the base to other stops and back by the mouse, and release it where it was."""
        self.page.bring_to_front()
        points = [place(self.page, "Base", by) for by in (*range(STOPS), *range(STOPS, -1, -1))]
        self.page.mouse.move(*points[0])
        self.page.mouse.down()
        self.page.wait_for_timeout(600)
        self.page.evaluate("frames.length = waits.length = moved = 0; stops.clear(); drawn.clear()")
        for x, y in points:
            self.page.mouse.move(x, y)
            self.page.wait_for_timeout(EVERY)
        frames, waits, stops, drawn = self.page.evaluate(
            "[frames.at(-1) - frames[0], waits, stops.size, drawn.size]"
        )
        count = self.page.evaluate("frames.length")
        self.page.mouse.up()
        self.settle()
        self.frames.append(1_000 * (count - 1) / frames)
        self.waits += waits
        self.shares.append(drawn / stops)


def open_tab(chromium: Browser, link: str, *, follows: bool) -> Tab:
    """Open a page, wait until it is drawn, and watch it."""
    page = chromium.new_context(viewport={"width": 1440, "height": 900}).new_page()
    if not follows:
        page.add_init_script(f"(() => {{ {WITHOUT} }})()")
    page.goto(link)
    browser.settled(page)
    page.wait_for_timeout(1_000)
    page.evaluate(WATCH, "Base")
    return Tab(page)


def fetched(url: str) -> bytes:
    """Return what a server answers."""
    with urllib.request.urlopen(url) as answer:
        body: bytes = answer.read()
    return body


def answers(tab: Tab) -> dict[str, float]:
    """Return milliseconds per stop of what a page asked for, and kB of an answer as it is, and by gzip."""
    found = tab.page.evaluate(
        """() => performance.getEntriesByType("resource").filter(({ name }) => name.includes("/previews/"))
          .map(({ name, requestStart, responseEnd }) => [name, responseEnd - requestStart])"""
    )
    times = [wait / (url.count("%3B") + 1) for url, wait in found]
    bodies = [fetched(url) for url, _ in found]
    return {
        "ms a stop": statistics.median(times),
        "kB": statistics.median(map(len, bodies)) / 1_000,
        "kB by gzip": statistics.median(len(gzip.compress(body)) for body in bodies) / 1_000,
    }


def measure(rounds: int, chromium: Browser, address: str) -> None:
    """Press and drag on every page with and without previews, and print."""
    keys, drags, server_side = {}, {}, {}
    for page in PAGES:
        for length in LENGTHS:
            tabs = [
                open_tab(chromium, f"{address}/{page}?length={length}", follows=follows)
                for follows in (True, False)
            ]
            with_, without = tabs
            for n in range(rounds + 1):
                for tab in (with_, without, without, with_) if n else tabs:
                    tab.press("ArrowRight")
                    tab.press("ArrowLeft")
                if n == 0:  # the first is not measured
                    for tab in tabs:
                        tab.first.clear()
                        tab.last.clear()
            for tab in (with_, without, without, with_):
                tab.drag()
            name = f"{page or 'start'}, {length:,}"
            rows = {
                "picture": [statistics.median(tab.first) for tab in tabs],
                "last": [statistics.median(tab.last) for tab in tabs],
            }
            keys[name] = {
                f"{what}{beside}": value
                for what, (own, other) in rows.items()
                for beside, value in ((", ms", own), (" without", other), (" ratio", own / other))
            }
            drags[name] = {
                "frames/s": statistics.mean(with_.frames),
                "without": statistics.mean(without.frames),
                "stops drawn, %": 100 * statistics.mean(with_.shares),
                "move to picture, ms": statistics.median(with_.waits or [float("nan")]),
            }
            server_side[name] = answers(with_)
            for tab in tabs:
                tab.page.context.close()
            print(".", end="", flush=True)
    print(table("\nkey press", keys))
    print(table("\ndrag", drags))
    print(table("\nanswers", server_side))


async def sessions(address: str, count: int, *, follows: bool, first: int) -> list[float]:
    """Let sessions move the base, each at other positions; return the seconds of their reruns.

    follows: whether each asks for pictures around its stop meanwhile, as a browser does. first: number of
    positions of the first session.
    """
    seconds: list[float] = []
    loop, asked = asyncio.get_running_loop(), list[asyncio.Future[bytes]]()

    async def move(number: int) -> None:
        query = f"length={first + number}"
        async with Visitor(address, "similarity", query) as visitor:
            await visitor.look()
            stops = visitor.dials["Base"].stops
            await asyncio.sleep(PAUSE * number / count)
            for turn in range(TURNS):
                at = (number * 7 + turn * (ASKED + 1)) % (len(stops) - ASKED)
                if follows:
                    around = quote(";".join(stops[at : at + ASKED]), safe="")
                    url = f"{address}/previews/similarity/base/10%2C000/{around}?v=1&{query}"
                    asked.append(loop.run_in_executor(browsers, fetched, url))
                await asyncio.sleep(PAUSE / 4)  # a drag, which ends whether or not they are here
                seconds.append((await visitor.turn("Base", at)).seconds)
                await asyncio.sleep(PAUSE)

    with ThreadPoolExecutor(count) as browsers:
        await asyncio.gather(*(move(number) for number in range(count)))
        await asyncio.gather(*asked)
    return seconds


def together(rounds: int, count: int) -> None:
    """Print how long reruns take where many sessions drag at once, with and without pictures."""
    found: dict[bool, list[float]] = {True: [], False: []}
    with tempfile.TemporaryDirectory() as folder, server.served(Path(folder)) as served:
        for n, follows in enumerate([True, False, False, True] * max(1, rounds // 4)):
            first = 100 + 30 * n  # nothing has been computed for another session
            found[follows] += asyncio.run(
                sessions(served.address, count, follows=follows, first=first)
            )
    p50 = {follows: 1_000 * statistics.median(seconds) for follows, seconds in found.items()}
    row = {"with, ms": p50[True], "without": p50[False], "ratio": p50[True] / p50[False]}
    print(table("\nrerun, median", {f"{count} sessions": row}), flush=True)


def main() -> None:
    asked = options(__doc__, rounds=6, sessions=25)
    path = browser.find_chromium()
    if path is None:
        raise SystemExit(browser.NO_BROWSER)
    if asked.sessions:
        together(asked.rounds, asked.sessions)
    if not asked.rounds:
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        address = stack.enter_context(browser.served(folder / "app.log"))
        measure(asked.rounds, stack.enter_context(browser.launched(path)), address)


if __name__ == "__main__":
    main()
