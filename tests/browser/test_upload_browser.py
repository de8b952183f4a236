"""Models and tables of a visitor in a real browser: given, chosen, shared, planned for, shown as text."""

import json
import re
from urllib.parse import parse_qs, quote, urlparse

import numpy as np
import pytest
import torch
from playwright.sync_api import FilePayload, Page, Route, expect
from safetensors.numpy import save

from dashboard.pages.extend_context.data import read
from dashboard.pages.extend_context.options import Options
from dashboard.settings import Setting
from dashboard.text import JOINER
from posenc.models import config_token
from tests.browser import browser_page
from tests.browser.browser import Visit, go, headline, row, settled
from tests.browser.browser_page import (
    alerts,
    choose,
    click,
    close_menu,
    lines,
    menu,
    paste,
    pixels,
    upload,
)
from tests.library.crafted_files import npy, zipped_pickle
from tests.server.hostile_numbers import LLAMA

pytestmark = pytest.mark.browser

CONFIG = {
    "_name_or_path": "/home/me/secret-model", "model_type": "llama", "hidden_size": 2_048,
    "num_attention_heads": 16, "num_hidden_layers": 24, "max_position_embeddings": 32_768,
    "rope_theta": 250_000.0, "rope_scaling": {
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8_192},
}  # fmt: skip
WORD = config_token(CONFIG)
SMALL = "length=40&train_length=16&schemes=RoPE&schemes=ALiBi"


def subtitle(page: Page, title: str) -> str:
    """Return what the panel of a scheme says of itself."""
    titles = row(page, "similarity").locator(".title").all_inner_texts()
    return row(page, "similarity").locator(".subtitle").nth(titles.index(title)).inner_text()


def test_pasted_config_is_drawn_and_its_copied_link_shows_the_same(visitor: Visit) -> None:
    page = visitor().open(f"similarity?{SMALL}")
    paste(page, json.dumps(CONFIG, indent=2))
    expect(row(page, "similarity").locator(".title")).to_have_text(["RoPE", "ALiBi", "RoPE YaRN"])
    settled(page)
    assert "base 250,000" in subtitle(page, "RoPE YaRN")
    assert parse_qs(urlparse(page.url).query)["model"] == [WORD]
    assert alerts(page) == []
    link = browser_page.copied_link(page)
    assert "secret" not in link
    other = visitor().open(link)
    assert alerts(other) == []
    assert headline(other).inner_text() == headline(page).inner_text()
    assert subtitle(other, "RoPE YaRN") == subtitle(page, "RoPE YaRN")
    assert pixels(other, "similarity") == pixels(page, "similarity")
    assert lines(other) == lines(page)


@pytest.mark.long
def test_uploaded_config_is_planned_for_and_replaced_by_a_chosen_model(visitor: Visit) -> None:
    page = visitor().open(f"similarity?{SMALL}")
    upload(page, "config.json", json.dumps(CONFIG).encode(), model=True)
    expect(page.get_by_test_id("stPopoverBody")).to_contain_text("Your model (llama), 24 layers")
    click(page, page.get_by_role("button", name="Use this config").last)
    expect(row(page, "similarity").locator(".title")).to_have_text(["RoPE", "ALiBi", "RoPE YaRN"])
    close_menu(page)
    go(page, "context_planner")
    # No long search is started for it before it is asked for.
    expect(headline(page)).to_have_text(read(Setting(model=WORD), Options()).headline)
    menu(page, "Model: ")
    choose(page, "Model", "Llama-2-7B")
    expected = read(Setting(model="llama-2-7b"), Options()).headline
    expect(headline(page)).to_have_text(expected)
    settled(page)
    assert parse_qs(urlparse(page.url).query)["model"] == ["llama-2-7b"]
    close_menu(page)
    go(page, "similarity")
    assert "Llama-2-7B" in subtitle(page, "RoPE")


PICKLE = re.compile("pickle.*safetensors", re.DOTALL)
TABLE = np.random.default_rng(3).normal(size=(40, 16)).astype(np.float32)


def test_uploaded_table_is_chosen_drawn_and_shared_by_its_link(visitor: Visit) -> None:
    page = visitor().open("similarity?length=64")
    before = pixels(page, "similarity")
    both = {"wpe.weight": TABLE, "decoder.embed_positions.weight": TABLE[:24]}
    upload(page, "model.safetensors", save(both))
    expect(page.get_by_text("Several position tables")).to_be_visible()
    settled(page)
    choose(page, "Several position tables", "40 x 16")
    settled(page)
    click(page, page.get_by_role("button", name="Use this table"))
    source = "40x16 from model.safetensors, wpe.weight"
    expect(row(page, "similarity").locator(".subtitle").first).to_contain_text(source)
    browser_page.wait_until(page, lambda: pixels(page, "similarity") != before)
    after = pixels(page, "similarity")
    changed = [first != second for first, second in zip(before, after, strict=True)]
    assert changed == [True, False, False, False]
    settled(page)
    other = visitor().open(browser_page.address_of(page))
    assert alerts(other) == []
    expect(row(other, "similarity").locator(".subtitle").first).to_contain_text("40x16")


WORST = (
    "<img src=x onerror=window.pwned=1></script><script>window.pwned=1</script>"
    "![](http://10.11.12.13/p.png)[a](javascript:window.pwned=1):red[x]$\\href{http://10.11.12.13}{x}$"
)


@pytest.mark.long
def test_pickle_is_refused_and_hostile_names_are_shown_as_text(visitor: Visit) -> None:
    text = quote(WORST)
    link = "similarity?length=40&train_length=16&schemes=RoPE&schemes=Learned"
    page = visitor().open(f"{link}&base={text}&model={text}&a={text}&x={text}")
    body = page.get_by_test_id("stPopoverBody")
    upload(page, "model.pt", zipped_pickle({"wpe.weight": torch.zeros(4, 4)}))
    expect(body.get_by_test_id("stAlertContainer")).to_contain_text(PICKLE)
    expect(page.get_by_role("button", name="Use this table")).to_have_count(0)
    close_menu(page)
    paste(page, json.dumps(LLAMA | {"model_type": WORST, f"rope_{WORST}": 1}))
    click(page, page.get_by_text("Read it as a Llama model"))
    expect(body).to_contain_text("on request", timeout=60_000)
    click(page, page.get_by_role("button", name="Use this config"))
    expect(body).to_have_count(0)  # its name has changed
    expect(browser_page.picker(page, "Model")).to_contain_text("the config.json that was pasted")
    assert "<img src=x onerror=window" in page.locator("body").inner_text().replace(JOINER, "")
    close_menu(page)
    name = f"{WORST[:60]}.safetensors".replace("/", "")
    upload(page, name, save({f"{WORST}.wpe.weight": TABLE}))
    click(page, page.get_by_role("button", name="Use this table"))
    subtitle = row(page, "similarity").locator(".subtitle").first
    expect(subtitle).to_contain_text("40x16", timeout=60_000)
    settled(page)
    assert page.evaluate("window.pwned") is None
    assert page.locator("a[href^='javascript'], img[src='x'], img[src*='10.11']").count() == 0


@pytest.mark.long
def test_answer_about_the_table_before_is_pale_while_a_file_travels(visitor: Visit) -> None:
    page = visitor().open("check_my_encoding?length=40&dim=64&heads=2")
    held: list[Route] = []
    page.route("**/_stcore/upload_file/**", lambda route: held.append(route))
    before = headline(page).inner_text()
    answer = page.locator("[data-testid=stMain] .stMarkdown").first
    expect(answer).to_have_css("opacity", "1")
    file: FilePayload = {
        "name": "mine.npy",
        "mimeType": "application/octet-stream",
        "buffer": npy(np.eye(6, 4)),
    }
    with page.expect_request("**/_stcore/upload_file/**"):
        page.locator("[data-testid=stMain] input[type=file]").first.set_input_files(file)
    expect(answer).to_have_css("opacity", "0.33")
    word = (
        "getComputedStyle(document.querySelector('[data-testid=stFileChips]'), '::after').content"
    )
    assert "Uploading" in page.evaluate(word)
    assert headline(page).inner_text() == before
    held[0].continue_()
    expect(headline(page)).to_contain_text("mine.npy: No known formula")
    settled(page)
    expect(answer).to_have_css("opacity", "1")
