"""Why position and the exercises in a real browser: a sentence typed, pairs side by side, an answer."""

from urllib.parse import parse_qs, urlparse

import pytest
from playwright.sync_api import Page, expect

from dashboard.exercise import WITHHELD
from dashboard.text import JOINER
from tests.browser import SCREENS, Visit, headline, row, settled
from tests.browser_page import resize
from tests.longer import mostly

pytestmark = pytest.mark.browser


def link(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlparse(page.url).query)


def test_a_sentence_is_typed_shown_as_text_and_carried_by_the_link(visitor: Visit) -> None:
    typed = (
        "<b>dog</b> [x](http://evil.example) \u0643\u0644\u0628 WWW.evil.example me@evil.example"
    )
    first = visitor()
    page = first.open("why_position")
    box = page.get_by_label("Sentence", exact=True)
    box.fill(typed)
    box.press("Enter")
    expect(headline(page)).to_contain_text("<b>dog</b>")
    assert f"\u201c\u2068{typed}\u2069\u201d" in headline(page).inner_text().replace(JOINER, "")
    settled(page)
    assert page.locator("[data-testid=stMain] a[href*='evil']").count() == 0
    assert page.locator("[data-testid=stMain] strong b").count() == 0
    assert link(page)["sentence"] == [typed]
    ticks = row(page, "order_patterns").locator(".panel").first.locator(".ticks.rows .tick")
    assert ticks.all_inner_texts() == [
        "<b>dog</b>", "[x](http:\u2026", "\u0643\u0644\u0628", "WWW.evil.\u2026", "me@evil.e\u2026"
    ]  # fmt: skip
    again = visitor().open(urlparse(page.url).path.strip("/") + "?" + urlparse(page.url).query)
    assert headline(again).inner_text() == headline(page).inner_text()
    expect(again.get_by_label("Sentence", exact=True)).to_have_value(typed)


@pytest.mark.parametrize(
    ("schemes", "count"),
    mostly([("RoPE", 2), ("Learned&schemes=RoPE", 3), ("", 5)], ("Learned&schemes=RoPE", 3)),
)
def test_both_orders_of_a_scheme_stand_on_one_line(
    visitor: Visit, schemes: str, count: int
) -> None:
    page = visitor().open(f"why_position?schemes={schemes}" if schemes else "why_position")
    plots = row(page, "order_patterns").locator(".plot")
    for width in SCREENS:
        resize(page, width)
        boxes = [plots.nth(n).bounding_box() for n in range(plots.count())]
        assert len(boxes) == 2 * count
        for first, second in zip(boxes[::2], boxes[1::2], strict=True):
            assert first is not None
            assert second is not None
            if width == 390:
                assert first["x"] == second["x"]  # no room for two: one above the other
                continue
            assert abs(first["y"] - second["y"]) < 1
            assert second["x"] > first["x"] + first["width"]


def test_nothing_is_drawn_before_the_answer_and_all_after(visitor: Visit) -> None:
    page = visitor().open("similarity?predict=true")
    expect(headline(page)).to_have_text(WITHHELD)
    assert page.locator(".matrix-row, .stVegaLiteChart").count() == 0
    page.locator("[data-testid=stMain] input[type=range]").first.focus()
    page.keyboard.press("ArrowRight")
    settled(page)
    page.get_by_role("button", name="Look", exact=True).click()
    expect(headline(page)).to_contain_text("Similarity first falls under one half")
    settled(page)
    assert row(page, "similarity").locator(".panel").count() == 4
    assert page.locator(".stVegaLiteChart").count() == 1  # the other once its drawer is opened
    assert link(page)["predict"] == ["true"]
