"""The ladder of wavelengths behind sinusoidal and rotary encodings.

Vaswani et al. 2017, section 3.5, arXiv 1706.03762: pair m turns by inv_freq_m radians per position,
so its wavelength is 2 pi / inv_freq_m positions. Pair 0 is the fastest.
"""

import math
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from posenc.analysis.inputs import as_float64
from posenc.errors import SchemeArgumentError, shown

# A multiple of a 22-bit number by an integer below 2^31 is exact in float64's 53 bits.


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
