"""Projections as tidy frames: scores of every position, and what the components explain."""

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import pandas as pd

from dashboard.ab import Pair
from dashboard.charts.frames import drawn, stacked
from dashboard.compute.result_cache import once
from dashboard.compute.schemes import Array
from dashboard.pages.pca.projected import Projected
from posenc.schemes import SCHEMES
from posenc.settings import Setting

# A score this many times further out than 99 of 100 is left out of the picture, and named beside it:
# one outlier (BERT's position 0 is one) would press all others into a dot.
FAR = 2.0


AXES = ("PC1", "PC2", "PC3")


APART = ["kind", "setting", "far"]  # what tells panels apart and is not drawn in one


class Projections(Protocol):
    """What one setting has projected."""

    @property
    def found(self) -> Mapping[str, Projected]: ...

    @property
    def setting(self) -> Setting: ...


def projections(read: Pair[Projections]) -> pd.DataFrame:
    """Scores of every position on three components, with what all panels of the page share.

    lowest, highest: ends of the axes; a position with a score past them is `far`, and not drawn.
    place: from 0, the first position, to 1, the last of any scheme: the colour. setting: B, or A.
    """
    if read.pinned is None:
        return _alone(read.now)
    return _scores({"B": read.now, "A": read.pinned})


@once
def _alone(read: Projections) -> pd.DataFrame:
    return _scores({"B": read})


def _scores(settings: Mapping[str, Projections]) -> pd.DataFrame:
    parts, usual = [], 0.0
    for name, one in settings.items():
        for kind, result in one.found.items():
            position = np.arange(len(result.scores))
            parts.append(
                {
                    "position": position,
                    **{axis: result.scores[:, which] for which, axis in enumerate(AXES)},
                    "seen": np.where(position < one.setting.train_length, 0, 1),
                    "kind": kind,
                    "setting": name,
                }
            )
            # By panel: all of a scheme that is larger than the others are no outliers. A few
            # positions have no usual size.
            share = 0.99 if len(position) >= 20 else 1.0
            sizes = _sizes(result.scores)
            sizes = sizes[~np.isnan(sizes)]
            if len(sizes):
                usual = max(usual, float(np.quantile(sizes, share, method="lower")))
    frame = stacked(parts, ["position", *AXES, "seen", "kind", "setting"])
    sizes = _sizes(frame[list(AXES)].to_numpy())
    extent = float(np.max(sizes, where=sizes <= FAR * usual, initial=0.0)) if usual > 0 else 1.0
    last = frame["position"].to_numpy().max()
    return frame.assign(
        seen=pd.Categorical.from_codes(frame["seen"].to_numpy(), pd.Index(["inside", "past"])),
        place=frame["position"].to_numpy() / max(1, last),
        far=sizes > extent,
        lowest=-extent,
        highest=extent,
    )


@once
def of_panel(scores: pd.DataFrame, kind: str, *, pinned: bool) -> pd.DataFrame:
    """Return the scores of one scheme under one setting."""
    return scores[(scores["kind"] == kind) & (scores["setting"] == ("A" if pinned else "B"))]


@once
def in_picture(panel: pd.DataFrame) -> pd.DataFrame:
    """Return what is drawn of one panel's scores."""
    return drawn(panel[~panel["far"]].drop(columns=APART), "position")


@once
def numbers(scores: pd.DataFrame, *, compared: bool) -> pd.DataFrame:
    """Return the scores as a table. compared: whether a setting is pinned; it says whose each is."""
    whose = ["setting"] if compared else []
    return scores[["kind", "position", *AXES, "seen", *whose]]


def _sizes(scores: Array) -> Array:
    """The largest component of every position; NaN where there is no row."""
    found: Array = np.abs(scores).max(axis=1)
    return found


def explained(found: Mapping[str, Projected]) -> pd.DataFrame:
    """Share of variance explained by the first components together."""
    parts = [
        {
            "scheme": SCHEMES[kind].label,
            "component": np.arange(1, len(result.explained) + 1),
            "own": result.explained,
            "share": np.cumsum(result.explained),
        }
        for kind, result in found.items()
    ]
    return stacked(parts, ["scheme", "component", "own", "share"])
