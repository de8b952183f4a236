"""PCA: the shape that positions make, on the three directions in which they differ most."""

import streamlit as st

from dashboard import charts, choices, compute, controls, frames, page, sentences
from dashboard.text import plain
from posenc.analysis import projection

COMPONENTS = 12

setting = page.setting()
header = st.container()
chosen = controls.choices(choices.PcaChoice)
fitted = setting.length if chosen.fit == "all" else min(setting.train_length, setting.length)
queries = {kind: compute.query(setting, kind) for kind in setting.schemes}
found, reasons = compute.each(compute.projected, queries, fitted, COMPONENTS)
page.left_out(reasons, found)
with header:
    page.head("PCA", sentences.projection(found))
panels = frames.projections(found, setting.train_length)
row = st.container(horizontal=True, gap="medium")
for kind, result in found.items():
    with row.container(width=charts.PROJECTION_WIDTH):
        st.subheader(page.label(kind), anchor=False)
        st.caption(plain(page.panel_note(setting, kind, result.note, rounded=result.rounded)))
        st.caption(sentences.explained(result))
        if result.explained.sum() > 0:
            mine = panels[panels["kind"] == kind]
            if mine["far"].any():
                st.caption(sentences.far(mine))
            st.vega_lite_chart(
                frames.drawn(mine[~mine["far"]].drop(columns=["kind", "far"]), "position"),
                charts.linked_projection(stacked=page.on_phone()),
                key=f"projection_{kind}",
                width="content",
            )

st.subheader("Explained variance", anchor=False)
variance = frames.explained(found)
st.vega_lite_chart(variance, charts.explained(setting.schemes), key="explained")

page.how_to_read(
    "Each dot is a position, joined to the next; colour runs from the first to the last. The two "
    "plots of a scheme show the same dots from two sides: drag over some in one and they stay "
    "coloured in the other. Crosses lie past the training length and are projected on axes they had "
    "no part in. Scores are in units of the vectors' own root mean square norm, so that all plots "
    "share their axes. Two components are a shadow of many: read the explained variance first."
)
page.definition(
    r"z_i = (\varphi(i) - \bar\varphi)\,W, \qquad "
    r"W = \text{leading eigenvectors of } \operatorname{cov}(\varphi)",
    "Learned and sinusoidal: the rows themselves. RoPE: unit content, rotated. ALiBi has vectors of a "
    "dimension per position, so its scores come from the centred kernel, which gives the same. In "
    "each component the first clearly positive or negative position is made positive.",
    projection.project,
    projection.project_gram,
)
page.numbers(panels[["kind", "position", "PC1", "PC2", "PC3", "seen"]], "scores")
page.numbers(variance, "explained variance")
