"""Matrices of B beside those of the pinned setting, A, and the difference of both."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import streamlit as st

from dashboard.ab import AB
from dashboard.components.matrix import Full, MatrixValues, Panel, Scale, Waves, minus
from dashboard.frame import page


def rows_of_both(
    panels: AB[Sequence[Panel]],
    scale: Callable[[Sequence[Panel]], Scale],
    *,
    key: str,
    unit: str,
    text_alternative: str,
    of_b: dict[str, Any] | None = None,
    change: Callable[[Panel, Panel], MatrixValues] | None = None,
    **layout: Any,
) -> None:
    """Draw matrices of B, and where one is pinned those of A and the difference of what both draw.

    scale: makes the colours of B's and A's matrices together. Panels belong together by their title.
    of_b: more for the row of B. change: of two panels, by default the difference of their first cells.
    """
    now, pinned = panels.now, panels.pinned or ()
    then = {panel.title: panel for panel in pinned}
    changes = [
        replace(
            panel,
            values=(change or _change)(panel, then[panel.title]),
            subtitle="B minus A",
            boundary=None,
        )
        for panel in now
        if panel.title in then
    ]
    colours = scale([*now, *pinned])
    about = Scale.around_zero([panel.values for panel in changes], f"difference of {unit}")
    rows = [
        ("The current setting, B.", now, key, colours, "", of_b or {}),
        ("The pinned setting, A.", pinned, f"{key}_pinned", colours, "Pinned setting: ", {}),
        ("The difference, B minus A.", changes, f"{key}_change", about,
         "Current minus pinned setting: ", {"together": 1}),
    ]  # fmt: skip
    rows = [row for row in rows if row[1]]
    narrow = len(rows) > 1 and all(len(row[1]) == 1 for row in rows)
    places = st.columns(len(rows)) if narrow else [st.container() for _ in rows]
    for place, (caption, drawn, name, shades, whose, own) in zip(places, rows, strict=True):
        with place:
            if pinned:
                st.caption(caption)
            page.matrices(
                drawn, key=name, scale=shades, text_alternative=f"{whose}{text_alternative}",
                **(layout | own),
            )  # fmt: skip


def _change(now: Panel, then: Panel) -> MatrixValues:
    """Return what B draws minus what A draws, where both draw."""
    rows, columns = map(min, zip(now.values.shape, then.values.shape, strict=True))
    ours, theirs = (
        panel.values.first(rows, columns)
        if isinstance(panel.values, Waves)
        else Full(panel.values.dense()[:rows, :columns])
        for panel in (now, then)
    )
    return minus(ours, theirs)
