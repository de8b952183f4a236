"""Start: what does attention see of position? One screen: the answer, the curves, two dials."""

import streamlit as st

from dashboard.ab import Pair
from dashboard.charts import theme
from dashboard.controls import sidebar
from dashboard.frame import coinciding, page, sentences
from dashboard.pages.similarity import script
from dashboard.pages.start import data
from posenc import fields
from posenc.analysis import similarity
from posenc.settings import Setting


def draw() -> None:
    """Draw the page."""
    settings = page.settings()
    read = settings.map(data.read)
    page.left_out(
        read.now.reasons, read.now.found, "What does attention see of position?", page.reasons(read)
    )
    measured = settings.map(data.measured)
    said = read.map(lambda one: one.sentence)
    # A setting without measured runs has its formulas' sentence, under the headline or as it.
    page.head(
        "What does attention see of position?",
        Pair(measured.now, measured.pinned or None) if measured.now else said,
    )
    if measured.now:
        page.also(said)
    sentences.show_notices(read.now.found)
    coinciding.draw(
        read.map(data.lines),
        theme.by_offset,
        page.kinds(settings),
        "distance, query minus key",
        "effect of position alone",
        height=360,
        key="start",
    )
    st.caption(
        "What position alone does to attention between a query and a key of fixed content, scaled to 1 at "
        "distance 0: compare shapes, not heights. A band runs from the lowest head or pair to the highest."
        " The sliders below set the base and dimension of these curves; a trained model has its own."
    )
    dials, links = st.columns([3, 1], gap="large", vertical_alignment="center")
    for place, name in zip(dials.columns(2, gap="medium"), ("base", "dim"), strict=True):
        sidebar.dial(place, name, fields.rules(Setting)[name], key=f"start_{name}")
    links.page_link(
        "pages/at_a_glance/page.py",
        label="Teach this",
        icon=":material/school:",
        query_params={"present": "true"},
    )
    links.page_link(
        "pages/extend_context/page.py", label="Plan my context", icon=":material/straighten:"
    )
    links.page_link(
        "pages/check_my_encoding/page.py", label="Check my encoding", icon=":material/troubleshoot:"
    )

    page.notes(settings.now, {kind: one.kernel.provenance for kind, one in read.now.found.items()})
    page.how_to_read(
        "Each line says how much of attention's weight or logit is left, by position alone, when query and "
        "key move apart. A line that falls and stays low sees near tokens first; one that comes back up "
        "takes some far positions for near ones. RoPE acts on the width of one head, sinusoidal on the "
        "whole model: at equal width (in the sidebar) their lines fall together. Losses are of small "
        "models with numbers of their own, which the controls do not change: Extrapolation shows them."
    )
    page.definition(
        r"\frac{K(i, j)}{\sqrt{K(i, i)\,K(j, j)}}",
        "K is what position alone contributes between query i and key j: an inner product of rows "
        "(learned, "
        "sinusoidal), the expected logit of unit content (RoPE), or a factor on the attention "
        "weight "
        "(ALiBi and other biases), each scaled to 1 at distance 0, and averaged over all pairs at "
        "a distance.",
        similarity.similarity_by_offset,
    )
    page.numbers(read.map(lambda one: one.curves), "start curves", {"x": "distance", "y": "mean"})
    page.script(script.script(settings.now))
