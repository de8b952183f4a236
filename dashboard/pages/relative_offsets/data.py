"""What the Relative offsets page says of a setting, and the same as Python."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from dashboard import results
from dashboard.cache import cached, memoize_on
from dashboard.charts import frames
from dashboard.pages.relative_offsets.options import OffsetChoice
from dashboard.script import requests_in_python, whole_script
from dashboard.settings import Setting
from dashboard.text import listed
from posenc import Request
from posenc.analysis import DenseFit, OffsetClaims, OffsetMap
from posenc.schemes import SCHEMES

OFFSET_ONLY = 1e-6  # spread along diagonals that rounding alone leaves
STRAIGHT = 1 - 1e-9  # R squared of a line that rounding alone bends
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
"""
BODY = """
offset, second = {offset}, {second}
print("scheme,closed,fitted,pairs,composed,spread along diagonals / overall,R squared")
for request in requests.values():
    found = scheme_offset_map(request, offset, second)
    claims = scheme_offset_claims(request)
    numbers = [found.closed, found.fitted, found.pairs, found.composed]
    numbers += [claims.only.error, claims.straight.r_squared]
    print(request.config.label, *("" if n is None else n for n in numbers), sep=",")
"""


@dataclass(frozen=True)
class Read:
    """The three claims of every scheme."""

    requests: dict[str, Request]
    claims: dict[str, OffsetClaims]
    reasons: dict[str, str]
    maps: dict[str, OffsetMap]


@cached
def read(setting: Setting, chosen: OffsetChoice) -> Read:
    """Return what the page shows of a setting."""
    requests = {kind: results.request(setting, kind) for kind in setting.schemes}
    claims, reasons = results.per_scheme(results.offset_claims, requests)
    requests = {kind: requests[kind] for kind in claims}
    maps = {
        kind: results.offset_map(request, chosen.offset, chosen.second)
        for kind, request in requests.items()
    }
    return Read(requests, claims, reasons, maps)


@memoize_on
def map_table(read: Read) -> pd.DataFrame:
    """Return the first claim at one offset, a row per scheme: each number beside its control."""
    rows = [
        {"scheme": SCHEMES[kind].label}
        | {name: getattr(result, field) for field, name in MAP_COLUMNS.items()}
        | {"verdict": result.verdict}
        for kind, result in read.maps.items()
    ]
    frame = pd.DataFrame(rows)
    return frame.astype(dict.fromkeys(frame.columns[1:-1], float))


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
    parts = []
    for kind, request in read.requests.items():
        errors = results.map_errors(request)
        parts.append(
            {
                "scheme": SCHEMES[kind].label,
                "x": errors.offset.numpy(),
                "y": np.maximum(errors.error.numpy(), LEAST_ERROR),
                "control": errors.control.numpy(),
            }
        )
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


class Verdict(NamedTuple):
    """Whether a claim holds for one scheme, the number that says so, and that of a random control."""

    holds: bool
    value: float | None
    control: float | None
    note: str


def verdicts(read: Read) -> tuple[dict[str, Verdict], dict[str, Verdict], dict[str, Verdict]]:
    """Return the verdicts on the three claims, each by scheme."""
    linear, alone, straight = {}, {}, {}
    for kind, result in read.maps.items():
        numbers = result.closed, result.closed_control
        if result.closed is None:
            numbers = result.fitted, result.fitted_control
        linear[kind] = Verdict(result.verdict.startswith("exact"), *numbers, result.verdict)
        only, line = read.claims[kind].only, read.claims[kind].straight
        holds = only.error is not None and only.error < OFFSET_ONLY
        alone[kind] = Verdict(holds, only.error, only.control, only.reason or "")
        holds = line.r_squared is not None and line.r_squared > STRAIGHT
        straight[kind] = Verdict(holds, line.r_squared, line.control, line.reason or "")
    return linear, alone, straight


def headline(read: Read) -> str:
    """Say which schemes meet which of the three claims."""
    linear, alone, straight = (
        [SCHEMES[kind].label for kind, verdict in by_scheme.items() if verdict.holds]
        for by_scheme in verdicts(read)
    )
    nothing = ["no scheme here"]
    return (
        f"A shift is exactly linear for {listed(linear or nothing)}. The position kernel depends on the "
        f"offset only for {listed(alone or nothing)}. The logit falls in a straight line with distance for "
        f"{listed(straight or nothing)}{' only' if straight else ''}."
    )


def script(setting: Setting, chosen: OffsetChoice) -> str:
    """Return a script that prints the decisive number of every check."""
    return whole_script(
        IMPORTS,
        requests_in_python(setting),
        BODY.format(offset=chosen.offset, second=chosen.second),
    )
