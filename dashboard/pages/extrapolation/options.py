"""Options of the page Extrapolation, beside the shared numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from dashboard.blocks import Changes
from posenc import fields
from posenc.lab.ranks import TIMES
from posenc.lab.tasks import TASKS

PROTOCOL = "by protocol"
RANKED_AT = {str(times): times for times in TIMES}
TURNS, NEAREST = "turns per pair", "nearest trained position"


@dataclass(frozen=True, kw_only=True)
class Options:
    """Which view is drawn, measured, ranked or computed, which are never mixed, and what each view asks.

    comparison: of runs, by name; "" for the one that other pages show of these schemes. axis and unit are
    read of language models. ranked_at: of the ranks. reason and reach belong to the formulas. PARTS: of
    the page, one after the other where it is written as files.
    """

    PARTS: ClassVar[Mapping[str, Changes]] = {
        "Measured": {"half": "measured"},
        "By protocol": {"half": PROTOCOL},
        "From the formula: similarity": {"half": "formula", "reason": "similarity"},
        f"From the formula: {TURNS}": {"half": "formula", "reason": TURNS},
        f"From the formula: {NEAREST}": {"half": "formula", "reason": NEAREST},
    }

    half: str = fields.Choice(
        options=("measured", PROTOCOL, "formula"),
        label="View",
        help="Measured: trained models. By protocol: ranks of all schemes by task. Formula: why they hold "
        "or break.",
    ).field("measured")
    comparison: str = fields.Word(
        pattern=rf"(?:(?:{'|'.join(TASKS)})-[0-9]{{1,5}}-[0-9a-f]{{8}})?",
        in_words="the name of a comparison of runs, such as language-64-8c2dbbee",
        label="Models trained on",
        help="The models of a comparison differ in scheme, learning rate and seed alone.",
    ).field("")
    own_runs: bool = fields.Flag(
        label="Models trained on this server",
        help="Adds the models of the same comparison that visitors trained here.",
    ).field(False)
    axis: str = fields.Choice(
        options=("context length", "position", "both"),
        label="Loss by",
        help="Context length: the same tokens, with more context. Position: along one long text. Both: "
        "beside each other.",
    ).field("context length")
    unit: str = fields.Choice(
        options=("loss", "perplexity"),
        label="Unit",
        help="Loss in nats per byte, or perplexity, its exponential.",
    ).field("loss")
    variants: bool = fields.Flag(
        label="Variants",
        help="Without more training: learned with its last row repeated, RoPE with other frequencies. And "
        "models that were fine-tuned.",
    ).field(False)
    ranked_at: str = fields.Choice(
        options=tuple(RANKED_AT),
        label="Rank at (times the training length)",
        help="Ranks change with the distance past training.",
    ).field("1")
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
