"""A model in a real browser: pasted, uploaded, shared by its link, planned for."""

import json
import re
from urllib.parse import parse_qs, urlparse

import numpy as np
import pytest
from playwright.sync_api import Page, expect
from safetensors.numpy import save

from posenc import Query, Setting
from posenc.analysis import scheme_similarity
from posenc.interop.models import config_word
from posenc.planner import plan, verdict
from posenc.presets import MODELS
from posenc.shared_model import shared_model
from tests.browser import Visit, go, headline, row, settled
from tests.browser_page import alerts, choose, lines, pixels, unfold
from tests.longer import mostly
from tests.test_config_word import BOMB, packed
from tests.test_share_browser import copied

pytestmark = pytest.mark.browser

CONFIG = {
    "_name_or_path": "/home/me/secret-model", "model_type": "llama", "hidden_size": 2_048,
    "num_attention_heads": 16, "num_hidden_layers": 24, "max_position_embeddings": 32_768,
    "rope_theta": 250_000.0, "rope_scaling": {
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8_192},
}  # fmt: skip
WORD = config_word(CONFIG)
SMALL = "length=40&train_length=16&schemes=RoPE&schemes=ALiBi"


def paste(page: Page, text: str) -> None:
    """Type a config into the sidebar and ask for it."""
    if not page.get_by_role("textbox", name="Paste its config.json").is_visible():
        unfold(page, "Your own model")
    page.get_by_role("textbox", name="Paste its config.json").fill(text)
    page.get_by_role("button", name="Use this config").click()


def upload(page: Page, name: str, content: bytes) -> None:
    """Give a file to the uploader of a model."""
    unfold(page, "Your own model")
    page.locator("[class*=st-key-model_file] input[type=file]").set_input_files(
        {"name": name, "mimeType": "application/octet-stream", "buffer": content}
    )


def subtitle(page: Page, title: str) -> str:
    """What the panel of a scheme says of itself."""
    titles = row(page, "similarity").locator(".title").all_inner_texts()
    return row(page, "similarity").locator(".subtitle").nth(titles.index(title)).inner_text()


def drawn_means(page: Page, setting: Setting) -> None:
    """Assert that the numbers under the page are those that the library computes for a setting."""
    page.get_by_text("Numbers: similarity by distance").click()
    with page.expect_download() as waiting:
        page.locator(".st-key-csv_similarity_by_distance button").click()
    text = waiting.value.path().read_text()
    head, *rest = (line.split(",") for line in text.splitlines())
    for kind in setting.schemes:
        found = scheme_similarity(Query.of(setting, kind))
        label = setting.config(kind).label
        mine = {
            float(cells[head.index("distance")]): float(cells[head.index("mean")])
            for cells in rest
            if cells[head.index("scheme")] == label
        }
        expected = dict(zip(found.offsets.tolist(), found.mean.tolist(), strict=True))
        assert mine == pytest.approx(expected, abs=1e-9)


def test_a_pasted_config_is_drawn_and_its_copied_link_shows_a_colleague_the_same(
    visitor: Visit,
) -> None:
    somebody = visitor()
    page = somebody.open(f"similarity?{SMALL}")
    paste(page, json.dumps(CONFIG, indent=2))
    expect(row(page, "similarity").locator(".title")).to_have_text(["RoPE", "ALiBi", "RoPE YaRN"])
    settled(page)
    assert subtitle(page, "RoPE YaRN").startswith(
        "Your model (llama): width 128, base 250,000, YaRN by 4;"
    )
    assert parse_qs(urlparse(page.url).query)["model"] == [WORD]
    assert alerts(page) == []
    setting = Setting(
        length=40, train_length=16, schemes=("rope", "alibi", "rope_yarn"), model=WORD
    )
    drawn_means(page, setting)
    link = copied(page)
    assert "secret" not in link
    assert len(link) < 2_500
    other = visitor().open(link.removeprefix(somebody.address + "/"))
    assert alerts(other) == []
    assert headline(other).inner_text() == headline(page).inner_text()
    assert subtitle(other, "RoPE YaRN") == subtitle(page, "RoPE YaRN")
    assert pixels(other, "similarity") == pixels(page, "similarity")
    assert lines(other) == lines(page)


def test_an_uploaded_config_is_drawn_and_follows_to_the_planner(visitor: Visit) -> None:
    page = visitor().open(f"similarity?{SMALL}")
    upload(page, "config.json", json.dumps(CONFIG).encode())
    expect(
        page.get_by_text("Read, but not used yet: Your model (llama), 24 layers")
    ).to_be_visible()
    settled(page)
    page.get_by_role("button", name="Use this config").last.click()
    expect(row(page, "similarity").locator(".title")).to_have_text(["RoPE", "ALiBi", "RoPE YaRN"])
    settled(page)
    go(page, "context_planner")
    model = shared_model(WORD)  # no long search is started for it before it is asked for
    expected = plan(model.config, 131_072, name=model.label, search_base=False, scan=65_536)
    assert headline(page).inner_text() == verdict(expected)


def test_an_uploaded_checkpoint_gives_the_learned_table(visitor: Visit) -> None:
    rows = np.random.default_rng(3).normal(size=(24, 16)).astype(np.float32)
    page = visitor().open("similarity?length=40")
    upload(page, "model.safetensors", save({"wpe.weight": rows}))
    expect(page.get_by_text("RoPE and ALiBi store none")).to_be_visible()
    page.get_by_role("button", name="Use this table").click()
    expect(row(page, "similarity").locator(".subtitle").first).to_contain_text("24x16")


def test_a_chosen_model_is_planned_for_and_back_again(visitor: Visit) -> None:
    page = visitor().open("context_planner?context=16384")
    assert headline(page).inner_text().startswith("Llama-3-8B from 8,192 to 16,384")
    choose(page, "Model", "LLaMA-2-7B")
    expect(headline(page)).to_have_text(re.compile("^LLaMA-2-7B"), timeout=30_000)
    settled(page)
    preset = MODELS["llama-2-7b"]
    found = plan(preset.read(), 16_384, name=preset.label)
    assert headline(page).inner_text() == verdict(found)
    assert parse_qs(urlparse(page.url).query)["model"] == ["llama-2-7b"]
    go(page, "similarity")
    assert subtitle(page, "RoPE").startswith("LLaMA-2-7B: width 128, base 10,000;")


@pytest.mark.parametrize(
    ("text", "said"),
    mostly(
        [
            ('{"model_type": "llama", "rope_theta": -1}', "rope_theta must be"),
            ("/etc/passwd", "is not JSON"),
            ('{"model_type": "<img src=x onerror=window.pwned=1>"}', "model_type"),
        ],
        ('{"model_type": "<img src=x onerror=window.pwned=1>"}', "model_type"),
    ),
)
def test_a_bad_config_is_one_sentence_and_nothing_is_lost(
    visitor: Visit, text: str, said: str
) -> None:
    page = visitor().open(f"similarity?{SMALL}")
    before = headline(page).inner_text()
    paste(page, text)
    alert = page.get_by_test_id("stSidebar").get_by_test_id("stAlertContainer")
    expect(alert).to_contain_text(said)
    settled(page)
    assert page.get_by_role("textbox", name="Paste its config.json").input_value() == text
    assert page.evaluate("window.pwned") is None
    assert headline(page).inner_text() == before
    assert "model=" not in page.url


@pytest.mark.parametrize(
    "word",
    mostly([BOMB, packed(b"[1]"), "config-" + "A" * 60_000, "/etc/passwd", "config-%00%ff"], BOMB),
    ids=["bomb", "list", "long", "path", "bytes"],
)  # fmt: skip
def test_a_hostile_link_opens_the_page_without_the_model(visitor: Visit, word: str) -> None:
    page = visitor().open(f"similarity?{SMALL}&model={word}")
    (said,) = alerts(page)
    assert "No model is chosen." in said or "none is used instead." in said
    assert "model=" not in page.url
    assert subtitle(page, "RoPE").startswith("width 64")
