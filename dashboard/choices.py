"""The controls that belong to one page each, as ruled fields like those of a Setting."""

from dataclasses import dataclass

from posenc import fields, limits


@dataclass(frozen=True, kw_only=True)
class SimilarityChoice:
    """What the Similarity page asks beside the shared numbers."""

    reference: int = fields.ruled(
        0,
        fields.Whole(
            low=0,
            high=limits.MAX_SHOWN_LENGTH - 1,
            label="Reference position",
            help="The query whose similarity to every position is drawn as a line.",
        ),
    )


@dataclass(frozen=True, kw_only=True)
class PcaChoice:
    """What the PCA page asks beside the shared numbers."""

    fit: str = fields.ruled(
        "seen",
        fields.Choice(
            options=("seen", "all"),
            label="Axes fitted on",
            help="Positions inside the training length, or all positions shown.",
        ),
    )


@dataclass(frozen=True, kw_only=True)
class OffsetChoice:
    """What the Relative offsets page asks beside the shared numbers."""

    offset: int = fields.ruled(
        1,
        fields.Whole(
            low=1,
            high=64,
            label="Offset k",
            help="How far apart the two positions are: key minus query.",
        ),
    )
    second: int = fields.ruled(
        2,
        fields.Whole(
            low=1,
            high=64,
            label="Second offset",
            help="For the composition: two steps in a row against one long one.",
        ),
    )


@dataclass(frozen=True, kw_only=True)
class ExtrapolationChoice:
    """What the Extrapolation page asks beside the shared numbers; its two halves are never mixed."""

    half: str = fields.ruled(
        "formula",
        fields.Choice(
            options=("formula", "measured"),
            label="Extrapolation",
            help="What formulas give past the training length, or what trained models do there.",
        ),
    )
    trained: str = fields.ruled(
        "64",
        fields.Choice(
            options=("64", "128", "512"),
            label="Measured: trained on tokens",
            help="The training length of the models that are read; each run has its own.",
        ),
    )
    reach: str = fields.ruled(
        "4",
        fields.Choice(
            options=("2", "4", "8", "16"),
            label="Formula: read to, times the training length",
            help="How far past the training length the formulas are read.",
        ),
    )


PAGE_CHOICES: tuple[type, ...] = (SimilarityChoice, PcaChoice, OffsetChoice, ExtrapolationChoice)
