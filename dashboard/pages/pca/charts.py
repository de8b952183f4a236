"""Charts of the PCA page: linked projections and explained variance."""

import functools
import warnings
from typing import Any

import altair as alt

from dashboard.charts.theme import Spec, dots, scheme_colour, scheme_dash, spec_of, told, widths

PROJECTION = 162  # side of one PCA plot
PROJECTION_WIDTH = 470  # two of them with their axes, half a page


@functools.cache
def linked_projection(*, stacked: bool = False) -> Spec:
    """PC1-PC2 beside PC2-PC3, on a narrow screen above it; a brush in one marks both.

    Frame: position, place (0 the first to 1 the last on the page, which all panels colour alike), PC1,
    PC2, PC3, seen ("inside", "past"), lowest, highest. The last two are the same in every panel of a
    page, which makes all panels share their axes.
    """
    brush = alt.selection_interval(name="brush", empty=True)

    # Without viridis' ends, which vanish on a dark and on a white ground.
    shades = alt.SchemeParams(name="viridis", extent=[0.12, 0.94])
    place = alt.Color(
        "place:Q",
        scale=alt.Scale(scheme=shades, domain=[0, 1]),
        legend=alt.Legend(
            orient="bottom",
            gradientLength=150,
            title="position",
            values=[0, 1],
            labelExpr="datum.value ? 'last' : 'first'",
        ),
    )
    colour = alt.condition(brush, place, alt.value("#9aa0a6"))

    def pair(first: str, second: str) -> Any:
        def at(x: str, y: str) -> dict[str, Any]:
            axis = alt.Axis(tickCount=5)
            return {"x": alt.X(x, title=first, axis=axis), "y": alt.Y(y, title=second, axis=axis)}

        here = at(f"{first}:Q", f"{second}:Q")
        line = alt.Chart().mark_line(strokeWidth=1, opacity=0.35, color="gray")
        points = (
            alt.Chart()
            .mark_point(filled=True, size=26, opacity=0.9)
            .encode(
                **here,
                color=colour,
                shape=alt.Shape(
                    "seen:N",
                    scale=alt.Scale(domain=["inside", "past"], range=["circle", "cross"]),
                    legend=alt.Legend(orient="bottom", title="training length"),
                ),
                tooltip=["position:Q", "seen:N", *(alt.Tooltip(f"PC{i}:Q") for i in (1, 2, 3))],
            )
            .add_params(brush)
        )
        corners = [
            alt.Chart().mark_point(opacity=0, tooltip=None).encode(**at(f"{end}:Q", f"{end}:Q"))
            for end in ("min(lowest)", "max(highest)")
        ]
        ordered = line.encode(**here, order=alt.Order("position:Q"))
        return alt.layer(ordered, points, *corners).properties(width=PROJECTION, height=PROJECTION)

    join = alt.vconcat if stacked else alt.hconcat
    with warnings.catch_warnings():
        # One brush in two plots is what is meant; Altair says that it merged them.
        warnings.filterwarnings("ignore", message="Automatically deduplicated selection parameter")
        chart = join(pair("PC1", "PC2"), pair("PC2", "PC3"), spacing=16)
    return spec_of(chart.resolve_scale(color="shared", shape="shared"))


@functools.cache
def explained(kinds: tuple[str, ...], *, pinned: bool = False) -> Spec:
    """Cumulative explained variance by component.

    Frame: scheme, component, share, width, strength, dot; pinned: setting, too.
    """
    x = alt.X("component:Q", title="component", axis=alt.Axis(tickMinStep=1))
    y = alt.Y(
        "share:Q",
        title="explained so far",
        scale=alt.Scale(domain=[0, 1]),
        axis=alt.Axis(format="%"),
    )
    tip = [
        *told(pinned),
        alt.Tooltip("component:Q", title="component"),
        alt.Tooltip("share:Q", format=".4%", title="explained so far"),
    ]
    line = alt.Chart().mark_line(tooltip=None)
    line = line.encode(
        x=x, y=y, color=scheme_colour(kinds), strokeDash=scheme_dash(kinds), **widths(pinned)
    )
    return spec_of(alt.layer(line, dots(x, y, kinds, tip)).properties(height=220))
