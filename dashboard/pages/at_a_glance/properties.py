"""The nine measured properties of a scheme's positions: as tables, and in one sentence."""

from collections.abc import Mapping

import pandas as pd

from dashboard.results import Similarity
from dashboard.text import number
from posenc.analysis import Properties
from posenc.analysis.kernel_claims import TOO_FEW_POSITIONS
from posenc.schemes import SCHEMES

OFFSET_ONLY = 1e-6  # spread along diagonals that rounding alone leaves
WITH_CONTENT = "with content the absolute position enters"  # by its product with token vectors
LABELS = {
    "smallest_distance": "minimum distance between positions",
    "neighbour_mean": "mean distance of neighbours",
    "norm_low": "smallest norm",
    "norm_high": "largest norm",
    "value_low": "smallest value",
    "value_high": "largest value",
    "translation_invariance_error": "spread at equal distance",
    "first_rise": "similarity first rises at distance",
    "kendall_tau": "rank agreement with distance (Kendall tau)",
}


def table(measured: Mapping[str, Properties]) -> pd.DataFrame:
    """Return the properties of all schemes as text, a row per scheme."""
    return pd.DataFrame(
        [
            {"scheme": SCHEMES[kind].label}
            | {
                text: _text(getattr(result, name), "never" if name == "first_rise" else "none")
                for name, text in LABELS.items()
            }
            for kind, result in measured.items()
        ]
    )


def _text(value: float | None, missing: str) -> str:
    return missing if value is None else number(value)


def numbers(measured: Mapping[str, Properties]) -> pd.DataFrame:
    """Return the properties of all schemes, one row per scheme, in full precision."""
    return pd.DataFrame(
        [
            {"scheme": SCHEMES[kind].label, "positions": result.positions}
            | {name: getattr(result, name) for name in LABELS}
            for kind, result in measured.items()
        ]
    )


def sentence(measured: Properties, similarity: Similarity, *, added: bool) -> str:
    """One sentence on one scheme: are its positions told apart, and does distance alone count?

    added: whether it is added to token vectors, so that content meets absolute positions.
    """
    if measured.closest_pair is None or measured.smallest_distance is None:
        return "One position: nothing to compare."
    if measured.smallest_distance == 0:
        i, j = measured.closest_pair
        uniqueness = f"Positions {i:,} and {j:,} cannot be told apart"
    else:
        uniqueness = (
            f"All {measured.positions:,} positions differ: the two closest vectors are "
            f"{number(measured.smallest_distance)} apart (largest norm: {number(measured.norm_high)})"
        )
    error = measured.translation_invariance_error
    if error is None and measured.translation_reason == TOO_FEW_POSITIONS:
        shift = "too few to say whether only the distance counts"
    elif error is None:
        shift = "all pairs of positions count alike"
    elif error < OFFSET_ONLY:
        shift = "only the distance counts"
        if added:
            shift = f"between rows of the table {shift}; {WITH_CONTENT}"
    else:
        shift = f"absolute position matters too (spread at equal distance {number(error, 2)})"
    untrained = ""
    if similarity.kernel.untrained:
        start = similarity.kernel.start
        noise = "noise, not a learned table" if start == "untrained noise" else start
        untrained = f" Untrained: this is {noise}."
    return f"{uniqueness}; {shift}.{untrained}"
