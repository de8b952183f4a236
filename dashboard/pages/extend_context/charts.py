"""Charts of the page Extend a model's context: one colour and stroke per method, unscaled grey.

With a pinned setting, A, its curves stand pale beside those of the current one.
"""

import functools
from collections.abc import Mapping
from typing import Any

import altair as alt

from dashboard.charts import theme
from dashboard.charts.palette import DASHES, PALETTE
from dashboard.pages.extend_context.data import AS_TRAINED, DEMANDED
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


def _logarithmic(form: str = "~s") -> alt.Axis:
    axis = theme.decades(form)
    axis.labelOverlap, axis.tickCount = True, 4
    return axis


_PAIR = alt.X("pair:Q", title="pair (0 is the fastest)", scale=alt.Scale(nice=False, zero=True))
_DISTANCE = alt.X("x:Q", title="distance", scale=_LOG, axis=_logarithmic())


def _lines(
    field: str, labels: tuple[str, ...], x: alt.X, y: alt.Y, tooltip: Mapping[str, str],
    rule: Mapping[str, Any] | None = None, *, pinned: bool,
) -> theme.Spec:  # fmt: skip
    """Return a line of each label, and of A where something is pinned.

    field: the column of labels. tooltip: the format of each column that it names. rule: where a line is
    drawn across.
    """
    names = [_LINES[label] for label in labels]
    colours = alt.Scale(domain=labels, range=[METHOD_COLOURS[name] for name in names])
    strokes = alt.Scale(domain=labels, range=[_STROKES[name] for name in names])
    columns = [alt.Tooltip(f"{name}:Q", format=form) for name, form in tooltip.items()]
    setting = [alt.Tooltip("setting:N", title="setting (B current, A pinned)")] if pinned else []
    line = (
        alt.Chart()
        .mark_line(strokeWidth=1.8)
        .encode(
            x=x,
            y=y,
            color=alt.Color(f"{field}:N", scale=colours, legend=_LEGEND),
            strokeDash=alt.StrokeDash(f"{field}:N", scale=strokes, legend=_LEGEND),
            tooltip=[f"{field}:N", *columns, *setting],
            **theme.by_setting(pinned, "bottom"),
        )
    )
    layers = [line]
    if rule is not None:
        dashed = alt.Chart().mark_rule(aria=False, strokeDash=[5, 4], opacity=0.7, color="gray")
        layers.append(dashed.encode(**rule, **({"detail": "setting:N"} if pinned else {})))
    height = _HEIGHT + (theme.SETTINGS_LEGEND if pinned else 0)
    return theme.spec_of(alt.layer(*layers).properties(height=height))


@functools.cache
def wavelengths(labels: tuple[str, ...], *, pinned: bool = False) -> theme.Spec:
    """Wavelength by pair at the target. Frame: method, pair, wavelength, before, turns, boundary."""
    y = alt.Y("wavelength:Q", title="wavelength in positions", scale=_LOG, axis=_logarithmic())
    tooltip = {"pair": "d", "wavelength": ",.3~r", "before": ",.3~r", "turns": ",.3~r"}
    rule = {"y": "min(boundary):Q"}
    return _lines("method", labels, _PAIR, y, tooltip, rule, pinned=pinned)


@functools.cache
def ratios(labels: tuple[str, ...], *, pinned: bool = False) -> theme.Spec:
    """Frequency at the target over that of training, by pair. Frame: method, pair, ratio."""
    y = alt.Y("ratio:Q", title="frequency, after / before")
    return _lines("method", labels, _PAIR, y, {"pair": "d", "ratio": ".3~r"}, pinned=pinned)


@functools.cache
def kernels(labels: tuple[str, ...], *, pinned: bool = False) -> theme.Spec:
    """Expected logit of unit content by distance. Frame: method, x, y, boundary."""
    y = alt.Y("y:Q", title="expected logit")
    tooltip, rule = {"x": ",", "y": ".3f"}, {"x": "min(boundary):Q"}
    return _lines("method", labels, _DISTANCE, y, tooltip, rule, pinned=pinned)


@functools.cache
def bounds(labels: tuple[str, ...], *, pinned: bool = False) -> theme.Spec:
    """B(k), the lowest of every step, with 0 marked. Frame: ladder, x, y."""
    y = alt.Y("y:Q", title="lowest B(k)")
    tooltip, rule = {"x": ",", "y": ".3f"}, {"y": alt.datum(0)}
    return _lines("ladder", labels, _DISTANCE, y, tooltip, rule, pinned=pinned)
