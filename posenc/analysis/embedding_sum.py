r"""The size of position vectors relative to token embeddings in their sum.

Vaswani et al. 2017, arXiv 1706.03762, section 3.4, multiply the token embedding by sqrt(d_model) before
the sum. What that does depends on how embeddings start: entries of standard deviation s make a token of
root mean square norm :math:`s \sqrt{d}`, multiplied :math:`s\,d`. Content and position are independent and
content has mean 0, so the squared norms add: position's share of the sum is P^2 / (P^2 + C^2).
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.analysis.inputs import Seed, as_float64, as_generator
from posenc.errors import SchemeArgumentError, quoted
from posenc.limits import MAX_DIM, MAX_POSITION, check_choice, check_count
from posenc.notebook import Shown
from posenc.schemes.trainable import INITIAL_STD

# Token initializations by a short name; `token_deviation` says which models use them.
STARTS = {
    "1/d": "N(0, 1/d)",
    "1": "N(0, 1)",
    "0.02": "N(0, 0.02²)",
    "xavier": "Xavier, uniform",
}
VOCABULARY = 37_000  # Vaswani et al. 2017, section 5.1: byte pairs of English and German


@dataclass(frozen=True)
class EmbeddingSum(Shown):
    """Root mean square norms of token and position, and position's share of their sum.

    `scaled` is with the factor sqrt(d) on the token, `plain` without. ratio: token / position, infinite
    where positions are 0. share: position's share of the sum's expected squared norm, 0 to 1.
    """

    token: float
    position: float
    ratio_scaled: float
    ratio_plain: float
    share_scaled: float
    share_plain: float


def token_deviation(start: str, dim: int) -> float:
    """Return the standard deviation of the entries of an embedding before training.

    "1/d": N(0, 1/d), tensor2tensor's. "1": N(0, 1), torch.nn.Embedding. "0.02": N(0, 0.02^2), BERT and
    GPT-2. "xavier": uniform in +-sqrt(6 / (V + d)), Glorot and Bengio 2010, eq. 16, of variance
    2 / (V + d), V = 37,000. Raises SchemeArgumentError for another start or width.
    """
    check_count("dim", dim, 1, MAX_DIM)
    check_choice("start", start, STARTS)
    xavier = (2 / (VOCABULARY + dim)) ** 0.5
    return {"1/d": dim**-0.5, "1": 1.0, "0.02": INITIAL_STD, "xavier": xavier}[start]


def draw_tokens(start: str, count: int, dim: int, seed: Seed) -> Float[Tensor, "n d"]:
    """Return `count` token embeddings as before training, float64 on the CPU."""
    generator, deviation = as_generator(seed), token_deviation(start, dim)
    check_count("count", count, 1, MAX_POSITION)
    rows = torch.empty(count, dim, dtype=torch.float64, device="cpu")
    if start == "xavier":  # a uniform number in +-a has deviation a / sqrt(3)
        return (2 * rows.uniform_(generator=generator) - 1) * (math.sqrt(3) * deviation)
    return rows.normal_(generator=generator) * deviation


def row_norm(rows: Float[Tensor, "n d"]) -> float:
    """Return the root mean square norm of the finite rows, NaN where there is none."""
    squares = as_float64("rows", rows, "(positions, width)").square().sum(dim=1)
    return squares[squares.isfinite()].mean().sqrt().item()


def content_and_position(position: float, dim: int, start: str) -> EmbeddingSum:
    """Return how tokens before training compare with positions of root mean square norm `position`.

    Closed forms: token norm s sqrt(d) for entries of deviation s (`token_deviation`); sinusoidal rows
    all have norm sqrt(d / 2). Raises SchemeArgumentError for a negative norm or a bad start.
    """
    if not position >= 0 and not math.isnan(position):
        raise SchemeArgumentError(f"position must be a norm of 0 or more, got {quoted(position)}.")
    token = token_deviation(start, dim) * math.sqrt(dim)
    scaled = token * math.sqrt(dim)
    return EmbeddingSum(
        token=token,
        position=position,
        ratio_scaled=scaled / position if position else math.inf,
        ratio_plain=token / position if position else math.inf,
        share_scaled=position**2 / (position**2 + scaled**2),
        share_plain=position**2 / (position**2 + token**2),
    )
