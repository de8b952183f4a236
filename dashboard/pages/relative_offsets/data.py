"""What the Relative offsets page says of a setting."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from dashboard.charts import frames
from dashboard.compute import schemes
from dashboard.compute.result_cache import kept, once
from dashboard.frame import coinciding, sentences
from dashboard.pages.relative_offsets import frames as offset_frames
from dashboard.pages.relative_offsets.options import OffsetChoice
from posenc.analysis import OffsetClaims, OffsetMap
from posenc.settings import Query, Setting


@dataclass(frozen=True)
class Read:
    """The three claims of every scheme, as results and frames.

    lines: schemes with an error to draw. wide: schemes whose vectors are checked at fewer offsets.
    """

    setting: Setting
    queries: dict[str, Query]
    claims: dict[str, OffsetClaims]
    reasons: dict[str, str]
    maps: dict[str, OffsetMap]
    headline: str
    map_table: pd.DataFrame
    errors: dict[str, dict[str, np.ndarray]]
    by_offset: pd.DataFrame
    only: pd.DataFrame
    straight: pd.DataFrame


@kept
def read(setting: Setting, chosen: OffsetChoice) -> Read:
    """Return what the page shows of a setting."""
    queries = {kind: schemes.query(setting, kind) for kind in setting.schemes}
    claims, reasons = schemes.each(schemes.offset_claims, queries)
    queries = {kind: queries[kind] for kind in claims}
    nothing = pd.DataFrame()
    if not claims:
        return Read(
            setting, queries, claims, reasons, {}, "", nothing, {}, nothing, nothing, nothing
        )
    maps = {
        kind: schemes.offset_map(query, chosen.offset, chosen.second)
        for kind, query in queries.items()
    }
    errors = {kind: schemes.map_errors(query) for kind, query in queries.items()}
    return Read(
        setting=setting,
        queries=queries,
        claims=claims,
        reasons=reasons,
        maps=maps,
        headline=sentences.offsets(maps, claims),
        map_table=offset_frames.offset_maps(maps),
        errors=errors,
        by_offset=offset_frames.map_errors(errors),
        only=offset_frames.offset_only(claims),
        straight=offset_frames.straight_line(claims),
    )


@once
def errors(read: Read) -> coinciding.Lines:
    """Return the errors by offset as they are drawn."""
    return coinciding.lines(frames.dotted(read.by_offset), "offset", "error", log=True)
