"""Quiz mode: a question on the page's own numbers, answered before the page shows them.

An answer counts for one question at one setting; another setting asks again. The link holds the question
and the reader's answer, never the correct answer.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.controls import link, sidebar
from dashboard.controls.widgets import set_value
from dashboard.frame.page import on_phone
from dashboard.text import listed, plain
from posenc import fields

Answer = float | str
Truth = float | str | frozenset[str]

WITHHELD = "Answer the question first. The results appear with your answer."


@dataclass(frozen=True, kw_only=True)
class ExerciseChoice:
    """Whether a page asks before it shows."""

    predict: bool = fields.Flag(
        label="Quiz mode",
        help="A question first; the headline, pictures and numbers come with your answer. A copied link "
        "opens with the question, and so do the other pages that have one.",
    ).field(False)


_NO_MARKUP = r"[^\x00-\x1f<>\[\]]{1,80}"


@dataclass(frozen=True, kw_only=True)
class AnswerChoice:
    """The question that is asked and the reader's answer to it, as a link has them."""

    question: str = fields.Word(
        pattern=rf"first|(?:half|rise|turns|past|change|best|reach)\.{_NO_MARKUP}",
        in_words="the name of a question, or first",
        label="Question",
    ).field("first")
    answer: str = fields.Word(
        pattern=rf"none|said {_NO_MARKUP}",
        in_words="none, or said and the answer that was given",
        label="Answer",
    ).field("none")


@dataclass(frozen=True, kw_only=True)
class Slider:
    """A slider over `stops`, whose last may be the word `beyond` for "no such number".

    An answer is right within `near`, or within the share `within` of the correct answer.
    """

    stops: tuple[float, ...]
    unit: str
    digits: int = 0
    signed: bool = False
    near: float = 0.0
    within: float = 0.0
    beyond: str | None = None

    @property
    def answers(self) -> dict[str, Answer]:
        """Every answer by its text in a link."""
        stops: tuple[Answer, ...] = (*self.stops, self.beyond) if self.beyond else self.stops
        return {_link_text(stop): stop for stop in stops}

    @property
    def hint(self) -> str:
        """The unit, and how far an answer may be off."""
        unit = self.unit.removesuffix("s") if self.near == 1 else self.unit
        near = f"{self.near:.{self.digits}f} {unit}" if self.near else ""
        share = f"{self.within:.0%}" if self.within else ""
        limits = " or ".join(filter(None, (share, near)))
        return f"in {self.unit}" + (f", right within {limits}" if limits else "")

    def say(self, value: Answer) -> str:
        """Return an answer in words."""
        sign = "+" if self.signed else ""
        return value if isinstance(value, str) else f"{value:{sign},.{self.digits}f}"

    def right(self, answer: Answer, truth: Answer) -> bool:
        """Whether an answer is near enough."""
        if isinstance(answer, str) or isinstance(truth, str):
            return answer == truth
        return abs(answer - truth) <= max(self.near, self.within * abs(truth)) + 1e-9


@dataclass(frozen=True, kw_only=True)
class OneOf:
    """A choice of words; the truth is the set of those that are right."""

    options: tuple[str, ...]

    @property
    def answers(self) -> dict[str, Answer]:
        """Every answer by its text in a link."""
        return {option: option for option in self.options}


@dataclass(frozen=True, kw_only=True)
class Question:
    """One question, and the correct answer by the page's results."""

    key: str
    text: str
    control: Slider | OneOf
    truth: Truth


def judge(question: Question, answer: Answer) -> tuple[bool, str]:
    """Return whether an answer is right, and the sentences that say so."""
    truth, control = question.truth, question.control
    if isinstance(control, OneOf):
        assert isinstance(truth, frozenset)
        right, chosen = answer in truth, str(answer)
        correct = listed([option for option in control.options if option in truth])
    else:
        assert not isinstance(truth, frozenset)
        right, chosen = control.right(answer, truth), control.say(answer)
        correct = control.say(truth) + ("" if isinstance(truth, str) else f" {control.unit}")
    verdict = "Right." if right else "Not quite."
    return right, f"{verdict} Your answer: {chosen}. The correct answer: {correct}."


def ask(
    page: str,
    setting: Hashable,
    make_questions: Callable[[], Sequence[Question]],
    row: DeltaGenerator | None = None,
) -> bool:
    """Draw the quiz where it is switched on; return whether the page may show its results.

    setting: what decides the page's numbers; another asks again. make_questions: called when the quiz is
    on. row: of the switch, by default above the question.
    """
    for field, value in fields.defaults(AnswerChoice).items():
        st.session_state.setdefault(field, value)
    if not sidebar.choices(ExerciseChoice, row).predict:
        return True
    questions = make_questions()
    if not questions:
        st.caption("No question at this setting.")
        return True
    link.read_options(AnswerChoice)
    st.session_state["owners"].append(AnswerChoice)
    with st.container(border=True):
        question = _choose_question(page, {question.key: question for question in questions})
        name = page, question.key, setting
        answers: dict[Hashable, Answer] | None = st.session_state.get("answers")
        if answers is None:  # the link's answer counts once in a session
            answers = st.session_state["answers"] = _answer_of_link(question, name)
        said = f"said {_link_text(answers[name])}" if name in answers else "none"
        for field, text in (("question", question.key), ("answer", said)):
            st.session_state[field] = text
            if st.query_params.get(field) != text:
                st.query_params[field] = text
        if name not in answers:
            answer = _draw_control(page, question)
            st.button(
                "Check answer",
                key=f"look_{page}",
                type="primary",
                disabled=answer is None,
                on_click=set_value,
                args=("answers", answers | {name: answer}),
                icon=":material/visibility:",
            )
            return False
        right, sentences = judge(question, answers[name])
        show, icon = (st.success, "check_circle") if right else (st.info, "straighten")
        show(plain(sentences), icon=f":material/{icon}:")
        without = {other: answer for other, answer in answers.items() if other != name}
        st.button("Try again", key=f"again_{page}", on_click=set_value, args=("answers", without))
    return True


def _choose_question(page: str, by_key: dict[str, Question]) -> Question:
    """Draw the choice of a question: first the page's last one, else the link's."""
    keys, last = [*by_key], f"last_question_{page}"
    asked = st.session_state.get(last, st.query_params.get("question", "first"))
    if last not in st.session_state and asked not in (*keys, "first"):
        st.warning(
            f"The question {plain(asked)} is not asked at this setting; the first question is shown.",
            icon=":material/info:",
        )
    key: str = st.selectbox(
        "Question",
        keys,
        keys.index(asked) if asked in keys else 0,
        format_func=lambda key: by_key[key].text,
        key=f"question_{page}",
    )
    st.session_state[last] = key
    if on_phone():  # where the list cuts it off
        st.markdown(by_key[key].text)
    return by_key[key]


def _answer_of_link(question: Question, name: Hashable) -> dict[Hashable, Answer]:
    """Return the answer that the link gives to this question, by its name; empty without one."""
    text = st.query_params.get("answer", "none").removeprefix("said ")
    if text == "none" or st.query_params.get("question", "first") not in ("first", question.key):
        return {}
    answers = question.control.answers
    if text in answers:
        return {name: answers[text]}
    st.warning(
        f"The answer {plain(text)} does not fit this question; choose another answer.",
        icon=":material/info:",
    )
    return {}


def _link_text(answer: Answer) -> str:
    return answer if isinstance(answer, str) else f"{answer:.10g}"


def _draw_control(page: str, question: Question) -> Answer | None:
    """Draw the control of the answer and return what it holds."""
    control = question.control
    # The key has the options, because a slider with other stops is another slider.
    key = f"answer_{page}_{question.key}_{'_'.join(control.answers)}"
    if isinstance(control, OneOf):
        return st.radio("Your answer", control.options, None, key=key, horizontal=True)
    stops = [*control.answers.values()]
    return st.select_slider(
        f"Your answer {control.hint}",
        stops,
        # Not in the middle, which may be near the correct answer: a reader moves it from zero.
        min((stop for stop in stops if not isinstance(stop, str)), key=abs),
        format_func=control.say,
        key=key,
        help=f"The last stop is \u201c{control.beyond}\u201d." if control.beyond else None,
    )
