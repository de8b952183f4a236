"""An exact ladder of frequencies, and sines and cosines of its angles at any whole position.

Vaswani et al. 2017, arXiv 1706.03762, section 3.5; Su et al. 2021, arXiv 2104.09864, section 3.2.2.

The angle is never a floating-point product: the ladder is held as fixed-point fractions of a turn,
so position times frequency modulo one turn is exact integer arithmetic.

The two orders of features in which sines and cosines, or the pairs that a rotation turns, stand.

"interleaved" pairs features (2m, 2m + 1), as the papers do; "half" pairs (m, m + pairs).
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

from posenc.errors import SchemeArgumentError, shown
from posenc.limits import MAX_DIM, check_base, check_width

Layout = Literal["interleaved", "half"]


def check_layout(layout: str) -> None:
    """Raise SchemeArgumentError unless `layout` is one of the two."""
    if layout not in ("interleaved", "half"):
        raise SchemeArgumentError(f'layout must be "interleaved" or "half", got {shown(layout)}.')


def interleaved_to_half(dim: int) -> Int[Tensor, " dim"]:
    """Index that takes interleaved features to half-split order, y = x[..., index].

    dim: even width. Returns (dim,) int64: 0, 2, 4, ..., 1, 3, 5, ...
    """
    return torch.arange(check_width("dim", dim)).view(-1, 2).T.flatten()


def half_to_interleaved(dim: int) -> Int[Tensor, " dim"]:
    """Index that takes half-split features to interleaved order, y = x[..., index].

    dim: even width. Returns (dim,) int64: 0, dim/2, 1, dim/2 + 1, ...
    """
    return torch.arange(check_width("dim", dim)).view(2, -1).T.flatten()


_LIMB = 2**32 - 1
_FRACTION_BITS = 96
_PI_BITS = 1_280  # enough to reduce the largest float64 modulo one turn


def _arctan_inverse(n: int, bits: int) -> int:
    """arctan(1/n) * 2^bits by Gregory's series, truncated."""
    term = (1 << bits) // n
    total, k, sign = term, 1, 1
    while term:
        term //= n * n
        k, sign = k + 2, -sign
        total += sign * (term // k)
    return total


@functools.cache
def _inverse_two_pi() -> int:
    """2^_PI_BITS / (2 pi), rounded down; pi by Machin's formula with 64 guard bits."""
    bits = _PI_BITS + 64
    pi = 4 * (4 * _arctan_inverse(5, bits) - _arctan_inverse(239, bits))
    return (1 << (_PI_BITS + bits)) // (2 * pi)


@dataclass(frozen=True)
class Frequencies:
    """An exact ladder of frequencies; equal and hashable by the configuration that made it.

    limbs: (3, pairs) int64 on CPU: the fraction of a turn per position, theta / (2 pi) mod 1, as
    96-bit fixed point in three 32-bit limbs, highest first.
    inv_freq: (pairs,) float64 on CPU: theta in radians per position, correctly rounded.
    """

    key: tuple[object, ...]
    limbs: Int[Tensor, "3 pairs"] = field(compare=False, repr=False)
    inv_freq: Float[Tensor, " pairs"] = field(compare=False, repr=False)

    @property
    def pairs(self) -> int:
        """Number of frequencies: half the width of a table."""
        return self.inv_freq.numel()

    @staticmethod
    def geometric(dim: int, base: float = 10000.0) -> "Frequencies":
        """The ladder base^(-2m/dim), m = 0 .. dim/2 - 1, from 80-digit powers.

        Raises SchemeArgumentError for an odd or too large dim, or a base outside (1, 1e12].
        """
        return _geometric(check_width("dim", dim), check_base(base))

    @staticmethod
    def from_inv_freq(inv_freq: Float[Tensor, " pairs"] | Sequence[float]) -> "Frequencies":
        """A ladder as a checkpoint stores it: each binary number is taken as the exact frequency.

        Raises SchemeArgumentError unless it is one row of 1 to 32,768 finite floating-point numbers.
        """
        ladder = inv_freq
        if not isinstance(ladder, Tensor):
            ladder = torch.tensor(ladder, dtype=torch.float64, device="cpu")
        if ladder.ndim != 1 or not 1 <= ladder.numel() <= MAX_DIM // 2:
            raise SchemeArgumentError(
                f"inv_freq must be one row of 1 to {MAX_DIM // 2:,} numbers, "
                f"got shape {tuple(ladder.shape)}."
            )
        if not ladder.is_floating_point():
            raise SchemeArgumentError(f"inv_freq must be floating point, got {ladder.dtype}.")
        exact = ladder.detach().cpu().double()
        if not bool(exact.isfinite().all()):
            raise SchemeArgumentError("inv_freq must be finite, but it holds NaN or infinity.")
        return _given(tuple(exact.tolist()))


def _phases(
    key: tuple[object, ...], ladder: Sequence[float], ratios: Sequence[tuple[int, int]]
) -> Frequencies:
    """Frequencies of a correctly rounded ladder and its exact frequencies as ratios of integers."""
    shift = _PI_BITS - _FRACTION_BITS
    limbs = []
    for numerator, denominator in ratios:
        scaled = numerator * _inverse_two_pi() // denominator
        turn = ((scaled + (1 << (shift - 1))) >> shift) % (1 << _FRACTION_BITS)
        limbs.append((turn >> 64, (turn >> 32) & _LIMB, turn & _LIMB))
    columns = torch.tensor(limbs, dtype=torch.int64, device="cpu")
    inv_freq = torch.tensor(ladder, dtype=torch.float64, device="cpu")
    return Frequencies(key, columns.T.contiguous(), inv_freq)


@functools.lru_cache(maxsize=64)
@torch.inference_mode(False)
def _geometric(dim: int, base: float) -> Frequencies:
    with decimal.localcontext(decimal.Context(prec=80)):
        ratio = (decimal.Decimal(base).ln() * -2 / dim).exp()
        theta, ladder = decimal.Decimal(1), []
        for _ in range(dim // 2):
            ladder.append(theta)
            theta *= ratio
    rounded = [float(theta) for theta in ladder]
    return _phases(("geometric", dim, base), rounded, [x.as_integer_ratio() for x in ladder])


@functools.lru_cache(maxsize=64)
@torch.inference_mode(False)
def _given(ladder: tuple[float, ...]) -> Frequencies:
    return _phases(("given", ladder), ladder, [theta.as_integer_ratio() for theta in ladder])


def exact_cos_sin(
    positions: Int[Tensor, " n"], limbs: Int[Tensor, "3 pairs"]
) -> tuple[Float[Tensor, "n pairs"], Float[Tensor, "n pairs"]]:
    """Float64 cosine and sine of position * theta, the angle reduced exactly; |position| < 2^31."""
    p = positions.unsqueeze(-1)
    # A limb is below 2^32, so each product and sum stays inside a signed 64-bit number; shifts to
    # the right floor, which makes the carries right for negative positions too.
    low = p * limbs[2]
    mid = (p * limbs[1]).add_(low >> 32)
    high = (p * limbs[0]).add_(mid >> 32)
    # Whole turns leave at the top; what remains is the turn in [-1/2, 1/2), in units of 2^-64.
    turn = (high << 32).add_(mid.bitwise_and_(_LIMB))
    # Folded into [-1/4, 1/4), because a smaller angle has a smaller absolute rounding error:
    # e^{i(t + pi)} = -e^{it}, and where half a turn was cut the two differ in the sign bit alone.
    folded = (turn << 1) >> 1
    negate = turn.bitwise_xor_(folded)
    angle = folded.double().mul_(math.tau * 2.0**-64)
    angle.add_(low.bitwise_and_(_LIMB).double().mul_(math.tau * 2.0**-96))
    bits = torch.cos(angle).view(torch.int64), torch.sin(angle).view(torch.int64)
    cos, sin = (plane.bitwise_xor_(negate).view(torch.float64) for plane in bits)
    return cos, sin
