"""The Encoding page's matrices: one row per unit, and position added to token embeddings."""

import functools

import pandas as pd
import streamlit as st

from dashboard.ab import AB
from dashboard.cache import memoize_on
from dashboard.charts import theme
from dashboard.components.matrix import Full, Panel
from dashboard.frame import page, panels
from dashboard.pages.encoding import charts, data, sentences
from dashboard.pages.encoding.data import BIAS, WAVES, EncodingPage, SumsPage
from posenc.analysis import STARTS
from posenc.schemes import SCHEMES
from posenc.text import count_of

HEIGHT, SUM_HEIGHT = 250, 220  # CSS pixels


def draw(both: AB[EncodingPage], slopes: AB[pd.DataFrame]) -> None:
    """Draw every matrix; one colour scale never spans two units, so each unit has a row of its own.

    slopes: those of ALiBi's heads, a chart beside the matrices that are alone in their row.
    """
    units: dict[str, list[str]] = {}
    for read in both.each:
        for kind, scheme in read.with_matrix.items():
            kinds = units.setdefault(scheme.unit, [])
            if kind not in kinds:
                kinds.append(kind)
    # Beside a pinned setting each is a row of three: B, A and their difference.
    alone = [] if both.compared else [unit for unit, kinds in units.items() if len(kinds) == 1]
    for unit, kinds in units.items():
        if unit not in alone:
            _draw_unit(unit, kinds, both)
    has_slopes = any(len(table) for table in slopes.each)
    if alone or has_slopes:
        columns = st.columns(max(2, len(alone) + has_slopes))
        for unit, column in zip(alone, columns, strict=False):
            with column:
                _draw_unit(unit, units[unit], both)
        if has_slopes:
            with columns[len(alone)]:
                title = "ALiBi: slope of each head"
                st.markdown(f"**{title}**")
                page.chart(slopes, charts.slopes, key="slopes", title=title)
    for kind, scheme in both.current.schemes.items():
        if scheme.matrix is None:
            st.info(
                f"{SCHEMES[kind].label} adds no numbers, so there is no matrix. "
                f"{SCHEMES[kind].summary}",
                icon=":material/info:",
            )


def _draw_unit(unit: str, kinds: list[str], both: AB[EncodingPage]) -> None:
    """Draw the matrices of one unit. kinds: the schemes of either setting that have one."""
    is_bias = unit == BIAS
    panels.rows_of_both(
        both.map(
            lambda read: [
                _panel(read, kind)
                for kind, scheme in read.with_matrix.items()
                if scheme.unit == unit
            ]
        ),
        lambda drawn: data.scale(
            unit, [] if unit == WAVES else [panel.values.dense() for panel in drawn]
        ),
        key=f"encoding_{unit.split()[0]}",
        unit="logits" if is_bias else "entries",
        row_label="query position" if is_bias else "position",
        column_label="key position" if is_bias else "dimension",
        height=HEIGHT,
        text_alternative=(
            f"{unit.capitalize()} of {page.names(tuple(kinds))}, "
            + ("query by key" if is_bias else "position by dimension")
            + "; the arrow keys read a cell, and a table below holds the first numbers."
        ),
    )


@memoize_on
def _panel(read: EncodingPage, kind: str) -> Panel:
    scheme, setting = read.schemes[kind], read.setting
    assert scheme.matrix is not None
    order = ", ".join(scheme.features[:3]) + (", ..." if len(scheme.features) > 3 else "")
    named = bool(scheme.features) and not scheme.features[0].isdigit()
    cut = sentences.cut(scheme, asked=setting.length)
    note = page.panel_note(setting, kind, scheme.provenance)
    return Panel(
        title=SCHEMES[kind].label,
        values=scheme.matrix,
        subtitle="; ".join(part for part in (note, cut) if part),
        column_label=f"dimension: {order}" if named else None,
        boundary=setting.train_length if setting.train_length < scheme.matrix.shape[0] else None,
        color=theme.COLOURS[kind],
        features=bool(scheme.features),
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
