"""Work that the server does for a visitor, in a real browser: a training run, a page exported."""

import re
import zipfile
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.browser import Visit, settled
from tests.browser.browser_page import INK, asked, click, menu

pytestmark = pytest.mark.browser

LINK = "train?schemes=RoPE&run_length=16&steps=1000&width=16&layers=1&run_heads=2"


def test_training_goes_on_when_its_tab_is_closed_and_others_see_its_result(visitor: Visit) -> None:
    starter, other = visitor(), visitor()
    watched = other.open("train")
    page = starter.open(LINK)
    click(page, page.get_by_role("button", name="Start"))
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    page.close()
    expect(watched.get_by_text("RoPE, seed 0")).to_be_visible(timeout=60_000)
    link = watched.get_by_test_id("stMain").get_by_role("link", name="Text, 16 tokens: RoPE")
    expect(link).to_be_visible(timeout=120_000)
    expect(watched.get_by_text("Nothing is being trained on this server.")).to_be_visible()
    expect(watched.get_by_role("heading", name="Result")).to_have_count(0)  # of its own settings
    click(watched, link)
    expect(watched.get_by_text("Lowest loss at 16 tokens: RoPE").first).to_be_visible()
    settled(watched)
    assert watched.evaluate(INK)[0] > 0
    assert asked(watched).get("half", "measured") == "measured"


def test_page_is_exported_whole(visitor: Visit, tmp_path: Path) -> None:
    page = visitor().open("similarity?dim=32&length=24&heads=2&train_length=16")
    button = menu(page, "Export").get_by_role("button", name="Download this page")
    with page.expect_download(timeout=120_000) as waiting:
        button.click()
    assert waiting.value.suggested_filename == "posenc-similarity.zip"
    waiting.value.save_as(tmp_path / "page.zip")
    with zipfile.ZipFile(tmp_path / "page.zip") as folder:
        assert folder.testzip() is None
        names = folder.namelist()
        assert {"script.py", "settings.json", "figures/by-offset.svg"} <= set(names)
        matrices = [name for name in names if re.fullmatch(r"figures/similarity-.*\.png", name)]
        assert len(matrices) == 4  # one of each scheme
