"""Charts of the PCA page: positions in the plane of two components, and explained variance."""

import functools
from typing import Any

import altair as alt
import pandas as pd

from dashboard.charts.lines import line_spec
from dashboard.charts.theme import Spec, spec_of

# Plot area in CSS pixels, (width, height): two fit in a row of a window 1,280 wide, beside the sidebar.
DESKTOP, PHONE = (350, 250), (270, 270)
GRAY = "#808495"  # of text, on a dark and on a white ground


@functools.cache
def positions(across: str, up: str, size: tuple[int, int]) -> Spec:
    """Return the path of positions in a plane: hollow past the training length, a few labelled.

    Frame: position, place (0 for the first to 1 for the last), PC1, PC2, PC3, past, label, and the ends
    of the axes: left, right, bottom, top, which give both axes one unit.
    """
    straight = alt.Scale(nice=False, zero=False)
    axis = alt.Axis(tickCount=5)
    x = alt.X(f"{across}:Q", title=across, scale=straight, axis=axis)
    y = alt.Y(f"{up}:Q", title=up, scale=straight, axis=axis)
    path = alt.Chart().mark_line(strokeWidth=1, opacity=0.35, color="gray", tooltip=None)
    dot = alt.Chart().mark_point(size=30, strokeWidth=1.2)
    tooltip = [
        alt.Tooltip("position:Q"),
        *(alt.Tooltip(f"PC{i}:Q", format=".3g") for i in (1, 2, 3)),
    ]
    label = alt.Chart().transform_filter("datum.label != null")
    label = label.mark_text(dy=-11, fontSize=12, fontWeight="bold", color=GRAY, tooltip=None)
    frame = alt.Chart().mark_rect(opacity=0, tooltip=None, aria=False)
    layers = alt.layer(
        path.encode(x=x, y=y, order=alt.Order("position:Q")),
        dot.encode(
            x=x,
            y=y,
            tooltip=tooltip,
            **_by_place(),
        ),
        label.encode(x=x, y=y, text="label:N"),
        frame.encode(x="min(left):Q", x2="max(right):Q", y="min(bottom):Q", y2="max(top):Q"),
    )
    # Streamlit would shrink the area by what the axes' labels take, another length on each axis.
    return spec_of(layers.properties(width=size[0], height=size[1], autosize="pad"))


def _by_place() -> dict[str, Any]:
    """Return the encodings of a dot: its place among the positions as colour, hollow past training."""
    # Without viridis' ends, which vanish on a dark and on a white ground.
    shades = alt.SchemeParams(name="viridis", extent=[0.12, 0.94])
    scale = alt.Scale(scheme=shades, domain=[0, 1])
    return {
        "stroke": alt.Stroke("place:Q", scale=scale, legend=None),
        "fill": alt.Fill("place:Q", scale=scale, legend=None),
        "fillOpacity": alt.condition("datum.past", alt.value(0), alt.value(0.9)),
    }


@functools.cache
def legend(width: int, height: int) -> Spec:
    """Return the one legend of all plots of positions; frame: that of legend_frame."""
    x, y = alt.X("x:Q", scale=None, axis=None), alt.Y("y:Q", scale=None, axis=None)
    dot = alt.Chart().transform_filter("datum.place != null").mark_point(strokeWidth=1.2)
    text = alt.Chart().transform_filter("datum.text != null")
    text = text.mark_text(align="left", fontSize=13, color=GRAY, tooltip=None)
    layers = alt.layer(
        dot.encode(
            x=x, y=y, size=alt.Size("size:Q", scale=None), tooltip=alt.value(None), **_by_place()
        ),
        text.encode(x=x, y=y, text="text:N"),
    )
    return spec_of(layers.properties(width=width, height=height))


@functools.cache
def legend_frame(*, wrapped: bool) -> pd.DataFrame:
    """Return what stands in the legend: x and y in pixels, place, past, size, text. wrapped: two lines."""
    strip = [
        {"x": 96 + 4 * n, "y": 8, "place": n / 24, "past": False, "size": 40} for n in range(25)
    ]
    left, y = (0, 28) if wrapped else (260, 8)
    dots = [
        {"x": left + 4, "y": y, "place": 0.5, "past": False, "size": 40},
        {"x": left + 160, "y": y, "place": 0.5, "past": True, "size": 40},
    ]
    words = {0: "position: first", 202: "last"}
    texts = [{"x": at, "y": 8, "text": text} for at, text in words.items()]
    words = {left + 14: "training positions", left + 170: "past the training length"}
    texts += [{"x": at, "y": y, "text": text} for at, text in words.items()]
    return pd.DataFrame([*strip, *dots, *texts])


@functools.cache
def explained(kinds: tuple[str, ...], *, pinned: bool = False) -> Spec:
    """Return cumulative variance by component. Frame: scheme, x, y; pinned: setting, too."""
    x = alt.X("x:Q", title="component", axis=alt.Axis(tickMinStep=1))
    y = alt.Y(
        "y:Q",
        title="cumulative variance",
        scale=alt.Scale(domain=[0, 1]),
        axis=alt.Axis(format="%"),
    )
    return line_spec(kinds, x, y, "component", form=".1%", points=True, height=320, pinned=pinned)
