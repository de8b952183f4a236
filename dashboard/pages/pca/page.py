"""PCA: the shape that positions make, on the three directions in which they differ most."""

import streamlit as st

from dashboard.controls import page_options, sidebar
from dashboard.frame import coinciding, page, sentences
from dashboard.pages.pca import charts, data, frames, script
from dashboard.text import plain
from posenc.analysis import pca as projection


def draw() -> None:
    """Draw the page."""
    settings = page.settings()
    header = st.container()
    chosen = sidebar.choices(page_options.PcaChoice)
    read = settings.map(lambda setting: data.read(setting, chosen))
    now = read.now
    with header:
        page.left_out(now.reasons, now.found, "PCA", page.reasons(read))
        page.head("PCA", read.map(lambda one: one.headline))
    scores = frames.projections(read)
    row = st.container(horizontal=True, gap="medium")
    for kind in data.shown(read):
        with row.container(width=charts.PROJECTION_WIDTH):
            st.subheader(page.label(kind), anchor=False)
            for name, one in (("", now), ("Pinned setting, A: ", read.pinned)):
                if one is None or kind not in one.found:
                    continue  # the other setting's alone
                result = one.found[kind]
                note = page.panel_note(one.setting, kind, result.note, rounded=result.rounded)
                st.caption(name + sentences.explained(result))
                if result.explained.sum() > 0:
                    mine = frames.of_panel(scores, kind, pinned=bool(name))
                    if mine["far"].any():
                        st.caption(sentences.far(mine))
                    page.picture(
                        frames.in_picture(mine),
                        charts.linked_projection(stacked=page.on_phone()),
                        key=f"projection_{kind}{'_pinned' if name else ''}",
                        alt=f"{page.label(kind)}: {sentences.explained(result)}",
                    )
                st.caption(name + plain(note))

    st.subheader("Explained variance", anchor=False)
    coinciding.draw(
        read.map(data.explained), charts.explained, page.kinds(settings), key="explained",
    )  # fmt: skip

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
    page.numbers(frames.numbers(scores, compared=read.compared), "scores")
    page.numbers(read.map(lambda one: one.variance), "explained variance")
    page.script(script.script(settings.now, chosen, data.COMPONENTS))
