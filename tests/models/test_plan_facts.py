"""A plan holds facts; every fact has one template, and every template is of a fact."""

import inspect
import re

import pytest

from posenc.planner import facts, layers, left_out_sentences, warnings_of
from posenc.planner.sentences import _SENTENCES, _TEMPLATES
from tests.models.configs import LLAMA, plan_config, plan_preset

pytestmark = pytest.mark.usefixtures("no_shape_checks")


def words_of(code: object) -> set[str]:
    """The words of one letter case and no blank that a part of the planner writes in quotes."""
    return set(re.findall(r'"([a-z0-9_]+)"', inspect.getsource(code)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("table", "code"),
    [("warnings", facts), ("left_out", facts.left_out), ("layers", layers)],
    ids=["warnings", "left out", "layers"],
)
def test_every_template_is_of_a_fact(table: str, code: object) -> None:
    assert {*_TEMPLATES[table]} <= words_of(code)


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
    template = "{n:count pair} {n:verb reaches reach} {base:short} of {length:,}"
    for number, text in ((1, "1 pair reaches"), (1_200, "1,200 pairs reach")):
        numbers = {"n": number, "base": 5e5, "length": 8_192}
        assert _SENTENCES.vformat(template, (), numbers) == f"{text} 5e5 of 8,192"
