"""The Encoding page's pictures: matrices in rows of one unit each, the worked example, and sums."""

import functools

import pandas as pd
import streamlit as st

from dashboard.ab import Pair
from dashboard.charts import theme
from dashboard.components.matrix import Full, Panel
from dashboard.compute.result_cache import memoize_on
from dashboard.frame import page, panels
from dashboard.pages.encoding import charts as encoding_charts
from dashboard.pages.encoding import data, frames, sentences
from dashboard.pages.encoding.data import Drawn, EncodingPage
from dashboard.pages.encoding.pairs import of_either
from posenc.analysis import STARTS
from posenc.schemes import SCHEMES
from posenc.text import count_of

ONE_ROW = 360  # height of a matrix that stands alone in its row, in CSS pixels


def said(sentence: str) -> None:
    """Write a sentence where there is one to say."""
    if sentence:
        st.caption(sentence)


def matrices(both: Pair[EncodingPage]) -> None:
    """Draw every matrix; one colour scale never spans two units, so each unit has a row of its own."""
    found, setting = both.now, both.now.setting
    units: dict[str, dict[str, Drawn]] = {}
    for read in both.each:
        for kind, one in read.drawn.items():
            units.setdefault(one.unit, {}).setdefault(kind, one)
    alone = [unit for unit, drawn in units.items() if len(drawn) == 1]
    for unit, drawn in units.items():
        if unit not in alone:
            _row(unit, drawn, both)
    if alone:
        # Beside a pinned setting each is a row of three: B, A and their difference.
        places = [st.container() for _ in alone]
        if not both.compared:
            places = st.columns(max(2, len(alone)))[: len(alone)]
        for unit, place in zip(alone, places, strict=True):
            with place:
                _row(unit, units[unit], both)
    for kind in found.absent:
        st.info(
            f"{SCHEMES[kind].label} puts no numbers in, so there is no matrix. {SCHEMES[kind].summary}",
            icon=":material/info:",
        )
    if found.absent:
        page.notes(setting, {kind: found.provenances[kind] for kind in found.absent})


def _row(unit: str, drawn: dict[str, Drawn], both: Pair[EncodingPage]) -> None:
    """Draw the matrices of one unit; `drawn` holds one of each scheme that either setting has."""
    bias = not next(iter(drawn.values())).features
    panels.rows_of_both(
        both.map(
            lambda found: [
                _panel(found, kind) for kind, one in found.drawn.items() if one.unit == unit
            ]
        ),
        lambda shown: (
            # Of waves nothing is read, and their numbers are not held.
            data.scale(unit, [] if unit == data.WAVES else [one.values.dense() for one in shown])
            if both.compared
            else both.now.scales[unit]
        ),
        key=f"encoding_{unit.split()[0]}",
        unit="logits" if bias else "entries",
        row_label="query position" if bias else "position",
        column_label="key position" if bias else "dimension",
        height=ONE_ROW,
        text_alternative=(
            f"{unit.capitalize()} of {page.names(tuple(drawn))}, "
            + ("query by key" if bias else "position by dimension")
            + "; the arrow keys read a cell, and a table below holds the first numbers."
        ),
    )


@memoize_on
def _panel(found: EncodingPage, kind: str) -> Panel:
    one = found.drawn[kind]
    setting, provenance = found.setting, found.provenances[kind]
    bias = not one.features
    order = ""
    if not bias and not one.features[0].isdigit():
        order = ", ".join(one.features[:3]) + (", ..." if len(one.features) > 3 else "")
    cut = sentences.cut(one.shape, bias=bias, asked=setting.length)
    note = page.panel_note(setting, kind, provenance)
    return Panel(
        title=SCHEMES[kind].label,
        values=one.matrix,
        subtitle="; ".join(part for part in (note, cut) if part),
        column_label=f"dimension: {order}" if order else None,
        boundary=setting.train_length if setting.train_length < one.matrix.shape[0] else None,
        color=theme.COLOURS[kind],
        features=not bias,
    )


def example(found: EncodingPage, base: float) -> None:
    """Draw the formula beside its numbers at 4 positions and 8 dimensions."""
    left, right = st.columns(2)
    with left:
        st.latex(found.example_formula)
        st.latex(sentences.example_step(found, base))
    with right:
        numbers = {
            name: st.column_config.NumberColumn(format="%.4f")
            for name in found.example.columns
            if name != "position"
        }
        st.caption(sentences.example(found, base))
        page.small_table(found.example, numbers)


def sums(both: Pair[EncodingPage], start: str, *, scaled: bool) -> None:
    """Draw content, position and their sum, and how large one is beside the other."""
    adding = of_either(both, lambda one: one.sums)
    if not adding:
        return
    told = both.map(lambda one: sentences.sums(one, scaled=scaled, start=start))
    if told.now:
        st.markdown(told.now)
    if told.pinned:
        st.caption(f"Pinned setting, A: {told.pinned}")
    factor = " times sqrt(d)" if scaled else ""
    for kind in adding:
        panels.rows_of_both(
            both.map(functools.partial(_sum_panels, kind=kind, start=start, factor=factor)),
            lambda shown: data.scale("entry of a vector", [one.values.dense() for one in shown]),
            key=f"sum_{kind}",
            unit="entries",
            row_label="position",
            column_label="dimension",
            height=220,
            text_alternative=f"Token vectors, positions of {SCHEMES[kind].label} and their sum.",
        )
    page.chart(
        both.map(_ratios),
        encoding_charts.ratios,
        adding,
        key="ratios",
    )
    # Told apart by scheme and start together, which A's rows need.
    page.table(both.map(frames.named_sums) if both.compared else both.now.sum_table)
    st.caption(
        "Norms are root mean squares. Ratio: token over position. Share: position's part of the sum's "
        "expected squared norm."
    )


@memoize_on
def _ratios(found: EncodingPage) -> pd.DataFrame:
    return frames.sum_marks(found.sums)


@memoize_on
def _sum_panels(found: EncodingPage, kind: str, start: str, factor: str) -> list[Panel]:
    if kind not in found.sums:
        return []
    one = found.sums[kind]
    content, position, total = (Full(picture) for picture in one.pictures)
    parts = {
        f"Tokens{factor}": (content, f"drawn as {STARTS[start]}"),
        f"Position: {SCHEMES[kind].label}": (position, "its rows"),
        "Sum": (total, "what the first layer is given"),
    }
    rows, columns = one.pictures[0].shape
    return [
        Panel(
            title=title,
            values=picture,
            subtitle=f"{words}, the first {count_of(rows, 'position')} and {columns} of {one.width:,} "
            "dimensions",
            color=theme.COLOURS[kind],
            features=True,
        )
        for title, (picture, words) in parts.items()
    ]
