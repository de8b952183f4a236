"""At a glance: the schemes compared in one table, and their similarity by distance."""

import functools

import altair as alt
import numpy as np
import streamlit as st

from dashboard import run_results, runs
from dashboard.ab import AB
from dashboard.charts import theme
from dashboard.controls.page_controls import SHOWN, UsedControls
from dashboard.frame import page
from dashboard.pages.at_a_glance import data, properties
from dashboard.script import requests_in_python, whole_script
from dashboard.text import number, plain
from posenc.analysis import properties as analysis
from posenc.analysis import similarity

TITLE = "At a glance"


used_controls = UsedControls(SHOWN)


def draw() -> None:
    """Draw the page."""
    settings = page.settings()
    read = settings.map(data.read)
    current = read.current
    page.show_excluded(read, current.results, TITLE)
    page.head(TITLE, read.map(lambda result: result.headline))
    page.show_notices(current.results)
    st.table(current.comparison.set_index("scheme").T)
    if measured := runs.shipped_loss(tuple(current.results)):
        st.caption(
            f"Loss past training: change per byte in small models {run_results.lengths(measured)}. "
            f"{run_results.rules()}",
            help=run_results.rules_in_percent(),
        )
    both = {"sinusoidal", "rope"} <= {*current.results}
    if both and settings.current.equal_width and settings.current.of_model("rope") is None:
        st.markdown(_equal_width(current))
    row = st.grid(4, gap="small", key="curves")
    for kind in page.kinds(read.map(lambda result: result.results)):
        with row.container():
            _draw_scheme(read, kind)
    _draw_properties(read)

    page.how_to_read(
        "The table compares the schemes at the current setting. A curve is the mean similarity of all "
        "pairs at a distance. Its band is the range. Content is fixed; only position varies. Compare "
        "shapes, not heights. The dashed line is the training length of the sidebar.\n\n"
        "Distances and norms are in the unit of each scheme's vectors; values are the vectors' entries. "
        "The shift-invariance error is the spread of similarity along diagonals over its overall spread: "
        "0 where only the distance matters, about 1 for noise. Kendall tau is 1 where similarity falls "
        "at every step."
    )
    page.definition(
        r"\begin{aligned} K(i, j) &= \varphi(i) \cdot \varphi(j) \\"
        r"\lVert\varphi(i) - \varphi(j)\rVert^2 &= K(i,i) + K(j,j) \\ &\quad - 2K(i,j) \end{aligned}",
        "The position kernel K is what position contributes to attention between a query and a "
        "key of fixed content. Distances, norms and invariance below are measured on it.",
        analysis.measure,
        similarity.similarity_by_offset,
    )
    page.numbers(
        read.map(lambda result: result.curves), "overview curves", {"x": "distance", "y": "mean"}
    )
    page.numbers(read.map(lambda result: result.properties), "measured properties")
    page.numbers(read.map(lambda result: result.comparison), "comparison")
    page.script(whole_script(data.IMPORTS, requests_in_python(settings.current), data.SCRIPT))


def _draw_scheme(read: AB[data.Read], kind: str) -> None:
    """Draw one scheme's curve and what its positions tell, in each setting that shows it."""
    shown = next(result for result in read.each if kind in result.results)
    note = page.panel_note(shown.setting, kind, shown.results[kind].kernel.provenance)
    st.subheader(page.label(kind), anchor=False, help=plain(note))
    page.chart(
        read.map(functools.partial(data.curve, kind=kind)),
        small_curve,
        kind,
        key=f"curve_{kind}",
        title=f"{page.label(kind)}: position similarity by distance",
    )
    for name, result in zip("BA", read.each, strict=False):
        if kind in result.results:
            sentence = properties.sentence(
                result.measured[kind], result.results[kind], added=kind in result.added
            )
            st.caption(f"{name}: {sentence}" if read.compared else sentence)


def _draw_properties(read: AB[data.Read]) -> None:
    """Draw the measured properties, of B and of A, once somebody opens them."""
    drawer = st.expander(
        "Measured properties", key="properties", on_change="rerun", icon=":material/straighten:"
    )
    if drawer.open:
        for name, result in zip("BA", read.each, strict=False):
            if read.compared:
                drawer.caption(page.setting_name(name))
            drawer.table(properties.table(result.measured))


def _equal_width(read: data.Read) -> str:
    """Say how far sinusoidal and RoPE similarities differ where their widths are equal."""
    gap = float(np.abs(read.results["sinusoidal"].mean - read.results["rope"].mean).max())
    same = "At equal base and width, sinusoidal and RoPE have the same position similarity"
    if gap < properties.OFFSET_ONLY:
        return f"{same}: the largest measured difference is {number(gap)}."
    exactly = "if RoPE rotates all features exactly. At this setting they differ by up to"
    return f"{same} {exactly} {number(gap)}."


@functools.cache
def small_curve(kind: str, *, pinned: bool = False) -> theme.Spec:
    """One scheme's curve by distance, small, on the axes of all that stand beside it.

    Frame: x, y, low, high, boundary, last, least (the ends of both axes); pinned: setting, too.
    """
    axis = alt.Axis(tickCount=4)
    x = alt.X("x:Q", title="query-key distance (tokens)", scale=alt.Scale(nice=False), axis=axis)
    y = alt.Y("y:Q", title="similarity", axis=axis)
    tip = [
        *theme.told(pinned),
        alt.Tooltip("x:Q", title="distance", format=","),
        alt.Tooltip("y:Q", title="position similarity", format=".3g"),
    ]
    detail = {"detail": "setting:N"} if pinned else {}
    band = alt.Chart().mark_area(opacity=0.1 if pinned else 0.2, color=theme.COLOURS[kind])
    line = alt.Chart().mark_line(color=theme.COLOURS[kind], strokeWidth=2)
    style = theme.line_style((kind,), pinned=True) if pinned else {}
    if pinned:
        style["strokeDash"]["legend"]["columns"] = 1  # both names are wider than the chart
    ends = alt.Chart().mark_point(opacity=0, tooltip=None)
    layers = [
        band.encode(x=x, y="low:Q", y2="high:Q", **detail),
        line.encode(x=x, y=y, tooltip=tip, **style),
        theme.boundary_rule(),
        ends.encode(x=alt.X("max(last):Q"), y=alt.Y("min(least):Q")),
    ]
    height = 240 if pinned else 160  # its legend stands below
    return theme.spec_of(alt.layer(*layers).properties(height=height))
