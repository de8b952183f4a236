"""Matrices side by side: one panel per scheme, titled, coloured and labelled the same on every page."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard import charts, compute, page
from dashboard.compute import Similarity
from dashboard.matrix import Full, MatrixValues, Panel, Scale, minus
from dashboard.pair import Pair
from posenc import Setting
from posenc.analysis.offset_checks import OffsetMap
from posenc.schemes import SCHEMES

ENTRY = Scale(-1.0, 1.0, "diverging", "entry of M")
COSINE = Scale(-1.0, 1.0, "diverging", "cosine similarity")


def panel(
    setting: Setting, kind: str, values: MatrixValues, subtitle: str, boundary: int | None = None
) -> Panel:
    """Return one scheme's panel under its fixed title and colour."""
    return Panel(
        title=SCHEMES[kind].label,
        values=values,
        subtitle=subtitle,
        boundary=boundary,
        color=charts.COLOURS[kind],
    )


def columns(kinds: Sequence[str], most: int) -> Iterator[tuple[DeltaGenerator, str]]:
    """Yield a column for every scheme, at most so many beside each other, the rows alike in length."""
    rows = math.ceil(len(kinds) / most)
    beside = math.ceil(len(kinds) / max(1, rows))
    for start in range(0, len(kinds), max(1, beside)):
        yield from zip(st.columns(beside), kinds[start : start + beside], strict=False)


Found = tuple[Setting, Mapping[str, Similarity]]


def cosine_panels(setting: Setting, found: Mapping[str, Similarity]) -> list[Panel]:
    """Return the panels of cosine similarity, the training length drawn where it is inside."""
    drawn = next(iter(found.values())).matrix.shape[0]
    boundary = setting.train_length if setting.train_length < drawn else None
    cut = f"; the first {drawn} of {setting.length:,} positions" if drawn < setting.length else ""
    return [
        panel(
            setting,
            kind,
            result.matrix,
            page.panel_note(setting, kind, result.kernel.provenance) + cut,
            boundary,
        )
        for kind, result in found.items()
    ]


def cosine_rows(found: Pair[Found], key: str) -> None:
    """Draw cosine similarity matrices: of B, and where one is pinned of A and their difference."""
    cosine_row(cosine_panels(*found.now), key)
    if found.pinned is None or not found.pinned[1]:
        return
    st.caption("The pinned setting, A.")
    cosine_row(cosine_panels(*found.pinned), f"{key}_pinned")
    (now, ours), (then, theirs) = found.now, found.pinned
    both = [kind for kind in ours if kind in theirs]
    if not both:
        return
    st.caption("The difference, B minus A, over the positions that both show.")
    changes = {
        kind: compute.cosine_change(compute.query(now, kind), compute.query(then, kind))
        for kind in both
    }
    page.matrices(
        [
            Panel(
                title=SCHEMES[kind].label,
                values=change,
                subtitle="B minus A",
                color=charts.COLOURS[kind],
            )
            for kind, change in changes.items()
        ],
        key=f"{key}_change",
        scale=Scale.around_zero(changes.values(), "difference of cosines"),
        text_alternative=(
            f"Cosine similarity of the setting at hand minus that of the pinned one for "
            f"{page.names(tuple(both))}."
        ),
    )


def cosine_row(panels: Sequence[Panel], key: str, height: int | None = None) -> None:
    """Draw cosine similarity matrices on the one scale that every page uses."""
    named = ", ".join(panel.title for panel in panels)
    page.matrices(
        panels,
        key=key,
        scale=COSINE,
        height=height,
        text_alternative=(
            f"Cosine similarity between query and key positions for {named}, from -1 to 1; the "
            "arrow keys read a cell, and the tables below hold the numbers of the curves."
        ),
    )


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
    if panels.now:
        page.matrices(
            panels.now, key=key, scale=colours, text_alternative=text_alternative, **layout
        )
    if not panels.pinned:
        return
    st.caption("The pinned setting, A.")
    said = f"Of the pinned setting: {text_alternative}"
    page.matrices(
        panels.pinned, key=f"{key}_pinned", scale=colours, text_alternative=said, **layout
    )
    then = {one.title: one for one in panels.pinned}
    changes = [_change(one, then[one.title]) for one in panels.now if one.title in then]
    if changes:
        st.caption("The difference, B minus A, of the entries that both draw.")
        page.matrices(
            changes,
            key=f"{key}_change",
            scale=Scale.around_zero([one.values for one in changes], f"difference of {unit}"),
            text_alternative=f"Of the setting at hand minus the pinned one: {text_alternative}",
            **(layout | {"together": 1}),
        )


def _change(now: Panel, then: Panel) -> Panel:
    """Return what B draws minus what A draws, where both draw."""
    rows, columns = map(min, zip(now.values.shape, then.values.shape, strict=True))
    ours, theirs = (Full(one.values.dense()[:rows, :columns]) for one in (now, then))
    return replace(now, values=minus(ours, theirs), subtitle="B minus A", boundary=None)


def map_rows(found: Pair[tuple[Setting, Mapping[str, OffsetMap]]], offset: int) -> None:
    """Draw the first entries of every scheme's matrix for one offset: of B, of A, their difference."""
    said = f"M for offset {offset}, its first entries"
    panels = found.map(lambda one: _map_panels(one[1], said))
    if panels.now:
        rows_of_both(
            panels,
            lambda _: ENTRY,
            key="offset_maps",
            unit="entries",
            row_label="feature after",
            column_label="feature before",
            text_alternative=(
                f"The matrix that moves every position by {offset}, for "
                f"{', '.join(one.title for one in panels.now)}: entries from -1 to 1."
            ),
        )


def _map_panels(found: Mapping[str, OffsetMap], said: str) -> list[Panel]:
    return [
        Panel(
            title=SCHEMES[kind].label,
            values=Full(one.picture),
            subtitle=said,
            color=charts.COLOURS[kind],
        )
        for kind, one in found.items()
        if one.picture is not None
    ]
