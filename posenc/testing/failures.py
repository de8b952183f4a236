"""Sentences on a table or a module that is not the scheme it should be."""

from collections.abc import Sequence

from torch import Tensor

from posenc.identification import identify
from posenc.identification.columns import MIN_ROWS, column_words
from posenc.identification.comparison import AnswersDifference, TableScheme
from posenc.identification.facts import SchemeMatch
from posenc.identification.match import match
from posenc.identification.predict import Place
from posenc.identification.rotary_modules import NOT_FINITE, Answer, Asked, Refusal
from posenc.identification.sentences import (
    alternative_sentences,
    cause_sentence,
    deviation_sentences,
    difference_sentence,
    headline,
    reordering_sentence,
)
from posenc.schemes.rope import RopeConfig
from posenc.testing.expected import widths
from posenc.testing.questions import asked_sentence, question_words, refusal_words
from posenc.text import significant

_UNEXPLAINED = ("unknown", "other")  # words of causes without a reason


def failure_of_table(
    answers: Sequence[Answer], config: TableScheme, differences: Sequence[AnswersDifference]
) -> str:
    """Return why a table is not that of a scheme, the cause first, and what it is."""
    (answer,), nearest = answers, _nearest(differences)
    place, cause, description = nearest.most[1], *_explained(answer, config)
    return joined(
        cause,
        f"This is not the table of {_words(config)} from position {int(answer.positions[0]):,}: row "
        f"{place.row:,}, {_column(answer, place)} differs {_by(place)} from {nearest.match}, "
        f"{_allowed(nearest, differences)}",
        description,
    )


def failure_of_module(
    answers: Sequence[Answer], config: TableScheme, differences: Sequence[AnswersDifference]
) -> str:
    """Return why a module does not return a scheme's tables, the cause first, and where it is wrong."""
    nearest, in_order = _nearest(differences), answers[:2][-1]
    number, first = nearest.first
    asked = in_order if number <= 1 else answers[number]
    cause, description = _explained(asked, config)
    wrong, near = (question_words(one.question) for one in (answers[number], asked))
    which = f"{near[0].upper()}{near[1:]}: {description}"
    return joined(
        cause,
        f"This module is not {_words(config)}. Asked for {wrong}, it differs from "
        f"{nearest.match} first {_at(answers, number, first)}, and most {_at(answers, *nearest.most)}, "
        f"{_allowed(nearest, differences)}",
        f"It is right for {question_words(in_order.question)}." if number > 1 else which,
    )


def joined(*sentences: str) -> str:
    """Return sentences that are not empty, one after the other."""
    return " ".join(filter(None, sentences))


def refusal(asked: Asked, refused: Refusal) -> str:
    """Return up to where a module is right that then returned nothing."""
    right = question_words(asked.answers[-1].question)
    return (
        f"This module is right for {right}, but {refusal_words(refused)}. {asked_sentence(asked)} "
        "`context` sets how many positions that are."
    )


def _nearest(differences: Sequence[AnswersDifference]) -> AnswersDifference:
    """Return the way from which the first difference is latest, of several the exact one."""
    return max(differences, key=lambda each: (each.first[0], each.first[1].row))


def _allowed(nearest: AnswersDifference, differences: Sequence[AnswersDifference]) -> str:
    """Return how much is allowed, and by how much numbers differ from the other of exact and float32."""
    words = f"where {significant(nearest.most[1].allowed, 2)} is allowed"
    others = [each for each in differences if each.match != nearest.match]
    if not others:
        return f"{words}."
    other = min(others, key=lambda each: each.most[1].amount)
    return (
        f"{words}; from {other.match} at most {_by(other.most[1])}, where "
        f"{significant(other.most[1].allowed, 2)} is."
    )


def _at(answers: Sequence[Answer], number: int, place: Place) -> str:
    position = int(answers[number].positions[place.row])
    return f"at position {position:,}, {_column(answers[number], place)}, {_by(place)}"


def _by(place: Place) -> str:
    return (
        f"by {significant(place.amount)}" if place.amount < NOT_FINITE / 2 else "by NaN or infinity"
    )


def _column(answer: Answer, place: Place) -> str:
    return column_words(answer.source.form, answer.source.width, place.column)


def _explained(answer: Answer, config: TableScheme) -> tuple[str, str]:
    """Return what is wrong with rows, "" if no reason is known; then where and what they are."""
    finite = (answer.source.columns.abs() < NOT_FINITE / 2).all(1)
    if int(finite.sum()) < MIN_ROWS:
        return "", "Numbers are NaN or infinite."
    source = answer.source.rows(finite)
    found: SchemeMatch | None = None
    if isinstance(config, RopeConfig):
        found = match(config, source, answer.positions[finite])
    cause = "" if found is None else cause_sentence(found)
    if found is not None and cause and not (found.cause and found.cause.word in _UNEXPLAINED):
        return cause, difference_sentence(found)
    parts: list[Tensor] = [*source.columns.split(source.width, 1)]
    actual = identify(*parts)
    sentences = (
        headline(actual), *deviation_sentences(actual), *alternative_sentences(actual),
    )  # fmt: skip
    where = "" if found is None else difference_sentence(found) or reordering_sentence(found)
    return cause, joined(where, f"What it is: {' '.join(sentences)}")


def _words(config: TableScheme) -> str:
    return f"{config.label} ({widths(config)}, base {significant(config.base, 6)})"
