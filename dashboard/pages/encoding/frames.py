"""The Encoding page's results as tidy frames: fixed column names, one row per mark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from dashboard.charts.frames import stacked
from dashboard.compute.result_cache import memoize_on
from posenc.analysis import STARTS
from posenc.schemes import SCHEMES

if TYPE_CHECKING:
    from dashboard.pages.encoding.data import EncodingPage, Ladder, Numbers, Sum

CORNER = 12  # rows and columns of every matrix in the table of numbers


def waves(
    found: Mapping[str, Numbers],
    pairs: Mapping[str, tuple[int, ...]],
    train_length: int,
    most: int,
) -> pd.DataFrame:
    """Sine and cosine of chosen pairs by position, read off the columns of the scheme's own numbers.

    boundary: the training length where it lies inside.
    """
    parts = []
    for kind, one in found.items():
        rows = one.values[:most]
        boundary = float(train_length) if train_length < len(rows) else np.nan
        parts += [
            {
                "kind": kind,
                "scheme": SCHEMES[kind].label,
                "pair": pair,
                "wave": wave,
                "x": np.arange(len(rows)),
                "y": rows[:, one.features.index(f"{wave} {pair}")],
                "boundary": boundary,
            }
            for pair in pairs[kind]
            for wave in ("sin", "cos")
        ]
    return stacked(parts, ["kind", "scheme", "pair", "wave", "x", "y", "boundary"])


def spectrum(ladders: Mapping[str, Ladder], train_length: int) -> pd.DataFrame:
    """Every pair: its place among the frequencies, wavelength, turns and share of a turn in training."""
    parts = [
        {
            "scheme": SCHEMES[kind].label,
            "pair": np.arange(len(one.inv_freq)),
            "place": np.arange(len(one.inv_freq)) / len(one.inv_freq),
            "inv_freq": one.inv_freq,
            "wavelength": one.wavelengths,
            "turns": one.turns,
            "share": one.shares,
            "trained": float(train_length),
        }
        for kind, one in ladders.items()
    ]
    columns = ["scheme", "pair", "place", "inv_freq", "wavelength", "turns", "share", "trained"]
    return stacked(parts, columns)


SUM_COLUMNS = {
    "token": "token norm",
    "position": "position norm",
    "ratio_scaled": "ratio, times sqrt(d)",
    "ratio_plain": "ratio, plain",
    "share_scaled": "share, times sqrt(d)",
    "share_plain": "share, plain",
}


def sums(found: Mapping[str, Sum]) -> pd.DataFrame:
    """Position beside content, one row per scheme and start of the token embeddings."""
    rows = [
        {"scheme": SCHEMES[kind].label, "d": one.width, "tokens start as": STARTS[start]}
        | {name: getattr(compared, field) for field, name in SUM_COLUMNS.items()}
        for kind, one in found.items()
        for start, compared in one.found.items()
    ]
    return pd.DataFrame(rows)


def named_sums(found: EncodingPage) -> pd.DataFrame:
    """The same, each row under one name, as a comparison of two settings needs it."""
    table = found.sum_table
    if table.empty:
        return table
    name = table["scheme"] + ", " + table["tokens start as"]
    return table.drop(columns=["scheme", "tokens start as"]).assign(scheme=name)[
        ["scheme", *(c for c in table if c not in ("scheme", "tokens start as"))]
    ]


def sum_marks(found: Mapping[str, Sum]) -> pd.DataFrame:
    """Token / position with and without the factor, one row per mark."""
    parts = [
        {
            "scheme": SCHEMES[kind].label,
            "tokens start as": STARTS[start],
            "factor": word,
            "ratio": [getattr(compared, name)],
        }
        for name, word in (("ratio_plain", "plain"), ("ratio_scaled", "times sqrt(d)"))
        for kind, one in found.items()
        for start, compared in one.found.items()
    ]
    return stacked(parts, ["scheme", "tokens start as", "factor", "ratio"])


@memoize_on
def numbers_of_pairs(found: EncodingPage) -> pd.DataFrame:
    """Every pair, without what only places it in the picture."""
    return found.spectrum.drop(columns=["place", "trained"], errors="ignore")


@memoize_on
def numbers_of_waves(found: EncodingPage) -> pd.DataFrame:
    """Every wave, its scheme by its name alone."""
    return found.waves.drop(columns="kind", errors="ignore")


def corner(found: Mapping[str, Numbers]) -> pd.DataFrame:
    """The first rows and columns of every scheme's matrix, in full precision."""
    parts = []
    for kind, one in found.items():
        values = one.values[:CORNER, :CORNER]
        rows, columns = np.indices(values.shape)
        names = [one.features[j] if one.features else f"key {j}" for j in range(values.shape[1])]
        parts.append(
            {
                "scheme": SCHEMES[kind].label,
                "position": rows.ravel(),
                "column": columns.ravel(),
                "name": np.array(names, object)[columns.ravel()],
                "value": values.ravel(),
            }
        )
    return stacked(parts, ["scheme", "position", "column", "name", "value"])
