"""What the page Why order matters asks: a sentence, its other order, and the scheme that is shown."""

from dataclasses import dataclass

from dashboard.controls.sentence_rule import Sentence
from posenc import fields
from posenc.schemes import SCHEMES
from posenc.settings.setting import MAX_SHOWN_HEADS

REVERSED = "reversed"


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
        options=("first and third swapped", "first word last", "ends swapped", REVERSED),
        label="Other order",
        help="Reversing keeps the distance between every two words: ALiBi cannot see it.",
    ).field("first and third swapped")
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


def order_of(count: int, how: str) -> tuple[int, ...]:
    """Return a change of order as a permutation: the index of the word at each place after it."""
    first = tuple(range(count))
    third = min(2, count - 1)
    return {
        "first and third swapped": (third, *first[1:third], 0, *first[third + 1 :]),
        "first word last": (*first[1:], 0),
        "ends swapped": (count - 1, *first[1:-1], 0),
        REVERSED: first[::-1],
    }[how]
