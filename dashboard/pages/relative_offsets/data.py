"""What the Relative offsets page says of a setting, and the same as Python."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from dashboard.charts import frames
from dashboard.compute import schemes
from dashboard.compute.result_cache import cache_result, memoize_on
from dashboard.frame.script import script as whole
from dashboard.pages.relative_offsets import frames as offset_frames
from dashboard.pages.relative_offsets.options import OffsetChoice
from dashboard.text import listed
from posenc.analysis import OffsetClaims, OffsetMap
from posenc.schemes import SCHEMES
from posenc.settings import Query, Setting

OFFSET_ONLY = 1e-6  # spread along diagonals that rounding alone leaves

IMPORTS = """
import posenc
from posenc.analysis import scheme_offset_claims, scheme_offset_map
from posenc.settings import Query, Setting
"""
BODY = """
offset, second = {offset}, {second}
print("scheme,closed,fitted,pairs,composed,spread along diagonals / overall,R squared")
for kind in setting.schemes:
    query = Query.of(setting, kind)
    found = scheme_offset_map(query, offset, second)
    claims = scheme_offset_claims(query)
    numbers = [found.closed, found.fitted, found.pairs, found.composed]
    numbers += [claims.only.error, claims.straight.r_squared]
    print(posenc.SCHEMES[kind].label, *("" if n is None else n for n in numbers), sep=",")
"""


@dataclass(frozen=True)
class Read:
    """The three claims of every scheme, as results and frames."""

    setting: Setting
    queries: dict[str, Query]
    claims: dict[str, OffsetClaims]
    reasons: dict[str, str]
    maps: dict[str, OffsetMap]
    headline: str
    map_table: pd.DataFrame
    only: pd.DataFrame
    straight: pd.DataFrame


@cache_result
def read(setting: Setting, chosen: OffsetChoice) -> Read:
    """Return what the page shows of a setting."""
    queries = {kind: schemes.query(setting, kind) for kind in setting.schemes}
    claims, reasons = schemes.each(schemes.offset_claims, queries)
    queries = {kind: queries[kind] for kind in claims}
    nothing = pd.DataFrame()
    if not claims:
        return Read(setting, queries, claims, reasons, {}, "", nothing, nothing, nothing)
    maps = {
        kind: schemes.offset_map(query, chosen.offset, chosen.second)
        for kind, query in queries.items()
    }
    return Read(
        setting=setting,
        queries=queries,
        claims=claims,
        reasons=reasons,
        maps=maps,
        headline=_headline(maps, claims),
        map_table=offset_frames.offset_maps(maps),
        only=offset_frames.offset_only(claims),
        straight=offset_frames.straight_line(claims),
    )


@memoize_on
def by_offset(read: Read) -> pd.DataFrame:
    """Return the residuals of every scheme over the offsets."""
    return offset_frames.map_errors(
        {kind: schemes.map_errors(query) for kind, query in read.queries.items()}
    )


@memoize_on
def errors(read: Read) -> pd.DataFrame:
    """Return the residuals by offset as they are drawn."""
    return frames.drawn(by_offset(read).rename(columns={"offset": "x", "error": "y"}))


def _headline(maps: Mapping[str, OffsetMap], claims: Mapping[str, OffsetClaims]) -> str:
    """Say which schemes meet which of the three claims."""
    linear = [kind for kind, one in maps.items() if one.verdict.startswith("exact")]
    alone = [kind for kind, one in claims.items() if is_small(one.only.error)]
    straight = [kind for kind, one in claims.items() if is_line(one)]

    def names(kinds: list[str]) -> str:
        return listed([SCHEMES[kind].label for kind in kinds]) if kinds else "no scheme here"

    return (
        f"A shift is exactly linear for {names(linear)}. Depends on the offset only: {names(alone)}. "
        f"A straight line in the offset: {names(straight)}{' only' if straight else ''}."
    )


def is_small(error: float | None) -> bool:
    """Whether a spread along the diagonals is rounding alone."""
    return error is not None and error < OFFSET_ONLY


def is_line(claims: OffsetClaims) -> bool:
    """Whether what position adds to a logit is a straight line in the distance."""
    return claims.straight.r_squared is not None and claims.straight.r_squared > 1 - 1e-9


def script(setting: Setting, chosen: OffsetChoice) -> str:
    """Return a script that prints the decisive number of every check."""
    return whole(IMPORTS, setting, BODY.format(offset=chosen.offset, second=chosen.second))
