"""The three checks of relative offsets as tidy frames, each number beside its control."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from posenc.analysis import DenseFit, MapErrors, OffsetClaims, OffsetMap
from posenc.schemes import SCHEMES

MAP_COLUMNS = {
    "closed": "closed form",
    "closed_control": "closed form, random table",
    "fitted": "fitted matrix",
    "fitted_control": "fitted matrix, random table",
    "pairs": "fit per pair",
    "pairs_control": "fit per pair, random table",
    "composed": "M_a M_b against M_(a+b)",
}


_LEAST_ERROR = 1e-17  # where an exact 0 is drawn on a logarithmic axis


def offset_maps(found: Mapping[str, OffsetMap]) -> pd.DataFrame:
    """Check 1 at one offset, one row per scheme: each number beside its control."""
    rows = [
        {"scheme": SCHEMES[kind].label}
        | {name: getattr(one, field) for field, name in MAP_COLUMNS.items()}
        | {"verdict": one.verdict}
        for kind, one in found.items()
    ]
    return pd.DataFrame(rows).astype(dict.fromkeys(MAP_COLUMNS.values(), float))


def map_errors(found: Mapping[str, MapErrors]) -> pd.DataFrame:
    """Check 1 over offsets: the error that each verdict rests on, and its random control."""
    parts = [
        pd.DataFrame(
            {
                "scheme": SCHEMES[kind].label,
                "offset": errors.offset.numpy(),
                "error": np.maximum(errors.error.numpy(), _LEAST_ERROR),
                "control": errors.control.numpy(),
            }
        )
        for kind, errors in found.items()
    ]
    return pd.concat(parts, ignore_index=True)


def dense_fits(found: Mapping[str, DenseFit]) -> pd.DataFrame:
    """The fits that know nothing of the scheme, or why there is none."""
    rows = []
    for kind, dense in found.items():
        fit = dense.fit
        rows.append(
            {
                "scheme": SCHEMES[kind].label,
                "held out": fit.held_out_error if fit else None,
                "later positions": fit.later_error if fit else None,
                "random, held out": fit.control_held_out if fit else None,
                "random, later": fit.control_later if fit else None,
                "in sample": fit.in_sample_error if fit else None,
                "rank": f"{fit.rank} of {fit.dimension}" if fit else "",
                "pairs of positions fitted": fit.fitted if fit else None,
            }
        )
    numbers = ("held out", "later positions", "random, held out", "random, later", "in sample")
    kinds = dict.fromkeys(numbers, "float64") | {"pairs of positions fitted": "Int64"}
    return pd.DataFrame(rows).astype(kinds)


def offset_only(claims: Mapping[str, OffsetClaims]) -> pd.DataFrame:
    """Check 2, one row per scheme."""
    return pd.DataFrame(
        [
            {
                "scheme": SCHEMES[kind].label,
                "spread along diagonals / overall": found.only.error,
                "random table": found.only.control,
                "note": found.only.reason or "",
            }
            for kind, found in claims.items()
        ]
    ).astype({"spread along diagonals / overall": float, "random table": float})


def straight_line(claims: Mapping[str, OffsetClaims]) -> pd.DataFrame:
    """Check 3, one row per scheme."""
    return pd.DataFrame(
        [
            {
                "scheme": SCHEMES[kind].label,
                "R squared": found.straight.r_squared,
                "slope per position": found.straight.slope,
                "R squared of noise": found.straight.control,
                "note": found.straight.reason or "",
            }
            for kind, found in claims.items()
        ]
    ).astype({"R squared": float})
