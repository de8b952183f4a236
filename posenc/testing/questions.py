"""Positions that a module was asked for, in words."""

from posenc.identification.rotary_modules import RANDOM, Asked, Question, Refusal

_SHUFFLED = "in another order, each twice"


def question_words(question: Question) -> str:
    """Return the positions of one call."""
    last = int(question.positions.max())
    match question.order:
        case "first two":
            return "positions 0 and 1"
        case "in order":
            return f"positions 0 to {last:,} in order"
        case "rising":
            return f"positions up to {last:,}"
        case "shuffled":
            return f"positions up to {last:,} {_SHUFFLED}"


def refusal_words(refusal: Refusal) -> str:
    """Return which call had no answer, and why, as a clause."""
    why = f"raised {refusal.error}" if refusal.error else "did not return a row for each"
    return f"for {question_words(refusal.question)}, it {why}"


def asked_sentence(asked: Asked) -> str:
    """Return what a module was asked for, "" of a table that is held."""
    if not asked.lengths:
        return ""
    *shorter, context = (f"{length:,}" for length in asked.lengths)
    texts = f"{', '.join(shorter)} and {context}" if shorter else context
    return (
        f"It was asked for positions 0 to {asked.in_order - 1:,} in order; then, of {texts} positions, for "
        f"each power of two, its neighbours, the last and {RANDOM} random ones, in rising order; and for "
        f"those again {_SHUFFLED}."
    )
