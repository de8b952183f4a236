"""What Start shows of a setting: similarity by distance, and what the shipped models measured."""

from dataclasses import dataclass

import pandas as pd

from dashboard import results
from dashboard.cache import cached
from dashboard.charts import frames
from dashboard.results import Similarity
from dashboard.scheme_facts import place
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


@cached
def read(setting: Setting) -> Start:
    """Return what the page shows of a setting."""
    requests = {kind: results.request(setting, kind) for kind in setting.schemes}
    similarities, reasons = results.per_scheme(results.cosine, requests)
    places, _ = results.per_scheme(lambda request: place(request.build("cpu")), requests)
    return Start(similarities, reasons, frames.by_offset(similarities), places)
