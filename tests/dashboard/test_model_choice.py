"""A real model in the dashboard: chosen, pasted, uploaded, linked, pinned, and fetched from the Hub."""

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Toggle

from dashboard import pickers
from dashboard.pages.extend_context import data as planner_data
from dashboard.pages.extend_context.options import Options
from dashboard.settings import Setting, chosen_model
from dashboard.state import setting_of, to_token
from posenc import limits
from posenc.checkpoints import hub_is_enabled
from posenc.checkpoints.position_table import PositionTable, read_position_table
from posenc.errors import CheckpointError, ConfigError
from posenc.models import config_token, read_config
from posenc.models.presets import MODELS
from posenc.schemes import SCHEMES
from tests.dashboard.pages import (
    as_read,
    drawn,
    headline,
    matrices,
    notices,
    script_of,
    setting,
    visit,
)
from tests.dashboard.script_runner import run
from tests.library.crafted_files import zipped_pickle

pytestmark = pytest.mark.usefixtures("no_shape_checks")

YARN = {
    "model_type": "llama", "hidden_size": 2_048, "num_attention_heads": 16, "num_hidden_layers": 24,
    "max_position_embeddings": 32_768, "rope_theta": 250_000.0, "vocab_size": 32_000,
    "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8_192},
}  # fmt: skip
PLAIN = {name: value for name, value in YARN.items() if name != "rope_scaling"}
SMALL = {"length": "48", "train_length": "16", "schemes": "rope"}


def sidebar(at: AppTest) -> str:
    """Everything that the sidebar says."""
    boxes = [*at.sidebar.caption, *at.sidebar.info, *at.sidebar.error, *at.sidebar.markdown]
    return " ".join(as_read(box.value) for box in boxes)


def choose(at: AppTest, word: str) -> AppTest:
    return at.selectbox(key="model_list").set_value(word).run()


def open_own_model(**link: str) -> AppTest:
    return visit("similarity", SMALL | link, model_menu=True)


def paste(at: AppTest, config: Any) -> AppTest:
    text = config if isinstance(config, str) else json.dumps(config)
    (field,) = at.text_area
    field.set_value(text).run()
    return at.button(key="use_config").click().run()


def upload(at: AppTest, name: str, content: bytes) -> AppTest:
    boxes: list[Any] = [*at.sidebar.get("file_uploader")]
    (box,) = [box for box in boxes if "config.json" in box.label]
    return box.set_value((name, content, "application/octet-stream")).run()


@pytest.mark.parametrize("name", MODELS)
def test_model_replaces_the_config_of_its_scheme_alone(name: str) -> None:
    plain, chosen = Setting(learned_source="random"), Setting(model=name, learned_source="random")
    own = MODELS[name].read(scaled=False).rotary_kind.scheme
    for kind in SCHEMES:
        is_own = own is not None and own.kind == kind
        assert chosen.config(kind) == (own if is_own else plain.config(kind))


def test_sizes_of_a_model_are_limited_as_those_of_a_setting() -> None:
    wide = config_token({"model_type": "opt", "hidden_size": 4_096, "num_attention_heads": 32})
    values = {"model": wide, "learned_source": "random", "length": 2_048}
    assert setting_of(values) == (Setting(learned_source="random", length=2_048), ["model"])
    few = config_token({"model_type": "bloom", "hidden_size": 64, "n_head": 4, "n_layer": 2})
    assert setting_of({"model": few, "alibi_head": 6}) == (Setting(alibi_head=6), ["model"])
    wide_head = config_token(PLAIN | {"hidden_size": 2_048, "num_attention_heads": 2})
    assert setting_of({"model": wide_head}) == (Setting(), ["model"])
    with pytest.raises(ConfigError, match="wider than 512"):
        Setting(model=wide_head)
    many = config_token(
        {"model_type": "bloom", "hidden_size": 2_048, "n_head": 1_024, "n_layer": 2}
    )
    assert chosen_model(many).scheme is None
    assert "1,024 heads" in chosen_model(many).too_large


def test_chosen_model_draws_its_own_numbers_and_hides_controls_it_ignores() -> None:
    link = {"length": "48", "train_length": "16", "schemes": "rope,sinusoidal"}
    at = drawn(choose(visit("similarity", link, model_menu=True), "llama-3-8b"))
    header, shown = matrices(at)
    subtitles = {panel["title"]: panel["subtitle"] for panel in header["panels"]}
    assert subtitles["RoPE"].startswith("Llama-3-8B: width 128, base 500,000")
    assert subtitles["Sinusoidal"].startswith("512 dimensions")
    angles = np.arange(48)[:, None] * 5e5 ** (-np.arange(0, 128, 2) / 128)
    expected = np.cos(angles[:, None] - angles[None]).mean(-1)
    assert np.allclose(shown["RoPE"], expected, atol=1e-6)
    at.multiselect(key="schemes").set_value(["rope"]).run()
    assert not {"Base", "Model dimension"} & {slider.label for slider in at.select_slider}


def test_scheme_of_a_model_is_shown_where_there_is_room() -> None:
    at = choose(open_own_model(), "deepseek-v3")
    assert setting(at).schemes == ("rope", "rope_yarn")
    assert "DeepSeek-V3: width 64 of 192" in matrices(drawn(at))[0]["panels"][1]["subtitle"]
    six = ",".join([*SCHEMES][:6])
    at = choose(open_own_model(schemes=six), "phi-3-mini-128k")
    assert len(setting(at).schemes) == 6
    assert at.button(key="show_scheme").disabled
    at = drawn(open_own_model(model="deepseek-v3"))  # a link adds no scheme
    assert setting(at).schemes == ("rope",)
    at.button(key="show_scheme").click().run()
    assert setting(drawn(at)).schemes == ("rope", "rope_yarn")


def test_other_layers_are_explained() -> None:
    text = sidebar(drawn(open_own_model(model="gemma-3-4b")))
    assert "29 sliding_attention layers (RoPE, base 10,000, 1,024 tokens seen)" in text


@pytest.mark.parametrize(
    ("model", "kind", "config"),
    [
        ("t5-base", "t5", {"heads": 12}),
        ("transformer-xl", "transformer_xl", {"dim": 1_024, "heads": 16}),
        ("gpt-2", "learned", {"dim": 768, "max_len": 1_024}),
    ],
)
def test_model_of_trained_numbers_starts_at_random(model: str, kind: str, config: Any) -> None:
    at = drawn(choose(open_own_model(**{"t5.source": "trained"}), model))
    chosen = setting(at)
    assert kind in chosen.schemes
    assert config.items() <= dataclasses.asdict(chosen.config(kind)).items()
    assert kind != "learned" or chosen.learned_source == "random"


def test_pasted_config_is_shown_and_linked_and_only_its_word_is_kept() -> None:
    config = YARN | {"_name_or_path": "/home/me/secret"}
    at = drawn(paste(open_own_model(schemes="sinusoidal"), config))
    word = config_token(YARN)
    assert setting(at).model == word
    assert setting(at).schemes == ("sinusoidal", "rope_yarn")
    assert at.query_params["model"] in (word, [word])
    subtitle = matrices(at)[0]["panels"][1]["subtitle"]
    assert subtitle.startswith("Your model (llama): width 128, base 250,000, YaRN by 4")
    assert "secret" not in repr(at.session_state)
    other = drawn(visit("similarity", {name: at.query_params[name] for name in at.query_params}))
    assert (setting(other), headline(other)) == (setting(at), headline(at))
    assert notices(other) == []
    choose(at, "")
    assert setting(at).model == ""
    assert setting(choose(at, word)).model == word  # it can be chosen again
    at = drawn(paste(at, {"model_type": "qwen2"}))
    assumed = read_config({"model_type": "qwen2"}).assumed
    assert len(assumed) > 5
    assert all(sentence in sidebar(at) for sentence in assumed)


def test_unusable_config_is_refused_with_the_key_at_fault() -> None:
    at = open_own_model()
    wide = {"model_type": "llama", "hidden_size": 4_096, "num_attention_heads": 4}
    for text, reason in (
        ("~/config.json", "is not JSON"),
        (" \n", "the config is empty"),
        ('{"model_type": "llama", "rope_theta": -5}', "rope_theta"),
        ('{"model_type": "<b>![x](http://10.0.0.1/a.png)"}', "model_type"),
        (json.dumps(wide), "wider than 512"),
    ):
        paste(at, text)
        assert not at.exception
        (error,) = at.error
        assert reason in as_read(error.value)
        assert "![x](" not in error.value
        assert setting(at).model == ""
        assert at.text_area[0].value == text  # still there to be corrected


def test_use_this_config_without_a_config_changes_nothing() -> None:
    at = open_own_model()
    at.button(key="use_config").click().run()
    assert setting(drawn(at)).model == ""


def test_uploaded_config_is_used_once_a_button_is_pressed() -> None:
    at = upload(open_own_model(), "config.json", b" " * (limits.MAX_CONFIG_BYTES + 1))
    assert "may have at most 1 MB" in as_read(at.error[0].value)
    upload(at, "config.json", b" ")
    assert as_read(at.error[0].value) == "config.json: the config is empty."
    upload(at, "model.pt", zipped_pickle({"wpe.weight": torch.zeros(4, 4)}))
    assert "model.pt: the config is not UTF-8 text" in as_read(at.error[0].value)
    upload(at, "config.json", json.dumps(PLAIN).encode())
    assert "Read, but not used yet: Your model (llama), 24 layers, RoPE" in sidebar(at)
    at.button(key="use_config").click().run()
    assert setting(drawn(at)).model == config_token(PLAIN)
    assert "base 250,000" in matrices(at)[0]["panels"][0]["subtitle"]


UNKNOWN = PLAIN | {"model_type": "brand_new", "attention_chunk_size": 4_096}


def warnings(at: AppTest) -> list[str]:
    return [as_read(box.value) for box in at.main.warning]


def assume_switch(at: AppTest) -> Toggle:
    (switch,) = [one for one in at.toggle if str(one.key).startswith("assume_")]
    return switch


@pytest.mark.parametrize(
    ("config", "key"),
    [(UNKNOWN, "brand_new"), (UNKNOWN | {"model_type": "llama"}, "attention_chunk_size")],
)
def test_config_is_refused_until_its_switch_is_on(config: dict[str, object], key: str) -> None:
    at = paste(open_own_model(), config)
    assert not at.exception
    (error,) = at.error
    assert key in as_read(error.value)
    assert "--assume" not in error.value  # an option of the command line
    assert setting(at).model == ""
    assume_switch(at).set_value(True).run()
    assert not at.error
    paste(at, config | {"rope_theta": 1e6})  # another config: the switch is off again
    assert not assume_switch(at).value
    paste(at, config)
    assume_switch(at).set_value(True).run()
    at.button(key="use_config").click().run()
    assert setting(drawn(at)).model == config_token(config, "llama")
    assert warnings(at) == [read_config(config, "llama").assumption]


def test_assumption_is_the_first_sentence_wherever_its_model_is_used() -> None:
    word, sentence = config_token(UNKNOWN, "llama"), read_config(UNKNOWN, "llama").assumption
    plan = {"context": "16384", "methods": "none"}
    for page, link in (("similarity", SMALL), ("context_planner", plan)):
        at = drawn(visit(page, link | {"model": word}))
        assert warnings(at) == [sentence]
        assert script_of(at).splitlines()[0] == f"# {sentence}"
    pin = to_token(Setting(model=word, schemes=("rope",), length=48, train_length=16))
    of_pin = warnings(drawn(visit("similarity", SMALL | {"a": pin})))
    assert of_pin == [f"Pinned setting, A: {sentence}"]
    assert sentence not in warnings(drawn(visit("claims", {"model": word})))
    choice = Options(context=16_384, methods=("none",))
    printed = run(planner_data.script(Setting(model=word), choice)).stderr
    assert printed.splitlines()[0] == sentence


def test_hub_is_asked_on_request_where_it_is_enabled(monkeypatch: pytest.MonkeyPatch) -> None:
    link = SMALL | {"schemes": "learned", "model": "gpt-2"}
    calls: list[str] = []

    def answer(model: str, tensor: str | None, **named: Any) -> PositionTable:
        calls.append(model)
        if model == "slow/model":
            raise CheckpointError("The Hub did not answer within 15 seconds.")
        rows = np.random.default_rng(4).normal(size=(32, 8)).astype(np.float32)
        return read_position_table(save({"wpe.weight": rows}), file_name=model)

    monkeypatch.setattr(pickers, "hub_table", answer)
    monkeypatch.delenv("POSENC_HUB", raising=False)
    assert not hub_is_enabled()
    at = visit("similarity", link, learned_source_menu=True)
    assert "hub_fetch" not in [button.key for button in at.button]
    monkeypatch.setenv("POSENC_HUB", "1")
    at = drawn(visit("similarity", link, learned_source_menu=True))
    assert calls == []
    for model in ("slow/model", "good/model"):
        at.text_input(key="hub_model").set_value(model).run()
        at.button(key="hub_fetch").click().run()
        assert len(notices(at)) == (model == "slow/model")
    assert setting(drawn(at)).learned_source.startswith("table-")
    assert calls == ["slow/model", "good/model"]


def test_page_says_first_that_a_refused_config_is_not_shown_until_a_model_is_chosen() -> None:
    at = drawn(
        visit("context_planner", {"model": "llama-2-7b", "context": "16384"}, model_menu=True)
    )
    before = headline(at)
    (field,) = at.text_area
    field.set_value('{"model_type": "llama", "rope_theta": -5}').run()
    at.session_state["model_menu"] = False  # the menu closes, and what it said with it
    drawn(at.run())
    assert not at.error
    (notice,) = warnings(at)
    assert notice.startswith("This page does not show your model. This config cannot be used: ")
    assert "rope_theta" in notice
    assert headline(at) == before  # the plan is that of the model before
    assert warnings(drawn(at.run())) == [notice]
    at.session_state["model_menu"] = True
    drawn(choose(at.run(), "llama-3-8b"))
    assert warnings(at) == []
