"""What the Similarity page says of a setting."""

from dataclasses import dataclass

import pandas as pd

from dashboard.charts import frames
from dashboard.compute import schemes
from dashboard.compute.result_cache import kept, once
from dashboard.compute.schemes import Similarity
from dashboard.controls.page_options import SimilarityChoice
from dashboard.frame import coinciding, sentences
from posenc.settings import Setting


@dataclass(frozen=True)
class Read:
    """Similarity of every scheme by distance and from one position.

    reference: the query position used, the last one shown where the one asked for lies past it.
    missing: schemes that have no row there.
    """

    setting: Setting
    found: dict[str, Similarity]
    reasons: dict[str, str]
    headline: str
    by_offset: pd.DataFrame
    reference: int
    one_row: pd.DataFrame
    missing: tuple[str, ...]


@kept
def read(setting: Setting, chosen: SimilarityChoice) -> Read:
    """Return what the page shows of a setting."""
    queries = {kind: schemes.query(setting, kind) for kind in setting.schemes}
    found, reasons = schemes.each(schemes.cosine, queries)
    reference = min(chosen.reference, setting.length - 1)
    if not found:
        nothing = pd.DataFrame()
        return Read(setting, found, reasons, "", nothing, reference, nothing, ())
    boundary = frames.boundary(setting, setting.length - 1)
    rows = {kind: schemes.reference_row(queries[kind], reference) for kind in found}
    return Read(
        setting=setting,
        found=found,
        reasons=reasons,
        headline=sentences.similarity(found),
        by_offset=frames.by_offset(found, boundary),
        reference=reference,
        one_row=frames.lines(rows, boundary),
        missing=tuple(kind for kind, row in rows.items() if row is None),
    )


@once
def by_distance(read: Read) -> coinciding.Lines:
    """Return the curves by distance as they are drawn."""
    return coinciding.lines(frames.drawn(read.by_offset))
