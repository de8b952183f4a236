"""Wavelengths and coverage of sinusoidal and rotary frequencies within a length.

Pair m advances by inv_freq_m radians per position, so its wavelength is 2 pi / inv_freq_m positions
(Vaswani et al. 2017, section 3.5, arXiv 1706.03762). Pair 0 is the fastest. A pair completes a turn
within a length when length * inv_freq >= 2 pi: exactly one turn counts.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.analysis.inputs import as_inv_freq
from posenc.frequencies import Frequencies
from posenc.limits import check_base, check_count, check_width
from posenc.notebook import Shown, View, numbers_of, title_of
from posenc.schemes.base import Request, check_request
from posenc.tables import cosine_sum

SCANNED_OFFSETS = 65_536  # below which `scheme_coverage` looks for B(k) < 0
_CHUNK = 2**16  # offsets scanned at once


@dataclass(frozen=True, eq=False)
class Spectrum(Shown):
    """Wavelengths of an encoding and how much of each a length covers.

    `inv_freq` (pairs,): radians per position. `wavelengths` (pairs,): positions per turn, infinite
    for a constant pair. `turns` (pairs,) within the length, and how many pairs stay under one
    radian, stay under a quarter turn, and complete a turn there.
    """

    inv_freq: Float[Tensor, " pairs"]
    wavelengths: Float[Tensor, " pairs"]
    turns: Float[Tensor, " pairs"]
    under_one_radian: int
    under_quarter_turn: int
    full_turn_pairs: int

    def view(self) -> View:
        return View(
            title=title_of(self),
            numbers=numbers_of(self),
            columns={
                "pair": range(len(self.turns)),
                "inverse frequency": self.inv_freq,
                "wavelength": self.wavelengths,
                "turns": self.turns,
            },
            x="pair",
            lines=("turns",),
        )


@dataclass(frozen=True, eq=False)
class SchemeCoverage(Shown):
    """Coverage of a scheme's frequencies within a training length.

    `critical_dimension`: twice the pairs with a full turn, which is what Liu's formula counts.
    `first_negative`: the first offset below `scanned` with B(k) < 0, or None.
    """

    turns: Float[Tensor, " pairs"]
    full_turn_pairs: int
    critical_dimension: int
    rotary_dim: int
    first_negative: int | None
    scanned: int

    def view(self) -> View:
        return View(
            title=title_of(self),
            numbers=numbers_of(self),
            columns={"pair": range(len(self.turns)), "turns": self.turns},
            x="pair",
            lines=("turns",),
        )


def spectrum(inv_freq: Float[Tensor, " pairs"], length: int) -> Spectrum:
    """Return wavelengths 2 pi / inv_freq in positions, and turns length * inv_freq / (2 pi).

    A pair without a full turn meets angles past `length` that training never showed.
    Raises SchemeArgumentError for a frequency that is negative or not finite, or a length below 1.
    Source: Vaswani et al. 2017, arXiv 1706.03762, section 3.5; Liu et al. 2023, arXiv 2310.05209.
    """
    inv_freq = as_inv_freq(inv_freq)
    turns = inv_freq * check_count("length", length, 1, 2**31) / (2 * math.pi)
    return Spectrum(
        inv_freq=inv_freq,
        wavelengths=2 * math.pi / inv_freq,
        turns=turns,
        under_one_radian=int((inv_freq * length < 1).sum()),
        under_quarter_turn=int((turns < 1 / 4).sum()),
        full_turn_pairs=int((turns >= 1).sum()),
    )


def critical_dimension(dim: int, base: float, length: int) -> int:
    """Return the number of dimensions whose wavelength fits into the training length.

    2 * ceil((dim / 2) * log_base(length / (2 pi))), kept within [0, dim]. LLaMA-2 (dim 128, base
    10000, length 4096): 92.
    Raises SchemeArgumentError for an odd width, a base not above 1, or a length below 1.
    Source: Liu et al. 2023, arXiv 2310.05209.
    """
    check_width("dim", dim)
    periods = check_count("length", length, 1, 2**31) / (2 * math.pi)
    pairs = math.ceil(dim / 2 * math.log(periods) / math.log(check_base(base)))
    return 2 * min(max(pairs, 0), dim // 2)


def base_bound_curve(inv_freq: Float[Tensor, " pairs"], length: int) -> Float[Tensor, " length"]:
    """Return B(k) = sum_m cos(k * inv_freq_m) for k = 0 .. length-1, (length,), no unit.

    How much more a token attends to a similar token than to a random one at offset k: below 0 the
    wrong one wins. Float64 with exact angles: error about 1e-16 per pair.
    Raises SchemeArgumentError for bad frequencies or a length outside 1 .. 2^27.
    Source: Men et al. 2024, arXiv 2405.14591.
    """
    check_count("length", length, 1, 2**27)
    inv_freq = as_inv_freq(inv_freq)
    offsets = torch.arange(length, device=inv_freq.device)
    return cosine_sum(offsets, Frequencies.from_inv_freq(inv_freq))


def first_negative_offset(inv_freq: Float[Tensor, " pairs"], limit: int) -> int | None:
    """Return the first offset k < `limit` with B(k) < 0, or None when there is none.

    Scans in chunks and stops at the first. Width 128: base 10000 gives 1,707, 5e5 gives 18,438,
    1e6 gives 27,115.
    Raises SchemeArgumentError for bad frequencies or a limit outside 1 .. 2^31.
    Source: Men et al. 2024, arXiv 2405.14591.
    """
    check_count("limit", limit, 1, 2**31)
    inv_freq = as_inv_freq(inv_freq)
    frequencies = Frequencies.from_inv_freq(inv_freq)
    for start in range(0, limit, _CHUNK):
        offsets = torch.arange(start, min(start + _CHUNK, limit), device=inv_freq.device)
        negative = (cosine_sum(offsets, frequencies) < 0).nonzero()
        if len(negative):
            return start + int(negative[0])
    return None


def scheme_coverage(request: Request, train_length: int) -> SchemeCoverage | None:
    """Return what a scheme's frequencies cover in training, None for a scheme without any."""
    check_request(request)
    inv_freq = request.build("cpu").inv_freq
    if inv_freq is None:
        return None
    coverage = spectrum(inv_freq, train_length)
    return SchemeCoverage(
        turns=coverage.turns,
        full_turn_pairs=coverage.full_turn_pairs,
        critical_dimension=2 * coverage.full_turn_pairs,
        rotary_dim=2 * len(inv_freq),
        first_negative=first_negative_offset(inv_freq, SCANNED_OFFSETS),
        scanned=SCANNED_OFFSETS,
    )
