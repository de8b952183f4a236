"""Similarity: which positions look alike to attention, pair by pair and by offset."""

import streamlit as st

from dashboard import (
    charts,
    choices,
    compute,
    controls,
    exercise,
    frames,
    page,
    panels,
    predictions,
    sentences,
)
from posenc.analysis import similarity

setting = page.setting()
queries = {kind: compute.query(setting, kind) for kind in setting.schemes}
found, reasons = compute.each(compute.cosine, queries)
page.left_out(reasons, found)
boundary = frames.boundary(setting, setting.length - 1)

header = st.container()
looks = exercise.ask("similarity", setting, predictions.of_similarity(setting, found), found)
with header:
    page.head("Similarity", sentences.similarity(setting, found) if looks else exercise.WITHHELD)
sentences.show_notices(found)
if looks:
    panels.cosine_row(panels.cosine_panels(setting, found), key="similarity")
else:
    page.notes(setting, {kind: one.kernel.provenance for kind, one in found.items()})

by_offset = frames.by_offset(found, boundary)
left, right = st.columns(2)
with left:
    st.subheader("By distance", anchor=False)
    st.caption(
        "Mean over all pairs at a distance; the band runs from the lowest to the highest, "
        "for a mean of heads from the lowest head to the highest."
    )
    if looks:
        st.vega_lite_chart(
            frames.drawn(by_offset),
            charts.by_offset(setting.schemes, "distance, query minus key", "cosine similarity"),
            key="by_offset",
        )
with right:
    st.subheader("From one position", anchor=False)
    chosen = controls.choices(choices.SimilarityChoice)
    reference = min(chosen.reference, setting.length - 1)
    rows = {kind: compute.reference_row(queries[kind], reference) for kind in found}
    one_row = frames.lines(rows, boundary)
    if looks:
        st.vega_lite_chart(
            frames.drawn(one_row),
            charts.by_offset(setting.schemes, "key position", "cosine similarity", band=False),
            key="one_row",
        )
    instead = f" instead of {chosen.reference:,}" if chosen.reference != reference else ""
    last = ", the last one shown" if instead else ""
    st.caption(f"From query position {reference:,}{last}{instead}.")
    missing = tuple(kind for kind, row in rows.items() if row is None)
    if missing:
        st.caption(f"{page.names(missing)}: no row exists at position {reference:,}.")

page.how_to_read(
    "Row i, column j of a matrix says how alike positions i and j are when content is held fixed: "
    "1 is identical, 0 unrelated, below 0 opposed. A matrix whose diagonals are even depends on the "
    "distance alone, so the curve by distance says everything it says. Blank cells have no value: a "
    "learned table has no row past its last. The dashed line is the training length."
)
page.definition(
    r"\cos(i, j) = \frac{K(i, j)}{\sqrt{K(i, i)\,K(j, j)}}",
    "K is the position kernel, the effect of position alone: the inner product of the stored vectors "
    "(learned, sinusoidal), the expected logit of unit content (RoPE), or the factor on the attention "
    "weight (ALiBi). Scaled to a unit diagonal all of them are cosine similarities; for ALiBi that is "
    r"$e^{-s|i-j|}$.",
    similarity.cosine_curve,
    similarity.cosine_matrix,
)
if looks:
    page.numbers(by_offset.rename(columns={"x": "distance", "y": "mean"}), "similarity by distance")
    page.numbers(
        one_row.rename(columns={"x": "position", "y": "cosine"}), "similarity to one position"
    )
