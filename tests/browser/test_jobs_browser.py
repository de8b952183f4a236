"""Work that the server does for a visitor, in a real browser: a training run, a page exported."""

import re
import zipfile
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.browser import Visit, settled
from tests.browser.browser_page import INK, asked, click, menu
from tests.lab.small_runs import make_small_run

pytestmark = pytest.mark.browser

SHORT = "train?schemes=RoPE&run_length=16&steps=1000&width=16&layers=1&run_heads=2"
IDLE = "Nothing is being trained on this server."


def start(page: Page) -> None:
    click(page, page.get_by_role("button", name="Start"))
    expect(page.get_by_role("button", name="Start")).to_have_count(0)


def test_training_goes_on_when_its_tab_is_closed_and_others_see_it_and_stop_it(
    visitor: Visit,
) -> None:
    starter, other = visitor(), visitor()
    watched = other.open("train")
    page = starter.open(
        "train?schemes=ALiBi&steps=5000"
    )  # longer than until the next look at the jobs
    start(page)
    page.close()
    expect(watched.get_by_text("ALiBi, seed 0: step")).to_be_visible(timeout=60_000)
    click(watched, watched.get_by_role("button", name="Stop"))
    expect(watched.get_by_text(IDLE)).to_be_visible()


@pytest.mark.long
def test_result_of_a_training_whose_tab_is_closed_is_linked_for_others(visitor: Visit) -> None:
    starter, other = visitor(), visitor()
    watched = other.open("train")
    page = starter.open(SHORT)
    start(page)
    page.close()
    link = watched.get_by_test_id("stMain").get_by_role("link", name="Text, 16 tokens: RoPE")
    expect(link).to_be_visible(timeout=120_000)
    expect(watched.get_by_text(IDLE)).to_be_visible()
    expect(watched.get_by_role("heading", name="Result")).to_have_count(0)  # of its own settings
    click(watched, link)
    expect(watched.get_by_text("Lowest loss at 16 tokens: RoPE").first).to_be_visible()
    settled(watched)
    assert watched.evaluate(INK)[0] > 0
    assert asked(watched).get("half", "measured") == "measured"


@pytest.mark.long
def test_result_of_a_job_that_an_open_page_never_saw_is_linked(
    visitor: Visit, served_folder: Path
) -> None:
    page = visitor().open("train")
    expect(page.get_by_text(IDLE)).to_be_visible()
    make_small_run(served_folder, task="copy")
    link = page.get_by_test_id("stMain").get_by_role("link", name="Copy, 16 letters: RoPE")
    expect(link).to_be_visible(timeout=60_000)


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
