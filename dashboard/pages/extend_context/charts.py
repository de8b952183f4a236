"""Charts of the page Extend a model's context: one colour and stroke per method, unscaled grey."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd

from dashboard.charts import theme
from dashboard.charts.palette import DASHES, PALETTE
from dashboard.pages.extend_context.data import AS_TRAINED, DEMANDED, PlannerRead
from dashboard.pages.extend_context.options import BOUND, LOGITS, RATIOS, WAVELENGTHS
from posenc.planner import METHODS
from posenc.planner.methods import CONFIGURED, CONFIGURED_LABEL, LARGER_BASE, UNSCALED

# The scalings last: one more changes no colour of the others.
_NAMES = tuple(dict.fromkeys((UNSCALED.name, LARGER_BASE.name, CONFIGURED, *METHODS)))
_GREY = "#8b8f96"
_SHADES = (_GREY, *(shade for shade in PALETTE if shade != _GREY))
METHOD_COLOURS = {name: _SHADES[n % len(_SHADES)] for n, name in enumerate(_NAMES)}
_STROKES = {name: DASHES[n % len(DASHES)] for n, name in enumerate(_NAMES)}
# What a line is called, and the method as which it is drawn.
_LINES = {method.label: name for name, method in METHODS.items()} | {
    CONFIGURED_LABEL: CONFIGURED,
    AS_TRAINED: UNSCALED.name,
    DEMANDED: LARGER_BASE.name,
}
_HEIGHT = theme.HEIGHT + 80  # of which the legend of six methods takes a part
# A stroke long enough to show the longest dash.
_LEGEND = alt.Legend(
    title=None, orient="top", symbolType="stroke", symbolStrokeWidth=2.5, symbolSize=1_000,
    symbolOpacity=1, columns=2, columnPadding=6, rowPadding=-14, labelFontSize=11, labelOffset=3,
    labelLimit=200,
)  # fmt: skip
_LOG = alt.Scale(type="log", nice=False)


def _logarithmic() -> alt.Axis:
    axis = theme.decades("~s")
    axis.labelOverlap, axis.tickCount = True, 4
    return axis


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A line of each method, or of each base, by pair or distance.

    frame: of a plan; its column `names` says whose line a row is on. tooltip: the format of each column
    that it names. rule: where a dashed line is drawn across, if anywhere.
    """

    frame: Callable[[PlannerRead], pd.DataFrame]
    names: str = "method"
    x: alt.X
    y: alt.Y
    tooltip: Mapping[str, str]
    rule: Mapping[str, Any] | None = None
    key: str
    caption: str


_PAIR = alt.X("pair:Q", title="pair (0 is the fastest)", scale=alt.Scale(nice=False, zero=True))
_DISTANCE = alt.X("x:Q", title="distance", scale=_LOG, axis=_logarithmic())
PICTURES = {
    WAVELENGTHS: Picture(
        frame=lambda read: read.pairs,
        x=_PAIR,
        y=alt.Y("wavelength:Q", title="wavelength in positions", scale=_LOG, axis=_logarithmic()),
        tooltip={"pair": "d", "wavelength": ",.3~r", "before": ",.3~r", "turns": ",.3~r"},
        rule={"y": "min(boundary):Q", "detail": "boundary:N"},
        key="plan_wavelengths",
        caption="Positions per full turn of each pair at the target. Dashed: the trained length. Longer "
        "waves never completed a turn in training.",
    ),
    RATIOS: Picture(
        frame=lambda read: read.pairs,
        x=_PAIR,
        y=alt.Y("ratio:Q", title="frequency, after / before"),
        tooltip={"pair": "d", "ratio": ".3~r"},
        key="plan_ratios",
        caption="1 is the frequency of training. At the lowest level it is divided by the factor.",
    ),
    LOGITS: Picture(
        frame=lambda read: read.kernel,
        x=_DISTANCE,
        y=alt.Y("y:Q", title="expected logit"),
        tooltip={"x": ",", "y": ".3f"},
        rule={"x": "min(boundary):Q", "detail": "boundary:N"},
        key="plan_kernels",
        caption="Expected logit of equal unit content by distance. Dashed: the trained length.",
    ),
    BOUND: Picture(
        frame=lambda read: read.bound,
        names="frequencies",
        x=_DISTANCE,
        y=alt.Y("y:Q", title="lowest B(k)"),
        tooltip={"x": ",", "y": ".3f"},
        rule={"y": alt.datum(0)},
        key="plan_bounds",
        caption="The lowest B(k) in each step of distance. Below 0, a dissimilar token scores higher than "
        "a similar one.",
    ),
}


@theme.cached_spec
def lines(title: str, labels: tuple[str, ...]) -> theme.Spec:
    """Return the specification of a picture with these lines."""
    picture = PICTURES[title]
    methods = [_LINES[label] for label in labels]
    colours = alt.Scale(domain=labels, range=[METHOD_COLOURS[name] for name in methods])
    strokes = alt.Scale(domain=labels, range=[_STROKES[name] for name in methods])
    name = f"{picture.names}:N"
    columns = [alt.Tooltip(f"{column}:Q", format=form) for column, form in picture.tooltip.items()]
    line = (
        alt.Chart()
        .mark_line(strokeWidth=1.8)
        .encode(
            x=picture.x,
            y=picture.y,
            color=alt.Color(name, scale=colours, legend=_LEGEND),
            strokeDash=alt.StrokeDash(name, scale=strokes, legend=_LEGEND),
            tooltip=[name, *columns],
        )
    )
    layers = [line]
    if picture.rule is not None:
        dashed = alt.Chart().mark_rule(aria=False, strokeDash=[5, 4], opacity=0.7, color="gray")
        layers.append(dashed.encode(**picture.rule))
    return theme.spec_of(alt.layer(*layers).properties(height=_HEIGHT))
