"""Predict, then look: nothing is given away before the answer, and every setting asks anew."""

from urllib.parse import parse_qs

import pytest
from streamlit.testing.v1 import AppTest

from dashboard.exercise import WITHHELD
from tests.exercise_page import (
    ON,
    PLACES,
    answer,
    asked,
    choose,
    everything_said,
    open_place,
    pictures,
    questions,
    screen,
    stops,
    verdict,
)
from tests.pages import KINDS, LABELS, charts, drawn, headline, notices, visit

pytestmark = pytest.mark.usefixtures("no_shape_checks")


# Off, withheld, shown -----------------------------------------------------------------------------


@pytest.mark.parametrize("place", PLACES)
def test_the_exercise_is_off_unless_asked_for(place: str) -> None:
    at = open_place(place)
    assert at.toggle(key="predict").value is False
    assert headline(at) != WITHHELD
    assert pictures(at) >= 2
    assert not [box for box in at.selectbox if box.label == "Question"]
    assert "predict" not in at.query_params


@pytest.mark.parametrize("place", PLACES)
def test_nothing_is_given_away_before_the_answer(place: str) -> None:
    plain, at = open_place(place), open_place(place, ON)
    assert headline(at) == WITHHELD
    assert pictures(at) == 0
    assert headline(plain) not in everything_said(at)
    assert not [one for one in at.expander if one.label.startswith("Numbers: ")]
    # What stays: the guide, the definition, and every control.
    for label in ("How to read this", "Definition and code"):
        assert label in [one.label for one in at.expander]
    for name in ("reference", "half", "comparison", "reach"):
        if name in plain.session_state:
            assert at.session_state[name] == plain.session_state[name]
    for text in questions(at, place):
        choose(at, place, text)
        assert headline(at) == WITHHELD
        assert pictures(at) == 0
        assert not at.main.success


@pytest.mark.parametrize("place", PLACES)
def test_an_answer_shows_the_page_as_it_is_without_the_exercise(place: str) -> None:
    plain, at = open_place(place), open_place(place, ON)
    answer(at, place, at.main.radio[0].options[0] if at.main.radio else stops(at)[0])
    assert headline(at) == headline(plain)
    assert pictures(at) == pictures(plain)
    for one, other in zip(charts(at), charts(plain), strict=True):
        assert one.equals(other)
    assert verdict(at)
    at.button(key=f"again_{screen(place)}").click().run()
    assert headline(drawn(at)) == WITHHELD
    assert pictures(at) == 0
    at.toggle(key="predict").set_value(False).run()
    assert headline(drawn(at)) == headline(plain)


def test_another_setting_asks_again_and_the_first_is_remembered() -> None:
    at = open_place("similarity", ON | {"length": "64"}, exact_values=True)
    answer(at, "similarity", stops(at)[3])
    first = (headline(at), verdict(at))
    at.number_input(key="base_control").set_value(50.0).run()
    assert headline(drawn(at)) == WITHHELD
    assert pictures(at) == 0
    at.number_input(key="base_control").set_value(10000.0).run()
    assert (headline(drawn(at)), verdict(at)) == first
    # The line from one position is no part of the question.
    at.number_input(key="reference").set_value(5).run()
    assert (headline(drawn(at)), verdict(at)) == first


def test_another_question_asks_anew() -> None:
    at = open_place("similarity", ON | {"length": "64"})
    answer(at, "similarity", "3")
    choose(at, "similarity", questions(at, "similarity")[1])
    assert headline(at) == WITHHELD


def test_a_choice_has_no_look_before_it_is_made() -> None:
    at = open_place("similarity", ON | {"length": "64"})
    (text,) = [one for one in questions(at, "similarity") if one.startswith("Whose")]
    choose(at, "similarity", text)
    assert at.main.radio[0].value is None
    assert at.button(key="look_similarity").disabled


def link(at: AppTest) -> dict[str, str]:
    """The link that the page offers, as what it says."""
    at.session_state["menu_copy"] = True
    at.run()
    (text,) = [code.value for code in at.main.code if code.value.startswith(("?", "http"))]
    said = parse_qs(text.partition("?")[2], keep_blank_values=True, strict_parsing=True)
    return {name: values[0] for name, values in said.items() if name != "schemes"}


@pytest.mark.parametrize("place", PLACES)
def test_a_link_holds_the_question_and_no_answer_before_it_is_given(place: str) -> None:
    at = open_place(place, ON)
    text = questions(at, place)[-1]
    choose(at, place, text)
    said = link(at)
    assert said["predict"] == "true"
    assert said["answer"] == "none"
    again = drawn(visit(PLACES[place][0], said))
    assert notices(again) == []
    assert asked(again, place).value == asked(at, place).value != "first"
    assert said["question"] == asked(at, place).value
    assert headline(again) == WITHHELD
    assert link(again) == said
    # Whatever the truth is, the link is the same: it holds none of it.
    possible = at.main.radio[0].options if at.main.radio else stops(at)
    given = []
    for one in (possible[0], possible[-1]):
        answer(at, place, one)
        given.append(link(at))
        verdict_here = verdict(at)
        opened = drawn(visit(PLACES[place][0], given[-1]))
        assert notices(opened) == []
        assert (headline(opened), verdict(opened)) == (headline(at), verdict_here)
        assert link(opened) == given[-1]
        at.button(key=f"again_{screen(place)}").click().run()
        assert link(drawn(at)) == said
    changed = {name for name in given[0] if given[0][name] != given[1][name]}
    assert changed == {"answer"}


def test_an_answer_of_a_link_counts_for_its_setting_alone() -> None:
    at = open_place(
        "similarity", ON | {"question": "half.rope", "answer": "said 3"}, exact_values=True
    )
    assert verdict(at).startswith("Not quite. You said 3;")
    at.number_input(key="base_control").set_value(50.0).run()
    assert headline(drawn(at)) == WITHHELD
    assert link(at)["answer"] == "none"
    assert at.query_params["answer"] in ("none", ["none"])
    at.number_input(key="base_control").set_value(10000.0).run()
    assert link(drawn(at))["answer"] == "said 3"


def test_a_question_is_asked_again_where_its_page_is_turned_to_again() -> None:
    at = open_place("similarity", ON | {"question": "rise.alibi"})
    at.switch_page("views/pca.py").run()
    at.query_params.pop("question", None)  # as the browser does when the page is left
    at.switch_page("views/similarity.py").run()
    assert asked(at, "similarity").value == "rise.alibi"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"question": "half.[x](http://evil.example)"}, "Question must be"),
        ({"question": "half.shaw"}, "The question half.shaw is not asked at this setting"),
        ({"answer": "said <b>"}, "Answer must be"),
        ({"answer": "said 7,5"}, "The answer 7,5 does not fit this question"),
        ({"answer": "said maybe"}, "The answer maybe does not fit this question"),
    ],
)
def test_odd_questions_and_answers_are_told_and_give_nothing_away(
    said: dict[str, str], told: str
) -> None:
    at = open_place("similarity", ON | said)
    assert len(notices(at)) == 1
    assert notices(at)[0].startswith(told)
    assert headline(at) == WITHHELD
    assert pictures(at) == 0
    assert notices(drawn(at.run())) == []


# Questions follow the schemes ---------------------------------------------------------------------


@pytest.mark.parametrize("kinds", [("rope",), ("none",), ("learned", "alibi"), KINDS], ids=",".join)
@pytest.mark.parametrize("place", ["similarity", "formula", "measured"])
def test_questions_are_about_the_schemes_chosen(place: str, kinds: tuple[str, ...]) -> None:
    at = open_place(place, ON, schemes=list(kinds))
    if not [box for box in at.selectbox if box.label == "Question"]:
        assert headline(at) != WITHHELD
        return
    texts = questions(at, place)
    assert len(texts) == len(set(texts))
    for kind in KINDS:
        named = any(f"of {LABELS[kind]} " in text for text in texts)
        assert named <= (kind in kinds)
        if place == "similarity":
            assert named == (kind in kinds)
    assert any(text.startswith("Whose") for text in texts) == (
        place == "similarity" and len(kinds) > 1
    )


@pytest.mark.parametrize(
    "link",
    [
        {"dim": "2", "heads": "1", "length": "2", "train_length": "1", "base": "2"},
        {"length": "2048", "dim": "512"},
        {"train_length": "1048576", "reach": "16"},
        {"precision": "bfloat16", "dim": "128", "heads": "64"},
    ],
)
@pytest.mark.parametrize("place", ["similarity", "formula", "measured"])
def test_odd_settings_ask_and_judge(place: str, link: dict[str, str]) -> None:
    at = open_place(place, ON | link, schemes=list(KINDS), learned_source="random")
    asked = questions(at, place)
    assert asked
    for text in asked:
        choose(at, place, text)
        answer(at, place, at.main.radio[0].options[-1] if at.main.radio else stops(at)[-1])
        assert verdict(at)
