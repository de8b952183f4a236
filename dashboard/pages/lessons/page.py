"""Learn in five steps: one picture, one control and one question each; a lecture of ten minutes."""

from collections.abc import Callable

import altair as alt
import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.charts import loss, theme
from dashboard.components.clock import Face
from dashboard.components.clock.component import clock_row
from dashboard.components.matrix import Full, Panel, Scale
from dashboard.controls import sidebar
from dashboard.controls.page_controls import UsedControls
from dashboard.controls.widgets import set_value
from dashboard.frame import page
from dashboard.pages.lessons import data, options
from dashboard.pages.lessons.data import Lesson
from dashboard.settings import Setting
from dashboard.text import number
from posenc import alibi_slopes, analysis, sinusoidal_table
from posenc.lab import summary
from posenc.schemes import rope

# CSS pixels; each fits a lecture's screen.
TABLE_HEIGHT, CHART_HEIGHT = 240, 300
HANDS = (0, 8, 16, 24)  # pairs of the third step's clock
LINKS = {
    "1": ("why_order_matters", "claims"),
    "2": ("encoding", "similarity"),
    "3": ("encoding", "relative_offsets"),
    "4": ("similarity", "at_a_glance"),
    "5": ("extend_context",),
}
ANSWERS = {"5": ("extrapolation",)}  # links to pages that give the answer away


used_controls = UsedControls(schemes=False)


def draw() -> None:
    """Draw the step that is chosen: the way to the others first, so that it never moves."""
    controls = st.container(horizontal=True)
    way = controls.container(horizontal=True, vertical_alignment="bottom", width="content")
    header = st.container()
    step = sidebar.choices(options.LessonChoice, way).step
    for name, go, key, end in (
        ("Back", _go_back, "PageUp", step == "1"),
        ("Next", _go_on, "PageDown", step == "5" and st.session_state.get("answer_of_step_5")),
    ):
        way.button(
            name,
            key=f"{name.lower()}_step",
            on_click=go,
            args=(step,),
            disabled=bool(end),
            shortcut=key,
        )
    lesson, draw_picture = _read(step, controls)
    with header:
        page.head(f"{step}. {lesson.title}", lesson.sentences)
    if step == "3":  # whose picture takes the width of the page
        picture = st.container()
        question, place = st.columns(2, gap="large")
    else:
        picture, question = st.columns([3, 1 if step == "1" else 2], gap="medium")
        place = question
    with picture:
        draw_picture(lesson)
    links = LINKS[step]
    if lesson.question:
        question.markdown(f"**Question.** {lesson.question}")
        answer = place.expander("Answer", key=f"answer_of_step_{step}", on_change="rerun")
        answer.markdown(lesson.answer)
        links += ANSWERS.get(step, ()) if answer.open else ()
    row = place.container(horizontal=True)
    for folder in links:
        page.link(row, folder)
    page.how_to_read(data.GUIDES[step])


def _go_back(step: str) -> None:
    set_value("step", str(int(step) - 1))


def _go_on(step: str) -> None:
    """Open a closed answer; else draw the curves of the last step, or go to the next step."""
    if st.session_state.get(answer := f"answer_of_step_{step}") is False:
        set_value(answer, True)
    elif step == "5":
        set_value("guess", "shown")
    else:
        set_value("step", str(int(step) + 1))


def _read(step: str, place: DeltaGenerator) -> tuple[Lesson, Callable[[Lesson], None]]:
    """Draw the control of a step; return what the step says at its value, and what draws its picture."""
    match step:
        case "1":
            words = tuple(sidebar.choices(options.SentenceChoice, place).words.split())
            most = {"first_word": len(words), "second_word": len(words)}
            swap = sidebar.choices(options.SwapChoice, place, narrowed=most)
            lesson = data.swap(words, swap.first_word - 1, swap.second_word - 1)
            return lesson, _draw_orders
        case "2":
            return data.add(sidebar.choices(options.WaveChoice, place).wave_base), _draw_table
        case "3":
            return data.rotate(
                int(sidebar.choices(options.ShiftChoice, place).moved_by)
            ), _draw_clock
        case "4":
            return data.lower(sidebar.choices(options.SlopeChoice, place).slope_head), _draw_slopes
    return data.evaluate_longer(sidebar.choices(options.GuessChoice, place).guess), _draw_losses


def _draw_orders(lesson: Lesson) -> None:
    page.definition(
        r"f(PX) = P f(X)", "Attention is permutation equivariant.", analysis.read_orders
    )
    if not lesson.arrays:
        return
    words = [(n, word[:10]) for n, word in enumerate(lesson.words)]
    values = {title: Full(array) for title, array in lesson.arrays.items()}
    page.matrices(
        [
            Panel(
                title=title,
                subtitle="words listed in your order",
                values=full,
                row_ticks=words,
                column_ticks=words,
            )
            for title, full in values.items()
        ],
        key="lesson_orders",
        scale=Scale.of_weights(values.values(), "attention weight"),
        row_label="query",
        column_label="key",
        height=150,
        together=2,
        text_alternative="Attention weights in both orders, each word in the same place.",
    )


def _draw_table(lesson: Lesson) -> None:
    page.definition(
        r"x_t + p_t,\quad p_t^{(2k)} = \sin \omega_k t,\ p_t^{(2k+1)} = \cos \omega_k t",
        "The table is added to the token vectors.",
        sinusoidal_table,
    )
    page.matrices(
        [Panel(title="Sinusoidal", values=Full(lesson.arrays["table"]), features=True)],
        key="lesson_table",
        scale=Scale(-1.0, 1.0, "diverging", "entry"),
        row_label="position",
        column_label="dimension",
        height=TABLE_HEIGHT,
        text_alternative="The sinusoidal table: waves that slow down from left to right.",
    )


def _draw_clock(lesson: Lesson) -> None:
    page.definition(
        r"(R_i q)^\top (R_j k) = q^\top R_{j-i} k",
        "After both rotations, the logit depends on positions only through their offset.",
        rope.RotaryScheme.rotate,
    )
    frequencies = lesson.arrays["inv_freq"]
    hands = frequencies[[*HANDS]]
    ahead = ", ".join(f"{number(float(degrees))}°" for degrees in np.rad2deg(data.APART * hands))
    subtitles = {
        "Key": (0, f"pairs {', '.join(map(str, HANDS))} of {len(frequencies)}"),
        "Query": (data.APART, f"{data.APART} positions later, so ahead of the key by {ahead}"),
    }
    clock_row(
        [
            Face(
                title=title,
                subtitle=subtitle,
                color=theme.COLOURS["rope"],
                pairs=HANDS,
                inv_freq=hands,
                offset=offset,
            )
            for title, (offset, subtitle) in subtitles.items()
        ],
        key=f"lesson_clock_{lesson.key}",  # another one starts at another position
        first=lesson.key,
        last=Setting().length - 1 - data.APART,
        trained=Setting().train_length,
        text_alternative=f"Two clocks with a hand for each of {len(HANDS)} pairs of dimensions.",
    )


def _draw_slopes(lesson: Lesson) -> None:
    page.definition(r"q_i^\top k_j / \sqrt{d} - s_h |i - j|", "One slope per head.", alibi_slopes)
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
        .transform_filter("isValid(datum.label_y)")
        .mark_text(align="left", dx=4, fontSize=12)
        .encode(x=distance, y="label_y:Q", text="head:N", color=colour)
    )
    point = (
        alt.Chart()
        .transform_filter(f"datum.chosen && datum.x == {data.FAR}")
        .mark_point(filled=True, size=120, opacity=1)
        .encode(x=distance, y="y:Q", color=colour)
    )
    chart = alt.layer(lines, point, names).properties(height=CHART_HEIGHT)
    page.picture(lesson.frame, theme.spec_of(chart), key="lesson_slopes", title=lesson.title)


def _draw_losses(lesson: Lesson) -> None:
    page.definition(
        r"\text{loss}(n) - \text{loss}(L)",
        "Loss at a context of n tokens minus the loss at the training length L.",
        summary.effect,
    )
    if lesson.frame.empty:
        return
    spec = loss.by_length(lesson.frame, data.MAIN, "context", bands=False, height=CHART_HEIGHT)
    page.picture(lesson.frame, spec, key="lesson_loss", title=lesson.title)
