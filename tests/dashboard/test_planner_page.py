"""Extend a model's context: its page and its command show the plan of the library, with every source."""

import importlib
import json
from unittest import mock

import numpy as np
import pandas as pd
import pytest
import torch
from click.testing import CliRunner

from dashboard import compare
from dashboard.blocks import (
    Button,
    Chart,
    Code,
    Controls,
    Data,
    Download,
    Drawer,
    Findings,
    Page,
    Tabs,
    Text,
)  # fmt: skip
from dashboard.pages.extend_context import data, panels
from dashboard.pages.extend_context.options import (
    BOUND,
    LONGER,
    PICTURES,
    TABLES,
    TRANSFORMERS_4,
    VLLM,
    Options,
)  # fmt: skip
from dashboard.pages.extend_context.page import page
from dashboard.settings import Setting
from posenc import __main__ as command
from posenc import limits, rope_frequencies
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
from posenc.planner.record import plan_record
from posenc.planner.tables import COVERAGE
from tests.dashboard import called_pages
from tests.dashboard.called_pages import block_of, blocks, read_texts
from tests.dashboard.pages import as_read, drawn, headline, visit
from tests.dashboard.planner_pages import PAGE, SHORT, controls, drawer_texts, findings, searched
from tests.models.configs import plan_preset

pytestmark = pytest.mark.usefixtures("no_shape_checks")

WARNED = {"softmax scale", "stale keys from", "float32 cosine error", "error in transformers"}
NAMES = {"A": "A: model Llama-2-7B", "B": "B: model none"}


def test_page_shows_the_plan_of_the_library_whatever_else_the_setting_says() -> None:
    setting = Setting(heads=64, precision="bfloat16", schemes=("none",), length=2)
    shown = page(setting, Options(context=16_384, paste="YaRN"))
    preset = MODELS["llama-3-8b"]
    expected = plan(preset.read(), 16_384, name=preset.label, methods=SHORT.methods)
    assert recommendation(expected) in as_read(shown.guide)
    assert all(rule in shown.guide for rule in RANKING_RULES)
    (unscaled,) = [row.pairs for row in expected.methods if row.method.name == "none"]
    seen = f"Without scaling, {unscaled.unseen_count} of {len(unscaled.before)} pairs of features turn to"
    assert any(text.startswith(seen) for text in read_texts(shown))
    assert as_read(shown.headline) == (
        f"{preset.label} to 16,384 tokens: x2 its trained length. Measure YaRN without training first."
    )
    costs = findings(shown, "methods")
    sees = findings(page(setting, Options(context=16_384, picture=COVERAGE)), "methods")
    for picture in TABLES:
        table = block_of(
            page(setting, Options(context=16_384, picture=picture)), Findings, "methods"
        )
        assert [*table.help] == [*table.frame]
        assert all(text.endswith(".") for name, text in table.help.items() if name != "method")
    for rows in (costs, sees):
        assert list(rows["method"]) == [row.method.label for row in expected.methods]
    assert list(sees["unseen pairs"]) == [row.pairs.unseen_count for row in expected.methods]
    assert any(text.startswith(RANKING) for text in read_texts(shown))
    # Keys and values of 32 layers of 8 heads of width 128, in 4, 2 and 1 bytes a number.
    numbers = 2 * 32 * 8 * 128 * 16_384
    cache = findings(shown, "cache")
    assert list(cache["all layers"]) == [numbers * size / 2**30 for size in (4, 2, 1)]
    assert list(cache["number type"]) == ["float32", "bfloat16, float16", "8 bit"]
    whole = called_pages.data(shown, "Methods")
    assert {*whole} - {*costs} - {*sees} == WARNED  # numbers that warnings say where they matter
    (code,) = blocks(shown, Code)
    assert '"rope_type": "yarn"' in code.code


def test_one_method_and_one_form_are_pasted_and_the_first_where_the_chosen_is_not_there() -> None:
    for paste, form, words in (
        ("YaRN", VLLM, "vllm serve"), ("YaRN", TRANSFORMERS_4, '"rope_scaling": {'),
        ("Unscaled", VLLM, "vllm serve"),
    ):  # fmt: skip
        shown = page(Setting(), Options(context=16_384, paste=paste, form=form))
        method, forms = blocks(shown, Tabs)[:2]
        assert method.opened == (paste if paste == "YaRN" else method.labels[0])
        assert "Unscaled" not in method.labels  # which has nothing to paste
        assert forms.opened == form
        (code,) = blocks(shown, Code)
        assert words in code.code
        (script,) = blocks(shown, Download)
        compile(script.make(), script.file_name, "exec")


def test_every_kind_of_model_and_target_has_a_plan() -> None:
    kinds = {type(preset.read().main.scheme): name for name, preset in MODELS.items()}
    assert len(kinds) > 8
    for name in kinds.values():
        choice = Options(context=1_024, trained=256, methods=("none", "ntk"))
        assert MODELS[name].label in recommendation(data.read(Setting(model=name), choice).plan)
    for context in (1, 2, 5):
        choice = Options(context=context, methods=("none", "linear"))
        assert data.read(Setting(), choice).headline.endswith(".")


def test_page_states_the_memory_of_layers_without_their_windows() -> None:
    shown = page(Setting(model="mistral-7b-v0.1"), Options(context=65_536, methods=("none",)))
    # 32 layers of 8 heads of keys and values of width 128, in 2 bytes; 4,096 of the tokens are in windows.
    whole = 32 * 2 * 8 * 128 * 65_536 * 2 / 2**30
    assert f"{whole:g} GiB" in " ".join(read_texts(shown))
    assert plan_preset("mistral-7b-v0.1", 65_536).cache["bfloat16"] == whole * 4_096 / 65_536


def test_cache_is_shown_for_each_kind_of_layer() -> None:
    """Gemma 3 4B: 4 heads of keys and values of width 256; 5 of 34 layers have no window of 1,024."""
    shown = page(Setting(model="gemma-3-4b"), Options(context=65_536, methods=("none",)))
    row = findings(shown, "cache").set_index("number type").loc["bfloat16, float16"]
    gib = {name: 2 * 4 * 256 * 2 * size / 2**30 for name, size in
           (("full_attention", 5 * 65_536), ("sliding_attention", 29 * 1_024))}  # fmt: skip
    assert row["all layers"] == pytest.approx(sum(gib.values()))
    for name, size in gib.items():
        assert row[name.replace("_", " ")] == pytest.approx(size)


def test_page_shows_the_known_lengths_of_its_model_with_their_sources() -> None:
    for name, unknown in (("llama-3.1-8b", []), ("llama-3-8b", ["RULER", "NoLiMa"])):
        setting = Setting(model=name)
        rows = length_rows(data.read(setting, SHORT).plan)
        (drawer,) = [
            block for block in blocks(page(setting, SHORT), Drawer) if block.key == "plan_lengths"
        ]
        shown = drawer_texts(drawer)
        for row in rows:
            told = [text for text in shown if text.startswith(f"**{row['length']}**:")]
            known = f"**{row['length']}**: {row['tokens']} tokens ({row['source']})"
            assert told == ([known] if row["tokens"] else [])
        assert [row["length"] for row in rows if not row["tokens"]] == unknown


def test_values_that_a_config_leaves_out_are_counted_and_listed_in_a_drawer() -> None:
    setting = Setting(model="gemma-3-4b")
    sentences = MODELS["gemma-3-4b"].read().assumed
    assert len(sentences) > 5
    shown = page(setting, SHORT)
    assert f"leaves out {len(sentences)} values: see {panels.ABOUT}." in " ".join(read_texts(shown))
    (drawer,) = [block for block in blocks(shown, Drawer) if block.key == "plan_lengths"]
    assert {f"- {sentence}" for sentence in sentences} <= {*drawer_texts(drawer)}
    assert not any("leaves out" in text for text in read_texts(page(Setting(), SHORT)))


def test_model_without_rope_needs_no_scaling() -> None:
    options = Options(context=8_192, methods=("none", "ntk"))
    bloom, llama = (page(Setting(model=name), options) for name in ("bloom-176b", "llama-2-7b"))
    said = " ".join([as_read(bloom.headline), *read_texts(bloom)])
    assert said.count("ALiBi needs no scaling") == 1
    assert [block.key for block in blocks(bloom, Findings)] == ["cache"]
    assert "methods" not in controls(bloom)
    both = compare.pages(bloom, llama, NAMES, ["model"])
    assert set(findings(both, "methods")["setting"]) == {"A"}


def test_methods_are_offered_once_a_trained_length_is_known() -> None:
    model = config_token({"model_type": "recurrent_gemma"})  # whose config has no length
    for trained in (0, 1_024):
        shown = page(Setting(model=model), Options(context=32_768, trained=trained))
        assert ("methods" in controls(shown)) == bool(trained)


def test_pinned_model_is_compared_in_headline_tables_and_charts() -> None:
    pin, methods = Setting(model="llama-2-7b"), ("none", "yarn", "base")

    def both(picture: str) -> Page:
        options = Options(context=16_384, methods=methods, picture=picture)
        return compare.pages(page(Setting(), options), page(pin, options), NAMES, ["model"])

    shown, choice = both(COVERAGE), Options(context=16_384, methods=methods)
    current, other = (data.read(setting, choice) for setting in (Setting(), pin))
    assert as_read(shown.headline) == f"B: model none. {current.headline}"
    assert as_read(shown.beside) == f"A: model Llama-2-7B. {other.headline}"
    sees = findings(shown, "methods")
    for method in current.plan.methods:
        label = method.method.label
        column = sees[sees["method"] == label].set_index("setting")["expected logit at the end"]
        assert list(column.index) == ["B", "A", "B - A"]
        of_a = next(one for one in other.plan.methods if one.method.label == label).kernel[16_383]
        of_b = method.kernel[16_383]
        assert column.to_dict() == {"B": of_b, "A": of_a, "B - A": of_b - of_a}
    for picture in PICTURES[2:]:
        (chart,) = blocks(both(picture), Chart)
        assert set(chart.frame["setting"]) == {"A", "B"}
        rules = [layer for layer in chart.spec["layer"] if layer["mark"]["type"] == "rule"]
        for rule in rules:  # each setting has the line of its own trained length
            assert "boundary" not in json.dumps(rule) or "detail" in rule["encoding"]


def test_tables_that_a_pinned_setting_shares_stand_once() -> None:
    """A model has its own base, so that the pinned base changes nothing."""
    alone, pin = (page(Setting(model="llama-3-8b", base=base), SHORT) for base in (1e4, 500.0))
    beside = compare.pages(alone, pin, NAMES, ["base"])
    for key in ("cache", "methods"):
        pd.testing.assert_frame_equal(findings(alone, key), findings(beside, key))


def test_table_of_trade_offs_has_what_was_measured_of_small_models() -> None:
    """By the entries of evidence.toml at x16, which a test of the lab compares with the runs."""
    shown = page(Setting(model="llama-3-8b"), Options(context=131_072))
    table = findings(shown, "methods").set_index("method")["measured here"]
    assert table[table != ""].to_dict() == {
        "YaRN": "1.06 (1.05 to 1.07) at x16",
        "Position interpolation": "2.41 (2.37 to 2.43) at x16",
        "Llama 3 scaling": "1.08 (1.06 to 1.09) at x16",
        "NTK-aware": "1.16 (1.12 to 1.20) at x16",
    }
    assert any("on small models, decides no rank." in text for text in read_texts(shown))
    other = page(Setting(model="llama-3-8b"), Options(context=131_072, picture=COVERAGE))
    assert "measured here" not in findings(other, "methods")


def test_only_the_open_picture_is_made_and_all_numbers_stand_in_the_data() -> None:
    for picture in PICTURES:
        shown = page(Setting(), Options(context=16_384, picture=picture))
        assert [chart.title for chart in blocks(shown, Chart)] == [picture] * (
            picture not in TABLES
        )
        assert len(blocks(shown, Download)) == 1  # of the method whose block is open
        frames = [block.frame for block in blocks(shown, Chart) + blocks(shown, Data)]
        read = data.read(Setting(), SHORT)
        wanted = (read.methods, read.pairs, read.kernel, read.bound)
        assert sorted(map(id, frames)) == sorted(map(id, wanted))


def test_empty_trained_length_shows_what_it_stands_for() -> None:
    for model, hint in (
        ("", "8,192 from config"), ("qwen2.5-7b", "32,768 from makers"),
        ("bloom-176b", "2,048 from config"),
    ):  # fmt: skip
        shown = page(Setting(model=model), Options(context=4_096))
        (row,) = [one for one in shown.above if isinstance(one, Controls)]
        assert row.empty["trained"] == hint
    for trained, words in ((4_096, "x4 its trained length. "), (0, "x2 its trained length. ")):
        shown = page(Setting(), Options(context=16_384, trained=trained))
        assert as_read(shown.headline).startswith(f"Llama-3-8B to 16,384 tokens: {words}")


def test_field_of_an_empty_trained_length_is_empty() -> None:
    for link, value in (({"trained": "4096"}, 4_096), ({}, None)):
        at = drawn(visit(PAGE, {"context": "16384"} | link))
        field = at.number_input(key="trained")
        assert (field.value, field.placeholder) == (value, "8,192 from config")
    old_link = drawn(visit(PAGE, {"context": "16384", "trained": "0"}))
    assert as_read(headline(old_link)).startswith(
        "Llama-3-8B to 16,384 tokens: x2 its trained length. "
    )
    assert drawn(old_link.run()).number_input(key="trained").value is None


def test_refused_config_is_told_in_its_menu_and_the_plan_names_whose_it_is() -> None:
    at = drawn(visit(PAGE, {"model": "llama-2-7b", "context": "16384"}, model_menu=True))
    text = json.dumps({"model_type": "llama", "max_position_embeddings": -1})
    at.text_area(key="config_text_0").set_value(text).run()
    (error,) = at.error
    assert "max_position_embeddings" in as_read(error.value)
    assert as_read(headline(at)).startswith("Llama-2-7B to 16,384 tokens")
    at.text_area(key="config_text_0").set_value("").run()
    assert not drawn(at).error


def test_target_and_trained_length_of_the_last_model_do_not_outlive_it() -> None:
    link = {"context": "16384", "trained": "4096"}
    at = drawn(visit(PAGE, link, model_menu=True))
    config = {"model_type": "llama", "max_position_embeddings": 32_768}
    at.text_area(key="config_text_0").set_value(json.dumps(config)).run()
    at.button(key="use_config").click().run()
    assert drawn(at).number_input(key="context").value == 4 * 32_768
    assert at.number_input(key="trained").value is None
    at.selectbox(key="model_list").set_value("llama-2-7b").run()
    assert drawn(at).number_input(key="context").value == 4 * 32_768  # past 4,096, too
    # A link names both, however short the target.
    linked = drawn(visit(PAGE, {"model": "qwen2.5-7b", "context": "2048"}))
    assert linked.number_input(key="context").value == 2_048


# What is computed, and when -----------------------------------------------------------------------


def test_numbers_of_a_model_follow_it() -> None:
    llama, qwen = Setting(), Setting(model="qwen2.5-7b")  # trained on 8,192 and 32,768 tokens
    chosen = Options(context=16_384, trained=4_096, methods=("yarn",))
    assert chosen.following(llama, Setting(base=500.0)) is chosen
    raised = chosen.following(llama, qwen)
    assert raised == Options(context=LONGER * 32_768, trained=0, methods=("yarn",))
    assert raised.following(qwen, llama) == raised  # past 8,192, too
    unknown = Setting(model=config_token({"model_type": "recurrent_gemma"}))
    assert chosen.following(llama, unknown).context == 16_384
    long = Setting(model=config_token({"model_type": "llama", "max_position_embeddings": 2**23}))
    assert chosen.following(llama, long).context == limits.MAX_TRAIN_LENGTH


def test_long_search_starts_on_request_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    search = mock.Mock(side_effect=smallest_base)
    monkeypatch.setattr(importlib.import_module("posenc.planner.plan"), "smallest_base", search)
    link = {"context": "20000", "methods": "none,base", "picture": BOUND}
    at = visit(PAGE, link | {"searched": data.search_of("llama-3-8b", 20_000)})
    assert not search.called  # a link asks for nothing
    assert "searched" in as_read(at.warning[0].value)
    drawn(at.button(key="plan_search").click().run())
    assert [length for (_, length), _ in search.call_args_list] == [20_000]


def test_search_is_offered_where_it_takes_long() -> None:
    for context, offered in ((20_000, True), (16_384, False)):
        shown = page(Setting(), Options(context=context, methods=("none", "base"), picture=BOUND))
        assert [button.changes for button in blocks(shown, Button)] == [
            {"searched": data.search_of("llama-3-8b", context)}
        ] * offered
        assert offered == any("distance 18,438" in text for text in read_texts(shown))


def test_only_short_or_known_plans_are_computed_at_once() -> None:
    assert not data.takes_long("llama-3-8b", 131_072)
    assert not data.takes_long("llama-3-8b", 16_000)
    assert data.takes_long("llama-3-8b", 16_385)
    assert not data.takes_long("mistral-7b-v0.1", 131_072)  # no layer sees more than 4,096
    assert not data.takes_long("bloom-176b", 100_000)
    assert data.takes_long("llama-3-8b", 1_048_576)
    read = data.read(Setting(), Options(context=1_048_576, methods=("none",)))
    assert "B(k) past 65,536, and the base" in read.partial
    assert read.bound["x"].max() == 65_535
    assert read.kernel["x"].max() == 1_048_575


def test_trained_length_is_entered_published_or_assumed() -> None:
    for model, context, trained, fact in (
        ("qwen2.5-7b", 16_384, 4_096, "Qwen2.5-7B from 4,096 to 16,384 is x4"),
        ("qwen2.5-7b", 16_384, 0, "was trained on 32,768 tokens"),
        ("llama-3-8b", 8_192, 0, "taken as trained on 8,192 tokens"),
    ):
        choice = Options(context=context, methods=("none",), trained=trained)
        read = data.read(Setting(model=model), choice)
        assert fact in recommendation(read.plan)
        assert ("does not say how long" in read.assumed) == ("taken as" in fact)


# Numbers and pictures ----------------------------------------------------------------------------


def test_tables_pairs_and_kernels_are_those_of_the_planned_schemes() -> None:
    read = data.read(Setting(), SHORT)
    found = read.plan
    assert list(read.methods) == [column.title for column in COLUMNS]
    assert list(read.methods["logit change, worst"]) == [one.short.worst for one in found.methods]
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
    choice = Options(context=24_000, methods=("none",))
    bound = data.read(Setting(), searched(choice, "llama-3-8b")).bound
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


@pytest.mark.parametrize(("name", "target"), PLANS)
def test_page_states_rule_and_source_of_each_warning_and_layer(name: str, target: int) -> None:
    read = data.read(Setting(model=name), Options(context=target, methods=FIVE))
    warnings = [one for one in warnings_of(read.plan) if one.sentence not in read.said]
    notes = layer_notes(read.plan.model, target, read.plan.trained_length)
    told = [text for drawer in panels.warnings(read) for text in drawer_texts(drawer)]
    for warning, text in zip(warnings, told, strict=False):
        assert warning.rule.strip()
        assert warning.source.strip()
        assert text == f"{warning.sentence}  \n*{warning.rule} Source: {warning.source}.*"
    assert len(told) >= len(warnings)
    heading, *layers = [as_read(one.text) for one in panels.layers(read) if isinstance(one, Text)]
    assert heading == "Layers"
    for note, text in zip(notes, layers, strict=True):
        assert note.source.strip()
        assert text.startswith(f"**{note.layers.replace('_', ' ')}**: ")
        assert text.endswith(f" Source: {note.source}.")
        assert (note.sentence in text) == (note.sentence not in read.said)


def test_drawers_name_every_statement_and_study_with_its_source() -> None:
    read = data.read(Setting(), Options())
    (drawer,) = panels.sources(read)
    assert drawer_texts(drawer) == [
        f"**{method.method.label}**: {sentence} *{source}*"
        for method in read.plan.methods
        for sentence, source in method.statements
    ]
    (drawer,) = panels.order(read)
    told = drawer_texts(drawer)
    assert any(text.startswith("Compared: Lu et al. 2024") for text in told)
    # Lu et al. 2024, table 1: perplexity of a larger base, YaRN and position interpolation.
    assert any("| perplexity at that length | 5.79 | 5.93 | 5.95 |" in text for text in told)
    (drawer,) = panels.beside_scalings(read)
    assert all("Available in " in text for text in drawer_texts(drawer))


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
