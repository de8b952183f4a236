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
    frames = [pd.DataFrame({name: part[name] for name in columns}) for part in parts]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=[*columns])


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


def compared(b: pd.DataFrame, a: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of B, each followed by A's of the same name (the first column) and the change.

    A change is B minus A, of numbers only; rows of words alone have none.
    """
    if b.empty or a.empty:
        return pd.concat([b.assign(setting="B"), a.assign(setting="A")], ignore_index=True)
    name = str(b.columns[0])
    if b[name].duplicated().any() or a[name].duplicated().any():
        raise ValueError(f"rows are compared by {name}, which must name each of them once.")
    numbers = [column for column in b if column in a and b[column].dtype.kind in "fi"]
    of_b, of_a = b.set_index(name), a.set_index(name)
    shared = of_b.index.intersection(of_a.index, sort=False)
    parts = {"B": of_b, "A": of_a}
    if numbers:
        parts["B - A"] = of_b.loc[shared, numbers] - of_a.loc[shared, numbers]
    rows = pd.concat(parts, names=["setting"]).reset_index()
    order = rows[name].map({key: n for n, key in enumerate(rows[name].unique())})
    rows = rows.iloc[np.argsort(order, kind="stable")].reset_index(drop=True)
    return rows[[name, "setting", *(column for column in b if column != name)]]


def boundary(setting: Setting) -> float:
    """Return where the training length is drawn, NaN where it lies past the positions shown."""
    return float(setting.train_length) if setting.train_length < setting.length else np.nan
