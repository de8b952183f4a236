"""Check my encoding: what a table is, what a mixed-up layout does, how well positions are decoded."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from dashboard.blocks import (
    Block,
    Button,
    Chart,
    Code,
    Columns,
    Controls,
    Data,
    Definition,
    Findings,
    Live,
    Matrices,
    Metric,
    Page,
    Text,
    Uses,
)
from dashboard.components.matrix import Panel, Scale
from dashboard.pages.check_my_encoding import (
    charts,
    decoding,
    identified,
    layouts,
    logits,
    script,
)
from dashboard.pages.check_my_encoding.corrected_code import (
    RightTable,
    code,
    intended_table,
    right_table,
)
from dashboard.pages.check_my_encoding.examples import EXAMPLES
from dashboard.pages.check_my_encoding.identified import Answer
from dashboard.pages.check_my_encoding.options import DECODING, LAYOUTS, LOGITS, TABLE
from dashboard.pages.check_my_encoding.options import Options as Options
from dashboard.settings import Setting
from dashboard.text import listed, number, plain
from posenc.analysis import inspect_layouts, probe
from posenc.errors import PosencError
from posenc.identification import Identification, ModelMatch, identify
from posenc.identification.sentences import deviation_sentences, match_sentences
from posenc.identification.table_words import alternative_words

TITLE = "Check my encoding"
PURPOSES = {
    TABLE: "Upload a position table, or a cache of cosines and sines. You learn its formula, how wrong it "
    "is and why. Where the cause is known, you get the corrected code.",
    LAYOUTS: "RoPE pairs the features of a head in halves or as neighbours. See what a mix-up does to the "
    "scores, or upload queries and keys to learn which layout your code has.",
    LOGITS: logits.PURPOSE,
    DECODING: "See how well a linear map reads the position from each row of a table.",
}
GUIDES = {
    TABLE: "Every column of a table is a wave. The frequencies of the waves, the order of the columns and "
    "the first position name the scheme. The chart shows the largest difference of each column from "
    "the formula with exact angles. For your own test suite: "
    "`posenc.testing.assert_matches(table, scheme)`, or with the path of a config.json.",
    LAYOUTS: "The same random queries and keys are rotated in both layouts. A consistent mix-up passes "
    "tests of norms and offsets; only the scores show it.",
    LOGITS: logits.GUIDE,
    DECODING: "A linear map is fitted to decode the position of each vector. An index error (MAE) below "
    "that of guessing means that the vector holds its position. The control is random numbers of the same "
    "shape.",
}
# Of the pictures of a table: key, name of the values, and what a reader hears.
PICTURES = (
    ("check_tables", "number in the table", "The numbers of the table, rows by columns."),
    ("check_difference", "difference", "By how much each number of the table is too large."),
)
DEFINITIONS = {
    TABLE: Definition(
        r"x_c(p) = s \cdot \{\sin, \cos\}(\lambda\, b^{-e_c} (p + p_0))",
        "Column c has exponent e. The table has base b, scale, size s and a first position. The order of "
        "the columns is one of those in public code.",
        (identify,),
    ),
    LAYOUTS: Definition(
        r"q' = q_{\pi},\; k' = k_{\pi} \;\Rightarrow\; \langle R^{half} q', R^{half} k' \rangle = "
        r"\langle R^{pairs} q, R^{pairs} k \rangle",
        "Su et al. 2021, arXiv 2104.09864, pairs neighbours; GPT-NeoX pairs halves. The permutation "
        "between them keeps every score.",
        (inspect_layouts,),
    ),
    LOGITS: logits.DEFINITION,
    DECODING: Definition(
        r"\hat p = w^\top x_p + c, \qquad \text{MAE} = \operatorname{mean}_p |\hat p - p|",
        "Probes: Wang & Chen 2020, arXiv 2010.04903.",
        (probe,),
    ),
}


def uses(options: Options) -> Uses:
    """Return what the part and the table read of a setting."""
    if options.part == LOGITS:
        names = ["model"] if logits.uploads(options) else []
        return Uses((*names,), schemes=False, drawn=(*names,))
    names = ["model", "dim", "base", "length", "heads", "equal_width", "seed"]
    if options.part != LAYOUTS:
        names.append("precision")
        if options.table == "learned":
            names += ["train_length", "learned_source"]
        elif options.table not in EXAMPLES:
            names = ["model", "seed"]
    return Uses((*names,), schemes=False, drawn=("model",))


USES = uses


def page(setting: Setting, options: Options) -> Page:
    """Return the page; an upload may be gone, so the page itself is not cached."""
    live = _uploaders(options)
    if options.refused_file:
        headline = f"{plain(options.refused_file)} cannot be checked."
        return Page(title=TITLE, headline=headline, above=live)
    parts = {TABLE: _table, LAYOUTS: _layouts, LOGITS: logits.blocks, DECODING: _decoding}
    headline, blocks = parts[options.part](setting, options)
    return Page(
        title=TITLE,
        headline=headline,
        above=live,
        blocks=blocks,
        guide=GUIDES[options.part],
        definition=DEFINITIONS[options.part],
        script=lambda: script.script(setting, options),
    )


def _uploaders(options: Options) -> list[Block]:
    """Return the choice of the part, what it is for, what takes its files, and of layouts the model."""
    chosen: list[Block] = [Controls(("part",)), Text(PURPOSES[options.part], "caption")]
    values: dict[str, Any] = {"mark": options.mark, "refused": bool(options.refused_file)}
    if options.part == LAYOUTS:
        uploaded = [name for name in (options.vectors, options.rotated) if name]
        live = Live("upload_vectors", {**values, "uploaded": uploaded})
        return [*chosen, Columns(([live], [Controls(("model",))]), (3, 2))]
    if options.part == LOGITS:
        return [*chosen, *logits.above(options)]
    values |= {"examples": (*EXAMPLES,), "table": options.table}
    return [*chosen, Live("upload_table", values)]


# One table ----------------------------------------------------------------------------------


def _table(setting: Setting, options: Options) -> tuple[str, list[Block]]:
    """Return what a table is: the largest error and the deviations beside the chart."""
    answer, match = identified.answer(setting, options.table), None
    if answer.result is not None:
        match = identified.model_match(setting, options.table)
    if match is not None:
        answer = identified.with_model(answer, match)
    reason: list[Block] = []
    if answer.reason:
        reason = [Text(plain(answer.reason), "warning", icon="upload_file")]
    words = [*_verdict(answer, match), *_belonging(answer, match)]
    drawn = [*_differences(answer), *_positions(match)]
    blocks: list[Block] = [*reason, Columns((words, drawn)), *_corrected(answer, match)]
    if answer.tables:
        pictures = zip(
            answer.tables, PICTURES, strict=False
        )  # the second one where a formula is known
        blocks.append(Columns([[_picture(panel, *about)] for panel, about in pictures]))
    frames = {"What this table is": answer.numbers, "Differences of every column": answer.by_column}
    blocks += [Data(title=title, frame=frame) for title, frame in frames.items() if len(frame)]
    return plain(answer.headline), blocks


def _picture(panel: Panel, key: str, unit: str, text: str) -> Matrices:
    """Return a matrix of rows by columns on a scale of its own."""
    return Matrices(
        key=key,
        panels=[panel],
        scale=lambda panels: _around_zero(panels, unit),
        unit="numbers",
        row_label="row",
        column_label="column",
        text=text,
    )


def _verdict(answer: Answer, match: ModelMatch | None) -> list[Block]:
    """Return the largest error and the deviations. match: with the chosen model."""
    blocks: list[Block] = []
    belongs, foreign = (match is not None and match.belongs is wanted for wanted in (True, False))
    if answer.largest is not None:
        label = "Largest error"
        if answer.published:
            label = "Largest error against the published table"
        elif foreign:
            label = "Largest error against its own formula"
        blocks.append(Metric(label, number(answer.largest)))
        blocks.append(Text(answer.worst, both="worst"))
    if answer.result is not None:
        for sentence in () if belongs else deviation_sentences(answer.result):
            blocks.append(Text(f":material/error: {plain(sentence)}"))
        if answer.result.known and not foreign and (belongs or not answer.result.deviations):
            number_type = str(answer.result.dtype).removeprefix("torch.")
            matches = f"Matches the formula to {number_type} rounding."
            blocks.append(Text(f":material/check_circle: {matches}"))
        for each in answer.result.also:
            if each.word != "order":  # which the headline names
                words = plain(alternative_words(each))
                blocks.append(Text(f":material/alt_route: It may also be {words}."))
    return [*blocks, *(Text(plain(note), "caption") for note in answer.notes)]


def _corrected(answer: Answer, match: ModelMatch | None) -> list[Block]:
    """Return the code that makes the right table, nothing where none is wrong."""
    if answer.result is None:
        return []
    right = right_table(answer.result, match)
    if right is None:
        intended = None if match is not None else intended_table(answer.result)
        return [] if intended is None else _if_intended(intended)
    whose = "published table" if match is None else "table of the model"
    caption = Text(f"It makes the {whose}, each number rounded once.", "caption")
    return [Text("**Corrected code**"), caption, Code(code(right), "python")]


def _if_intended(intended: RightTable) -> list[Block]:
    """Return the code of the table that may have been meant in place of one that matches."""
    title = Text("**Corrected code, if that was not meant**")
    caption = Text(
        "The numbers match one formula. If you meant the other, this is right.", "caption"
    )
    return [title, caption, Code(code(intended), "python")]


def _positions(match: ModelMatch | None) -> list[Block]:
    """Return the position that each row stands for, where it is not the one expected."""
    if match is None or not len(frame := identified.positions_by_row(match)):
        return []
    title = "Position that each row stands for"
    chart = Chart(
        key="check_positions", title=title, frame=frame, names=(), draw=charts.positions, x=""
    )
    return [Text(f"**{title}**"), chart]


def _differences(answer: Answer) -> list[Block]:
    """Return the largest error of each column."""
    frame = identified.drawn_columns(answer.by_column)
    if not len(frame):
        return []
    title = "Largest error of each column"
    chart = Chart(
        key="check_columns",
        title=title,
        frame=frame,
        names=(),
        draw=partial(charts.differences, x_title=identified.of_columns(answer.tables)),
        columns={"x": "column", "y": identified.error_column(answer.by_column)},
        x="",
        alt=errors_spoken(frame),
    )
    return [Text(f"**{title}**"), chart]


def errors_spoken(frame: pd.DataFrame) -> str:
    """Say the largest error of all columns, where it is, and the smallest. Frame: x, y."""
    x, y = frame["x"].to_numpy(), frame["y"].to_numpy()
    most, least = np.nanargmax(y), np.nanargmin(y)
    return (
        f"At most {number(y[most])}, in column {x[most]:.0f}; "
        f"at least {number(y[least])}, in column {x[least]:.0f}."
    )


def _belonging(answer: Answer, match: ModelMatch | None) -> list[Block]:
    """Return the choice of a model, and whether the table belongs to it."""
    if answer.result is None:
        return []
    blocks: list[Block] = [Text("**Does this table belong to a model?**"), Controls(("model",))]
    if match is not None:
        icon = "check_circle" if match.belongs else "error"
        sentence = plain(_sentence(match, answer.result))
        blocks.append(Text(f":material/{icon}: {sentence}"))
    return blocks


def _sentence(match: ModelMatch, result: Identification) -> str:
    """Return whether a table belongs to a model, without the cause that the headline names."""
    sentences = match_sentences(match, result)
    nearest = match.nearest
    is_headline = not match.belongs and nearest is not None and nearest.explained
    return " ".join(sentences[1:] if is_headline else sentences)


# Layouts and decoding -----------------------------------------------------------------------


def _layouts(setting: Setting, options: Options) -> tuple[str, list[Block]]:
    """Return the scores of both layouts used in every way, and the code that converts a weight."""
    try:
        vectors = layouts.uploaded(options.vectors, options.rotated)
        found = layouts.layouts(setting, *(numbers.table for numbers in vectors[:1]))
        two = [numbers.table for numbers in vectors] if len(vectors) == 2 else []
        answers = layouts.rotations(setting, *two) if two else []
    except PosencError as error:
        refusal: list[Block] = [Text(plain(str(error)), "error"), *_back_to_random(options)]
        return "Your queries and keys cannot be compared.", refusal
    source = "random vectors"
    if vectors:
        source = f"your upload, {listed([plain(numbers.source) for numbers in vectors])}"
    blocks: list[Block] = [
        *(Text(plain(answer), "info", icon="rotate_right") for answer in answers),
        Text(
            f"{found.sizes} The pictures show the first query and key at every position. If every "
            "diagonal has one colour, only the offset counts. The table covers all queries and keys: "
            f"{source}.",
            "caption",
        ),
        *_back_to_random(options),
        Matrices(
            key="check_layouts",
            panels=found.scores,
            scale=lambda panels: _around_zero(panels, "score"),
            unit="scores",
            text="Scores of one random query and key at every position: as intended, in the other layout "
            "through the permutation, and with three mistakes.",
        ),
        Findings("check_scores", found.numbers),
        Text("**Convert a weight, head by head.** A bias takes the same order."),
        Code(found.conversion, "python"),
        Data(title="Scores of two layouts", frame=found.numbers),
    ]
    return found.headline, blocks


def _back_to_random(options: Options) -> list[Block]:
    """Return the button that lets go of uploaded queries and keys."""
    changes = {"vectors": "", "rotated": ""}
    return [Button("check_random", "Use random vectors", changes)] if options.vectors else []


def _decoding(setting: Setting, options: Options) -> tuple[str, list[Block]]:
    """Return how well positions are decoded from a table, beside a sinusoidal one and a control."""
    answer = decoding.decoding(setting, options.table)
    blocks: list[Block] = []
    if answer.reason:
        blocks.append(Text(plain(answer.reason), "info"))
    if len(answer.numbers):
        blocks.append(Findings("check_probes", decoding.shown(answer.numbers)))
        blocks.append(Data(title="Probes of positions", frame=answer.numbers))
    return plain(answer.headline), blocks


def _around_zero(panels: Sequence[Panel], title: str) -> Scale:
    return Scale.around_zero([panel.values for panel in panels], title)
