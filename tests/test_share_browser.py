"""In a real browser: the first screen, links that restore it all, pins, presenting, taking away."""

import io
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest
from playwright.sync_api import Page, expect

from tests.browser import PAGES, Visit, dial, go, headline, row, settled
from tests.longer import mostly

pytestmark = pytest.mark.browser


def menu(page: Page, name: str) -> Any:
    """Open a menu of the toolbar and return what it shows."""
    page.get_by_test_id("stMain").get_by_test_id("stPopover").filter(has_text=name).locator(
        "button"
    ).first.click()
    body = page.get_by_test_id("stPopoverBody")
    expect(body).to_be_visible()
    return body


def close(page: Page) -> None:
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("stPopoverBody")).to_have_count(0)


def copied(page: Page) -> str:
    """The link that the page offers."""
    code = menu(page, "Copy link").get_by_test_id("stCode")
    expect(code).to_be_visible()
    text = code.inner_text().strip().replace("\n", "")
    close(page)
    return text


def numbers(page: Page) -> list[str]:
    """What the page says in words and numbers, without its toolbar."""
    main = page.get_by_test_id("stMain")
    return [
        *main.locator("strong").all_inner_texts(),
        *main.get_by_test_id("stCaptionContainer").all_inner_texts(),
        *main.locator(".readout").all_inner_texts(),
        *main.get_by_test_id("stTable").all_inner_texts(),
    ]


def test_the_first_screen_answers_without_scrolling(visitor: Visit) -> None:
    page = visitor(viewport={"width": 1440, "height": 900}).open()
    main = page.get_by_test_id("stMain")
    seen = [
        headline(page),
        main.locator(".stVegaLiteChart svg, .stVegaLiteChart canvas").first,
        main.locator('input[type=range][aria-label="Base"]'),
        main.locator('input[type=range][aria-label="Model dimension"]'),
        main.get_by_test_id("stPageLink").first,
        main.get_by_test_id("stPageLink").last,
    ]
    for one in seen:
        box = one.bounding_box()
        assert box is not None
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= 900
    assert "1,024" in headline(page).inner_text()
    assert main.locator("table").count() == 0


def test_the_dials_of_the_first_page_move_its_curves_and_go_along_to_the_next(
    visitor: Visit,
) -> None:
    page = visitor().open()
    own = page.get_by_test_id("stMain").locator('input[type=range][aria-label="Base"]')
    before = page.locator(".stVegaLiteChart svg .mark-line path").evaluate_all(
        "paths => paths.map(path => path.getAttribute('d'))"
    )
    own.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("location.search.includes('base=12500')", timeout=15_000)
    settled(page)
    after = page.locator(".stVegaLiteChart svg .mark-line path").evaluate_all(
        "paths => paths.map(path => path.getAttribute('d'))"
    )
    assert after != before
    expect(dial(page, "Base")).to_have_count(1)  # once on a page
    go(page, "similarity")
    expect(page.get_by_test_id("stSidebar")).to_contain_text("12,500")
    dial(page, "Base").focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("!location.search.includes('base=')", timeout=15_000)


ODD = "dim=96&base=777&length=50&train_length=20&heads=3&schemes=RoPE&schemes=ALiBi&precision=bfloat16"
OWN = {"similarity": "&reference=7", "pca": "&fit=all", "relative_offsets": "&offset=5",
       "extrapolation": "&reach=8", "train": "&steps=77"}  # fmt: skip


@pytest.mark.parametrize("path", mostly(PAGES, "similarity", "train"))
def test_a_copied_link_restores_the_page_for_somebody_else(visitor: Visit, path: str) -> None:
    somebody = visitor()
    page = somebody.open(f"{path}?{ODD}{OWN.get(path, '')}")
    link = copied(page)
    assert urlparse(link).path.strip("/") == path
    for said in ("dim=96", "seed=0", "equal_width=false", OWN.get(path, "&dim=96")[1:]):
        assert said in link
    reader = visitor()
    other = reader.open(link.removeprefix(somebody.address + "/"))
    expect(other.get_by_test_id("stMain").locator("h1")).to_have_text(PAGES[path][1])
    probes = ("health", "host-config") if path else ()  # nothing else is asked in vain
    assert {urlparse(url).path for url in reader.refused} == {
        f"/{path}/_stcore/{name}" for name in probes
    }
    if path == "train":  # an estimate is timed anew
        expect(other.get_by_role("spinbutton", name="Steps")).to_have_value("77")
    else:
        assert numbers(other) == numbers(page)
    assert other.get_by_test_id("stAlertContainer").count() == (
        page.get_by_test_id("stAlertContainer").count()
    )
    assert copied(other) == link


def test_choices_of_a_page_are_there_when_it_is_turned_to_again(visitor: Visit) -> None:
    page = visitor().open("pca?fit=all&base=500")
    go(page, "similarity")
    assert "fit" not in page.url
    go(page, "pca")
    page.wait_for_function("location.search.includes('fit=all')", timeout=15_000)
    chosen = page.get_by_role("radio", name="all")
    expect(chosen).to_be_checked()
    go(page, "similarity")
    page.go_back()
    expect(page.get_by_test_id("stMain").locator("h1")).to_have_text("PCA", timeout=15_000)
    expect(page.get_by_role("radio", name="all")).to_be_checked()


def test_a_pin_shows_both_settings_and_travels_by_link(visitor: Visit) -> None:
    somebody = visitor()
    page = somebody.open("similarity?dim=64&length=64")
    menu(page, "Compare A/B").get_by_role("button", name="Pin this setting as A").click()
    page.wait_for_function("location.search.includes('a=')", timeout=15_000)
    close(page)
    dial(page, "Base").focus()
    page.keyboard.press("End")
    page.wait_for_function("location.search.includes('base=1')", timeout=15_000)
    settled(page)
    expect(row(page, "similarity_change")).to_be_visible()
    expect(row(page, "similarity_pinned")).to_be_visible()
    link = copied(page)
    go(page, "pca")
    expect(page.get_by_text("Pinned setting, A:").first).to_be_visible()
    other = visitor().open(link.removeprefix(somebody.address + "/"))
    expect(row(other, "similarity_change")).to_be_visible()
    menu(other, "Compare A/B").get_by_role("button", name="Unpin").click()
    expect(row(other, "similarity_change")).to_have_count(0, timeout=15_000)


def test_teach_this_on_the_first_screen_presents_the_overview(visitor: Visit) -> None:
    page = visitor().open("")
    size = "parseFloat(getComputedStyle(document.documentElement).fontSize)"
    small = page.evaluate(size)
    page.set_viewport_size({"width": 1280, "height": 720})
    page.get_by_role("link", name="Teach this").click()
    expect(page.get_by_role("heading", name="The schemes side by side")).to_be_visible(
        timeout=15_000
    )
    page.wait_for_function(f"{size} > {small}", timeout=15_000)
    settled(page)
    assert "present=true" in page.url
    expect(page.get_by_role("button", name="Controls")).to_be_visible()
    expect(page.locator("input[type=checkbox]").first).to_be_checked()
    page.get_by_text("Present", exact=True).click()
    page.wait_for_function(f"{size} == {small}", timeout=15_000)
    assert "present" not in page.url


def test_presenting_hides_the_sidebar_and_enlarges_type(visitor: Visit) -> None:
    page = visitor().open("similarity?base=500")
    size = "parseFloat(getComputedStyle(document.documentElement).fontSize)"
    small = page.evaluate(size)
    page.get_by_text("Present", exact=True).click()
    page.wait_for_function(f"{size} > {small}", timeout=15_000)
    settled(page)
    beside = (
        page.get_by_test_id("stSidebar").bounding_box()
        if (page.get_by_test_id("stSidebar").count())
        else None
    )
    assert beside is None or beside["x"] + beside["width"] <= 0 or beside["width"] == 0
    assert "base=500" in page.url
    controls = menu(page, "Controls")
    slider = controls.locator('input[type=range][aria-label="Base"]')
    slider.focus()
    page.keyboard.press("End")
    page.wait_for_function("location.search.includes('base=100000000')", timeout=15_000)
    close(page)
    page.get_by_text("Present", exact=True).click()
    page.wait_for_function(f"{size} == {small}", timeout=15_000)
    expect(page.get_by_test_id("stSidebar")).to_be_visible()
    assert "base=100000000" in page.url


def test_a_page_is_taken_away_whole(visitor: Visit, tmp_path: Path) -> None:
    page = visitor().open("similarity?dim=32&length=24&heads=2&train_length=16")
    body = menu(page, "Export")
    with page.expect_download(timeout=120_000) as waiting:
        body.get_by_role("button", name="Download this page").click()
    made = waiting.value
    assert made.suggested_filename == "posenc-similarity.zip"
    made.save_as(tmp_path / "page.zip")
    with zipfile.ZipFile(io.BytesIO((tmp_path / "page.zip").read_bytes())) as folder:
        assert folder.testzip() is None
        names = set(folder.namelist())
    assert {
        "script.py",
        "settings.json",
        "figures/by-offset.svg",
        "figures/similarity.png",
    } <= names
