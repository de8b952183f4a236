"""The chart of a run in progress."""

import functools

import altair as alt

from dashboard.charts.theme import COLOURS, HEIGHT, Spec, spec_of


@functools.cache
def training(kind: str) -> Spec:
    """Return the chart of a training loss. Frame: step, loss."""
    line = (
        alt.Chart()
        .mark_line(strokeWidth=2, color=COLOURS[kind])
        .encode(
            x=alt.X("step:Q", title="step", scale=alt.Scale(nice=False)),
            y=alt.Y("loss:Q", title="training loss, nats", scale=alt.Scale(zero=False)),
            tooltip=["step:Q", alt.Tooltip("loss:Q", format=".4f")],
        )
    )
    return spec_of(line.properties(height=HEIGHT))
