"""Quiz mode: a question on the page's own numbers, answered before the page shows them.

Off unless asked for. A question is a value: its words, its control, and the function that takes the
truth from the page's results. An answer counts for one question at one setting; a new setting asks
anew. The link holds the question and, once it is given, the reader's answer, never the truth.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import streamlit as st

from dashboard.controls import link, page_options, sidebar
from dashboard.server.incidents import answered
from dashboard.text import listed, plain
from posenc import fields

Found = TypeVar("Found")
Answer = float | str
Truth = float | str | frozenset[str]

WITHHELD = "Answer the question first. The results appear with your answer."
KEPT = 64  # answers that a session remembers


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
        ends: list[Answer] = [self.beyond] if self.beyond else []
        return {_written(one): one for one in (*self.stops, *ends)}

    def say(self, value: Answer) -> str:
        """Return an answer in words."""
        if isinstance(value, str):
            return value
        sign = "+" if self.signed else ""
        return f"{value:{sign},.{self.digits}f}"

    def right(self, answer: Answer, truth: Answer) -> bool:
        """Whether an answer is near enough."""
        if isinstance(answer, str) or isinstance(truth, str):
            return answer == truth
        return abs(answer - truth) <= max(self.near, self.within * abs(truth)) + 1e-9

    def off(self, answer: Answer, truth: Answer) -> str:
        """Say how far off an answer is, "" where that is no number."""
        if answer == truth:
            return "exactly"
        if isinstance(answer, str) or isinstance(truth, str) or not math.isfinite(truth):
            return ""
        gap = f"{abs(answer - truth):,.{self.digits}f}"
        if not gap.strip("0.,"):
            return f"less than {10.0**-self.digits:g} {self.unit} off"
        return f"{gap} {self.unit} too {'high' if answer > truth else 'low'}"


@dataclass(frozen=True, kw_only=True)
class OneOf:
    """A choice of words; the truth is the set of those that are right."""

    options: tuple[str, ...]

    @property
    def answers(self) -> dict[str, Answer]:
        """Every answer by its text in a link."""
        return {one: one for one in self.options}


@dataclass(frozen=True, kw_only=True)
class Question(Generic[Found]):
    """One question: `truth` takes the right answer from the page's results."""

    key: str
    text: str
    control: Slider | OneOf
    truth: Callable[[Found], Truth]


@dataclass(frozen=True)
class Judgement:
    """Whether an answer is right, and the sentence that says how far off it is."""

    right: bool
    text: str


def judge(question: Question[Found], answer: Answer, found: Found) -> Judgement:
    """Hold an answer against the page's results."""
    truth = question.truth(found)
    control = question.control
    if isinstance(control, OneOf):
        assert isinstance(truth, frozenset)
        right = answer in truth
        named = listed(tuple(option for option in control.options if option in truth))
        said = "" if right else f"You said: {answer}. "
        return Judgement(right, f"{said}The answer: {named}.")
    assert not isinstance(truth, frozenset)
    off = control.off(answer, truth)
    ending = f": {off}" if off else ""
    text = f"You said {control.say(answer)}; it is {control.say(truth)}{ending}."
    return Judgement(control.right(answer, truth), text)


def ask(page: str, setting: Hashable, questions: Sequence[Question[Found]], found: Found) -> bool:
    """Draw the exercise where it is wanted; return whether the page may show what it found.

    setting: everything that decides the page's numbers; another one asks again.
    """
    default = fields.defaults(page_options.PredictionChoice)
    for field, value in default.items():
        st.session_state.setdefault(field, value)
    if not sidebar.choices(page_options.ExerciseChoice).predict:
        return True
    if not questions:
        st.caption("No question at this setting.")
        return True
    answers: dict[Hashable, Answer] = st.session_state.setdefault("predictions", {})
    link.read_options(page_options.PredictionChoice)
    with st.container(border=True):
        texts = {question.key: question.text for question in questions}
        _take_up_question(page, [*texts])
        key = st.selectbox(
            "Question", list(texts), format_func=texts.__getitem__, key=f"question_{page}"
        )
        question = next(one for one in questions if one.key == key)
        name = (page, key, setting)
        _take_up_answer(question, name, answers)
        _hold("question", key)
        _hold("answer", f"said {_written(answers[name])}" if name in answers else default["answer"])
        st.session_state["owners"].append(page_options.PredictionChoice)
        if name not in answers:
            _control(page, question, name)
            return False
        verdict = judge(question, answers[name], found)
        show = st.success if verdict.right else st.info
        icon = ":material/check_circle:" if verdict.right else ":material/straighten:"
        show(("Right. " if verdict.right else "Not quite. ") + plain(verdict.text), icon=icon)
        st.button("Try again", key=f"again_{page}", on_click=_forget, args=(name,))
    return True


def _take_up_question(page: str, keys: list[str]) -> None:
    """Ask what this page asked last, or what the link asks; a widget forgets it with its page."""
    kept = st.session_state.get(f"question_{page}", st.session_state.get(f"kept_question_{page}"))
    asked = kept if kept is not None else st.query_params.get("question", "first")
    if asked in keys:
        st.session_state[f"question_{page}"] = asked
    elif kept is None and asked != "first":
        st.warning(
            f"The question {plain(asked)} is not asked at this setting; the first one is.",
            icon=":material/info:",
        )
    st.session_state[f"kept_question_{page}"] = asked


def _take_up_answer(
    question: Question[Found], name: Hashable, answers: dict[Hashable, Answer]
) -> None:
    """Take the answer that the link gives to its own question, once per session."""
    if "answer_read" in st.session_state:
        return
    st.session_state["answer_read"] = True
    said = st.query_params.get("answer", "none").removeprefix("said ")
    if said == "none" or st.query_params.get("question", "first") not in ("first", question.key):
        return
    known = question.control.answers
    if said in known:
        answers[name] = known[said]
    else:
        st.warning(
            f"The answer {plain(said)} does not fit this question; give another one.",
            icon=":material/info:",
        )


def _hold(name: str, text: str) -> None:
    """Keep a choice that no widget holds in the session and in the address."""
    st.session_state[name] = text
    if st.query_params.get(name) != text:
        st.query_params[name] = text


def _written(answer: Answer) -> str:
    """Return an answer as a link has it."""
    return answer if isinstance(answer, str) else f"{answer:.10g}"


def _control(page: str, question: Question[Found], name: Hashable) -> None:
    """Draw what the answer is given with, and the button that shows the truth."""
    control = question.control
    answer: Answer | None
    # Named by its stops too: a slider with others is another slider.
    if isinstance(control, OneOf):
        key = f"answer_{page}_{question.key}_{'_'.join(control.options)}"
        answer = st.radio(question.text, control.options, None, key=key, horizontal=True)
    else:
        stops = [*control.answers.values()]
        answer = st.select_slider(
            f"{question.text} In {control.unit}.",
            stops,
            stops[len(stops) // 2],
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
    answers = st.session_state["predictions"]
    answers[name] = answer
    while len(answers) > KEPT:
        del answers[next(iter(answers))]


@answered
def _forget(name: Hashable) -> None:
    st.session_state["predictions"].pop(name, None)
