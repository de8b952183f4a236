"""Relative offsets: three separate claims, each with a control, each able to fail."""

import numpy as np
import streamlit as st

from dashboard.charts import theme
from dashboard.compute import schemes
from dashboard.controls import sidebar
from dashboard.frame import coinciding, page, panels
from dashboard.pages.relative_offsets import data, frames, script
from dashboard.pages.relative_offsets.options import OffsetChoice
from posenc import rotation
from posenc.analysis import linear_map
from posenc.analysis.offset_checks import OFFSETS
from posenc.schemes import alibi


def draw() -> None:
    """Draw the page."""
    settings = page.settings()
    header = st.container()
    chosen = sidebar.choices(OffsetChoice)
    read = settings.map(lambda setting: data.read(setting, chosen))
    now = read.now
    with header:
        page.left_out(now.reasons, now.claims, "Relative offsets", page.reasons(read))
        page.head("Relative offsets", read.map(lambda one: one.headline))

    st.subheader("One matrix per offset", anchor=False)
    st.caption(
        f"Is phi(i + {chosen.offset}) = M phi(i) with one M for every position i? phi(i) is the vector of "
        "position i: the row PE(i), or for RoPE a fixed content turned to position i. Relative errors: "
        "predicting nothing gives 1. Beside each stands the same on a random table of the same shape: "
        "about 1 or more."
    )
    page.table(read.map(lambda one: one.map_table.drop(columns="verdict", errors="ignore")))
    st.markdown(
        "\n".join(f"- **{row.scheme}**: {row.verdict}" for row in now.map_table.itertuples())
    )
    page.notes(
        settings.now, {kind: schemes.provenance(query) for kind, query in now.queries.items()}
    )
    lines = tuple(
        kind
        for kind in page.kinds(settings)
        if any(
            kind in one.errors and np.isfinite(one.errors[kind]["error"]).any()
            for one in (now, read.pinned)
            if one is not None
        )
    )
    if lines:
        coinciding.draw(
            read.map(data.errors), theme.map_errors, lines, key="map_errors",
        )  # fmt: skip
        st.caption(
            "The error that each verdict rests on: of the closed form, for Learned of the fitted matrix. "
            "Thin grey dashes: the mean of their random tables."
        )
    wide = tuple(kind for kind, one in now.errors.items() if len(one["offset"]) < len(OFFSETS))
    if wide:
        st.caption(f"Every third offset for the wide vectors of {page.names(wide)}.")
    panels.map_rows(read.map(lambda one: (one.setting, one.maps)), chosen.offset)

    fitting = st.toggle(
        "Fit one matrix without knowing the scheme",
        key="dense",
        help="Takes some seconds: least squares on half the positions, scored on the others.",
    )
    st.caption("It is not in the link: opening a link never starts anything heavy.")
    if fitting:
        fits = read.map(
            lambda one: {
                kind: schemes.dense_fit(query, chosen.offset) for kind, query in one.queries.items()
            }
        )
        dense = fits.map(frames.dense_fits)
        page.table(dense)
        page.numbers(dense, "dense fits")
        page.lines({kind: fit.reason for kind, fit in fits.now.items() if fit.reason})

    st.subheader("Depends on the offset only", anchor=False)
    st.caption("Spread of K(i, i + k) along its diagonals over the overall spread: 0 is exact.")
    page.table(read.map(lambda one: one.only))

    st.subheader("Straight line in the offset", anchor=False)
    st.caption(
        "R squared of what position adds to a logit against the distance: 1 is a straight line."
    )
    page.table(read.map(lambda one: one.straight))

    page.how_to_read(
        "The three claims are often told as one, and a scheme can meet one without the others. Existence "
        "of a matrix is not the question: every kernel that depends on the offset alone has an exact "
        "shift. What differs is whether one finite matrix can be recovered from some positions and then "
        "holds for others. Every fit stands beside the same fit on a random table; a closed form "
        "is checked, "
        "not fitted, and its error is rounding alone where it is true. In the dense fit, rank below width "
        "means that the fit interpolates; later positions are those past all fitted ones."
    )
    page.definition(
        r"\varphi(i + k) = M_k\,\varphi(i), \qquad M_a M_b = M_{a+b}",
        "Sinusoidal and RoPE: a block rotation, one angle per pair. ALiBi: each head's vectors gain a "
        "dimension per position, and the shift moves them along. Learned: no closed form; one matrix is "
        "fitted to half the positions and scored on the other half.",
        rotation.pair_matrix,
        alibi.expanding_shift,
        linear_map.verify_map,
    )
    page.numbers(read.map(lambda one: one.map_table), "one matrix per offset")
    page.numbers(read.map(lambda one: one.by_offset), "map errors by offset")
    page.numbers(read.map(lambda one: one.only), "offset only")
    page.numbers(read.map(lambda one: one.straight), "straight line")
    page.script(script.script(settings.now, chosen))
