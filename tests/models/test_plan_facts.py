"""A plan holds facts; every fact has one template, and every template is of a fact."""

import inspect
import re
import sys
from collections.abc import Callable
from types import ModuleType

import pytest

from posenc.planner import (
    layers,
    left_out_sentences,
    memory_budget,
    paste,
    plan,
    recommendation,
    warnings,
    warnings_of,
)
from posenc.planner.evidence import statements
from posenc.planner.facts import _SENTENCES, TEMPLATES
from posenc.planner.methods import left_out
from posenc.planner.ranking import Readiness
from posenc.planner.recommendation import recommendation_facts
from posenc.planner.tables import COLUMNS
from tests.models.configs import LLAMA, plan_config, plan_preset

pytestmark = pytest.mark.usefixtures("no_shape_checks")


def module_of(function: Callable[..., object]) -> ModuleType:
    """The module of a function, whose own name the package offers as the function's."""
    return sys.modules[function.__module__]


def words_of(code: object) -> set[str]:
    """The words of one letter case and no blank that a part of the planner writes in quotes."""
    return set(re.findall(r'"([a-z0-9_]+)"', inspect.getsource(code)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("table", "code"),
    [
        ("warnings", warnings),
        ("assumed", module_of(plan)),
        ("left_out", left_out),
        ("layers", layers),
        ("bound", module_of(recommendation)),
        ("paste", module_of(paste)),
        ("memory", module_of(memory_budget)),
    ],
    ids=["warnings", "assumed", "left out", "layers", "bound", "paste", "memory"],
)
def test_every_template_is_of_a_fact(table: str, code: object) -> None:
    assert {*TEMPLATES[table]} <= words_of(code)


def test_what_a_table_says_of_a_method_has_a_template() -> None:
    words = words_of(module_of(left_out)) | words_of(module_of(statements))
    assert {*TEMPLATES["statements"]} <= words
    assert {*TEMPLATES["columns"]} == {column.key for column in COLUMNS}
    readiness = {one.value for one in Readiness}
    assert {*TEMPLATES["readiness"]} == {*TEMPLATES["readiness_at_factor"]} == readiness


def test_every_warning_of_a_plan_is_said_with_its_rule_and_source() -> None:
    found = plan_preset("gemma-2-9b", 131_072, methods=("none", "dynamic", "yarn", "yarn_paper"))
    said = warnings_of(found)
    assert [fact.word for fact in found.warnings].count("unseen") >= 1
    assert len(said) == len(found.warnings) > 3
    for fact, warning in zip(found.warnings, said, strict=True):
        assert warning.rule
        assert warning.source
        assert "{" not in warning.sentence
        for value in fact.numbers.values():
            if isinstance(value, int):
                assert f"{value:,}" in warning.rule + warning.sentence


def test_a_method_that_is_left_out_is_named_with_its_numbers() -> None:
    found = plan_config(LLAMA | {"rope_theta": 1e9}, 16_384, search_base=True, scan=64)
    (fact,) = found.left_out
    assert (fact.word, fact.numbers["base"]) == ("base_enough", 1e9)
    assert left_out_sentences(found) == [
        "Larger base: B(k) stays at or above 0 at the model's base of 1,000,000,000."
    ]


def test_templates_count_and_agree() -> None:
    template = "{n:count pair} {n:verb reaches reach} {base:,.12g} of {length:,}"
    for number, text in ((1, "1 pair reaches"), (1_200, "1,200 pairs reach")):
        numbers = {"n": number, "base": 5e5, "length": 8_192}
        assert _SENTENCES.vformat(template, (), numbers) == f"{text} 500,000 of 8,192"


@pytest.mark.parametrize(
    ("name", "target", "words"),
    [
        ("llama-3.1-8b", 131_072, ["longer", "own_scaling"]),
        ("qwen3-8b", 65_536, ["longer", "makers"]),
        ("llama-3-8b", 16_384, [
            "longer", "reported", "comparisons_disagree", "measured", "measure_first",
            "if_not_enough", "fine_tune",
        ]),
        ("llama-3-8b", 524_288, ["longer", "train_and_measure", "no_report", "measured"]),
        ("bloom-176b", 8_192, ["without_rope"]),
        ("mistral-7b-v0.1", 65_536, ["no_new_distance", "as_released", "windows"]),
    ],
)  # fmt: skip
def test_a_recommendation_is_made_of_facts(name: str, target: int, words: list[str]) -> None:
    found = plan_preset(name, target)
    assert [fact.word for fact in recommendation_facts(found)] == words


def test_a_larger_base_that_was_not_searched_is_named_with_what_comparisons_put_behind_it() -> None:
    asked = {"methods": ("linear", "yarn", "llama3", "base"), "scan": 64}
    (fact,) = plan_config(LLAMA, 4 * 8_192 - 1, search_base=False, **asked).left_out
    # Lu et al. 2024, tables 1 to 3: at x8 it is clearly better than both, and clearly worse in none.
    assert (fact.word, fact.numbers["behind"]) == (
        "not_searched_ahead",
        ["Position interpolation", "YaRN"],
    )
    (other,) = plan_config(
        LLAMA, 4 * 8_192 - 1, search_base=False, methods=("llama3", "base")
    ).left_out
    assert other.word == "not_searched"
