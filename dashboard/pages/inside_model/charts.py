"""Charts of Inside a model: a line per head."""

import altair as alt

from dashboard.charts import theme
from dashboard.charts.palette import DASHES, PALETTE
from dashboard.pages.inside_model.data import EQUAL_WEIGHTS

# On a phone the names of the heads take two lines.
_COLUMNS = alt.ExprRef("containerSize()[0] < 480 ? 3 : 0")
# No head has a colour of the five schemes that pages begin with, which means something else. In this order
# heads with similar strokes differ in hue.
_OF_HEADS = (PALETTE[6], PALETTE[5], PALETTE[8], PALETTE[7], *PALETTE[9:])
_LEGEND = alt.Legend(
    title=None, orient="top", symbolStrokeWidth=2.5, columns=_COLUMNS, **theme.LEGEND_LINE
)


@theme.cached_spec
def by_pair(names: tuple[str, ...], y_title: str) -> theme.Spec:
    """Return lines over rotary pairs, and where pairs begin that never complete a turn.

    Frame: name, x, y; boundary, where there is one.
    """
    x = alt.X(
        "x:Q",
        title="rotary pair (0 is the fastest)",
        scale=alt.Scale(nice=False, zero=True),
        axis=alt.Axis(tickMinStep=1, format="d"),
    )
    y = alt.Y("y:Q", title=y_title, scale=alt.Scale(zero=True))
    return _lines(names, x, y, "pair", "no full turn in training")


@theme.cached_spec
def by_distance(names: tuple[str, ...]) -> theme.Spec:
    """Return lines of attention weight over distance, and the training length. Frame: as `by_pair`."""
    x = alt.X("x:Q", title="query-key distance (tokens)", scale=alt.Scale(nice=False, zero=True))
    y = alt.Y(
        "y:Q",
        title="mean attention weight",
        scale=alt.Scale(type="log", nice=False),
        axis=theme.powers_of_ten(),
    )
    return _lines(names, x, y, "distance", "training length")


def _lines(names: tuple[str, ...], x: alt.X, y: alt.Y, x_title: str, boundary: str) -> theme.Spec:
    shades = [
        theme.GRAY if name == EQUAL_WEIGHTS else _OF_HEADS[n % len(_OF_HEADS)]
        for n, name in enumerate(names)
    ]
    colours = alt.Scale(domain=names, range=shades)
    strokes = alt.Scale(domain=names, range=[DASHES[n % len(DASHES)] for n in range(len(names))])
    line = (
        alt.Chart()
        .mark_line(interpolate="linear", strokeWidth=2, description="a line per head", tooltip=None)
        .encode(
            x=x,
            y=y,
            color=alt.Color("name:N", scale=colours, legend=_LEGEND),
            strokeDash=alt.StrokeDash("name:N", scale=strokes, legend=_LEGEND),
        )
    )
    readout = theme.readout(names, x, x_title, ".3g", "name", every=True)
    layers = (line, theme.boundary_rule(), theme.boundary_name(boundary), readout)
    return theme.in_order(theme.spec_of(alt.layer(*layers).properties(height=theme.HEIGHT)))
