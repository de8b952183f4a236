"""Learn in five steps: one picture, one control and one question each; a lecture of ten minutes."""

import math
from collections.abc import Callable
from typing import Any

import altair as alt
import numpy as np
import streamlit as st

from dashboard.charts import loss, theme
from dashboard.components.clock import Face, clock_row
from dashboard.components.matrix import Full, Panel, Scale
from dashboard.controls import sidebar
from dashboard.frame import page
from dashboard.pages.lessons import data, options
from dashboard.server.incidents import show_callback_errors
from posenc import alibi_slopes, analysis, sinusoidal_table
from posenc.lab import summary
from posenc.schemes import rope
from posenc.settings import Setting

TABLE_HEIGHT, PRESENTED_TABLE, CHART_HEIGHT = (
    280,
    210,
    300,
)  # CSS pixels; each fits a lecture's screen
WIDE = (1, 3)  # steps whose picture takes the width of the page
HANDS = (0, 8, 16, 24)  # pairs of the third step's clock
# The control of a step, and its field; the first step has three, the third step's clock its own slider.
CONTROLS: dict[str, tuple[type, str]] = {
    "2": (options.WaveChoice, "wave_base"),
    "4": (options.SlopeChoice, "slope_head"),
    "5": (options.GuessChoice, "guess"),
}
LINKS = {
    "1": ("why_order_matters", "claims"),
    "2": ("encoding", "similarity"),
    "3": ("encoding", "relative_offsets"),
    "4": ("similarity", "at_a_glance"),
    "5": ("extrapolation", "extend_context"),
}
DEFINITIONS: dict[str, tuple[str, str, Callable[..., Any]]] = {
    "1": (r"f(PX) = P f(X)", "Attention is permutation equivariant.", analysis.read_orders),
    "2": (
        r"x_t + p_t,\quad p_t^{(2k)} = \sin \omega_k t,\ p_t^{(2k+1)} = \cos \omega_k t",
        "The table is added to the token vectors.",
        sinusoidal_table,
    ),
    "3": (
        r"(R_i q)^\top (R_j k) = q^\top R_{j-i} k",
        "After both rotations, the logit depends on positions only through their offset.",
        rope.RotaryScheme.rotate,
    ),
    "4": (r"q_i^\top k_j / \sqrt{d} - s_h |i - j|", "One slope per head.", alibi_slopes),
    "5": (
        r"\text{loss}(n) - \text{loss}(L)",
        "Loss at a context of n tokens minus the loss at the training length L.",
        summary.effect,
    ),
}


def draw() -> None:
    """Draw the step that is chosen: the way to the others first, so that it never moves."""
    controls = st.container(horizontal=True)
    way = controls.container(horizontal=True, vertical_alignment="bottom", width="content")
    header = st.container()
    step = int(sidebar.choices(options.LessonChoice, way).step)
    phone = page.on_phone()
    for name, to, key, hint in (
        ("Back", step - 1, "PageUp", None),
        ("Next", step + 1, "PageDown", "The key Page Down opens the answer first."),
    ):
        way.button(
            name, key=f"{name.lower()}_step", on_click=_go_to, args=(str(to),),
            disabled=not 1 <= to <= len(PICTURES),
            shortcut=None if phone else key, help=None if phone else hint,
        )  # fmt: skip
    lesson = data.read(str(step), _chosen(str(step), controls))
    with header:
        page.head(f"{step}. {lesson.title}", lesson.sentences)
    if step in WIDE:
        picture = st.container()
        question, answer = st.columns(2, gap="large")
    else:
        picture, question = st.columns([3, 2], gap="large")
        answer = question
    with picture:
        PICTURES[str(step)](lesson)
    if lesson.question:
        question.markdown(f"**Question.** {lesson.question}")
        with answer.expander("Answer", key=f"answer_of_step_{step}"):
            st.markdown(lesson.answer)
    row = answer.container(horizontal=True)
    for folder in LINKS[str(step)]:
        page.link(row, folder)
    page.how_to_read(data.GUIDES[str(step)])
    page.definition(*DEFINITIONS[str(step)])


def _chosen(step: str, place: Any) -> Any:
    """Draw the control of a step and return what it says; of the first step the words and two places."""
    if step == "1":
        words = tuple(sidebar.choices(options.SentenceChoice, place).words.split())
        most = {"first_word": len(words), "second_word": len(words)}
        swap = sidebar.choices(options.SwapChoice, place, narrowed=most)
        return words, swap.first_word - 1, swap.second_word - 1
    if step not in CONTROLS:
        return None
    owner, name = CONTROLS[step]
    return getattr(sidebar.choices(owner, place), name)


@show_callback_errors
def _go_to(step: str) -> None:
    st.session_state["step"] = step


def _orders(lesson: data.Lesson) -> None:
    if not lesson.arrays:
        return
    words = [(n, word[:10]) for n, word in enumerate(lesson.words)]
    page.matrices(
        [
            Panel(
                title=title,
                subtitle="words listed in your order",
                values=Full(values),
                row_ticks=words,
                column_ticks=words,
            )
            for title, values in lesson.arrays.items()
        ],
        key="lesson_orders",
        scale=Scale.of_weights(map(Full, lesson.arrays.values()), "attention weight"),
        row_label="query",
        column_label="key",
        height=150,
        together=2,
        text_alternative="Attention weights in both orders, each word in the same place.",
    )


def _table(lesson: data.Lesson) -> None:
    page.matrices(
        [Panel(title="Sinusoidal", values=Full(lesson.arrays["table"]), features=True)],
        key="lesson_table",
        scale=Scale(-1.0, 1.0, "diverging", "entry"),
        row_label="position",
        column_label="dimension",
        height=PRESENTED_TABLE if page.presenting() else TABLE_HEIGHT,
        text_alternative="The sinusoidal table: waves that slow down from left to right.",
    )


def _clock(lesson: data.Lesson) -> None:
    setting = Setting()
    frequencies = lesson.arrays["inv_freq"][[*HANDS]]
    wavelengths = 2 * math.pi / frequencies
    apart = data.QUERY - data.KEY
    ahead = ", ".join(f"{degrees:.3g}°" for degrees in np.rad2deg(apart * frequencies))
    faces = [
        Face(
            title=title,
            subtitle=subtitle,
            color=theme.COLOURS["rope"],
            pairs=HANDS,
            inv_freq=frequencies,
            wavelengths=wavelengths,
            turns=setting.train_length / wavelengths,
            offset=offset,
        )
        for title, subtitle, offset in (
            ("Key", f"pairs {', '.join(map(str, HANDS))} of {len(lesson.arrays['inv_freq'])}", 0),
            ("Query", f"{apart} positions later, so ahead of the key by {ahead}", apart),
        )
    ]
    clock_row(
        faces,
        key="lesson_clock",
        first=data.KEY,
        last=setting.length - 1 - apart,
        trained=setting.train_length,
        text_alternative=f"Two clocks with a hand for each of {len(HANDS)} pairs of dimensions.",
    )


def _slopes(lesson: data.Lesson) -> None:
    scale = alt.Scale(domain=[0, 128], nice=False)
    distance = alt.X("x:Q", title="query-key distance (tokens)", scale=scale)
    colour = alt.condition("datum.chosen", alt.value(theme.COLOURS["alibi"]), alt.value("#80868f"))
    lines = (
        alt.Chart()
        .transform_filter(f"datum.y >= {data.LOWEST}")  # clipping would draw them over the axis
        .mark_line()
        .encode(
            x=distance,
            y=alt.Y("y:Q", title="added to the logit", scale=alt.Scale(domain=[data.LOWEST, 0])),
            detail="head:N",
            color=colour,
            size=alt.condition("datum.chosen", alt.value(4), alt.value(1)),
            tooltip=["head:N", "x:Q", alt.Tooltip("y:Q", format=".3g")],
        )
    )
    names = (
        alt.Chart()
        .transform_filter("datum.last && datum.head != 7")  # no room between 6 and 8
        .mark_text(align="left", dx=4, fontSize=12)
        .encode(x=distance, y="y:Q", text="head:N", color=colour)
    )
    point = (
        alt.Chart()
        .transform_filter(f"datum.chosen && datum.x == {data.FAR}")
        .mark_point(filled=True, size=120, opacity=1)
        .encode(x=distance, y="y:Q", color=colour)
    )
    chart = alt.layer(lines, point, names).properties(height=CHART_HEIGHT)
    page.picture(lesson.frame, theme.spec_of(chart), key="lesson_slopes", title=lesson.title)


def _measured(lesson: data.Lesson) -> None:
    if lesson.frame.empty:
        return
    answered = bool(lesson.question)
    spec = loss.by_length(
        lesson.frame, data.MAIN, "context", bands=False, labels=answered, height=CHART_HEIGHT
    )
    page.picture(lesson.frame, spec, key=f"lesson_loss_{answered}", title=lesson.title)


PICTURES: dict[str, Callable[[data.Lesson], None]] = {
    "1": _orders,
    "2": _table,
    "3": _clock,
    "4": _slopes,
    "5": _measured,
}
