"""Hostile names in a real browser: no script of theirs runs, no dialog opens, no other host is asked."""

import json
from urllib.parse import quote

import numpy as np
import pytest
from playwright.sync_api import expect
from safetensors.numpy import save

from dashboard.text import JOINER
from tests.browser import Visit, row, settled
from tests.hostile_numbers import LLAMA
from tests.test_model_browser import paste
from tests.test_upload_browser import upload

pytestmark = pytest.mark.browser

WORST = (
    "<img src=x onerror=window.pwned=1></script><script>window.pwned=1</script>"
    "![](http://10.11.12.13/p.png)[a](javascript:window.pwned=1):red[x]$\\href{http://10.11.12.13}{x}$"
)


SMALL = "length=40&train_length=16&schemes=RoPE&schemes=Learned"


def test_nothing_that_a_visitor_names_is_run_fetched_or_formatted(visitor: Visit) -> None:
    """A link, a model's type, a file and its tensors, all of the worst names, one after the other."""
    somebody = visitor()
    dialogs: list[str] = []
    page = somebody.tab()
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    asked = quote(WORST)
    page.goto(
        f"{somebody.address}/similarity?{SMALL}&base={asked}&model={asked}&a={asked}&x={asked}"
    )
    settled(page)
    paste(page, json.dumps(LLAMA | {"model_type": WORST, f"rope_{WORST}": 1}))
    page.get_by_text("Read it as a Llama model").click()
    expect(page.get_by_test_id("stSidebar")).to_contain_text("on request", timeout=60_000)
    settled(page)
    page.get_by_role("button", name="Use this config").click()
    expect(page.get_by_test_id("stSidebar")).to_contain_text(
        "the config.json that was pasted", timeout=60_000
    )
    settled(page)
    assert "<img src=x onerror=window" in page.locator("body").inner_text().replace(JOINER, "")
    rows = np.random.default_rng(3).normal(size=(40, 16)).astype(np.float32)
    upload(page, f"{WORST[:60]}.safetensors".replace("/", ""), save({f"{WORST}.wpe.weight": rows}))
    page.get_by_role("button", name="Use this table").click()
    expect(row(page, "similarity").locator(".subtitle").first).to_contain_text(
        "40x16", timeout=60_000
    )
    settled(page)
    page.wait_for_timeout(500)
    assert dialogs == []
    assert page.evaluate("window.pwned") is None
    assert page.locator("a[href^='javascript']").count() == 0
    assert page.locator("img[src='x'], img[src*='10.11']").count() == 0
    assert somebody.faults == []  # among them requests to another host
