"""The chart of Check my encoding: the largest difference from the formula in every column."""

import functools

import altair as alt

from dashboard import charts
from dashboard.check_frames import COMPARED

_COLOURS = (charts.COLOURS["learned"], charts.COLOURS["sinusoidal"])


@functools.cache
def differences(*, pinned: bool = False) -> charts.Spec:
    """Largest difference by column, log scale. Frame: x, compared, y."""
    colour = alt.Color(
        "compared:N",
        scale=alt.Scale(domain=[*COMPARED], range=[*_COLOURS]),
        legend=alt.Legend(
            title=None, orient="top", symbolType="stroke", symbolStrokeWidth=2.5, symbolOpacity=1,
            columns=1, labelLimit=260,
        ),
    )  # fmt: skip
    setting = [alt.Tooltip("setting:N", title="setting (B now, A pinned)")] if pinned else []
    line = (
        alt.Chart()
        .mark_line(strokeWidth=1.8)
        .encode(
            x=alt.X("x:Q", title="column (of a cache: cosines, then sines)", scale=alt.Scale(nice=False)),
            y=alt.Y(
                "y:Q", title="largest difference", scale=alt.Scale(type="log"),
                axis=alt.Axis(format=".0e", tickCount=5),
            ),
            color=colour,
            tooltip=["compared:N", *setting],
            **charts.by_setting(pinned, "bottom"),
        )
    )  # fmt: skip
    return charts.spec_of(alt.layer(line).properties(height=charts.HEIGHT))
