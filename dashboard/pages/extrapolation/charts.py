"""Charts of Extrapolation: what trained models measured, and turns of every pair in training."""

import functools

import altair as alt

from dashboard.charts.theme import (
    HEIGHT,
    Spec,
    boundary_rule,
    decades,
    dots,
    line_style,
    scheme_colour,
    spec_of,
    told,
)

# The first is a model as it was trained.
DASHES = {
    "solid": [1, 0], "dashed": [6, 3], "dotted": [2, 2], "dash and dot": [9, 3, 2, 3], "sparse": [1, 5]
}  # fmt: skip
TALL = 340


@functools.cache
def measured(
    kinds: tuple[str, ...],
    reads: tuple[str, ...],
    names: tuple[str, ...],
    x_title: str,
    y_title: str,
    *,
    log: bool = True,
    chance: bool = False,
    labels: bool = True,
) -> Spec:
    """Lines over a length, coloured by scheme, dashed by variant, each labelled at its end.

    names: of the lines, which the tooltip lists. log: whether the x axis is. labels: at the ends of
    lines; without them the legend stands above. Frame: scheme, read, name, x, y, low, high (the band
    of seeds), strength, boundary; at the end of a line end and end_y, where it ends early, stop;
    where `chance` is drawn, chance: the accuracy of guessing.
    """
    scale = alt.Scale(type="log", base=2, nice=False) if log else alt.Scale(nice=False)
    x = alt.X("x:Q", title=x_title, scale=scale)
    y = alt.Y("y:Q", title=y_title, scale=alt.Scale(zero=False))
    colour = scheme_colour(kinds)
    if labels:
        colour = colour.legend(None)
    strokes = [*DASHES.values()]
    dashes = [strokes[i % len(strokes)] for i in range(len(reads))]
    read = alt.StrokeDash("read:N", scale=alt.Scale(domain=list(reads), range=dashes), legend=None)
    strength = alt.Opacity("strength:Q", scale=None, legend=None)
    own = {"x": x, "color": colour, "detail": "name:N"}
    band = alt.Chart().mark_area(opacity=0.15).encode(y="low:Q", y2="high:Q", **own)
    line = alt.Chart().mark_line(strokeWidth=2, tooltip=None, point={"size": 18})
    line = line.encode(y=y, strokeDash=read, opacity=strength, **own)
    stop = alt.Chart().mark_point(shape="cross", filled=True, size=90, tooltip=None)
    stop = stop.encode(y="stop:Q", **own)
    layers = [band, line, stop, boundary_rule(), *_pointer(x, x_title, names)]
    if chance:
        guess = alt.Chart().mark_rule(aria=False, strokeDash=[2, 3], opacity=0.7, color="gray")
        layers.append(guess.encode(y="min(chance):Q"))
    if labels:
        layers += _labels(x, colour)
    return spec_of(alt.layer(*layers).properties(height=TALL))


def _pointer(x: alt.X, x_title: str, names: tuple[str, ...]) -> list[alt.Chart]:
    """A vertical rule at the x nearest to the pointer, whose tooltip lists every line there."""
    at = alt.selection_point(
        name="at", fields=["x"], nearest=True, on="pointermove", clear="pointerout", empty=False
    )
    listed = [
        alt.Tooltip(field=name.replace(".", "\\."), type="quantitative", format=".3~f", title=name)
        for name in names
    ]
    rule = alt.Chart().transform_pivot("name", value="y", groupby=["x"])
    rule = rule.mark_rule(color="gray", aria=False).encode(
        x=x,
        opacity=alt.condition(at, alt.value(0.6), alt.value(0)),
        tooltip=[alt.Tooltip("x:Q", format=",", title=x_title), *listed],
    )
    return [rule.add_params(at)]


def _labels(x: alt.X, colour: alt.Color) -> list[alt.Chart]:
    """Names at the ends of lines: right of the plot, and above a line that ends inside it."""
    right = alt.Chart().transform_filter("isValid(datum.end) && !isValid(datum.stop)")
    right = right.mark_text(align="left", dx=8, fontSize=12, aria=False)
    inside = alt.Chart().transform_filter("isValid(datum.stop)")
    inside = inside.mark_text(align="right", dx=-2, dy=-12, fontSize=12, aria=False)
    return [one.encode(x=x, y="end_y:Q", text="end:N", color=colour) for one in (right, inside)]


def strokes(reads: tuple[str, ...]) -> str:
    """Return the legend of dashes of `measured` in words; Vega draws none for dashes alone."""
    words = [*DASHES]
    parts = [f"{words[i % len(words)]}: {name}" for i, name in enumerate(reads)]
    return f"Lines: {'; '.join(parts)}."


@functools.cache
def turns(kinds: tuple[str, ...], *, pinned: bool = False) -> Spec:
    """Full turns that each pair makes within the training length, log scale, with one turn marked.

    Frame: scheme, pair, turns, dot; pinned: setting, too.
    """
    x = alt.X("pair:Q", title="pair (0: highest frequency)")
    y = alt.Y(
        "turns:Q",
        title="turns within the training length",
        scale=alt.Scale(type="log"),
        axis=decades("~g"),
    )
    tip = [
        *told(pinned),
        alt.Tooltip("pair:Q", title="pair"),
        alt.Tooltip("turns:Q", format=".4g", title="turns in training"),
    ]
    line = alt.Chart().mark_line(tooltip=None)
    line = line.encode(x=x, y=y, color=scheme_colour(kinds), **line_style(kinds, pinned))
    points = dots(x, y, kinds, tip)
    one = alt.Chart().mark_rule(aria=False, strokeDash=[5, 4], color="gray").encode(y=alt.datum(1))
    return spec_of(alt.layer(line, points, one).properties(height=HEIGHT))
