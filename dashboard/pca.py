"""What the PCA page says of a setting."""

from dataclasses import dataclass

import pandas as pd

from dashboard import coinciding, compute, frames, projection_frames, sentences
from dashboard.choices import PcaChoice
from dashboard.kept import kept, once
from dashboard.pair import Pair
from dashboard.projected import Projected, projected
from posenc.schemes import SCHEMES
from posenc.settings import Setting

COMPONENTS = 12


@dataclass(frozen=True)
class Read:
    """Every scheme's positions on their principal components."""

    setting: Setting
    found: dict[str, Projected]
    reasons: dict[str, str]
    headline: str
    variance: pd.DataFrame


def shown(both: Pair[Read]) -> tuple[str, ...]:
    """Return the schemes that either setting shows, in their fixed order."""
    return tuple(kind for kind in SCHEMES if any(kind in one.found for one in both.each))


@kept
def read(setting: Setting, chosen: PcaChoice) -> Read:
    """Return what the page shows of a setting."""
    fitted = setting.length if chosen.fit == "all" else min(setting.train_length, setting.length)
    queries = {kind: compute.query(setting, kind) for kind in setting.schemes}
    found, reasons = compute.each(projected, queries, fitted, COMPONENTS)
    if not found:
        return Read(setting, found, reasons, "", pd.DataFrame())
    return Read(
        setting, found, reasons, sentences.projection(found), projection_frames.explained(found)
    )


@once
def explained(read: Read) -> coinciding.Lines:
    """Return the variance explained as it is drawn."""
    return coinciding.lines(frames.dotted(read.variance), "component", "share")
