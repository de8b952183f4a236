"""Charts of the page Check my encoding: differences by column, and the position of each row."""

import altair as alt

from dashboard.charts import theme
from dashboard.charts.theme import Spec
from dashboard.pages.check_my_encoding.identified import FOUND_AND_EXPECTED

HEIGHT = 224  # beside the verdict, whole on the first screen of a projector
_WHOLE = alt.Axis(tickMinStep=1, format="d")
_HEADS = alt.X("head:Q", title="head", scale=alt.Scale(nice=False), axis=_WHOLE)


@theme.cached_spec
def positions(_names: tuple[str, ...]) -> Spec:
    """Return the position found and expected by row. Frame: row, position, which."""
    names = [*FOUND_AND_EXPECTED]
    colours, strokes = [theme.COLOURS["sinusoidal"], theme.GRAY], [[1, 0], [6, 4]]
    legend = alt.Legend(title=None, orient="top", symbolStrokeWidth=3, **theme.LEGEND_LINE)
    lines = (
        alt.Chart()
        .mark_line(strokeWidth=2)
        .encode(
            x=alt.X("row:Q", title="row", scale=alt.Scale(nice=False)),
            y=alt.Y("position:Q", title="position"),
            color=alt.Color("which:N", scale=alt.Scale(domain=names, range=colours), legend=legend),
            strokeDash=alt.StrokeDash(
                "which:N", scale=alt.Scale(domain=names, range=strokes), legend=legend
            ),
            tooltip=[
                "row:Q",
                alt.Tooltip("position:Q", format=","),
                alt.Tooltip("which:N", title=""),
            ],
        )
    )
    return theme.spec_of(alt.layer(lines).properties(height=HEIGHT))


def _found_and_expected(x: alt.X, y: alt.Y, form: str, *, points: bool) -> Spec:
    """Return what was found and what is expected, as lines, or as points. Frame: x, y, which."""
    names = ["found", "expected"]
    colours, strokes = [theme.COLOURS["sinusoidal"], theme.GRAY], [[1, 0], [6, 4]]
    legend = alt.Legend(title=None, orient="top", symbolStrokeWidth=3, **theme.LEGEND_LINE)
    encoded = (
        alt.Chart().mark_point(size=40, strokeWidth=2) if points else alt.Chart().mark_line()
    ).encode(
        x=x,
        y=y,
        color=alt.Color("which:N", scale=alt.Scale(domain=names, range=colours), legend=legend),
        tooltip=[
            x.shorthand,
            alt.Tooltip(y.shorthand, format=form),
            alt.Tooltip("which:N", title=""),
        ],
    )
    if points:
        shapes = alt.Scale(domain=names, range=["circle", "cross"])
        encoded = encoded.encode(shape=alt.Shape("which:N", scale=shapes, legend=legend))
    else:
        dashes = alt.Scale(domain=names, range=strokes)
        encoded = encoded.encode(strokeDash=alt.StrokeDash("which:N", scale=dashes, legend=legend))
    return theme.spec_of(alt.layer(encoded).properties(height=HEIGHT))


@theme.cached_spec
def logits_by_distance(_names: tuple[str, ...]) -> Spec:
    """Return the root mean square of logits by distance. Frame: distance, logit, which."""
    x = alt.X("distance:Q", title="distance to the key", scale=alt.Scale(nice=False), axis=_WHOLE)
    y = alt.Y("logit:Q", title="logit (root mean square)")
    return _found_and_expected(x, y, ".3g", points=False)


@theme.cached_spec
def scales_by_head(_names: tuple[str, ...]) -> Spec:
    """Return the softmax scale of each head. Frame: head, value, which."""
    y = alt.Y("value:Q", title="softmax scale", scale=alt.Scale(zero=True))
    return _found_and_expected(_HEADS, y, ".4g", points=True)


@theme.cached_spec
def slopes_by_head(_names: tuple[str, ...]) -> Spec:
    """Return the slope of each head. Frame: head, value, which."""
    y = alt.Y("value:Q", title="slope, in logits per position")
    return _found_and_expected(_HEADS, y, ".4g", points=True)


@theme.cached_spec
def differences(_names: tuple[str, ...], x_title: str) -> Spec:
    """Return the largest difference by column, on a log scale. Frame: x, y, function."""
    functions, colours = ["sine", "cosine"], [theme.COLOURS["sinusoidal"], theme.GRAY]
    legend = alt.Legend(title=None, orient="top", symbolSize=60)
    points = (
        alt.Chart()
        .mark_circle(opacity=1)
        .encode(
            x=alt.X("x:Q", title=x_title, scale=alt.Scale(nice=False)),
            y=alt.Y(
                "y:Q", title="largest error", scale=alt.Scale(type="log"),
                axis=theme.powers_of_ten(),
            ),
            color=alt.Color(
                "function:N", scale=alt.Scale(domain=functions, range=colours), legend=legend
            ),
            # Thick and thin tell them apart in grey.
            size=alt.Size(
                "function:N", scale=alt.Scale(domain=functions, range=[24, 5]), legend=None
            ),
            tooltip=["x:Q", alt.Tooltip("y:Q", format=".3g"), "function:N"],
        )
    )  # fmt: skip
    return theme.spec_of(alt.layer(points).properties(height=HEIGHT))
