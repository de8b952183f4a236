"""What the PCA page says of a setting: scores, explained variance, both in words, and as Python."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dashboard.charts import frames
from dashboard.compute import schemes
from dashboard.compute.result_cache import cache_result, memoize_on
from dashboard.compute.schemes import Array, check_table, provenance
from dashboard.frame.script import script as whole
from dashboard.pages.pca.options import PcaChoice
from posenc.analysis import components_explaining, scheme_projection
from posenc.schemes import SCHEMES
from posenc.settings import Query, Setting

COMPONENTS = 12  # of which the explained variance is shown, more where SHARE takes more
SHARE = 0.9
AXES = ("PC1", "PC2", "PC3")

IMPORTS = """
from posenc.analysis import scheme_projection
from posenc.settings import Query, Setting
"""
BODY = """
fitted = {fitted}
print("kind,position,PC1,PC2,PC3")
for kind in setting.schemes:
    found = scheme_projection(Query.of(setting, kind), fitted, components=3)
    for position, scores in enumerate(found.scores.tolist()):
        print(kind, position, *scores, sep=",")
"""


@dataclass(frozen=True)
class Projected:
    """Positions on their principal components, in units of the vectors' root mean square norm."""

    scores: Array  # (n, 3)
    explained: Array  # share of variance of every component
    missing: int
    fitted: int  # positions inside the fitted range that are finite
    past: int  # positions past that range
    note: str
    rounded: bool = False  # whether the precision asked for had a part in it
    enough: int = 0  # components that explain SHARE together; 0 where nothing varies


@cache_result
def projected(query: Query, fitted: int) -> Projected:
    """Return principal components fitted on the first `fitted` positions, all of them projected."""
    check_table(query)
    schemes.one_thread_for_numpy()
    read = scheme_projection(query, fitted, len(AXES))
    projection = read.projection
    return Projected(
        scores=read.scores.numpy(),
        explained=projection.all_variance_ratios.numpy(),
        enough=components_explaining(projection, SHARE),
        missing=int(projection.missing.sum()),
        fitted=int(projection.fitted.sum()),
        past=read.past,
        note=provenance(query),
        rounded=read.rounded,
    )


@dataclass(frozen=True)
class Read:
    """Every scheme's positions on their principal components."""

    setting: Setting
    results: dict[str, Projected]
    reasons: dict[str, str]
    headline: str
    variance: pd.DataFrame
    enough: str = ""


@cache_result
def read(setting: Setting, fit: str) -> Read:
    """Return what the page shows of a setting. fit: seen or all, as the page's choice has it."""
    fitted = setting.length if fit == "all" else min(setting.train_length, setting.length)
    queries = {kind: schemes.query(setting, kind) for kind in setting.schemes}
    results, reasons = schemes.per_scheme(projected, queries, fitted)
    if not results:
        return Read(setting, results, reasons, "", pd.DataFrame())
    return Read(setting, results, reasons, headline(results), variance(results), enough(results))


def headline(results: Mapping[str, Projected]) -> str:
    """Say how much of each scheme the first two components explain."""
    parts = [
        f"{result.explained[:2].sum():.0%} ({SCHEMES[kind].label})"
        for kind, result in results.items()
        if result.explained.sum() > 0
    ]
    if not parts:
        return "All positions have the same vector, so there is nothing to project."
    return f"Variance explained by PC1 and PC2: {', '.join(parts)}."


def enough(results: Mapping[str, Projected]) -> str:
    """Say how many components explain SHARE of each scheme's variance, "" where nothing varies."""
    parts = [
        f"{result.enough} ({SCHEMES[kind].label})"
        for kind, result in results.items()
        if result.enough
    ]
    return (
        f"Components that explain {SHARE:.0%} of the variance: {', '.join(parts)}." if parts else ""
    )


def explained(result: Projected) -> str:
    """Say what each of the first three components explains."""
    if result.explained.sum() == 0:
        return "All positions have the same vector: nothing to project."
    shares = ", ".join(f"PC{i + 1} {share:.1%}" for i, share in enumerate(result.explained[:3]))
    return f"Variance explained: {shares}"


def fitted(result: Projected) -> str:
    """Say on which positions the axes were fitted, and which were only projected."""
    last = len(result.scores) - result.past - 1
    projected = f"; {last + 1:,}-{len(result.scores) - 1:,} projected" if result.past else ""
    missing = f"; {result.missing} positions are not finite and left out" if result.missing else ""
    return f"fitted on positions 0-{last:,}{projected}{missing}"


def variance(results: Mapping[str, Projected]) -> pd.DataFrame:
    """Return the share of variance that each component explains, and the first ones together."""
    count = max(COMPONENTS, *(result.enough for result in results.values()))
    shares = {kind: np.zeros(count) for kind in results}
    for kind, result in results.items():
        own = result.explained[:count]
        shares[kind][: len(own)] = own
    parts = [
        {
            "scheme": SCHEMES[kind].label,
            "component": np.arange(1, count + 1),
            "own": own,
            "share": np.cumsum(own),
        }
        for kind, own in shares.items()
    ]
    return frames.stacked(parts, ["scheme", "component", "own", "share"])


@memoize_on
def variance_lines(read: Read) -> pd.DataFrame:
    """Return the cumulative variance as it is drawn."""
    return frames.drawn(read.variance.rename(columns={"component": "x", "share": "y"}))


@memoize_on
def scores(read: Read) -> pd.DataFrame:
    """Return the scores of every position as a table."""
    parts = [
        {"kind": kind, "position": (position := np.arange(len(result.scores)))}
        | {axis: result.scores[:, which] for which, axis in enumerate(AXES)}
        | {"seen": np.where(position < read.setting.train_length, "inside", "past")}
        for kind, result in read.results.items()
    ]
    return frames.stacked(parts, ["kind", "position", *AXES, "seen"])


def script(setting: Setting, chosen: PcaChoice) -> str:
    """Return a script that prints the numbers called "scores"."""
    seen = "min(setting.train_length, setting.length)"
    fitted = "setting.length" if chosen.fit == "all" else seen
    return whole(IMPORTS, setting, BODY.format(fitted=fitted))
