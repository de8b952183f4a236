"""Check my encoding: what a table is, what a mixed-up layout does, what a learned table tells."""

import pandas as pd
import streamlit as st

from dashboard.controls import page_options, sidebar
from dashboard.frame import page
from dashboard.pages.check_my_encoding import data, panels, script, uploads
from dashboard.pages.check_my_encoding.examples import EXAMPLES
from posenc.analysis import inspect_layouts, probe
from posenc.identification import identify


def draw() -> None:
    """Draw the page."""
    settings = page.settings()
    header, row = st.empty(), st.container()
    refused = uploads.picker()
    chosen = sidebar.choices(page_options.CheckChoice, row, uploads.names())
    answer = st.empty()
    if not refused and st.session_state.get("check_answered") != chosen.table not in EXAMPLES:
        # It can take a minute: nothing said of another table stands meanwhile.
        with header.container():
            st.title("Check my encoding", anchor=False)
            st.info("The uploaded table is being checked.", icon=":material/hourglass_top:")
        answer.empty()
    both = settings.map(lambda setting: data.read(setting, chosen, refused))
    st.session_state["check_answered"] = "" if refused else chosen.table
    with header.container():
        page.head("Check my encoding", both.map(lambda one: one.headline))
    with answer.container():
        panels.answer(both)
    panels.layouts(both)
    panels.told(both)

    page.how_to_read(
        "The first part takes a table apart: every column is a wave, the waves lie on a ladder of "
        "frequencies, and the ladder, the order of columns and the first position name the "
        "scheme. The chart "
        "says how far each column is from the formula: with exact angles, and with the rounding that was "
        "found; where both lie at the last digit, nothing departs. The second part turns the same random "
        "queries and keys in both layouts: only the scores tell a consistent mix-up. The third reads "
        "positions back from vectors: a position off by less than guessing is known from the vector alone, "
        "and random numbers of the same shape say how much of that is chance."
    )
    page.definition(
        r"x_c(p) = s \cdot \{\sin, \cos\}(\lambda\, b^{-e_c} (p + p_0)), \qquad "
        r"q' = q_{\pi},\; k' = k_{\pi} \;\Rightarrow\; \langle R^{half} q', R^{half} k' \rangle = "
        r"\langle R^{pairs} q, R^{pairs} k "
        r"\rangle",
        "Column c of a table has exponent e of base b, scale, size s and first position; the "
        "order of columns "
        "is one of those in public code. Layouts: Su et al. 2021, arXiv 2104.09864, pairs neighbours; "
        "GPT-NeoX pairs halves; the permutation between them keeps every score. Probes: Wang & Chen 2020, "
        "arXiv 2010.04903.",
        identify,
        inspect_layouts,
        probe,
    )
    nothing = pd.DataFrame()
    page.numbers(
        both.map(lambda one: nothing if one.answer is None else one.answer.found),
        "what this table is",
    )
    page.numbers(
        both.map(lambda one: nothing if one.answer is None else one.answer.by_column),
        "largest difference by column",
    )
    page.numbers(both.map(lambda one: one.layouts.numbers), "scores of two layouts")
    page.numbers(both.map(lambda one: one.probes), "probes of positions")
    page.script(script.script(settings.now, chosen))
