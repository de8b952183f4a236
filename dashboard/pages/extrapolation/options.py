"""What the Extrapolation page asks beside the shared numbers, as ruled choices."""

from dataclasses import dataclass

from posenc import fields


@dataclass(frozen=True, kw_only=True)
class ExtrapolationChoice:
    """Which view of the Extrapolation page is drawn; measured and computed are never mixed."""

    half: str = fields.Choice(
        options=("measured", "formula"),
        label="View",
        help="Measured: trained models. Formula: why they hold or break.",
    ).field("measured")


@dataclass(frozen=True, kw_only=True)
class MeasuredChoice:
    """Which models the measured view compares."""

    comparison: str = fields.Word(
        pattern=r"(?:language|recall|copy)-[0-9]{1,5}-[0-9a-f]{8}",
        in_words="the name of a comparison of runs, such as language-128-b70f9478",
        label="Models trained on",
        help="The models of a comparison differ only in scheme and seed.",
    ).field("language-128-b70f9478")


@dataclass(frozen=True, kw_only=True)
class OwnRunsChoice:
    """Whether models that were trained on this server are drawn beside those that ship."""

    own_runs: bool = fields.Flag(
        label="Models trained on this server",
        help="Adds the models of the same comparison that visitors trained here.",
    ).field(False)


@dataclass(frozen=True, kw_only=True)
class VariantChoice:
    """Whether models are drawn as they were trained only."""

    variants: bool = fields.Flag(
        label="Variants without more training",
        help="Learned with its last row repeated past training; RoPE with other frequencies.",
    ).field(False)


@dataclass(frozen=True, kw_only=True)
class LossChoice:
    """How the loss of language models is drawn."""

    axis: str = fields.Choice(
        options=("context length", "position"),
        label="Loss by",
        help="Context length: the same tokens, with more context. Position: along one long text.",
    ).field("context length")
    unit: str = fields.Choice(
        options=("loss", "perplexity"),
        label="Unit",
        help="Loss in nats per byte, or perplexity, its exponential.",
    ).field("loss")


TURNS, NEAREST = "turns per pair", "nearest trained position"


@dataclass(frozen=True, kw_only=True)
class FormulaChoice:
    """What the formula view draws."""

    reason: str = fields.Choice(
        options=("similarity", TURNS, NEAREST),
        label="From the formula: why",
        help="Three ways in which a position past training can differ from those in training.",
    ).field("similarity")
    reach: str = fields.Choice(
        options=("2", "4", "8", "16"),
        label="Evaluate to, times the training length",
        help="How far past the training length the formulas are evaluated.",
    ).field("4")
