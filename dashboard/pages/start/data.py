"""What Start shows of a setting: similarity by distance, and what the shipped models measured."""

from dataclasses import dataclass

import pandas as pd

from dashboard.charts import frames
from dashboard.compute import schemes
from dashboard.compute.result_cache import cache_result
from dashboard.compute.scheme_facts import place
from dashboard.compute.schemes import Similarity
from dashboard.settings import Setting


@dataclass(frozen=True)
class Start:
    """The similarity of a setting's schemes, its curves, and why a scheme has none.

    places: where in an attention block each scheme acts, of those that can be built.
    """

    results: dict[str, Similarity]
    reasons: dict[str, str]
    curves: pd.DataFrame
    places: dict[str, str]


@cache_result
def read(setting: Setting) -> Start:
    """Return what the page shows of a setting."""
    requests = {kind: schemes.request(setting, kind) for kind in setting.schemes}
    results, reasons = schemes.per_scheme(schemes.cosine, requests)
    places, _ = schemes.per_scheme(lambda request: place(request.build("cpu")), requests)
    return Start(results, reasons, frames.by_offset(results), places)
