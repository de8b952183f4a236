"""Overview: the schemes side by side, one column each: what attention sees of position."""

import functools

import streamlit as st

from dashboard.charts import frames, theme
from dashboard.frame import page, panels, sentences
from dashboard.pages.at_a_glance import data, script
from dashboard.text import plain
from posenc.analysis import properties, similarity
from posenc.schemes import SCHEMES


def draw() -> None:
    """Draw the page."""
    settings = page.settings()
    read = settings.map(data.read)
    now = read.now
    page.left_out(now.reasons, now.found, "The schemes side by side", page.reasons(read))
    page.head("The schemes side by side", read.map(lambda one: one.headline))
    sentences.show_notices(now.found)
    if settings.now.equal_width and settings.now.of_model("rope") is None:
        sentences.show_equal_width(now.found)
    for column, kind in panels.columns(data.shown(read), most=3 if read.compared else 4):
        with column:
            one = now if kind in now.found or read.pinned is None else read.pinned
            note = page.panel_note(one.setting, kind, one.found[kind].kernel.provenance)
            st.subheader(page.label(kind), anchor=False, help=plain(note))
            st.caption(SCHEMES[kind].summary)
            page.chart(
                read.map(functools.partial(data.curve, kind=kind)),
                theme.small_curve,
                kind,
                key=f"curve_{kind}",
            )
            if read.pinned is None:
                st.table(data.table(now, kind))
            else:
                both = now.measured.get(kind), read.pinned.measured.get(kind)
                st.table(frames.properties_table(*both, compared=True))
            # Under the table: sentences of unequal length would part the tables of a row.
            if kind in now.found:
                st.markdown(sentences.properties(now.measured[kind], now.found[kind]))
            else:
                st.caption("Of the pinned setting, A, alone.")

    page.how_to_read(
        "Each column is one scheme. The square shows how alike every two positions are when content is "
        "held fixed; the curve is the mean of its diagonals, with the range as a band. Their units differ "
        "before scaling (an inner product, a logit, a weight factor): compare shapes, not heights. The "
        "dashed line is the training length; an untrained table ends there, a trained one at its last "
        "row.\n\nIn the tables, distances and norms are in the unit of each scheme's vectors; values are "
        "the vectors' entries, where they have a fixed number of them. The shift-invariance error is the "
        "spread of similarity along diagonals over its overall spread: 0 where only the distance counts, "
        "about 1 for noise. Order kept (tau) is the rank correlation of similarity with nearness: 1 falls "
        "at every step."
    )
    page.definition(
        r"\begin{aligned} K(i, j) &= \varphi(i) \cdot \varphi(j) \\"
        r"\lVert\varphi(i) - \varphi(j)\rVert^2 &= K(i,i) + K(j,j) \\ &\quad - 2K(i,j) \end{aligned}",
        "The effect of position alone, K, is what position contributes to attention between a query and a "
        "key of fixed content. Distances, norms and invariance below are measured on it.",
        properties.measure,
        similarity.similarity_by_offset,
    )
    page.numbers(
        read.map(lambda one: one.curves), "overview curves", {"x": "distance", "y": "mean"}
    )
    page.numbers(read.map(lambda one: one.properties), "measured properties")
    page.script(script.script(settings.now))
