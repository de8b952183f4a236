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

from dashboard import compare
from dashboard.blocks import (
    Block,
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
    walk,
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
from dashboard.text import plain
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
    order_sentences,
    plan,
    recommendation,
    warnings_of,
)
from posenc.planner.evidence import Training
from posenc.planner.methods import LARGER_BASE
from posenc.planner.ranking import Readiness
from posenc.planner.record import plan_record
from posenc.planner.tables import COVERAGE
from tests.dashboard import called_pages
from tests.dashboard.called_pages import block_of, texts
from tests.dashboard.pages import as_read, drawn, headline, visit
from tests.models.configs import plan_preset

pytestmark = pytest.mark.usefixtures("no_shape_checks")

PAGE = "context_planner"
SHORT = Options(context=16_384)  # whose base is found at once
WARNED = {"softmax scale", "stale keys from", "float32 cosine error", "error in transformers"}
NAMES = {"A": "A: model Llama-2-7B", "B": "B: model none"}


def read_texts(shown: Page) -> list[str]:
    return [as_read(text) for text in texts(shown)]


def findings(shown: Page, key: str) -> pd.DataFrame:
    found: Findings = block_of(shown, Findings, key)
    return found.frame


def blocks(shown: Page, kind: type[Block]) -> list[Any]:
    return [block for block in shown.all_blocks if isinstance(block, kind)]


def controls(shown: Page) -> list[str]:
    return [name for block in blocks(shown, Controls) for name in block.names]


def drawer_texts(drawer: Block) -> list[str]:
    assert isinstance(drawer, Drawer)
    return [as_read(block.text) for block in walk(drawer.make()) if isinstance(block, Text)]


def searched(options: Options, model: str) -> Options:
    """Return the options once the long search was asked for."""
    asked = data.search_of(model, options.context)
    return Options(context=options.context, methods=options.methods, searched=asked)


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
    assert RANKING in read_texts(shown)
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


def test_verdict_counts_unscaled_pairs_past_their_trained_angles() -> None:
    """By the definition: less than a turn in training, and a larger angle at the target."""
    read = data.read(Setting(), Options(methods=("yarn", "ntk")))  # counted without "none", too
    theta = 500_000.0 ** (-np.arange(64) / 64)
    unseen = int((theta * 8_192 < 2 * np.pi).sum())
    assert read.why == (
        f"Without scaling, {unseen} of 64 pairs of features turn to angles that training never showed."
    )


def test_page_says_first_that_one_study_alone_puts_the_method_in_order() -> None:
    """Its factor and its model are others than those that are planned."""
    alone = data.read(Setting(model="llama-3-8b"), Options(context=131_072))
    decided = [
        pair
        for pair in alone.plan.comparisons
        if LARGER_BASE.kind in (pair.first, pair.second) and pair.verdict in ("first", "second")
    ]
    assert {each.factor for pair in decided for each in pair.comparisons} == {8.0}
    assert "at x8 on one base model, Llama-2-7B; no comparison that decides is known at x16." in (
        alone.rests
    )
    assert alone.rests in alone.said
    assert alone.rests in order_sentences(alone.plan, numbers=False)
    own = data.read(Setting(model="llama-3.1-8b"), Options(context=524_288))
    assert own.rests == ""  # its makers' lengths put the methods in order


def test_page_says_what_would_change_the_advice() -> None:
    """Sources report x2 without training at most, and the trained length is taken from the config."""
    read = data.read(Setting(model="llama-3-8b"), Options(context=131_072))
    assert read.changes == (
        "What would change this: a measurement of your model (the script is below); a target of up to "
        f"{2 * 8_192:,} tokens, where sources report methods without training; a trained length other "
        "than 8,192 tokens."
    )
    entered = data.read(Setting(model="llama-3-8b"), Options(context=131_072, trained=8_192))
    assert "other than" not in entered.changes
    untrained = data.read(Setting(model="qwen2.5-7b"), Options(context=131_072))
    assert (
        "a target of up to" not in untrained.changes
    )  # its makers recommend YaRN without training
    assert data.read(Setting(model="qwen2.5-7b"), Options(context=16_384)).changes == ""
    assert data.read(Setting(model="gpt-2"), Options(context=16_384)).changes == ""


def test_what_the_recommendation_begins_with_is_pasted_first() -> None:
    """Past its own scaling as configured, then this scaling at a larger factor; else by rank."""
    own = data.read(Setting(model="llama-3.1-8b"), Options(context=8_388_608))
    assert [*own.scaled][:2] == ["As configured", "Llama 3 scaling"]
    reported = data.read(Setting(model="llama-3.1-8b"), Options(context=524_288))
    assert [*reported.scaled][:2] == ["As configured", "YaRN"]
    plain = data.read(Setting(model="llama-3-8b"), Options(context=131_072))
    by_rank = [method.method.label for method in plain.plan.methods]
    assert [*plain.scaled] == [label for label in by_rank if label != "Unscaled"]


def test_headline_names_what_the_recommendation_does() -> None:
    """The methods of the first card that names one, and the makers' or the model's own scaling."""
    for model, context, todo in (
        ("llama-3-8b", 131_072, "Fine-tune with a larger base. By RULER, 2 models extended so from its "
         "family work to 32,768 tokens at most."),
        ("llama-3-8b", 16_384, "Measure YaRN without training first."),
        ("qwen2.5-7b", 131_072, "Use YaRN without training, as its makers recommend."),
        ("llama-3.1-8b", 131_072, "Use its own scaling as it is. By RULER, Llama-3.1-8B-Instruct works to "
         "32,768 tokens."),
        ("llama-2-7b", 1_048_576, "Train and measure, since no source reports a method that works so far."),
        ("llama-3.1-8b", 262_144, "Measure it as configured for comparison (made for 131,072 tokens), "
         "then fine-tune with YaRN."),
        ("llama-3.1-8b", 524_288, "Measure it as configured for comparison (made for 131,072 tokens), "
         "then fine-tune with YaRN."),
    ):  # fmt: skip
        read = data.read(Setting(model=model), Options(context=context))
        lengths = "its trained length"
        if model == "llama-3.1-8b":  # trained on 131,072 tokens with the scaling of its config
            lengths = ": within the 131,072 that it reads with its own scaling"
            if context > 131_072:
                times, all_times = context // 131_072, context // 8_192
                lengths = (
                    f": x{times} the 131,072 that it reads with its own scaling, x{all_times} the 8,192 "
                    "before it"
                )
        assert read.headline.endswith(f"{lengths}. {todo}")
        named = [method for one in read.advice for method in (one.method, *one.equal) if method]
        scaled = {method.method.label: method.method.words for method in read.plan.methods}
        if "Fine-tune" in todo or "Measure YaRN" in todo:
            assert scaled[named[0]] in todo


def test_text_within_windows_has_a_short_headline_and_the_reasons_under_it() -> None:
    read = data.read(Setting(model="mistral-7b-v0.1"), Options(context=65_536))
    assert (
        read.headline == "Mistral-7B-v0.1 to 65,536 tokens: no distance is new, but measure first."
    )
    assert recommendation(read.plan) in read.said


@pytest.mark.parametrize("name", ["qwen2.5-7b", "llama-3-8b", "llama-3.1-8b"])
def test_page_and_command_name_the_same_methods(name: str) -> None:
    preset = MODELS[name]
    read = data.read(Setting(model=name), searched(Options(context=65_536), name))
    config = dict(preset.config or {})
    if preset.optional:
        del config["rope_scaling"]
    words = ["plan", "-", "--context", "65536", "--json", "--search"]
    words += ["--trained", str(preset.trained_length)] if preset.trained_length else []
    record = json.loads(CliRunner().invoke(command.main, words, input=json.dumps(config)).stdout)
    assert [row["label"] for row in record["methods"]] == list(read.methods["method"])
    assert record["advice"] == json.loads(json.dumps([one._asdict() for one in read.advice]))


@pytest.mark.parametrize(
    ("name", "context", "reports"),
    [
        (
            "llama-3-8b",
            131_072,
            [
                "Reported x512 after 1.6B tokens: model card of Llama-3-8B-Instruct-Gradient-4194k",
                "Reported x16 after about 800B tokens: Grattafiori et al. 2024, arXiv 2407.21783, "
                "section 3.4.2",
            ],
        ),
        (
            "llama-2-7b",
            8_192,
            [
                "Reported x2 without training: Peng et al. 2023, arXiv 2309.00071v3, table 5",
                "Reported x512 after 1.6B tokens: model card of Llama-3-8B-Instruct-Gradient-4194k",
            ],
        ),
    ],
)
def test_a_card_of_advice_cites_only_sources_that_trained_as_little_and_says_how_much(
    name: str, context: int, reports: list[str]
) -> None:
    shown = data.read(Setting(model=name), Options(context=context))
    cards = walk(panels.advice(shown))
    captions = [one.text for one in cards if isinstance(one, Text) and one.look == "caption"]
    cited = [text for text in captions if text.startswith(("Reported", "Source"))]
    assert {*map(plain, reports)} <= {*cited}
    assert not any("Xiong" in text for text in cited)
    light = [one.sentence for one in shown.advice if one.title == "Light fine-tuning"]
    assert not any("400B tokens" in sentence for sentence in light)


def test_a_card_says_to_which_length_models_work_that_others_extended_by_its_method() -> None:
    advice = data.read(Setting(model="llama-3-8b"), Options(context=131_072)).advice
    of_base = {one.method: one.effective for one in advice}["Larger base"]
    assert of_base == (
        (
            "Llama-3-8B-ProLong-512k works to 32,768 of 524,288 tokens",
            "Gao et al. 2024, arXiv 2410.02660; NVIDIA/RULER, README.md at ebe802c",
        ),
        (
            "Llama-3-8B-Instruct-Gradient-1048k works to 16,384 of 1,048,576 tokens",
            "its model card; NVIDIA/RULER, README.md at ebe802c",
        ),
    )
    shown = page(Setting(model="llama-3-8b"), Options(context=131_072))
    texts = [block.text for block in shown.all_blocks if isinstance(block, Text)]
    said = plain("; ".join(sentence for sentence, _ in of_base))
    assert f"By RULER: {said}." in texts
    others = data.read(Setting(model="llama-2-7b"), Options(context=32_768)).advice
    assert not any(one.effective for one in others)


AMOUNTS: dict[str, Training] = {
    "No training": "none", "Light fine-tuning": "light", "Continued training": "continued",
}  # fmt: skip


@pytest.mark.parametrize("name", ["llama-3-8b", "qwen2.5-7b", "mistral-7b-v0.1", "llama-2-7b"])
@pytest.mark.parametrize("factor", [2, 8, 16])
def test_advice_names_the_highest_ranked_method_that_a_source_supports(
    name: str, factor: int
) -> None:
    choice = Options(context=factor * 4_096)
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
        if one.reports:  # no statement on other amounts of training
            assert one.sentence.endswith(f"Reported {'; '.join(one.reports)}.")
            assert not one.source
        else:
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
