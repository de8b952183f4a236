"""What formulas give past the training length, as tidy frames."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from dashboard.charts.frames import lines
from posenc.analysis import SchemeCoverage, SchemeKernelPast
from posenc.schemes import SCHEMES


def past_curves(found: Mapping[str, SchemeKernelPast], train_length: int) -> pd.DataFrame:
    """Cosine similarity past the training length; a scheme without values there has no rows."""
    curves = {
        kind: (one.distances.numpy(), one.cosine.numpy()) if len(one.distances) else None
        for kind, one in found.items()
    }
    return lines(curves, train_length)


def nearest(found: Mapping[str, SchemeKernelPast]) -> pd.DataFrame:
    """Distance of unseen positions to the nearest seen one."""
    curves = {
        kind: (one.positions.numpy(), one.relative.numpy()) if len(one.relative) else None
        for kind, one in found.items()
    }
    return lines(curves, None)


def turns(ladders: Mapping[str, SchemeCoverage | None]) -> pd.DataFrame:
    """Turns of every pair within the training length."""
    parts = [
        pd.DataFrame(
            {
                "scheme": SCHEMES[kind].label,
                "pair": np.arange(len(one.turns)),
                "turns": one.turns.numpy(),
            }
        )
        for kind, one in ladders.items()
        if one
    ]
    empty = pd.DataFrame({"scheme": [], "pair": [], "turns": []})
    return pd.concat(parts, ignore_index=True) if parts else empty


def ladders(found: Mapping[str, SchemeCoverage | None]) -> pd.DataFrame:
    """What the frequencies do within the training length, one row per scheme that has any."""
    return pd.DataFrame(
        [
            {
                "scheme": SCHEMES[kind].label,
                "pairs with a full turn": f"{one.full_turn_pairs} of {len(one.turns)}",
                "critical dimension": f"{one.critical_dimension} of {one.rotary_dim}",
                "B(k) first negative at": f"{one.first_negative:,}"
                if one.first_negative is not None
                else f"not below {one.scanned:,}",
            }
            for kind, one in found.items()
            if one
        ]
    )
