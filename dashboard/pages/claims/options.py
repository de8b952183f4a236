"""What the Claims page asks."""

from dataclasses import dataclass

from posenc import fields
from posenc.claims import THEMES


@dataclass(frozen=True, kw_only=True)
class ClaimsChoice:
    """Which claims the page shows."""

    verdict: str = fields.Choice(
        options=("all", "holds", "partly", "false", "small", "undecided"),
        labels=("all", "true", "partly true", "false", "false in small models", "undecided"),
        label="Verdict",
    ).field("all")
    theme: str = fields.Choice(
        options=("all", *THEMES), label="Theme", help="What a claim is about."
    ).field("all")
