"""Overview: the schemes side by side, one column each: what attention sees of position."""

import streamlit as st

from dashboard import charts, compute, frames, page, panels, sentences
from posenc.analysis import properties, similarity
from posenc.schemes import SCHEMES

setting = page.setting()
queries = {kind: compute.query(setting, kind) for kind in setting.schemes}
found, reasons = compute.each(compute.cosine, queries)
page.left_out(reasons, found)
measured = {kind: compute.measured(queries[kind]) for kind in found}
boundary = frames.boundary(setting, setting.length - 1)

page.head("What attention sees of position", sentences.overview(setting, found, measured))
sentences.show_notices(found)
if setting.equal_width:
    sentences.show_equal_width(found)
by_offset = frames.by_offset(found, boundary)
panels.cosine_row(panels.cosine_panels(setting, found), key="overview")
for column, kind in zip(st.columns(len(found)), found, strict=True):
    with column:
        st.subheader(page.label(kind), anchor=False)
        st.caption(SCHEMES[kind].summary)
        st.vega_lite_chart(
            frames.drawn(by_offset[by_offset["scheme"] == page.label(kind)]),
            charts.small_curve(kind),
            key=f"curve_{kind}",
        )
        st.markdown(sentences.properties(kind, measured[kind], found[kind]))
        st.table(frames.properties_table(measured[kind]))

page.how_to_read(
    "Each column is one scheme. The square shows how alike every two positions are when content is "
    "held fixed; the curve is the mean of its diagonals, with the range as a band. Their units differ "
    "before scaling (an inner product, a logit, a weight factor): compare shapes, not heights. The "
    "dashed line is the training length; an untrained table ends there, a trained one at its last "
    "row.\n\nIn the tables, distances and norms are in the unit of each scheme's vectors; values are "
    "the vectors' entries, where they have a fixed number of them. The shift-invariance error is the "
    "spread of similarity along diagonals over its overall spread: 0 where only the distance counts, "
    "about 1 for noise. Order kept (tau) is the rank correlation of similarity with nearness: 1 falls "
    "at every step."
)
page.definition(
    r"\begin{aligned} K(i, j) &= \varphi(i) \cdot \varphi(j) \\"
    r"\lVert\varphi(i) - \varphi(j)\rVert^2 &= K(i,i) + K(j,j) \\ &\quad - 2K(i,j) \end{aligned}",
    "The effect of position alone, K, is what position contributes to attention between a query and a "
    "key of fixed content. Distances, norms and invariance below are measured on it.",
    properties.measure,
    similarity.similarity_by_offset,
)
page.numbers(by_offset.rename(columns={"x": "distance", "y": "mean"}), "overview curves")
page.numbers(frames.properties(measured), "measured properties")
