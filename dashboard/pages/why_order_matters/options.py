"""Options of Why order matters: a sentence, its other order, and the scheme that is shown."""

from dataclasses import dataclass

from dashboard.sentence_rule import Sentence
from dashboard.settings.labelled import LabelledChoice, LabelledIntRange
from dashboard.settings.setting import MAX_SHOWN_HEADS
from posenc import fields
from posenc.schemes import SCHEMES

REVERSED = "reversed"
SWAPPED = "first and third swapped"  # what it means at first; the words can be chosen


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of the page, beside the shared numbers.

    order_scheme: the label of a scheme. swap, swap_with: the two words that change places, counted from 1;
    read where two words are swapped.
    """

    sentence: str = Sentence(
        least=2,
        most=12,
        longest=120,
        label="Sentence",
        help="2 to 12 words in any language, separated by spaces.",
    ).field("dog bites man today")
    reorder: str = LabelledChoice(
        options=(SWAPPED, "first word last", "ends swapped", REVERSED),
        labels={SWAPPED: "two words swapped"},
        label="Other order",
        help="Reversing keeps the distance between every two words: ALiBi cannot see it.",
    ).field(SWAPPED)
    swap: int = fields.IntRange(low=1, high=12, label="Swap word").field(1)
    swap_with: int = fields.IntRange(low=1, high=12, label="with word").field(3)
    order_scheme: str = fields.Choice(
        options=tuple(scheme.label for scheme in SCHEMES.values()),
        label="Scheme",
        help="The scheme that is compared with attention without position (NoPE).",
    ).field(SCHEMES["rope"].label)
    pattern_head: int = LabelledIntRange(
        low=0,
        labels={0: "mean"},
        high=MAX_SHOWN_HEADS,
        label="Head",
        help="The mean over heads, or one.",
    ).field(1)
    causal: bool = fields.Flag(
        label="Causal mask",
        help="Hides later words from earlier ones, as in a decoder.",
    ).field(False)


def order_of(words: tuple[str, ...], options: Options) -> tuple[int, ...]:
    """Return the other order as a permutation: the index of the word at each place after it.

    Where only equal words change places, every word stays: nobody can tell the sentences apart.
    """
    order = _moved(len(words), options)
    moved = tuple(words[index] for index in order)
    return order if moved != words else tuple(range(len(words)))


def _moved(count: int, options: Options) -> tuple[int, ...]:
    """Return the order that is asked for, whatever the words are."""
    order = list(range(count))
    if options.reorder == REVERSED:
        return tuple(order[::-1])
    if options.reorder == "first word last":
        return (*order[1:], 0)
    first, second = 0, count - 1
    if options.reorder == SWAPPED:
        first, second = (min(word, count) - 1 for word in (options.swap, options.swap_with))
    order[first], order[second] = order[second], order[first]
    return tuple(order)
