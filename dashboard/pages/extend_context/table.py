"""The ranked methods of a plan as a page shows them: cells of the library, each with its stroke.

With a pinned setting every method has A's row under it, and the change of its numbers from A to B.
"""

import base64
from typing import Any

import pandas as pd

from dashboard.ab import Pair
from dashboard.pages.extend_context.charts import METHOD_COLOURS, METHOD_STROKES, NAMES
from dashboard.pages.extend_context.data import PlannerRead
from posenc.planner.report import COLUMNS

STROKE, METHOD, SETTING = "line", "method", "setting"
_SWATCH = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="96" height="32"><line x1="4" y1="16" x2="92" '
    'y2="16" stroke="{}" stroke-width="5" stroke-dasharray="{}"/></svg>'
)


def tables(found: Pair[PlannerRead]) -> dict[str, pd.DataFrame]:
    """Return the ranked tables by their titles; cells are words."""
    titles = [*found.now.ranked]
    return {title: _with_strokes(_both(title, found)) for title in titles}


def _both(title: str, found: Pair[PlannerRead]) -> pd.DataFrame:
    now, then = found.now, found.pinned
    if then is None:
        return now.ranked[title]
    rows = []
    for label in methods(found):
        for said, one in (("B", now), ("A", then)):
            cells = _row(one.ranked[title], label)
            if cells is not None:
                rows.append({METHOD: label, SETTING: said} | cells)
        ours, theirs = _row(now.methods, label), _row(then.methods, label)
        if ours is not None and theirs is not None:
            change = {
                column.title: column.change(ours[column.title], theirs[column.title])
                for column in COLUMNS
                if column.title in now.ranked[title]
            }
            rows.append(change | {METHOD: label, SETTING: "B - A"})
    return pd.DataFrame(rows)


def methods(found: Pair[PlannerRead]) -> tuple[str, ...]:
    """Return the labels of the methods of both, those of B first, as they are ranked."""
    return tuple(
        dict.fromkeys(
            label for one in found.each if len(one.methods) for label in one.methods[METHOD]
        )
    )


def _row(frame: pd.DataFrame, label: str) -> dict[str, Any] | None:
    """Return the cells of one method, None where the frame has not got it."""
    found = frame[frame[METHOD] == label] if len(frame) else frame
    if not len(found):
        return None
    row = found.astype(object).iloc[0].to_dict()
    return {str(name): None if pd.isna(value) else value for name, value in row.items()}


def _with_strokes(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with the stroke of each method before its name."""
    if not len(frame):
        return frame
    return frame.assign(**{STROKE: [stroke(label) for label in frame[METHOD]]})[
        [STROKE, *frame.columns]
    ]


def stroke(label: str) -> str:
    """Return a picture of a method's line, colour and dash, as an address that holds it."""
    name = NAMES[label]
    dashes = " ".join(str(part) for part in METHOD_STROKES[name])
    drawing = _SWATCH.format(METHOD_COLOURS[name], "" if METHOD_STROKES[name][1] == 0 else dashes)
    return "data:image/svg+xml;base64," + base64.b64encode(drawing.encode()).decode("ascii")
