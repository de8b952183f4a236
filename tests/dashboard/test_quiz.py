"""Quiz mode: nothing is given away before the answer, a new setting asks again, links hold it."""

import itertools
import math
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from dashboard.compute import runs
from dashboard.frame import quiz
from dashboard.frame.quiz import WITHHELD, OneOf, Question, Slider, judge
from dashboard.pages.extrapolation import formula, questions
from dashboard.pages.similarity import data
from dashboard.pages.similarity.options import SimilarityChoice
from dashboard.pages.similarity.questions import questions as similarity_questions
from dashboard.settings import Setting
from posenc.lab.summary import Curve
from tests.dashboard import pages
from tests.dashboard.independent_kernels import SETTINGS, kernel, mean_by_distance, rope_width
from tests.dashboard.pages import KINDS, LABELS, PLACES, as_read, charts, drawn, headline, notices
from tests.dashboard.shipped_runs import means
from tests.library import independent

pytestmark = pytest.mark.usefixtures("no_shape_checks")

SMALL = {"dim": "64", "heads": "4", "length": "40", "train_length": "24"}
ON = SMALL | {"predict": "true"}
NAMES = {"similarity": "similarity", "extrapolation": "formula", "measured": "measured"}


def open_quiz(place: str, link: dict[str, str] | None = None, **state: Any) -> AppTest:
    return drawn(pages.visit_place(place, ON | (link or {}), **state))


def question_box(at: AppTest, place: str) -> Any:
    return at.selectbox(key=f"question_{NAMES[place]}")


def answer_box(at: AppTest) -> Any:
    boxes = [*at.main.radio, *at.main.select_slider]
    return next(box for box in boxes if box in at.main.radio or str(box.key).startswith("answer_"))


def answer(at: AppTest, place: str, value: Any) -> AppTest:
    """Give an answer to the question shown and check it."""
    answer_box(at).set_value(value).run()
    return drawn(at.button(key=f"look_{NAMES[place]}").click().run())


def verdict(at: AppTest) -> str:
    texts = [as_read(box.value) for box in [*at.main.success, *at.main.info]]
    (text,) = [text for text in texts if text.startswith(("Right.", "Not quite."))]
    assert text.startswith("Right.") == bool(at.main.success)
    return text


def pictures(at: AppTest) -> int:
    rows = [element for element in at.get("bidi_component") if element.proto.bytes]
    return len(charts(at)) + len(rows) + len(at.dataframe)


def all_text(at: AppTest) -> str:
    parts = [*at.main.markdown, *at.main.caption, *at.main.info, *at.main.success, *at.main.warning]
    return as_read("\n".join(str(part.value) for part in parts))


def withheld(at: AppTest) -> bool:
    return headline(at) == WITHHELD and pictures(at) == 0 and not at.main.success


def quiz_link(at: AppTest) -> dict[str, str]:
    """The link that the page offers, by names, without its schemes."""
    return {name: text for name, text in pages.copied_link(at).items() if isinstance(text, str)}


@pytest.mark.parametrize("place", NAMES)
def test_page_is_withheld_until_the_answer_and_then_as_without_quiz(place: str) -> None:
    plain = drawn(pages.visit_place(place, SMALL))
    assert not [box for box in plain.selectbox if box.label == "Question"]
    assert pictures(plain) >= 1
    at = open_quiz(place)
    assert withheld(at)
    assert headline(plain) not in all_text(at)
    assert at.session_state["page_contents"].tables == {}
    box = question_box(at, place)
    assert withheld(drawn(box.select(box.options[-1]).run()))
    # The link holds the question and the answer, and none of the truth.
    before = quiz_link(at)
    assert (before["predict"], before["answer"]) == ("true", "none")
    answer(at, place, answer_box(at).options[0])
    after = quiz_link(at)
    assert {name for name in after if after[name] != before[name]} == {"answer"}
    assert headline(at) == headline(plain)
    for frame, expected in zip(charts(at), charts(plain), strict=True):
        assert frame.equals(expected)
    opened = drawn(pages.visit(PLACES[place][0], after))
    assert notices(opened) == []
    assert (headline(opened), verdict(opened)) == (headline(at), verdict(at))
    assert withheld(drawn(at.button(key=f"again_{NAMES[place]}").click().run()))
    assert quiz_link(at) == before


def test_another_setting_or_question_asks_again_and_the_first_is_remembered() -> None:
    at = open_quiz("similarity", {"question": "half.rope", "answer": "said 3"}, exact_values=True)
    first = (headline(at), verdict(at))
    assert "Your answer: 3." in first[1]
    at.number_input(key="base_exact").set_value(50.0).run()
    assert withheld(drawn(at))
    assert quiz_link(at)["answer"] == "none"
    at.number_input(key="base_exact").set_value(10000.0).run()
    assert (headline(drawn(at)), verdict(at)) == first
    assert quiz_link(at)["answer"] == "said 3"
    box = question_box(at, "similarity")
    box.select(next(text for text in box.options if text.startswith("Whose"))).run()
    assert withheld(drawn(at))
    assert at.button(key="look_similarity").disabled  # no answer is chosen yet


def test_phone_shows_the_whole_question_under_its_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiz, "on_phone", lambda: True)
    at = open_quiz("measured")
    asked = question_box(at, "measured").options[0]
    assert asked.startswith("By how much does the loss of Sinusoidal change")
    assert asked in [text.value for text in at.main.markdown]


@pytest.mark.parametrize(
    ("name", "text", "notice"),
    [
        ("question", "half.[x](http://evil.example)", "Question must be"),
        ("question", "half.shaw", "The question half.shaw is not asked"),
        ("answer", "said <b>", "Answer must be"),
        ("answer", "said maybe", "The answer maybe does not fit"),
    ],
)
def test_unknown_question_or_answer_gets_a_notice(name: str, text: str, notice: str) -> None:
    at = open_quiz("similarity", {name: text})
    (sentence,) = notices(at)
    assert sentence.startswith(notice)
    assert withheld(at)


# Truths, computed apart from the page --------------------------------------------------------------


@pytest.mark.parametrize("name", SETTINGS)
def test_similarity_truths_are_those_of_the_kernel(name: str) -> None:
    small = SETTINGS[name]
    setting = Setting(**small, schemes=KINDS)
    similarities = data.read(setting, SimilarityChoice()).results
    asked = {question.key: question for question in similarity_questions(setting, similarities)}
    assert len(asked) == 2 * len(KINDS) + 1
    under: dict[str, int] = {}
    for kind in KINDS:
        mean = mean_by_distance(pages.cosines(kernel(kind, small)))
        below = [distance for distance, value in enumerate(mean) if value < 0.5]
        half, rise = asked[f"half.{kind}"], asked[f"rise.{kind}"]
        assert f"of {LABELS[kind]} " in half.text
        assert half.truth == (below[0] if below else "never")
        rises = any(mean[k] > mean[k - 1] + 1e-12 for k in range(1, len(mean)))
        assert rise.truth == {"yes" if rises else "no"}
        if below:
            under[kind] = below[0]
    first = {LABELS[kind] for kind, distance in under.items() if distance == min(under.values())}
    assert asked["half.first"].truth == first


def test_formula_truths_are_turns_and_what_lies_past_training() -> None:
    small = SETTINGS["exact"] | {"base": 100.0, "train_length": 50}
    setting = Setting(**small, schemes=KINDS)
    turns = formula.read_turns(setting).coverage
    of_turns = {question.key: question for question in questions.of_turns(setting, turns)}
    for kind, width in (("sinusoidal", 48), ("rope", rope_width(small))):
        thetas = independent.inverse_frequencies(width, 100.0)
        question = of_turns[f"turns.{kind}"]
        assert question.truth == sum(50 * theta >= 2 * math.pi for theta in thetas)
        assert f"{width // 2} pairs" in question.text
    assert {*of_turns} == {"turns.sinusoidal", "turns.rope"}
    read = formula.read(setting, 4).past
    asked = {question.key: question for question in questions.of_formula(setting, read)}
    past = {kind: asked[f"past.{kind}"].truth for kind in ("learned", "alibi", "none")}
    ends, leaves, stays = {questions.ENDS}, {questions.LEAVES}, {questions.STAYS}
    assert past == {"learned": ends, "alibi": leaves, "none": stays}


def shipped_curves(task: str, length: int, measure: str) -> list[Curve]:
    """The page's curves of the main schemes of one comparison that ships."""
    every = runs.comparisons(runs.shipped())
    (infos,) = [
        infos
        for infos in every.values()
        if (s := infos[0].specification) and (s.task, s.train_length) == (task, length)
    ]
    return runs.curves(runs.of_kinds(infos, KINDS), measure)


def test_loss_truths_are_those_of_the_runs_that_ship() -> None:
    losses = means("language", 64, "context")
    curves = shipped_curves("language", 64, "context")
    asked = {question.key: question for question in questions.of_losses(curves)}
    for kind in KINDS:
        for to in (128, 1024):
            key = f"change.{to}.{LABELS[kind]}"
            if kind == "learned":  # no row past its last
                assert key not in asked
                continue
            assert f"from 64 to {to:,} tokens" in asked[key].text
            change = losses[kind][to] - losses[kind][64]
            assert asked[key].truth == pytest.approx(change, rel=1e-9)
    for x in (64, 128, 1024):
        there = {LABELS[kind]: losses[kind][x] for kind in KINDS if x in losses[kind]}
        truth = asked[f"best.{x}"].truth
        assert isinstance(truth, frozenset)
        assert min(there, key=there.__getitem__) in truth
        assert max(there, key=there.__getitem__) not in truth


@pytest.mark.parametrize(("task", "length"), [("copy", 20), ("recall", 32)])
def test_reach_truths_are_the_last_length_that_is_half_right(task: str, length: int) -> None:
    curves = shipped_curves(task, length, task)
    shares = {LABELS[kind]: own for kind, own in means(task, length, task).items() if kind in KINDS}
    asked = questions.of_accuracies(curves)
    assert asked
    for question in asked:
        own = sorted(shares[question.key.removeprefix("reach.")].items())
        reached = [x for x, _ in itertools.takewhile(lambda point: point[1] >= 0.5, own)]
        assert question.truth == (reached[-1] if reached else "nowhere")


@pytest.mark.parametrize(
    ("answer", "truth", "right", "correct"),
    [
        (1.0, 1.5, True, "1.5 m"),
        (1.0, 1.6, False, "1.6 m"),
        (99.0, 90.0, True, "90.0 m"),
        (99.1, 90.0, False, "90.0 m"),
        (1234.5, 1234.5, True, "1,234.5 m"),
        ("never", "never", True, "never"),
        ("never", 3.0, False, "3.0 m"),
        (0.0, float("nan"), False, "nan m"),
    ],
)
def test_number_is_judged_by_its_distance(
    answer: Any, truth: Any, right: bool, correct: str
) -> None:
    metres = Slider(stops=(0.0, 1.0), unit="m", digits=1, near=0.5, within=0.1, beyond="never")
    question = Question(key="q", text="?", control=metres, truth=truth)
    own = answer if isinstance(answer, str) else f"{answer:,}"
    words = "Right." if right else "Not quite."
    text = f"{words} Your answer: {own}. The correct answer: {correct}."
    assert judge(question, answer) == (right, text)
    assert metres.hint == "in m, right within 10% or 0.5 m"


def test_each_of_several_correct_options_is_accepted() -> None:
    letters = OneOf(options=("a", "b", "c"))
    question = Question(key="q", text="?", control=letters, truth=frozenset("ab"))
    assert [judge(question, word)[0] for word in "abc"] == [True, True, False]


def every_question() -> list[Question]:
    """Return the questions of all pages at default settings."""
    setting = Setting()
    asked = similarity_questions(setting, data.read(setting, SimilarityChoice()).results)
    asked += questions.of_turns(setting, formula.read_turns(setting).coverage)
    asked += questions.of_formula(setting, formula.read(setting, 4).past)
    for task, length, measure in (
        ("language", 64, "context"), ("language", 128, "context"), ("copy", 20, "copy"),
        ("recall", 32, "recall"),
    ):  # fmt: skip
        asked += questions.of_runs(shipped_curves(task, length, measure))
    return asked


def test_every_question_has_right_answers_and_wrong_ones() -> None:
    asked = every_question()
    assert len(asked) > 30
    for question in asked:
        answers, truth = [*question.control.answers.values()], question.truth
        right = {answer for answer in answers if judge(question, answer)[0]}
        assert 0 < len(right) < len(answers), question.key
        if isinstance(truth, frozenset):
            assert right == truth
        elif isinstance(truth, str):
            assert right == {truth}
        else:  # the nearest stop is right; the first and the last cannot both be
            numbers = [answer for answer in answers if not isinstance(answer, str)]
            assert min(numbers, key=lambda stop: abs(stop - truth)) in right
            assert not {numbers[0], numbers[-1]} <= right
        for text, answer in question.control.answers.items():
            assert (
                float(text) == pytest.approx(answer)
                if isinstance(answer, float)
                else text == answer
            )
