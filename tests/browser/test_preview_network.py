"""Pictures follow a slider while the server is slow to answer, or does not answer at all."""

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.browser import Visit, Visitor, dial, headline, row, settled
from tests.browser.browser_page import alerts, asked, lines, pixels, press, wait_until
from tests.browser.sliders import AHEAD, behind, drag, follows, stop

pytestmark = pytest.mark.browser

# What the server says by the page's connection is not heard while `holding`, until `hear`; what it
# answers with pictures is not heard before `picture`.
HELD = """(() => {
  const [late, Direct, ask] = [[], window.WebSocket, window.fetch];
  window.hear = () => { window.holding = false; late.splice(0).forEach((message) => message()); };
  window.WebSocket = class extends Direct {
    addEventListener(kind, heard, ...rest) {
      const told = (message) =>
        window.holding ? late.push(() => heard(message)) : heard(message);
      super.addEventListener(kind, kind === "message" ? told : heard, ...rest);
    }
  };
  let pictured = Promise.resolve();
  window.holdPictures = () => { pictured = new Promise((done) => { window.picture = done; }); };
  window.fetch = async (url, ...rest) => {
    const answer = await ask(url, ...rest);
    if (String(url).includes("/previews/")) await pictured;
    return answer;
  };
})()"""
# Notes the base that each picture of RoPE is of.
NOTE_BASES = """row => {
  window.bases = [];
  new MutationObserver(() => {
    const [, , rope] = row.querySelectorAll(".subtitle");
    window.bases.push(Number(rope.textContent.match(/base ([\\d,]+)/)[1].replaceAll(",", "")));
  }).observe(row, { attributeFilter: ["data-paints"] });
}"""


def held(somebody: Visitor, link: str = "similarity") -> Page:
    """Open a page whose connection can be held back."""
    page = somebody.tab()
    page.add_init_script(HELD)
    page.goto(f"{somebody.address}/{link}")
    settled(page)
    return page


def heard(page: Page) -> None:
    """Let all that was held back be heard, and wait until the page is drawn."""
    page.evaluate("hear()")
    page.wait_for_function(f"!({AHEAD})")
    settled(page)


@pytest.mark.long
def test_matrices_follow_keys_before_the_server_is_heard(visitor: Visit) -> None:
    page = held(visitor())
    text, shown, drawn = headline(page).inner_text(), pixels(page, "similarity"), lines(page)
    page.evaluate("holding = true")
    for _ in range(4):
        press(page, "Base", "ArrowRight")
        shown = follows(page, "similarity", shown)
    assert stop(page, "Base") == "25,000"
    assert headline(page).inner_text() == text
    assert lines(page) == drawn  # at a key the server's answer is not far
    heard(page)
    assert headline(page).inner_text() != text
    assert pixels(page, "similarity") == shown
    other = visitor().open("similarity?base=25000")
    assert pixels(other, "similarity") == shown
    assert lines(other) == lines(page)


@pytest.mark.long
def test_matrices_follow_a_held_key_and_never_turn_back(visitor: Visit) -> None:
    """The answers of the server, which come in between, are of earlier stops."""
    page = visitor().open("similarity")
    row(page, "similarity").evaluate(NOTE_BASES)
    dial(page, "Base").focus()
    for _ in range(12):  # the second and later ones are repeats
        page.keyboard.down("ArrowRight")
        page.wait_for_timeout(33)
    page.keyboard.up("ArrowRight")
    assert stop(page, "Base") == "160,000"
    page.wait_for_function("location.search.includes('base=160000')")
    page.wait_for_function(f"!({AHEAD})")
    settled(page)
    bases = page.evaluate("bases")
    assert bases[-1] == 160_000
    assert bases == sorted(bases)
    other = visitor().open("similarity?base=160000")
    assert pixels(other, "similarity") == pixels(page, "similarity")


@pytest.mark.long
def test_picture_that_comes_late_is_that_of_the_stop_where_the_slider_is_then(
    visitor: Visit,
) -> None:
    page = held(visitor())
    before = pixels(page, "similarity")
    page.evaluate("holdPictures()")
    drag(page, "Base", 1, 2)
    assert behind(page, "similarity")
    assert pixels(page, "similarity") == before
    page.evaluate("picture()")
    moved = follows(page, "similarity", before)
    page.mouse.up()
    page.wait_for_function("location.search.includes('base=16000')")
    page.wait_for_function(f"!({AHEAD})")
    settled(page)
    assert pixels(page, "similarity") == moved


@pytest.mark.long
def test_second_slider_waits_for_the_server_and_is_pale_meanwhile(visitor: Visit) -> None:
    """Nobody but the server knows the picture of two sliders that both moved."""
    page = held(visitor())
    before = pixels(page, "similarity")
    page.evaluate("holding = true")
    press(page, "Model dimension", "ArrowRight")
    moved = follows(page, "similarity", before)
    press(page, "Base", "ArrowRight")
    assert behind(page, "similarity")
    assert pixels(page, "similarity") == moved
    heard(page)
    assert not behind(page, "similarity")
    assert asked(page) == {"dim": 640, "base": 12_500}
    other = visitor().open("similarity?dim=640&base=12500")
    assert pixels(page, "similarity") == pixels(other, "similarity")


@pytest.mark.long
def test_stop_that_the_server_refuses_gives_way_to_what_the_server_draws(visitor: Visit) -> None:
    """A width of 4,096 is a stop at 256 positions, and none at the 2,048 that were just asked for."""
    page = held(visitor())
    before = pixels(page, "similarity")
    page.evaluate("holding = true")
    press(page, "Positions shown", "End")
    press(page, "Model dimension", "End")
    follows(page, "similarity", before)
    assert stop(page, "Model dimension") == "4,096"
    heard(page)
    # Whether it refuses the stop or has no such stop any more depends on which press it hears when.
    wait_until(page, lambda: stop(page, "Positions shown") == "2,048" or bool(alerts(page)))
    settled(page)
    assert not behind(page, "similarity")
    link = page.url.rpartition("/")[2]
    assert stop(page, "Model dimension") != "4,096" or "length=2048" not in link
    other = visitor().open(link)
    assert pixels(page, "similarity") == pixels(other, "similarity")


@pytest.mark.long
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
