"""Formulas of frequencies and factors that several engines share, in float64.

Each engine's reader calls them with the numbers that its own file takes. YaRN: Peng et al. 2023, arXiv
2309.00071, as in public code. LongRoPE: Ding et al. 2024, arXiv 2402.13753. Dynamic: Peng et al.,
section 3.3. Llama 3: Meta's published code.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.models.engines.config_view import Block
from posenc.models.rope_types import TRAINED

InvFreq = Float[Tensor, " pairs"]
BETA_FAST, BETA_SLOW = 32.0, 1.0  # where a block gives none


def plain(base: float, dim: int) -> InvFreq:
    """Return base^(-2m/dim)."""
    powers: Tensor = base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    return powers


def grown(base: float, dim: int, growth: float) -> InvFreq:
    """Return the frequencies at a base times growth^(dim/(dim-2))."""
    return plain(base * growth ** (dim / max(dim - 2, 1)), dim)


def yarn(base: float, dim: int, block: Block, trained: float, *, truncate: bool = True) -> InvFreq:
    """Return the frequencies of YaRN's ramp over pairs. truncate: round its ends to whole pairs."""
    betas = (block.get("beta_fast") or BETA_FAST, block.get("beta_slow") or BETA_SLOW)
    low, high = (
        dim * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(base)) for turns in betas
    )
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    high += 0.001 if low == high else 0
    share = ((torch.arange(dim // 2, dtype=torch.float64) - low) / (high - low)).clamp(0, 1)
    inv_freq = plain(base, dim)
    return inv_freq / block["factor"] * share + inv_freq * (1 - share)


def llama3(base: float, dim: int, block: Block, trained: float) -> InvFreq:
    """Return Llama 3's frequencies, whose short waves stay and whose long ones are divided."""
    low, high = block.get("low_freq_factor", 1.0), block.get("high_freq_factor", 4.0)
    inv_freq, factor = plain(base, dim), block["factor"]
    waves = trained * inv_freq / (2 * math.pi)  # in the trained length
    share = (waves >= low).double() if low == high else (waves - low) / (high - low)
    share = share.clamp(0, 1)
    return inv_freq / factor * (1 - share) + inv_freq * share


def longrope(base: float, dim: int, factors: Sequence[float]) -> InvFreq:
    """Return the frequencies divided by a factor for each pair."""
    return plain(base, dim) / torch.tensor(factors, dtype=torch.float64)


def by_type(rope_type: str, base: float, dim: int, block: Block, trained: float) -> InvFreq:
    """Return the frequencies of a type that every engine reads alike: plain, linear, yarn, llama3.

    block: with its factor. trained: the length before scaling.
    """
    if rope_type == "linear":
        return plain(base, dim) / block["factor"]
    if rope_type == "yarn":
        return yarn(base, dim, block, trained, truncate=bool(block.get("truncate", True)))
    if rope_type == "llama3":
        return llama3(base, dim, block, trained)
    return plain(base, dim)


def scale_of(factor: float, weight: float = 1.0) -> float:
    """Return g(s, m) = 0.1 m ln s + 1, and 1 for s up to 1."""
    return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0


def weighted_attention(block: Block) -> float:
    """Return g(s, mscale) / g(s, mscale_all_dim), with 1 and 0 where the block gives none."""
    factor = block["factor"]
    above, below = block.get("mscale", 1.0), block.get("mscale_all_dim", 0.0)
    return scale_of(factor, above) / scale_of(factor, below)


def longrope_attention(context: float, trained: float) -> float:
    """Return sqrt(1 + ln s / ln L0) for the context over the trained length, s."""
    factor = context / trained
    return 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(trained))


def dynamic_growth(factor: float, length: float, trained: float) -> float:
    """Return s n / L0 - (s - 1) for a text of n tokens, at least L0."""
    return factor * max(length, trained) / trained - (factor - 1)


def latent_softmax(block: Block) -> float:
    """Return g(s, mscale_all_dim)^2, by which DeepSeek's classes multiply the softmax scale."""
    weight: Any = block.get("mscale_all_dim") or 0.0
    return scale_of(block["factor"], weight) ** 2


def trained_of(block: Block, default: int) -> int:
    """Return the length before scaling that a block gives."""
    length: int = block.get(TRAINED) or default
    return length
