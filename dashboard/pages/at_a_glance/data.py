"""What the Overview page says of a setting."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from dashboard.ab import Pair
from dashboard.charts import frames
from dashboard.compute import schemes
from dashboard.compute.result_cache import kept, once
from dashboard.compute.schemes import Similarity
from dashboard.frame import sentences
from posenc.analysis import Properties
from posenc.schemes import SCHEMES
from posenc.settings import Query, Setting


@dataclass(frozen=True)
class Overview:
    """Similarity and measured properties of every scheme, as results, frames and a sentence."""

    setting: Setting
    found: dict[str, Similarity]
    reasons: dict[str, str]
    measured: dict[str, Properties]
    curves: pd.DataFrame
    properties: pd.DataFrame
    headline: str


@kept
def read(setting: Setting) -> Overview:
    """Return what the page shows of a setting."""
    queries = {kind: schemes.query(setting, kind) for kind in setting.schemes}
    # Scheme by scheme: a long rounded kernel is kept until the next one, and asked for twice.
    read, reasons = schemes.each(_of_scheme, queries)
    found = {kind: both[0] for kind, both in read.items()}
    measured = {kind: both[1] for kind, both in read.items()}
    if not found:
        return Overview(setting, found, reasons, measured, pd.DataFrame(), pd.DataFrame(), "")
    return Overview(
        setting=setting,
        found=found,
        reasons=reasons,
        measured=measured,
        curves=frames.by_offset(found, frames.boundary(setting, setting.length - 1)),
        properties=frames.properties(measured),
        headline=sentences.overview(found, measured),
    )


def shown(both: Pair[Overview]) -> tuple[str, ...]:
    """Return the schemes that either setting shows, in their fixed order."""
    return tuple(kind for kind in SCHEMES if any(kind in one.found for one in both.each))


def _of_scheme(query: Query) -> tuple[Similarity, Properties]:
    return schemes.cosine(query), schemes.measured(query)


@once
def curve(read: Overview, kind: str) -> pd.DataFrame:
    """Return the curve of one scheme as it is drawn, nothing of one that is not shown."""
    if kind not in read.found:
        return pd.DataFrame()
    one = read.found[kind]
    kept = frames.evenly(len(one.offsets))
    shown = {"x": one.offsets, "y": one.mean, "low": one.low, "high": one.high}
    drawn = {name: values[kept].astype(np.float32) for name, values in shown.items()}
    whose = {"scheme": frames.word(SCHEMES[kind].label, len(kept))}
    return pd.DataFrame(
        whose | drawn | {name: np.float32(end) for name, end in _ends(read).items()}
    )


@once
def _ends(read: Overview) -> dict[str, float]:
    """Return what the curves of all schemes share: the training length, and where their axes end."""
    numbers = read.curves
    return {
        "boundary": numbers["boundary"].iloc[0],
        "last": numbers["last"].iloc[0],
        "least": np.nanmin(numbers[["y", "low"]].to_numpy(float)),
    }


@once
def table(read: Overview, kind: str) -> pd.DataFrame:
    """Return the measured properties of one scheme, none of one that is not shown."""
    return frames.properties_table(read.measured.get(kind))
