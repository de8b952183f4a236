"""Results become tidy frames: fixed column names, one row per mark."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from dashboard.results import Array, Similarity
from dashboard.settings import Setting
from posenc.schemes import SCHEMES

UNDRAWN = ["spread"]  # of a curve by offset: what its lines do not show
MOST_POINTS = 1_024  # marks of one line; a screen has no more columns


def by_offset(results: Mapping[str, Similarity], boundary: float = np.nan) -> pd.DataFrame:
    """Mean cosine similarity by distance, with the range along each diagonal."""
    columns = {"x": "offsets", "y": "mean", "low": "low", "high": "high", "spread": "spread"}
    parts = [
        {"scheme": SCHEMES[kind].label, "boundary": boundary}
        | {name: getattr(result, field) for name, field in columns.items()}
        for kind, result in results.items()
    ]
    return stacked(parts, ["scheme", *columns, "boundary"])


def lines(
    curves: Mapping[str, tuple[Array, Array] | None], boundary: float = np.nan
) -> pd.DataFrame:
    """One line per scheme; a scheme without values has no rows."""
    parts = [
        {"scheme": SCHEMES[kind].label, "x": curve[0], "y": curve[1], "boundary": boundary}
        for kind, curve in curves.items()
        if curve is not None
    ]
    return stacked(parts, ["scheme", "x", "y", "boundary"])


def stacked(parts: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> pd.DataFrame:
    """Return parts under each other, each a mapping of columns to arrays, or to one value for all rows.

    columns: of a frame without parts.
    """
    if not parts:
        return pd.DataFrame(columns=[*columns])
    rows = [max(map(np.size, part.values())) for part in parts]
    # Whole columns make one frame: a frame of each part, joined, takes three times as long.
    return pd.DataFrame(
        {
            name: np.concatenate(
                [np.broadcast_to(part[name], n) for part, n in zip(parts, rows, strict=True)]
            )
            for name in columns
        }
    )


def drawn(frame: pd.DataFrame, column: str = "x", most: int = MOST_POINTS) -> pd.DataFrame:
    """Return what a line needs to be drawn: at most `most` values of a column.

    The values kept are evenly spaced, the first and the last among them; a screen shows no more. The
    tables below a chart hold every number in full.
    """
    if column not in frame:
        return frame  # nothing to draw
    values = np.unique(frame[column])
    if len(values) > most:
        frame = frame[frame[column].isin(values[evenly(len(values), most)])]
    return frame.drop(columns=UNDRAWN, errors="ignore")


def evenly(count: int, most: int = MOST_POINTS) -> Array:
    """Return at most `most` indices of `count`, evenly spaced, the first and the last among them."""
    indices: Array = np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))
    return indices


def plotless(frame: pd.DataFrame, renamed: Mapping[str, str]) -> pd.DataFrame:
    """Return a frame of numbers without what only draws: the training length, and what is renamed to ""."""
    drawn_only = ["boundary", *(name for name, text in renamed.items() if not text)]
    shown = frame.drop(columns=drawn_only, errors="ignore")
    return shown.rename(columns=dict(renamed))


def filled(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of a frame that hold anything."""
    held = [bool((values.notna() & (values != "")).any()) for _, values in frame.items()]
    return frame if all(held) else frame.loc[:, held]


def boundary(setting: Setting) -> float:
    """Return where the training length is drawn, NaN where it lies past the positions shown."""
    return float(setting.train_length) if setting.train_length < setting.length else np.nan
