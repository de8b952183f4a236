"""The results that At a glance shows for a setting, and the script that prints its measured properties."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dashboard import results
from dashboard.cache import cached, memoize_on
from dashboard.charts import frames
from dashboard.pages.at_a_glance import comparison, properties
from dashboard.results import Similarity
from dashboard.scheme_facts import EMBEDDING
from dashboard.settings import Setting
from dashboard.text import listed
from posenc.analysis import Properties
from posenc.schemes import SCHEMES

IMPORTS = """
import posenc
from posenc.analysis import scheme_properties
"""
SCRIPT = """
names = (
    "positions", "smallest_distance", "neighbour_mean", "norm_low", "norm_high", "value_low",
    "value_high", "translation_invariance_error", "first_rise", "kendall_tau",
)
print("scheme", *names, sep=",")
for request in requests.values():
    found = scheme_properties(request)
    values = [getattr(found, name) for name in names]
    print(request.config.label, *("" if v is None else v for v in values), sep=",")
"""


@dataclass(frozen=True)
class Read:
    """Similarity, measured properties and the comparison of every scheme, and a sentence."""

    setting: Setting
    results: dict[str, Similarity]
    reasons: dict[str, str]
    measured: dict[str, Properties]
    curves: pd.DataFrame
    properties: pd.DataFrame
    comparison: pd.DataFrame
    headline: str

    @property
    def added(self) -> set[str]:
        """The schemes that are added to token vectors."""
        acts_on = self.comparison["acts on"]
        return {
            kind for kind, where in zip(self.results, acts_on, strict=True) if where == EMBEDDING
        }


@cached
def read(setting: Setting) -> Read:
    """Return what the page shows of a setting."""
    requests = {kind: results.request(setting, kind) for kind in setting.schemes}
    # Scheme by scheme: a long rounded kernel is kept until the next one, and asked for twice.
    both, reasons = results.per_scheme(
        lambda request: (results.cosine(request), results.measured(request)), requests
    )
    similarities = {kind: similarity for kind, (similarity, _) in both.items()}
    measured = {kind: properties_of for kind, (_, properties_of) in both.items()}
    return Read(
        setting=setting,
        results=similarities,
        reasons=reasons,
        measured=measured,
        curves=frames.by_offset(similarities, frames.boundary(setting)),
        properties=properties.numbers(measured),
        comparison=comparison.table({kind: requests[kind] for kind in similarities}, measured),
        headline=headline(similarities, measured) if similarities else "",
    )


def headline(similarities: Mapping[str, Similarity], measured: Mapping[str, Properties]) -> str:
    """Say which schemes let similarity fall with every step and which do not."""
    groups: dict[str, list[str]] = {}
    rises = []
    for kind, result in measured.items():
        label = SCHEMES[kind].label
        if similarities[kind].kernel.untrained:
            label += f", {similarities[kind].kernel.start}"
        if not np.isfinite(similarities[kind].mean).any():
            what = "is undefined (no vector has a direction)"
        elif result.positions < 2:
            what = "has no distances to compare"
        elif result.kendall_tau is None:
            what = "does not change at all"
        elif result.kendall_tau > 1 - 1e-12:
            what = "falls at every step"
        elif result.first_rise is None:
            what = "never rises, but stays level at some steps"
        else:
            rises.append(f"{result.first_rise:,} ({label})")
            continue
        groups.setdefault(what, []).append(label)
    parts = [f"{what} for {listed(labels)}" for what, labels in groups.items()]
    if rises:
        parts.append(f"first rises again at distance {', '.join(rises)}")
    return f"Position similarity {'. It '.join(parts)}."


@memoize_on
def curve(read: Read, kind: str) -> pd.DataFrame:
    """Return the curve of one scheme as it is drawn, empty for one that is not shown.

    last, least: where the axes of all schemes end.
    """
    curves = read.curves
    scheme_curve = frames.drawn(curves[(curves["scheme"] == SCHEMES[kind].label).to_numpy()])
    least = curves[["y", "low"]].min().min()
    return scheme_curve.assign(last=np.float32(curves["x"].max()), least=np.float32(least))
