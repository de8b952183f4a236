"""Exact inverse frequencies, sines and cosines of their angles, and the layouts of pairs.

Vaswani et al. 2017, arXiv 1706.03762, section 3.5; Su et al. 2021, arXiv 2104.09864, section 3.2.2.

An angle is never a floating-point product: a frequency is a fixed-point fraction of a cycle, so that
position times frequency modulo one cycle is exact integer arithmetic.

Layouts: "interleaved" pairs features (2m, 2m + 1), as the papers do; "half" pairs (m, m + pairs).
"""

import decimal
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.errors import SchemeArgumentError, quoted
from posenc.limits import MAX_DIM, check_base, check_width

Layout = Literal["interleaved", "half"]


def check_layout(layout: str) -> None:
    """Raise SchemeArgumentError unless `layout` is one of the two."""
    if layout not in ("interleaved", "half"):
        raise SchemeArgumentError(f'layout must be "interleaved" or "half", got {quoted(layout)}.')


def interleaved_to_half(dim: int) -> Int[Tensor, " dim"]:
    """Return the index that takes interleaved features to half-split order, y = x[..., index].

    dim: even width. Returns (dim,) int64: 0, 2, 4, ..., 1, 3, 5, ...
    """
    return torch.arange(check_width("dim", dim)).view(-1, 2).T.flatten()


def join_pairs(
    first: Float[Tensor, "*n pairs"], second: Float[Tensor, "*n pairs"], layout: Layout
) -> Float[Tensor, "*n dim"]:
    """Return one table of the first and second members of pairs, in the order of a layout."""
    if layout == "interleaved":
        return torch.stack((first, second), dim=-1).flatten(-2)
    return torch.cat((first, second), dim=-1)


_WORD = 2**32 - 1
_CYCLE_BITS = 96
_PI_BITS = 1_280  # enough to reduce the largest float64 modulo one cycle


@dataclass(frozen=True)
class Frequencies:
    """Exact inverse frequencies theta; equal and hashable by what they were made from.

    cycles: (3, pairs) int64 on CPU: the fraction of a cycle per position, theta / (2 pi) mod 1, as
    96-bit fixed point in three 32-bit words, highest first.
    inv_freq: (pairs,) float64 on CPU: theta in radians per position, correctly rounded.
    """

    key: tuple[object, ...]
    cycles: Int[Tensor, "3 pairs"] = field(compare=False, repr=False)
    inv_freq: Float[Tensor, " pairs"] = field(compare=False, repr=False)

    @property
    def pairs(self) -> int:
        """Number of frequencies: half the width of a table."""
        return self.inv_freq.numel()

    @staticmethod
    def geometric(dim: int, base: float = 10000.0) -> "Frequencies":
        """Return the frequencies base^(-2m/dim), m = 0 .. dim/2 - 1, from 80-digit powers.

        Raises SchemeArgumentError for an odd or too large dim, or a base outside (1, 1e12].
        """
        return _geometric(check_width("dim", dim), check_base(base))

    @staticmethod
    def from_inv_freq(inv_freq: Float[Tensor, " pairs"] | Sequence[float]) -> "Frequencies":
        """Return frequencies as a checkpoint stores them: each binary number is taken as exact.

        Raises SchemeArgumentError unless it is one row of 1 to 32,768 finite floating-point numbers.
        """
        if not isinstance(inv_freq, Tensor):
            try:
                inv_freq = torch.tensor(inv_freq, dtype=torch.float64, device="cpu")
            except (TypeError, ValueError, RuntimeError, OverflowError):
                raise SchemeArgumentError(
                    f"inv_freq must be one row of numbers, got {quoted(inv_freq)}."
                ) from None
        if inv_freq.ndim != 1 or not 1 <= inv_freq.numel() <= MAX_DIM // 2:
            raise SchemeArgumentError(
                f"inv_freq must be one row of 1 to {MAX_DIM // 2:,} numbers, "
                f"got shape {tuple(inv_freq.shape)}."
            )
        if not inv_freq.is_floating_point():
            raise SchemeArgumentError(f"inv_freq must be floating point, got {inv_freq.dtype}.")
        exact = inv_freq.detach().cpu().double()
        if not bool(exact.isfinite().all()):
            raise SchemeArgumentError("inv_freq must be finite, but it holds NaN or infinity.")
        return _from_exact(tuple(exact.tolist()))


@functools.lru_cache(maxsize=64)
def _geometric(dim: int, base: float) -> Frequencies:
    with decimal.localcontext(decimal.Context(prec=80)):
        ratio = (decimal.Decimal(base).ln() * -2 / dim).exp()
        powers = [decimal.Decimal(1)]
        while len(powers) < dim // 2:
            powers.append(powers[-1] * ratio)
    return _frequencies(("geometric", dim, base), powers)


@functools.lru_cache(maxsize=64)
def _from_exact(inv_freq: tuple[float, ...]) -> Frequencies:
    return _frequencies(("inv_freq", inv_freq), inv_freq)


@torch.inference_mode(False)
def _frequencies(
    key: tuple[object, ...], exact: Sequence[float] | Sequence[decimal.Decimal]
) -> Frequencies:
    shift = _PI_BITS - _CYCLE_BITS
    words = []
    for theta in exact:
        numerator, denominator = theta.as_integer_ratio()
        scaled = numerator * _inverse_two_pi() // denominator
        cycle = ((scaled + (1 << (shift - 1))) >> shift) % (1 << _CYCLE_BITS)
        words.append((cycle >> 64, (cycle >> 32) & _WORD, cycle & _WORD))
    cycles = torch.tensor(words, dtype=torch.int64, device="cpu").T.contiguous()
    inv_freq = torch.tensor([float(x) for x in exact], dtype=torch.float64, device="cpu")
    return Frequencies(key, cycles, inv_freq)


@functools.cache
def _inverse_two_pi() -> int:
    """Return 2^_PI_BITS / (2 pi), rounded down; pi by Machin's formula with 64 guard bits."""
    bits = _PI_BITS + 64
    pi = 4 * (4 * _arctan_inverse(5, bits) - _arctan_inverse(239, bits))
    return (1 << (_PI_BITS + bits)) // (2 * pi)


def _arctan_inverse(n: int, bits: int) -> int:
    """Return arctan(1/n) * 2^bits by Gregory's series, truncated."""
    term = (1 << bits) // n
    total, k, sign = term, 1, 1
    while term:
        term //= n * n
        k, sign = k + 2, -sign
        total += sign * (term // k)
    return total


def exact_cos_sin(
    positions: Int[Tensor, " n"], frequencies: Frequencies
) -> tuple[Float[Tensor, "n pairs"], Float[Tensor, "n pairs"]]:
    """Return float64 cosine and sine of position * theta, the angle reduced exactly.

    |position| < 2^31.
    """
    p = positions.unsqueeze(-1)
    high, middle, low = frequencies.cycles.to(positions.device)
    # A word is below 2^32, so each product and sum stays inside a signed 64-bit number; shifts to
    # the right floor, which makes the carries right for negative positions too.
    low_sum = p * low
    middle_sum = (p * middle).add_(low_sum >> 32)
    # Whole cycles leave at the top; what remains is the cycle in [-1/2, 1/2), in units of 2^-64.
    high_sum = (p * high).add_(middle_sum >> 32)
    cycle = (high_sum << 32).add_(middle_sum & _WORD)
    # Folded into [-1/4, 1/4), because a smaller angle has a smaller absolute rounding error:
    # e^{i(t + pi)} = -e^{it}.
    folded = (cycle << 1) >> 1
    sign = torch.where(folded == cycle, 1.0, -1.0)
    angle = folded.double().mul_(math.tau * 2.0**-64)
    angle.add_((low_sum & _WORD).double().mul_(math.tau * 2.0**-96))
    return torch.cos(angle).mul_(sign), torch.sin(angle).mul_(sign)
