"""Numbers of the page Relative offsets, and the same as Python."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from dashboard.charts import frames
from dashboard.script import requests_in_python, whole_script
from dashboard.settings import Setting
from dashboard.text import listed
from posenc.analysis import DenseFit, MapErrors, OffsetClaims, OffsetMap
from posenc.schemes import SCHEMES

LINEAR, ALONE, STRAIGHT = "linear", "offset alone", "straight line"  # the three claims
OFFSET_ONLY = 1e-6  # spread along diagonals that rounding alone leaves
STRAIGHT_LINE = 1 - 1e-9  # R squared of a line that rounding alone bends
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


def map_table(maps: Mapping[str, OffsetMap]) -> pd.DataFrame:
    """Return the first claim at one offset, a row per scheme: each number beside its control."""
    rows = [
        {"scheme": SCHEMES[kind].label}
        | {name: getattr(result, field) for field, name in MAP_COLUMNS.items()}
        | {"verdict": result.verdict}
        for kind, result in maps.items()
    ]
    frame = pd.DataFrame(rows)
    return frame.astype(dict.fromkeys(frame.columns[1:-1], float))


def claim_table(claims: Mapping[str, OffsetClaims]) -> pd.DataFrame:
    """Return the second and the third claim, a row per scheme."""
    rows = [
        (SCHEMES[kind].label, only.error, only.control, line.r_squared, line.slope, line.control,
         only.reason or line.reason or "")
        for kind, result in claims.items()
        for only, line in [(result.only, result.straight)]
    ]  # fmt: skip
    names = ("spread along diagonals / overall", "random table", "R squared", "slope per position")
    numbers = dict.fromkeys((*names, "R squared of noise"), float)
    return pd.DataFrame(rows, columns=["scheme", *numbers, "note"]).astype(numbers)


def by_offset(errors: Mapping[str, MapErrors]) -> pd.DataFrame:
    """Return the error that each verdict rests on, by offset, and its random control."""
    parts = [
        {
            "scheme": SCHEMES[kind].label,
            "x": found.offset.numpy(),
            "y": np.maximum(found.error.numpy(), LEAST_ERROR),
            "control": found.control.numpy(),
        }
        for kind, found in errors.items()
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


class Verdict(NamedTuple):
    """Whether a claim holds for one scheme, the number that says so, and that of a random control.

    note: what else there is to say, "" for nothing.
    """

    holds: bool
    value: float | None
    control: float | None
    note: str


def verdicts(
    maps: Mapping[str, OffsetMap], claims: Mapping[str, OffsetClaims]
) -> dict[str, dict[str, Verdict]]:
    """Return the verdicts on the three claims, each by scheme."""
    linear, alone, straight = {}, {}, {}
    for kind, result in maps.items():
        numbers = result.closed, result.closed_control
        if result.closed is None:
            numbers = result.fitted, result.fitted_control
        linear[kind] = Verdict(result.exists is True, *numbers, result.verdict)
        only, line = claims[kind].only, claims[kind].straight
        holds = only.error is not None and only.error < OFFSET_ONLY
        alone[kind] = Verdict(holds, only.error, only.control, only.reason or "")
        holds = line.r_squared is not None and line.r_squared > STRAIGHT_LINE
        straight[kind] = Verdict(holds, line.r_squared, line.control, line.reason or "")
    return {LINEAR: linear, ALONE: alone, STRAIGHT: straight}


def headline(
    found: Mapping[str, Mapping[str, Verdict]], offset: int, without_vectors: Collection[str]
) -> str:
    """Say which schemes meet which of the three claims.

    offset: of the first claim, which is asked of schemes that have vectors. without_vectors: the others.
    """
    linear, alone, straight = (
        [
            SCHEMES[kind].label
            for kind, verdict in found[claim].items()
            if verdict.holds and not (claim == LINEAR and kind in without_vectors)
        ]
        for claim in (LINEAR, ALONE, STRAIGHT)
    )
    nothing = ["no scheme here"]
    return (
        f"Does one matrix move every position by {offset}? Yes for {listed(linear or nothing)}. "
        f"Does position similarity depend on the distance alone? Yes for {listed(alone or nothing)}. "
        "Does the attention logit fall in a straight line with distance? "
        f"Yes for {listed(straight or nothing)}."
    )


def script(setting: Setting, offset: int, second: int) -> str:
    """Return a script that prints the decisive number of every check."""
    body = BODY.format(offset=offset, second=second)
    return whole_script(IMPORTS, requests_in_python(setting), body)
