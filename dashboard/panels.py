"""Matrices side by side: one panel per scheme, titled, coloured and labelled the same on every page."""

from collections.abc import Mapping, Sequence

from dashboard import charts, page
from dashboard.compute import Similarity
from dashboard.matrix import Full, MatrixValues, Panel, Scale, matrix_row
from dashboard.offset_checks import OffsetMap
from posenc import Setting
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


def cosine_row(panels: Sequence[Panel], key: str, height: int | None = None) -> None:
    """Draw cosine similarity matrices on the one scale that every page uses."""
    named = ", ".join(panel.title for panel in panels)
    matrix_row(
        panels,
        key=key,
        scale=COSINE,
        height=height,
        text_alternative=(
            f"Cosine similarity between query and key positions for {named}, from -1 to 1; the "
            "arrow keys read a cell, and the tables below hold the numbers of the curves."
        ),
    )


def map_row(setting: Setting, found: Mapping[str, OffsetMap], offset: int) -> None:
    """Draw the first rows and columns of every scheme's matrix for one offset."""
    drawn = [
        panel(setting, kind, Full(one.picture), f"M for offset {offset}, its first entries")
        for kind, one in found.items()
        if one.picture is not None
    ]
    matrix_row(
        drawn,
        key="offset_maps",
        scale=ENTRY,
        row_label="feature after",
        column_label="feature before",
        text_alternative=(
            f"The matrix that moves every position by {offset}, for "
            f"{page.names(tuple(found))}: entries from -1 to 1."
        ),
    )
