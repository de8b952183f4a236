"""What the formula alone says about positions past a training length L.

Nothing here is measured extrapolation: a formula that is defined past L is not a model that works
past L; only a trained model shows that. Axes: pairs = width / 2, n positions; inverse frequencies
in radians per position.
Sources: Liu et al. 2023, arXiv 2310.05209; Men et al. 2024, arXiv 2405.14591; Su et al. 2021,
arXiv 2104.09864, section 3.4.3.

What formulas give past the training length, plain and uncached; never a measurement.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.analysis.inputs import as_float64, kernel_or_curve
from posenc.analysis.spectrum import as_inv_freq, check_length
from posenc.errors import SchemeArgumentError
from posenc.frequencies import Frequencies
from posenc.kernel import offset_curve
from posenc.limits import check_base, check_width
from posenc.settings import Query
from posenc.tables import cos_sin, cosine_sum

_CHUNK = 2**16  # offsets scanned at once
_BLOCK_ELEMENTS = 2**21  # scratch of one block: 16 MiB of float64


@dataclass(frozen=True, eq=False)
class PhaseCoverage:
    """How much of its circle each pair has been seen on within a training length.

    `turns` (pairs,): full turns made in `length` positions, 1 is one whole turn. `full_turn_pairs`:
    how many pairs make at least one. `share`: that number over all pairs.
    """

    length: int
    turns: Float[Tensor, " pairs"]
    full_turn_pairs: int
    share: float


@dataclass(frozen=True, eq=False)
class KernelPast:
    """A kernel by offset, inside and past a training length, in the kernel's unit.

    `offsets` (n,): distance 0 .. n-1 of a key before its query. `values` (n,). `seen_low`,
    `seen_high`: the range for offsets below `train_length`. `outside`: how many later offsets have
    a value out of that range; `first_outside`: the first of them, or None.
    """

    train_length: int
    offsets: Int[Tensor, " n"]
    values: Float[Tensor, " n"]
    seen_low: float
    seen_high: float
    outside: int
    first_outside: int | None


@dataclass(frozen=True, eq=False)
class NearestSeen:
    """For every position from `train_length` on, the nearest position below it.

    `positions` (m,). `nearest` (m,): a position below `train_length`, -1 where the distance is NaN.
    `distance` (m,): Euclidean, in the unit of the vectors (the square root of the kernel's).
    `relative` (m,): that over the norm of the position's own vector.
    """

    train_length: int
    positions: Int[Tensor, " m"]
    nearest: Int[Tensor, " m"]
    distance: Float[Tensor, " m"]
    relative: Float[Tensor, " m"]


def phase_coverage(inv_freq: Float[Tensor, " pairs"], length: int) -> PhaseCoverage:
    """Share of a full turn that each pair makes in `length` positions: length * inv_freq / (2 pi).

    A pair that has not completed a turn meets angles past `length` that training never showed.
    Raises SchemeArgumentError for bad frequencies or a length below 1.
    Source: Liu et al. 2023, arXiv 2310.05209.
    """
    inv_freq = as_inv_freq(inv_freq)
    turns = inv_freq * check_length("length", length) / (2 * math.pi)
    full = int((turns >= 1).sum())
    return PhaseCoverage(length, turns, full, full / len(turns))


def critical_dimension(dim: int, base: float, length: int) -> int:
    """Number of dimensions whose wavelength fits into the training length.

    2 * ceil((dim / 2) * log_base(length / (2 pi))), kept within [0, dim]. LLaMA-2 (dim 128, base
    10000, length 4096): 92.
    Raises SchemeArgumentError for an odd width, a base not above 1, or a length below 1.
    Source: Liu et al. 2023, arXiv 2310.05209.
    """
    check_width("dim", dim)
    base = check_base(base)
    check_length("length", length)
    pairs = math.ceil(dim / 2 * math.log(length / (2 * math.pi)) / math.log(base))
    return 2 * min(max(pairs, 0), dim // 2)


def base_bound_curve(inv_freq: Float[Tensor, " pairs"], length: int) -> Float[Tensor, " length"]:
    """B(k) = sum_m cos(k * inv_freq_m) for k = 0 .. length-1, (length,), no unit.

    How much more a token attends to a similar token than to a random one at offset k: below 0 the
    wrong one wins. float64 with exact angles: error about 1e-16 per pair.
    Raises SchemeArgumentError for bad frequencies or a length outside 1 .. 2^27.
    Source: Men et al. 2024, arXiv 2405.14591.
    """
    check_length("length", length, high=2**27)
    inv_freq = as_inv_freq(inv_freq)
    offsets = torch.arange(length, device=inv_freq.device)
    return cosine_sum(offsets, Frequencies.from_inv_freq(inv_freq))


def first_negative_offset(inv_freq: Float[Tensor, " pairs"], limit: int) -> int | None:
    """The first offset k < `limit` with B(k) < 0, or None when there is none.

    Scans in chunks and stops at the first. Not monotone in the base, so nothing is bisected.
    Width 128: base 10000 gives 1,707, 5e5 gives 18,438, 1e6 gives 27,115.
    Raises SchemeArgumentError for bad frequencies or a limit outside 1 .. 2^31.
    Source: Men et al. 2024, arXiv 2405.14591.
    """
    check_length("limit", limit)
    inv_freq = as_inv_freq(inv_freq)
    frequencies = Frequencies.from_inv_freq(inv_freq)
    for start in range(0, limit, _CHUNK):
        offsets = torch.arange(start, min(start + _CHUNK, limit), device=inv_freq.device)
        negative = (cosine_sum(offsets, frequencies) < 0).nonzero()
        if len(negative):
            return start + int(negative[0])
    return None


def long_term_decay_bound(
    inv_freq: Float[Tensor, " pairs"], length: int
) -> Float[Tensor, " length"]:
    """Upper bound on a rotary score's size by offset 0 .. length-1, (length,); not the score.

    (1 / pairs) * sum_{i=1..pairs} |S_i| with S_i = sum_{m<i} exp(1j * k * inv_freq_m), pair 0
    first.
    Raises SchemeArgumentError for bad frequencies or a length outside 1 .. 2^24.
    Source: Su et al. 2021, arXiv 2104.09864, section 3.4.3.
    """
    inv_freq = as_inv_freq(inv_freq)
    check_length("length", length, high=2**24)
    bound = torch.empty(length, dtype=inv_freq.dtype, device=inv_freq.device)
    frequencies = Frequencies.from_inv_freq(inv_freq)
    step = max(1, _BLOCK_ELEMENTS // len(inv_freq))
    for start in range(0, length, step):
        offsets = torch.arange(start, min(start + step, length), device=inv_freq.device)
        planes = cos_sin(offsets, frequencies, dtype=torch.float64)
        cos, sin = (plane.cumsum(1) for plane in planes)
        bound[start : start + step] = torch.hypot(cos, sin).mean(1)
    return bound


def kernel_past(curve: Float[Tensor, " offsets"], train_length: int) -> KernelPast:
    """A stationary kernel's values past a training length, against the range seen within it.

    `curve` (2n-1,) over key minus query; the side of keys before their query is read. A value past
    `train_length` counts as outside by more than rounding: 1e-12 of the end of the seen range it
    passes where all values have one sign (an exponential is exact to its own size), and of the
    largest magnitude where they do not (a sum of cosines is exact to the size of its terms).
    Raises SchemeArgumentError for a curve of even length or a train_length outside 1 .. n.
    """
    curve, _ = kernel_or_curve(None, curve)
    count = (len(curve) + 1) // 2
    check_length("train_length", train_length, high=count)
    values = curve[:count].flip(0)
    seen = values[:train_length]
    low, high = seen.amin(), seen.amax()
    if values.amin() >= 0 or values.amax() <= 0:
        below, above = 1e-12 * low.abs(), 1e-12 * high.abs()
    else:
        below = above = 1e-12 * values.abs().amax()
    outside = (values[train_length:] < low - below) | (values[train_length:] > high + above)
    found = outside.nonzero()
    return KernelPast(
        train_length=train_length,
        offsets=torch.arange(count, device=curve.device),
        values=values,
        seen_low=low.item(),
        seen_high=high.item(),
        outside=len(found),
        first_outside=train_length + int(found[0]) if len(found) else None,
    )


def nearest_seen_distance(
    train_length: int,
    *,
    vectors: Float[Tensor, "n d"] | None = None,
    kernel: Float[Tensor, "n n"] | None = None,
    curve: Float[Tensor, " offsets"] | None = None,
) -> NearestSeen:
    """Distance of each position p >= train_length to the nearest position below train_length.

    From vectors (n, d) by differences; from a kernel (n, n) by K_ii + K_jj - K_ij - K_ji; from a
    curve (2n-1,) by 2 K(0) - K(k) - K(-k). The last two cannot tell distances below about 1e-8 of
    the norm from 0. A row that is not finite has the distance NaN and is nobody's nearest. Without
    a position past train_length the result is empty.
    Raises SchemeArgumentError unless exactly one of the three is given, or for a train_length
    outside 1 .. n.
    """
    if vectors is not None:
        if kernel is not None or curve is not None:
            raise SchemeArgumentError("give exactly one of vectors, kernel and curve.")
        source, is_curve = as_float64("vectors", vectors, "(n, d)"), False
        norms = torch.linalg.vector_norm(source, dim=1)
    else:
        source, is_curve = kernel_or_curve(kernel, curve)
        norms = (source[len(source) // 2] if is_curve else source.diagonal()).clamp(min=0).sqrt()
    count = (len(source) + 1) // 2 if is_curve else len(source)
    check_length("train_length", train_length, high=count)
    positions = torch.arange(train_length, count, device=source.device)
    distance = torch.full((len(positions),), torch.nan, dtype=source.dtype, device=source.device)
    nearest = torch.full_like(positions, -1)
    step = max(1, _BLOCK_ELEMENTS // train_length)
    for start in range(0, len(positions), step):
        rows = positions[start : start + step]
        if vectors is not None:
            gaps = torch.cdist(
                source[rows], source[:train_length], compute_mode="donot_use_mm_for_euclid_dist"
            )
        else:
            gaps = _kernel_gaps(source, rows, train_length, is_curve).clamp_(min=0).sqrt_()
        gaps = gaps.masked_fill(~gaps.isfinite(), torch.inf)
        smallest, index = gaps.min(1)
        found = smallest.isfinite()
        distance[start : start + step] = smallest.masked_fill(~found, torch.nan)
        nearest[start : start + step] = index.masked_fill(~found, -1)
    own = norms if is_curve else norms[train_length:]
    return NearestSeen(train_length, positions, nearest, distance, distance / own)


def _kernel_gaps(source: Tensor, rows: Tensor, train_length: int, is_curve: bool) -> Tensor:
    """Squared distances (rows, train_length) from a kernel or a curve."""
    if is_curve:
        zero = len(source) // 2
        both = (source[zero] - source) + (source[zero] - source.flip(0))
        seen = torch.arange(train_length, device=source.device)
        return both[zero + rows[:, None] - seen]
    diagonal = source.diagonal()
    cross = source[rows, :train_length] + source[:train_length, rows].T
    return diagonal[rows, None] + diagonal[:train_length] - cross


Array = npt.NDArray[Any]

DRAWN_OFFSETS = 2_048
SCANNED_POSITIONS = 8_192  # every position is checked up to here, samples are drawn past it
SCANNED_OFFSETS = 65_536  # where the search for B(k) < 0 ends


@dataclass(frozen=True)
class Past:
    """What a formula gives past the training length; never a measurement."""

    limit: int | None  # the first position without a value; the rest is empty past a table
    offsets: Array
    cosine: Array
    outside: int | None  # offsets past L whose value was never taken inside, None if not scanned
    first_outside: int | None
    nearest_positions: Array
    nearest: Array  # distance to the nearest seen position over the own norm


@dataclass(frozen=True)
class Ladder:
    """What the frequencies of a scheme do within the training length."""

    turns: Array
    full_turn_pairs: int
    critical_dimension: int  # Liu's formula counts exactly the pairs with a full turn, twice
    rotary_dim: int
    first_negative: int | None
    scanned: int


def read_past(query: Query, train_length: int) -> Past:
    """Return a stationary kernel past the training length; a table has only its own last row."""
    scheme = query.build("cpu")
    if not scheme.stationary:
        nothing = np.zeros(0)
        # An untrained table would have a row per position of training; only those shown are drawn.
        ends = scheme.untrained and scheme.max_length is not None
        limit = train_length if ends else scheme.max_length
        return Past(limit, nothing, nothing, None, None, nothing, nothing)
    count = query.length
    drawn = torch.linspace(0, count - 1, min(count, DRAWN_OFFSETS), dtype=torch.float64)
    offsets = torch.unique(drawn.round().long())
    values = scheme.offset_kernel(-offsets, query.head)
    outside = first_outside = None
    positions, nearest = np.zeros(0), np.zeros(0)
    if count <= SCANNED_POSITIONS:
        curve = offset_curve(scheme, count, head=query.head)
        found = kernel_past(curve, train_length)
        outside, first_outside = found.outside, found.first_outside
        seen = nearest_seen_distance(train_length, curve=curve)
        positions, nearest = seen.positions.numpy(), seen.relative.numpy()
    zero = scheme.offset_kernel(torch.zeros(1, dtype=torch.int64), query.head)
    return Past(
        None, offsets.numpy(), (values / zero).numpy(), outside, first_outside, positions, nearest
    )


def read_ladder(query: Query, train_length: int) -> Ladder | None:
    """Return what the frequencies do within the training length, None for a scheme without any."""
    scheme = query.build("cpu")
    inv_freq = scheme.inv_freq
    if inv_freq is None:
        return None
    rotary_dim = 2 * len(inv_freq)
    coverage = phase_coverage(inv_freq, train_length)
    return Ladder(
        turns=coverage.turns.numpy(),
        full_turn_pairs=coverage.full_turn_pairs,
        critical_dimension=2 * coverage.full_turn_pairs,
        rotary_dim=rotary_dim,
        first_negative=first_negative_offset(inv_freq, SCANNED_OFFSETS),
        scanned=SCANNED_OFFSETS,
    )
