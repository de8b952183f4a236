"""The Encoding page's charts: constant specifications, into which its frames are poured."""

import functools

import altair as alt

from dashboard.charts.theme import (
    COLOURS,
    HEIGHT,
    Spec,
    boundary_rule,
    by_setting,
    decades,
    dots,
    line_style,
    scheme_colour,
    spec_of,
    told,
)


@functools.cache
def waves(kind: str, *, pinned: bool = False) -> Spec:
    """Chosen pairs of one scheme under each other, sine solid and cosine dotted, by position.

    Frame: pair, wave ("sin", "cos"), x, y, lane (where 0 is drawn), level (lane + y), name, boundary.
    """
    x = alt.X("x:Q", title="position", scale=alt.Scale(nice=False, zero=False))
    level = alt.Y("level:Q", axis=None, scale=alt.Scale(nice=False))
    zero = (
        alt.Chart()
        .mark_rule(aria=False, opacity=0.3, color="gray")
        .encode(y=alt.Y("mean(lane):Q", axis=None), detail="pair:N")
    )
    line = (
        alt.Chart()
        .mark_line(color=COLOURS[kind], interpolate="linear")
        .encode(
            x=x,
            y=level,
            detail="pair:N",
            strokeWidth=alt.StrokeWidth(
                "wave:N", scale=alt.Scale(domain=["sin", "cos"], range=[2, 1.25]), legend=None
            ),
            strokeDash=alt.StrokeDash(
                "wave:N",
                scale=alt.Scale(domain=["sin", "cos"], range=[[1, 0], [2, 2]]),
                legend=None,
            ),
            tooltip=[*told(pinned), "pair:Q", "wave:N"],
            **({"opacity": by_setting(pinned)["opacity"]} if pinned else {}),
        )
    )
    name = (
        alt.Chart()
        .mark_text(
            align="left", baseline="bottom", dx=2, fontSize=12, fontWeight=600, color=COLOURS[kind]
        )
        .encode(x="min(x):Q", y=alt.Y("max(ceiling):Q", axis=None), text="name:N")
    )
    return spec_of(alt.layer(zero, line, boundary_rule(), name).properties(height=HEIGHT + 80))


@functools.cache
def wavelengths(kinds: tuple[str, ...], *, pinned: bool = False) -> Spec:
    """Wavelength of every pair, log scale, the training length as a dashed line.

    Frame: scheme, pair, place, wavelength, trained, dot.
    """
    return _over_ladder(
        kinds, "wavelength:Q", alt.Scale(type="log"), "positions per turn", decades("~s"),
        "min(trained):Q",
        pinned=pinned,
    )  # fmt: skip


@functools.cache
def shares(kinds: tuple[str, ...], *, pinned: bool = False) -> Spec:
    """Share of a full turn that every pair makes in training.

    Frame: scheme, pair, place, share, dot.
    """
    scale = alt.Scale(domain=[0, 1])
    return _over_ladder(
        kinds,
        "share:Q",
        scale,
        "share of a full turn in training",
        alt.Axis(format="%"),
        None,
        pinned=pinned,
    )


def _over_ladder(
    kinds: tuple[str, ...],
    field: str,
    scale: alt.Scale,
    title: str,
    axis: alt.Axis,
    rule: str | None,
    *,
    pinned: bool,
) -> Spec:
    x = alt.X(
        "place:Q",
        title="dimension / width, fastest pair first",
        scale=alt.Scale(domain=[0, 1]),
        axis=alt.Axis(format="%", tickCount=5),
    )
    y = alt.Y(field, title=title, scale=scale, axis=axis)
    tip = [
        *told(pinned),
        alt.Tooltip("pair:Q", title="pair"),
        alt.Tooltip("wavelength:Q", format=".6g", title="positions per turn"),
        alt.Tooltip("turns:Q", format=".4g", title="turns in training"),
        alt.Tooltip("share:Q", format=".4%", title="share of a turn in training"),
    ]
    line = alt.Chart().mark_line(tooltip=None)
    line = line.encode(x=x, y=y, color=scheme_colour(kinds), **line_style(kinds, pinned))
    layers = [line, dots(x, y, kinds, tip)]
    if rule:
        layers.append(
            alt.Chart().mark_rule(aria=False, strokeDash=[5, 4], color="gray").encode(y=rule)
        )
    return spec_of(alt.layer(*layers).properties(height=HEIGHT))


@functools.cache
def ratios(kinds: tuple[str, ...], *, pinned: bool = False) -> Spec:
    """Token norm over position norm by start, log scale, with equality marked.

    Frame: scheme, tokens start as, factor ("plain", "times sqrt(d)"), ratio.
    """
    marks = (
        alt.Chart()
        .mark_point(size=90, filled=False, strokeWidth=2.5, opacity=1)
        .encode(
            x=alt.X(
                "ratio:Q",
                title="token norm / position norm",
                scale=alt.Scale(type="log", padding=14),
                axis=alt.Axis(format="~g", tickCount=6),
            ),
            y=alt.Y(
                "tokens start as:N",
                title=None,
                sort=None,
                axis=alt.Axis(labelLimit=140, labelOverlap=False),
            ),
            shape=alt.Shape(
                "factor:N",
                scale=alt.Scale(
                    domain=["plain", "times sqrt(d)"], range=["circle", "triangle-right"]
                ),
                legend=alt.Legend(title=None, orient="bottom"),  # a phone has no room beside
            ),
            color=scheme_colour(kinds),
            **({"opacity": by_setting(pinned)["opacity"]} if pinned else {}),
            tooltip=[
                *told(pinned),
                "tokens start as:N",
                "factor:N",
                alt.Tooltip("ratio:Q", format=".4g", title="token norm / position norm"),
            ],
        )
    )
    one = alt.Chart().mark_rule(aria=False, strokeDash=[5, 4], color="gray").encode(x=alt.datum(1))
    return spec_of(alt.layer(marks, one).properties(height=300))
