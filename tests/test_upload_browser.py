"""Uploads in a real browser: taken, shared, chosen from, refused, shown as text."""

import numpy as np
import pytest
import torch
from playwright.sync_api import Page, expect
from safetensors.numpy import save

from dashboard.text import JOINER
from tests.browser import Visit, go, headline, row, settled
from tests.browser_page import alerts, asked, choose, opacity, pixels, unfold
from tests.crafted_files import zipped_pickle

pytestmark = pytest.mark.browser


def upload(page: Page, name: str, content: bytes) -> None:
    """Give a file to the uploader of the sidebar."""
    if not page.get_by_test_id("stFileUploader").is_visible():
        unfold(page, "Upload a table")
    page.locator("input[type=file]").set_input_files(
        {"name": name, "mimeType": "application/octet-stream", "buffer": content}
    )


def position_table() -> np.ndarray:
    return np.random.default_rng(3).normal(size=(40, 16)).astype(np.float32)


def test_an_uploaded_table_becomes_the_learned_one_and_its_shape_is_shown(visitor: Visit) -> None:
    page = visitor().open("similarity?length=64")
    before = pixels(page, "similarity")
    upload(page, "model.safetensors", save({"wpe.weight": position_table()}))
    expect(page.get_by_text("wpe.weight: 40 x 16")).to_be_visible()
    page.get_by_role("button", name="Use this table").click()
    subtitle = row(page, "similarity").locator(".subtitle").first
    expect(subtitle).to_contain_text("40x16 from model.safetensors")
    settled(page)
    after = pixels(page, "similarity")
    assert [one != other for one, other in zip(before, after, strict=True)] == [
        True,
        False,
        False,
        False,
    ]
    shown = opacity(page, "similarity")
    assert (shown[:40, :40] == 255).all()
    assert (shown[40:] == 0).all()  # no row, no colour
    assert (shown[:, 40:] == 0).all()
    go(page, "pca")
    expect(page.get_by_test_id("stMain")).to_contain_text("40x16 from model.safetensors")


def test_an_uploaded_table_is_shared_by_its_link(visitor: Visit) -> None:
    somebody = visitor()
    page = somebody.open("similarity?length=64")
    upload(page, "model.safetensors", save({"wpe.weight": position_table()}))
    page.get_by_role("button", name="Use this table").click()
    expect(row(page, "similarity").locator(".subtitle").first).to_contain_text("40x16")
    settled(page)
    other = visitor().open(page.url.removeprefix(somebody.address + "/"))
    assert alerts(other) == []
    expect(row(other, "similarity").locator(".subtitle").first).to_contain_text("40x16")


def test_one_of_several_tables_is_chosen_before_it_is_used(visitor: Visit) -> None:
    page = visitor().open("similarity?length=64")
    both = {"wpe.weight": position_table(), "decoder.embed_positions.weight": position_table()[:24]}
    upload(page, "model.safetensors", save(both))
    expect(page.get_by_text("Several position tables")).to_be_visible()
    settled(page)
    choose(page, "Several position tables", "40 x 16")
    settled(page)
    page.get_by_role("button", name="Use this table").click()
    subtitle = row(page, "similarity").locator(".subtitle").first
    expect(subtitle).to_contain_text("40x16 from model.safetensors, wpe.weight")


def test_a_pickle_is_refused_with_the_reason_and_nothing_is_lost(visitor: Visit) -> None:
    page = visitor().open("similarity?base=500")
    said = headline(page).inner_text()
    upload(page, "model.pt", zipped_pickle({"wpe.weight": torch.zeros(4, 4)}))
    alert = page.get_by_test_id("stSidebar").get_by_test_id("stAlertContainer")
    expect(alert).to_contain_text("pickle")
    expect(alert).to_contain_text("safetensors")
    assert "Traceback" not in alert.inner_text()
    expect(page.get_by_role("button", name="Use this table")).to_have_count(0)
    assert headline(page).inner_text() == said
    assert asked(page) == {"base": 500}


@pytest.mark.parametrize("taken", [False, True], ids=["refused", "taken"])
def test_a_file_name_is_shown_as_text(visitor: Visit, taken: bool) -> None:
    somebody = visitor()
    page = somebody.open("pca")
    name = "![x](http://10.11.12.13/p.png)<img src=x onerror=window.pwned=1>.safetensors"
    upload(page, name, save({"wpe.weight": position_table()}) if taken else b"garbage")
    if taken:
        page.get_by_role("button", name="Use this table").click()
        expect(page.get_by_test_id("stMain")).to_contain_text("40x16")
        settled(page)
    else:
        expect(page.get_by_test_id("stSidebar").get_by_test_id("stAlertContainer")).to_be_visible()
    page.wait_for_timeout(500)
    foreign, somebody.faults = somebody.faults, []
    assert foreign == []
    assert page.evaluate("window.pwned") is None
    shown = page.locator("body").inner_text().replace(JOINER, "")
    assert "![x](http://10.11.12.13/p.png)" in shown
