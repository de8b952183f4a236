"""Charts of the PCA page: positions in the plane of two components, and explained variance."""

import altair as alt

from dashboard.blocks import Drawing, Row
from dashboard.charts.lines import line_spec
from dashboard.charts.theme import GRAY, QUIET, Spec, cached_spec, in_order, spec_of
from dashboard.pages.pca.data import SHARE

# Plot area in CSS pixels: two fit in a row of a window 1,280 wide, beside the sidebar.
WIDTH, HEIGHT = 343, 245
MIDDLE = "#21918c"  # of viridis


def legend() -> Row:
    """Return the one legend of all plots: drawings, which wrap on a phone."""
    bar = "".join(
        f'<circle cx="{100 + 4 * n}" cy="9" r="4" fill="{colour}" />'
        for n, colour in enumerate(("#33658e", "#2a778e", "#238a8e", "#1f9d89", "#29af80",
                                    "#47c06f", "#71cf56", "#a2da38", "#d7e31b"))
    )  # fmt: skip
    parts = (
        ("Color: from the first position to the last",
         176, f'<text x="0" y="13">position: first</text>{bar}<text x="142" y="13">last</text>'),
        ("Filled: training positions",
         150, f'<circle cx="6" cy="9" r="4" fill="{MIDDLE}" />'
              '<text x="16" y="13">training positions</text>'),
        ("Hollow: past the training length",
         180, f'<circle cx="6" cy="9" r="4" fill="none" stroke="{MIDDLE}" stroke-width="1.5" />'
              '<text x="16" y="13">past the training length</text>'),
    )  # fmt: skip
    drawings = [
        Drawing(
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" font-size="13" '
            f'font-family="sans-serif" fill="{GRAY}">{drawing}</svg>',
            text,
            width,
        )
        for text, width, drawing in parts
    ]
    return Row(drawings, key="positions_legend")


@cached_spec
def positions(across: str, up: str) -> Spec:
    """Return the path of positions in a plane: hollow past the training length, a few labelled.

    Frame: position, place (0 for the first to 1 for the last), PC1, PC2, PC3, past, label and its middle,
    label_x and label_y, and the ends of the axes: left, right, bottom, top, which give both axes one unit.
    """
    straight = alt.Scale(nice=False, zero=False)
    axis = alt.Axis(tickCount=5)
    x = alt.X(f"{across}:Q", title=across, scale=straight, axis=axis)
    y = alt.Y(f"{up}:Q", title=up, scale=straight, axis=axis)
    path = alt.Chart().mark_line(
        strokeWidth=1, opacity=0.35, color="gray", aria=False, tooltip=None
    )
    # No words for each dot: a rerun would write those of hundreds anew, and the plot has its own.
    dot = alt.Chart().mark_point(size=30, strokeWidth=1.2, opacity=1, aria=False)
    # Without viridis' ends, which vanish on a dark and on a white ground.
    shades = alt.SchemeParams(name="viridis", extent=[0.32, 0.94])
    scale = alt.Scale(scheme=shades, domain=[0, 1])
    tooltip = [
        alt.Tooltip("position:Q"),
        *(alt.Tooltip(f"PC{i}:Q", format=",.3~r") for i in (1, 2, 3)),
    ]
    label = alt.Chart().transform_filter("datum.label != null")
    label = label.mark_text(
        baseline="middle", fontSize=12, fontWeight="bold", color=alt.ExprRef(QUIET["expr"]),
        tooltip=None,
    )  # fmt: skip
    frame = alt.Chart().mark_rect(opacity=0, tooltip=None, aria=False)
    layers = alt.layer(
        frame.encode(x="min(left):Q", x2="max(right):Q", y="min(bottom):Q", y2="max(top):Q"),
        path.encode(x=x, y=y),
        dot.encode(
            x=x,
            y=y,
            tooltip=tooltip,
            stroke=alt.Stroke("place:Q", scale=scale, legend=None),
            fill=alt.Fill("place:Q", scale=scale, legend=None),
            fillOpacity=alt.condition("datum.past", alt.value(0), alt.value(0.9)),
        ),
        label.encode(x="label_x:Q", y="label_y:Q", text="label:N"),
    )
    # Streamlit would shrink the area by what the axes' labels take, another length on each axis.
    return in_order(spec_of(layers.properties(width=WIDTH, height=HEIGHT, autosize="pad")))


@cached_spec
def explained(kinds: tuple[str, ...]) -> Spec:
    """Return cumulative variance by component, with SHARE marked. Frame: scheme, x, y."""
    x = alt.X("x:Q", title="component", axis=alt.Axis(tickMinStep=1))
    y = alt.Y(
        "y:Q",
        title="cumulative variance",
        scale=alt.Scale(domain=[0, 1]),
        axis=alt.Axis(format="%"),
    )
    spec = line_spec(kinds, x, y, "component", form=".1%", height=320)
    enough = alt.Chart().mark_rule(aria=False, strokeDash=[5, 4], color="gray")
    return spec | {"layer": [*spec["layer"], spec_of(enough.encode(y=alt.datum(SHARE)))]}
