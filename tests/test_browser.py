"""The dashboard in a real browser: turned by keyboard, computed when asked for, trained and watched."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser import Visit, dial, headline, settled
from tests.browser_page import INK, asked, lines, pixels, press, unfold

pytestmark = pytest.mark.browser


def test_an_arrow_key_repaints_charts_and_matrices_and_turns_the_link(visitor: Visit) -> None:
    page = visitor().open("similarity")
    said, drawn, painted = headline(page).inner_text(), lines(page), pixels(page, "similarity")
    press(page, "Base", "ArrowRight", 3)
    expect(headline(page)).not_to_have_text(said)
    settled(page)
    assert asked(page) == {"base": 20_000}
    assert lines(page) != drawn
    repainted = pixels(page, "similarity")
    changed = [before != after for before, after in zip(painted, repainted, strict=True)]
    assert changed == [False, True, True, False]  # learned and ALiBi have no base
    press(page, "Base", "ArrowLeft", 3)
    expect(headline(page)).to_have_text(said)
    settled(page)
    assert asked(page) == {}
    assert lines(page) == drawn
    assert pixels(page, "similarity") == painted


def test_a_held_arrow_key_ends_where_it_should(visitor: Visit) -> None:
    page = visitor().open("similarity")
    dial(page, "Base").focus()
    page.keyboard.down("ArrowRight")
    for _ in range(14):  # the key's repeats, as fast as a keyboard sends them
        page.wait_for_timeout(30)
        page.keyboard.down("ArrowRight")
    page.keyboard.up("ArrowRight")
    # Fifteen of ten stops a decade on from 10,000.
    page.wait_for_function("location.search.includes('base=320000')", timeout=15_000)
    settled(page)
    page.wait_for_timeout(500)  # nothing older arrives and turns it back
    assert asked(page) == {"base": 320_000}
    expect(page.get_by_test_id("stSidebar")).to_contain_text("320,000")
    said = headline(page).inner_text()
    again = visitor().open("similarity?base=320000")
    assert headline(again).inner_text() == said


def test_a_typed_value_moves_the_slider_and_stays_exact(visitor: Visit) -> None:
    page = visitor().open("similarity")
    said = headline(page).inner_text()
    unfold(page, "Exact values")
    box = page.get_by_role("spinbutton", name="Base")
    box.fill("1234.5")
    box.press("Enter")
    expect(headline(page)).not_to_have_text(said)
    settled(page)
    assert asked(page) == {"base": 1234.5}
    slider = page.get_by_test_id("stSlider").filter(has_text="Base")
    expect(slider).to_contain_text("Base, exactly 1,234.5")
    expect(slider).to_contain_text("1,250")
    press(page, "Base, exactly 1,234.5", "ArrowRight")
    page.wait_for_function("location.search.includes('base=1600')")
    expect(box).to_have_value("1600")
    expect(slider).not_to_contain_text("exactly")
    settled(page)
    page.keyboard.press("ArrowRight")  # the dial still has the focus
    page.wait_for_function("location.search.includes('base=2000')")


@pytest.mark.parametrize("path", ["", "relative_offsets"])
def test_the_previous_picture_stays_while_a_new_one_is_computed(visitor: Visit, path: str) -> None:
    page = visitor().open(path)
    page.evaluate(
        """() => {
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
    )
    said = lines(page)
    for name, key in (("Model dimension", "ArrowRight"), ("Base", "ArrowLeft")):
        press(page, name, key)
        page.wait_for_timeout(300)
        settled(page)
    page.wait_for_function("location.search.includes('base=')")
    settled(page)
    assert lines(page) != said or path == "relative_offsets"
    assert len(page.evaluate("[...window.seen]")) == 1


def test_a_dense_fit_is_made_when_asked_for_and_not_before(visitor: Visit) -> None:
    page = visitor().open("relative_offsets?dim=64&length=64&dense=true")
    tables = page.get_by_test_id("stMain").get_by_test_id("stDataFrame")
    before = tables.count()
    page.get_by_text("Fit one matrix without knowing the scheme").click()
    expect(tables).to_have_count(before + 1, timeout=30_000)


def test_a_tiny_run_is_started_watched_by_another_to_its_end_and_its_curve_is_seen(
    visitor: Visit,
) -> None:
    """The starter's tab is closed amid the run, which goes on; it is opened again by its link."""
    asks = "train?schemes=RoPE&run_length=16&steps=4000&width=16&layers=1&run_heads=2"
    one, other = visitor(), visitor()
    page = one.open(asks)
    page.get_by_role("button", name="Start").click()
    curve = page.locator(".stVegaLiteChart").first
    expect(curve).to_be_visible(timeout=90_000)
    watched = other.open("train")
    far = watched.get_by_text(re.compile(r"RoPE, seed 0: step [\d,]+ of 4,000"))
    expect(far).to_be_visible()
    before = far.inner_text()
    page.close()
    one.context.close()
    expect(far).not_to_have_text(before, timeout=30_000)  # it goes on, and shows
    assert watched.evaluate(INK)[0] > 0
    link = watched.get_by_test_id("stMain").get_by_role("link", name="RoPE", exact=True)
    expect(link).to_be_visible(timeout=120_000)
    expect(watched.get_by_text("Nothing is being trained on this server.")).to_be_visible()
    expect(watched.locator(".stVegaLiteChart")).to_have_count(0)
    link.click()
    settled(watched)
    expect(watched.get_by_text("Best at 16 tokens: RoPE").first).to_be_visible()
    assert watched.evaluate(INK)[0] > 0
    assert asked(watched)["half"] == "measured"
