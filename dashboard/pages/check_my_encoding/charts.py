"""The chart of Check my encoding: the largest difference from the formula in every column."""

import functools

import altair as alt

from dashboard.charts import theme
from dashboard.pages.check_my_encoding.frames import COMPARED

_COLOURS = (theme.COLOURS["learned"], theme.COLOURS["sinusoidal"])

_OF_A_AND_B = alt.Opacity(
    "setting:N",
    scale=alt.Scale(domain=theme.SETTINGS, range=[0.4, 1.0]),
    legend=alt.Legend(
        title=None,
        orient="bottom",
        labelExpr="datum.label == 'A' ? 'A, pinned' : 'B, current'",
        symbolType="circle",
        symbolFillColor=theme.COLOURS["none"],
    ),
)


@functools.cache
def differences(*, pinned: bool = False) -> theme.Spec:
    """Largest difference by column, log scale. Frame: x, compared, y."""
    colour = alt.Color(
        "compared:N",
        scale=alt.Scale(domain=[*COMPARED], range=[*_COLOURS]),
        legend=alt.Legend(
            title=None, orient="top", symbolOpacity=1, symbolSize=60,
            columns=1, labelLimit=260,
        ),
    )  # fmt: skip
    setting = [alt.Tooltip("setting:N", title="setting (B current, A pinned)")] if pinned else []
    # Marks have no width to tell A from B by: A's are pale.
    apart = {"opacity": _OF_A_AND_B} if pinned else {}
    marks = (
        alt.Chart()
        .mark_circle(size=14, opacity=1)
        .encode(
            x=alt.X("x:Q", title="column (of a cache: cosines, then sines)", scale=alt.Scale(nice=False)),
            y=alt.Y(
                "y:Q", title="largest difference", scale=alt.Scale(type="log"),
                axis=alt.Axis(format=".0e", tickCount=5),
            ),
            color=colour,
            tooltip=["x:Q", "compared:N", alt.Tooltip("y:Q", format=".3g"), *setting],
            **apart,
        )
    )  # fmt: skip
    return theme.spec_of(alt.layer(marks).properties(height=theme.HEIGHT))
