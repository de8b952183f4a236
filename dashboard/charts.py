"""Charts: a constant specification each, into which frames are poured; one colour per scheme.

A specification depends on which schemes are shown and on nothing else, so a moved slider changes
data alone and the browser keeps its view. Built with Altair once and kept.
"""

import functools
import warnings
from typing import Any

import altair as alt

from posenc.schemes import SCHEMES

# Okabe and Ito's palette, moved to one lightness so that each reads on white and on near-black.
_PALETTE = ("#d55e00", "#2f86c6", "#0d9a74", "#c56fa3", "#8b8f96", "#b8860b", "#56a0c9", "#7d6bb5")
# The first is how a model was trained.
_READS = {
    "solid": [1, 0], "dashed": [6, 3], "dotted": [2, 2], "dash and dot": [9, 3, 2, 3], "sparse": [1, 5]
}  # fmt: skip
# Seven dashes to eight colours: no two of the first 56 schemes share both.
_DASHES = ([1, 0], [12, 3], [7, 3], [2, 2], [1, 3], [9, 3, 2, 3], [4, 4])

COLOURS = {kind: _PALETTE[i % len(_PALETTE)] for i, kind in enumerate(SCHEMES)}
HEIGHT = 280
PROJECTION = 162  # side of one PCA plot
PROJECTION_WIDTH = 470  # two of them with their axes, half a page

Spec = dict[str, Any]

# The same for colour and dash, so that Vega merges both into one legend.
_LEGEND = alt.Legend(
    title=None, orient="top", symbolType="stroke", symbolStrokeWidth=3, symbolOpacity=1
)


def scheme_colour(kinds: tuple[str, ...]) -> alt.Color:
    """Return the colours of these schemes, the same on every page."""
    return alt.Color(
        "scheme:N",
        scale=alt.Scale(
            domain=[SCHEMES[kind].label for kind in kinds], range=[COLOURS[kind] for kind in kinds]
        ),
        legend=_LEGEND,
    )


def scheme_dash(kinds: tuple[str, ...]) -> alt.StrokeDash:
    """Return the strokes of these schemes, for those who cannot tell the colours."""
    order = list(SCHEMES)
    return alt.StrokeDash(
        "scheme:N",
        scale=alt.Scale(
            domain=[SCHEMES[kind].label for kind in kinds],
            range=[_DASHES[order.index(kind) % len(_DASHES)] for kind in kinds],
        ),
        legend=_LEGEND,
    )


# The pinned setting, A, is drawn thin and pale under the one at hand, B.
SETTINGS = ("A", "B")


def by_setting(pinned: bool) -> dict[str, Any]:
    """Encodings that tell A from B by strength and width, where the frame has both."""
    if not pinned:
        return {}
    words = "datum.label == 'A' ? 'A, pinned' : 'B, now'"
    legend = alt.Legend(title=None, orient="top", labelExpr=words, symbolType="stroke")
    return {
        "opacity": alt.Opacity(
            "setting:N", scale=alt.Scale(domain=SETTINGS, range=[0.45, 1.0]), legend=legend
        ),
        "strokeWidth": alt.StrokeWidth(
            "setting:N", scale=alt.Scale(domain=SETTINGS, range=[4.5, 1.8]), legend=legend
        ),
    }


def told(pinned: bool) -> list[str]:
    """Return what a tooltip says of whose line it is."""
    return ["scheme:N", "setting:N"] if pinned else ["scheme:N"]


def boundary_rule() -> alt.Chart:
    """The training length, drawn where the frame says; a frame without it draws none."""
    return (
        alt.Chart()
        .mark_rule(aria=False, strokeDash=[5, 4], opacity=0.7, color="gray")
        .encode(x="min(boundary):Q")
    )


def spec_of(chart: Any) -> Spec:
    """Return a chart's specification without data: those come with every run."""
    spec: Spec = _without(chart.to_dict(validate=False), ("data", "$schema", "datasets", "config"))
    return spec


def _without(node: Any, keys: tuple[str, ...]) -> Any:
    """Drop what Altair adds for a chart that carries its own data: ours comes with every run."""
    if isinstance(node, dict):
        return {key: _without(value, keys) for key, value in node.items() if key not in keys}
    return [_without(item, keys) for item in node] if isinstance(node, list) else node


@functools.cache
def by_offset(
    kinds: tuple[str, ...],
    x_title: str,
    y_title: str,
    *,
    band: bool = True,
    height: int = HEIGHT,
    pinned: bool = False,
) -> Spec:
    """Lines over offset or position, one per scheme, with a band from low to high and a boundary.

    Frame: scheme, x, y, low, high, boundary; pinned: setting, too. What Vega would work out for every
    point and nobody can reach, a description and a tooltip, is said once: a moved slider waits for it.
    """
    x = alt.X("x:Q", title=x_title, scale=alt.Scale(nice=False, zero=False))
    y = alt.Y("y:Q", title=y_title, scale=alt.Scale(zero=False))
    colour = scheme_colour(kinds)
    line = (
        alt.Chart()
        .mark_line(strokeWidth=2, interpolate="linear", description="a line per scheme")
        .encode(
            x=x,
            y=y,
            color=colour,
            strokeDash=scheme_dash(kinds),
            # A line is one mark: whatever the pointer is on, its tooltip is that of its first point.
            tooltip=told(pinned),
            **by_setting(pinned),
        )
    )
    layers = [line, boundary_rule()]
    if band:
        area = alt.Chart().mark_area(
            opacity=0.1 if pinned else 0.18, description="from lowest to highest"
        )
        apart = {"detail": "setting:N"} if pinned else {}
        layers.insert(0, area.encode(x=x, y="low:Q", y2="high:Q", color=colour, **apart))
    return spec_of(alt.layer(*layers).properties(height=height))


@functools.cache
def small_curve(kind: str, *, pinned: bool = False) -> Spec:
    """One scheme's curve by distance, small. Frame: x, y, low, high, boundary, last; setting."""
    x = alt.X("x:Q", title="distance", scale=alt.Scale(nice=False), axis=alt.Axis(tickCount=4))
    y = alt.Y("y:Q", title="cosine similarity", scale=alt.Scale(domain=[-1, 1]))
    apart = {"detail": "setting:N"} if pinned else {}
    band = (
        alt.Chart()
        .mark_area(opacity=0.1 if pinned else 0.2, color=COLOURS[kind])
        .encode(x=x, y="low:Q", y2="high:Q", **apart)
    )
    line = (
        alt.Chart()
        .mark_line(strokeWidth=2, color=COLOURS[kind])
        .encode(
            x=x,
            y=y,
            tooltip=[*told(pinned)[1:], "x:Q", alt.Tooltip("y:Q", format=".6g")],
            **by_setting(pinned),
        )
    )
    last = alt.Chart().mark_point(opacity=0, tooltip=None).encode(x=alt.X("max(last):Q"))
    return spec_of(alt.layer(band, line, boundary_rule(), last).properties(height=170))


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
    """Cumulative explained variance by component. Frame: scheme, component, share; setting."""
    return spec_of(
        alt.Chart()
        .mark_line(point=True, strokeWidth=2)
        .encode(
            x=alt.X("component:Q", axis=alt.Axis(tickMinStep=1)),
            y=alt.Y(
                "share:Q",
                title="explained so far",
                scale=alt.Scale(domain=[0, 1]),
                axis=alt.Axis(format="%"),
            ),
            color=scheme_colour(kinds),
            strokeDash=scheme_dash(kinds),
            tooltip=[*told(pinned), "component:Q", alt.Tooltip("share:Q", format=".4%")],
            **by_setting(pinned),
        )
        .properties(height=220)
    )


@functools.cache
def turns(kinds: tuple[str, ...], *, pinned: bool = False) -> Spec:
    """Full turns that each pair makes within the training length, log scale, with one turn marked.

    Frame: scheme, pair, turns; pinned: setting, too.
    """
    line = (
        alt.Chart()
        .mark_line(strokeWidth=2, point=alt.OverlayMarkDef(size=14))
        .encode(
            x=alt.X("pair:Q", title="pair (0 is the fastest)"),
            y=alt.Y(
                "turns:Q", title="turns within the training length", scale=alt.Scale(type="log")
            ),
            color=scheme_colour(kinds),
            strokeDash=scheme_dash(kinds),
            tooltip=[*told(pinned), "pair:Q", alt.Tooltip("turns:Q", format=".4g")],
            **by_setting(pinned),
        )
    )
    one = alt.Chart().mark_rule(aria=False, strokeDash=[5, 4], color="gray").encode(y=alt.datum(1))
    return spec_of(alt.layer(line, one).properties(height=HEIGHT))


@functools.cache
def map_errors(kinds: tuple[str, ...], *, pinned: bool = False) -> Spec:
    """Error of one matrix per offset, log scale, with the random control as a thin line.

    Frame: scheme, offset, error, control; pinned: setting, too.
    """
    x = alt.X("offset:Q", title="offset k", scale=alt.Scale(type="log", base=2))
    y = alt.Y(
        "error:Q", title="relative error", scale=alt.Scale(type="log"), axis=alt.Axis(format=".0e")
    )
    line = (
        alt.Chart()
        .mark_line(strokeWidth=2, point=True)
        .encode(
            x=x,
            y=y,
            color=scheme_colour(kinds),
            strokeDash=scheme_dash(kinds),
            tooltip=[*told(pinned), "offset:Q", alt.Tooltip("error:Q", format=".3e")],
            **by_setting(pinned),
        )
    )
    control = (
        alt.Chart()
        .mark_line(strokeWidth=1, color="gray", strokeDash=[2, 3])
        .encode(x=x, y="mean(control):Q")
    )
    return spec_of(alt.layer(line, control).properties(height=HEIGHT))


@functools.cache
def measured(
    kinds: tuple[str, ...], reads: tuple[str, ...], x_title: str, y_title: str, *, log: bool = True
) -> Spec:
    """Lines over a length, coloured by scheme and dashed by how it was read; `log` is of the x axis.

    Frame: scheme, read, x, y, low, high (the band of seeds), boundary.
    """
    scale = alt.Scale(type="log", base=2, nice=False) if log else alt.Scale(nice=False)
    x = alt.X("x:Q", title=x_title, scale=scale)
    y = alt.Y("y:Q", title=y_title, scale=alt.Scale(zero=False))
    colour = scheme_colour(kinds)
    strokes = [*_READS.values()]
    dashes = [strokes[i % len(strokes)] for i in range(len(reads))]
    # Vega draws no symbols for a legend of dashes alone: `strokes` says them in words.
    read = alt.StrokeDash("read:N", scale=alt.Scale(domain=list(reads), range=dashes), legend=None)
    band = (
        alt.Chart()
        .mark_area(opacity=0.15)
        .encode(x=x, y="low:Q", y2="high:Q", color=colour, detail="read:N")
    )
    line = (
        alt.Chart()
        .mark_line(strokeWidth=2, point=alt.OverlayMarkDef(size=18))
        .encode(
            x=x,
            y=y,
            color=colour,
            strokeDash=read,
            tooltip=["scheme:N", "read:N", "x:Q", alt.Tooltip("y:Q", format=".4f"), "seeds:Q"],
        )
    )
    return spec_of(alt.layer(band, line, boundary_rule()).properties(height=HEIGHT + 60))


@functools.cache
def training(kind: str) -> Spec:
    """The loss of a run in progress. Frame: step, loss."""
    line = (
        alt.Chart()
        .mark_line(strokeWidth=2, color=COLOURS[kind])
        .encode(
            x=alt.X("step:Q", title="step", scale=alt.Scale(nice=False)),
            y=alt.Y("loss:Q", title="training loss, nats", scale=alt.Scale(zero=False)),
            tooltip=["step:Q", alt.Tooltip("loss:Q", format=".4f")],
        )
    )
    return spec_of(line.properties(height=HEIGHT))


def strokes(reads: tuple[str, ...]) -> str:
    """Say which stroke of `measured` is which way of reading."""
    words = [*_READS]
    parts = [f"{words[i % len(words)]}: {name}" for i, name in enumerate(reads)]
    return "Lines are " + "; ".join(parts) + "."
