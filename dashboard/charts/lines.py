"""Lines by offset, position or component: a line per scheme, all values in one tooltip."""

import functools

import altair as alt
import numpy as np
import pandas as pd

from dashboard.charts.theme import (
    HEIGHT,
    Spec,
    boundary_rule,
    in_order,
    line_style,
    readout,
    scheme_colour,
    shown,
    spec_of,
)
from dashboard.compute.result_cache import memoize_on
from dashboard.text import listed

CLOSE = 1 / 400  # of the range of all curves: less than the width of a line on any screen


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
    """Lines over offset or position, on linear axes; the rest as for `line_spec`."""
    x = alt.X("x:Q", title=x_title, scale=alt.Scale(nice=False, zero=False))
    y = alt.Y("y:Q", title=y_title, scale=alt.Scale(zero=False))
    return line_spec(kinds, x, y, x_title, band=band, height=height, pinned=pinned)


def line_spec(
    kinds: tuple[str, ...],
    x: alt.X,
    y: alt.Y,
    x_title: str,
    *,
    form: str = ".3g",
    points: bool = False,
    band: bool = False,
    height: int = HEIGHT,
    pinned: bool = False,
) -> Spec:
    """Return lines, one per scheme, with a band from low to high and the training length.

    form: of a value in the tooltip. points: whether values are dots, too; where they are few. Frame:
    scheme, x, y; with a band low, high; boundary, where there is one; pinned: setting, too.
    """
    colour = scheme_colour(kinds)
    chosen, style = shown(kinds, line_style(kinds, pinned))
    dots = alt.OverlayMarkDef(size=25) if points else alt.Undefined
    line = (
        alt.Chart()
        .mark_line(interpolate="linear", description="a line per scheme", tooltip=None, point=dots)
        .encode(x=x, y=y, color=colour, **style)
        .add_params(chosen)
    )
    layers = [line, boundary_rule(), readout(kinds, x, "y", x_title, pinned, form)]
    if band:
        # Where lowest and highest are one there is nothing to fill.
        area = alt.Chart().transform_filter("datum.low < datum.high")
        area = area.mark_area(tooltip=None, description="from lowest to highest")
        strength = alt.when(chosen).then(alt.value(0.1 if pinned else 0.18)).otherwise(alt.value(0))
        apart = {"detail": "setting:N"} if pinned else {}
        area = area.encode(x=x, y="low:Q", y2="high:Q", color=colour, opacity=strength, **apart)
        layers.insert(0, area)
    return in_order(spec_of(alt.layer(*layers).properties(height=height)))


@memoize_on
def coinciding(frame: pd.DataFrame, x: str = "x", y: str = "y", *, log: bool = False) -> str:
    """Say which lines cannot be told apart, "" where all can.

    Two are alike where, at the x that both have, two at least, they differ by no more than CLOSE of the
    range of all y. x, y: columns. log: whether y is drawn on a log scale.
    """
    if y not in frame:
        return ""
    curves = frame.pivot(index=x, columns="scheme", values=y)
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
    return f"{'; '.join(f'{one} coincide' for one in names)}." if names else ""
