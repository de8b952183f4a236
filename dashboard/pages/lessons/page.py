"""Learn in five steps: one picture, one control and one question each; a lecture of ten minutes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import altair as alt
import numpy as np

from dashboard import run_descriptions, runs
from dashboard.blocks import (
    Block,
    Button,
    Changes,
    Chart,
    Clocks,
    Columns,
    Controls,
    Definition,
    Drawer,
    Link,
    Matrices,
    Page,
    Row,
    Text,
    Uses,
)  # fmt: skip
from dashboard.cache import cached
from dashboard.charts import loss, theme
from dashboard.components.clock import Face
from dashboard.components.matrix import Full, Panel, Scale
from dashboard.pages.lessons import data
from dashboard.pages.lessons.data import Lesson
from dashboard.sentence_rule import Sentence
from dashboard.settings import Setting
from dashboard.settings.labelled import LabelledChoice
from dashboard.text import number, word_labels
from posenc import alibi_slopes, analysis, fields, sinusoidal_table
from posenc.lab import summary
from posenc.schemes import rope

USES = Uses(schemes=False)
TABLE_HEIGHT, CHART_HEIGHT = 240, 300  # CSS pixels; each fits a lecture's screen
HANDS = (0, 8, 16, 24)  # pairs of the third step's clock
STEPS = ("1", "2", "3", "4", "5")
LINKS = {
    "1": ("why_order_matters", "claims"),
    "2": ("encoding", "similarity"),
    "3": ("encoding", "relative_offsets"),
    "4": ("similarity", "at_a_glance"),
    "5": ("extend_context",),
}
ANSWERS = {"5": ("extrapolation",)}  # links to pages that give the answer away


@dataclass(frozen=True, kw_only=True)
class Options:
    """The step, the step whose answer is open, and the control of each step.

    first_word, second_word: the words that change places, counted from 1; at first the ends. PARTS: of the
    page, one after the other where it is written as files.
    """

    PARTS: ClassVar[Mapping[str, Changes]] = {
        **{f"Step {step}": {"step": step} for step in "1234"},
        "Step 5": {"step": "5", "guess": "shown"},  # nobody can guess in a file
    }

    step: str = fields.Choice(options=STEPS, label="Step").field("1")
    open_answer: str = fields.Choice(options=("none", *STEPS), label="Open answer").field("none")
    words: str = Sentence(
        least=2, most=12, longest=120, label="Your sentence", help="2 to 12 words."
    ).field("dog bites man")
    first_word: int = fields.IntRange(low=1, high=12, label="Swap word").field(1)
    second_word: int = fields.IntRange(low=1, high=12, label="with word").field(12)
    wave_base: str = LabelledChoice(
        options=("100", "10000", "500000"),
        labels={"10000": "10,000", "500000": "500,000"},
        label="Base",
        help="A larger base: slower waves.",
    ).field("10000")
    moved_by: str = fields.Choice(
        options=("0", "1", "10", "100"), label="Move both by (positions)"
    ).field("0")
    slope_head: int = fields.IntRange(
        low=1, high=8, label="Head", help="Each head has its own slope."
    ).field(1)
    guess: str = LabelledChoice(
        options=("not yet", "Learned", "Sinusoidal", "RoPE", "ALiBi", "shown"),
        labels={"shown": "show the curves"},
        label="Your guess",
    ).field("not yet")


@cached
def page(setting: Setting, options: Options) -> Page:
    """Return the step that is chosen: the way to the others first, so that it never moves."""
    step, number = options.step, int(options.step)
    lesson, controls, picture, definition = _step(options)
    answered = options.open_answer == step
    closed = {"open_answer": "none"}
    back = closed | {"step": str(max(number - 1, 1))}
    # One key goes through all steps: to the answer, where there is one, then to the next step.
    onward, does = closed | {"step": str(min(number + 1, 5))}, "Next"
    if lesson.question and not answered:
        onward, does = {"open_answer": step}, "Answer"
    elif step == "5" and not answered:
        onward, does = {"guess": "shown"}, "Curves"
    way = (
        Controls(("step",)),
        Button("back_step", "Back", back, shortcut="PageUp", disabled=step == "1"),
        Button("next_step", does, onward, shortcut="PageDown", disabled=step == "5" and answered),
    )
    question: list[Block] = []
    place: list[Block] = []
    links = LINKS[step]
    if lesson.question:
        question = [Text(f"**Question.** {lesson.question}")]
        place = [
            Drawer(
                f"answer_of_step_{step}",
                "Answer",
                lambda: [Text(lesson.answer)],
                changes=({"open_answer": step}, closed),
                opened=answered,
            )
        ]
        links += ANSWERS.get(step, ()) if answered else ()
    place.append(Row([Link(name) for name in links]))
    body: list[Block] = [Columns((picture, (*question, *place)), (3, 1 if step == "1" else 2))]
    if step == "3":  # whose picture takes the width of the page
        body = [*picture, Columns((question, place))]
    return Page(
        title=f"{step}. {lesson.title}",
        headline=lesson.sentences,
        above=(Row((Row(way, narrow=True, align="bottom"), controls), align="top"),),
        blocks=body,
        guide=data.GUIDES[step],
        definition=definition,
    )


def _step(options: Options) -> tuple[Lesson, Controls, list[Block], Definition]:
    """Return what a step says at the value of its control, the control, its picture and definition."""
    match options.step:
        case "1":
            words = tuple(options.words.split())
            most = len(words)
            swapped = (min(options.first_word, most) - 1, min(options.second_word, most) - 1)
            lesson = data.swap(words, *swapped)
            controls = Controls(
                ("words", "first_word", "second_word"), {"first_word": most, "second_word": most}
            )
            return lesson, controls, _orders(lesson), Definition(
                r"f(PX) = P f(X)",
                "Attention is permutation equivariant. A typical output value is their root mean square.",
                (analysis.read_orders,),
            )  # fmt: skip
        case "2":
            lesson = data.add(options.wave_base)
            return lesson, Controls(("wave_base",)), _table(lesson), Definition(
                r"x_t + p_t,\quad p_t^{(2k)} = \sin \omega_k t,\ p_t^{(2k+1)} = \cos \omega_k t,"
                r"\quad \omega_k = b^{-2k/d}",
                "The table is added to the token vectors. Base b sets how fast its d dimensions slow down.",
                (sinusoidal_table,),
            )  # fmt: skip
        case "3":
            lesson = data.rotate(int(options.moved_by))
            return lesson, Controls(("moved_by",)), _clock(lesson), Definition(
                r"(R_i q)^\top (R_j k) = q^\top R_{j-i} k",
                "After both rotations, the logit depends on positions only through their offset.",
                (rope.RotaryScheme.rotate,),
            )  # fmt: skip
        case "4":
            lesson = data.lower(options.slope_head)
            return lesson, Controls(("slope_head",)), _slopes(lesson), Definition(
                r"q_i^\top k_j / \sqrt{d} - s_h |i - j|", "One slope per head.", (alibi_slopes,)
            )  # fmt: skip
    lesson = data.evaluate_longer(options.guess)
    return lesson, Controls(("guess",)), _losses(lesson), Definition(
        r"\text{loss}(n) - \text{loss}(L)",
        "Loss at a context of n tokens minus the loss at the training length L.",
        (summary.effect,),
    )  # fmt: skip


def _orders(lesson: Lesson) -> list[Block]:
    if not lesson.arrays:
        return []
    words = [*enumerate(word_labels(lesson.words))]
    values = {title: Full(array) for title, array in lesson.arrays.items()}
    panels = [
        Panel(title=title, subtitle="words listed in your order", values=full, row_ticks=words,
              column_ticks=words)
        for title, full in values.items()
    ]  # fmt: skip
    scale = Scale.of_weights(values.values(), "attention weight")
    return [
        Matrices(
            key="lesson_orders", panels=panels, scale=scale, unit="weights", row_label="query",
            column_label="key", height=150, together=2,
            text="Attention weights in both orders, each word in the same place.",
        )
    ]  # fmt: skip


def _table(lesson: Lesson) -> list[Block]:
    return [
        Matrices(
            key="lesson_table",
            panels=[Panel(title="Sinusoidal", values=Full(lesson.arrays["table"]), features=True)],
            scale=Scale(-1.0, 1.0, "diverging", "entry"), unit="entries", row_label="position",
            column_label="dimension", height=TABLE_HEIGHT,
            text="The sinusoidal table: waves that slow down from left to right.",
        )
    ]  # fmt: skip


def _clock(lesson: Lesson) -> list[Block]:
    frequencies = lesson.arrays["inv_freq"]
    hands = frequencies[[*HANDS]]
    ahead = ", ".join(f"{number(float(degrees))}°" for degrees in np.rad2deg(data.APART * hands))
    subtitles = {
        "Key": (0, f"pairs {', '.join(map(str, HANDS))} of {len(frequencies)}"),
        "Query": (data.APART, f"{data.APART} positions later, so ahead of the key by {ahead}"),
    }
    faces = [
        Face(title=title, subtitle=subtitle, color=theme.COLOURS["rope"], pairs=HANDS, inv_freq=hands,
             offset=offset)
        for title, (offset, subtitle) in subtitles.items()
    ]  # fmt: skip
    return [
        Clocks(
            key=f"lesson_clock_{lesson.key}",  # another one starts at another position
            faces=faces, first=lesson.key, last=Setting().length - 1 - data.APART,
            trained=Setting().train_length,
            text=f"Two clocks with a hand for each of {len(HANDS)} pairs of dimensions.",
        )
    ]  # fmt: skip


def _slopes(lesson: Lesson) -> list[Block]:
    return [
        Chart(
            key="lesson_slopes", title=lesson.title, frame=lesson.frame, names=(), draw=slopes,
            columns={"x": "distance", "y": "bias", "chosen": "", "label_y": ""},
            sizes=f"{Setting().heads} heads",
        )
    ]  # fmt: skip


def slopes(_: tuple[str, ...]) -> theme.Spec:
    """Return the chart of what ALiBi adds at each distance, a line per head, the chosen one in colour."""
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
        .mark_text(
            align="left", dx=4, fontSize=12, color=theme.text_colour("alibi", "datum.chosen")
        )
        .encode(x=distance, y="label_y:Q", text="head:N")
    )
    point = (
        alt.Chart()
        .transform_filter(f"datum.chosen && datum.x == {data.FAR}")
        .mark_point(filled=True, size=120, opacity=1)
        .encode(x=distance, y="y:Q", color=colour)
    )
    return theme.spec_of(alt.layer(lines, point, names).properties(height=CHART_HEIGHT))


def _losses(lesson: Lesson) -> list[Block]:
    if lesson.frame.empty:
        return []
    frame = lesson.frame

    def draw(kinds: tuple[str, ...]) -> theme.Spec:
        return loss.by_length(frame, kinds, "context", bands=False, height=CHART_HEIGHT)

    return [
        Chart(
            key="lesson_loss",
            title=lesson.title,
            frame=frame,
            names=data.MAIN,
            draw=draw,
            x="",
            columns=loss.COLUMNS,
            sizes=run_descriptions.sizes(runs.shipped_loss(data.MAIN)),
        )
    ]
