"""Charts: a constant specification each, into which frames are poured; one colour per scheme.

A specification depends on which schemes are shown and on nothing else, so a moved slider changes
data alone and the browser keeps its view. Built with Altair once and kept.
"""

import functools
import json
from collections.abc import Sequence
from typing import Any

import altair as alt

from dashboard.charts.palette import COLOURS as COLOURS
from dashboard.charts.palette import MARKERS, text_colours
from dashboard.charts.palette import STROKES as STROKES
from posenc.schemes import SCHEMES

HEIGHT = 280
GRAY = "#808495"  # of a drawing that does not know its ground, dark or white
# Of text that steps back: 4.5:1 on a white and on a dark ground. Vega knows the ground of a chart.
GRAYS = ("#5f6472", "#a3a8b5")
_ON_DARK = "luminance(background) < 0.2"
QUIET: dict[str, str] = {"expr": f"{_ON_DARK} ? '{GRAYS[1]}' : '{GRAYS[0]}'"}

Spec = dict[str, Any]
# Keeps what a function of chosen schemes built: visitors can choose more sets of schemes than fit a memory.
cached_spec = functools.lru_cache(maxsize=128)

# A line in a legend, 30 pixels long, which shows its dashes; Vega's own is as long as it is high.
LEGEND_LINE: dict[str, Any] = {"symbolType": "M-1,0L5,0", "symbolSize": 100, "labelOffset": 23}
LEGEND_COLUMNS = {"expr": "containerSize()[0] < 480 ? 2 : 0"}  # two on a phone
# The same for colour and dash, so that Vega merges both into one legend.
_LEGEND = alt.Legend(
    title=None, orient="top", symbolStrokeWidth=2.5, symbolOpacity=1,
    columns=alt.ExprRef(LEGEND_COLUMNS["expr"]), **LEGEND_LINE,
)  # fmt: skip


def scheme_colour(kinds: tuple[str, ...]) -> alt.Color:
    """Return the colours of these schemes, the same on every page."""
    return alt.Color(
        "scheme:N",
        scale=alt.Scale(
            domain=[SCHEMES[kind].label for kind in kinds], range=[COLOURS[kind] for kind in kinds]
        ),
        legend=_LEGEND,
    )


def scheme_text(kinds: tuple[str, ...]) -> alt.ExprRef:
    """Return the colour of a text that names a scheme: that of the scheme, darker or lighter."""
    texts = {SCHEMES[kind].label: text_colours(COLOURS[kind]) for kind in kinds}
    light, dark = ({name: one[n] for name, one in texts.items()} for n in (0, 1))
    return alt.ExprRef(f"({_ON_DARK} ? {json.dumps(dark)} : {json.dumps(light)})[datum.scheme]")


def text_colour(kind: str, test: str) -> alt.ExprRef:
    """Return the colour of a text of a scheme where a test of its row holds, else a grey."""
    light, dark = text_colours(COLOURS[kind])
    return alt.ExprRef(f"{test} ? ({_ON_DARK} ? '{dark}' : '{light}') : ({QUIET['expr']})")


def scheme_dash(kinds: tuple[str, ...]) -> alt.StrokeDash:
    """Return the strokes of these schemes, for those who cannot tell the colours."""
    return alt.StrokeDash(
        "scheme:N",
        scale=alt.Scale(
            domain=[SCHEMES[kind].label for kind in kinds],
            range=[STROKES[kind] for kind in kinds],
        ),
        legend=_LEGEND,
    )


def scheme_points(kinds: tuple[str, ...], size: int = 40) -> alt.OverlayMarkDef:
    """Return the points of lines, a shape per scheme. size: area in square CSS pixels.

    Not as an encoding: the legend would then show shapes in place of lines and their dashes.
    """
    labels = [SCHEMES[kind].label for kind in kinds]
    shapes = dict(zip(labels, shapes_of(labels), strict=True))
    return alt.OverlayMarkDef(size=size, shape=alt.ExprRef(f"{json.dumps(shapes)}[datum.scheme]"))


def shapes_of(labels: Sequence[str]) -> list[str]:
    """Return the shapes of the points of schemes, which their labels name."""
    shapes = {SCHEMES[kind].label: MARKERS[kind] for kind in SCHEMES}
    return [shapes[label] for label in labels]


def line_style(kinds: tuple[str, ...]) -> dict[str, Any]:
    """Return the encodings of lines whose strokes tell schemes apart, too."""
    return {"strokeDash": scheme_dash(kinds), "strokeWidth": alt.value(2)}


def shown(kinds: tuple[str, ...], style: dict[str, Any]) -> tuple[alt.Parameter, dict[str, Any]]:
    """Return what a click on the legend changes, and the style in which it hides or shows a scheme."""
    every = [{"scheme": SCHEMES[kind].label} for kind in kinds]
    chosen = alt.selection_point(
        name="shown", fields=["scheme"], bind="legend", toggle="true", value=every, clear=False,
        empty=False,
    )  # fmt: skip
    return chosen, style | {"opacity": where_shown(chosen, style.get("opacity", alt.value(1)))}


def where_shown(chosen: alt.Parameter, strength: Any) -> Any:
    """Return an opacity: that one where a scheme is shown, none where it is hidden."""
    return alt.when(chosen).then(strength).otherwise(alt.value(0))


def readout(
    names: Sequence[str], x: alt.X, x_title: str, form: str, column: str = "scheme", *,
    every: bool = False,
) -> alt.Chart:  # fmt: skip
    """A vertical rule at the pointer whose tooltip names the place once and lists every line.

    names: of the lines, which `column` of the frame holds. form: of a value, y, below 1,000. every: whether
    x has every whole number, so that rules side by side cover the chart; searching the nearest of hundreds
    takes the browser longer than drawing the lines.
    """
    field = str(x.shorthand).partition(":")[0]
    nearest = alt.selection_point(
        name="nearest", on="pointerover", clear="pointerout", nearest=not every, empty=False,
        fields=[field],
    )  # fmt: skip
    step = alt.param(name="step", expr="max(2, scale('x', 1) - scale('x', 0))" if every else "1")
    # Where few values stand far apart, the rule is a wide band: lines are read through it.
    strength = alt.value(alt.ExprRef("min(0.7, 4 / step)").to_dict())
    values = {name: f"datum[{json.dumps(name)}]" for name in names}
    texts = {
        n: f"isValid({v}) ? format({v}, abs({v}) < 999.5 ? '{form}' : ',.0f') : '\u2013'"
        for n, v in values.items()
    }
    rows = [
        alt.Tooltip(field=name.replace(".", "\\."), type="nominal", title=name) for name in names
    ]
    place = alt.Tooltip(str(x.shorthand), title=x_title, format=",")
    return (
        alt.Chart()
        .transform_pivot(column, value="y", groupby=[field])
        .transform_calculate(**texts)
        .mark_rule(aria=False, color="gray", strokeWidth=alt.ExprRef("step"))
        .encode(
            x=x,
            opacity=alt.when(nearest).then(strength).otherwise(alt.value(0)),
            tooltip=[place, *rows],
        )
        .add_params(nearest, step)
    )


def decades(form: str) -> alt.Axis:
    """A log axis whose grid marks powers of ten alone."""
    decade = "log(datum.value) / LN10"
    whole = f"abs({decade} - round({decade})) < 0.001"
    return alt.Axis(format=form, gridOpacity={"condition": {"test": whole, "value": 1}, "value": 0})


def powers_of_ten() -> alt.Axis:
    """A log axis with a line at each power of ten, written 10 with a raised power as in sentences."""
    exponent = "log(datum.value) / LN10"
    whole = f"abs({exponent} - round({exponent})) < 1e-6"
    power = f"format(round({exponent}), 'd')"
    for sign, raised in zip("\u22120123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹", strict=True):
        power = f"replace({power}, regexp('{sign}', 'g'), '{raised}')"
    return alt.Axis(
        labelExpr=f"{whole} ? '10' + {power} : ''",
        tickCount=6,
        gridOpacity={"condition": {"test": whole, "value": 1}, "value": 0},
    )


def boundary_rule() -> alt.Chart:
    """The training length, or those of A and B, drawn where the frame says; else none is drawn."""
    return (
        alt.Chart()
        .mark_rule(aria=False, strokeDash=[5, 4], opacity=0.7, color="gray", tooltip=None)
        .encode(x="min(boundary):Q", detail="boundary:N")
    )


def boundary_name(text: str = "training length") -> alt.Chart:
    """The name of that line, above the plot, where it covers no other line."""
    name = alt.Chart().mark_text(
        text=text, baseline="bottom", color=alt.ExprRef(QUIET["expr"]), aria=False, tooltip=None
    )
    return name.encode(x="min(boundary):Q", detail="boundary:N", y=alt.value(-3))


def spec_of(chart: Any) -> Spec:
    """Return a chart's specification without data, and without what Altair adds for them."""
    spec: Spec = _without(chart.to_dict(validate=False), ("data", "$schema", "datasets", "config"))
    return spec


def in_order(spec: Spec) -> Spec:
    """Return a specification for rows that come as they are drawn: numbers, each line from left to right.

    Vega would convert every number and sort every line again at every moved slider.
    """
    for layer in spec["layer"]:
        if layer["mark"]["type"] in ("line", "area"):
            layer["encoding"]["order"] = {"value": None}
    return spec | {"data": {"name": "source", "format": {"parse": None}}}


# Pixels that are read from the last row. Streamlit's paddings are for text of its own size.
_PROJECTED = {"labelFontSize": 18, "titleFontSize": 18}
_PROJECTOR = {
    "axis": _PROJECTED | {"labelPadding": 6, "titlePadding": 8, "labelLimit": 240},
    "legend": _PROJECTED | {"symbolSize": 400, "labelLimit": 240, "offset": 6},
    "header": _PROJECTED,
    "text": {"fontSize": 18},
}
_OWN_SIZES = ("fontSize", "labelFontSize", "rowPadding", "labelLimit")
_TEXT_GROWS = 18 / 12  # names at the ends of lines
STAGE_CELL = 290  # CSS pixels: four stand in a line of a projector, 1,280 wide
_STAGE_AREA = 225  # of the plot in such a cell, beside its axis
_TALLER = 50  # pixels: what larger text takes of the height of a plot
_BOUNDARY_ROOM = 18  # pixels between a legend and a plot: what the larger name of a boundary takes


# Sizes of the title's two lines, and the height that Vega gives them: history.js and larger_type.css
# cut this height off on the screen, where the page's own headings say the same.
_TITLE, _PROJECTED_TITLE = (15, 12, 35), (20, 18, 47)


# The line below a title where the first row of the data has it.
OF_FIRST_ROW = {"expr": "length(data('source')) ? data('source')[0].subtitle : ''"}


def titled(spec: Spec, title: str, below: Sequence[str] | Spec, *, projected: bool) -> Spec:
    """Return a specification with a title, which a saved picture shows, and smaller lines below it."""
    size, smaller, height = _PROJECTED_TITLE if projected else _TITLE
    text = {
        "text": title, "fontSize": size, "subtitle": below, "subtitleFontSize": smaller,
        "subtitleColor": QUIET,
        "anchor": "start", "frame": "bounds", "offset": 6,
    }  # fmt: skip
    taller = {} if spec.get("autosize") == "pad" else {"height": spec["height"] + height}
    config = {**spec.get("config", {})}
    for part in ("axis", "legend", "header"):  # Streamlit's own has 3.7:1 on white
        config[part] = {"labelColor": QUIET, "titleColor": QUIET} | config.get(part, {})
    return spec | taller | {"title": text, "config": config}


def for_projector(spec: Spec, stage: int = 0) -> Spec:
    """Return a specification with text large enough to be read in class, whatever sizes it sets itself.

    stage: its height in CSS pixels, 0 for one that makes room for the larger text.
    """
    larger: Spec = _without(spec, _OWN_SIZES)
    room = _BOUNDARY_ROOM if _names_boundary(spec) else 0
    if stage:
        larger["height"] = stage
        larger["layer"] = [_closer(layer, spec["height"], stage) for layer in larger["layer"]]
    elif spec.get("autosize") != "pad":
        larger["height"] += _TALLER + room
    else:  # text stands outside of the area, and axes keep one unit
        scale = _STAGE_AREA / spec["width"]
        larger |= {"width": _STAGE_AREA, "height": round(scale * spec["height"])}
    legend = _PROJECTOR["legend"]
    legend = legend | {"offset": legend["offset"] + room}
    return larger | {"config": _PROJECTOR | {"legend": legend}}


def _names_boundary(spec: Spec) -> bool:
    """Whether a name stands above the plot (`boundary_name`): the one text that no row of the data has."""
    return any("text" in layer["mark"] for layer in spec.get("layer", ()))


def _closer(layer: Spec, height: int, stage: int) -> Spec:
    """Return a layer of names at the ends of lines with less room between them; another as it is.

    The room is a share of the plot, which grows more than the text. height: of the chart as a whole, half
    of which are its legend and axis, before it had that of the stage.
    """
    if layer["encoding"].get("y", {}).get("field") != "label_y":
        return layer
    share = min(1, _TEXT_GROWS * (height / 2) / (stage - height / 2))
    nearer = {"calculate": f"datum.y + {share:.3f} * (datum.label_y - datum.y)", "as": "near_y"}
    y = layer["encoding"]["y"] | {"field": "near_y"}
    encoding = layer["encoding"] | {"y": y}
    return layer | {"transform": [*layer.get("transform", ()), nearer], "encoding": encoding}


def _without(node: Any, keys: tuple[str, ...]) -> Any:
    """Return a part of a specification without these keys, at any depth."""
    if isinstance(node, dict):
        return {key: _without(value, keys) for key, value in node.items() if key not in keys}
    return [_without(item, keys) for item in node] if isinstance(node, list) else node
