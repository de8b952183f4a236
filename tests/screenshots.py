"""Pictures of every page, for people to look at: `python -m tests.screenshots [--readme]`.

Written to tests/artifacts, which git ignores: every page whole, at three widths, light and dark. With
--readme only the overview as README shows it, to .images/overview.png.
"""

import argparse
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, Page

from tests import browser

ARTIFACTS = Path(__file__).parent / "artifacts"
README_PICTURE = browser.ROOT / ".images" / "overview.png"
MOST_BYTES = 400_000


def main() -> None:
    """Serve the dashboard and write the pictures that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--readme", action="store_true", help="write README's picture only")
    asked = parser.parse_args()
    path = browser.find_chromium()
    if path is None:
        raise SystemExit(browser.NO_BROWSER)
    with (
        tempfile.TemporaryDirectory() as folder,
        browser.served(Path(folder) / "log.txt") as address,
        browser.launched(path) as chromium,
    ):
        if asked.readme:
            README_PICTURE.parent.mkdir(exist_ok=True)
            write_readme_picture(chromium, address)
        else:
            ARTIFACTS.mkdir(exist_ok=True)
            for scheme in ("light", "dark"):
                for width in browser.SCREENS:
                    write_pages(chromium, address, width, scheme)


def write_pages(chromium: Browser, address: str, width: int, scheme: str) -> None:
    """Write every page at one width in one colour scheme, each from its top to its end."""
    kind = browser.SCREENS[width] | {"color_scheme": scheme}
    visitor = browser.Visitor(chromium, address, **kind)
    for path in browser.PAGES:
        page = visitor.open(path)
        show_whole(page, width)
        page.screenshot(
            path=ARTIFACTS / f"{path or 'overview'}-{width}-{scheme}.png", animations="disabled"
        )
        page.close()
    visitor.context.close()


def write_readme_picture(chromium: Browser, address: str) -> None:
    """Write the overview as a visitor first sees it, light, 1440 pixels wide."""
    visitor = browser.Visitor(chromium, address, color_scheme="light")
    page = visitor.open()
    page.wait_for_timeout(500)
    page.screenshot(path=README_PICTURE, animations="disabled")
    visitor.context.close()
    size = README_PICTURE.stat().st_size
    if size >= MOST_BYTES:
        raise SystemExit(f"{README_PICTURE.name} has {size:,} bytes; at most {MOST_BYTES:,}.")


def show_whole(page: Page, width: int) -> None:
    """Make the window as tall as the page: Streamlit scrolls inside, so a full page would be cut."""
    height = page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight")
    page.set_viewport_size({"width": width, "height": max(int(height), 800)})
    page.wait_for_timeout(500)
    browser.settled(page)


if __name__ == "__main__":
    main()
