"""Matrices of B beside those of the pinned setting, A, and the difference of both."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import streamlit as st

from dashboard.ab import AB
from dashboard.components.matrix import Full, MatrixValues, Panel, Scale, minus
from dashboard.controls import pin
from dashboard.frame import page
from dashboard.text import listed, plain


def _difference(b: Panel, a: Panel) -> MatrixValues:
    """Return what B draws minus what A draws, where both draw."""
    rows, columns = map(min, zip(b.values.shape, a.values.shape, strict=True))
    return minus(*(Full(panel.values.dense()[:rows, :columns]) for panel in (b, a)))


def rows_of_both(
    panels: AB[Sequence[Panel]],
    scale: Callable[[Sequence[Panel]], Scale],
    *,
    key: str,
    unit: str,
    text_alternative: str,
    on_cell: Callable[[str], None] | None = None,
    change: Callable[[Panel, Panel], MatrixValues] = _difference,
    **layout: Any,
) -> None:
    """Draw matrices of B, and where a setting is pinned those of A and the differences beside them.

    scale: makes the colours of B's and A's matrices together. Panels belong together by their title; those
    that are equal in both settings are named and left out. on_cell: called with a row's key when a visitor
    pins a cell of it. change: of two panels, by default the difference of their first cells.
    """
    pinned = {panel.title: panel for panel in panels.pinned or ()}
    changes = [
        replace(
            panel, values=change(panel, pinned[panel.title]), subtitle="B minus A", boundary=None
        )
        for panel in panels.current
        if panel.title in pinned
    ]
    equal = [panel.title for panel in changes if _all_zero(panel)]
    of_now, of_pinned, changed = (
        [panel for panel in row if panel.title not in equal]
        for row in (panels.current, pinned.values(), changes)
    )
    beside = bool(pinned and (of_now or of_pinned))
    if equal:
        st.caption(_no_difference(equal))
        of_now = of_now if beside else [*panels.current]
    colours = scale([*panels.current, *pinned.values()])
    difference = Scale.around_zero([panel.values for panel in changed], f"difference of {unit}")
    names = pin.names(page.settings())
    rows = [
        (names["B"], of_now, key, colours, "", {}),
        (names["A"], of_pinned, f"{key}_pinned", colours, "Pinned setting: ", {}),
        ("Difference: B minus A", changed, f"{key}_change", difference,
         "Current minus pinned setting: ", {"together": 1}),
    ]  # fmt: skip
    rows = [row for row in rows if row[1]]
    places = st.columns(len(rows)) if beside else [st.container() for _ in rows]
    for i, (name, shown, row_key, shades, lead, own_layout) in enumerate(rows):
        if beside:  # with room for a long name, so that matrices stay level
            places[i].container(key=f"setting_{row_key}").markdown(f"**{plain(name)}**")
        with places[i]:
            saved = f"{names['B']} minus {names['A']}" if shown is changed else name
            page.matrices(
                shown, name=saved if beside else "", key=row_key, scale=shades,
                text_alternative=f"{lead}{text_alternative}",
                on_cell=functools.partial(on_cell, row_key) if on_cell else None,
                **(layout | own_layout),
            )  # fmt: skip


def _all_zero(panel: Panel) -> bool:
    values = panel.values.dense()
    numbers = values[~np.isnan(values)]
    return bool(numbers.size) and not numbers.any()


def _no_difference(titles: Sequence[str]) -> str:
    """Say which controls, changed from A to B, leave the matrices of these titles as they are."""
    names = listed([*dict.fromkeys(title.partition(", ")[0] for title in titles)])
    controls = [f"the {label}" for label, *_ in pin.changed(page.settings())]
    if not controls:
        return f"A and B are equal for {names}."
    text = listed(controls)
    verb = "do" if len(controls) > 1 else "does"
    return (
        f"T{text[1:]} {verb} not affect {names}: no matrices are drawn of what is equal in A and B."
    )
