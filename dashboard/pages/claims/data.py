"""Numbers and words of the Claims page: verdicts at a setting, counted, in order and as one table."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import pandas as pd

from dashboard.cache import cached
from dashboard.results import Array
from dashboard.settings import Setting
from dashboard.text import listed
from posenc import PosencError, fields
from posenc.claims import CLAIMS, Claim, Number, Status, Verdict
from posenc.claims.distances import two_ahead_control, two_ahead_weights
from posenc.schemes.sizes import Sizes, own_rules


class Outcome(NamedTuple):
    """The words of the page for an outcome: its option of the filter, its word and its icon."""

    option: str
    word: str
    icon: str


# In the order of the page.
OUTCOMES = {
    Status.FALSE: Outcome("false", "False", "close"),
    Status.NOT_HERE: Outcome("small", "False in small models", "model_training"),
    Status.PARTLY: Outcome("partly", "Partly true", "contrast"),
    Status.HOLDS: Outcome("holds", "True", "check"),
    Status.THEOREM: Outcome("proven", "Proven", "done_all"),
    Status.HOLDS_HERE: Outcome("true_small", "True in small models", "model_training"),
    Status.NOT_MEASURED: Outcome("not_measured", "Not measured", "hourglass_empty"),
    Status.UNDECIDED: Outcome("undecided", "Undecided", "remove"),
}
_ORDER = [*OUTCOMES]
# By fame and surprise, numerics last; a claim that is not named here stands before those.
FIRST = (
    "slowest", "sinusoids_extrapolate", "rope_extrapolates", "alibi_extrapolates", "dominating",
    "permutation", "falls", "near", "blind", "linear_map", "offset_only", "alike", "t5_shaw",
    "two_right", "sqrt_scale", "overwritten", "own_frequency", "nearly_linear", "hour_hand",
)  # fmt: skip
LAST = ("bounded", "unique", "one_hot", "overflow", "exp_of_log")
_RANKS = {name: rank for rank, name in enumerate((*FIRST, "any other claim", *LAST))}
DRAWN = "two_right"  # the claim that is drawn
DRAWN_POSITIONS = 16  # few, so that a step of two is seen

IMPORTS = """
import csv
import sys

import posenc
from posenc.claims import CLAIMS
"""
SCRIPT = """
rows = csv.writer(sys.stdout, lineterminator="\\n")
rows.writerow(["id", "state", "number", "control"])
for name, claim in CLAIMS.items():
    verdict = claim.test(claim.relevant(sizes))
    numbers = [one and one.value for one in (verdict.decides, verdict.control)]
    rows.writerow([name, verdict.status, *("" if x is None else repr(x) for x in numbers)])
"""


def in_order(verdicts: Mapping[str, Verdict]) -> list[str]:
    """Return the claims in the order of the page: by their verdicts, then by fame."""
    ranked = sorted(verdicts, key=lambda name: _RANKS.get(name, len(FIRST)))
    return sorted(ranked, key=lambda name: _ORDER.index(verdicts[name].status))


def judge(claim: Claim, setting: Setting) -> Verdict:
    """Return a claim's verdict; what the library refuses, such as a lost table, becomes its reason."""
    try:
        return _judged(claim.id, claim.relevant(setting.sizes))
    except PosencError as reason:
        return Verdict(Status.UNDECIDED, (), str(reason))


@cached
def _judged(name: str, sizes: Sizes) -> Verdict:
    return CLAIMS[name].test(sizes)


@cached
def weights(sizes: Sizes) -> tuple[Array, Array, int]:
    """Return the first weights of sinusoidal rows and of random rows, and how many positions attend."""
    few = slice(DRAWN_POSITIONS)
    found, control = two_ahead_weights(sizes), two_ahead_control(sizes)
    return found[few, few].numpy(), control[few, few].numpy(), len(found)


def frame(verdicts: Mapping[str, Verdict]) -> pd.DataFrame:
    """One row per claim: its verdict, the number that decides, and its control."""
    rows, no_number = [], Number("", None)
    for name, verdict in verdicts.items():
        decides, control = verdict.decides or no_number, verdict.control or no_number
        rows.append(
            {
                "id": name,
                "state": str(verdict.status),
                "number": decides.value,
                "what": decides.name,
                "unit": decides.unit,
                "control": control.value,
                "control of": control.name,
                "sentence": CLAIMS[name].sentence,
            }
        )
    return pd.DataFrame(rows).astype({"number": float, "control": float})


def headline(verdicts: Mapping[str, Verdict]) -> str:
    """Count the verdicts in a sentence."""
    counts = Counter(verdict.status for verdict in verdicts.values())
    parts = [
        f"{counts[status]} {outcome.word.lower()}"
        for status, outcome in OUTCOMES.items()
        if counts[status]
    ]
    return f"{len(verdicts)} common claims at these settings: {', '.join(parts)}."


def reads(claim: Claim) -> str:
    """Say which controls a claim's verdict depends on."""
    every = fields.rules(Setting) | own_rules()
    labels = [every[name].label for name in claim.uses]
    return listed([label if label.startswith("RoPE") else label.lower() for label in labels])
