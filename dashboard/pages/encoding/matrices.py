"""The Encoding page's matrices: one row per unit, and position added to token embeddings."""

import functools

import pandas as pd
import streamlit as st

from dashboard.ab import AB
from dashboard.charts import theme
from dashboard.components.matrix import Full, Panel
from dashboard.compute.result_cache import memoize_on
from dashboard.frame import page, panels
from dashboard.pages.encoding import charts, data, sentences
from dashboard.pages.encoding.data import EncodingPage, Matrix, SumsPage
from posenc.analysis import STARTS
from posenc.schemes import SCHEMES
from posenc.text import count_of

HEIGHT, SUM_HEIGHT = 250, 220  # CSS pixels


def draw(both: AB[EncodingPage], slopes: AB[pd.DataFrame]) -> None:
    """Draw every matrix; one colour scale never spans two units, so each unit has a row of its own.

    slopes: those of ALiBi's heads, a chart beside the matrices that are alone in their row.
    """
    read = both.current
    units: dict[str, dict[str, Matrix]] = {}
    for setting in both.each:
        for kind, matrix in setting.matrices.items():
            units.setdefault(matrix.unit, {}).setdefault(kind, matrix)
    # Beside a pinned setting each is a row of three: B, A and their difference.
    alone = [] if both.compared else [unit for unit, own in units.items() if len(own) == 1]
    for unit in (unit for unit in units if unit not in alone):
        _row(unit, units[unit], both)
    has_slopes = any(len(table) for table in slopes.each)
    if alone or has_slopes:
        columns = st.columns(max(2, len(alone) + has_slopes))
        for unit, column in zip(alone, columns, strict=False):
            with column:
                _row(unit, units[unit], both)
        if has_slopes:
            with columns[len(alone)]:
                title = "ALiBi: slope of each head"
                st.markdown(f"**{title}**")
                page.chart(slopes, charts.slopes, key="slopes", title=title)
    for kind in read.schemes:
        if kind not in read.matrices:
            st.info(
                f"{SCHEMES[kind].label} adds no numbers, so there is no matrix. "
                f"{SCHEMES[kind].summary}",
                icon=":material/info:",
            )


def _row(unit: str, own: dict[str, Matrix], both: AB[EncodingPage]) -> None:
    """Draw the matrices of one unit; `own` holds one of each scheme that either setting has."""
    is_bias = not next(iter(own.values())).features
    panels.rows_of_both(
        both.map(
            lambda read: [
                _panel(read, kind) for kind, matrix in read.matrices.items() if matrix.unit == unit
            ]
        ),
        lambda drawn: data.scale(
            unit, [] if unit == data.WAVES else [panel.values.dense() for panel in drawn]
        ),
        key=f"encoding_{unit.split()[0]}",
        unit="logits" if is_bias else "entries",
        row_label="query position" if is_bias else "position",
        column_label="key position" if is_bias else "dimension",
        height=HEIGHT,
        text_alternative=(
            f"{unit.capitalize()} of {page.names(tuple(own))}, "
            + ("query by key" if is_bias else "position by dimension")
            + "; the arrow keys read a cell, and a table below holds the first numbers."
        ),
    )


@memoize_on
def _panel(read: EncodingPage, kind: str) -> Panel:
    matrix, setting = read.matrices[kind], read.setting
    is_bias = not matrix.features
    order = ""
    if not is_bias and not matrix.features[0].isdigit():
        order = ", ".join(matrix.features[:3]) + (", ..." if len(matrix.features) > 3 else "")
    cut = sentences.cut(matrix.shape, is_bias=is_bias, asked=setting.length)
    note = page.panel_note(setting, kind, read.schemes[kind].provenance)
    return Panel(
        title=SCHEMES[kind].label,
        values=matrix.values,
        subtitle="; ".join(part for part in (note, cut) if part),
        column_label=f"dimension: {order}" if order else None,
        boundary=setting.train_length if setting.train_length < matrix.values.shape[0] else None,
        color=theme.COLOURS[kind],
        features=not is_bias,
    )


def draw_sums(both: AB[SumsPage], start: str, *, scaled: bool) -> None:
    """Draw content, position and their sum, and how large one is beside the other."""
    texts = both.map(lambda read: sentences.sums(read, scaled=scaled, start=start))
    if texts.current:
        st.markdown(texts.current)
    if texts.pinned:
        st.caption(f"{page.setting_name('A')}. {texts.pinned}")
    for kind in page.kinds(both.map(lambda read: read.sums)):
        panels.rows_of_both(
            both.map(functools.partial(_sum_panels, kind=kind, start=start, scaled=scaled)),
            lambda drawn: data.scale(
                "entry of a vector", [panel.values.dense() for panel in drawn]
            ),
            key=f"sum_{kind}",
            unit="entries",
            row_label="position",
            column_label="dimension",
            height=SUM_HEIGHT,
            text_alternative=f"Token vectors, positions of {SCHEMES[kind].label} and their sum.",
        )
    page.table(both.map(lambda read: read.table))
    if any(read.sums for read in both.each):
        st.caption(
            "Norms are root mean squares. Ratio: token over position. Share: position's part of the "
            "sum's expected squared norm."
        )
    if text := sentences.nothing_added(both.current):
        st.caption(text)


@memoize_on
def _sum_panels(read: SumsPage, kind: str, start: str, scaled: bool) -> list[Panel]:
    if kind not in read.sums:
        return []
    added = read.sums[kind]
    content, position, total = (Full(picture) for picture in added.pictures)
    parts = {
        "Tokens times sqrt(d)" if scaled else "Tokens": (content, f"drawn as {STARTS[start]}"),
        f"Position: {SCHEMES[kind].label}": (position, "its rows"),
        "Sum": (total, "input of the first layer"),
    }
    rows, columns = added.pictures[0].shape
    return [
        Panel(
            title=title,
            values=values,
            subtitle=f"{text}, the first {count_of(rows, 'position')} and {columns} of {added.width:,} "
            "dimensions",
            color=theme.COLOURS[kind],
            features=True,
        )
        for title, (values, text) in parts.items()
    ]
