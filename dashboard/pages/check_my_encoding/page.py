"""Check my encoding: what a table is, what a mixed-up layout does, how well positions are decoded."""

import streamlit as st

from dashboard.controls import sidebar
from dashboard.frame import page
from dashboard.pages.check_my_encoding import data, panels, script, uploads
from dashboard.pages.check_my_encoding.examples import EXAMPLES
from dashboard.pages.check_my_encoding.options import DECODING, LAYOUTS, CheckChoice, CheckPart
from dashboard.text import plain
from posenc.analysis import inspect_layouts, probe
from posenc.identification import identify

TITLE = "Check my encoding"


def draw() -> None:
    """Draw the page."""
    settings = page.settings()
    header = st.empty()
    part = sidebar.choices(CheckPart).part
    if part == LAYOUTS:
        layouts = settings.map(data.layouts)
        with header.container():
            page.head(TITLE, layouts.map(lambda one: one.headline))
        panels.layouts(layouts)
        _layout_drawers()
        page.numbers(layouts.map(lambda one: one.numbers), "scores of two layouts")
        page.script(script.script(settings.now, CheckChoice(table=uploads.chosen())))
        return
    upload, example, sines = st.columns([3, 2, 3])
    refused = uploads.picker(upload, sines)
    chosen = sidebar.choices(CheckChoice, example, uploads.names())
    result = st.empty()
    if refused:
        with header.container():
            page.head(TITLE, plain(refused))
        st.session_state["check_answered"] = ""
        return
    if st.session_state.get("check_answered") != chosen.table not in EXAMPLES:
        # It can take a minute: no answer on another table is shown meanwhile.
        page.title(TITLE)
        header.info("The uploaded table is being checked.", icon=":material/hourglass_top:")
        result.empty()
    if part == DECODING:
        decoded = settings.map(lambda setting: data.decoding(setting, chosen.table))
        with header.container():
            page.head(TITLE, decoded.map(lambda one: plain(one.headline)))
        with result.container():
            panels.decoding(decoded)
        _decoding_drawers()
        page.numbers(decoded.map(lambda one: one.numbers), "probes of positions")
    else:
        answers = settings.map(lambda setting: data.answer(setting, chosen.table))
        with header.container():
            page.head(TITLE, answers.map(lambda one: plain(one.headline)))
        with result.container():
            panels.answer(answers)
        _table_drawers()
        page.numbers(answers.map(lambda one: one.found), "what this table is")
        page.numbers(answers.map(lambda one: one.by_column), "largest difference by column")
    st.session_state["check_answered"] = chosen.table
    page.script(script.script(settings.now, chosen))


def _table_drawers() -> None:
    page.how_to_read(
        "Every column of a table is a wave. The frequencies of the waves, the order of the columns and "
        "the first position name the scheme. The chart shows the largest difference of each column from "
        "the formula, with exact angles and with the rounding that was found. For your own test suite: "
        "`posenc.testing.assert_matches(table, scheme)`."
    )
    page.definition(
        r"x_c(p) = s \cdot \{\sin, \cos\}(\lambda\, b^{-e_c} (p + p_0))",
        "Column c has exponent e. The table has base b, scale, size s and a first position. The order of "
        "the columns is one of those in public code.",
        identify,
    )


def _layout_drawers() -> None:
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


def _decoding_drawers() -> None:
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
