"""What the Claims page asks."""

from dataclasses import dataclass

from posenc import fields
from posenc.claims import THEMES


@dataclass(frozen=True, kw_only=True)
class ClaimsChoice:
    """Which claims the page shows."""

    verdict: str = fields.Choice(
        options=("all", "holds", "partly", "false", "open"),
        label="Verdict",
        help="Open: false in small models only, not measured here, or undecided.",
    ).field("all")
    theme: str = fields.Choice(
        options=("all", *THEMES), label="Theme", help="What a claim is about."
    ).field("all")
