"""Check my encoding: what a table is, what a mixed-up layout does, how well positions are decoded."""

import functools
from dataclasses import replace
from typing import Any

import altair as alt
import streamlit as st

from dashboard.ab import AB
from dashboard.charts import theme
from dashboard.components.matrix import Scale
from dashboard.controls import model_picker, sidebar
from dashboard.controls.page_controls import UsedControls, option
from dashboard.frame import page, panels
from dashboard.pages.check_my_encoding import data, script, uploads
from dashboard.pages.check_my_encoding.data import Answer
from dashboard.pages.check_my_encoding.examples import EXAMPLES
from dashboard.pages.check_my_encoding.options import DECODING, LAYOUTS, CheckChoice, CheckPart
from dashboard.settings import Setting
from dashboard.text import number, plain
from posenc.analysis import inspect_layouts, probe
from posenc.errors import PosencError
from posenc.identification import Identification, ModelMatch, identify, match_model
from posenc.identification.sentences import deviation_sentences, match_sentences

TITLE = "Check my encoding"
_ANSWERED = "check_answered"  # the table whose answer is drawn


def used_controls() -> UsedControls:
    """Return the controls of the part and of the table."""
    names = ["model", "dim", "base", "length", "heads", "equal_width", "seed"]
    table = option("table", "")
    if option("part", "") != LAYOUTS:
        names.append("precision")
        if table == "learned":
            names += ["train_length", "learned_source"]
        elif table.startswith("array-"):
            names = ["model", "seed"]
    return UsedControls((*names,), schemes=False, drawn=("model",))


def draw() -> None:
    """Draw the page."""
    settings = page.settings()
    header = st.empty()
    part = sidebar.choices(CheckPart).part
    if part == LAYOUTS:
        _layouts(settings, header)
        page.script(script.script(settings.current, CheckChoice(table=uploads.chosen())))
        return
    upload, example, sines = st.columns([3, 2, 3])
    refused = uploads.picker(upload, sines)
    chosen = sidebar.choices(CheckChoice, example, uploads.names())
    result = st.empty()
    if refused:
        with header.container():
            page.head(TITLE, plain(refused))
        st.session_state[_ANSWERED] = ""
        return
    if st.session_state.get(_ANSWERED) != chosen.table not in EXAMPLES:
        # It can take a minute: no answer on another table is shown meanwhile.
        page.title(TITLE)
        header.info("The uploaded table is being checked.", icon=":material/hourglass_top:")
        result.empty()
    draw_part = _decoding if part == DECODING else _answer
    draw_part(settings, chosen.table, header, result)
    st.session_state[_ANSWERED] = chosen.table
    page.script(script.script(settings.current, chosen, part))


def _answer(settings: AB[Setting], table: str, header: Any, result: Any) -> None:
    """Draw the largest error and the deviations beside the chart."""
    both = settings.map(lambda setting: data.answer(setting, table))
    current, match = both.current, None
    model = model_picker.chosen()
    if current.result is not None and model is not None:
        schemes = {kind.name: kind.scheme for kind in model.config.layer_kinds}
        match = match_model(schemes, *data.tables(table, settings.current))
        both = replace(both, current=data.with_model(current, match))
    with header.container():
        page.head(TITLE, both.map(lambda answer: plain(answer.headline)))
    with result.container():
        if current.reason:
            st.warning(plain(current.reason), icon=":material/upload_file:")
        left, right = st.columns([3, 2], gap="large")
        with right:
            columns = both.map(lambda answer: data.drawn_columns(answer.by_column))
            if any(len(frame) for frame in columns.each):
                title = "Largest difference by column"
                page.chart(columns, _differences, key="check_columns", title=title)
            if current.result is not None:
                _model_check(match, current.result)
        with left:
            _verdict(both, match)
            if match is not None and len(frame := data.positions_by_row(match)):
                title = "Position that each row stands for"
                st.markdown(f"**{title}**")
                page.picture(frame, _positions(), key="check_positions", title=title)
        panels.rows_of_both(
            both.map(lambda answer: answer.tables),
            lambda every: Scale.around_zero(
                [panel.values for panel in every], "number in the table"
            ),
            key="check_tables",
            unit="numbers",
            row_label="row",
            column_label="column",
            text_alternative="The numbers of the table and of its formula, rows by columns.",
        )
    page.how_to_read(
        "Every column of a table is a wave. The frequencies of the waves, the order of the columns and "
        "the first position name the scheme. The chart shows the largest difference of each column from "
        "the formula with exact angles. For your own test suite: "
        "`posenc.testing.assert_matches(table, scheme)`, or with the path of a config.json."
    )
    page.definition(
        r"x_c(p) = s \cdot \{\sin, \cos\}(\lambda\, b^{-e_c} (p + p_0))",
        "Column c has exponent e. The table has base b, scale, size s and a first position. The order of "
        "the columns is one of those in public code.",
        identify,
    )
    page.numbers(both.map(lambda answer: answer.numbers), "what this table is")
    page.numbers(both.map(lambda answer: answer.by_column), "largest difference by column")


def _verdict(both: AB[Answer], match: ModelMatch | None) -> None:
    """Draw the largest error and the deviations. match: with the chosen model."""
    current = both.current
    if current.largest is not None:
        st.metric("Largest error", number(current.largest), width="content")
        page.second_headline(both.map(lambda answer: answer.worst))
    if current.result is not None:
        belongs = match is not None and match.belongs
        for sentence in () if belongs else deviation_sentences(current.result):
            st.markdown(f":material/error: {plain(sentence)}")
        if current.result.known and (belongs or not current.result.deviations):
            number_type = str(current.result.dtype).removeprefix("torch.")
            st.markdown(f":material/check_circle: Matches the formula to {number_type} rounding.")
        for words in current.result.also:
            if words not in current.headline:
                st.markdown(f":material/alt_route: It may also be {plain(words)}.")
    for note in current.notes:
        st.caption(plain(note))


def _sentence(match: ModelMatch, result: Identification) -> str:
    """Return whether a table belongs to a model, without the cause that the headline names."""
    sentences = match_sentences(match, result)
    nearest = match.nearest
    is_headline = not match.belongs and nearest is not None and nearest.explained
    return " ".join(sentences[1:] if is_headline else sentences)


def _model_check(match: ModelMatch | None, result: Identification) -> None:
    """Draw the choice of a model, or of its config.json, and whether the table belongs to it."""
    st.markdown("**Does this cache belong to a model?**")
    model_picker.select(st, "model_here_control")
    model_picker.draw_own_config()
    if match is not None:
        icon = "check_circle" if match.belongs else "error"
        st.markdown(f":material/{icon}: {plain(_sentence(match, result))}")


@functools.cache
def _positions() -> theme.Spec:
    """Position found and expected by row. Frame: row, position, which."""
    names = [*data.FOUND_AND_EXPECTED]
    colours, strokes = [theme.COLOURS["sinusoidal"], theme.GRAY], [[1, 0], [6, 4]]
    legend = alt.Legend(title=None, orient="top", symbolType="stroke", symbolStrokeWidth=3)
    lines = (
        alt.Chart()
        .mark_line(strokeWidth=2)
        .encode(
            x=alt.X("row:Q", title="row", scale=alt.Scale(nice=False)),
            y=alt.Y("position:Q", title="position"),
            color=alt.Color("which:N", scale=alt.Scale(domain=names, range=colours), legend=legend),
            strokeDash=alt.StrokeDash(
                "which:N", scale=alt.Scale(domain=names, range=strokes), legend=legend
            ),
            tooltip=[
                "row:Q",
                alt.Tooltip("position:Q", format=","),
                alt.Tooltip("which:N", title=""),
            ],
        )
    )
    return theme.spec_of(alt.layer(lines).properties(height=theme.HEIGHT))


@functools.cache
def _differences(*, pinned: bool = False) -> theme.Spec:
    """Largest difference by column, log scale. Frame: x, y."""
    setting = [alt.Tooltip("setting:N", title="setting (B current, A pinned)")] if pinned else []
    # Points have no stroke to tell A from B by: A's are pale.
    style = {"opacity": theme.by_setting(True)["opacity"]} if pinned else {}
    points = (
        alt.Chart()
        .mark_circle(size=14, opacity=1, color=theme.COLOURS["sinusoidal"])
        .encode(
            x=alt.X("x:Q", title="column (of a cache: cosines, then sines)", scale=alt.Scale(nice=False)),
            y=alt.Y(
                "y:Q", title="largest error", scale=alt.Scale(type="log"),
                axis=alt.Axis(format=".0e", tickCount=5),
            ),
            tooltip=["x:Q", alt.Tooltip("y:Q", format=".3g"), *setting],
            **style,
        )
    )  # fmt: skip
    return theme.spec_of(alt.layer(points).properties(height=theme.HEIGHT))


def _layouts(settings: AB[Setting], header: Any) -> None:
    """Draw the scores of both layouts used in every way, and the code that converts a weight."""
    vectors = uploads.queries_and_keys()
    try:
        both = settings.map(lambda setting: data.layouts(setting, *vectors[:1]))
        answers = data.rotations(settings.current, *vectors) if len(vectors) == 2 else []
    except PosencError as error:
        st.error(plain(str(error)), icon=":material/block:")
        page.title(TITLE)
        return
    with header.container():
        page.head(TITLE, both.map(lambda layouts: layouts.headline))
    for answer in answers:
        st.info(plain(answer), icon=":material/rotate_right:")
    st.caption(
        f"{both.current.sizes} The pictures show the first query and key at every position. If every "
        "diagonal has one colour, only the offset counts. The table covers all queries and keys: random "
        "vectors, or your upload."
    )
    panels.rows_of_both(
        both.map(lambda layouts: layouts.scores),
        lambda every: Scale.around_zero([panel.values for panel in every], "score"),
        key="check_layouts",
        unit="scores",
        text_alternative=(
            "Scores of one random query and key at every position: as intended, in the other layout "
            "through the permutation, and with three mistakes."
        ),
    )
    page.table(both.map(lambda layouts: layouts.numbers))
    st.markdown("**Convert a weight, head by head.** A bias takes the same order.")
    st.code(both.current.conversion, language="python", wrap_lines=True)
    page.how_to_read(
        "The same random queries and keys are rotated in both layouts. A consistent mix-up passes tests of "
        "norms and offsets; only the scores show it."
    )
    page.definition(
        r"q' = q_{\pi},\; k' = k_{\pi} \;\Rightarrow\; \langle R^{half} q', R^{half} k' \rangle = "
        r"\langle R^{pairs} q, R^{pairs} k \rangle",
        "Su et al. 2021, arXiv 2104.09864, pairs neighbours; GPT-NeoX pairs halves. The permutation "
        "between them keeps every score.",
        inspect_layouts,
    )
    page.numbers(both.map(lambda layouts: layouts.numbers), "scores of two layouts")


def _decoding(settings: AB[Setting], table: str, header: Any, result: Any) -> None:
    """Draw how well positions are decoded from a table, beside a sinusoidal one and a control."""
    both = settings.map(lambda setting: data.decoding(setting, table))
    with header.container():
        page.head(TITLE, both.map(lambda decoding: plain(decoding.headline)))
    with result.container():
        for reason in dict.fromkeys(decoding.reason for decoding in both.each if decoding.reason):
            st.info(plain(reason), icon=":material/info:")
        if any(len(decoding.numbers) for decoding in both.each):
            page.table(both.map(lambda decoding: decoding.numbers))
    page.how_to_read(
        "A linear map is fitted to decode the position of each vector. An index error (MAE) below that of "
        "guessing means that the vector holds its position. The control is random numbers of the same "
        "shape."
    )
    page.definition(
        r"\hat p = w^\top x_p + c, \qquad \text{MAE} = \operatorname{mean}_p |\hat p - p|",
        "Probes: Wang & Chen 2020, arXiv 2010.04903.",
        probe,
    )
    page.numbers(both.map(lambda decoding: decoding.numbers), "probes of positions")
