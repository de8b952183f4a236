"""The controls that belong to one page each, as ruled fields like those of a Setting."""

from dataclasses import dataclass

from dashboard.controls.sentence_rule import Sentence
from posenc import fields


@dataclass(frozen=True, kw_only=True)
class LessonChoice:
    """Which of the five steps is shown."""

    step: str = fields.Choice(options=("1", "2", "3", "4", "5"), label="Step").field("1")


@dataclass(frozen=True, kw_only=True)
class SwapChoice:
    """The sentence of the first step, whose first and last word change places."""

    words: str = Sentence(
        least=2,
        most=12,
        longest=120,
        label="Your sentence",
        help="2 to 12 words; its first and last word change places.",
    ).field("dog bites man")


@dataclass(frozen=True, kw_only=True)
class WaveChoice:
    """The base of the second step's table."""

    wave_base: str = fields.Choice(
        options=("100", "10000", "500000"), label="Base", help="A larger base: slower waves."
    ).field("10000")


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
        options=("not yet", "Learned", "Sinusoidal", "RoPE", "ALiBi"), label="Your guess"
    ).field("not yet")


@dataclass(frozen=True, kw_only=True)
class ExerciseChoice:
    """Whether a page asks before it shows."""

    predict: bool = fields.Flag(
        label="Quiz mode",
        help="A question first; the headline, pictures and numbers come with your answer.",
    ).field(False)


# Text of the page's own questions and answers: shown as it is, so nothing that could be markup.
_TOLD = r"[^\x00-\x1f<>\[\]]{1,80}"


@dataclass(frozen=True, kw_only=True)
class PredictionChoice:
    """The question that is asked and the answer that was given to it; no truth is in a link."""

    question: str = fields.Word(
        pattern=rf"first|(?:half|rise|turns|past|change|best|reach)\.{_TOLD}",
        in_words="the name of a question, or first",
        label="Question",
    ).field("first")
    answer: str = fields.Word(
        pattern=rf"none|said {_TOLD}",
        in_words="none, or said and the answer that was given",
        label="Answer",
    ).field("none")
