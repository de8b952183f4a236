"""A real model in the dashboard: chosen, pasted, uploaded, linked, pinned, written as Python."""

import csv
import io
import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save
from streamlit.testing.v1 import AppTest

from dashboard import page as pages
from dashboard import pinned
from dashboard.scripts import similarity as script
from posenc import Query, Setting, limits
from posenc.analysis import scheme_similarity
from posenc.errors import ConfigError
from posenc.interop import hub_is_enabled
from posenc.interop.models import config_word, read_config
from posenc.interop.position_tables import PositionTable
from posenc.planner.context_plan import planned_kind
from posenc.presets import MODELS
from posenc.schemes import SCHEMES
from posenc.schemes.t5 import T5Config
from posenc.schemes.transformer_xl import TransformerXLConfig
from posenc.shared_model import shared_model
from tests.pages import (
    SCHEME_PAGES,
    as_read,
    charts,
    drawn,
    headline,
    matrices,
    notices,
    setting,
    visit,
)
from tests.test_config_word import BAD_WORDS

pytestmark = pytest.mark.usefixtures("no_shape_checks")

YARN = {
    "model_type": "llama", "hidden_size": 2_048, "num_attention_heads": 16, "num_hidden_layers": 24,
    "max_position_embeddings": 32_768, "rope_theta": 250_000.0, "vocab_size": 32_000,
    "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8_192},
}  # fmt: skip
PLAIN = {name: value for name, value in YARN.items() if name != "rope_scaling"}
SMALL = {"length": "48", "train_length": "16", "schemes": "rope"}


def told(at: AppTest) -> str:
    """Everything the sidebar says in words."""
    boxes = [*at.sidebar.caption, *at.sidebar.info, *at.sidebar.error, *at.sidebar.markdown]
    return " ".join(as_read(box.value) for box in boxes)


def choose(at: AppTest, word: str) -> AppTest:
    return at.selectbox(key="model_control").set_value(word).run()


def opened(page: str = "similarity", **link: str) -> AppTest:
    return visit(page, SMALL | link, your_model=True)


def paste(at: AppTest, config: Any) -> AppTest:
    text = config if isinstance(config, str) else json.dumps(config)
    at.text_area(key=f"config_text_{_taken(at)}").set_value(text).run()
    return at.button(key="use_config").click().run()


def _taken(at: AppTest) -> int:
    return at.session_state.get("configs_taken", 0)


def upload(at: AppTest, name: str, content: bytes) -> AppTest:
    box = next(one for one in at.sidebar.get("file_uploader") if "config.json" in one.label)
    return box.set_value((name, content, "application/octet-stream")).run()


# What a setting makes of a model ------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_a_model_s_own_config_stands_in_the_place_of_its_scheme_alone(name: str) -> None:
    given, plain = Setting(model=name, learned_source="random"), Setting(learned_source="random")
    model = shared_model(name)
    assert model.kind == planned_kind(MODELS[name].read(scaled=False))
    for kind in SCHEMES:
        expected = plain.config(kind)
        if model.kind.scheme is not None and model.kind.scheme.kind == kind:
            expected = model.kind.scheme
            assert given.ignored_by(kind) == ("Model dimension", "Base", "Heads")
        assert given.config(kind) == expected


def test_a_learned_table_that_was_chosen_is_not_replaced_by_an_untrained_one() -> None:
    shape = Setting(model="bert-base", learned_source="random").config("learned")
    assert (shape.dim, shape.max_len) == (768, 512)  # type: ignore[attr-defined]
    assert Setting(model="bert-base").config("learned") == Setting().config("learned")


def test_a_setting_refuses_a_model_that_it_cannot_read() -> None:
    for word in ("gpt-9", "config-AAAA", "/etc/passwd", "config-", "llama-3-8b\n", "Llama-3-8B"):
        with pytest.raises(ConfigError, match=r"Setting\.model"):
            Setting(model=word)


def test_width_and_heads_of_a_model_are_bounded_as_those_of_a_setting() -> None:
    wide = config_word({"model_type": "opt", "hidden_size": 4_096, "num_attention_heads": 32})
    asked = {"model": wide, "learned_source": "random", "length": "2048", "dim": "64"}
    found, said = Setting.snap(asked)
    assert found.length * 4_096 <= limits.MAX_SHOWN_ELEMENTS
    assert any("the width of the model" in one for one in said)
    few = config_word({"model_type": "bloom", "hidden_size": 64, "n_head": 4, "n_layer": 2})
    found, said = Setting.snap({"model": few, "alibi_head": "6"})
    assert (found.alibi_head, found.model) == (0, few)
    assert any("from 0 (the mean) to 4" in one for one in said)
    many = config_word({"model_type": "bloom", "hidden_size": 2_048, "n_head": 1_024, "n_layer": 2})
    assert shared_model(many).scheme is None
    assert "1,024 heads" in shared_model(many).too_large


def test_a_head_wider_than_any_page_draws_is_refused() -> None:
    config = PLAIN | {"hidden_size": 2_048, "num_attention_heads": 2}
    found, said = Setting.snap({"model": config_word(config)})
    assert found.model == ""
    assert any("a head of 1,024 is wider than 512" in one for one in said)


@pytest.mark.parametrize("name", BAD_WORDS)
def test_a_hostile_word_in_a_link_is_dropped_with_a_sentence(name: str) -> None:
    word, _ = BAD_WORDS[name]
    found, said = Setting.snap({"model": word, "base": "500"})
    assert found == Setting(base=500.0)
    assert len(said) == 1
    assert len(said[0]) < 400
    assert said[0].endswith(("No model is chosen.", "one is used instead."))


@pytest.mark.parametrize(
    "word", ["../../etc/passwd", "http://10.0.0.1/config.json", "a.safetensors", "%00", "NaN"]
)
def test_a_path_or_an_address_is_never_a_model(word: str) -> None:
    found, said = Setting.snap({"model": word})
    assert found == Setting()
    assert len(said) == 1


def test_a_setting_with_a_model_is_written_and_read_back() -> None:
    for word in ("llama-3-8b", config_word(YARN)):
        asked = Setting(model=word)
        assert Setting.snap(asked.write()) == (asked, [])
        assert pinned.read(pinned.written(asked)) == (asked, [])
    assert "model" not in Setting().write()
    assert Setting.snap({"model": ""}) == (Setting(), [])


# On the pages ------------------------------------------------------------------------------------


def test_a_chosen_model_draws_its_own_numbers_and_says_so() -> None:
    at = choose(visit("similarity", {"length": "48", "train_length": "16"}), "llama-3-8b")
    drawn(at)
    header, shown = matrices(at)
    subtitles = {panel["title"]: panel["subtitle"] for panel in header["panels"]}
    assert subtitles["RoPE"] == (
        "Llama-3-8B: width 128, base 500,000; model dimension, base and heads change nothing here"
    )
    assert subtitles["Sinusoidal"].startswith("width 512")
    at_each = np.arange(48)[:, None] * 5e5 ** (-np.arange(0, 128, 2) / 128)
    angles = at_each[:, None] - at_each[None]
    assert np.allclose(shown["RoPE"], np.cos(angles).mean(-1), atol=1e-6)
    assert "The RoPE panel has its numbers: width 128, base 500,000." in told(at)


def test_choosing_a_model_shows_its_scheme_while_there_is_room() -> None:
    at = choose(visit("similarity", SMALL), "deepseek-v3")
    assert setting(at).schemes == ("rope", "rope_yarn")
    header, _ = matrices(drawn(at))
    assert "DeepSeek-V3: width 64 of 192" in header["panels"][1]["subtitle"]
    six = ",".join([*SCHEMES][:6])
    at = choose(visit("similarity", SMALL | {"schemes": six}), "phi-3-mini-128k")
    assert len(setting(at).schemes) == 6
    assert "LongRoPE" in told(at)
    assert "take one away first" in told(at)
    assert at.button(key="show_scheme").disabled


def test_a_link_with_a_model_offers_its_scheme_with_one_button() -> None:
    at = drawn(visit("similarity", SMALL | {"model": "deepseek-v3"}))
    assert setting(at).schemes == ("rope",)
    at.button(key="show_scheme").click().run()
    assert setting(drawn(at)).schemes == ("rope", "rope_yarn")
    assert not [one for one in at.button if one.key == "show_scheme"]


def test_a_model_of_several_kinds_of_layers_names_those_that_differ() -> None:
    said = told(drawn(visit("similarity", SMALL | {"model": "gemma-3-4b"})))
    assert "5 full_attention layers" in said
    assert "29 sliding_attention layers (RoPE, base 10,000, 1,024 tokens seen) differ" in said


def test_a_model_whose_scheme_is_not_here_says_so() -> None:
    odd = {"model_type": "mpt", "attn_config": {"alibi": True, "alibi_bias_max": 16}}
    at = drawn(visit("similarity", SMALL | {"model": config_word(json.dumps(odd).encode())}))
    assert "No panel shows it. ALiBi with an alibi_bias_max of 16" in told(at)
    assert headline(at) == headline(visit("similarity", SMALL))


def test_a_model_with_trained_biases_takes_the_random_start_of_its_shape() -> None:
    link = SMALL | {"schemes": "alibi,t5", "t5.source": "trained"}
    at = choose(visit("similarity", link), "t5-base")
    assert setting(drawn(at)).config("t5") == T5Config(heads=12)
    assert "no trained numbers, so a random start" in told(at)
    assert "32 buckets, largest distance 128" in told(at)
    header, _ = matrices(drawn(at))
    assert "T5-base" in header["panels"][1]["subtitle"]
    kept = drawn(visit("similarity", link | {"model": "t5-base", "t5.source": "initial"}))
    assert setting(kept).config("t5") == T5Config(heads=12)
    xl = choose(visit("similarity", SMALL), "transformer-xl")
    assert setting(drawn(xl)).config("transformer_xl") == TransformerXLConfig(dim=1_024, heads=16)


def test_a_model_with_a_learned_table_takes_the_random_start_of_its_shape() -> None:
    at = choose(visit("similarity", SMALL), "gpt-2")
    assert setting(drawn(at)).learned_source == "random"
    assert (setting(at).config("learned").dim, setting(at).schemes[0]) == (768, "learned")  # type: ignore[attr-defined]
    assert "upload its checkpoint" in told(at)


@pytest.mark.parametrize(
    "page", [*SCHEME_PAGES, "why_position", "context_planner", "claims", "check_my_encoding"]
)
@pytest.mark.parametrize("name", ["bloom-176b", "gpt-2", "phi-3-mini-128k", "smollm3-3b"])
def test_every_page_shows_every_kind_of_model(page: str, name: str) -> None:
    model = shared_model(name)
    assert model.scheme is not None
    schemes = ",".join(kind for kind in SCHEMES if kind in ("sinusoidal", model.scheme.kind))
    link = {"model": name, "schemes": schemes, "learned_source": "random", "length": "48"}
    link |= {"context": "9000", "methods": "none"} if page == "context_planner" else {}
    drawn(visit(page, link))


@pytest.mark.parametrize(
    "odd",
    [
        {"dim": "2", "heads": "1", "length": "2", "train_length": "1"},
        {"dim": "96", "heads": "3", "equal_width": "true", "precision": "bfloat16"},
        {"dim": "512", "heads": "64", "alibi_head": "3"},
    ],
)
@pytest.mark.parametrize("page", ["why_position", "encoding", "overview", "relative_offsets"])
def test_a_model_stands_beside_odd_numbers(page: str, odd: dict[str, str]) -> None:
    drawn(visit(page, odd | {"model": "bloom-176b", "schemes": "rope,alibi"}))
    drawn(visit(page, odd | {"model": "gemma-2-9b", "schemes": "rope,alibi"}))


def test_the_numbers_of_a_model_hide_the_controls_that_change_nothing() -> None:
    plain = visit("similarity", SMALL)
    given = visit("similarity", SMALL | {"model": "llama-3-8b"})
    labels = [{one.label for one in at.select_slider} for at in (plain, given)]
    assert {"Base", "Model dimension"} <= labels[0]
    assert not {"Base", "Model dimension"} & labels[1]


# The visitor's own -------------------------------------------------------------------------------


def test_a_pasted_config_is_shown_linked_and_forgotten() -> None:
    at = drawn(paste(opened(schemes="sinusoidal"), YARN | {"_name_or_path": "/home/me/secret"}))
    word = config_word(YARN)
    assert setting(at).model == word
    assert setting(at).schemes == ("sinusoidal", "rope_yarn")
    assert at.query_params["model"] in (word, [word])
    header, _ = matrices(at)
    assert header["panels"][1]["subtitle"].startswith(
        "Your model (llama): width 128, base 250,000, YaRN by 4"
    )
    assert at.text_area(key="config_text_1").value == ""
    assert "config_text_0" not in at.session_state
    assert "secret" not in repr(at.session_state)
    other = drawn(visit("similarity", {name: at.query_params[name] for name in at.query_params}))
    assert setting(other) == setting(at)
    assert headline(other) == headline(at)
    assert notices(other) == []
    choose(at, "")
    assert setting(at).model == ""
    assert word in at.session_state["own_models"]  # and can be chosen again
    assert setting(choose(at, word)).model == word


def test_what_was_assumed_is_listed() -> None:
    at = drawn(paste(opened(), {"model_type": "qwen2"}))
    model = read_config({"model_type": "qwen2"})
    assert len(model.assumed) > 5
    said = told(at)
    for sentence in model.assumed:
        assert sentence in said
    assert "What was assumed" in [one.label for one in at.expander]


BAD = {
    "no json": ("{model}", "is not JSON"),
    "a path": ("/etc/passwd", "is not JSON"),
    "a python path": ("~/config.json", "is not JSON"),
    "a list": ("[1, 2]", "one JSON object"),
    "empty": ("{}", "model_type is missing"),
    "unknown": ('{"model_type": "mamba"}', "model_type"),
    "NaN": ('{"model_type": "llama", "rope_theta": NaN}', "NaN"),
    "negative": ('{"model_type": "llama", "rope_theta": -5}', "rope_theta"),
    "odd heads": ('{"model_type": "llama", "num_attention_heads": 7}', "num_attention_heads"),
    "unknown scaling": (
        '{"model_type": "llama", "rope_scaling": {"rope_type": "magic", "factor": 2}}',
        "rope_scaling.rope_type",
    ),
    "no factor": (
        '{"model_type": "llama", "rope_scaling": {"rope_type": "linear"}}',
        "rope_scaling.factor",
    ),
    "markup": ('{"model_type": "<b>![x](http://10.0.0.1/a.png)"}', "model_type"),
    "deep": ('{"a":' * 50 + "1" + "}" * 50, "deep"),
    "too wide": (
        '{"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 4}',
        "wider than 512",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_config_that_cannot_be_used_gets_one_sentence_that_names_the_key(name: str) -> None:
    text, said = BAD[name]
    before = opened()
    at = paste(before, text)
    assert not at.exception
    (error,) = at.error
    assert said in as_read(error.value)
    assert "![x](" not in error.value  # escaped
    assert "root:" not in error.value
    assert setting(at).model == ""
    assert at.text_area(key="config_text_0").value == text  # nothing is lost


def test_a_text_beyond_the_limit_is_refused_unread() -> None:
    at = upload(opened(), "config.json", b" " * (limits.MAX_CONFIG_BYTES + 1))
    assert "larger than 1 MB" in as_read(at.error[0].value)


def test_an_uploaded_config_is_used() -> None:
    at = upload(opened(), "config.json", json.dumps(PLAIN).encode())
    assert (
        "Read, but not used yet: Your model (llama), 24 layers, RoPE, width 128, base 250,000."
        in told(at)
    )
    at.button(key="use_config_file").click().run()
    assert setting(drawn(at)).model == config_word(PLAIN)
    header, _ = matrices(at)
    assert "base 250,000" in header["panels"][0]["subtitle"]


def test_an_uploaded_checkpoint_gives_its_table_and_says_what_it_does_not_hold() -> None:
    rows = np.random.default_rng(3).normal(size=(40, 16)).astype(np.float32)
    at = upload(opened(), "model.safetensors", save({"wpe.weight": rows}))
    assert "RoPE and ALiBi store none" in told(at)
    at.button(key="use_model_file").click().run()
    assert setting(drawn(at)).learned_source.startswith("table-")
    none = upload(opened(), "model.safetensors", save({"q_proj.weight": rows}))
    assert len(none.error) == 1
    assert "RoPE and ALiBi store none" in told(none)


def test_a_pickle_is_refused_there_too() -> None:
    from tests.crafted_files import zipped_pickle

    at = upload(opened(), "model.pt", zipped_pickle({"wpe.weight": torch.zeros(4, 4)}))
    assert "pickle" in at.error[0].value


def test_a_pinned_model_is_compared_and_linked() -> None:
    asked = Setting(model=config_word(YARN), schemes=("rope_yarn",), length=48, train_length=16)
    link = SMALL | {"schemes": "rope_yarn", "a": pinned.written(asked)}
    at = drawn(visit("similarity", link))
    rows = charts(at)[0]
    for name, one in (("A", asked), ("B", setting(at))):
        mine = rows[rows["setting"] == name].set_index("x")["y"]
        found = scheme_similarity(Query.of(one, "rope_yarn"))
        expected = dict(zip(found.offsets.tolist(), found.mean.tolist(), strict=True))
        assert len(mine) == 48
        assert mine.to_dict() == pytest.approx(expected, abs=1e-6)
    assert pages.panel_note(asked, "rope_yarn").startswith("Your model (llama)")
    found, said = pinned.read(at.session_state["a"])
    assert (found, said) == (asked, [])


@pytest.mark.parametrize("word", ["llama-3-8b", "config"])
def test_the_script_prints_the_model_s_numbers(word: str) -> None:
    model = config_word(YARN) if word == "config" else word
    asked = Setting(model=model, schemes=("sinusoidal", "rope", "rope_yarn"), length=24)
    ran = subprocess.run(
        [sys.executable, "-c", script.script(asked)], capture_output=True, text=True, check=True
    )
    rows = list(csv.DictReader(io.StringIO(ran.stdout)))
    for kind in asked.schemes:
        expected = scheme_similarity(Query.of(asked, kind)).mean.tolist()
        mine = [float(one["mean"]) for one in rows if one["scheme"] == SCHEMES[kind].label]
        assert mine == pytest.approx(expected, abs=1e-12)


# The Hub -----------------------------------------------------------------------------------------


def hub(at: AppTest, model: str) -> AppTest:
    at.text_input(key="hub_model").set_value(model).run()
    return at.button(key="hub_fetch").click().run()


def test_the_hub_is_drawn_only_where_it_is_enabled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POSENC_HUB", raising=False)
    assert not hub_is_enabled()
    at = visit("similarity", SMALL | {"schemes": "learned"}, hub_table=True)
    assert "From the Hugging Face Hub" not in [one.label for one in at.expander]
    monkeypatch.setenv("POSENC_HUB", "1")
    at = visit("similarity", SMALL | {"schemes": "learned"}, hub_table=True)
    assert "From the Hugging Face Hub" in [one.label for one in at.expander]


def test_a_table_of_the_hub_is_used_and_its_faults_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from dashboard import sources
    from posenc.errors import CheckpointError
    from posenc.interop.position_tables import read_position_table

    monkeypatch.setenv("POSENC_HUB", "1")
    asked = []

    def answer(model: str, tensor: str | None, **more: Any) -> PositionTable:
        asked.append((model, tensor))
        if model == "slow/model":
            raise CheckpointError("The Hub did not answer within 15 seconds.")
        rows = np.random.default_rng(4).normal(size=(32, 8)).astype(np.float32)
        return read_position_table(save({"wpe.weight": rows}), file_name=model)

    monkeypatch.setattr(sources, "hub_table", answer)
    link = SMALL | {"schemes": "learned", "hub_model": "good/model", "model": "gpt-2"}
    at = drawn(visit("similarity", link, hub_table=True))
    assert asked == []  # a link asks for nothing
    at = hub(at, "slow/model")
    assert "did not answer within 15 seconds" in as_read(at.error[0].value)
    at = drawn(hub(at, "good/model"))
    assert setting(at).learned_source.startswith("table-")
    assert asked == [("slow/model", None), ("good/model", None)]
