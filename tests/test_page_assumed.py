"""A config that is read on request alone, on the pages: refused, switched on, said above all numbers."""

import base64
import json
import subprocess
import sys
import zlib

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Toggle

from dashboard import pinned
from dashboard.choices import PlanChoice
from dashboard.scripts import context_planner as planner_script
from posenc import Setting
from posenc.interop import read_config
from posenc.interop.models import config_word
from tests.pages import as_read, drawn, headline, setting, visit

pytestmark = pytest.mark.usefixtures("no_shape_checks")

CONFIG = {
    "model_type": "brand_new", "hidden_size": 2_048, "num_attention_heads": 16,
    "num_hidden_layers": 24, "max_position_embeddings": 8_192, "rope_theta": 250_000.0,
    "attention_chunk_size": 4_096,
}  # fmt: skip
KNOWN = CONFIG | {"model_type": "llama"}
SMALL = {"length": "48", "train_length": "16", "schemes": "rope"}
PLAN = {"context": "16384", "methods": "none"}
WORD = config_word(CONFIG, "llama")
SENTENCE = read_config(CONFIG, "llama").assumption


def warnings(at: AppTest) -> list[str]:
    return [as_read(one.value) for one in at.main.warning]


def paste(at: AppTest, config: dict[str, object]) -> AppTest:
    at.text_area(key="config_text_0").set_value(json.dumps(config)).run()
    return at.button(key="use_config").click().run()


def assume_switch(at: AppTest) -> Toggle:
    (switch,) = [one for one in at.toggle if str(one.key).startswith("assume_")]
    return switch


@pytest.mark.parametrize(
    ("config", "label", "said"),
    [
        (CONFIG, "Read it as a Llama model", 'model_type "brand_new" is not known'),
        (KNOWN, "Read it without what is named", "attention_chunk_size bears on position"),
    ],
)
def test_a_refused_config_is_read_once_its_switch_is_turned(
    config: dict[str, object], label: str, said: str
) -> None:
    at = paste(visit("similarity", SMALL, your_model=True), config)
    assert not at.exception
    (error,) = at.error
    assert said in as_read(error.value)
    assert "--assume" not in error.value  # of the command line
    assert setting(at).model == ""
    switch = assume_switch(at)
    assert (switch.label, switch.value) == (label, False)
    switch.set_value(True).run()
    assert not at.error
    expected = read_config(config, "llama").assumption
    assert expected in [as_read(one.value) for one in at.sidebar.warning]
    at.button(key="use_config").click().run()
    assert setting(drawn(at)).model == config_word(config, "llama")
    assert warnings(at) == [expected]


def test_what_was_asked_for_one_config_is_not_asked_for_the_next() -> None:
    at = paste(visit("similarity", SMALL, your_model=True), CONFIG)
    assume_switch(at).set_value(True).run()
    assert not at.error
    at = paste(at, CONFIG | {"model_type": "another_new"})
    assert not assume_switch(at).value
    (error,) = at.error
    assert "another_new" in as_read(error.value)


@pytest.mark.parametrize("page", ["similarity", "context_planner", "start"])
def test_a_link_to_an_assumed_model_opens_with_the_sentence_above_all_numbers(page: str) -> None:
    link = {"model": WORD} | (PLAN if page == "context_planner" else SMALL)
    at = drawn(visit(page, link))
    assert setting(at).model == WORD
    assert warnings(at) == [SENTENCE]
    parts = [one.type for one in at.main if one.type in ("warning", "title", "dataframe")]
    assert parts[:2] == ["warning", "title"]
    shown = at.session_state["sheet"]
    assert shown.sentences[0] == SENTENCE  # of the page that is taken away
    assert shown.script.splitlines()[0] == f"# {SENTENCE}"


def test_a_page_that_uses_no_model_says_nothing_of_it() -> None:
    at = drawn(visit("claims", {"model": WORD}))
    assert SENTENCE not in warnings(at)


def test_a_model_that_is_read_as_it_is_has_no_sentence() -> None:
    assert warnings(drawn(visit("similarity", SMALL | {"model": "llama-3-8b"}))) == []


def test_the_planner_s_script_prints_the_sentence_first() -> None:
    text = planner_script.script(Setting(model=WORD), PlanChoice(context=16_384, methods=("none",)))
    ran = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert ran.stderr.splitlines()[0] == SENTENCE
    plain = planner_script.script(Setting(), PlanChoice(context=16_384, methods=("none",)))
    assert "assumption" not in plain


def test_a_link_without_the_request_opens_without_the_model() -> None:
    """As one that was made when unknown types were guessed."""
    packed = zlib.compress(json.dumps(CONFIG).encode(), 9)
    word = "config-" + base64.urlsafe_b64encode(packed).rstrip(b"=").decode()
    found, said = Setting.snap({"model": word})
    assert found.model == ""
    assert said == [
        'The model of this link cannot be used: model_type "brand_new" is not known, and nothing is '
        "guessed. No model is chosen."
    ]


def test_what_was_assumed_stands_between_title_and_headline_of_the_planner() -> None:
    config = {"model_type": "qwen2"}
    at = drawn(visit("context_planner", PLAN | {"model": config_word(config)}))
    captions = [as_read(one.value) for one in at.main.caption]
    first = next(text for text in captions if "is absent" in text)
    for sentence in read_config(config).assumed:
        assert sentence in first
    assert at.session_state["sheet"].sentences[0] == first
    assert headline(at)


def test_the_sentence_of_a_pinned_model_is_said_as_its_own() -> None:
    word = pinned.written(Setting(model=WORD, schemes=("rope",), length=48, train_length=16))
    assert warnings(drawn(visit("similarity", SMALL | {"a": word}))) == [
        f"Pinned setting, A: {SENTENCE}"
    ]
