"""Claims about the norm of position compared with content, and about content that overwrites position.

Vaswani et al. 2017, arXiv 1706.03762, sections 3.4 and 3.5: token embeddings times sqrt(d_model), plus
the sinusoidal table, whose rows have the norm sqrt(d / 2).
"""

import math
import statistics
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.analysis import STARTS, token_deviation
from posenc.claims.claim import (
    TABLE,
    VASWANI,
    Number,
    Status,
    Verdict,
    claim,
    figure,
    fraction,
    sinusoidal,
)
from posenc.kernel import position_vectors
from posenc.schemes.sizes import Sizes
from posenc.text import count_of

SAME_SCALE = 2.0  # norms within this factor count as one scale
LOST = 0.75  # order accuracy below which order counts as lost; guessing gives a half
ROOM = 0.9  # order accuracy from which a decoder counts as knowing the order
POSITIONS = 64
WORDS = 64  # different ones in the experiment; at a width of 64 or less they span everything
WEAKEST = 1 / 16  # content tried first, in norms of position
STRENGTHS = 80  # tried, in steps of sqrt(2)
DRAWS = 9  # of words and of the content that repeats them


def position_rows(sizes: Sizes) -> Float[Tensor, "n d"]:
    """Return the first rows of the sinusoidal table in the precision asked for, as float64."""
    return position_vectors(sinusoidal(sizes), POSITIONS, dtype=sizes.dtype)


def token_over_position(sizes: Sizes) -> dict[str, float]:
    """Return the norm of a token over that of position, by the token's initialization."""
    norm = position_rows(sizes).norm(dim=1).mean().item()
    return {
        name: token_deviation(start, sizes.dim) * sizes.dim**0.5 / norm
        for start, name in STARTS.items()
    }


@claim(
    "Multiplying by sqrt(d_model) puts token and position on one scale.",
    theme="content",
    source=f"Tutorials on {VASWANI}, section 3.4",
    steps=(token_over_position,),
    uses=TABLE,
)
def sqrt_scale(sizes: Sizes) -> Verdict:
    """Compare the norm of a token times sqrt(d) with that of position, for every initialization."""
    ratios = {name: sizes.dim**0.5 * x for name, x in token_over_position(sizes).items()}
    within = sum(abs(math.log(x)) <= math.log(SAME_SCALE) + 1e-9 for x in ratios.values())
    status = Status.HOLDS if within == len(ratios) else Status.PARTLY
    return Verdict(
        status if within > 1 else Status.FALSE,
        (
            Number("usual initializations on one scale", within, f"of {len(ratios)}"),
            *(Number(f"token over position, {name}", x) for name, x in ratios.items()),
        ),
        f"At width {sizes.dim:,} the norm of a token times sqrt(d), over the norm of position, is "
        f"{_list(ratios)}. {fraction(within, len(ratios))} usual initializations are within a factor of "
        f"{SAME_SCALE:g}.",
        Number("N(0, 1/d) without the factor", ratios["N(0, 1/d)"] / sizes.dim**0.5),
    )


@claim(
    "Values in [-1, 1] keep position from dominating the token.",
    theme="content",
    source=f"Tutorials on {VASWANI}, section 3.5",
    steps=(token_over_position,),
    uses=TABLE,
)
def dominating(sizes: Sizes) -> Verdict:
    """Compare the norm of position with that of a token, without and with the factor sqrt(d)."""
    plain = {name: 1 / x for name, x in token_over_position(sizes).items()}
    scaled = {name: x / sizes.dim**0.5 for name, x in plain.items()}
    larger, larger_scaled = (sum(x > 1 + 1e-9 for x in y.values()) for y in (plain, scaled))
    norm, of_all = position_rows(sizes).norm(dim=1).mean().item(), f"of {len(plain)}"
    return Verdict(
        Status.PARTLY if larger or larger_scaled else Status.HOLDS,
        (
            Number("usual initializations whose tokens are shorter than positions", larger, of_all),
            Number("the same times sqrt(d)", larger_scaled, of_all),
            Number("norm of a position vector", norm),
            *(Number(f"position over token, {name}", x) for name, x in plain.items()),
            *(Number(f"position over token times sqrt(d), {x}", y) for x, y in scaled.items()),
        ),
        f"Entries of at most 1 make a position vector of norm {figure(norm)} at width {sizes.dim:,}. Over "
        f"the norm of a token as it starts, that is {_list(plain)}. With the factor sqrt(d) on tokens "
        f"(Vaswani et al., section 3.4) it is {_list(scaled)}.",
    )


def _list(ratios: dict[str, float]) -> str:
    return ", ".join(f"{figure(ratio)} ({name})" for name, ratio in ratios.items())


@dataclass(frozen=True)
class Overwriting:
    """The weakest content that loses the order, in norms of position, for one draw of words.

    accuracy: order accuracy there. without_words: the same for a decoder that removes the words' span.
    """

    strength: float
    accuracy: float
    without_words: float


def order_accuracy(vectors: Float[Tensor, "n d"], rows: Float[Tensor, "n d"]) -> float:
    """Decode every vector as its nearest row; return the share of pairs in order, ties half."""
    decoded = (2 * vectors @ rows.T - rows.square().sum(dim=1)).argmax(dim=1)
    first, second = torch.triu_indices(len(vectors), len(vectors), 1)
    return ((decoded[second] - decoded[first]).sign().double().mean().item() + 1) / 2


def overwriting(rows: Float[Tensor, "n d"], dtype: torch.dtype, seed: int) -> Overwriting | None:
    """Strengthen one draw of content by steps of sqrt(2) until order is lost; None if it never is."""
    generator = torch.Generator().manual_seed(seed)
    words = torch.randn(WORDS, rows.shape[1], generator=generator, dtype=torch.float64)
    content = words[torch.randint(WORDS, (len(rows),), generator=generator)]
    content = content * (rows.norm(dim=1).mean() / content.norm(dim=1).mean())
    for step in range(STRENGTHS):
        strength = WEAKEST * 2 ** (step / 2)
        added = (strength * content + rows).to(dtype).double()
        accuracy = order_accuracy(added, rows)
        if accuracy < LOST:
            break
    else:
        return None
    basis = torch.linalg.qr(words.T)[0]
    rest = rows - rows @ basis @ basis.T
    if rest.norm() <= 1e-9 * rows.norm():  # words span everything; outside is rounding, a guess
        return Overwriting(strength, accuracy, 0.5)
    return Overwriting(strength, accuracy, order_accuracy(added - added @ basis @ basis.T, rest))


@claim(
    "Strong content can overwrite position, because it is added and not concatenated.",
    theme="content",
    source=f"Posts on {VASWANI}, section 3.5; measured here",
    steps=(overwriting, order_accuracy),
    uses=(*TABLE, "seed"),
)
def overwritten(sizes: Sizes) -> Verdict:
    """Strengthen content until a decoder of position loses the order; then concatenate it instead.

    The decoder takes the nearest row of the table. A second decoder first removes the span of the words.
    """
    rows, dtype = position_rows(sizes), sizes.dtype or torch.float32
    draws = [overwriting(rows, dtype, sizes.seed + draw) for draw in range(DRAWS)]
    lost = [draw for draw in draws if draw is not None]
    if 2 * len(lost) <= DRAWS:
        strongest = figure(WEAKEST * 2 ** ((STRENGTHS - 1) / 2))
        return Verdict(
            Status.FALSE,
            (Number("draws that lose order", len(lost)),),
            f"In {DRAWS - len(lost)} of {DRAWS} draws order is kept to content {strongest} times as "
            "long as position.",
        )
    strengths = [draw.strength for draw in lost]
    accuracies = [draw.accuracy for draw in lost]
    without_words = [draw.without_words for draw in lost]
    concatenated = order_accuracy(rows.to(dtype).double(), rows)  # content is in other features
    count = count_of(len(lost), "draw")
    if statistics.median(without_words) >= ROOM:
        status = Status.PARTLY
        reason = "there is room beside them, so it is not the sum that loses order."
    else:
        status, reason = Status.HOLDS, "there is no room beside them."
    weak = sum(strength < 1 for strength in strengths)
    if weak:
        reason += (
            f" In {fraction(weak, len(lost))} draws that is weak content, shorter than position: "
            "it need not be strong."
        )
    return Verdict(
        status,
        (
            _strength(
                f"norm of content over position where order is lost, median of {count}",
                statistics.median(strengths),
            ),
            _strength("the least of the draws", min(strengths)),
            _strength("the most of the draws", max(strengths)),
            Number("pairs in order there, mean", statistics.fmean(accuracies)),
            Number(
                "pairs in order for a decoder that removes the words' span, mean",
                statistics.fmean(without_words),
            ),
        ),
        f"Content is added to position and made stronger, in {count} of {WORDS} words. At "
        f"{_strengths(strengths)} the norm of position, a decoder that knows no words puts "
        f"{_percent(accuracies)} of pairs in order. A decoder that removes the span of the words in "
        f"{sizes.dim:,} dimensions puts {_percent(without_words)} in order: {reason}",
        Number("pairs in order where content is concatenated", concatenated),
    )


def _strength(name: str, strength: float) -> Number:
    """Return a strength with its unit; the weakest one tried is a bound."""
    return Number(name, strength, "times" if strength > WEAKEST else "times or less")


def _strengths(strengths: list[float]) -> str:
    """Return the least and the most content that loses order, as a bound at the weakest tried."""
    least, most = figure(min(strengths)), figure(max(strengths))
    bound = " or less" if min(strengths) <= WEAKEST else ""
    return f"{least}{bound} times" if least == most else f"{least}{bound} to {most} times"


def _percent(shares: list[float]) -> str:
    least, most = (f"{100 * limit:.0f}" for limit in (min(shares), max(shares)))
    return f"{least}%" if least == most else f"{least} to {most}%"
