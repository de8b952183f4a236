"""The three parts of Check my encoding, drawn: one table, two layouts, how well positions are decoded."""

import pandas as pd
import streamlit as st

from dashboard.ab import Pair
from dashboard.components.matrix import Panel, Scale
from dashboard.frame import page, panels
from dashboard.pages.check_my_encoding import charts, frames
from dashboard.pages.check_my_encoding.data import Answer, Decoding, Layouts
from dashboard.text import plain

_ICONS = {
    "swapped": ":material/swap_horiz:",
    "wrong pairs": ":material/link_off:",
    "exponent": ":material/superscript:",
    "scale": ":material/height:",
    "size": ":material/percent:",
    "start": ":material/first_page:",
    "angles": ":material/blur_on:",
    "sign": ":material/exposure_neg_1:",
    "padding": ":material/space_bar:",
    "zero rows": ":material/exposure_zero:",
    "unexplained": ":material/help:",
}


def answer(both: Pair[Answer]) -> None:
    """Draw the largest error, the deviations and the corrected code beside the chart and the facts."""
    now = both.now
    if now.reason:
        st.warning(plain(now.reason), icon=":material/upload_file:")
    if both.pinned is not None and both.pinned.reason not in ("", now.reason):
        st.info(f"Pinned setting, A: {plain(both.pinned.reason)}", icon=":material/info:")
    left, right = st.columns([3, 2], gap="large")
    with left:
        _verdict(both)
    with right:
        differences = both.map(lambda one: frames.drawn_columns(one.by_column))
        if any(len(frame) for frame in differences.each):
            page.chart(differences, charts.differences, key="check_columns")
        _facts(both.map(lambda one: one.facts))
    panels.rows_of_both(
        both.map(lambda one: _panels(one.tables)),
        lambda every: Scale.around_zero([one.values for one in every], "number in the table"),
        key="check_tables",
        unit="numbers",
        row_label="row",
        column_label="column",
        text_alternative="The numbers of the table and of the formula found for it, rows by columns.",
    )


def _verdict(both: Pair[Answer]) -> None:
    now = both.now
    with st.container(horizontal=True):
        for name, one in (("", now), (" (pinned, A)", both.pinned)):
            if one is not None and one.largest is not None:
                st.metric(f"Largest error{name}", f"{one.largest:.3g}", width="content")
    if now.worst:
        page.also(both.map(lambda one: one.worst))
    for kind, sentence in now.deviations:
        st.markdown(f"{_ICONS[kind]} {plain(sentence)}")
    if now.matches:
        st.markdown(f":material/check_circle: {now.matches}")
    for words in now.also:
        st.markdown(f":material/alt_route: It may also be {plain(words)}.")
    if now.code:
        st.markdown("**Corrected code**")
        st.code(now.code, language="python", wrap_lines=True)
    for text in filter(None, (now.about, now.fit)):
        st.caption(plain(text))


def _facts(both: Pair[pd.DataFrame]) -> None:
    """Draw what was found as a narrow table, that of A in a column beside it."""
    frame = both.now
    if both.pinned is not None and len(both.pinned):
        pinned = both.pinned.rename(columns={"found": "A"})
        frame = frame.rename(columns={"found": "B"})
        rows = [*dict.fromkeys([*(frame["what"] if len(frame) else ()), *pinned["what"]])]
        parts = [one.set_index("what") for one in (frame, pinned) if len(one)]
        frame = pd.concat(parts, axis=1).reindex(rows).fillna("").reset_index()
    if len(frame):
        st.table(frame, border="horizontal", hide_index=True, hide_header=not both.compared)


def _panels(pictures: tuple[frames.TablePicture, ...]) -> list[Panel]:
    return [Panel(title=one.title, subtitle=one.subtitle, values=one.values) for one in pictures]


def layouts(both: Pair[Layouts]) -> None:
    """Draw the scores of both layouts used in every way, and the code that converts a weight."""
    st.caption(
        "Scores of one random query and key at every position. If all diagonals have one colour, only "
        "the offset counts. The table has random queries and keys that differ from row to row."
    )
    panels.rows_of_both(
        both.map(lambda one: _panels(one.scores)),
        lambda every: Scale.around_zero([one.values for one in every], "score"),
        key="check_layouts",
        unit="scores",
        text_alternative=(
            "Scores of one random query and key at every position: as intended, in the other layout "
            "through the permutation, and with three mistakes."
        ),
    )
    page.table(both.map(lambda one: one.numbers))
    st.markdown("**Convert a weight, head by head.** A bias takes the same order.")
    st.code(both.now.conversion, language="python", wrap_lines=True)


def decoding(both: Pair[Decoding]) -> None:
    """Draw how well positions are decoded from tables, each beside a sinusoidal one and a control."""
    for reason in both.now.reasons:
        st.info(plain(reason), icon=":material/info:")
    for reason in () if both.pinned is None else both.pinned.reasons:
        if reason not in both.now.reasons:
            st.info(f"Pinned setting, A: {plain(reason)}", icon=":material/info:")
    for n, sentence in enumerate(both.now.sentences[1:], 1):
        of_a = both.map(lambda one: one.sentences).pinned or ()
        page.also(Pair(sentence, of_a[n] if n < len(of_a) else None), literal=True)
    numbers = both.map(lambda one: one.numbers)
    if any(len(one) for one in numbers.each):
        page.table(numbers)
