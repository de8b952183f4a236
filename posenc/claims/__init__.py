"""Sentences that textbooks and posts repeat, each with a test that decides it at any sizes.

A claim is one function from sizes to a verdict, decorated with `claim`:

    CLAIMS["slowest"].test(Sizes(dim=512)).sentence
"""

from posenc.claims import distances, order, scale, tables, training
from posenc.claims.claim import THEMES, Claim, Number, Status, Verdict, claims, figure
from posenc.claims.proofs import Proof

CLAIMS = claims()  # which the modules above register

__all__ = [
    "CLAIMS",
    "THEMES",
    "Claim",
    "Number",
    "Proof",
    "Status",
    "Verdict",
    "distances",
    "figure",
    "order",
    "scale",
    "tables",
    "training",
]
