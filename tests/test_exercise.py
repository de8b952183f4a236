"""Predict, then look: nothing is given away, and answers are judged by the page's numbers."""

import math
import statistics
from typing import Any
from urllib.parse import parse_qs

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from dashboard.exercise import WITHHELD, Judgement, OneOf, Question, Slider, judge
from posenc.interop.sources import RESULTS
from posenc.lab.runs import Store
from tests import independent
from tests.pages import KINDS, LABELS, as_read, charts, drawn, headline, notices, visit
from tests.test_page_numbers import DEFAULT, cosines, diagonals, kernel, link_of

pytestmark = pytest.mark.usefixtures("no_shape_checks")

ON = {"predict": "true"}
MEASURED = {"half": "measured"}
PLACES = {
    "similarity": ("similarity", {}),
    "formula": ("extrapolation", {}),
    "measured": ("extrapolation", MEASURED),
    "copy": ("extrapolation", MEASURED | {"comparison": "copy"}),
    "recall": ("extrapolation", MEASURED | {"comparison": "recall"}),
}


def comparison(task: str) -> str:
    """The name of the comparison of a task that ships, as the page offers it."""
    at = visit("extrapolation", MEASURED)
    box = at.selectbox(key="comparison")
    return next(name for name in box.options if name.startswith(task))


def open_place(place: str, link: dict[str, str] | None = None, **state: Any) -> AppTest:
    page, own = PLACES[place]
    if own.get("comparison"):
        own = own | {"comparison": comparison(own["comparison"])}
    return drawn(visit(page, own | (link or {}), **state))


def screen(place: str) -> str:
    """The name by which a place's exercise keeps its widgets."""
    return place if place in ("similarity", "formula") else "measured"


def asked(at: AppTest, place: str) -> AppTest:
    return at.selectbox(key=f"question_{screen(place)}")


def questions(at: AppTest, place: str) -> list[str]:
    return list(asked(at, place).options)


def choose(at: AppTest, place: str, text: str) -> AppTest:
    asked(at, place).select(text).run()
    return drawn(at)


def answer(at: AppTest, place: str, said: Any) -> AppTest:
    """Give an answer to the question shown and look."""
    name = screen(place)
    if at.main.radio:
        at.main.radio[0].set_value(said).run()
    else:
        (slider,) = [one for one in at.main.select_slider if one.key.startswith("answer_")]
        slider.set_value(said).run()
    at.button(key=f"look_{name}").click().run()
    return drawn(at)


def stops(at: AppTest) -> list[str]:
    (slider,) = [one for one in at.main.select_slider if one.key.startswith("answer_")]
    return list(slider.options)


def verdict(at: AppTest) -> str:
    boxes = [*at.main.success, *at.main.info]
    (text,) = [
        as_read(box.value)
        for box in boxes
        if as_read(box.value).startswith(("Right.", "Not quite."))
    ]
    assert text.startswith("Right.") == bool(at.main.success)
    return text


def everything_said(at: AppTest) -> str:
    """All text of the page's main part, as read."""
    parts = [*at.main.markdown, *at.main.caption, *at.main.info, *at.main.success, *at.main.warning]
    return as_read("\n".join(str(part.value) for part in parts))


def pictures(at: AppTest) -> int:
    rows = [one for one in at.get("bidi_component") if one.proto.bytes]
    return len(charts(at)) + len(rows) + len(at.dataframe)


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
    for text in questions(at, place):
        choose(at, place, text)
        answer(at, place, at.main.radio[0].options[-1] if at.main.radio else stops(at)[-1])
        assert verdict(at)


# Truth, computed apart ----------------------------------------------------------------------------

SMALL = [
    {"dim": 64, "heads": 4, "base": 100.0, "length": 40, "train_length": 24},
    {"dim": 48, "heads": 3, "base": 7.0, "length": 33, "train_length": 50, "seed": 7},
]


def judged(at: AppTest, place: str, text: str, truth: Any, wrong: Any) -> None:
    """Answer a question rightly and wrongly."""
    choose(at, place, text)
    answer(at, place, truth)
    assert verdict(at).startswith("Right."), (text, truth, verdict(at))
    at.button(key=f"again_{screen(place)}").click().run()
    answer(at, place, wrong)
    assert verdict(at).startswith("Not quite."), (text, wrong, verdict(at))
    assert any(f"{said} {truth}" in verdict(at) for said in ("it is", "The answer:"))
    at.button(key=f"again_{screen(place)}").click().run()


@pytest.mark.parametrize("numbers", SMALL)
def test_similarity_is_judged_by_the_kernel_of_the_setting(numbers: dict[str, Any]) -> None:
    small = DEFAULT | {"learned_source": "random"} | numbers
    link = ON | link_of(small)
    at = open_place("similarity", link, schemes=list(KINDS), learned_source="random")
    texts = questions(at, "similarity")
    under: dict[str, int] = {}
    for kind in KINDS:
        mean = [statistics.fmean(one) for one in diagonals(cosines(kernel(kind, small)))]
        below = [distance for distance, value in enumerate(mean) if value < 0.5]
        rises = [k for k in range(1, len(mean)) if mean[k] > mean[k - 1] + 1e-12]
        if below:
            under[kind] = below[0]
        (half,) = [t for t in texts if t.startswith("At which") and f"of {LABELS[kind]} " in t]
        truth = str(below[0]) if below else "never"
        wrong = "never" if below else "1"
        judged(at, "similarity", half, truth, wrong)
        (rise,) = [t for t in texts if t.startswith("Does") and f"of {LABELS[kind]} " in t]
        judged(at, "similarity", rise, *(("yes", "no") if rises else ("no", "yes")))
    (whose,) = [text for text in texts if text.startswith("Whose")]
    least = min(under.values())
    for kind in KINDS:
        choose(at, "similarity", whose)
        answer(at, "similarity", LABELS[kind])
        assert verdict(at).startswith("Right.") == (under.get(kind) == least)
        at.button(key="again_similarity").click().run()


def test_how_far_off_an_answer_is_follows_the_settings() -> None:
    said = {}
    for base in ("100", "10000"):
        at = open_place("similarity", ON | {"base": base, "length": "128"}, schemes=["rope"])
        small = DEFAULT | {"base": float(base), "length": 128}
        mean = [statistics.fmean(one) for one in diagonals(cosines(kernel("rope", small)))]
        truth = next(k for k, value in enumerate(mean) if value < 0.5)
        answer(at, "similarity", "100")
        said[base] = verdict(at)
        assert said[base] == (
            f"Not quite. You said 100; it is {truth}: {100 - truth} positions too high."
        )
    assert said["100"] != said["10000"]


@pytest.mark.parametrize("base", [100.0, 10000.0])
def test_turns_are_counted_by_the_formula(base: float) -> None:
    link = ON | {"base": str(base), "dim": "64", "heads": "2", "train_length": "50"}
    at = open_place("formula", link, schemes=list(KINDS), learned_source="random")
    texts = questions(at, "formula")
    for kind, width in (("sinusoidal", 64), ("rope", 32)):
        full = sum(
            50 * theta >= 2 * math.pi for theta in independent.inverse_frequencies(width, base)
        )
        (text,) = [t for t in texts if t.startswith("How many") and f"of {LABELS[kind]} " in t]
        assert f"{width // 2} pairs" in text
        judged(at, "formula", text, str(full), "0")
    assert not [t for t in texts if t.startswith("How many") and "ALiBi" in t]
    for kind, truth in (
        ("learned", "it has no value there"),
        ("alibi", "it leaves them"),
        ("none", "it stays within the values seen in training"),
    ):
        (text,) = [t for t in texts if t.startswith("What does") and f"of {LABELS[kind]} " in t]
        others = {"it has no value there", "it leaves them"} - {truth}
        judged(at, "formula", text, truth, sorted(others)[0])


def shipped_losses(length: int) -> dict[str, dict[int, float]]:
    """Mean loss by context of every scheme trained at a length, from the files that ship."""
    store = Store(str(RESULTS))
    found: dict[str, dict[int, list[float]]] = {}
    for run in map(store.read, store.ids()):
        spec = run.specification
        if spec.task != "language" or spec.train_length != length or spec.scheme.kind not in KINDS:
            continue
        for score in run.scores:
            if score.measure == "context" and score.variant == "as trained":
                by_length = found.setdefault(spec.scheme.kind, {})
                by_length.setdefault(score.x, []).append(score.value)
    return {
        kind: {x: statistics.fmean(values) for x, values in by_length.items()}
        for kind, by_length in found.items()
    }


def test_changes_of_loss_are_those_of_the_runs_that_ship() -> None:
    losses = shipped_losses(64)
    at = open_place("measured", ON, schemes=list(KINDS))
    texts = questions(at, "measured")
    for kind in KINDS:
        mine = [t for t in texts if t.startswith("By how much") and f"of {LABELS[kind]} " in t]
        if kind == "learned":
            assert mine == []  # no row past its last
            continue
        for text, to in zip(mine, (128, 1024), strict=True):
            assert f"from 64 to {to:,} tokens" in text
            change = losses[kind][to] - losses[kind][64]
            choose(at, "measured", text)
            near = min(stops(at), key=lambda stop: abs(float(stop) - change))
            answer(at, "measured", near)
            assert verdict(at).startswith("Right.")
            assert f"it is {change:+.2f}" in verdict(at)
            at.button(key="again_measured").click().run()
            answer(at, "measured", "+5.00")
            off = 5 - change
            assert verdict(at) == (
                f"Not quite. You said +5.00; it is {change:+.2f}: {off:.2f} nats too high."
            )
            at.button(key="again_measured").click().run()
    for x in (64, 128, 1024):
        (text,) = [t for t in texts if t == f"Which scheme has the lowest loss at {x:,} tokens?"]
        there = {LABELS[kind]: values[x] for kind, values in losses.items() if x in values}
        best = min(there, key=there.__getitem__)
        judged(at, "measured", text, best, max(there, key=there.__getitem__))


@pytest.mark.parametrize("place", ["copy", "recall"])
def test_reaches_of_shares_are_those_of_the_page(place: str) -> None:
    at = open_place(place, ON)
    plain = open_place(place)
    said = headline(plain)
    for text in questions(at, place):
        (label,) = [label for label in LABELS.values() if f" does {label} " in text]
        after = (
            said.split("At least half up to: ")[1].replace(" and ", ", ").rstrip(".").split(", ")
        )
        (reach,) = [one.removeprefix(f"{label} ") for one in after if one.startswith(f"{label} ")]
        wrong = next(stop for stop in stops(at) if stop != reach and (
            reach == "nowhere" or stop == "nowhere" or abs(float(stop) - float(reach)) > 0.2 * float(reach)
        ))  # fmt: skip
        judged(at, place, text, reach, wrong)


# The judge ----------------------------------------------------------------------------------------

METRES = Slider(stops=(0.0, 1.0, 2.0), unit="m", digits=1, near=0.5, within=0.1, beyond="never")


def of(control: Slider | OneOf) -> Question[Any]:
    return Question(key="q", text="?", control=control, truth=lambda found: found)


@pytest.mark.parametrize(
    ("answer", "truth", "expected"),
    [
        (1.0, 1.0, Judgement(True, "You said 1.0; it is 1.0: exactly.")),
        (1.0, 1.5, Judgement(True, "You said 1.0; it is 1.5: 0.5 m too low.")),
        (1.0, 1.6, Judgement(False, "You said 1.0; it is 1.6: 0.6 m too low.")),
        (99.0, 90.0, Judgement(True, "You said 99.0; it is 90.0: 9.0 m too high.")),
        (99.1, 90.0, Judgement(False, "You said 99.1; it is 90.0: 9.1 m too high.")),
        (2.0, 2.01, Judgement(True, "You said 2.0; it is 2.0: less than 0.1 m off.")),
        ("never", "never", Judgement(True, "You said never; it is never: exactly.")),
        ("never", 3.0, Judgement(False, "You said never; it is 3.0.")),
        (3.0, "never", Judgement(False, "You said 3.0; it is never.")),
        (0.0, float("nan"), Judgement(False, "You said 0.0; it is nan.")),
    ],
)
def test_a_number_is_judged_by_how_far_off_it_is(
    answer: Any, truth: Any, expected: Judgement
) -> None:
    assert judge(of(METRES), answer, truth) == expected


def test_of_several_right_words_each_is_right() -> None:
    control = OneOf(options=("a", "b", "c"))
    truth = frozenset({"a", "b"})
    assert judge(of(control), "a", truth) == Judgement(True, "The answer: a and b.")
    assert judge(of(control), "c", truth) == Judgement(False, "You said: c. The answer: a and b.")


def test_the_control_sees_a_judge_that_knows_nothing() -> None:
    """Numbers that follow the settings: a fixed answer is right at one base and wrong at another."""
    found = []
    for base in ("100", "10000"):
        at = open_place("similarity", ON | {"base": base, "length": "128"}, schemes=["rope"])
        small = DEFAULT | {"base": float(base), "length": 128}
        mean = np.array(
            [statistics.fmean(one) for one in diagonals(cosines(kernel("rope", small)))]
        )
        truth = str(np.flatnonzero(mean < 0.5)[0])
        answer(at, "similarity", truth if not found else found[0])
        assert verdict(at).startswith("Right." if not found else "Not quite.")
        found.append(truth)
