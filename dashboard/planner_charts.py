"""What the Context planner draws: one colour and stroke per method, the trained length dashed."""

import functools
from typing import Any

import altair as alt

from dashboard import charts
from dashboard.palette import METHOD_COLOURS, METHOD_STROKES
from dashboard.planner import AS_TRAINED, DEMANDED
from posenc.planner import METHODS
from posenc.planner.methods import CONFIGURED, CONFIGURED_LABEL

_NAMES = {method.label: name for name, method in METHODS.items()} | {CONFIGURED_LABEL: CONFIGURED}
_ONE = charts.COLOURS["rope"]  # of a line that is alone
_LEGEND = alt.Legend(
    title=None, orient="top", symbolType="stroke", symbolStrokeWidth=3, columns=2, labelLimit=200
)


def _methods(labels: tuple[str, ...]) -> dict[str, Any]:
    """Encodings that tell methods apart, by colour and by stroke."""
    colours = [METHOD_COLOURS[_NAMES[label]] for label in labels]
    dashes = [METHOD_STROKES[_NAMES[label]] for label in labels]
    return {
        "color": alt.Color(
            "method:N", scale=alt.Scale(domain=labels, range=colours), legend=_LEGEND
        ),
        "strokeDash": alt.StrokeDash(
            "method:N", scale=alt.Scale(domain=labels, range=dashes), legend=_LEGEND
        ),
    }


def _level() -> alt.Chart:
    """The trained length as a level of a wavelength."""
    return (
        alt.Chart()
        .mark_rule(aria=False, strokeDash=[5, 4], opacity=0.7, color="gray")
        .encode(y="min(boundary):Q")
    )


@functools.cache
def wavelengths(labels: tuple[str, ...]) -> charts.Spec:
    """Wavelength by pair as read at the target. Frame: method, pair, wavelength, before, boundary."""
    line = (
        alt.Chart()
        .mark_line(strokeWidth=2)
        .encode(
            x=alt.X("pair:Q", title="pair (0 is the fastest)"),
            y=alt.Y(
                "wavelength:Q", title="wavelength in positions", scale=alt.Scale(type="log"),
                axis=alt.Axis(format="~s"),
            ),
            tooltip=["method:N", "pair:Q", alt.Tooltip("wavelength:Q", format=",.6g"),
                     alt.Tooltip("before:Q", format=",.6g")],
            **_methods(labels),
        )
    )  # fmt: skip
    return charts.spec_of(alt.layer(line, _level()).properties(height=charts.HEIGHT))


@functools.cache
def ramps(labels: tuple[str, ...]) -> charts.Spec:
    """Frequency at the target over that of training, by pair. Frame: method, pair, ratio, state."""
    line = (
        alt.Chart()
        .mark_line(strokeWidth=2)
        .encode(
            x=alt.X("pair:Q", title="pair (0 is the fastest)"),
            y=alt.Y("ratio:Q", title="frequency, after / before"),
            tooltip=["method:N", "pair:Q", alt.Tooltip("ratio:Q", format=".4g"), "state:N"],
            **_methods(labels),
        )
    )
    return charts.spec_of(line.properties(height=charts.HEIGHT))


@functools.cache
def turns() -> charts.Spec:
    """Turns of each pair within training, log scale, one turn marked. Frame: pair, turns."""
    line = (
        alt.Chart()
        .mark_line(strokeWidth=2, color=_ONE, point=alt.OverlayMarkDef(size=14, color=_ONE))
        .encode(
            x=alt.X("pair:Q", title="pair (0 is the fastest)"),
            y=alt.Y("turns:Q", title="turns in training", scale=alt.Scale(type="log"),
                    axis=alt.Axis(format="~g")),
            tooltip=["pair:Q", alt.Tooltip("turns:Q", format=".4g")],
        )
    )  # fmt: skip
    one = alt.Chart().mark_rule(aria=False, strokeDash=[5, 4], color="gray").encode(y=alt.datum(1))
    return charts.spec_of(alt.layer(line, one).properties(height=charts.HEIGHT))


def _distance() -> alt.X:
    return alt.X(
        "x:Q", title="distance", scale=alt.Scale(type="log", nice=False),
        axis=alt.Axis(format="~s", labelOverlap=True),
    )  # fmt: skip


@functools.cache
def kernels(labels: tuple[str, ...]) -> charts.Spec:
    """Expected logit of unit content by distance. Frame: method, x, y, boundary."""
    line = (
        alt.Chart()
        .mark_line(strokeWidth=1.6)
        .encode(
            x=_distance(),
            y=alt.Y("y:Q", title="expected logit"),
            tooltip=["method:N", alt.Tooltip("x:Q", format=","), alt.Tooltip("y:Q", format=".4f")],
            **_methods(labels),
        )
    )
    return charts.spec_of(alt.layer(line, charts.boundary_rule()).properties(height=charts.HEIGHT))


@functools.cache
def bounds() -> charts.Spec:
    """B(k), the lowest of every step, with 0 marked. Frame: ladder, x, y."""
    domain = [AS_TRAINED, DEMANDED]
    colours = [charts.COLOURS["rope"], charts.COLOURS["none"]]
    line = (
        alt.Chart()
        .mark_line(strokeWidth=1.8)
        .encode(
            x=_distance(),
            y=alt.Y("y:Q", title="lowest B(k)"),
            color=alt.Color(
                "ladder:N", scale=alt.Scale(domain=domain, range=colours), legend=_LEGEND
            ),
            strokeDash=alt.StrokeDash(
                "ladder:N", scale=alt.Scale(domain=domain, range=[[1, 0], [5, 2]]), legend=_LEGEND
            ),
            tooltip=["ladder:N", alt.Tooltip("x:Q", format=","), alt.Tooltip("y:Q", format=".4f")],
        )
    )
    zero = alt.Chart().mark_rule(aria=False, color="gray").encode(y=alt.datum(0))
    return charts.spec_of(alt.layer(line, zero).properties(height=charts.HEIGHT))


@functools.cache
def resolution() -> charts.Spec:
    """Different bfloat16 numbers against positions, both logarithmic. Frame: positions, numbers."""
    log = alt.Scale(type="log", base=2)
    axis = alt.Axis(format=",", labelOverlap=True)
    line = (
        alt.Chart()
        .mark_line(strokeWidth=2, color=_ONE, point=alt.OverlayMarkDef(size=24, color=_ONE))
        .encode(
            x=alt.X("positions:Q", title="positions", scale=log, axis=axis),
            y=alt.Y("numbers:Q", title="different bfloat16 numbers", scale=log, axis=axis),
            tooltip=[alt.Tooltip("positions:Q", format=","), alt.Tooltip("numbers:Q", format=",")],
        )
    )
    ideal = (
        alt.Chart()
        .mark_line(aria=False, strokeDash=[5, 4], color="gray")
        .encode(x="positions:Q", y="positions:Q")
    )
    return charts.spec_of(alt.layer(line, ideal).properties(height=charts.HEIGHT))
