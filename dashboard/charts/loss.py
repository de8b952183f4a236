"""Loss of trained models by context length: a line per scheme, named at its end."""

import functools
from collections.abc import Sequence

import altair as alt
import pandas as pd

from dashboard.charts.theme import Spec, boundary_rule, scheme_colour, spec_of
from posenc.lab.summary import Curve

APART = 0.07  # of the range of all losses: what a name at the end of a line takes of the height
COLUMNS = ("scheme", "x", "y", "seeds", "boundary", "last", "ends", "label_y")


def frame(curves: Sequence[Curve]) -> pd.DataFrame:
    """Return a row per point; the last of a line has the height of its name, which no other name covers.

    ends: whether a line ends before others.
    """
    losses = [point.mean for curve in curves for point in curve.points]
    apart = APART * (max(losses) - min(losses)) if losses else 0.0
    longest = max((curve.points[-1].x for curve in curves), default=0)
    ends = {curve: curve.points[-1].x < longest for curve in curves}
    heights: dict[Curve, float] = {}
    for curve in sorted(curves, key=lambda one: one.points[-1].mean):
        below = [height for other, height in heights.items() if ends[other] == ends[curve]]
        heights[curve] = max([curve.points[-1].mean, *(height + apart for height in below)])
    rows = [
        {
            "scheme": curve.specification.scheme.label,
            "x": point.x,
            "y": point.mean,
            "seeds": curve.seeds,
            "boundary": curve.specification.train_length,
            "last": point is curve.points[-1],
            "ends": ends[curve],
            "label_y": heights[curve],
        }
        for curve in curves
        for point in curve.points
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


@functools.cache
def by_context(kinds: tuple[str, ...], *, height: int, pinned: bool = False) -> Spec:
    """Lines over context length, with the training length marked. Frame: as `frame` returns it."""
    x = alt.X(
        "x:Q", title="context length (tokens)", scale=alt.Scale(type="log", base=2, nice=False)
    )
    y = alt.Y("y:Q", title="loss (nats per byte)", scale=alt.Scale(zero=False))
    colour = scheme_colour(kinds).legend(None)
    lines = (
        alt.Chart()
        .mark_line(strokeWidth=2, point=alt.OverlayMarkDef(size=25))
        .encode(
            x=x,
            y=y,
            color=colour,
            tooltip=[
                alt.Tooltip("scheme:N"),
                alt.Tooltip("x:Q", title="context length", format=","),
                alt.Tooltip("y:Q", title="loss", format=".3f"),
                alt.Tooltip("seeds:Q"),
            ],
            **({"detail": "setting:N"} if pinned else {}),
        )
    )
    names = alt.Chart().transform_filter("datum.last").encode(x=x, y="label_y:Q", color=colour)
    right = names.transform_filter("!datum.ends").mark_text(align="left", dx=7)
    left = names.transform_filter("datum.ends")
    above = left.mark_text(align="right", dx=-4, dy=-20)
    layers = [
        lines,
        right.encode(text="scheme:N"),
        above.encode(text="scheme:N"),
        left.mark_text(align="right", dx=-4, dy=-9).encode(text=alt.value("ends")),
        boundary_rule(),
    ]
    return spec_of(alt.layer(*layers).properties(height=height))
