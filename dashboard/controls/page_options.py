"""The controls that belong to one page each, as ruled fields like those of a Setting."""

import unicodedata
from dataclasses import dataclass

from dashboard.pages.check_my_encoding.options import CheckChoice, CheckPart
from dashboard.pages.encoding.options import EncodingChoice
from dashboard.pages.extend_context.options import PlanChoice
from dashboard.pages.extrapolation.options import (
    ExtrapolationChoice,
    FormulaChoice,
    LossChoice,
    MeasuredChoice,
)
from dashboard.pages.pca.options import PcaChoice
from dashboard.pages.similarity.options import SimilarityChoice
from dashboard.pages.train.options import TrainingChoice
from posenc import fields
from posenc.claims import THEMES
from posenc.settings.setting import MAX_SHOWN_HEADS

# Joiners and the marks of flags belong to words and emoji; other format characters reorder or hide text.
_FORMAT = {0x200C, 0x200D, *range(0xE0020, 0xE0080)}


@dataclass(frozen=True, kw_only=True)
class Sentence(fields.Rule):
    """`least` to `most` words of any language on one line, at most `longest` characters in all.

    Control characters and marks that turn the direction of text around are refused.
    """

    least: int
    most: int
    longest: int

    def allowed(self) -> str:
        return f"{self.least} to {self.most} words and at most {self.longest} characters"

    def accepts(self, value: object) -> bool:
        return (
            isinstance(value, str)
            and len(value) <= self.longest
            and self.least <= len(value.split()) <= self.most
            and all(_is_text(letter) for letter in value)
        )

    def nearest(self, text: str) -> str | None:
        if self.accepts(text):
            return text
        # Cut before it is looked at: a link may hold half a million letters.
        words = "".join(c if _is_text(c) else " " for c in text[: 4 * self.longest]).split()
        found = " ".join(words[: self.most])
        if len(found) > self.longest:
            found = found[: self.longest + 1].rpartition(" ")[0]
        return found if self.accepts(found) else None

    def describe(self, value: str) -> str:
        return f"\u201c{value}\u201d"


def _is_text(letter: str) -> bool:
    """Whether a character is a space or can be seen as a part of a word."""
    if letter.isspace():
        return letter == " "
    return unicodedata.category(letter) not in ("Cc", "Cf", "Cs", "Co", "Cn") or (
        ord(letter) in _FORMAT
    )


@dataclass(frozen=True, kw_only=True)
class OffsetChoice:
    """What the Relative offsets page asks beside the shared numbers."""

    offset: int = fields.IntRange(
        low=1,
        high=64,
        label="Offset k",
        help="How far apart the two positions are: key minus query.",
    ).field(1)
    second: int = fields.IntRange(
        low=1,
        high=64,
        label="Second offset",
        help="For the composition: two steps in a row against one long one.",
    ).field(2)


@dataclass(frozen=True, kw_only=True)
class OrderChoice:
    """What the Why position page asks: a sentence, its other order, and the patterns drawn."""

    sentence: str = Sentence(
        least=2,
        most=12,
        longest=120,
        label="Sentence",
        help="2 to 12 words, in any language; a word is what stands between spaces.",
    ).field("dog bites man")
    reorder: str = fields.Choice(
        options=("reversed", "ends swapped", "first word last"),
        label="Other order",
        help="Reversing mirrors the sentence: every two words keep their distance.",
    ).field("reversed")
    pattern_head: int = fields.IntRange(
        low=0,
        high=MAX_SHOWN_HEADS,
        label="Head drawn",
        help="Of the attention patterns; 0 is the mean over heads.",
    ).field(1)
    causal: bool = fields.Flag(
        label="Causal mask",
        help="Of the attention patterns: later words hidden from earlier ones, as in a decoder.",
    ).field(False)


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


@dataclass(frozen=True, kw_only=True)
class ClaimsChoice:
    """Which sentences the Claims page shows."""

    verdict: str = fields.Choice(
        options=("all", "holds", "partly", "false", "open"),
        label="Verdict",
        help="Open: only small models say no, not measured here, or nothing to decide.",
    ).field("all")
    theme: str = fields.Choice(
        options=("all", *THEMES), label="Theme", help="What a sentence is about."
    ).field("all")


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


PAGE_CHOICES: tuple[type, ...] = (
    EncodingChoice,
    ClaimsChoice,
    SimilarityChoice,
    PcaChoice,
    OffsetChoice,
    ExtrapolationChoice,
    FormulaChoice,
    MeasuredChoice,
    LossChoice,
    TrainingChoice,
    OrderChoice,
    LessonChoice,
    SwapChoice,
    WaveChoice,
    SlopeChoice,
    GuessChoice,
    ExerciseChoice,
    PredictionChoice,
    PlanChoice,
    CheckPart,
    CheckChoice,
)
