"""What the PCA page says of a setting."""

from dataclasses import dataclass

import pandas as pd

from dashboard.ab import Pair
from dashboard.charts import frames
from dashboard.compute import schemes
from dashboard.compute.result_cache import kept, once
from dashboard.controls.page_options import PcaChoice
from dashboard.frame import coinciding, sentences
from dashboard.pages.pca import frames as projection_frames
from dashboard.pages.pca.projected import Projected, projected
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
    queries = {kind: schemes.query(setting, kind) for kind in setting.schemes}
    found, reasons = schemes.each(projected, queries, fitted, COMPONENTS)
    if not found:
        return Read(setting, found, reasons, "", pd.DataFrame())
    return Read(
        setting, found, reasons, sentences.projection(found), projection_frames.explained(found)
    )


@once
def explained(read: Read) -> coinciding.Lines:
    """Return the variance explained as it is drawn."""
    return coinciding.lines(frames.dotted(read.variance), "component", "share")
