"""Matrices side by side: one panel per scheme, titled, coloured and labelled the same on every page."""

from collections.abc import Mapping, Sequence

import numpy as np
import streamlit as st

from dashboard import charts, compute, page
from dashboard.compute import Array, Similarity
from dashboard.matrix import Full, MatrixValues, Panel, Scale
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
    largest = max(float(np.nanmax(np.abs(one.dense()), initial=0.0)) for one in changes.values())
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
        scale=difference_scale(largest, "difference of cosines"),
        text_alternative=(
            f"Cosine similarity of the setting at hand minus that of the pinned one for "
            f"{page.names(tuple(both))}, from {-largest:.3g} to {largest:.3g}."
        ),
    )


def difference_scale(largest: float, unit: str) -> Scale:
    """Return the colours of differences up to this size, 0 in the middle."""
    end = largest if largest > 0 else 1.0
    return Scale(-end, end, "diverging", unit)


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


def map_rows(found: Pair[tuple[Setting, Mapping[str, OffsetMap]]], offset: int) -> None:
    """Draw the first entries of every scheme's matrix for one offset: of B, of A, their difference."""
    ours, theirs = (
        {} if one is None else {k: m.picture for k, m in one[1].items() if m.picture is not None}
        for one in (found.now, found.pinned)
    )
    said = f"M for offset {offset}, its first entries"
    if ours:
        _map_row(ours, said, ENTRY, "offset_maps")
    if theirs:
        st.caption("The pinned setting, A.")
        _map_row(theirs, said, ENTRY, "offset_maps_pinned")
    changes = {}
    for kind in ours.keys() & theirs.keys():
        rows, columns = map(min, zip(ours[kind].shape, theirs[kind].shape, strict=True))
        changes[kind] = ours[kind][:rows, :columns] - theirs[kind][:rows, :columns]
    if changes:
        st.caption("The difference, B minus A, of the entries that both have.")
        largest = max(float(np.abs(one).max(initial=0.0)) for one in changes.values())
        scale = difference_scale(largest, "difference of entries")
        _map_row(
            {k: changes[k] for k in ours if k in changes}, "B minus A", scale, "offset_maps_change"
        )


def _map_row(pictures: Mapping[str, Array], said: str, scale: Scale, key: str) -> None:
    page.matrices(
        [
            Panel(
                title=SCHEMES[kind].label,
                values=Full(one),
                subtitle=said,
                color=charts.COLOURS[kind],
            )
            for kind, one in pictures.items()
        ],
        key=key,
        scale=scale,
        row_label="feature after",
        column_label="feature before",
        text_alternative=f"{said}, for {page.names(tuple(pictures))}: {scale.unit}.",
    )
