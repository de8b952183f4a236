"""Names of icons, help, sliders and grids, and changes as a screen reader hears them."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.browser import Visit, dial, go, headline, settled

pytestmark = pytest.mark.browser


@pytest.mark.long
def test_headline_is_told_once_a_run_has_settled_and_not_when_a_page_opens(visitor: Visit) -> None:
    page = visitor().open("similarity")
    told = page.locator("[aria-live=polite].told-headline")
    page.wait_for_timeout(1_500)
    expect(told).to_have_text("")
    page.evaluate("""() => {
      window.changed = 0;
      window.heard = [];
      const told = document.querySelector(".told-headline");
      const headline = () => document.querySelector("[data-testid=stMain] strong")?.textContent;
      let last = headline();
      new MutationObserver(() => {
        if (headline() === last) return;
        last = headline();
        window.changed = performance.now();
      }).observe(document.querySelector("[data-testid=stApp]"), {
        subtree: true, childList: true, characterData: true });
      new MutationObserver(() => window.heard.push([told.textContent, performance.now() - window.changed]))
        .observe(told, { childList: true });
    }""")
    before = headline(page).inner_text()
    for _ in range(4):
        dial(page, "Base").press("ArrowRight")
    expect(headline(page)).not_to_have_text(before)
    settled(page)
    expect(told).to_have_text(headline(page).inner_text())
    page.wait_for_timeout(1_500)
    heard, quiet = zip(*page.evaluate("window.heard"), strict=True)
    # Once where the four presses are quick; a slow machine may make pauses between them.
    assert (heard[-1], len({*heard})) == (headline(page).inner_text(), len(heard))
    assert min(quiet) > 990  # milliseconds since the headline changed


@pytest.mark.long
def test_icons_say_nothing_help_and_grids_are_named_once_and_closed_claims_are_read(
    visitor: Visit,
) -> None:
    page = visitor().open("relative_offsets")
    main = page.get_by_test_id("stMain")
    expect(main.locator("span[role=img]").first).to_have_attribute("aria-hidden", "true")
    expect(main.get_by_role("img", name=re.compile(" icon$"))).to_have_count(0)
    expect(page.get_by_role("button", name="Help", exact=True)).to_have_count(0)
    expect(page.get_by_role("button", name=re.compile("^Help for Error: "))).to_have_count(1)
    expect(page.get_by_role("slider", name="Offset k", exact=True)).to_have_count(1)
    go(page, "extrapolation")
    grid = main.locator(
        "[role=grid]"
    ).first  # within a canvas, where a search by role does not look
    expect(grid).to_have_attribute("aria-label", "All measured schemes")
    go(page, "claims")
    false = page.locator("summary").filter(has_text="False:")
    expect(false.first).to_have_css("opacity", "1")  # closed: as dark as text
