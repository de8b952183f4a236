"""The matrices of the Similarity page: of B, of A, and their difference, on one scale and crosshair."""

import functools
from collections.abc import Mapping, Sequence

import streamlit as st

from dashboard.ab import Pair
from dashboard.charts import theme
from dashboard.components.matrix import Panel, Scale
from dashboard.compute import schemes
from dashboard.compute.schemes import Similarity
from dashboard.frame import page
from dashboard.frame.panels import NOW, PINNED, beside
from dashboard.pages.similarity.data import Read
from dashboard.pages.similarity.options import SimilarityChoice
from dashboard.server.incidents import answered
from posenc import fields
from posenc.schemes import SCHEMES
from posenc.settings import Setting

KEY = "similarity"
SHARED = Scale(-1.0, 1.0, "diverging", "position similarity")
FROM_ZERO = Scale(0.0, 1.0, "sequential", "position similarity")


def draw(read: Pair[Read], *, from_zero: bool) -> None:
    """Draw similarity of B, and where a setting is pinned of A and their difference."""
    now, then = read.now, read.pinned
    scale = FROM_ZERO if from_zero else SHARED
    if then is None or not then.found:
        _row(now, KEY, scale)
        return
    rows = [
        (NOW, len(now.found), functools.partial(_row, now, KEY, scale)),
        (PINNED, len(then.found), functools.partial(_row, then, f"{KEY}_pinned", scale)),
    ]
    both = [kind for kind in now.found if kind in then.found]
    if both:
        caption = "The difference, B minus A, over the positions that both show."
        changes = functools.partial(_changes, both, now.setting, then.setting)
        rows.append((caption, len(both), changes))
    beside(rows)


def _row(read: Read, key: str, scale: Scale) -> None:
    """Draw the matrices of one setting; a cell that a visitor pins in those of B goes into the link."""
    of_b = key == KEY
    page.matrices(
        _panels(read.setting, read.found),
        key=key,
        scale=scale,
        text_alternative=(
            f"Position similarity of query and key for {page.names(tuple(read.found))}, from "
            f"{scale.low:g} to 1; the arrow keys read a cell, and the tables below hold the numbers of "
            "the curves."
        ),
        cell=(read.reference, read.key) if of_b else None,
        on_cell=pin_cell if of_b else None,
    )


@answered
def pin_cell() -> None:
    """Take the cell that a visitor pinned as the page's query and key."""
    cell = st.session_state[KEY].cell
    rules = fields.rules(SimilarityChoice)
    for name, position in zip(("reference", "key_position"), cell or (), strict=False):
        if rules[name].accepts(position):
            st.session_state[name] = position


def _panels(setting: Setting, found: Mapping[str, Similarity]) -> list[Panel]:
    """Return the panels of similarity, the training length drawn where it is inside."""
    drawn = next(iter(found.values())).matrix.shape[0]
    boundary = setting.train_length if setting.train_length < drawn else None
    cut = f"; the first {drawn} of {setting.length:,} positions" if drawn < setting.length else ""
    return [
        Panel(
            title=SCHEMES[kind].label,
            values=result.matrix,
            subtitle=page.panel_note(setting, kind, result.kernel.provenance) + cut,
            boundary=boundary,
            color=theme.COLOURS[kind],
        )
        for kind, result in found.items()
    ]


def _changes(both: Sequence[str], now: Setting, then: Setting) -> None:
    """Draw the differences of similarity of the schemes that both settings show."""
    changes = {
        kind: schemes.cosine_change(schemes.query(now, kind), schemes.query(then, kind))
        for kind in both
    }
    page.matrices(
        [
            Panel(
                title=SCHEMES[kind].label,
                values=change,
                subtitle="B minus A",
                color=theme.COLOURS[kind],
            )
            for kind, change in changes.items()
        ],
        key=f"{KEY}_change",
        scale=Scale.around_zero(changes.values(), "difference of similarity"),
        text_alternative=(
            f"Position similarity of the setting at hand minus that of the pinned one for "
            f"{page.names(tuple(both))}."
        ),
    )
