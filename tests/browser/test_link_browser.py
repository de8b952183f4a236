"""Links in a real browser: what they open, what the address holds, back and forward."""

from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from tests.browser import browser_page
from tests.browser.browser import Visit, go, headline, row, settled
from tests.browser.browser_page import alerts, asked, click, copied_link, lines, menu, pixels, press

pytestmark = pytest.mark.browser

LINK = {
    "dim": "96", "base": "777.5", "length": "50", "train_length": "20", "heads": "3", "seed": "9",
    "equal_width": "true", "alibi_head": "2", "precision": "bfloat16", "device": "cpu",
    "sinusoidal.layout": "half", "rope.layout": "half", "rope.partial_rotary_factor": "0.5",
    "reference": "7",
}  # fmt: skip


def facts(page: Page) -> list[str]:
    """Return what the page says in words and numbers, without its toolbar."""
    main = page.get_by_test_id("stMain")
    return [
        *main.locator("strong").all_inner_texts(),
        *main.get_by_test_id("stCaptionContainer").all_inner_texts(),
        *main.locator(".readout").all_inner_texts(),
        *main.get_by_test_id("stTable").all_inner_texts(),
    ]


def test_copied_link_with_every_number_and_choice_opens_the_same_view(visitor: Visit) -> None:
    page = visitor().open(f"similarity?{urlencode(LINK)}")
    assert alerts(page) == []
    page.get_by_role("combobox", name="Schemes").press("Backspace")  # ALiBi leaves, NoPE joins
    settled(page)
    browser_page.choose(page, "Schemes", "NoPE")
    page.keyboard.press("Escape")  # its list stays open for more
    settled(page)
    browser_page.picker(page, "Learned table")
    browser_page.choose(page, "Learned table", "MiniLM")
    expect(row(page, "similarity").locator(".subtitle").first).to_contain_text("512x384")
    settled(page)
    browser_page.close_menu(page)
    link = copied_link(page)
    other = visitor().open(link)
    assert alerts(other) == []
    assert [title.split()[0] for title in row(other, "similarity").locator(".title").all_inner_texts()] == [
        "Learned", "Sinusoidal", "RoPE", "NoPE"
    ]  # fmt: skip
    assert facts(other) == facts(page)
    assert lines(other) == lines(page)
    assert pixels(other, "similarity") == pixels(page, "similarity")
    assert copied_link(other) == link
    go(other, "relative_offsets")  # the shared numbers follow to other pages
    assert asked(other).items() >= {"dim": 96, "base": 777.5, "rope.layout": "half"}.items()
    assert "reference" not in asked(other)


@pytest.mark.long
def test_controls_keep_step_with_the_address_from_page_to_page(visitor: Visit) -> None:
    """Through pages that draw a control elsewhere or not at all, back, and by a reload."""
    page = visitor().open("similarity?base=500&seed=4&rope.layout=half")
    shared = {"base": 500, "seed": 4, "rope.layout": "half"}
    for path, stop in (
        ("", 630),
        ("pca", 800),
        ("train", 1000),
        ("learn", None),
        ("similarity", 1250),
    ):
        go(page, path)
        assert asked(page) == shared
        if stop:
            press(page, "Base", "ArrowRight")
            page.wait_for_function(f"location.search.includes('base={stop}')")
            settled(page)
            shared |= {"base": stop}
    go(page, "learn")
    page.reload()
    settled(page)
    assert asked(page) == shared
    page.go_back()
    expect(page.get_by_test_id("stSidebar").get_by_test_id("stSlider").first).to_contain_text(
        "1,250"
    )
    settled(page)
    assert asked(page) == shared


def test_pinned_cell_is_in_the_link_and_opens_pinned(visitor: Visit) -> None:
    page = visitor().open("similarity?length=64&schemes=RoPE")
    plot = row(page, "similarity").locator(".plot")
    plot.focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "Enter"):  # from the middle, 32
        page.keyboard.press(key)
    settled(page)
    browser_page.wait_until(page, lambda: asked(page).get("key_position") == 34)
    assert asked(page)["reference"] == 33
    text = row(page, "similarity").locator(".readout").inner_text()
    assert text.startswith("query 33, key 34, distance 1: 0.")
    caption = page.get_by_test_id("stCaptionContainer").filter(
        has_text="Query 33, key 34, distance 1: "
    )
    assert text.partition(": ")[2] in caption.inner_text()
    other = visitor().open(copied_link(page))
    assert row(other, "similarity").locator(".readout").inner_text() == text
    assert facts(other) == facts(page)


@pytest.mark.long
def test_cell_that_is_pinned_in_a_is_pinned_in_b_and_in_the_difference(visitor: Visit) -> None:
    link = "similarity?length=64&schemes=RoPE&base=500&a=base~10000~length~64~schemes~rope"
    page = visitor().open(link)
    row(page, "similarity_pinned").locator(".plot").focus()
    for key in ("ArrowDown", "Enter"):  # from the middle, 32
        page.keyboard.press(key)
    for key in ("similarity", "similarity_pinned", "similarity_change"):
        readout = row(page, key).locator(".readout")
        expect(readout).to_contain_text("query 33, key 32, distance 1: ")
    assert asked(page)["reference"] == 33


def test_back_and_forward_lead_through_pages_not_through_dial_moves(visitor: Visit) -> None:
    page = visitor(viewport={"width": 1280, "height": 720}).open("pca?base=500&fit=all")
    main = page.get_by_test_id("stMain")
    title = main.locator("h1")
    base = page.get_by_test_id("stSidebar").get_by_test_id("stSlider").filter(has_text="Base")
    main.evaluate("main => main.scrollTo(0, 600)")
    assert main.evaluate("main => main.scrollTop") > 0
    go(page, "similarity")
    assert main.evaluate("main => main.scrollTop") == 0  # Streamlit alone keeps how far it was read
    assert asked(page) == {"base": 500}
    steps = page.evaluate("history.length")
    for stop in ("630", "800"):
        press(page, "Base", "ArrowRight")
        page.wait_for_function(f"location.search.includes('base={stop}')")
        settled(page)
    sidebar = page.get_by_test_id("stSidebar")
    click(page, sidebar.get_by_test_id("stBaseButton-secondary").filter(has_text="Reset"))
    page.wait_for_function("!location.search.includes('base')")
    settled(page)
    assert page.evaluate("history.length") == steps
    page.go_back()
    expect(title).to_have_text("PCA")
    expect(base).to_contain_text("500")
    settled(page)
    assert asked(page) == {"base": 500, "fit": "all"}
    expect(page.get_by_role("radio", name="all positions")).to_be_checked()
    page.go_forward()
    expect(title).to_have_text("Similarity")
    expect(base).to_contain_text("10,000")
    settled(page)
    assert asked(page) == {}


def test_pinned_setting_is_shown_beside_the_current_and_travels_by_link(visitor: Visit) -> None:
    page = visitor().open("similarity?dim=64&length=64")
    menu(page, "A/B").get_by_role("button", name="Pin this setting as A").click()
    page.wait_for_function("location.search.includes('a=')")
    browser_page.close_menu(page)
    press(page, "Base", "End")
    page.wait_for_function("location.search.includes('base=1')")
    expect(row(page, "similarity_change")).to_be_visible()
    settled(page)
    text, link = headline(page).inner_text(), copied_link(page)
    go(page, "pca")
    expect(page.get_by_text("A: base 10,000.").first).to_be_visible()
    other = visitor().open(link)
    expect(row(other, "similarity_change")).to_be_visible()
    assert headline(other).inner_text() == text
