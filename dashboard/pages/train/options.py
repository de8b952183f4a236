"""What the Train page asks beside schemes and base, as a ruled choice."""

from dataclasses import dataclass

from dashboard.limits import (
    MAX_RUN_HEADS,
    MAX_RUN_LAYERS,
    MAX_RUN_LENGTH,
    MAX_RUN_SEEDS,
    MAX_RUN_STEPS,
    MAX_RUN_WIDTH,
)
from posenc import fields, limits
from posenc.lab.tasks import TASKS, Language


@dataclass(frozen=True, kw_only=True)
class TrainingChoice:
    """What the Train page asks; schemes and base are in the sidebar."""

    task: str = fields.Choice(
        options=tuple(TASKS),
        label="Task",
        help="Language: the next byte of a text. Recall: the value of a key. Copy: a string.",
    ).field(Language.kind)
    run_length: int = fields.IntRange(
        low=limits.MIN_RUN_TOKENS,
        high=MAX_RUN_LENGTH,
        label="Training length (tokens)",
        help="Copy: letters of the longest string.",
    ).field(32)
    steps: int = fields.IntRange(
        low=1, high=MAX_RUN_STEPS, label="Steps", help="Batch size 32."
    ).field(300)
    width: int = fields.IntRange(
        low=8,
        high=MAX_RUN_WIDTH,
        multiple_of=2,
        label="Width",
        help="Model width, a multiple of twice the heads.",
    ).field(64)
    layers: int = fields.IntRange(
        low=1, high=MAX_RUN_LAYERS, label="Layers", help="Attention layers of the model."
    ).field(2)
    run_heads: int = fields.IntRange(
        low=1, high=MAX_RUN_HEADS, label="Heads", help="Attention heads per layer."
    ).field(4)
    seeds: int = fields.IntRange(
        low=1,
        high=MAX_RUN_SEEDS,
        label="Seeds",
        help="Runs per scheme, with different initial weights and data order.",
    ).field(1)
