"""The controls that belong to one page each, as ruled fields like those of a Setting."""

from dataclasses import dataclass

from posenc import fields


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
