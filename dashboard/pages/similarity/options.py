"""What the Similarity page asks beside the shared numbers."""

from dataclasses import dataclass

from dashboard.settings.setting import MAX_SHOWN_LENGTH
from posenc import fields


@dataclass(frozen=True, kw_only=True)
class SimilarityChoice:
    """What the Similarity page asks beside the shared numbers: the pinned cell, and the colours."""

    reference: int = fields.IntRange(
        low=0,
        high=MAX_SHOWN_LENGTH - 1,
        label="Query",
        help="The position whose similarity to every key is drawn. A click on a matrix pins query and key.",
    ).field(0)
    key_position: int = fields.IntRange(
        low=0,
        high=MAX_SHOWN_LENGTH - 1,
        label="Key",
        help="The position whose similarity to the query is stated below.",
    ).field(0)
    from_zero: bool = fields.Flag(
        label="Colours from 0 to 1",
        help="Negative similarity takes the colour of 0. Otherwise all matrices use -1 to 1.",
    ).field(False)
