"""What the Relative offsets page says of a setting, and the same as Python."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dashboard.charts import frames
from dashboard.compute import schemes
from dashboard.compute.result_cache import cache_result, memoize_on
from dashboard.frame.script import script as whole
from dashboard.pages.relative_offsets.options import OffsetChoice
from dashboard.text import listed
from posenc.analysis import DenseFit, OffsetClaims, OffsetMap
from posenc.schemes import SCHEMES
from posenc.settings import Query, Setting

OFFSET_ONLY = 1e-6  # spread along diagonals that rounding alone leaves
LEAST_ERROR = 1e-17  # where an exact 0 is drawn on a logarithmic axis
MAP_COLUMNS = {
    "closed": "closed form",
    "closed_control": "closed form, random table",
    "fitted": "fitted matrix",
    "fitted_control": "fitted matrix, random table",
    "pairs": "fit per pair",
    "pairs_control": "fit per pair, random table",
    "composed": "M_a M_b against M_(a+b)",
}

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
    """The three claims of every scheme."""

    queries: dict[str, Query]
    claims: dict[str, OffsetClaims]
    reasons: dict[str, str]
    maps: dict[str, OffsetMap]

    @property
    def headline(self) -> str:
        return _headline(self.maps, self.claims)


@cache_result
def read(setting: Setting, chosen: OffsetChoice) -> Read:
    """Return what the page shows of a setting."""
    queries = {kind: schemes.query(setting, kind) for kind in setting.schemes}
    claims, reasons = schemes.per_scheme(schemes.offset_claims, queries)
    queries = {kind: queries[kind] for kind in claims}
    maps = {
        kind: schemes.offset_map(query, chosen.offset, chosen.second)
        for kind, query in queries.items()
    }
    return Read(queries, claims, reasons, maps)


@memoize_on
def map_table(read: Read) -> pd.DataFrame:
    """Return the first claim at one offset, a row per scheme: each number beside its control."""
    rows = [
        {"scheme": SCHEMES[kind].label}
        | {name: getattr(result, field) for field, name in MAP_COLUMNS.items()}
        | {"verdict": result.verdict}
        for kind, result in read.maps.items()
    ]
    numbers = dict.fromkeys(MAP_COLUMNS.values(), float)
    return pd.DataFrame(rows, columns=["scheme", *numbers, "verdict"]).astype(numbers)


@memoize_on
def claim_table(read: Read) -> pd.DataFrame:
    """Return the second and the third claim, a row per scheme."""
    rows = [
        (SCHEMES[kind].label, only.error, only.control, line.r_squared, line.slope, line.control,
         only.reason or line.reason or "")
        for kind, result in read.claims.items()
        for only, line in [(result.only, result.straight)]
    ]  # fmt: skip
    names = ("spread along diagonals / overall", "random table", "R squared", "slope per position")
    numbers = dict.fromkeys((*names, "R squared of noise"), float)
    return pd.DataFrame(rows, columns=["scheme", *numbers, "note"]).astype(numbers)


@memoize_on
def by_offset(read: Read) -> pd.DataFrame:
    """Return the error that each verdict rests on, by offset, and its random control."""
    errors_by_kind = {kind: schemes.map_errors(query) for kind, query in read.queries.items()}
    parts = [
        {
            "scheme": SCHEMES[kind].label,
            "x": errors.offset.numpy(),
            "y": np.maximum(errors.error.numpy(), LEAST_ERROR),
            "control": errors.control.numpy(),
        }
        for kind, errors in errors_by_kind.items()
    ]
    return frames.stacked(parts, ["scheme", "x", "y", "control"])


def dense_fits(fits: Mapping[str, DenseFit]) -> pd.DataFrame:
    """Return the fits that know nothing of the scheme; a scheme without one has no numbers."""
    columns = {
        "held out": "held_out_error",
        "later positions": "later_error",
        "random, held out": "control_held_out",
        "random, later": "control_later",
        "in sample": "in_sample_error",
        "pairs of positions fitted": "fitted",
    }
    rows = [
        {"scheme": SCHEMES[kind].label}
        | {name: getattr(dense.fit, field, None) for name, field in columns.items()}
        | {"rank": f"{dense.fit.rank} of {dense.fit.dimension}" if dense.fit else ""}
        for kind, dense in fits.items()
    ]
    numbers = dict.fromkeys(columns, "float64") | {"pairs of positions fitted": "Int64"}
    return pd.DataFrame(rows).astype(numbers)


def _headline(maps: Mapping[str, OffsetMap], claims: Mapping[str, OffsetClaims]) -> str:
    """Say which schemes meet which of the three claims."""
    linear = [kind for kind, result in maps.items() if result.verdict.startswith("exact")]
    alone = [kind for kind, result in claims.items() if is_small(result.only.error)]
    straight = [kind for kind, result in claims.items() if is_line(result)]

    def names(kinds: list[str]) -> str:
        return listed([SCHEMES[kind].label for kind in kinds]) if kinds else "no scheme here"

    return (
        f"A shift is exactly linear for {names(linear)}. The position kernel depends on the offset only "
        f"for {names(alone)}. The logit falls in a straight line with distance for {names(straight)}"
        f"{' only' if straight else ''}."
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
