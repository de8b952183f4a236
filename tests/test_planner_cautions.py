"""Warnings of a plan carry their rule and its source, on the page and on the command line."""

import json

import pytest
from click.testing import CliRunner
from streamlit.testing.v1 import AppTest

from dashboard import planner
from dashboard.choices import PlanChoice
from posenc import Setting
from posenc import __main__ as command
from posenc.interop import read_config
from posenc.planner import cautions, layer_notes, plan
from posenc.presets import MODELS
from tests.pages import as_read

pytestmark = pytest.mark.usefixtures("no_shape_checks")

TARGETS = (9_000, 131_072)  # the bases of both are known, or found at once
METHODS = ("none", "linear", "dynamic", "yarn", "yarn_paper")
EVERY = [(name, target) for name in MODELS for target in TARGETS]


def drawn_warnings(name: str, context: int, methods: tuple[str, ...]) -> None:
    from dashboard import planner, planner_panels
    from dashboard.choices import PlanChoice
    from dashboard.pair import Pair
    from posenc import Setting

    chosen = PlanChoice(context=context, methods=methods)
    planner_panels.beware(Pair(planner.read(Setting(model=name), chosen), None))


@pytest.mark.parametrize(("name", "target"), EVERY)
def test_the_page_tells_each_warning_s_rule_and_source_and_the_layers_sources(
    name: str, target: int
) -> None:
    found = planner.read(Setting(model=name), PlanChoice(context=target, methods=METHODS))
    at = AppTest.from_function(drawn_warnings, args=(name, target, METHODS)).run()
    assert not at.exception
    said = [as_read(box.value) for box in at.markdown]
    assert len(said) == len(found.cautions) + len(found.layers)
    for caution, text in zip(found.cautions, said, strict=False):
        assert caution.rule.strip()
        assert caution.source.strip()
        assert text.endswith(f"{caution.rule} Source: {caution.source}.*")
        told_above = caution.sentence in found.headline + found.assumed
        assert text.startswith("As said above." if told_above else caution.sentence)
    warned = {caution.sentence for caution in found.cautions}
    for note, text in zip(found.layers, said[len(found.cautions) :], strict=True):
        assert note.source.strip()
        assert text.startswith(f"**{note.layers}**: ")
        assert text.endswith(f" Source: {note.source}.")
        elsewhere = note.sentence in found.headline or note.sentence in warned
        assert (note.sentence in text) == (not elsewhere)


@pytest.mark.parametrize(("name", "target"), [one for one in EVERY if MODELS[one[0]].config])
def test_the_command_line_tells_each_warning_s_rule_and_source(name: str, target: int) -> None:
    config = dict(MODELS[name].config or {})
    words = ["plan", "-", "--context", str(target), "--methods", ",".join(METHODS)]
    result = CliRunner().invoke(command.main, words, input=json.dumps(config))
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    made = plan(read_config(config), target, methods=METHODS)
    found = cautions(made)
    for one in found:
        assert f"  {one.sentence} ({one.rule} Source: {one.source})" in lines
    for note in layer_notes(made.model, made.target, made.trained_length):
        assert f"  {note.layers}: {note.sentence} ({note.source})" in lines
    assert ("Beware" in lines) == bool(found)


def test_most_kinds_of_warning_were_met() -> None:
    met = {
        caution.rule.split(":")[0]
        for name, target in EVERY
        for caution in planner.read(
            Setting(model=name), PlanChoice(context=target, methods=METHODS)
        ).cautions
    }
    assert met == {
        "The trained length decides every number.",
        "B(k) = sum cos(k theta) must stay at or above 0 for all distances below the context.",
        "Keys are rotated once, when they are cached.",
        "An attention factor acts at every length.",
        "A pair that made less than a turn in training knows no angle past its last one.",
        "What is published of a model counts more than a formula; a config does not name its model.",
        "YaRN's printed ramp is not the one in public code.",
        "Layers",
        "bfloat16 has 8 bits of precision.",
        "float32 has 24 bits of precision.",
    }
