"""Decoding of positions from vectors, as Check my encoding shows it."""

from dataclasses import dataclass, field

import pandas as pd
import torch

from dashboard.cache import cached
from dashboard.limits import probed_rows
from dashboard.pages.check_my_encoding.examples import (
    EXAMPLES,
    NO_TABLE,
    chosen_table,
    without_model,
)
from dashboard.results import one_thread_for_numpy
from dashboard.settings import Setting
from dashboard.text import number
from dashboard.visitor_files import cached_numbers
from posenc.analysis import Probes, probe_each
from posenc.errors import PosencError
from posenc.identification.columns import TableInput
from posenc.tables import sinusoidal_table
from posenc.text import significant

ACCURACY = "order accuracy"  # a share of 1
# What stands open of probes, in the width of a page; the rest is in the data.
SHOWN_OF_PROBES = (
    "table", "index error (MAE)", "MAE of guessing", ACCURACY, "spread at equal distance",
    "first rise at distance",
)  # fmt: skip


@dataclass(frozen=True)
class Decoding:
    """Accuracy of decoding, a row per table that is compared, or a reason for no answer."""

    headline: str
    reason: str = ""
    numbers: pd.DataFrame = field(default_factory=pd.DataFrame)


def decoding(setting: Setting, name: str) -> Decoding:
    """Return how well positions are decoded from the table of a name."""
    try:
        if name not in EXAMPLES:
            cached_numbers.get(name)  # raises once the upload is gone, though its answer is cached
        return _decoded(name, without_model(setting))
    except PosencError as error:
        return Decoding(NO_TABLE, str(error))


@cached
def _decoded(name: str, setting: Setting) -> Decoding:
    """Probe the first rows of a table beside a sinusoidal one and random numbers of its shape."""
    vectors = TableInput.of(*chosen_table(name, setting)).columns
    all_rows, width = vectors.shape
    vectors = vectors[: probed_rows(width)]
    same = sinusoidal_table(len(vectors), width + width % 2, dtype=torch.float64)[:, :width]
    one_thread_for_numpy()
    probes, sinusoidal = probe_each([vectors, same], seed=setting.seed)
    source = name[0].upper() + name[1:] if name in EXAMPLES else cached_numbers.get(name).source
    index, shape = probes.index_error, f"{probes.positions:,} x {width:,}"
    first = (
        f" (first {probes.positions:,} of {all_rows:,} rows)" if probes.positions < all_rows else ""
    )
    sentence = (
        f"{source}{first}: a linear map reads the position of each vector with a mean error of "
        f"{significant(index.value, 2)} positions; guessing is wrong by {number(probes.guessing)}, a map "
        f"for random numbers by {number(index.control)}."
    )
    numbers = [
        _row(f"table: {source}", probes, "value"),
        _row(f"sinusoidal, {shape}", sinusoidal, "value"),
        _row(f"random numbers, {shape}", probes, "control"),
    ]
    return Decoding(sentence, numbers=pd.DataFrame(numbers))


def shown(numbers: pd.DataFrame) -> pd.DataFrame:
    """Return what stands open of these numbers, with the accuracy in percent."""
    percent = numbers.assign(**{ACCURACY: 100 * numbers[ACCURACY]})
    return percent[[*SHOWN_OF_PROBES]].rename(columns={ACCURACY: f"{ACCURACY} (%)"})


def _row(name: str, probes: Probes, which: str) -> dict[str, object]:
    """Return the numbers of a table, or of the control of its shape."""
    measured = probes.properties if which == "value" else probes.control_properties
    return {
        "table": name,
        "positions": probes.positions,
        "index error (MAE)": getattr(probes.index_error, which),
        "MAE of guessing": probes.guessing,
        ACCURACY: getattr(probes.order_accuracy, which),
        "spread at equal distance": measured.translation_invariance_error,
        "first rise at distance": measured.first_rise,
        "rank agreement with distance (Kendall tau)": measured.kendall_tau,
    }
