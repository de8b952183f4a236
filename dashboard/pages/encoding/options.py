"""Options of the page Encoding beside the shared numbers."""

from dataclasses import dataclass

from dashboard.settings.chosen_model import MAX_SHOWN_DIM
from posenc import fields
from posenc.analysis import STARTS
from posenc.latex import NOTATIONS, Notation

# A place among a scheme's frequencies, from the fastest pair (0) to the slowest (1).
PLACES = {"fastest": 0.0} | {f"{n}0%": n / 10 for n in range(1, 10)} | {"slowest": 1.0}

MATRIX, WAVELENGTHS, SUMS, WORKED = (
    "Matrix",
    "Wavelengths",
    "Added to token embeddings",
    "Worked by hand",
)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of the page beside the shared numbers.

    places: which frequencies are drawn, fast to slow; `pair` is one more, by its number. tab: the open one.
    """

    places: tuple[str, ...] = fields.MultiChoice(
        options=tuple(PLACES),
        most=5,
        label="Frequencies shown, fast to slow",
        help="At most five: the fastest pair, the slowest, or what lies between, in tenths: of pairs 0 to "
        "255, 30% is pair 76.",
    ).field(("fastest", "30%", "60%", "slowest"))
    pair: int = fields.IntRange(
        low=0,
        high=MAX_SHOWN_DIM // 2 - 1,
        label="Add pair",
        help="Adds one pair; 0 is the fastest. A scheme with fewer pairs shows its slowest.",
    ).field(0)
    start: str = fields.Choice(
        options=tuple(STARTS),
        label="Token embeddings start as",
        help="Variance 1/d; 1 (PyTorch); 0.02 squared (GPT-2); Xavier with 37,000 tokens.",
    ).field("1/d")
    scaled: bool = fields.Flag(
        label="Multiply tokens by sqrt(d)",
        help="Vaswani et al. 2017, section 3.4: before position is added.",
    ).field(True)
    notation: Notation = fields.Choice(
        options=NOTATIONS,
        label="Notation",
        help="Letters for position and pair: those of the paper, or t and k.",
    ).field(NOTATIONS[0])
    substituted: bool = fields.Flag(
        label="Current numbers in formulas", help="Shows the numbers instead of d, b, n and L."
    ).field(False)
    tab: str = fields.Choice(options=(MATRIX, WAVELENGTHS, SUMS, WORKED), label="Tab").field(MATRIX)
