"""Why position: what one attention layer makes of a sentence whose words change places."""

import streamlit as st

from dashboard.controls import page_options, sidebar
from dashboard.frame import page
from dashboard.pages.why_order_matters import charts as drawn
from dashboard.pages.why_order_matters import data as why
from dashboard.pages.why_order_matters import script
from dashboard.pages.why_order_matters import sentences as said
from dashboard.text import plain
from posenc import attention
from posenc.analysis import word_order


def draw() -> None:
    """Draw the page."""
    settings = page.settings()
    header = st.container()
    chosen = sidebar.choices(page_options.OrderChoice)
    both = settings.map(lambda setting: why.read(setting, chosen))
    found = both.now
    with header:
        page.head("Why position", both.map(said.headline))
    for reason in dict.fromkeys(page.reasons(both).values()):
        st.info(f"Pinned setting, A: {plain(reason)}", icon=":material/info:")
    for kind, reason in found.reasons.items():
        st.info(f"{page.label(kind)}: {plain(reason)}", icon=":material/info:")

    left, right = st.columns(2)
    with left:
        st.subheader("How far a word's output moves", anchor=False)
        st.caption(
            "A mark per word: the largest difference between its output in one order and in the other. "
            "Left of the dashed line is rounding."
        )
        page.chart(
            both.map(lambda one: drawn.marks(one.differences)),
            drawn.differences,
            why.kinds(both),
            key="differences",
        )
    with right:
        st.subheader("Largest difference", anchor=False)
        st.caption("Of all words, without a mask and with later words hidden; and of their mean.")
        page.table(both.map(lambda one: one.summary))
        st.caption(said.caveat(found))
    st.subheader("Who looks at whom", anchor=False)
    st.caption(said.pattern_caption(found, chosen))
    drawn.pattern_row(both)
    st.caption(said.layers(settings.now, found))

    page.how_to_read(
        "Both orders go through the same layer. Outputs are compared word by word: that of a word in the "
        "first order against that of the same word in the other. Each word is followed to its new place, "
        "also one that stands twice; words are never matched by their letters. "
        "Without position the outputs only move with their words: "
        "attention is *equivariant*, not invariant. Invariant is what forgets who is who, such as the "
        "mean of all outputs. A causal mask breaks this by itself: the first word sees one word, the last "
        "sees all. Weights are random, so that a difference is 0 or is not says something about the "
        "scheme; its size says as much about the weights."
    )
    page.definition(
        r"\mathrm{Attn}(P X) = P\,\mathrm{Attn}(X), \qquad "
        r"\mathrm{Attn}(X) = \mathrm{softmax}\!\left(\tfrac{X W_q (X W_k)^\top}{\sqrt{d}}\right) X W_v",
        "P puts the words into another order. The left side holds for every P without position (Lee et al. "
        "2019, arXiv 1810.00825; Yun et al. 2020, arXiv 1912.10077) and for no scheme that tells places "
        "apart. Without a mask a bias by distance alone (ALiBi) still holds it for the mirrored "
        "order: every "
        "two words keep their distance. Under a causal mask it does not, for other words are hidden.",
        word_order.read_orders,
        word_order.RandomLayer,
        attention,
    )
    page.numbers(both.map(lambda one: one.differences), "difference by word")
    page.numbers(both.map(lambda one: one.outputs), "outputs by word")
    page.numbers(both.map(lambda one: one.weights), "attention weights")
    page.script(script.script(settings.now, chosen))
