"""What the page Extend a model's context asks: target, trained length and methods."""

from dataclasses import dataclass

from posenc import fields, limits
from posenc.planner import METHODS
from posenc.planner.methods import DEFAULT_METHODS
from posenc.text import with_advanced


@dataclass(frozen=True, kw_only=True)
class PlanChoice:
    """To which length the page plans for the setting's model, and by which methods."""

    context: int = fields.IntRange(
        low=1,
        high=limits.MAX_TRAIN_LENGTH,
        label="Target context",
        help="The number of tokens that the model should read.",
    ).field(131_072)
    trained: int = fields.IntRange(
        low=0,
        high=limits.MAX_TRAIN_LENGTH,
        label="Trained length",
        help="Training length in tokens. Empty: what the model's makers or its config say, or else its "
        "context.",
    ).field(0)
    methods: tuple[str, ...] = fields.MultiChoice(
        options=tuple(METHODS),
        labels=tuple(method.label for method in METHODS.values()),
        most=len(METHODS),
        label="Methods",
        help=with_advanced(
            "Ways to extend the context, compared below.",
            (method.label for method in METHODS.values() if method.advanced),
        ),
    ).field(DEFAULT_METHODS)
