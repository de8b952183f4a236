"""Extend a model's context: its page and its command show the plan of the library, with every source."""

import importlib
import json
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pytest
import torch
from click.testing import CliRunner
from streamlit.testing.v1 import AppTest

from dashboard.controls import pin as pinned
from dashboard.pages.extend_context import data, panels
from dashboard.pages.extend_context.options import PlanChoice
from dashboard.settings import Setting
from posenc import __main__ as command
from posenc import rope_frequencies
from posenc.analysis import smallest_base
from posenc.models import config_token, read_config
from posenc.models.presets import MODELS
from posenc.planner import (
    COLUMNS,
    RANKING,
    RANKING_RULES,
    layer_notes,
    length_rows,
    plan,
    recommendation,
    warnings_of,
)
from posenc.planner.evidence import Training
from posenc.planner.ranking import Readiness
from posenc.planner.report import COVERAGE, plan_record
from tests.dashboard.pages import as_read, captions, charts, drawn, headline, visit
from tests.models.configs import plan_preset

pytestmark = pytest.mark.usefixtures("no_shape_checks")

PAGE = "context_planner"
SHORT = PlanChoice(context=16_384)  # whose base is found at once
DRAWERS = {"drawers": ["How to read"]}


def opened(picture: str, link: dict[str, Any]) -> AppTest:
    """Open the page at one of its pictures."""
    return drawn(visit(PAGE, link, plan_pictures=picture))


def test_page_shows_the_plan_of_the_library_whatever_the_sidebar_says() -> None:
    sidebar = {"heads": "64", "precision": "bfloat16", "schemes": "none", "length": "2"}
    at = drawn(visit(PAGE, {"context": "16384"} | sidebar, **DRAWERS, plan_paste="YaRN"))
    preset = MODELS["llama-3-8b"]
    expected = plan(preset.read(), 16_384, name=preset.label, methods=SHORT.methods)
    assert any(recommendation(expected) in as_read(box.value) for box in at.markdown)
    (unscaled,) = [row.pairs for row in expected.methods if row.method.name == "none"]
    seen = f"Unscaled, {unscaled.unseen_count} of {len(unscaled.before)} pairs reach angles unseen"
    target = f"{preset.label} to 16,384 tokens"
    assert as_read(headline(at)).startswith(
        f"{target}: x2 its trained length. {seen} in training: "
    )
    cache, costs = (box.value for box in at.dataframe)
    sees = opened(COVERAGE, {"context": "16384"}).dataframe[1].value
    for rows in (costs, sees):
        assert list(rows["method"]) == [row.method.label for row in expected.methods]
    assert list(sees["unseen pairs"]) == [row.pairs.unseen_count for row in expected.methods]
    assert RANKING in map(as_read, captions(at))
    texts = "".join(as_read(box.value) for box in at.markdown)  # of the drawer
    assert all(rule in texts for rule in RANKING_RULES)
    # Keys and values of 32 layers of 8 heads of width 128, in 4, 2, 2 and 1 bytes a number.
    numbers = 2 * 32 * 8 * 128 * 16_384
    assert list(cache["all layers"]) == [numbers * size / 2**30 for size in (4, 2, 2, 1)]
    assert any('"rope_type": "yarn"' in box.value for box in at.code)
    assert any("vllm serve" in box.value for box in at.code)
    assert at.sidebar.button == []  # nothing there changes this page


def test_every_kind_of_model_and_target_has_a_plan() -> None:
    kinds = {type(preset.read().main.scheme): name for name, preset in MODELS.items()}
    assert len(kinds) > 8
    for name in kinds.values():
        choice = PlanChoice(context=1_024, trained=256, methods=("none", "ntk"))
        assert MODELS[name].label in recommendation(data.read(Setting(model=name), choice).plan)
    for context in (1, 2, 5):
        choice = PlanChoice(context=context, methods=("none", "linear"))
        assert data.read(Setting(), choice).headline.endswith(".")


def test_page_states_the_memory_of_layers_without_their_windows() -> None:
    link = {"context": "65536", "methods": "none"}
    texts = " ".join(captions(drawn(visit(PAGE, link | {"model": "mistral-7b-v0.1"}))))
    # 32 layers of 8 heads of keys and values of width 128, in 2 bytes; 4,096 of the tokens are in windows.
    whole = 32 * 2 * 8 * 128 * 65_536 * 2 / 2**30
    assert f"{whole:g} GiB" in texts
    assert plan_preset("mistral-7b-v0.1", 65_536).cache["bfloat16"] == whole * 4_096 / 65_536


def test_cache_is_shown_for_each_kind_of_layer() -> None:
    """Gemma 3 4B: 4 heads of keys and values of width 256; 5 of 34 layers have no window of 1,024."""
    at = drawn(visit(PAGE, {"model": "gemma-3-4b", "context": "65536", "methods": "none"}))
    row = at.dataframe[0].value.set_index("number type").loc["bfloat16"]
    gib = {name: 2 * 4 * 256 * 2 * size / 2**30 for name, size in
           (("full_attention", 5 * 65_536), ("sliding_attention", 29 * 1_024))}  # fmt: skip
    assert row["all layers"] == pytest.approx(sum(gib.values()))
    for name, size in gib.items():
        assert row[name.replace("_", " ")] == pytest.approx(size)


def test_page_shows_the_lengths_of_its_model_with_their_sources() -> None:
    for name, blank in (("llama-3.1-8b", []), ("llama-3-8b", ["RULER", "NoLiMa"])):
        at = drawn(visit(PAGE, {"model": name, "context": "16384", "methods": "none"}))
        rows = length_rows(data.read(Setting(model=name), PlanChoice(context=16_384)).plan)
        texts = [as_read(box.value) for box in at.markdown]
        for row in rows:
            (text,) = [text for text in texts if text.startswith(f"**{row['length']}**:")]
            assert row["tokens"] in text
            assert row["source"] in text
        assert [row["length"] for row in rows if not row["tokens"]] == blank


def test_model_without_rope_needs_no_scaling() -> None:
    link = {"model": "bloom-176b", "context": "8192", "methods": "none,ntk"}
    at = drawn(visit(PAGE, link))
    texts = " ".join(as_read(text) for text in [*(box.value for box in at.markdown), *captions(at)])
    assert texts.count("ALiBi needs no scaling") == 1
    assert not at.dataframe[1:]
    assert "methods" not in [group.key for group in at.button_group]
    compared = drawn(visit(PAGE, link | {"a": pinned.to_token(Setting(model="llama-2-7b"))}))
    assert "methods" in [group.key for group in compared.button_group]
    assert set(compared.dataframe[1].value["setting"]) == {"A"}


def test_methods_are_offered_once_a_trained_length_is_known() -> None:
    model = config_token({"model_type": "recurrent_gemma"})  # whose config has no length
    for link, offered in (({}, False), ({"trained": "1024"}, True)):
        at = drawn(visit(PAGE, {"model": model, "context": "32768"} | link))
        assert ("methods" in [group.key for group in at.button_group]) == offered


def test_pinned_model_is_compared_in_headline_tables_and_charts() -> None:
    pin = Setting(model="llama-2-7b")
    link = {"context": "16384", "methods": ["Unscaled", "YaRN", "Larger base"]}
    link["a"] = pinned.to_token(pin)
    at = opened(COVERAGE, link)
    choice = PlanChoice(context=16_384, methods=("none", "yarn", "base"))
    current, other = (data.read(setting, choice).plan for setting in (Setting(), pin))
    assert as_read(headline(at)) == f"B: model none. {data.read(Setting(), choice).headline}"
    assert any(data.read(pin, choice).headline in text for text in captions(at))
    sees = at.dataframe[1].value
    for method in current.methods:
        label = method.method.label
        column = sees[sees["method"] == label].set_index("setting")["expected logit at the end"]
        assert list(column.index) == ["B", "A", "B - A"]
        of_a = next(one for one in other.methods if one.method.label == label).kernel[16_383]
        of_b = method.kernel[16_383]
        assert column.to_dict() == {"B": of_b, "A": of_a, "B - A": of_b - of_a}
    for picture in panels.PICTURES[2:]:
        (frame,) = charts(opened(picture, link))
        assert set(frame["setting"]) == {"A", "B"}


def test_tables_that_a_pinned_setting_shares_stand_once() -> None:
    """A model has its own base, so that the pinned base changes nothing."""
    tables = [
        [frame.value for frame in drawn(visit(PAGE, {"model": "llama-3-8b"} | more)).dataframe]
        for more in ({}, {"a": pinned.to_token(Setting(model="llama-3-8b", base=500.0))})
    ]
    assert len(tables[0]) >= 2
    for alone, beside in zip(*tables, strict=True):
        pd.testing.assert_frame_equal(alone, beside)


def test_charts_are_sent_only_when_their_tab_is_opened() -> None:
    at = drawn(visit(PAGE, {"context": "16384"}))
    assert charts(at) == []
    assert len(at.get("download_button")) == 1  # of the method whose block is open


def test_verdict_counts_unscaled_pairs_past_their_trained_angles() -> None:
    """By the definition: less than a turn in training, and a larger angle at the target."""
    read = data.read(Setting(), PlanChoice(methods=("yarn", "ntk")))  # counted without "none", too
    theta = 500_000.0 ** (-np.arange(64) / 64)
    unseen = int((theta * 8_192 < 2 * np.pi).sum())
    assert read.headline == (
        f"Llama-3-8B to 131,072 tokens: x16 its trained length. Unscaled, {unseen} of 64 pairs reach "
        "angles unseen in training: plan to fine-tune."
    )


@pytest.mark.parametrize("name", ["qwen2.5-7b", "llama-3-8b", "llama-3.1-8b"])
def test_page_and_command_name_the_same_methods(name: str) -> None:
    preset = MODELS[name]
    read = data.read(Setting(model=name), PlanChoice(context=65_536), every=True)
    config = dict(preset.config or {})
    if preset.optional:
        del config["rope_scaling"]
    words = ["plan", "-", "--context", "65536", "--json", "--search"]
    words += ["--trained", str(preset.trained_length)] if preset.trained_length else []
    record = json.loads(CliRunner().invoke(command.main, words, input=json.dumps(config)).stdout)
    assert [row["label"] for row in record["methods"]] == list(read.methods["method"])
    assert record["advice"] == [one._asdict() | {"equal": [*one.equal]} for one in read.advice]


AMOUNTS: dict[str, Training] = {
    "No training": "none", "Light fine-tuning": "light", "Continued training": "continued",
}  # fmt: skip


@pytest.mark.parametrize("name", ["llama-3-8b", "qwen2.5-7b", "mistral-7b-v0.1", "llama-2-7b"])
@pytest.mark.parametrize("factor", [2, 8, 16])
def test_advice_names_the_highest_ranked_method_that_a_source_supports(
    name: str, factor: int
) -> None:
    choice = PlanChoice(context=factor * 4_096)
    setting = Setting(model=name)
    read = data.read(setting, choice)
    found, advice = read.plan, read.advice
    if not found.longer:
        assert advice == ()
        return
    assert [one.title for one in advice] == [
        "No training",
        "Light fine-tuning",
        "Continued training",
    ]
    methods = {one.method.label: one for one in found.methods}
    sources = {source for one in found.methods for _, source in one.statements}
    for one in advice:
        if not one.method:
            assert "No source" in one.sentence
            assert ("without training" in one.sentence) == (one.title == "No training")
            continue
        method = methods[one.method]
        training = AMOUNTS[one.title]
        assert [one.method, *one.equal] == [x.method.label for x in found.first_after(training)]
        assert one.source in sources
        before = f"{method.short.at_zero:.3g}"
        assert one.short.startswith(
            f"mean {method.short.mean:.3f}, largest {method.short.worst:.3f}."
        )
        assert one.short.endswith(f"the logit of a token with itself is {before}")
        if training == "none":
            assert method is found.methods[0]
        else:
            assert method.standing.fine_tuning == training
            # No method is named before one that ranks higher after the same training.
            same = [x for x in found.methods if x.standing.fine_tuning == training]
            trained = [x.rank for x in same if x.readiness is Readiness.TRAINED]
            assert method.readiness is Readiness.UNTRAINED or method.rank == min(trained)
        assert (method.pairs.unseen_count > 0) == ("unseen in training" in one.sentence)


def test_empty_trained_length_shows_what_it_stands_for() -> None:
    for link, hint in (
        ({}, "8,192 from config"),
        ({"model": "qwen2.5-7b"}, "32,768 from makers"),
        ({"model": "bloom-176b"}, "2,048 from config"),
    ):
        at = drawn(visit(PAGE, link | {"context": "4096"}))
        field = at.number_input(key="trained")
        assert field.value is None
        assert field.placeholder == hint
    entered = drawn(visit(PAGE, {"context": "16384", "trained": "4096"}))
    assert entered.number_input(key="trained").value == 4_096
    assert as_read(headline(entered)).startswith(
        "Llama-3-8B to 16,384 tokens: x4 its trained length. "
    )
    old_link = drawn(visit(PAGE, {"context": "16384", "trained": "0"}))
    assert as_read(headline(old_link)).startswith(
        "Llama-3-8B to 16,384 tokens: x2 its trained length. "
    )


def test_refused_config_leaves_no_plan_of_another_model_on_the_page() -> None:
    at = drawn(visit(PAGE, {"model": "llama-2-7b", "context": "16384"}, your_model=True))
    assert at.code
    text = json.dumps({"model_type": "llama", "max_position_embeddings": -1})
    at.text_area(key="config_text_0").set_value(text).run()
    for refused in (at, at.button(key="use_config").click().run()):
        assert "max_position_embeddings" in as_read(refused.error[0].value)
        assert "Nothing is planned" in refused.info[0].value
        for kind in ("code", "dataframe", "download_button"):
            assert not refused.get(kind)
        assert "16,384" not in " ".join(
            as_read(box.value) for box in (*refused.markdown, *refused.caption)
        )
        assert [box.value for box in refused.title] == ["Extend a model's context"]
    at.text_area(key="config_text_0").set_value("").run()
    assert drawn(at).code


def test_target_and_trained_length_of_the_last_model_do_not_outlive_it() -> None:
    link = {"context": "16384", "trained": "4096"}
    at = drawn(visit(PAGE, link, your_model=True))
    config = {"model_type": "llama", "max_position_embeddings": 32_768}
    at.text_area(key="config_text_0").set_value(json.dumps(config)).run()
    at.button(key="use_config").click().run()
    assert drawn(at).number_input(key="context").value == 4 * 32_768
    assert at.number_input(key="trained").value is None
    assert "131,072 tokens: this model was trained on 32,768" in at.toast[0].value
    at.selectbox(key="model_here_control").set_value("llama-2-7b").run()
    assert drawn(at).number_input(key="context").value == 4 * 32_768  # past 4,096, too
    # A link names both, however short the target.
    linked = drawn(visit(PAGE, {"model": "qwen2.5-7b", "context": "2048"}))
    assert linked.number_input(key="context").value == 2_048


# What is computed, and when -----------------------------------------------------------------------


def test_long_search_starts_on_request_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    search = mock.Mock(side_effect=smallest_base)
    monkeypatch.setattr(importlib.import_module("posenc.planner.plan"), "smallest_base", search)
    at = opened("B(k) and base", {"context": "20000", "methods": "none,base"})
    assert not search.called
    assert any("distance 18,438" in text for text in captions(at))  # where B(k) turns negative
    drawn(at.button(key="plan_search").click().run())
    assert [length for (_, length), _ in search.call_args_list] == [20_000]


def test_only_short_or_known_plans_are_computed_at_once() -> None:
    assert not data.takes_long(data.DEFAULT, PlanChoice())
    assert not data.takes_long(data.DEFAULT, PlanChoice(context=16_000))
    assert data.takes_long(data.DEFAULT, PlanChoice(context=16_385))
    assert not data.takes_long("mistral-7b-v0.1", PlanChoice())  # no layer sees more than 4,096
    assert not data.takes_long("bloom-176b", PlanChoice(context=100_000))
    assert data.takes_long(data.DEFAULT, PlanChoice(context=1_048_576))
    read = data.read(Setting(), PlanChoice(context=1_048_576, methods=("none",)))
    assert "B(k) past 65,536, and the base" in read.partial
    assert read.bound["x"].max() == 65_535
    assert read.kernel["x"].max() == 1_048_575


def test_trained_length_is_entered_published_or_assumed() -> None:
    for model, context, trained, fact in (
        ("qwen2.5-7b", 16_384, 4_096, "Qwen2.5-7B from 4,096 to 16,384 is x4"),
        ("qwen2.5-7b", 16_384, 0, "was trained on 32,768 tokens"),
        ("llama-3-8b", 8_192, 0, "taken as trained on 8,192 tokens"),
    ):
        choice = PlanChoice(context=context, methods=("none",), trained=trained)
        read = data.read(Setting(model=model), choice)
        assert fact in recommendation(read.plan)
        assert ("does not say how long" in read.assumed) == ("taken as" in fact)


# Numbers and pictures ----------------------------------------------------------------------------


def test_tables_pairs_and_kernels_are_those_of_the_planned_schemes() -> None:
    read = data.read(Setting(), SHORT)
    found = read.plan
    assert list(read.methods) == [column.title for column in COLUMNS]
    assert list(read.methods["short texts, worst"]) == [one.short.worst for one in found.methods]
    for method, row in zip(found.methods, plan_record(found)["methods"], strict=True):
        assert {column.key: column.value(method) for column in COLUMNS}.items() <= row.items()
        pairs = read.pairs[read.pairs["method"] == method.method.label]
        inv_freq = rope_frequencies(method.config, length=16_384)[0].numpy()
        np.testing.assert_allclose(pairs["inv_freq"], inv_freq, rtol=1e-14)
        np.testing.assert_allclose(pairs["wavelength"], 2 * np.pi / inv_freq, rtol=1e-14)
        trained = [5e5 ** (-pair / 64) for pair in range(64)]
        np.testing.assert_allclose(pairs["trained_inv_freq"], trained, rtol=1e-14)
        assert list(pairs["pair"]) == [*range(64)]
        kernel = read.kernel[read.kernel["method"] == method.method.label]
        distances = torch.tensor(kernel["x"].to_numpy())
        expected = method.config.at_length(16_384).build().offset_kernel(-distances)
        np.testing.assert_allclose(kernel["y"], expected, atol=1e-12)
        assert kernel["x"].iloc[[0, -1]].tolist() == [1, 16_383]


def test_bound_of_each_step_is_the_lowest_of_all_distances() -> None:
    choice = PlanChoice(context=24_000, methods=("none",))
    bound = data.read(Setting(), choice, every=True).bound
    inv_freq = np.array([5e5 ** (-2 * m / 128) for m in range(64)])
    lowest = min(
        np.cos(np.arange(start, start + 1_000)[:, None] * inv_freq).sum(1).min()
        for start in range(0, 24_000, 1_000)
    )
    trained = bound[bound["frequencies"] == data.AS_TRAINED]["y"].min()
    demanded = bound[bound["frequencies"] == data.DEMANDED]["y"].min()
    assert trained == pytest.approx(lowest, abs=1e-9)
    assert trained < 0 <= demanded


# Warnings -----------------------------------------------------------------------------------------

FIVE = ("none", "linear", "dynamic", "yarn", "yarn_paper")
# Of these, the first two have every kind of warning together.
PLANS = (("gemma-2-9b", 131_072), ("mistral-7b-v0.1", 9_000), ("transformer", 9_000),
         ("bert-base", 9_000))  # fmt: skip


def draw_warnings(name: str, context: int, methods: tuple[str, ...]) -> None:
    from dashboard.pages.extend_context import data, panels
    from dashboard.pages.extend_context.options import PlanChoice
    from dashboard.settings import Setting

    chosen = PlanChoice(context=context, methods=methods)
    read = data.read(Setting(model=name), chosen)
    panels.warnings(read)
    panels.layers(read)


@pytest.mark.parametrize(("name", "target"), PLANS)
def test_page_states_rule_and_source_of_each_warning_and_layer(name: str, target: int) -> None:
    read = data.read(Setting(model=name), PlanChoice(context=target, methods=FIVE))
    at = AppTest.from_function(draw_warnings, args=(name, target, FIVE)).run()
    texts = [as_read(box.value) for box in at.markdown]
    warnings = [one for one in warnings_of(read.plan) if one.sentence not in read.headline]
    notes = layer_notes(read.plan.model, target, read.plan.trained_length)
    assert len(texts) == len(warnings) + len(notes)
    for warning, text in zip(warnings, texts, strict=False):
        assert warning.rule.strip()
        assert warning.source.strip()
        assert text == f"{warning.sentence}  \n*{warning.rule} Source: {warning.source}.*"
    for note, text in zip(notes, texts[len(warnings) :], strict=True):
        assert note.source.strip()
        assert text.startswith(f"**{note.layers}**: ")
        assert text.endswith(f" Source: {note.source}.")
        assert (note.sentence in text) == (note.sentence not in read.headline)


@pytest.mark.parametrize(("name", "target"), PLANS[:2])
def test_command_line_states_rule_and_source_of_each_warning(name: str, target: int) -> None:
    config = dict(MODELS[name].config or {})
    words = ["plan", "-", "--context", str(target), "--search", "--methods", ",".join(FIVE)]
    result = CliRunner().invoke(command.main, words, input=json.dumps(config))
    assert result.exit_code == 0, result.output
    found = plan(read_config(config), target, methods=FIVE)
    expected = {"Warnings"}
    for warning in warnings_of(found):
        expected.add(f"  {warning.sentence} ({warning.rule} Source: {warning.source})")
    for note in layer_notes(found.model, found.target, found.trained_length):
        expected.add(f"  {note.layers}: {note.sentence} ({note.source})")
    assert expected <= {*result.output.splitlines()}
