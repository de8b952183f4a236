"""The small chart of the page At a glance: one scheme's similarity by distance."""

import functools

import altair as alt

from dashboard.charts.palette import COLOURS
from dashboard.charts.theme import Spec, boundary_rule, by_setting, spec_of, told


@functools.cache
def small_curve(kind: str, *, pinned: bool = False) -> Spec:
    """One scheme's curve by distance, small, on the axes of all that stand beside it.

    Frame: x, y, low, high, boundary, last, least (the ends of both axes); pinned: setting, too.
    """
    x = alt.X(
        "x:Q",
        title="query-key distance (tokens)",
        scale=alt.Scale(nice=False),
        axis=alt.Axis(tickCount=4),
    )
    y = alt.Y("y:Q", title="similarity", axis=alt.Axis(tickCount=5))
    apart = {"detail": "setting:N"} if pinned else {}
    wide = by_setting(True) if pinned else {"size": alt.value(2)}
    band = (
        alt.Chart()
        .mark_area(opacity=0.1 if pinned else 0.2, color=COLOURS[kind])
        .encode(x=x, y="low:Q", y2="high:Q", **apart)
    )
    line = (
        alt.Chart()
        .mark_line(color=COLOURS[kind])
        .encode(
            x=x,
            y=y,
            tooltip=[
                *told(pinned),
                alt.Tooltip("x:Q", title="distance"),
                alt.Tooltip("y:Q", format=".3g", title="position similarity"),
            ],
            **wide,
        )
    )
    ends = alt.Chart().mark_point(opacity=0, tooltip=None)
    ends = ends.encode(x=alt.X("max(last):Q"), y=alt.Y("min(least):Q"))
    height = 190 if pinned else 160  # its legend stands above
    return spec_of(alt.layer(band, line, boundary_rule(), ends).properties(height=height))
