"""Similarity: which positions look alike to attention, pair by pair and by offset."""

import streamlit as st

from dashboard import results
from dashboard.ab import AB
from dashboard.charts import frames, lines, theme
from dashboard.components.matrix import MatrixValues, Panel, Scale
from dashboard.controls import sidebar
from dashboard.controls.page_controls import SHOWN, UsedControls
from dashboard.frame import page, panels
from dashboard.pages.similarity import data
from dashboard.pages.similarity.options import SimilarityChoice
from dashboard.script import requests_in_python, whole_script
from dashboard.server.incidents import show_callback_errors
from posenc import fields
from posenc.analysis import similarity
from posenc.schemes import SCHEMES

FROM_ZERO = Scale(0.0, 1.0, "sequential", "position similarity")
FROM_MINUS_ONE = Scale(-1.0, 1.0, "diverging", "position similarity")

used_controls = UsedControls(SHOWN)


def draw() -> None:
    """Draw the page."""
    settings = page.settings()
    header, pictures, colours = st.container(), st.container(), st.container()
    by_distance, one_position = st.columns(2)
    with one_position:
        st.subheader("From one position", anchor=False)
        cell = st.container(horizontal=True)
    places = {"reference": cell, "key_position": cell, "from_zero": colours}
    chosen = sidebar.choices(SimilarityChoice, places)
    read = settings.map(lambda setting: data.read(setting, chosen))
    current = read.current
    with header:
        page.show_excluded(read, current.results, "Similarity")
        page.head("Similarity", read.map(lambda result: result.headline))
        page.show_notices(current.results)
    with pictures:
        _draw_matrices(read, FROM_ZERO if chosen.from_zero else FROM_MINUS_ONE)
    kinds = page.kinds(settings)
    with by_distance:
        st.subheader("By distance", anchor=False)
        st.caption(
            "Line: mean over all pairs at a distance. Band: from the lowest pair to the highest; for a "
            "mean of heads, from the lowest head to the highest."
        )
        page.curves(
            read.map(lambda result: lines.labelled(frames.drawn(result.by_offset))),
            lines.by_offset, kinds, "query-key distance (tokens)", "position similarity",
            labels=True, key="by_offset", title="Position similarity by distance",
        )  # fmt: skip
    with one_position:
        st.caption(current.cell)
        page.curves(
            read.map(lambda result: lines.labelled(frames.drawn(result.one_row))),
            lines.by_offset, kinds, "key position", "position similarity", band=False,
            labels=True, key="one_row",
            title=f"Position similarity of query {current.reference:,} and each key",
        )  # fmt: skip
        if chosen.reference != current.reference:
            st.caption(
                f"The last position shown is {current.reference:,}; it is used as the query."
            )
        if current.missing:
            st.caption(
                f"{page.names(current.missing)}: no row exists at position {current.reference:,}."
            )

    if jump := page.last_row(settings):
        st.caption(jump)
    page.how_to_read(
        "Content is fixed; only position varies. Row i, column j is the position similarity of "
        "query i and key j: 1 is identical, 0 unrelated, below 0 opposed. Compare shapes, not "
        "heights. If every diagonal of a matrix has one colour, only the distance matters. Cells "
        "without a value are hatched: a learned table ends at its last row. The dashed line is "
        "the training length. Click a cell to pin it; the link holds the pinned cell."
    )
    page.define_similarity(similarity.cosine_curve, similarity.cosine_matrix)
    page.numbers(
        read.map(lambda result: result.by_offset),
        "similarity by distance",
        {"x": "distance", "y": "mean"},
    )
    page.numbers(
        read.map(lambda result: result.one_row),
        "similarity to one position",
        {"x": "position", "y": "cosine"},
    )
    page.script(whole_script(data.IMPORTS, requests_in_python(settings.current), data.SCRIPT))


def _draw_matrices(read: AB[data.Read], scale: Scale) -> None:
    """Draw similarity of B, and where a setting is pinned of A and their difference."""
    settings = read.map(lambda result: result.setting)

    def change(current: Panel, _: Panel) -> MatrixValues:
        (kind,) = (kind for kind in read.current.results if SCHEMES[kind].label == current.title)
        requests = settings.map(lambda setting: results.request(setting, kind))
        return results.cosine_change(requests.current, requests.pinned or requests.current)

    panels.rows_of_both(
        read.map(_panels),
        lambda _: scale,
        key="similarity",
        unit="similarity",
        cell=(read.current.reference, read.current.key),
        on_cell=pin_cell,
        change=change,
        text_alternative=(
            f"Position similarity of query and key for {page.names(tuple(read.current.results))}, from "
            f"{scale.low:g} to 1; the arrow keys read a cell, and the tables below hold the numbers of "
            "the curves."
        ),
    )


@show_callback_errors
def pin_cell(key: str) -> None:
    """Take the cell that a visitor pinned in a row of matrices as the page's query and key."""
    cell = st.session_state[key].cell
    rules = fields.rules(SimilarityChoice)
    for name, position in zip(("reference", "key_position"), cell or (), strict=False):
        if rules[name].accepts(position):
            st.session_state[name] = position


def _panels(read: data.Read) -> list[Panel]:
    """Return the panels of similarity, the training length drawn where it is inside."""
    setting, drawn_panels = read.setting, []
    for kind, result in read.results.items():
        drawn = result.matrix.shape[0]
        note = page.panel_note(setting, kind, result.kernel.provenance)
        if drawn < setting.length:
            note += f"; the first {drawn} of {setting.length:,} positions"
        drawn_panels.append(
            Panel(
                title=SCHEMES[kind].label,
                values=result.matrix,
                subtitle=note,
                boundary=setting.train_length if setting.train_length < drawn else None,
                color=theme.COLOURS[kind],
            )
        )
    return drawn_panels
