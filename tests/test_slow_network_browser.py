"""A page over a network with a long way: what is turned there and back again stays drawn."""

import tomllib

import pytest
from playwright.sync_api import expect

from posenc import Setting, fields
from tests.browser import ROOT, Visit, headline, settled
from tests.browser_page import asked, press

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


def test_a_dial_turned_back_before_the_answer_is_there_ends_where_it_began(visitor: Visit) -> None:
    """Two settings on, and back while the second is under way: what the first drew is named again.

    The browser has that when it asks, and must have it still when the answer comes.
    """
    somebody = visitor()
    somebody.context.add_init_script(LAG)
    page = somebody.open("similarity")
    first = headline(page).inner_text()
    press(page, "Base", "ArrowRight")
    expect(headline(page)).not_to_have_text(first, timeout=20_000)
    settled(page)
    press(page, "Base", "ArrowRight")
    page.wait_for_timeout(1_000)  # the server is done, and the browser has not heard it
    press(page, "Base", "ArrowLeft", 2)
    expect(headline(page)).to_have_text(first, timeout=20_000)
    settled(page)
    page.wait_for_timeout(2_000)  # nothing that comes later turns it again
    assert headline(page).inner_text() == first
    assert asked(page) == {}


def test_what_a_browser_keeps_outlives_the_longest_dial_and_back() -> None:
    """A reading is asked for again after so many others as lie between, there and back."""
    told = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text(encoding="utf-8"))
    stops = max(len(getattr(rule, "grid", None) or ()) for rule in fields.rules(Setting).values())
    assert stops > 50
    assert told["global"]["maxCachedMessageAge"] > 2 * stops
