"""Sentences that textbooks and posts repeat, each with a test that decides it at any setting.

A claim is one function from a setting to a verdict, decorated with `claim`:

    CLAIMS["slowest"].test(Setting(dim=512)).sentence
"""

from posenc.claims import distances, order, scale, tables, training
from posenc.claims.claim import THEMES, Claim, Number, Status, Verdict, claims, figure

CLAIMS = claims()  # which the modules above register

__all__ = [
    "CLAIMS",
    "THEMES",
    "Claim",
    "Number",
    "Status",
    "Verdict",
    "distances",
    "figure",
    "order",
    "scale",
    "tables",
    "training",
]
