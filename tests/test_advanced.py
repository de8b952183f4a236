"""What is for those who look into a formula itself is marked where it is offered."""

import re

import pytest
from click.testing import CliRunner

from dashboard.choices import PlanChoice
from posenc import Setting, fields
from posenc import __main__ as command
from posenc.lab.specification import Specification
from posenc.planner import METHODS
from posenc.schemes import SCHEMES
from posenc.schemes.stretched import AFTER_TRAINING
from posenc.words import with_advanced
from tests.pages import drawn, visit

NAME, LABEL = "rope_yarn_paper", "RoPE YaRN as printed"


def test_yarn_by_its_printed_formula_alone_is_advanced() -> None:
    assert [kind for kind, config in SCHEMES.items() if config.advanced] == [NAME]
    assert [name for name, method in METHODS.items() if method.advanced] == ["yarn_paper"]
    assert NAME not in fields.defaults(Setting)["schemes"]
    assert "yarn_paper" not in fields.defaults(PlanChoice)["methods"]
    assert NAME in AFTER_TRAINING


def test_the_help_of_every_choice_that_offers_it_says_so() -> None:
    assert fields.rules(Setting)["schemes"].help.endswith(f" Advanced: {LABEL}.")
    assert fields.rules(PlanChoice)["methods"].help.endswith(" Advanced: YaRN as printed.")
    assert fields.rules(Specification)["scalings"].help.endswith(f" Advanced: {LABEL}.")
    assert with_advanced("Nothing here is.", ()) == "Nothing here is."


@pytest.mark.usefixtures("no_shape_checks")
def test_the_menus_of_the_pages_mark_it() -> None:
    at = drawn(visit("similarity"))
    (menu,) = [one for one in at.sidebar if getattr(one, "label", "") == "More schemes"]
    marked = [option for option in menu.proto.options if "advanced" in str(option)]
    assert len(marked) == 1
    assert f"{LABEL} (advanced)" in str(marked[0])
    assert [box.help for box in at.sidebar.button_group if "Advanced: " in (box.help or "")]
    at = drawn(visit("context_planner", {"context": "9000", "methods": "none"}))
    (pills,) = [box for box in at.button_group if box.key == "methods"]
    assert pills.help.endswith("Advanced: YaRN as printed.")


@pytest.mark.parametrize(
    ("words", "option", "name"),
    [
        ("train", "--scheme", NAME),
        ("train", "--scaling", NAME),
        ("plan", "--methods", "yarn_paper"),
    ],
)
def test_the_help_of_the_command_line_marks_it(words: str, option: str, name: str) -> None:
    said = CliRunner().invoke(command.main, [words, "--help"]).output
    own = re.split(r"\n  (?=--)", said)
    (text,) = [part for part in own if part.startswith(f"{option} ")]
    assert f"Advanced: {name}." in re.sub(r"\s+", " ", text)


def test_the_readme_marks_it() -> None:
    from pathlib import Path

    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    (row,) = [line for line in readme.splitlines() if f"`{NAME}`" in line]
    assert "as printed (advanced)" in row
