"""The Encoding page's charts: constant specifications, into which its frames are poured."""

import functools
from typing import Any

import altair as alt

from dashboard.charts.theme import (
    COLOURS,
    HEIGHT,
    Spec,
    boundary_rule,
    by_setting,
    decades,
    in_order,
    line_style,
    scheme_colour,
    spec_of,
    told,
)


@functools.cache
def waves(kind: str, *, pinned: bool = False) -> Spec:
    """Chosen pairs of one scheme under each other, sine solid and cosine dotted, by position.

    Frame: pair, x from 0, lane (where 0 is drawn), sin and cos (lane + wave), name, ceiling (height of
    the name), boundary.
    """
    x = alt.X("x:Q", title="position", scale=alt.Scale(nice=False, zero=False))
    strength = {"opacity": by_setting(pinned)["opacity"]} if pinned else {}

    def level(column: str) -> alt.Y:
        return alt.Y(f"{column}:Q", axis=None, scale=alt.Scale(nice=False))

    def line(wave: str, **style: Any) -> alt.Chart:
        # Every value is finite, so the browser need not ask each.
        mark = alt.Chart().mark_line(
            color=COLOURS[kind], interpolate="linear", description="a line per wave", tooltip=None,
            invalid=None, **style,
        )  # fmt: skip
        return mark.encode(x=x, y=level(wave), detail="pair:N", **strength)

    starts = alt.Chart().transform_filter("datum.x == 0")
    zero = starts.mark_rule(aria=False, opacity=0.3, color="gray").encode(y=level("lane"))
    name = starts.mark_text(
        align="left", baseline="bottom", dx=2, fontSize=12, fontWeight=600, color=COLOURS[kind]
    ).encode(x=x, y=level("ceiling"), text="name:N")
    layers = (
        zero,
        line("sin", strokeWidth=2),
        line("cos", strokeWidth=1.25, strokeDash=[2, 2]),
        boundary_rule(),
        name,
    )
    return in_order(spec_of(alt.layer(*layers).properties(height=HEIGHT)))


@functools.cache
def slopes(*, pinned: bool = False) -> Spec:
    """The slope of every head as a bar. Frame: scheme, head, slope."""
    bars = (
        alt.Chart()
        .mark_bar(color=COLOURS["alibi"])
        .encode(
            x=alt.X("head:O", title="head", axis=alt.Axis(labelAngle=0, labelOverlap=True)),
            y=alt.Y("slope:Q", title="subtracted per token of distance"),
            tooltip=[*told(pinned), "head:Q", alt.Tooltip("slope:Q", format=".3g")],
            **({"xOffset": "setting:N", "opacity": by_setting(True)["opacity"]} if pinned else {}),
        )
    )
    return spec_of(bars.properties(height=HEIGHT))


@functools.cache
def wavelengths(kinds: tuple[str, ...], *, pinned: bool = False) -> Spec:
    """Wavelength of every pair, log scale, the training length as a dashed line.

    Frame: scheme, pair, place, wavelength, turns, share, trained.
    """
    line = (
        alt.Chart()
        .mark_line(point={"filled": True, "size": 22})
        .encode(
            x=alt.X(
                "place:Q",
                title="pair / number of pairs, fastest first",
                scale=alt.Scale(domain=[0, 1]),
                axis=alt.Axis(format="%", tickCount=5),
            ),
            y=alt.Y(
                "wavelength:Q",
                title="positions per turn",
                scale=alt.Scale(type="log"),
                axis=decades("~s"),
            ),
            color=scheme_colour(kinds),
            tooltip=[
                *told(pinned),
                alt.Tooltip("pair:Q", title="pair"),
                alt.Tooltip("wavelength:Q", format=".3s", title="positions per turn"),
                alt.Tooltip("turns:Q", format=".3g", title="turns in training"),
                alt.Tooltip("share:Q", format=".3~%", title="share of a turn in training"),
            ],
            **line_style(kinds, pinned),
        )
    )
    trained = alt.Chart().mark_rule(aria=False, strokeDash=[5, 4], color="gray")
    trained = trained.encode(y="min(trained):Q")
    return spec_of(alt.layer(line, trained).properties(height=HEIGHT))
