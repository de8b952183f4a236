"""Links in a real browser: what they open, what the address says, back and forward."""

import re
from urllib.parse import urlparse

import pytest
from playwright.sync_api import expect

from tests.browser import PAGES, Visit, go, headline, row, settled
from tests.browser_page import alerts, asked, choose, lines, pixels, press
from tests.longer import mostly

pytestmark = pytest.mark.browser


LINK = {
    "dim": "96", "base": "777.5", "length": "50", "train_length": "20", "heads": "3", "seed": "9",
    "equal_width": "true", "alibi_head": "2", "precision": "bfloat16", "device": "cpu",
    "sinusoidal.layout": "half", "rope.layout": "half", "rope.partial_rotary_factor": "0.5",
    "reference": "7",
}  # fmt: skip


LINKED = {
    name: float(text) if re.fullmatch(r"[\d.]+", text) else text for name, text in LINK.items()
}


def test_a_link_with_every_number_opens_the_same_view_in_another_tab(visitor: Visit) -> None:
    somebody = visitor()
    query = "&".join(f"{name}={value}" for name, value in LINK.items())
    page = somebody.open(f"similarity?{query}")
    assert alerts(page) == []
    assert asked(page) == LINKED
    other = visitor().open(page.url.removeprefix(somebody.address + "/"))
    assert headline(other).inner_text() == headline(page).inner_text()
    assert lines(other) == lines(page)
    assert pixels(other, "similarity") == pixels(page, "similarity")
    other.get_by_text("From one position", exact=True).click()
    expect(other.get_by_role("spinbutton", name="Reference position")).to_have_value("7")
    settled(other)
    go(other, "relative_offsets")  # the shared numbers follow to other pages
    assert asked(other) == {name: LINKED[name] for name in LINKED if name != "reference"}


def test_a_link_keeps_the_schemes_and_the_learned_table_that_were_chosen(visitor: Visit) -> None:
    somebody = visitor()
    page = somebody.open("similarity")
    sidebar = page.get_by_test_id("stSidebar")
    for name in ("Sinusoidal", "NoPE"):
        sidebar.get_by_role("button", name=name, exact=True).click()
        settled(page)
    choose(page, "Learned table", "MiniLM")
    expect(row(page, "similarity").locator(".subtitle").first).to_contain_text("512x384")
    settled(page)
    other = visitor().open(page.url.removeprefix(somebody.address + "/"))
    assert alerts(other) == []
    assert headline(other).inner_text() == headline(page).inner_text()
    assert row(other, "similarity").locator(".title").all_inner_texts() == [
        "Learned",
        "RoPE",
        "ALiBi",
        "NoPE",
    ]


@pytest.mark.parametrize(
    "query",
    mostly(
        ["dim=-7&heads=1&fit=sideways", "dim=%ff%fe&base=%00&fit=<script>alert(1)</script>"],
        "dim=%ff%fe&base=%00&fit=<script>alert(1)</script>",
    ),
)
def test_an_odd_link_is_put_right_with_a_notice_on_the_page_it_names(
    visitor: Visit, query: str
) -> None:
    page = visitor().open(f"pca?{query}")
    expect(page.get_by_test_id("stMain").locator("h1")).to_have_text("PCA")
    told = alerts(page)
    assert any("Model dimension must be" in text for text in told)
    assert any(
        "Axes fitted on must be one of seen, all; seen is used instead." in text for text in told
    )
    assert urlparse(page.url).path == "/pca"
    assert set(asked(page)) <= {"dim", "heads"}
    press(page, "Base", "ArrowRight")
    page.wait_for_function("location.search.includes('base=12500')")
    settled(page)
    expect(page.get_by_test_id("stAlertContainer")).to_have_count(0)  # told once


def test_back_and_forward_lead_through_the_pages(visitor: Visit) -> None:
    page = visitor().open("?base=500")
    go(page, "similarity")
    go(page, "pca")
    title = page.get_by_test_id("stMain").locator("h1")
    back, forward = page.go_back, page.go_forward
    for step, shown in ((back, "similarity"), (back, ""), (forward, "similarity")):
        step()
        expect(title).to_have_text(PAGES[shown][1], timeout=15_000)
        settled(page)
        assert urlparse(page.url).path == f"/{shown}"
        assert asked(page) == {"base": 500}
        # In the sidebar, and on Start under the curves.
        base = page.get_by_test_id("stSlider").filter(has_text="Base")
        expect(base).to_contain_text("500")


def test_back_after_slider_moves_leads_to_the_page_before(visitor: Visit) -> None:
    page = visitor().open("pca?base=500&fit=all")
    go(page, "similarity")
    steps = page.evaluate("history.length")
    for stop in ("630", "800"):
        press(page, "Base", "ArrowRight")
        page.wait_for_function(f"location.search.includes('base={stop}')")
        settled(page)
    sidebar = page.get_by_test_id("stSidebar")
    sidebar.get_by_test_id("stBaseButton-secondary").filter(has_text="Reset").click()
    page.wait_for_function("!location.search.includes('base')")
    settled(page)
    assert page.evaluate("history.length") == steps
    title = page.get_by_test_id("stMain").locator("h1")
    base = page.get_by_test_id("stSidebar").get_by_test_id("stSlider").filter(has_text="Base")
    for step, shown, said in (
        (page.go_back, "PCA", {"base": 500, "fit": "all"}),
        (page.go_forward, "Similarity", {}),
    ):
        step()
        expect(title).to_have_text(shown, timeout=15_000)
        settled(page)
        assert asked(page) == said
        expect(base).to_contain_text(f"{said.get('base', 10_000):,}")


def test_reload_restores_the_view(visitor: Visit) -> None:
    page = visitor().open("similarity")
    press(page, "Base", "ArrowLeft", 4)
    page.wait_for_function("location.search.includes('base=4000')")
    press(page, "Positions shown", "ArrowLeft", 2)
    page.wait_for_function("location.search.includes('length=192')")
    settled(page)
    said, drawn, painted = headline(page).inner_text(), lines(page), pixels(page, "similarity")
    page.reload()
    settled(page)
    assert asked(page) == {"base": 4000, "length": 192}
    expect(headline(page)).to_have_text(said)
    assert lines(page) == drawn
    assert pixels(page, "similarity") == painted
