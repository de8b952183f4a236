"""Pictures follow a slider while the server is slow to answer, or does not answer at all."""

import pytest
from playwright.sync_api import Route, expect

from tests.browser.browser import Visit, headline, settled
from tests.browser.browser_page import asked, lines, pixels, press, wait_until
from tests.browser.sliders import AHEAD, behind, drag, follows, stop
from tests.browser.test_dials_browser import LAG

pytestmark = pytest.mark.browser


def test_matrices_follow_a_held_key_before_the_server_is_heard(visitor: Visit) -> None:
    """Every answer is heard 1.5 s late; older answers turn nothing back."""
    somebody = visitor()
    page = somebody.tab()
    page.add_init_script(LAG)
    page.goto(f"{somebody.address}/similarity")
    settled(page)
    text, shown, drawn = headline(page).inner_text(), pixels(page, "similarity"), lines(page)
    for _ in range(4):
        press(page, "Base", "ArrowRight")
        shown = follows(page, "similarity", shown)
    assert stop(page, "Base") == "25,000"
    assert headline(page).inner_text() == text
    assert lines(page) == drawn  # at a key the server's answer is not far
    expect(headline(page)).not_to_have_text(text)
    page.wait_for_function(f"!({AHEAD})")
    assert pixels(page, "similarity") == shown
    page.wait_for_timeout(2_000)  # longer than the lag
    assert pixels(page, "similarity") == shown
    other = visitor().open("similarity?base=25000")
    assert pixels(other, "similarity") == shown


def test_second_slider_waits_for_the_server_and_is_pale_meanwhile(visitor: Visit) -> None:
    """Nobody but the server knows the picture of two sliders that both moved."""
    somebody = visitor()
    page = somebody.tab()
    page.add_init_script(LAG)
    page.goto(f"{somebody.address}/similarity")
    settled(page)
    before = pixels(page, "similarity")
    press(page, "Model dimension", "ArrowRight")
    moved = follows(page, "similarity", before)
    press(page, "Base", "ArrowRight")
    assert behind(page, "similarity")
    assert pixels(page, "similarity") == moved
    wait_until(page, lambda: not behind(page, "similarity"))
    page.wait_for_function(f"!({AHEAD})")
    assert asked(page) == {"dim": 640, "base": 12_500}
    other = visitor().open("similarity?dim=640&base=12500")
    assert pixels(page, "similarity") == pixels(other, "similarity")


def test_without_an_answer_the_page_follows_as_ever(visitor: Visit) -> None:
    somebody = visitor()
    page = somebody.tab()

    def refuse(route: Route) -> None:
        route.fulfill(status=404)

    page.route("**/previews/**", refuse)
    page.goto(f"{somebody.address}/similarity")
    settled(page)
    text, before = headline(page).inner_text(), pixels(page, "similarity")
    drag(page, "Base", 1)
    page.wait_for_function(AHEAD)
    assert behind(page, "similarity")
    page.mouse.up()
    expect(headline(page)).not_to_have_text(text)
    page.wait_for_function(f"!({AHEAD})")
    assert not behind(page, "similarity")
    assert pixels(page, "similarity") != before
    somebody.faults[:] = [fault for fault in somebody.faults if "404" not in fault]
