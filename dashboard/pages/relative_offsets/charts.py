"""The chart of Relative offsets."""

import functools

import altair as alt

from dashboard.charts.lines import line_spec
from dashboard.charts.theme import Spec, decades, spec_of


@functools.cache
def map_errors(kinds: tuple[str, ...], *, pinned: bool = False) -> Spec:
    """Error of one matrix per offset, log scale, with the random control as a thin line.

    Frame: scheme, x (offset), y (error), control; pinned: setting, too.
    """
    x = alt.X("x:Q", title="offset k", scale=alt.Scale(type="log", base=2))
    y = alt.Y("y:Q", title="relative error", scale=alt.Scale(type="log"), axis=decades(".0e"))
    spec = line_spec(kinds, x, y, "offset k", form=".3e", points=True, pinned=pinned)
    control = (
        alt.Chart()
        .mark_line(strokeWidth=1, color="gray", strokeDash=[2, 3])
        .encode(x=x, y="mean(control):Q")
    )
    return spec | {"layer": [*spec["layer"], spec_of(control)]}
