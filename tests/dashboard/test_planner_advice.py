"""Extend a model's context: its headline and its cards advise what sources say, and where they end."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from dashboard.blocks import Text, walk
from dashboard.pages.extend_context import data, panels
from dashboard.pages.extend_context.options import Options
from dashboard.pages.extend_context.page import page
from dashboard.settings import Setting
from dashboard.text import plain
from posenc import __main__ as command
from posenc.models.presets import MODELS
from posenc.planner import order_sentences, recommendation
from posenc.planner.evidence import Training
from posenc.planner.methods import LARGER_BASE
from posenc.planner.ranking import Readiness
from tests.dashboard.planner_pages import searched

pytestmark = pytest.mark.usefixtures("no_shape_checks")


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
