"""The chart of Relative offsets."""

import functools

import altair as alt

from dashboard.charts.theme import (
    HEIGHT,
    Spec,
    decades,
    dots,
    scheme_colour,
    scheme_dash,
    spec_of,
    told,
    widths,
)


@functools.cache
def map_errors(kinds: tuple[str, ...], *, pinned: bool = False) -> Spec:
    """Error of one matrix per offset, log scale, with the random control as a thin line.

    Frame: scheme, offset, error, control, width, strength, dot; pinned: setting, too.
    """
    x = alt.X("offset:Q", title="offset k", scale=alt.Scale(type="log", base=2))
    y = alt.Y("error:Q", title="relative error", scale=alt.Scale(type="log"), axis=decades(".0e"))
    tip = [
        *told(pinned),
        alt.Tooltip("offset:Q", title="offset k"),
        alt.Tooltip("error:Q", format=".3e", title="relative error"),
    ]
    line = alt.Chart().mark_line(tooltip=None)
    line = line.encode(
        x=x, y=y, color=scheme_colour(kinds), strokeDash=scheme_dash(kinds), **widths(pinned)
    )
    points = dots(x, y, kinds, tip)
    control = (
        alt.Chart()
        .mark_line(strokeWidth=1, color="gray", strokeDash=[2, 3])
        .encode(x=x, y="mean(control):Q")
    )
    return spec_of(alt.layer(line, points, control).properties(height=HEIGHT))
