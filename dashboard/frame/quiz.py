"""Quiz mode: a question on the page's own numbers, answered before the page shows them.

Off unless asked for. A question is a value: its words, its control, and the function that takes the
truth from the page's results. An answer counts for one question at one setting; a new setting asks
anew. The link holds the question and the reader's answer, never the truth.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.controls import link, sidebar
from dashboard.server.incidents import answered
from dashboard.text import listed, plain
from posenc import fields

Results = TypeVar("Results")
Answer = float | str
Truth = float | str | frozenset[str]

WITHHELD = "Answer the question first. The results appear with your answer."


@dataclass(frozen=True, kw_only=True)
class ExerciseChoice:
    """Whether a page asks before it shows."""

    predict: bool = fields.Flag(
        label="Quiz mode",
        help="A question first; the headline, pictures and numbers come with your answer.",
    ).field(False)


# Text of the page's own questions and answers: shown as it is, so nothing that could be markup.
_TOLD = r"[^\x00-\x1f<>\[\]]{1,80}"


@dataclass(frozen=True, kw_only=True)
class PredictionChoice:
    """The question that is asked and the answer that was given to it; no truth is in a link."""

    question: str = fields.Word(
        pattern=rf"first|(?:half|rise|turns|past|change|best|reach)\.{_TOLD}",
        in_words="the name of a question, or first",
        label="Question",
    ).field("first")
    answer: str = fields.Word(
        pattern=rf"none|said {_TOLD}",
        in_words="none, or said and the answer that was given",
        label="Answer",
    ).field("none")


@dataclass(frozen=True, kw_only=True)
class Slider:
    """A slider over `stops`, whose last may be the word `beyond` for "no such number".

    An answer is right within `near`, or within the share `within` of the truth.
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
        return {_in_link(stop): stop for stop in stops}

    @property
    def hint(self) -> str:
        """The unit, and how far an answer may be off."""
        near = f"{self.near:.{self.digits}f} {self.unit}" if self.near else ""
        share = f"{self.within:.0%}" if self.within else ""
        limits = " or ".join(filter(None, (share, near)))
        return f"In {self.unit}." + (f" An answer within {limits} is right." if limits else "")

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
class Question(Generic[Results]):
    """One question: `truth` takes the right answer from the page's results."""

    key: str
    text: str
    control: Slider | OneOf
    truth: Callable[[Results], Truth]


def judge(question: Question[Results], answer: Answer, results: Results) -> tuple[bool, str]:
    """Return whether an answer is right by the page's results, and the sentences that say what is."""
    truth, control = question.truth(results), question.control
    if isinstance(control, OneOf):
        assert isinstance(truth, frozenset)
        right, own = answer in truth, str(answer)
        correct = listed([option for option in control.options if option in truth])
    else:
        assert not isinstance(truth, frozenset)
        right, own = control.right(answer, truth), control.say(answer)
        correct = control.say(truth) + ("" if isinstance(truth, str) else f" {control.unit}")
    text = "Right." if right else "Not quite."
    return right, f"{text} Your answer: {own}. The correct answer: {correct}."


def ask(
    page: str,
    setting: Hashable,
    questions: Sequence[Question[Results]],
    results: Results,
    row: DeltaGenerator | None = None,
) -> bool:
    """Draw the quiz where it is wanted; return whether the page may show its results.

    setting: everything that decides the page's numbers; another one asks again. row: where the switch
    stands, by default above the question.
    """
    default = fields.defaults(PredictionChoice)
    for field, value in default.items():
        st.session_state.setdefault(field, value)
    if not sidebar.choices(ExerciseChoice, row).predict:
        return True
    if not questions:
        st.caption("No question at this setting.")
        return True
    answers: dict[Hashable, Answer] = st.session_state.setdefault("predictions", {})
    link.read_options(PredictionChoice)
    with st.container(border=True):
        by_key = {question.key: question for question in questions}
        _read_question(page, by_key)
        key = st.selectbox(
            "Question", [*by_key], format_func=lambda key: by_key[key].text, key=f"question_{page}"
        )
        question, name = by_key[key], (page, key, setting)
        _read_answer(question, name, answers)
        _write("question", key)
        _write(
            "answer", f"said {_in_link(answers[name])}" if name in answers else default["answer"]
        )
        st.session_state["owners"].append(PredictionChoice)
        if name not in answers:
            _control(page, question, name)
            return False
        right, text = judge(question, answers[name], results)
        show, icon = (st.success, "check_circle") if right else (st.info, "straighten")
        show(plain(text), icon=f":material/{icon}:")
        st.button("Try again", key=f"again_{page}", on_click=_forget, args=(name,))
    return True


def _read_question(page: str, by_key: dict[str, Question[Results]]) -> None:
    """Ask what this page asked last, or what the link asks; a widget forgets it with its page."""
    last = st.session_state.get(f"question_{page}", st.session_state.get(f"last_question_{page}"))
    asked = last if last is not None else st.query_params.get("question", "first")
    if asked in by_key:
        st.session_state[f"question_{page}"] = asked
    elif last is None and asked != "first":
        st.warning(
            f"The question {plain(asked)} is not asked at this setting; the first question is shown.",
            icon=":material/info:",
        )
    st.session_state[f"last_question_{page}"] = asked


def _read_answer(
    question: Question[Results], name: Hashable, answers: dict[Hashable, Answer]
) -> None:
    """Take the answer that the link gives to its own question, once per session."""
    if "answer_read" in st.session_state:
        return
    st.session_state["answer_read"] = True
    text = st.query_params.get("answer", "none").removeprefix("said ")
    if text == "none" or st.query_params.get("question", "first") not in ("first", question.key):
        return
    known = question.control.answers
    if text in known:
        answers[name] = known[text]
    else:
        st.warning(
            f"The answer {plain(text)} does not fit this question; choose another answer.",
            icon=":material/info:",
        )


def _write(name: str, text: str) -> None:
    """Put a choice that no widget holds into the session and the address."""
    st.session_state[name] = text
    if st.query_params.get(name) != text:
        st.query_params[name] = text


def _in_link(answer: Answer) -> str:
    return answer if isinstance(answer, str) else f"{answer:.10g}"


def _control(page: str, question: Question[Results], name: Hashable) -> None:
    """Draw the control of the answer, and the button that checks it."""
    control = question.control
    answer: Answer | None
    # Named by its stops too: a slider with others is another slider.
    if isinstance(control, OneOf):
        key = f"answer_{page}_{question.key}_{'_'.join(control.options)}"
        answer = st.radio("Your answer", control.options, None, key=key, horizontal=True)
    else:
        stops = [*control.answers.values()]
        answer = st.select_slider(
            f"Your answer. {control.hint}",
            stops,
            # No stop in the middle, which might be near the truth: a reader moves it from zero.
            min((stop for stop in stops if not isinstance(stop, str)), key=abs),
            format_func=control.say,
            key=f"answer_{page}_{question.key}_{len(stops)}",
            help=f"The last stop is \u201c{control.beyond}\u201d." if control.beyond else None,
        )
    st.button(
        "Check answer",
        key=f"look_{page}",
        type="primary",
        disabled=answer is None,
        on_click=_remember,
        args=(name, answer),
        icon=":material/visibility:",
    )


@answered
def _remember(name: Hashable, answer: Answer) -> None:
    st.session_state["predictions"][name] = answer


@answered
def _forget(name: Hashable) -> None:
    st.session_state["predictions"].pop(name, None)
