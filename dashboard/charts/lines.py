"""Lines by offset, position or component: a line per scheme, all values in one tooltip."""

import itertools

import altair as alt
import numpy as np
import pandas as pd

from dashboard.charts.theme import (
    HEIGHT,
    Spec,
    boundary_name,
    boundary_rule,
    cached_spec,
    in_order,
    line_style,
    readout,
    scheme_colour,
    scheme_points,
    scheme_text,
    shown,
    spec_of,
)
from dashboard.results import Array
from dashboard.text import listed, number
from posenc.schemes import SCHEMES

# Of the range of all values: what a name at the end of a line takes of the height of a usual chart.
LABEL_GAP = 0.11
AT_THE_RIGHT = 0.02  # of the width, within which lines end together
CLOSE = 1 / 400  # of the range of all curves: less than the width of a line on any screen


@cached_spec
def by_offset(
    kinds: tuple[str, ...],
    x_title: str,
    y_title: str,
    *,
    band: bool = True,
    labels: bool = False,
    height: int = HEIGHT,
) -> Spec:
    """Lines over offset or position, on linear axes; the rest as for `line_spec`."""
    x = alt.X("x:Q", title=x_title, scale=alt.Scale(nice=False, zero=False))
    y = alt.Y("y:Q", title=y_title, scale=alt.Scale(zero=False))
    return line_spec(kinds, x, y, x_title, every=True, band=band, labels=labels, height=height)


def line_spec(
    kinds: tuple[str, ...],
    x: alt.X,
    y: alt.Y,
    x_title: str,
    *,
    form: str = ".3g",
    every: bool = False,
    points: bool = False,
    band: bool = False,
    labels: bool = False,
    height: int = HEIGHT,
) -> Spec:
    """Return lines, one per scheme, with a band from low to high and the training length.

    form: of a value in the tooltip. every: whether x has every whole number. points: whether values are
    dots, too; where they are few. labels: names at the ends of lines. Frame: scheme, x, y; with a band
    low, high; with labels label_y (`labelled`); boundary, where there is one.
    """
    colour = scheme_colour(kinds)
    chosen, style = shown(kinds, line_style(kinds))
    dots = scheme_points(kinds) if points else alt.Undefined
    line = (
        alt.Chart()
        .mark_line(interpolate="linear", description="a line per scheme", tooltip=None, point=dots)
        .encode(x=x, y=y, color=colour, **style)
        .add_params(chosen)
    )
    names = [SCHEMES[kind].label for kind in kinds]
    layers = [line, boundary_rule(), boundary_name()]
    layers.append(readout(names, x, x_title, form, every=every))
    if band:
        # Where lowest and highest are one there is nothing to fill.
        area = alt.Chart().transform_filter("datum.low < datum.high")
        area = area.mark_area(tooltip=None, description="from lowest to highest")
        strength = alt.when(chosen).then(alt.value(0.18)).otherwise(alt.value(0))
        area = area.encode(x=x, y="low:Q", y2="high:Q", color=colour, opacity=strength)
        layers.insert(0, area)
    if labels:
        text = alt.Chart().transform_filter("isValid(datum.label_y)")
        text = text.mark_text(
            align="left", dx=5, fontSize=12, color=scheme_text(kinds), aria=False, tooltip=None
        )
        text = text.encode(x=x, y="label_y:Q", text="scheme:N", opacity=style["opacity"])
        layers.append(text)
    return in_order(spec_of(alt.layer(*layers).properties(height=height)))


def labelled(frame: pd.DataFrame, gap: float = LABEL_GAP) -> pd.DataFrame:
    """Return a frame of lines with `label_y`, a height for each line's name at its last value.

    Where several lines end at the right, one of them a place earlier, no name covers another. gap: of the
    range of all values.
    """
    if frame.empty or frame["y"].isna().all():
        return frame
    x, y, names = (frame[column].to_numpy() for column in ("x", "y", "scheme"))
    finite = np.flatnonzero(np.isfinite(y))
    last = finite[np.flatnonzero([*(names[finite][1:] != names[finite][:-1]), True])]
    right = last[x[last] >= x.max() - AT_THE_RIGHT * (x.max() - x.min())]
    heights = np.full(len(y), np.nan)
    heights[last] = y[last]
    low, high = float(y[finite].min()), float(y[finite].max())
    heights[right] = apart(y[right], gap * (high - low), low, high)
    return frame.assign(label_y=heights)


def ends(frame: pd.DataFrame) -> str:
    """Say where each line begins and ends, "" for a frame without lines.

    Frame: a line after the other; x, y, and what names a line: scheme or name, setting.
    """
    names = [column for column in ("name", "scheme", "setting") if column in frame]
    names = [column for column in names if column != "scheme" or "name" not in names]
    if not (names and {"x", "y"} <= {*frame}):
        return ""
    x, y = (frame[column].to_numpy(float) for column in ("x", "y"))
    finite = np.flatnonzero(np.isfinite(y))
    keys = np.stack([frame[column].to_numpy(object)[finite] for column in names])
    starts = np.flatnonzero([True, *(keys[:, 1:] != keys[:, :-1]).any(axis=0)][: len(finite)])
    sentences = []
    for start, stop in itertools.pairwise([*starts, len(finite)]):
        line = finite[start:stop]
        first, last = line[x[line].argmin()], line[x[line].argmax()]
        sentences.append(
            f"{', '.join(map(str, keys[:, start]))}: {number(y[first])} at {number(x[first])}, "
            f"{number(y[last])} at {number(x[last])}."
        )
    return " ".join(sentences)


def apart(heights: Array, gap: float, low: float, high: float) -> Array:
    """Return heights of labels at least a gap apart, between the lowest and the highest value.

    Those that are closer stand around their mean, or at the end of the range.
    """
    groups: list[list[float]] = []
    order = np.argsort(heights)
    for height in heights[order].tolist():
        groups.append([height])
        while len(groups) > 1 and _places(groups[-1], gap)[0] - _places(groups[-2], gap)[-1] < gap:
            groups[-2:] = [groups[-2] + groups[-1]]
    places = np.array([place for group in groups for place in _places(group, gap)])
    steps = gap * np.arange(len(heights))
    spaced = np.empty(len(heights))
    spaced[order] = np.minimum(np.maximum(places, low + steps), high - steps[::-1])
    return spaced


def _places(group: list[float], gap: float) -> list[float]:
    lowest = sum(group) / len(group) - gap * (len(group) - 1) / 2
    return [lowest + gap * i for i in range(len(group))]


def coinciding(frame: pd.DataFrame, x: str = "x", y: str = "y", *, log: bool = False) -> str:
    """Say which lines cannot be told apart, "" where all can.

    Two are alike where, at the x that both have, two at least, they differ by no more than CLOSE of the
    range of all y. x, y: columns. log: whether y is drawn on a log scale.
    """
    if y not in frame:
        return ""
    curves = frame.pivot(index=x, columns="scheme", values=y)[[*frame["scheme"].unique()]]
    values = curves.to_numpy(float)
    if log:
        values = np.log(np.where(values > 0, values, np.nan))
    if not np.isfinite(values).any():
        return ""
    reach = CLOSE * (np.nanmax(values) - np.nanmin(values))
    groups: list[list[int]] = []
    for n in range(values.shape[1]):
        for group in groups:
            apart = np.abs(values[:, n] - values[:, group[0]])
            apart = apart[np.isfinite(apart)]
            if len(apart) > 1 and apart.max() <= reach + 1e-12:
                group.append(n)
                break
        else:
            groups.append([n])
    names = [listed([str(curves.columns[n]) for n in group]) for group in groups if len(group) > 1]
    return f"{'; '.join(f'{name} coincide' for name in names)}." if names else ""
