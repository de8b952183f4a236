"""A served script and a real browser on it, for browser tests, screenshots and benchmarks.

The server runs the way a team runs it, `streamlit run dashboard/app.py` in the repository with its
own configuration; a script other than the dashboard runs in the same way.
"""

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from playwright.sync_api import Browser, Locator, Page, Response, expect, sync_playwright

from dashboard.menu import PATHS, TITLES
from tests.server.served_process import HOST, ROOT, server

expect.set_options(timeout=30_000)  # a busy machine shows late what it shows

DASHBOARD = ROOT / "dashboard" / "app.py"
# Every window else prepares a list of suggestions for an address bar that nobody sees, a renderer of its
# own that takes a fifth of what a page takes. The others are Playwright's: the last list is the one heard.
_OFF = (
    "WebUIOmniboxPopup,WebUIOmniboxAimPopup,AvoidUnnecessaryBeforeUnloadCheckSync,"
    "DestroyProfileOnBrowserClose,HttpsUpgrades,HttpsFirstBalancedModeAutoEnable,LensOverlay,"
    "MediaRouter,PaintHolding,ThirdPartyStoragePartitioning,AvoidCorsURLLoaderRestartOnRedirect,"
    "TcpPortRandomizationWin,OptimizationHints,NetworkTimeServiceQuerying,AimEnabled,PreconnectToSearch"
)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
FLAGS += [f"--disable-features={_OFF}"]
NO_BROWSER = "no Chromium is installed, so nothing can be drawn"

# A desk, a tablet and a phone; a phone says that it is one.
SCREENS: dict[int, dict[str, Any]] = {
    1440: {"viewport": {"width": 1440, "height": 1000}},
    768: {"viewport": {"width": 768, "height": 1024}},
    390: {
        "viewport": {"width": 390, "height": 844},
        "is_mobile": True,
        "has_touch": True,
        "user_agent": "Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 "
        "(KHTML, like Gecko) Chrome/156.0.0.0 Mobile Safari/537.36",
    },
}

# Titles of pages that the menu calls otherwise.
OWN_TITLES = {
    "start": "How Transformers know where words are",
    "lessons": "1. Swap two words",
}
# Every page by its path: the name of its link, its title.
PAGES = {PATHS[folder]: (name, OWN_TITLES.get(folder, name)) for folder, name in TITLES.items()}

# On a deep link the browser does not know yet where the app's root is, so Streamlit asks beside the
# page first, hears 404 and asks again at the root. Exactly these requests and no others.
PROBES = re.compile(
    rf"http://{HOST}:\d+/(?:{'|'.join(filter(None, PAGES))})/_stcore/(?:health|host-config)"
)

DRAWN = """() => {
  const app = document.querySelector("[data-testid=stApp]");
  if (app?.dataset.testScriptState !== "notRunning") return false;
  if (app.dataset.testConnectionState !== "CONNECTED") return false;
  if (!document.querySelector("[data-testid=stMain] h1")) return false;
  if (document.querySelector("[data-testid=stSkeleton]")) return false;
  // A chart in a tab that is not chosen has no size, and is drawn once it is chosen.
  const charts = [...document.querySelectorAll(".stVegaLiteChart")].filter(
    (chart) => chart.checkVisibility());
  if (!charts.every((chart) => chart.querySelector("canvas, svg"))) return false;
  const rows = [...document.querySelectorAll("[data-testid=stBidiComponentIsolated]")];
  const drawn = rows.map((host) => host.shadowRoot?.querySelector(".matrix-row"));
  const clocks = rows.map((host) => host.shadowRoot?.querySelector(".clock"));
  const shown = [...drawn, ...clocks].filter((row) => row);
  return shown.every((row) => Number(row.dataset.paints) > 0);
}"""


def find_chromium() -> str | None:
    """Return the path of an installed Chromium, if there is one."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
    return next((path for name in names if (path := shutil.which(name))), None)


def find_nginx() -> str | None:
    """Return the path of an installed nginx, if there is one."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")


@contextmanager
def served(log: Path, script: Path = DASHBOARD) -> Iterator[str]:
    """Serve a script on a free port, its output in `log`; yields the address."""
    with server(log.parent, log.stem, ("streamlit", "run", str(script))) as one:
        yield one.address
        assert one.process.poll() is None, f"it ended by itself: {one.log.read_text()[-2_000:]}"


@contextmanager
def launched(path: str) -> Iterator[Browser]:
    """A running Chromium."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


class Visitor:
    """Somebody at a browser: opens pages of the dashboard and notes every fault on the way.

    `faults` holds console errors, errors of scripts and requests to any other host; a test that
    expects one takes it out. The answers 404 to `PROBES` are Streamlit's own and not counted; all
    that was refused is in `refused`.
    """

    def __init__(self, chromium: Browser, address: str, **kind: Any) -> None:
        self.address = address
        self.faults: list[str] = []
        self.requests: list[str] = []
        self.refused: list[str] = []
        self.context = chromium.new_context(**(SCREENS[1440] | kind))

    def leave(self) -> None:
        """Close all tabs and forget what was noted, so that the context can be lent again."""
        for page in self.context.pages:
            page.close()
        for notes in (self.faults, self.requests, self.refused):
            notes.clear()

    def tab(self) -> Page:
        """Open an empty tab that is watched."""
        page = self.context.new_page()
        page.on("request", lambda request: self._asked(request.url))
        page.on("response", self._answered)
        page.on("websocket", lambda link: self._asked(link.url))
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("console", self._heard)
        return page

    def open(self, link: str = "") -> Page:
        """Open a link, such as "pca?base=500", in a new tab and wait until it is drawn."""
        page = self.tab()
        page.goto(f"{self.address}/{link}")
        settled(page)
        return page

    def _asked(self, url: str) -> None:
        self.requests.append(url)
        if urlparse(url).hostname not in (None, "", HOST):
            self.faults.append(f"asked another host: {url}")

    def _answered(self, answer: Response) -> None:
        if answer.status >= 400:
            self.refused.append(answer.url)

    def _heard(self, message: Any) -> None:
        if message.type == "error" and not PROBES.fullmatch(message.location.get("url", "")):
            self.faults.append(f"{message.text} ({message.location.get('url')})")


# Makes visitors of one app, each with a context of the kind that is given.
Visit = Callable[..., Visitor]


def settled(page: Page) -> None:
    """Wait until the script has run and every chart and matrix of the page is drawn."""
    page.wait_for_function(DRAWN, timeout=60_000)
    page.wait_for_timeout(100)
    page.wait_for_function(DRAWN, timeout=60_000)


def go(page: Page, path: str) -> None:
    """Choose a page in the menu at the top, on a phone in the sidebar, and wait until it is drawn."""
    name, title = PAGES[path]
    sections = page.get_by_test_id("stTopNavSection")
    links = page.locator("[data-testid^=stTopNav] a, [data-testid=stSidebarNavLink]")
    link = links.filter(has=page.get_by_text(name, exact=True), visible=True).first
    for index in range(sections.count()):
        if link.count():
            break
        sections.nth(index).click()
        expect(sections.nth(index)).to_have_attribute("aria-expanded", "true")
        expect(page.get_by_test_id("stTopNavPopover")).to_have_count(
            1
        )  # the menu before has closed
    link.click()
    expect(page.get_by_test_id("stMain").locator("h1")).to_have_text(title, timeout=30_000)
    settled(page)


def headline(page: Page) -> Locator:
    """The sentence under the title."""
    return page.get_by_test_id("stMain").locator("strong").first


def row(page: Page, key: str) -> Locator:
    """The row of matrices of this key."""
    return page.locator(f".st-key-{key} .matrix-row")


def dial(page: Page, name: str) -> Locator:
    """The slider of this label; arrow keys move it."""
    return page.locator(f'input[type=range][aria-label="{name}"]')
