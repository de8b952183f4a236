"""What the page Why order matters asks: a sentence, its other order, and the scheme that is shown."""

from dataclasses import dataclass

from dashboard.sentence_rule import Sentence
from dashboard.settings.setting import MAX_SHOWN_HEADS
from posenc import fields
from posenc.schemes import SCHEMES

REVERSED = "reversed"
SWAPPED = "first and third swapped"  # what it means at first; the words can be chosen


@dataclass(frozen=True, kw_only=True)
class OrderChoice:
    """What the page asks beside the shared controls. order_scheme: the label of a scheme."""

    sentence: str = Sentence(
        least=2,
        most=12,
        longest=120,
        label="Sentence",
        help="2 to 12 words in any language, separated by spaces.",
    ).field("dog bites man today")
    reorder: str = fields.Choice(
        options=(SWAPPED, "first word last", "ends swapped", REVERSED),
        labels=("two words swapped", "first word last", "ends swapped", REVERSED),
        label="Other order",
        help="Reversing keeps the distance between every two words: ALiBi cannot see it.",
    ).field(SWAPPED)
    order_scheme: str = fields.Choice(
        options=tuple(scheme.label for scheme in SCHEMES.values()),
        label="Scheme",
        help="The scheme that is compared with attention without position (NoPE).",
    ).field(SCHEMES["rope"].label)
    pattern_head: int = fields.IntRange(
        low=0, high=MAX_SHOWN_HEADS, label="Head", help="0 is the mean over heads."
    ).field(1)
    causal: bool = fields.Flag(
        label="Causal mask",
        help="Hides later words from earlier ones, as in a decoder.",
    ).field(False)


@dataclass(frozen=True, kw_only=True)
class SwapChoice:
    """The two words that change places, counted from 1; read where two words are swapped."""

    swap: int = fields.IntRange(low=1, high=12, label="Swap word").field(1)
    swap_with: int = fields.IntRange(low=1, high=12, label="with word").field(3)


def order_of(count: int, how: str, swap: SwapChoice) -> tuple[int, ...]:
    """Return a change of order as a permutation: the index of the word at each place after it."""
    order = list(range(count))
    if how == REVERSED:
        return tuple(order[::-1])
    if how == "first word last":
        return (*order[1:], 0)
    ends = (0, count - 1)
    first, second = (swap.swap - 1, swap.swap_with - 1) if how == SWAPPED else ends
    order[first], order[second] = second, first
    return tuple(order)
