"""The ladder of wavelengths behind sinusoidal and rotary encodings.

Vaswani et al. 2017, section 3.5, arXiv 1706.03762: pair m turns by inv_freq_m radians per position,
so its wavelength is 2 pi / inv_freq_m positions. Pair 0 is the fastest.
"""

import math
from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from posenc.analysis.inputs import as_float64
from posenc.errors import SchemeArgumentError, shown

# A multiple of a 22-bit number by an integer below 2^31 is exact in float64's 53 bits.
_VELTKAMP_22 = 2.0**31 + 1.0


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Wavelengths of an encoding and how much of each a length covers.

    `inv_freq` (pairs,): radians per position. `wavelengths` (pairs,): positions per full turn,
    infinite for a pair that never turns. The rest is None without a length: `turns` (pairs,), the
    full turns a pair makes over `length` positions, and the pairs that stay `under_one_radian`,
    stay `under_quarter_turn` and go `over_full_turn` there.
    """

    inv_freq: Float[Tensor, " pairs"]
    wavelengths: Float[Tensor, " pairs"]
    length: int | None
    turns: Float[Tensor, " pairs"] | None
    under_one_radian: int | None
    under_quarter_turn: int | None
    over_full_turn: int | None


def as_inv_freq(inv_freq: object) -> Float[Tensor, " pairs"]:
    """Return inverse frequencies as float64, or raise SchemeArgumentError for a bad one."""
    inv_freq = as_float64("inv_freq", inv_freq, "(pairs,)")
    if not (inv_freq.isfinite() & (inv_freq >= 0)).all():
        raise SchemeArgumentError(
            "inv_freq must be finite and not negative, in radians per position."
        )
    return inv_freq


def check_length(name: str, length: int, low: int = 1, high: int = 2**31) -> int:
    """Return a number of positions from `low` to `high`, or raise SchemeArgumentError."""
    if isinstance(length, bool) or not isinstance(length, int) or not low <= length <= high:
        raise SchemeArgumentError(
            f"{name} must be a whole number from {low:,} to {high:,}, got {shown(length)}."
        )
    return length


def spectrum(inv_freq: Float[Tensor, " pairs"], length: int | None = None) -> Spectrum:
    """Wavelengths 2 pi / inv_freq in positions and, given a length, the turns made within it.

    A pair makes length * inv_freq / (2 pi) turns: a wavelength equal to the length is one turn.
    Raises SchemeArgumentError for a frequency that is negative or not finite, or a length below 1.
    Source: Vaswani et al. 2017, arXiv 1706.03762, section 3.5.
    """
    inv_freq = as_inv_freq(inv_freq)
    wavelengths = 2 * math.pi / inv_freq
    if length is None:
        return Spectrum(inv_freq, wavelengths, None, None, None, None, None)
    angles = inv_freq * check_length("length", length)
    return Spectrum(
        inv_freq=inv_freq,
        wavelengths=wavelengths,
        length=length,
        turns=angles / (2 * math.pi),
        under_one_radian=int((angles < 1).sum()),
        under_quarter_turn=int((angles < math.pi / 2).sum()),
        over_full_turn=int((angles > 2 * math.pi).sum()),
    )


def cos_sin(
    positions: Int[Tensor, " n"], inv_freq: Float[Tensor, " pairs"]
) -> tuple[Float[Tensor, "n pairs"], Float[Tensor, "n pairs"]]:
    """cos and sin of position * inv_freq, (n, pairs) each: error 2e-16, and 2e-14 near 2^31.

    A plain float64 product is off by half an ulp of the angle, 1e-10 at a million radians. Here
    inv_freq is split in two: the angle of its leading 22 bits is exact, that of the rest is small,
    and the two are joined by the addition theorem. The float64 values given are taken as exact.
    """
    large = inv_freq * _VELTKAMP_22
    leading = large - (large - inv_freq)
    count = positions.to(inv_freq.dtype)[:, None]
    coarse, fine = count * leading, count * (inv_freq - leading)
    cos_coarse, sin_coarse, cos_fine, sin_fine = coarse.cos(), coarse.sin(), fine.cos(), fine.sin()
    return (
        cos_coarse * cos_fine - sin_coarse * sin_fine,
        sin_coarse * cos_fine + cos_coarse * sin_fine,
    )
