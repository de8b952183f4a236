"""The three parts of Check my encoding, drawn: one table, two layouts, what positions tell."""

import pandas as pd
import streamlit as st

from dashboard.ab import Pair
from dashboard.components.matrix import Panel, Scale
from dashboard.frame import page, panels
from dashboard.pages.check_my_encoding import charts, frames
from dashboard.pages.check_my_encoding.data import Read
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


def answer(both: Pair[Read]) -> None:
    """Say what the table is and where it departs, beside what was found, its picture and its chart."""
    now = both.now
    if now.reason:
        st.warning(plain(now.reason), icon=":material/upload_file:")
    if both.pinned is not None and both.pinned.reason not in ("", now.reason):
        st.info(f"Pinned setting, A: {plain(both.pinned.reason)}", icon=":material/info:")
    if now.answer is not None:
        _said(now)
    shown = both.map(lambda one: pd.DataFrame() if one.answer is None else one.answer.shown)
    left, right = st.columns(2, gap="large")
    with left:
        _found(shown)
    with right:
        differences = both.map(
            lambda one: frames.drawn_columns(
                pd.DataFrame() if one.answer is None else one.answer.by_column
            )
        )
        if len(differences.now) or (differences.pinned is not None and len(differences.pinned)):
            if now.answer is not None and now.answer.worst:
                st.caption(f"{now.answer.worst} No mark, no difference.")
            page.chart(differences, charts.differences, key="check_columns")
        elif now.answer is not None:
            st.caption("No formula comes near, so there is nothing to compare column by column.")
    pictures = both.map(lambda one: _panels(() if one.answer is None else one.answer.tables))
    panels.rows_of_both(
        pictures,
        lambda every: Scale.around_zero([one.values for one in every], "number in the table"),
        key="check_tables",
        unit="numbers",
        row_label="row",
        column_label="column",
        text_alternative="The numbers of the table and of the formula found for it, rows by columns.",
    )


def _said(now: Read) -> None:
    assert now.answer is not None
    one = now.answer
    st.caption(plain(" ".join(one.about)))
    for kind, sentence in one.deviations:
        st.markdown(f"{_ICONS[kind]} {plain(sentence)}")
    if one.known and not one.deviations:
        st.markdown(
            ":material/check_circle: Nothing departs from the formula but the last rounding."
        )
    for words in one.also:
        st.markdown(f":material/alt_route: It may also be {plain(words)}.")
    st.caption(plain(one.fit))


def _found(shown: Pair[pd.DataFrame]) -> None:
    """Draw what was found as a narrow table, that of A in a column beside it."""
    frame = shown.now
    if shown.pinned is not None and len(shown.pinned):
        pinned = shown.pinned.rename(columns={"found": "A"})
        frame = frame.rename(columns={"found": "B"})
        rows = [*dict.fromkeys([*(frame["what"] if len(frame) else ()), *pinned["what"]])]
        parts = [one.set_index("what") for one in (frame, pinned) if len(one)]
        frame = pd.concat(parts, axis=1).reindex(rows).fillna("").reset_index()
    if len(frame):
        st.table(frame, border="horizontal", hide_index=True, hide_header=not shown.compared)


def _panels(drawn: tuple[frames.Drawn, ...]) -> list[Panel]:
    return [Panel(title=one.title, subtitle=one.subtitle, values=one.values) for one in drawn]


def layouts(both: Pair[Read]) -> None:
    """Draw the scores of both layouts used in every way, and the code that converts a weight."""
    st.subheader("Two layouts of RoPE", anchor=False)
    page.also(both.map(lambda one: one.layouts.sentence))
    st.caption(
        "One random query and one random key at every position: a diagonal of one colour "
        "depends on the offset alone. Changes of scores and norms are of queries and keys that differ from "
        "row to row; the spread along diagonals is of those in the picture."
    )
    panels.rows_of_both(
        both.map(lambda one: _panels(one.layouts.scores)),
        lambda every: Scale.around_zero([one.values for one in every], "score"),
        key="check_layouts",
        unit="scores",
        text_alternative=(
            "Scores of one random query and key at every position: as meant, in the other layout through "
            "the permutation, and with three mistakes."
        ),
    )
    page.table(both.map(lambda one: one.layouts.numbers))
    st.caption("What converts a weight, head by head; a bias takes the same order.")
    st.code(both.now.conversion, language="python", wrap_lines=True)


def told(both: Pair[Read]) -> None:
    """Draw what is read back from tables, each beside a sinusoidal one and random numbers."""
    st.subheader("What a table tells of position", anchor=False)
    for reason in both.now.untold:
        st.info(plain(reason), icon=":material/info:")
    said = both.map(lambda one: [each.sentence for each in one.told])
    for n, sentence in enumerate(said.now):
        of_a = said.pinned[n] if said.pinned is not None and n < len(said.pinned) else None
        page.also(Pair(sentence, of_a), literal=True)
    for reason in () if both.pinned is None else both.pinned.untold:
        if reason not in both.now.untold:
            st.info(f"Pinned setting, A: {plain(reason)}", icon=":material/info:")
    numbers = both.map(lambda one: one.probes)
    if any(len(one) for one in numbers.each):
        page.table(numbers)
