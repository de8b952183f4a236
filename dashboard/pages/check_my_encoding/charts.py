"""Charts of the page Check my encoding: differences by column, and the position of each row."""

import functools

import altair as alt

from dashboard.charts import theme
from dashboard.charts.theme import Spec
from dashboard.pages.check_my_encoding.identified import FOUND_AND_EXPECTED

HEIGHT = 224  # beside the verdict, whole on the first screen of a projector


@functools.cache
def positions(_names: tuple[str, ...]) -> Spec:
    """Return the position found and expected by row. Frame: row, position, which."""
    names = [*FOUND_AND_EXPECTED]
    colours, strokes = [theme.COLOURS["sinusoidal"], theme.GRAY], [[1, 0], [6, 4]]
    legend = alt.Legend(title=None, orient="top", symbolStrokeWidth=3, **theme.LEGEND_LINE)
    lines = (
        alt.Chart()
        .mark_line(strokeWidth=2)
        .encode(
            x=alt.X("row:Q", title="row", scale=alt.Scale(nice=False)),
            y=alt.Y("position:Q", title="position"),
            color=alt.Color("which:N", scale=alt.Scale(domain=names, range=colours), legend=legend),
            strokeDash=alt.StrokeDash(
                "which:N", scale=alt.Scale(domain=names, range=strokes), legend=legend
            ),
            tooltip=[
                "row:Q",
                alt.Tooltip("position:Q", format=","),
                alt.Tooltip("which:N", title=""),
            ],
        )
    )
    return theme.spec_of(alt.layer(lines).properties(height=HEIGHT))


def _powers() -> alt.Axis:
    axis = theme.decades("~g")
    axis.tickCount = 5
    return axis


@functools.cache
def differences(_names: tuple[str, ...]) -> Spec:
    """Return the largest difference by column, on a log scale. Frame: x, y."""
    points = (
        alt.Chart()
        .mark_circle(size=14, opacity=1, color=theme.COLOURS["sinusoidal"])
        .encode(
            x=alt.X("x:Q", title="column (of a cache: cosines, then sines)", scale=alt.Scale(nice=False)),
            y=alt.Y(
                "y:Q", title="largest error", scale=alt.Scale(type="log"),
                axis=_powers(),
            ),
            tooltip=["x:Q", alt.Tooltip("y:Q", format=".3g")],
        )
    )  # fmt: skip
    return theme.spec_of(alt.layer(points).properties(height=HEIGHT))
