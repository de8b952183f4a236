"""The dials of the sidebar in a real browser: turned by keys, typed, over a slow network."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.bare_page import box_of
from tests.browser.browser import Visit, dial, headline, settled
from tests.browser.browser_page import asked, lines, pixels, press, unfold, wait_until

pytestmark = pytest.mark.browser

# Every message of the server is heard this much later, in milliseconds; what is asked arrives at once.
LAG = """(() => {
  const Direct = window.WebSocket;
  window.WebSocket = class extends Direct {
    addEventListener(kind, heard, ...rest) {
      const late = (message) => setTimeout(() => heard(message), 1500);
      super.addEventListener(kind, kind === "message" ? late : heard, ...rest);
    }
  };
})()"""

# Notes in every frame how many charts, matrices and titles there are.
WATCH = """() => {
  const count = () => [
    document.querySelectorAll(".stVegaLiteChart :is(svg, canvas)").length,
    ...[...document.querySelectorAll("[data-testid=stBidiComponentIsolated]")].map(
      (host) => host.shadowRoot?.querySelectorAll("canvas[role=img]").length ?? 0),
    document.querySelectorAll("[data-testid=stMain] h1").length,
  ].join();
  window.seen = new Set();
  const look = () => { window.seen.add(count()); requestAnimationFrame(look); };
  look();
}"""


def test_arrow_key_redraws_the_page_and_a_reload_shows_the_same(visitor: Visit) -> None:
    page = visitor().open("similarity")
    text, drawn, painted = headline(page).inner_text(), lines(page), pixels(page, "similarity")
    press(page, "Base", "ArrowRight")
    expect(headline(page)).not_to_have_text(text)
    wait_until(page, lambda: lines(page) != drawn and pixels(page, "similarity") != painted)
    assert asked(page) == {"base": 12_500}
    repainted = pixels(page, "similarity")
    changed = [before != after for before, after in zip(painted, repainted, strict=True)]
    assert changed == [False, True, True, False]  # learned and ALiBi have no base
    turned = headline(page).inner_text(), lines(page)
    page.reload()
    settled(page)
    assert asked(page) == {"base": 12_500}
    assert (headline(page).inner_text(), lines(page)) == turned
    assert pixels(page, "similarity") == repainted


@pytest.mark.long
def test_held_arrow_key_ends_at_its_last_stop(visitor: Visit) -> None:
    page = visitor().open("similarity")
    dial(page, "Base").focus()
    for _ in range(15):  # a key's repeats; ten stops are a decade
        page.keyboard.down("ArrowRight")
        page.wait_for_timeout(30)
    page.keyboard.up("ArrowRight")
    page.wait_for_function("location.search.includes('base=320000')")
    expect(page.get_by_test_id("stSidebar")).to_contain_text("320,000")
    settled(page)
    assert asked(page) == {"base": 320_000}  # nothing older arrived and turned it back


def test_typed_value_moves_the_slider_and_stays_exact(visitor: Visit) -> None:
    page = visitor().open("similarity")
    text = headline(page).inner_text()
    unfold(page, "Exact values")
    box = page.get_by_role("spinbutton", name="Base")
    box.fill("1234.5")
    box.press("Enter")
    expect(headline(page)).not_to_have_text(text)
    slider = page.get_by_test_id("stSlider").filter(has_text="Base")
    expect(slider).to_contain_text("1,234.5")  # a stop of its own
    assert asked(page) == {"base": 1234.5}
    settled(page)
    press(page, "Base", "ArrowRight")
    page.wait_for_function("location.search.includes('base=1250')")
    expect(box).to_have_value("1250")
    settled(page)
    page.keyboard.press("ArrowRight")  # the dial still has the focus
    page.wait_for_function("location.search.includes('base=1600')")


@pytest.mark.long
def test_previous_picture_stays_while_a_new_one_is_computed(visitor: Visit) -> None:
    page = visitor().open("relative_offsets?length=64&unknown=1")  # the notice of it goes at once
    page.evaluate(WATCH)
    painted = pixels(page, "offset_maps")
    for name, address in (("Base", "base=12500"), ("Model dimension", "dim=")):
        press(page, name, "ArrowRight")
        page.wait_for_function(f"location.search.includes('{address}')")
        settled(page)
    wait_until(page, lambda: pixels(page, "offset_maps") != painted)
    assert len(page.evaluate("[...window.seen]")) == 1


@pytest.mark.long
def test_dial_turned_back_before_the_answer_arrives_ends_where_it_began(visitor: Visit) -> None:
    """Two stops on, and back while the second is under way: what was drawn first is named again."""
    somebody = visitor()
    page = somebody.tab()
    page.add_init_script(LAG)
    page.goto(f"{somebody.address}/similarity")
    settled(page)
    first = headline(page).inner_text()
    press(page, "Base", "ArrowRight")
    expect(headline(page)).not_to_have_text(first)
    settled(page)
    press(page, "Base", "ArrowRight")
    page.wait_for_timeout(1_000)  # the server is done, and the browser has not heard it
    press(page, "Base", "ArrowLeft", 2)
    expect(headline(page)).to_have_text(first)
    settled(page)
    page.wait_for_timeout(2_000)  # longer than the lag: nothing that comes later turns it again
    expect(headline(page)).to_have_text(first)
    assert asked(page) == {}


def test_pointer_reads_a_position_of_pca_and_all_schemes_at_a_distance(visitor: Visit) -> None:
    somebody = visitor()
    page = somebody.open("pca")
    dots = page.locator(".stVegaLiteChart").first.locator("svg .mark-symbol path")
    dots.nth(50).hover(force=True)
    expect(page.locator("#vg-tooltip-element")).to_contain_text("position")
    page = somebody.open("similarity")
    chart = page.locator(".stVegaLiteChart").first
    chart.scroll_into_view_if_needed()
    box = box_of(chart)
    for share in (0.5, 0.6):  # past the learned table, which has no value there
        page.mouse.move(box["x"] + share * box["width"], box["y"] + box["height"] / 2)
    read = page.locator("#vg-tooltip-element")
    expect(read).to_contain_text("query-key distance")
    words = re.sub(r"\W*\n\W*", " ", read.inner_text())
    assert re.search(
        r"Learned:? (\u2013 )?Sinusoidal:? 0\.\d+ RoPE:? 0\.\d+ ALiBi:? 0\.\d+", words
    ), words
