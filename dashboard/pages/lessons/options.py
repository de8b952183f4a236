"""What Learn in five steps asks: the step, and the control of each."""

from dataclasses import dataclass

from dashboard.controls.sentence_rule import Sentence
from posenc import fields


@dataclass(frozen=True, kw_only=True)
class LessonChoice:
    """Which of the five steps is shown."""

    step: str = fields.Choice(options=("1", "2", "3", "4", "5"), label="Step").field("1")


@dataclass(frozen=True, kw_only=True)
class SentenceChoice:
    """The sentence of the first step."""

    words: str = Sentence(
        least=2, most=12, longest=120, label="Your sentence", help="2 to 12 words."
    ).field("dog bites man")


@dataclass(frozen=True, kw_only=True)
class SwapChoice:
    """The two words of it that change places, counted from 1; at first the ends."""

    first_word: int = fields.IntRange(low=1, high=12, label="Swap word").field(1)
    second_word: int = fields.IntRange(low=1, high=12, label="with word").field(12)


@dataclass(frozen=True, kw_only=True)
class WaveChoice:
    """The base of the second step's table."""

    wave_base: str = fields.Choice(
        options=("100", "10000", "500000"), labels=("100", "10,000", "500,000"), label="Base",
        help="A larger base: slower waves.",
    ).field("10000")  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ShiftChoice:
    """How far the query and the key of the third step move."""

    moved_by: str = fields.Choice(
        options=("0", "1", "10", "100"), label="Move both by (positions)"
    ).field("0")


@dataclass(frozen=True, kw_only=True)
class SlopeChoice:
    """The head whose bias the fourth step draws."""

    slope_head: int = fields.IntRange(
        low=1, high=8, label="Head", help="Each head has its own slope."
    ).field(1)


@dataclass(frozen=True, kw_only=True)
class GuessChoice:
    """The answer that was guessed in the fifth step."""

    guess: str = fields.Choice(
        options=("not yet", "Learned", "Sinusoidal", "RoPE", "ALiBi", "shown"),
        labels=("not yet", "Learned", "Sinusoidal", "RoPE", "ALiBi", "show the curves"),
        label="Your guess",
    ).field("not yet")  # fmt: skip
