"""Charts of trained models by length: a line per scheme and variant, with names at the ends."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from dashboard.charts.lines import LABEL_GAP, apart
from dashboard.charts.theme import (
    LEGEND_LINE,
    Spec,
    boundary_name,
    boundary_rule,
    cached_spec,
    readout,
    scheme_colour,
    scheme_dash,
    scheme_points,
    scheme_text,
    shown,
    spec_of,
    where_shown,
)
from dashboard.run_descriptions import farthest
from posenc.lab import summary
from posenc.lab.evaluate import TRAINED
from posenc.lab.specification import Specification
from posenc.lab.summary import Curve
from posenc.lab.tasks import TASKS, Questions, questions_of

TALL = 300
LABEL_WIDTH = 0.12  # of the width of a chart: what a name inside it takes
LEGEND_ROW = 24  # pixels that a row of a legend takes of the height
# The chart is as wide as names at the ends of lines need, or is drawn where it has no screen to fit.
WIDE = "!(containerSize()[0] < 480)"
LABEL_LIMIT = f"{WIDE} ? 320 : 150"  # pixels of the name of a variant in the legend, two in a row
DOT = "dot "  # begins the names of the columns of a frame that hold single trials
LEAST_CHANCE = 0.01  # accuracy of guessing that a line shows
DASHES = [[1, 0], [6, 3], [2, 2], [9, 3, 2, 3], [1, 5]]  # the first is a model as it was trained


@dataclass(frozen=True)
class Axes:
    """Axes of one measure. log: whether x is drawn on a log scale."""

    x: str
    y: str
    log: bool = True


AXES = {
    "context": Axes("context length (tokens)", "loss (nats per byte)"),
    "position": Axes("position in one long text", "loss (nats per byte)"),
    "steps": Axes("steps of training", "loss (nats per byte)"),
} | {
    kind: Axes(task.x, task.y, log=task.doubles)
    for kind, task in TASKS.items()
    if issubclass(task, Questions)
}
PERPLEXITY = "perplexity per byte"
# What the data call columns of a frame of losses by context; those that only draw have no name.
COLUMNS = {
    "x": "context length", "y": "loss", "read": "", "name": "", "early": "", "label": "", "label_y": "",
    "cut": "",
}  # fmt: skip


def is_accuracy(measure: str) -> bool:
    """Return whether a measure is the accuracy of a task, not a loss."""
    return measure in TASKS


def names(measure: str) -> dict[str, str]:
    """Return what the data call length and value of a measure."""
    if is_accuracy(measure):
        return {"x": AXES[measure].x, "y": "accuracy"}
    return {"x": measure, "y": "loss"}


def points(curves: Sequence[Curve]) -> pd.DataFrame:
    """Return a row per point of every curve; a bucket of positions stands at its middle."""
    rows = [
        {
            "scheme": curve.specification.scheme.label,
            "read": summary.read_as(curve, curves),
            "x": (point.x + point.until - 1) / 2 if point.until else point.x,
            "y": point.mean,
            "low": point.low,
            "high": point.high,
            "seeds": curve.seeds,
        }
        for curve in curves
        for point in curve.points
    ]
    columns = ["scheme", "read", "x", "y", "low", "high", "seeds"]
    return pd.DataFrame(rows, columns=columns)


def _cut(curves: Sequence[Curve]) -> list[float]:
    """Return for each point past training the loss of the same model on a text cut to that length."""
    cut: list[float] = []
    for curve in curves:
        loss = summary.at_training_length(curve, curves)
        past = (point.x >= curve.specification.train_length for point in curve.points)
        cut += [loss if is_past and loss is not None else math.nan for is_past in past]
    return cut


def _by_trial(curves: Sequence[Curve]) -> pd.DataFrame:
    """Return the value of each trial at every point: a column per trial, empty where it has none."""
    values = [dict(point.by_trial) for curve in curves for point in curve.points]
    trials = sorted({trial for own in values for trial in own})
    return pd.DataFrame(
        {
            f"{DOT}{n}": [own.get(trial, math.nan) for own in values]
            for n, trial in enumerate(trials)
        }
    )


def frame(
    curves: Sequence[Curve], *, perplexity: bool = False, gap: float = LABEL_GAP, dots: bool = False
) -> pd.DataFrame:
    """Return the points as they are drawn: with the name of their line, and its label at the last.

    label_y: the height of a label, which no other label covers. early: whether the line ends inside; then
    its label ends where the line does. cut: the loss of a text that is cut to the training length.
    gap: what a label takes of the range of all values. dots: whether every trial is drawn, too.
    """
    drawn, measure = points(curves), curves[0].measure
    if dots:
        drawn = pd.concat([drawn, _by_trial(curves)], axis=1)
    drawn["cut"] = _cut(curves) if measure == "context" else math.nan
    if perplexity:
        columns = ("y", "low", "high", "cut", *dots_of(drawn))
        values = {name: drawn[name].map(summary.perplexity) for name in columns}
        drawn = drawn.assign(**values)
    trained = drawn["read"] == TRAINED
    drawn["name"] = name = drawn["scheme"].where(trained, drawn["scheme"] + ", " + drawn["read"])
    last = ~drawn.duplicated("name", keep="last")
    drawn["early"] = early = last & trained & (drawn["x"] < drawn["x"].max())
    drawn["label"] = name.where(last)
    drawn["label_y"] = drawn["y"].where(last)
    # The ends of the axis: values may all be equal, such as accuracies of 0.
    low, high = (
        (0.0, 1.0) if is_accuracy(measure) else (float(drawn["y"].min()), float(drawn["y"].max()))
    )
    right = drawn.index[last & ~early]
    if len(right):
        drawn.loc[right, "label_y"] = apart(
            drawn.loc[right, "y"].to_numpy(), gap * (high - low), low, high
        )
    axes = AXES[measure]
    for row in drawn.index[early]:
        drawn.loc[row, "label_y"] = _free_height(drawn, row, low, high, gap, log=axes.log)
    specification = curves[0].specification
    if measure == "steps":
        return drawn
    drawn["boundary"] = boundary = float(farthest(specification))
    if is_accuracy(measure):
        chance = questions_of(measure).chance(specification.train_length, int(boundary))
        if chance >= LEAST_CHANCE:
            drawn["chance"] = chance
        by_position = _by_position(specification, drawn["x"], chance)
        if by_position.notna().any():
            drawn["by_position"] = by_position
    return drawn


def _by_position(
    specification: Specification, x: "pd.Series[float]", chance: float
) -> "pd.Series[float]":
    """Return the accuracy of a rule on positions alone past training, where it is not that of guessing.

    Nor is it drawn where it is always right, as on copying.
    """
    task, length = questions_of(specification.task), specification.train_length
    past = (x > farthest(specification)) | (not task.longer)
    accuracy = x.map({each: task.by_position(length, int(each)) for each in x[past].unique()})
    return accuracy.where(accuracy.between(chance + LEAST_CHANCE, 1 - LEAST_CHANCE))


def _free_height(
    drawn: pd.DataFrame, row: int, low: float, high: float, gap: float, *, log: bool
) -> float:
    """Return the height above or below a point that is farther from all lines left of the point.

    low, high: the range of all values, in which it is. gap: as for `frame`. log: whether x is drawn on a
    log scale.
    """
    along = np.log2(drawn["x"]) if log else drawn["x"].astype(float)
    end, y, away = along[row], drawn["y"][row], 0.8 * gap * (high - low)
    places = np.linspace(end - LABEL_WIDTH * np.ptp(along), end, 9)
    lines = [
        np.interp(places, along[rows], drawn["y"][rows], left=np.nan, right=np.nan)
        for rows in drawn.groupby("name").groups.values()
    ]

    def room(height: float) -> float:
        return float(np.nanmin(np.abs(np.array(lines) - height))) if low <= height <= high else -1.0

    return max(y + away, y - away, key=room)


def dots_of(drawn: pd.DataFrame) -> tuple[str, ...]:
    """Return the columns of a frame that hold single trials."""
    return tuple(name for name in map(str, drawn) if name.startswith(DOT))


def by_length(
    drawn: pd.DataFrame,
    kinds: tuple[str, ...],
    measure: str,
    *,
    perplexity: bool = False,
    bands: bool = True,
    height: int = TALL,
) -> Spec:
    """Return the chart of a frame: a colour, dash and marker per scheme, training marked.

    Beside variants, which share colour and marker of their scheme, dashes tell the variants apart.
    bands: from the lowest seed to the highest. The trials of the frame are dots.
    """
    reads = sorted(drawn["read"].unique(), key=lambda read: (read != TRAINED, read))
    names = tuple(drawn["name"].unique())
    # Few contexts or numbers of steps are measured: each has a tick, where its label has room.
    few = measure in ("context", "steps")
    ticks = tuple(sorted({*drawn["x"].tolist()})) if few else ()
    has_early = bool(drawn["early"].any())
    parts = _Parts(
        bands=bands,
        chance="chance" in drawn,
        by_position="by_position" in drawn,
        early=has_early,
        dots=dots_of(drawn),
    )
    return _by_length(kinds, (*reads,), names, ticks, measure, perplexity, height, parts)


@dataclass(frozen=True)
class _Parts:
    """Marks that a chart draws beside its lines.

    early: crosses where a line ends inside the chart; an empty group of them would have no name for a
    screen reader. dots: columns of the frame, one of each trial.
    """

    bands: bool
    chance: bool
    by_position: bool
    early: bool
    dots: tuple[str, ...]


def _boundary(measure: str) -> list[alt.Chart]:
    """Return the line at the end of training, and its name."""
    name = questions_of(measure).boundary if is_accuracy(measure) else "training length"
    return [boundary_rule(), boundary_name(name)]


@cached_spec
def _by_length(
    kinds: tuple[str, ...],
    reads: tuple[str, ...],
    names: tuple[str, ...],
    ticks: tuple[float, ...],
    measure: str,
    perplexity: bool,
    height: int,
    parts: _Parts,
) -> Spec:
    axes = AXES[measure]
    scale = alt.Scale(type="log", base=2, nice=False) if axes.log else alt.Scale(nice=False)
    axis = alt.Axis(values=[*ticks]) if ticks else alt.Undefined
    x = alt.X("x:Q", title=axes.x, scale=scale, axis=axis)
    y, form = (
        alt.Y("y:Q", title=axes.y, scale=alt.Scale(domain=[0, 1]), axis={"format": "%"}),
        ".1%",
    )
    if not is_accuracy(measure):
        title, form = PERPLEXITY if perplexity else axes.y, ".3~f"
        y = alt.Y("y:Q", title=title, scale=alt.Scale(zero=False))
    colour = scheme_colour(kinds)
    own = {"x": x, "color": colour, "detail": "name:N"}
    dash = scheme_dash(kinds)
    if len(reads) > 1:
        dashes = alt.Scale(
            domain=list(reads), range=[DASHES[i % len(DASHES)] for i in range(len(reads))]
        )
        legend = alt.Legend(
            title=None,
            orient="bottom",
            columns=2,
            labelLimit=alt.ExprRef(LABEL_LIMIT),
            **LEGEND_LINE,
        )
        dash = alt.StrokeDash("read:N", scale=dashes, legend=legend)
    chosen, style = shown(kinds, {"strokeDash": dash})
    # A scheme that is hidden, then one that is read as it was trained, then the variants.
    strength = alt.when(~chosen).then(alt.value(0))
    strength = strength.when(f"datum.read == '{TRAINED}'").then(alt.value(1))
    line = alt.Chart().mark_line(strokeWidth=2, tooltip=None, point=scheme_points(kinds))
    line = line.encode(y=y, strokeDash=dash, opacity=strength.otherwise(alt.value(0.55)), **own)
    early = alt.Chart().transform_filter("datum.early")
    stop = early.mark_point(shape="cross", filled=True, size=90, tooltip=None)
    layers = [
        line.add_params(chosen),
        *([stop.encode(y="y:Q", opacity=style["opacity"], **own)] if parts.early else []),
        *([] if measure == "steps" else _boundary(measure)),
        readout(names, x, axes.x, form, "name"),
    ]
    if measure == "context":
        cut = alt.Chart().mark_line(strokeWidth=1, tooltip=None, aria=False)
        layers.append(cut.encode(y="cut:Q", opacity=where_shown(chosen, alt.value(0.7)), **own))
    if parts.dots:
        dot = alt.Chart().transform_fold([*parts.dots], as_=["trial", "dot"])
        dot = dot.transform_filter("isValid(datum.dot)")
        dot = dot.mark_circle(size=16, tooltip=None, aria=False)
        opacity = where_shown(chosen, alt.value(0.5))
        layers.append(dot.encode(y="dot:Q", x=x, color=colour, opacity=opacity))
    if parts.bands:
        band = alt.Chart().mark_area(tooltip=None)
        opacity = where_shown(chosen, alt.value(0.15))
        layers.insert(0, band.encode(y="low:Q", y2="high:Q", opacity=opacity, **own))
    if parts.chance:
        guess = alt.Chart().mark_rule(aria=False, strokeDash=[2, 3], opacity=0.7, color="gray")
        layers.append(guess.encode(y="min(chance):Q"))
    if parts.by_position:
        rule = alt.Chart().mark_line(
            aria=False, tooltip=None, strokeDash=[6, 3], strokeWidth=1, color="gray"
        )
        layers.append(rule.encode(x=x, y="min(by_position):Q"))
    named = f"isValid(datum.label) && {WIDE}"
    ends = alt.Chart().transform_filter(f"{named} && !datum.early")
    inside = alt.Chart().transform_filter(f"{named} && datum.early")
    # Where a name inside the chart covers a line, its edge has the colour of the ground.
    edge: dict[str, Any] = {"stroke": alt.ExprRef("background"), "strokeWidth": 4}
    look: dict[str, Any] = {"fontSize": 12, "color": scheme_text(kinds), "aria": False}
    texts = [
        ends.mark_text(align="left", dx=8, **look),
        inside.mark_text(align="right", dx=-6, **look, **edge),
        inside.mark_text(align="right", dx=-6, **look),
    ]
    layers += [
        text.encode(x=x, y="label_y:Q", text="label:N", opacity=style["opacity"]) for text in texts
    ]
    rows = math.ceil(len(reads) / 2) if len(reads) > 1 else 0  # of the legend below
    layered = alt.layer(*layers).properties(height=height + rows * LEGEND_ROW)
    return spec_of(layered)
