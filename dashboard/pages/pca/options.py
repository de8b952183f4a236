"""Options of the PCA page, beside the shared numbers."""

from dataclasses import dataclass

from dashboard.settings.labelled import LabelledChoice
from posenc import fields

FIRST, SECOND, VARIANCE = "PC1-PC2", "PC2-PC3", "explained variance"
PLANES = {FIRST: ("PC1", "PC2"), SECOND: ("PC2", "PC3")}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of the PCA page, beside the shared numbers."""

    plot: str = fields.Choice(
        options=(FIRST, SECOND, VARIANCE),
        label="Plot",
        help="Two principal components of every position, or the variance each component explains.",
    ).field(FIRST)
    fit: str = LabelledChoice(
        options=("seen", "all"),
        labels={"seen": "training positions", "all": "all positions"},
        label="Fit PCA on",
        help="Positions past the training length are projected on components of the training positions.",
    ).field("seen")
    same_scale: bool = fields.Flag(
        label="Same scale for all",
        help="One scale for all schemes, to compare sizes. Otherwise each scheme fills its plot.",
    ).field(False)
