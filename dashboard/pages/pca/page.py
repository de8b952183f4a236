"""PCA: the shape that positions make, on the three directions in which they differ most."""

import streamlit as st

from dashboard import results
from dashboard.ab import AB
from dashboard.controls import pin, sidebar
from dashboard.controls.page_controls import SHOWN, UsedControls
from dashboard.frame import page
from dashboard.pages.pca import charts, data
from dashboard.pages.pca.options import PLANES, VARIANCE, PcaChoice
from dashboard.pages.pca.panels import panels
from dashboard.text import plain
from posenc.analysis import pca as projection

HOW_TO_READ_POSITIONS = (
    "Each dot is a position; a line joins neighbours. A unit has the same length on both axes. Scores are "
    "in units of the vectors' root mean square norm. Hollow dots lie past the training length.\n\n"
    "An arch (horseshoe effect) does not mean that positions have two properties. Their order alone makes "
    "it: when near positions are similar and far ones are not, the components are waves along the order, "
    "PC1 with about half a period and PC2 with a whole one (Diaconis, Goel and Holmes 2008, arXiv "
    "0811.1477)."
)
ONE_SCALE = "Plots of one scheme share a scale. "  # of A and B
HOW_TO_READ_VARIANCE = (
    "A line per scheme: the share of the variance that the first components explain together. The dashed "
    f"line is at {data.SHARE:.0%}. The fewer components a scheme needs to reach it, the more a plot of two "
    "components shows."
)


used_controls = UsedControls(SHOWN)


def draw() -> None:
    """Draw the page."""
    settings = page.settings()
    header = st.container(gap=None)  # the first plots belong on the first screen
    chosen = sidebar.choices(PcaChoice)
    read = settings.map(lambda setting: data.read(setting, chosen.fit))
    with header:
        page.show_excluded(read, read.current.results, "PCA")
        page.head("PCA", read.map(data.headline))
        st.caption(data.meaning(read.current, chosen))
    if chosen.plot == VARIANCE:
        if read.current.shares:
            page.second_headline(read.map(data.components_needed))
        page.curves(
            read.map(data.variance_lines),
            charts.explained,
            page.kinds(settings),
            key="explained",
            title="Variance explained by the first components",
        )
    else:
        _draw_positions(read, chosen)
        if jump := page.last_row(settings):
            st.caption(jump)

    if chosen.plot == VARIANCE:
        guide = HOW_TO_READ_VARIANCE
    else:
        guide = (ONE_SCALE if read.compared else "") + HOW_TO_READ_POSITIONS
    page.how_to_read(
        f"{guide}\n\n"
        "Read the explained variance first. It is high for a trained learned table, because "
        "training moves its rows along few directions. It is low for sinusoidal and RoPE: every "
        "frequency adds a circle in its own plane, and only slow circles are smooth enough to "
        "lead. It is low for ALiBi, because positions that are far apart are almost unrelated."
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
    page.numbers(read.map(data.scores), "scores")
    page.numbers(read.map(data.variance), "explained variance")
    page.script(data.script(settings.current, chosen))


def _draw_positions(read: AB[data.Read], chosen: PcaChoice) -> None:
    """Draw a plot per scheme; with a pinned setting two, B beside A."""
    parts = st.container(horizontal=True, key="positions_legend")
    for text, drawing in charts.legend().items():
        parts.image(drawing, width="content", alt=text)
    reads = dict(zip(("B", "A"), read.each, strict=False))
    plane = PLANES[chosen.plot]
    plots = panels(
        {
            (kind, setting): result.results[kind].scores.numpy()
            for setting, result in reads.items()
            for kind in result.shares
        },
        {setting: result.setting.train_length for setting, result in reads.items()},
        plane,
        same_scale=chosen.same_scale,
    )
    names = pin.names(page.settings())
    grid = st.grid(2, min_column_width=charts.WIDTH, gap="medium")
    for kind in page.kinds(read.map(lambda result: result.results)):
        for setting, result in reads.items():
            with grid.cell(), st.container(gap=None):
                if kind not in result.results:  # only the other setting has it
                    continue
                title = page.label(kind) + (f", {names[setting]}" if read.compared else "")
                words = _draw_heading(result, kind, title)
                if (kind, setting) in plots:
                    frame, outside = plots[kind, setting]
                    page.picture(
                        frame,
                        charts.positions(*plane),
                        key=f"projection_{kind}{'_pinned' if setting == 'A' else ''}",
                        title=title,
                        alt=f"{title}: {words}",
                    )
                    if outside:
                        st.caption(outside)


def _draw_heading(read: data.Read, kind: str, title: str) -> str:
    """Draw the heading of a plot and return its words, which a reader hears instead of the picture."""
    result = read.results[kind]
    provenance = results.provenance(results.request(read.setting, kind))
    note = page.panel_note(read.setting, kind, provenance, rounded=result.rounded)
    explained, fitted = data.explained(result), data.fitted(result)
    st.subheader(plain(title), anchor=False, help=plain("; ".join(filter(None, (note, fitted)))))
    st.caption(explained)
    return f"{explained}; {fitted}"
