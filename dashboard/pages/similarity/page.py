"""Similarity: which positions look alike to attention, pair by pair and by offset."""

import streamlit as st

from dashboard.charts import frames, theme
from dashboard.controls import page_options, sidebar
from dashboard.frame import coinciding, page, panels, predictions, quiz, sentences
from dashboard.pages.similarity import data as sheet
from dashboard.pages.similarity import script
from posenc.analysis import similarity


def draw() -> None:
    """Draw the page."""
    settings = page.settings()
    header, question = st.container(), st.container()
    matrices = st.container()
    by_distance = st.container()
    # Drawn once somebody opens it: two charts would double what a moved slider waits for.
    one_position = st.expander(
        "From one position",
        key="from_one_position",
        on_change="rerun",
        icon=":material/my_location:",
    )
    with one_position:
        chosen = sidebar.choices(page_options.SimilarityChoice)
    read = settings.map(lambda setting: sheet.read(setting, chosen))
    now = read.now
    with question:
        page.left_out(now.reasons, now.found, "Similarity", page.reasons(read))
        asked = predictions.of_similarity(settings.now, now.found)
        looks = quiz.ask("similarity", settings.now, asked, now.found)
    with header:
        page.head("Similarity", read.map(lambda one: one.headline) if looks else quiz.WITHHELD)
        sentences.show_notices(now.found)
    with matrices:
        if looks:
            panels.cosine_rows(read.map(lambda one: (one.setting, one.found)), key="similarity")
        else:
            notes = {kind: one.kernel.provenance for kind, one in now.found.items()}
            page.notes(settings.now, notes)
    kinds = page.kinds(settings)
    with by_distance:
        st.subheader("By distance", anchor=False)
        st.caption(
            "Mean over all pairs at a distance; the band runs from the lowest to the highest, "
            "for a mean of heads from the lowest head to the highest."
        )
        if looks:
            coinciding.draw(
                read.map(sheet.by_distance),
                theme.by_offset, kinds, "distance, query minus key", "cosine similarity",
                key="by_offset",
            )  # fmt: skip
    with one_position:
        if looks and one_position.open:
            coinciding.draw(
                read.map(lambda one: coinciding.lines(frames.drawn(one.one_row))),
                theme.by_offset, kinds, "key position", "cosine similarity", band=False,
                key="one_row",
            )  # fmt: skip
        instead = chosen.reference != now.reference
        last = f", the last one shown instead of {chosen.reference:,}" if instead else ""
        st.caption(f"From query position {now.reference:,}{last}.")
        if now.missing:
            st.caption(f"{page.names(now.missing)}: no row exists at position {now.reference:,}.")

    page.how_to_read(
        "Row i, column j of a matrix says how alike positions i and j are when content is held fixed: "
        "1 is identical, 0 unrelated, below 0 opposed. A matrix whose diagonals have one colour "
        "each depends on the distance alone, so the curve by distance says everything it says. Blank cells "
        "have no value: a learned table has no row past its last. The dashed line is the training length."
    )
    page.definition(
        r"\cos(i, j) = \frac{K(i, j)}{\sqrt{K(i, i)\,K(j, j)}}",
        "K is the position kernel, the effect of position alone: the inner product of the stored vectors "
        "(learned, sinusoidal), the expected logit of unit content (RoPE), or the factor on the attention "
        "weight (ALiBi and other biases). Scaled to a unit diagonal these are cosine "
        "similarities; for ALiBi "
        r"that is $e^{-s|i-j|}$. A kernel that tells before from after is scaled the same way, but has no "
        "vectors between which that would be an angle; a scheme that adds nothing without content has no "
        "kernel and is left out.",
        similarity.cosine_curve,
        similarity.cosine_matrix,
    )
    if looks:
        page.numbers(
            read.map(lambda one: one.by_offset),
            "similarity by distance",
            {"x": "distance", "y": "mean"},
        )
        page.numbers(
            read.map(lambda one: one.one_row),
            "similarity to one position",
            {"x": "position", "y": "cosine"},
        )
        page.script(script.script(settings.now, chosen))
