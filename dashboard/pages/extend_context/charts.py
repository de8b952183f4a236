"""Charts of the page Extend a model's context: one colour and stroke per method, unscaled grey.

With a pinned setting, A, its curves stand pale beside those of the current one.
"""

import functools
from typing import Any

import altair as alt

from dashboard.charts import theme
from dashboard.charts.palette import DASHES, PALETTE
from dashboard.pages.extend_context.data import AS_TRAINED, DEMANDED
from posenc.planner import METHODS
from posenc.planner.methods import CONFIGURED, CONFIGURED_LABEL, LARGER_BASE, UNSCALED

NAMES = {method.label: name for name, method in METHODS.items()} | {CONFIGURED_LABEL: CONFIGURED}
# The scalings last: one more changes no colour of the others.
_NAMES = tuple(dict.fromkeys((UNSCALED.name, LARGER_BASE.name, CONFIGURED, *METHODS)))
_GREY = PALETTE.index("#8b8f96")
_SHADES = (PALETTE[_GREY], *(one for n, one in enumerate(PALETTE) if n != _GREY))
METHOD_COLOURS = {name: _SHADES[n % len(_SHADES)] for n, name in enumerate(_NAMES)}
# A table has room for a short stroke: those with more gap than line are left out.
_FULL = tuple(dash for dash in DASHES if dash[0] >= dash[1])
METHOD_STROKES = {name: _FULL[n % len(_FULL)] for n, name in enumerate(_NAMES)}
_LADDERS = {AS_TRAINED: UNSCALED.name, DEMANDED: LARGER_BASE.name}  # drawn as these methods are
_HEIGHT = theme.HEIGHT + 40  # of which the legend of six methods takes a part
_LETTERS = 50  # taken by the legend of A and B
_ALONE = METHOD_COLOURS[UNSCALED.name]  # of a line of the ladder as trained
# A stroke long enough to show the longest dash.
_LEGEND = alt.Legend(
    title=None, orient="top", symbolType="stroke", symbolStrokeWidth=2.5, symbolSize=1_000,
    symbolOpacity=1, columns=2, columnPadding=6, rowPadding=-14, labelFontSize=11, labelOffset=3,
    labelLimit=200,
)  # fmt: skip
# A log axis has nine lines in every decade; only that of the power of ten is drawn.
_POWERS = "abs(log(datum.value) / LN10 - round(log(datum.value) / LN10)) < 1e-6"
_DECADES: dict[str, Any] = {
    "gridOpacity": {"condition": {"test": _POWERS, "value": 1}, "value": 0},
    "labelOverlap": True,
    "tickCount": 4,
}
_PAIR = alt.X("pair:Q", title="pair (0 is the fastest)", scale=alt.Scale(nice=False, zero=True))


def _told_apart(field: str, names: dict[str, str]) -> dict[str, Any]:
    """Encodings that tell methods apart, by colour and by stroke. names: by label."""
    labels = [*names]
    colours = [METHOD_COLOURS[name] for name in names.values()]
    dashes = [METHOD_STROKES[name] for name in names.values()]
    return {
        "color": alt.Color(field, scale=alt.Scale(domain=labels, range=colours), legend=_LEGEND),
        "strokeDash": alt.StrokeDash(
            field, scale=alt.Scale(domain=labels, range=dashes), legend=_LEGEND
        ),
    }


def _methods(labels: tuple[str, ...]) -> dict[str, Any]:
    return _told_apart("method:N", {label: NAMES[label] for label in labels})


def _line(pinned: bool, *more: Any, **encodings: Any) -> alt.Chart:
    """A line of each method, and of A where something is pinned; more: of its tooltip."""
    setting = [alt.Tooltip("setting:N", title="setting (B current, A pinned)")] if pinned else []
    return (
        alt.Chart()
        .mark_line(strokeWidth=1.8)
        .encode(tooltip=[*more, *setting], **encodings, **theme.by_setting(pinned, "bottom"))
    )


def _rule(pinned: bool, **at: str) -> alt.Chart:
    """The trained length, of A too where something is pinned."""
    apart = {"detail": "setting:N"} if pinned else {}
    rule = alt.Chart().mark_rule(aria=False, strokeDash=[5, 4], opacity=0.7, color="gray")
    return rule.encode(**at, **apart)


def _spec(pinned: bool, *layers: alt.Chart) -> theme.Spec:
    height = _HEIGHT + (_LETTERS if pinned else 0)
    return theme.spec_of(alt.layer(*layers).properties(height=height))


@functools.cache
def wavelengths(labels: tuple[str, ...], *, pinned: bool = False) -> theme.Spec:
    """Wavelength by pair at the target. Frame: method, pair, wavelength, before,
    inv_freq, trained_inv_freq, boundary."""
    line = _line(
        pinned, "method:N", "pair:Q", alt.Tooltip("wavelength:Q", format=",.6g"),
        alt.Tooltip("before:Q", format=",.6g"), alt.Tooltip("inv_freq:Q", format=".6g"),
        alt.Tooltip("trained_inv_freq:Q", format=".6g"),
        x=_PAIR,
        y=alt.Y(
            "wavelength:Q", title="wavelength in positions", scale=alt.Scale(type="log"),
            axis=alt.Axis(format="~s", **_DECADES),
        ),
        **_methods(labels),
    )  # fmt: skip
    return _spec(pinned, line, _rule(pinned, y="min(boundary):Q"))


@functools.cache
def ramps(labels: tuple[str, ...], *, pinned: bool = False) -> theme.Spec:
    """Frequency at the target over that of training, by pair. Frame: method, pair, ratio, state."""
    line = _line(
        pinned, "method:N", "pair:Q", alt.Tooltip("ratio:Q", format=".4g"), "state:N",
        x=_PAIR,
        y=alt.Y("ratio:Q", title="frequency, after / before"),
        **_methods(labels),
    )  # fmt: skip
    return _spec(pinned, line)


@functools.cache
def turns(*, pinned: bool = False) -> theme.Spec:
    """Turns of each pair within training, log scale, one turn marked. Frame: pair, turns."""
    line = _line(
        pinned, "pair:Q", alt.Tooltip("turns:Q", format=".4g"),
        x=_PAIR,
        y=alt.Y(
            "turns:Q", title="turns in training", scale=alt.Scale(type="log"),
            axis=alt.Axis(format="~g", **_DECADES),
        ),
        color=alt.value(_ALONE),
    )  # fmt: skip
    one = alt.Chart().mark_rule(aria=False, strokeDash=[5, 4], color="gray").encode(y=alt.datum(1))
    return _spec(pinned, line, one)


def _distance() -> alt.X:
    return alt.X(
        "x:Q", title="distance", scale=alt.Scale(type="log", nice=False),
        axis=alt.Axis(format="~s", **_DECADES),
    )  # fmt: skip


@functools.cache
def kernels(labels: tuple[str, ...], *, pinned: bool = False) -> theme.Spec:
    """Expected logit of unit content by distance. Frame: method, x, y, boundary."""
    line = _line(
        pinned, "method:N", alt.Tooltip("x:Q", format=","), alt.Tooltip("y:Q", format=".4f"),
        x=_distance(),
        y=alt.Y("y:Q", title="expected logit"),
        **_methods(labels),
    )  # fmt: skip
    return _spec(pinned, line, _rule(pinned, x="min(boundary):Q"))


@functools.cache
def bounds(ladders: tuple[str, ...], *, pinned: bool = False) -> theme.Spec:
    """B(k), the lowest of every step, with 0 marked. Frame: ladder, x, y."""
    line = _line(
        pinned, "ladder:N", alt.Tooltip("x:Q", format=","), alt.Tooltip("y:Q", format=".4f"),
        x=_distance(),
        y=alt.Y("y:Q", title="lowest B(k)"),
        **_told_apart("ladder:N", {ladder: _LADDERS[ladder] for ladder in ladders}),
    )  # fmt: skip
    zero = alt.Chart().mark_rule(aria=False, color="gray").encode(y=alt.datum(0))
    return _spec(pinned, line, zero)


@functools.cache
def resolution() -> theme.Spec:
    """Different bfloat16 numbers against positions, both logarithmic. Frame: positions, numbers."""
    axis = alt.Axis(format=",", labelOverlap=True, tickCount=6)
    x, y = (
        shorthand(
            f"{field}:Q", title=title, scale=alt.Scale(type="log", base=2), axis=axis
        )
        for shorthand, field, title in (
            (alt.X, "positions", "positions"), (alt.Y, "numbers", "different bfloat16 numbers"),
        )
    )  # fmt: skip
    line = (
        alt.Chart()
        .mark_line(strokeWidth=2, color=_ALONE, point=alt.OverlayMarkDef(size=24, color=_ALONE))
        .encode(
            x=x,
            y=y,
            tooltip=[alt.Tooltip("positions:Q", format=","), alt.Tooltip("numbers:Q", format=",")],
        )
    )
    ideal = (
        alt.Chart()
        .mark_line(aria=False, strokeDash=[5, 4], color="gray")
        .encode(x="positions:Q", y="positions:Q")
    )
    return _spec(False, line, ideal)
