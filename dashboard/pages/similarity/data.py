"""What the Similarity page shows of a setting, and the script that prints similarity by distance."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dashboard import results
from dashboard.cache import cached
from dashboard.charts import frames
from dashboard.pages.similarity.options import SimilarityChoice
from dashboard.results import Array, Similarity
from dashboard.settings import Setting
from dashboard.text import listed, number
from posenc.schemes import SCHEMES

IMPORTS = """
import posenc
from posenc.analysis import scheme_similarity
"""
SCRIPT = """
print("scheme,distance,mean,low,high,spread")
for request in requests.values():
    found = scheme_similarity(request)
    rows = zip(found.distances, found.mean, found.low, found.high, found.deviation)
    for row in rows:
        print(request.config.label, *(value.item() for value in row), sep=",")
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


@cached
def read(setting: Setting, chosen: SimilarityChoice) -> Read:
    """Return what the page shows of a setting."""
    requests = {kind: results.request(setting, kind) for kind in setting.schemes}
    similarities, reasons = results.per_scheme(results.cosine, requests)
    reference, key = (
        min(position, setting.length - 1) for position in (chosen.reference, chosen.key_position)
    )
    boundary = frames.boundary(setting)
    rows = {kind: results.reference_row(requests[kind], reference) for kind in similarities}
    return Read(
        setting=setting,
        results=similarities,
        reasons=reasons,
        headline=headline(similarities),
        by_offset=frames.by_offset(similarities, boundary),
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
    distances, sentences = [], []
    for kind, result in results.items():
        label, below = SCHEMES[kind].label, first_below_half(result)
        start = f", {result.kernel.start}" if result.kernel.untrained else ""
        if not np.isfinite(result.mean).any():
            sentences.append(f"{label} has no similarity at all.")
        elif below is None:
            sentences.append(f"{label} does not drop below 0.5 within the positions shown{start}.")
        else:
            distances.append(f"{below:,} ({label}{start})")
    if distances:
        first = f"Position similarity first drops below 0.5 at distance {', '.join(distances)}."
        sentences.insert(0, first)
    return " ".join(sentences)


def cell(rows: Mapping[str, tuple[Array, Array] | None], query: int, key: int) -> str:
    """Say how similar one query and one key are, and which scheme has no row at the key."""
    values, absent = [], []
    for kind, row in rows.items():
        label = SCHEMES[kind].label
        if row is not None and key < len(row[1]):
            values.append(f"{number(float(row[1][key]))} ({label})")
        elif row is not None:
            absent.append(label)
    if absent:
        values.append(f"no row {key:,} ({listed(absent)})")
    similarities = ", ".join(values) or "no scheme has a value"
    return f"Query {query:,}, key {key:,}, distance {abs(query - key):,}: {similarities}."
