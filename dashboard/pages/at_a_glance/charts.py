"""The small chart of the page At a glance: one scheme's similarity by distance."""

import functools

import altair as alt

from dashboard.charts.palette import COLOURS
from dashboard.charts.theme import Spec, boundary_rule, line_style, spec_of, told


@functools.cache
def small_curve(kind: str, *, pinned: bool = False) -> Spec:
    """One scheme's curve by distance, small, on the axes of all that stand beside it.

    Frame: x, y, low, high, boundary, last, least (the ends of both axes); pinned: setting, too.
    """
    axis = alt.Axis(tickCount=4)
    x = alt.X("x:Q", title="query-key distance (tokens)", scale=alt.Scale(nice=False), axis=axis)
    y = alt.Y("y:Q", title="similarity", axis=axis)
    tip = [
        *told(pinned),
        alt.Tooltip("x:Q", title="distance", format=","),
        alt.Tooltip("y:Q", title="position similarity", format=".3g"),
    ]
    apart = {"detail": "setting:N"} if pinned else {}
    band = alt.Chart().mark_area(opacity=0.1 if pinned else 0.2, color=COLOURS[kind])
    line = alt.Chart().mark_line(color=COLOURS[kind], strokeWidth=2)
    style = line_style((kind,), pinned=True) if pinned else {}
    ends = alt.Chart().mark_point(opacity=0, tooltip=None)
    layers = [
        band.encode(x=x, y="low:Q", y2="high:Q", **apart),
        line.encode(x=x, y=y, tooltip=tip, **style),
        boundary_rule(),
        ends.encode(x=alt.X("max(last):Q"), y=alt.Y("min(least):Q")),
    ]
    height = 220 if pinned else 160  # its legend stands below
    return spec_of(alt.layer(*layers).properties(height=height))
