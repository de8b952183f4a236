"""What the Similarity page says of a setting, and the same as Python."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dashboard.charts import frames
from dashboard.compute import schemes
from dashboard.compute.result_cache import cache_result
from dashboard.compute.schemes import Array, Similarity
from dashboard.frame.script import script as whole
from dashboard.pages.similarity.options import SimilarityChoice
from dashboard.text import listed
from posenc.schemes import SCHEMES
from posenc.settings import Setting

IMPORTS = """
import posenc
from posenc.analysis import scheme_similarity
from posenc.settings import Query, Setting
"""
CURVES = """
print("scheme,distance,mean,low,high,spread")
for kind in setting.schemes:
    found = scheme_similarity(Query.of(setting, kind))
    rows = zip(found.distances, found.mean, found.low, found.high, found.deviation)
    for row in rows:
        print(posenc.SCHEMES[kind].label, *(value.item() for value in row), sep=",")
"""


@dataclass(frozen=True)
class Read:
    """Similarity of every scheme by distance and from one position.

    reference, key: the query and key used, the last position shown where one asked for lies past it.
    cell: similarity of both, in words. missing: schemes that have no row at the query.
    """

    setting: Setting
    results: dict[str, Similarity]
    reasons: dict[str, str]
    headline: str
    by_offset: pd.DataFrame
    reference: int
    key: int
    cell: str
    one_row: pd.DataFrame
    missing: tuple[str, ...]


@cache_result
def read(setting: Setting, chosen: SimilarityChoice) -> Read:
    """Return what the page shows of a setting."""
    queries = {kind: schemes.query(setting, kind) for kind in setting.schemes}
    results, reasons = schemes.per_scheme(schemes.cosine, queries)
    reference, key = (
        min(position, setting.length - 1) for position in (chosen.reference, chosen.key_position)
    )
    if not results:
        nothing = pd.DataFrame()
        return Read(setting, results, reasons, "", nothing, reference, key, "", nothing, ())
    boundary = frames.boundary(setting)
    rows = {kind: schemes.reference_row(queries[kind], reference) for kind in results}
    return Read(
        setting=setting,
        results=results,
        reasons=reasons,
        headline=headline(results),
        by_offset=frames.by_offset(results, boundary),
        reference=reference,
        key=key,
        cell=cell(rows, reference, key),
        one_row=frames.lines(rows, boundary),
        missing=tuple(kind for kind, row in rows.items() if row is None),
    )


def first_below_half(similarity: Similarity) -> int | None:
    """Return the first distance at which mean similarity is under one half, None if it never is."""
    below = np.flatnonzero(similarity.mean < 0.5)
    return int(below[0]) if len(below) else None


def headline(results: Mapping[str, Similarity]) -> str:
    """Say how far apart two positions still look alike, per scheme."""
    parts, others = [], []
    for kind, result in results.items():
        label = SCHEMES[kind].label
        below = first_below_half(result)
        noise = f", {result.kernel.start}" if result.kernel.untrained else ""
        if not np.isfinite(result.mean).any():
            others.append(f"{label} has no similarity at all.")
        elif below is None:
            others.append(f"{label} does not drop below 0.5 within the positions shown{noise}.")
        else:
            parts.append(f"{below:,} ({label}{noise})")
    first = f"Position similarity first drops below 0.5 at distance {', '.join(parts)}."
    return " ".join([first, *others] if parts else others)


def cell(rows: Mapping[str, tuple[Array, Array] | None], query: int, key: int) -> str:
    """Say how similar one query and one key are, and which scheme has no row at the key."""
    values = [
        f"{row[1][key]:.3g} ({SCHEMES[kind].label})"
        for kind, row in rows.items()
        if row is not None and key < len(row[1])
    ]
    place = f"query {query:,}, key {key:,}, distance {abs(query - key):,}"
    absent = [
        SCHEMES[kind].label for kind, row in rows.items() if row is not None and key >= len(row[1])
    ]
    if absent:
        values.append(f"no row {key:,} ({listed(absent)})")
    return f"{place}: {', '.join(values)}" if values else f"{place}: no scheme has a value"


def script(setting: Setting) -> str:
    """Return a script that prints the numbers called "similarity by distance"."""
    return whole(IMPORTS, setting, CURVES)
