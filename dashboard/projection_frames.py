"""Projections as tidy frames: scores of every position, and what the components explain."""

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import pandas as pd

from dashboard.pair import Pair
from dashboard.projected import Projected
from posenc import Setting
from posenc.schemes import SCHEMES

# A score this many times further out than 99 of 100 is left out of the picture, and named beside it:
# one outlier (BERT's position 0 is one) would press all others into a dot.
FAR = 2.0


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
    settings = {"B": read.now} | ({} if read.pinned is None else {"A": read.pinned})
    parts, usual = [], 0.0
    for name, one in settings.items():
        for kind, result in one.found.items():
            part = pd.DataFrame(result.scores, columns=["PC1", "PC2", "PC3"])
            position = np.arange(len(part))
            part.insert(0, "position", position)
            part["seen"] = np.where(position < one.setting.train_length, "inside", "past")
            parts.append(part.assign(kind=kind, setting=name))
            # By panel: all of a scheme that is larger than the others are no outliers. A few
            # positions have no usual size.
            share = 0.99 if len(part) >= 20 else 1.0
            usual = max(usual, float(_sizes(part).quantile(share, interpolation="lower")))
    frame = pd.concat(parts, ignore_index=True)
    sizes = _sizes(frame)
    extent = float(sizes[sizes <= FAR * usual].max() if usual > 0 else 1.0)
    return frame.assign(
        place=frame["position"] / max(1, frame["position"].max()),
        far=sizes > extent,
        lowest=-extent,
        highest=extent,
    )


def of_panel(scores: pd.DataFrame, kind: str, *, pinned: bool) -> pd.DataFrame:
    """Return the scores of one scheme under one setting."""
    return scores[(scores["kind"] == kind) & (scores["setting"] == ("A" if pinned else "B"))]


def _sizes(frame: pd.DataFrame) -> pd.Series:
    return frame[["PC1", "PC2", "PC3"]].abs().max(axis=1)


def explained(found: Mapping[str, Projected]) -> pd.DataFrame:
    """Share of variance explained by the first components together."""
    parts = [
        pd.DataFrame(
            {
                "scheme": SCHEMES[kind].label,
                "component": np.arange(1, len(result.explained) + 1),
                "own": result.explained,
                "share": np.cumsum(result.explained),
            }
        )
        for kind, result in found.items()
    ]
    return pd.concat(parts, ignore_index=True)
