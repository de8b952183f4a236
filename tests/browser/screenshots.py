"""Pictures of every page, for people to look at: `python -m tests.browser.screenshots [--readme]`.

Written to tests/artifacts, which git ignores: every page whole, at three widths, light and dark. With
--readme only the pictures that README shows, to .images.
"""

import argparse
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, Locator, Page

from tests.browser import browser

ARTIFACTS = Path(__file__).parents[1] / "artifacts"
IMAGES = browser.ROOT / ".images"
MOST_BYTES = 400_000


def main() -> None:
    """Serve the dashboard and write the pictures that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--readme", action="store_true", help="write README's pictures only")
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
            IMAGES.mkdir(exist_ok=True)
            write_readme_pictures(chromium, address)
        else:
            ARTIFACTS.mkdir(exist_ok=True)
            for scheme in ("light", "dark"):
                for width in browser.SCREENS:
                    write_pages(chromium, address, width, scheme)


def write_pages(chromium: Browser, address: str, width: int, scheme: str) -> None:
    """Write every page at one width in one colour scheme, each from its top to its end."""
    kind = browser.SCREENS[width] | {"color_scheme": scheme}
    visitor = browser.Visitor(chromium, address, **kind)
    for name in browser.PAGES:
        page = visitor.open(name)
        # Streamlit scrolls inside, so a full page would be cut: the window becomes as tall as the page.
        height = page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight")
        page.set_viewport_size({"width": width, "height": max(int(height), 800)})
        browser.settled(page)
        path = ARTIFACTS / f"{name or 'start'}-{width}-{scheme}.png"
        page.screenshot(path=path, animations="disabled")
        page.close()
    visitor.context.close()


# README's pictures: file, link, height of the window; of "schemes", the row of matrices alone.
README_PICTURES = {
    "schemes": ("similarity", 900),
    "start": ("", 900),
    "similarity": ("similarity?base=500&length=128&a=base~10000~length~128", 1040),
    "extrapolation": ("extrapolation", 900),
    "context": ("context_planner?model=llama-3-8b", 900),
}


def write_readme_pictures(chromium: Browser, address: str) -> None:
    """Write README's pictures, light, in a window of 1440 pixels."""
    visitor = browser.Visitor(chromium, address, color_scheme="light")
    for name, (link, height) in README_PICTURES.items():
        page = visitor.open(link)
        page.set_viewport_size({"width": 1440, "height": height})
        browser.settled(page)
        drawn: Page | Locator = page.locator(".st-key-similarity") if name == "schemes" else page
        path = IMAGES / f"{name}.png"
        drawn.screenshot(path=path, animations="disabled")
        page.close()
        if path.stat().st_size >= MOST_BYTES:
            raise SystemExit(f"{path.name} has more than {MOST_BYTES:,} bytes.")
    visitor.context.close()


if __name__ == "__main__":
    main()
