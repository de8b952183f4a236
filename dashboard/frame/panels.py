"""Matrices side by side: one panel per scheme, titled, coloured and labelled the same on every page."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.ab import Pair
from dashboard.components.matrix import Full, MatrixValues, Panel, Scale, Waves, minus
from dashboard.frame import page

COLUMN = 240  # CSS pixels: four beside each other on a desk
NOW, PINNED = "The setting at hand, B.", "The pinned setting, A."


def columns(kinds: Sequence[str], most: int) -> Iterator[tuple[DeltaGenerator, str]]:
    """Yield a column for every scheme, at most so many beside each other, the rows alike in length."""
    rows = math.ceil(len(kinds) / most)
    beside = math.ceil(len(kinds) / max(1, rows))
    if beside > 3 and not page.on_phone():  # on a tablet two lines of two
        row = st.container(horizontal=True, gap="small")
        for kind in kinds:
            yield row.container(width=COLUMN), kind
        return
    for start in range(0, len(kinds), max(1, beside)):
        yield from zip(st.columns(beside), kinds[start : start + beside], strict=False)


def beside(rows: Sequence[tuple[str, int, Callable[[], None]]]) -> None:
    """Draw rows under each other, each under its caption; those of one panel stand side by side.

    rows: caption, number of panels, what draws them.
    """
    for alone, group in itertools.groupby(rows, key=lambda row: row[1] == 1):
        own = list(group)
        places = st.columns(len(own)) if alone and len(own) > 1 else [st.container() for _ in own]
        for place, (caption, _, draw) in zip(places, own, strict=True):
            with place:
                st.caption(caption)
                draw()


def rows_of_both(
    panels: Pair[Sequence[Panel]],
    scale: Callable[[Sequence[Panel]], Scale],
    *,
    key: str,
    unit: str,
    text_alternative: str,
    **layout: Any,
) -> None:
    """Draw matrices of B, and where one is pinned those of A and the difference of what both draw.

    scale: makes the colours of B's and A's matrices together. Panels belong together by their title.
    """
    both = [*panels.now, *(panels.pinned or ())]
    colours = scale(both)

    def row(drawn: Sequence[Panel], name: str, said: str, scale: Scale, **own: Any) -> None:
        page.matrices(drawn, key=name, scale=scale, text_alternative=said, **(layout | own))

    if not panels.pinned:
        if panels.now:
            row(panels.now, key, text_alternative, colours)
        return
    said = f"Of the pinned setting: {text_alternative}"
    pinned, rows = panels.pinned, []
    if panels.now:
        rows.append((NOW, len(panels.now), lambda: row(panels.now, key, text_alternative, colours)))
    rows.append((PINNED, len(pinned), lambda: row(pinned, f"{key}_pinned", said, colours)))
    then = {one.title: one for one in pinned}
    changes = [_change(one, then[one.title]) for one in panels.now if one.title in then]
    if changes:
        of = f"Of the setting at hand minus the pinned one: {text_alternative}"
        about = Scale.around_zero([one.values for one in changes], f"difference of {unit}")
        rows.append(
            (
                "The difference, B minus A, of the entries that both draw.",
                len(changes),
                lambda: row(changes, f"{key}_change", of, about, together=1),
            )
        )
    beside(rows)


def _change(now: Panel, then: Panel) -> Panel:
    """Return what B draws minus what A draws, where both draw."""
    rows, columns = map(min, zip(now.values.shape, then.values.shape, strict=True))
    ours, theirs = (_first(one.values, rows, columns) for one in (now, then))
    return replace(now, values=minus(ours, theirs), subtitle="B minus A", boundary=None)


def _first(values: MatrixValues, rows: int, columns: int) -> MatrixValues:
    """Return the first rows and columns of a matrix; of waves they are waves."""
    if isinstance(values, Waves):
        return values.first(rows, columns)
    return Full(values.dense()[:rows, :columns])
