"""Methods are ranked by training, precedents and direct comparisons; others share a rank."""

import itertools

import pytest

from posenc.models import read_config
from posenc.planner import order_sentences, paste, study_tables
from posenc.planner.methods import METHODS
from posenc.planner.ranking import Readiness, clearly_ahead, compared, precedent_of
from posenc.planner.record import plan_record
from tests.models.configs import LLAMA, LLAMA_2, method, plan_config, plan_preset, preset_config

pytestmark = pytest.mark.usefixtures("no_shape_checks")

KINDS = [one.kind for one in METHODS.values()]


@pytest.mark.parametrize(
    ("factor", "light"),
    [
        (4, {"linear": 1, "yarn": 1}),
        (8, {"base": 1, "linear": 2, "yarn": 2}),
        (16, {"base": 1, "yarn": 2, "linear": 3}),  # released so: DeepSeek-V3, gpt-oss
        (32, {"base": 1, "yarn": 2}),
    ],
)
def test_light_fine_tuning_of_llama_2_follows_comparisons(
    factor: int, light: dict[str, int]
) -> None:
    found = plan_preset("llama-2-7b", factor * 4_096)
    tuned = [
        one
        for one in found.methods
        if one.readiness is Readiness.TRAINED and one.standing.training == "light"
    ]
    first = min(one.rank for one in tuned)
    assert {one.method.name: one.rank - first + 1 for one in tuned} == light
    assert [one.rank for one in found.methods] == sorted(one.rank for one in found.methods)


@pytest.mark.parametrize("target", [5_000, 8_192])
def test_comparisons_without_training_rank_what_is_tested_without_it(target: int) -> None:
    """YaRN: 3.67 against 5.97 of NTK (Peng et al.), 32.64 against 10.21 of dynamic NTK (Ding et al.)."""
    found = plan_preset("llama-2-7b", target)
    untrained = [one for one in found.methods if one.readiness is Readiness.UNTRAINED]
    assert [(one.method.name, one.rank) for one in untrained] == [
        ("yarn", 1),
        ("dynamic", 2),
        ("ntk", 3),
    ]
    verdicts = {
        frozenset({pair.first, pair.second}): (
            pair.verdict,
            [one.factor for one in pair.comparisons],
        )
        for pair in found.comparisons
        if pair.training == "none"
    }
    assert verdicts == {
        frozenset({"rope_yarn", "rope_ntk"}): ("first", [2]),
        frozenset({"rope_yarn", "rope_dynamic"}): ("disagree", [2, 2]),
        frozenset({"rope_dynamic", "rope_ntk"}): ("equal", [2]),
    }
    # A method that is tested without training may be fine-tuned, too.
    assert [one.method.name for one in found.first_after("none")] == ["yarn"]
    assert [one.method.name for one in found.first_after("light")] == ["linear", "yarn"]
    assert [one.method.name for one in found.first_after("continued")] == ["llama3"]


def test_a_measure_is_named_once_with_the_factors_of_its_studies() -> None:
    for numbers in (True, False):
        disagree, *_ = order_sentences(plan_preset("llama-2-7b", 16_384), numbers=numbers)
        assert "at x8 and 4.19 against 5.70 at x16" in disagree or "at x8 and x16" in disagree
        for measure in ("perplexity of short texts", "RULER", "needle in a haystack"):
            assert disagree.count(measure) == 1
    alike = order_sentences(plan_preset("llama-2-7b", 8_192), numbers=False)
    assert any("perplexity at that length, dynamic NTK" in one for one in alike)  # one factor


@pytest.mark.parametrize("training", ["none", "light", "continued"])
def test_comparisons_are_antisymmetric(training: str) -> None:
    swapped = {"first": "second", "second": "first", "equal": "equal", "disagree": "disagree"}
    for factor in (1.5, 2, 8, 16, 32, 64, 256):
        for first, second in itertools.permutations(KINDS, 2):
            one = compared(first, second, factor, training)  # type: ignore[arg-type]
            other = compared(second, first, factor, training)  # type: ignore[arg-type]
            assert (one is None) == (other is None)
            if one is not None and other is not None:
                assert swapped[one.verdict] == other.verdict
                assert one.comparisons == other.comparisons


@pytest.mark.parametrize(
    ("measure", "first", "second", "ahead"),
    [
        ("perplexity", 5.95, 5.93, 0),  # 0.34%
        ("perplexity", 5.79, 5.93, 1),  # 2.4%
        ("short_perplexity", 6.88, 6.70, -1),  # 2.7%
        ("perplexity", 1.0, 1.0099, 0),
        ("perplexity", 1.0, 1.0101, 1),
        ("retrieval", 57.66, 59.42, 0),  # 1.76 points
        ("retrieval", 57.66, 36.95, 1),
        ("needle", 42.1, 46.7, -1),
        ("many_shot", 75.5, 71.0, 0),  # does not decide
    ],
)
def test_a_measure_decides_from_one_percent_or_two_points(
    measure: str, first: float, second: float, ahead: int
) -> None:
    assert clearly_ahead(measure, first, second) == ahead
    assert clearly_ahead(measure, second, first) == -ahead


def test_a_controlled_comparison_hides_others_and_counts_near_its_factor() -> None:
    near = compared("rope_linear", "rope_yarn", 4, "light")
    assert near is not None
    assert near.verdict == "disagree"
    assert [(one.factor, one.controlled) for one in near.comparisons] == [(8, True), (16, True)]
    alone = compared("rope_linear", "rope_ntk", 2, "light")  # x16 is not within 4 times
    assert alone is not None
    assert [one.controlled for one in alone.comparisons] == [False]
    assert alone.verdict == "first"  # 3.34 against 3.59, and 3.92 against 4.20
    assert compared("base", "rope_yarn", 33, "light") is None
    assert compared("base", "rope_yarn", 8, "continued") is None


def test_a_plan_says_which_study_carries_the_order_and_where_measures_disagree() -> None:
    found = plan_preset("llama-2-7b", 16 * 4_096)
    carried, *others = order_sentences(found)
    said = " ".join(others)
    for fact in (
        "one controlled study",
        "Llama-2-7B",
        "2409.12181",
        "at x8",
        "no comparison that decides is known at x16",
    ):
        assert fact in carried
    for fact in ("RULER (57.66 against 36.95 at x8)", "many-shot classification (75.50 against 71.00)",
                 "its larger base was 305,922", f"{method(found, 'base').config.base:,.10g}",
                 "400 steps each"):  # fmt: skip
        assert fact in said
    near = order_sentences(plan_preset("llama-2-7b", 8 * 4_096))
    assert near[0].endswith("on one base model, Llama-2-7B.")
    assert "629,980" in near[-2]  # the smallest base at which B(k) stays at or above 0, to 32,768
    assert order_sentences(plan_preset("llama-3.1-8b", 131_072, methods=("none",))) == ()


def test_a_block_of_a_larger_base_says_which_base_was_compared() -> None:
    for target, planned in ((8 * 4_096, "629,980"), (16 * 4_096, "2,090,200")):
        found = plan_preset("llama-2-7b", target)
        (said,) = [one for one in paste(found, method(found, "base")).why if "compared" in one]
        for fact in (planned, "305,922", "at x8", "2409.12181"):  # 10,000 x 29^(128/126), Lu et al.
            assert fact in said
        assert not any("compared" in one for one in paste(found, method(found, "yarn")).why)


def test_a_study_is_a_table_of_the_planned_methods_by_measure() -> None:
    found = plan_preset("llama-2-7b", 8 * 4_096)
    lu, peng = study_tables(found)
    rows = {row.pop("measure"): row for row in lu.rows}
    assert rows["RULER"] == {
        "Larger base": "59.42", "Position interpolation": "57.66", "YaRN": "36.95",
    }  # fmt: skip
    assert rows["needle in a haystack"]["Larger base"] == "83.70"
    assert "1B tokens each" in lu.sentence
    assert "400 steps each" in peng.sentence
    short = " ".join(order_sentences(found, numbers=False))
    assert "measures disagree: position interpolation is better in RULER at x8, YaRN in" in short
    assert "57.66" not in short


def test_a_model_of_the_family_that_works_at_the_length_comes_first() -> None:
    at_32k = plan_config(LLAMA | {"rope_theta": 5e5}, 32_768, scan=64)
    assert at_32k.methods[0].method.name == "base"
    precedent = at_32k.methods[0].standing.precedent
    assert precedent is not None
    assert (precedent.model, precedent.effective) == ("Llama-3-8B-ProLong-512k", 32_768)
    assert "ProLong" in order_sentences(at_32k)[0]
    model = read_config(LLAMA)
    assert precedent_of(model, "base", 32_769) is None  # RULER found no more
    assert precedent_of(model, "rope_yarn", 16_384) is None
    assert precedent_of(read_config(LLAMA_2), "base", 16_384) is None


def test_a_record_has_ranks_and_comparisons_by_the_names_of_methods() -> None:
    record = plan_record(plan_preset("llama-2-7b", 8 * 4_096))
    assert [row["rank"] for row in record["methods"]][:3] == [1, 2, 2]
    (pair,) = [
        each
        for each in record["comparisons"]
        if (each["first"], each["second"]) == ("base", "yarn")
    ]
    assert pair["verdict"] == "first"
    (source,) = pair["sources"]
    assert source["values"]["needle"] == {"first": 83.7, "second": 46.7}
    assert source["controlled"] is True


@pytest.mark.parametrize(
    ("factor", "recommended"),
    [(2.0, False), (3.99, False), (4.0, True), (4.01, False), (8.0, False)],
)
def test_makers_recommend_their_factor_alone(factor: float, recommended: bool) -> None:
    """The card of Qwen2.5 says YaRN by 4 from 32,768 tokens, whatever a config holds."""
    block = {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": 32_768}
    found = plan_config(preset_config("qwen2.5-7b") | {"rope_scaling": block}, 131_072, scan=64)
    own = method(found, "configured")
    assert (own.readiness is Readiness.RECOMMENDED) == recommended
    assert (own.advice is not None) == recommended
