"""Properties of an encoding, measured: are positions unique, bounded, smooth, shift-invariant?

Measured on a position kernel, or on the offset curve of a stationary one, in which case no (n, n)
matrix is ever made. Translation invariance and monotonicity after Wang et al. 2021 (On position
embeddings in BERT), with indicator formulas of our own, stated at each field.
Axes: n positions, d width; offset = key minus query.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.analysis.inputs import as_float64, kernel_or_curve
from posenc.analysis.offset_checks import NO_SPREAD, TOO_FEW_POSITIONS, diagonal_spread
from posenc.analysis.similarity import cosine_matrix, similarity_by_offset
from posenc.errors import SchemeArgumentError

_EPS = torch.finfo(torch.float64).eps
_BLOCK_ELEMENTS = 2**21  # scratch of one block of rows: 16 MiB of float64
_CANDIDATES = 2**16


@dataclass(frozen=True)
class Properties:
    """Numbers that back or refute what is said of an encoding; distances in the vectors' unit.

    `positions`: rows that are finite; the others are left out everywhere.
    `smallest_distance`, `closest_pair`: unique positions are a distance above 0 apart. Distances
    below `distance_resolution` cannot be told from 0 and are given as 0; with vectors it is 0.
    `neighbour_*`: distance between positions i and i + 1: smoothness.
    `norm_low`, `norm_high`: sqrt K(i, i).
    `value_low`, `value_high`: entries of the vectors, when given.
    `translation_invariance_error`: mean over offsets 1 <= k < n/2 of the standard deviation of
    K(i, i + k) over i, divided by that of all off-diagonal entries; 0 is exact, a random table is
    near 1; None with a `translation_reason` where it is undefined.
    `first_rise`: the first distance k >= 1 whose mean cosine similarity exceeds that at k - 1, for
    keys before their query; None when it never rises, or when no row has a positive norm.
    `kendall_tau`: rank correlation (tau-b) of that similarity with -k; 1 falls at every step, None
    when it is constant.
    A number that needs two positions is None where there is one.
    """

    positions: int
    smallest_distance: float | None
    closest_pair: tuple[int, int] | None
    distance_resolution: float
    neighbour_mean: float | None
    neighbour_low: float | None
    neighbour_high: float | None
    norm_low: float
    norm_high: float
    value_low: float | None
    value_high: float | None
    translation_invariance_error: float | None
    translation_reason: str | None
    first_rise: int | None
    kendall_tau: float | None


def measure(
    kernel: Float[Tensor, "n n"] | None = None,
    *,
    curve: Float[Tensor, " offsets"] | None = None,
    vectors: Float[Tensor, "n d"] | None = None,
) -> Properties:
    """Measure a kernel (n, n), or the offset curve (2n-1,) of a stationary one, or vectors (n, d).

    Vectors may be given beside either: then distances come from differences of rows, without the
    cancellation of K_ii + K_jj - 2 K_ij, and the range of values is known; alone, their Gram matrix
    is the kernel. A curve costs O(n log n); a kernel O(n^2).
    Raises SchemeArgumentError when both or none is given, for sizes that disagree, or when no
    position is finite.
    """
    if vectors is not None:
        vectors = as_float64("vectors", vectors, "(n, d)")
        if kernel is None and curve is None:
            kernel = vectors @ vectors.T
    source, is_curve = kernel_or_curve(kernel, curve)
    count = (len(source) + 1) // 2 if is_curve else len(source)
    if vectors is not None and len(vectors) != count:
        raise SchemeArgumentError(
            f"vectors must have one row per position: {count:,}, got {len(vectors):,}."
        )
    zero = source[count - 1] if is_curve else None
    diagonal = source.diagonal() if zero is None else zero.expand(count)
    finite = diagonal.isfinite()
    if vectors is not None:
        finite = finite & vectors.isfinite().all(1)
        if is_curve and not finite.all():
            raise SchemeArgumentError("vectors beside a curve must be finite in every row.")
    if not finite.any():
        raise SchemeArgumentError("no position has a finite kernel value with itself.")
    first, last = finite.nonzero()[[0, -1], 0].tolist()
    if not is_curve:  # rows past a table's end do not count as positions
        kept = slice(first, last + 1)
        source, finite, diagonal = source[kept, kept], finite[kept], diagonal[kept]
        vectors = None if vectors is None else vectors[kept]
    rows = None if vectors is None else vectors[finite]
    if is_curve:
        invariance: tuple[float | None, str | None] = _curve_invariance(source)
        similarity = source[:count].flip(0)
    else:
        source = source.masked_fill(~(finite[:, None] & finite), torch.nan)
        invariance = diagonal_spread(source)
        similarity = similarity_by_offset(cosine_matrix(source).values, side="before").mean
    similarity = similarity[similarity.isfinite()]
    peak = diagonal[finite].abs().amax().item()
    resolution = math.sqrt(64 * _EPS * peak) if rows is None else 0.0
    squared = _curve_gaps(source) if is_curve else None
    pair, smallest = _closest(source, squared, vectors, 64 * _EPS * peak)
    neighbours = _neighbours(source, squared, vectors, finite)
    norms = (
        diagonal[finite].clamp(min=0).sqrt()
        if rows is None
        else torch.linalg.vector_norm(rows, dim=1)
    )
    return Properties(
        positions=int(finite.sum()),
        smallest_distance=0.0 if smallest is not None and smallest <= resolution else smallest,
        closest_pair=None if pair is None else (pair[0] + first, pair[1] + first),
        distance_resolution=resolution,
        neighbour_mean=neighbours.mean().item() if len(neighbours) else None,
        neighbour_low=neighbours.amin().item() if len(neighbours) else None,
        neighbour_high=neighbours.amax().item() if len(neighbours) else None,
        norm_low=norms.amin().item(),
        norm_high=norms.amax().item(),
        value_low=None if rows is None else rows.amin().item(),
        value_high=None if rows is None else rows.amax().item(),
        translation_invariance_error=invariance[0],
        translation_reason=invariance[1],
        first_rise=first_rise(similarity) if len(similarity) else None,
        kendall_tau=kendall_tau(similarity) if len(similarity) else None,
    )


def first_rise(similarity: Float[Tensor, " n"]) -> int | None:
    """The first k >= 1 with similarity[k] above similarity[k-1], (n,) by distance; None if none is.

    A rise counts beyond 64 eps of the largest magnitude, so that rounding on a plateau does not.
    """
    similarity = as_float64("similarity", similarity, "(n,)")
    rises = (similarity.diff() > 64 * _EPS * similarity.abs().amax()).nonzero()
    return int(rises[0]) + 1 if len(rises) else None


def kendall_tau(similarity: Float[Tensor, " n"]) -> float | None:
    """Kendall's tau-b between similarity (n,) by distance and minus the distance; None if constant.

    1: each value is below every earlier one; ties in the values are corrected for (Kendall 1945).
    """
    similarity = as_float64("similarity", similarity, "(n,)")
    count = len(similarity)
    levels, ranks, sizes = similarity.unique(return_inverse=True, return_counts=True)
    pairs = count * (count - 1) // 2
    untied = pairs - int((sizes * (sizes - 1) // 2).sum())
    if untied == 0:
        return None
    falls = _inversions(ranks, len(levels))
    return (2 * falls - untied) / math.sqrt(pairs * untied)


def _inversions(ranks: Tensor, levels: int) -> int:
    """Number of pairs i < j with ranks[i] > ranks[j], one bit of the ranks at a time.

    Of two values that share their higher bits, the one with this bit set is the larger.
    """
    total = 0
    for bit in range(max(levels - 1, 0).bit_length() - 1, -1, -1):
        higher, this = ranks >> (bit + 1), (ranks >> bit) & 1
        larger_before = this.cumsum(0) - this
        group_start = torch.searchsorted(higher, higher)
        total += int(((larger_before - larger_before[group_start]) * (1 - this)).sum())
        ranks = ranks[(ranks >> bit).sort(stable=True).indices]
    return total


def _curve_invariance(curve: Tensor) -> tuple[float | None, str | None]:
    """A curve is a function of the offset alone; undefined where it is constant."""
    middle = len(curve) // 2
    others = torch.cat([curve[:middle], curve[middle + 1 :]])
    if middle < 2:
        return None, TOO_FEW_POSITIONS
    if others.amax() - others.amin() <= 64 * _EPS * others.abs().amax():
        return None, NO_SPREAD
    return 0.0, None


def _curve_gaps(curve: Tensor) -> Tensor:
    """Squared distance 2 K(0) - K(k) - K(-k) of two positions by k = 0 .. n-1."""
    middle = len(curve) // 2
    gaps = (curve[middle] - curve) + (curve[middle] - curve.flip(0))
    return gaps[middle:]


def _kernel_gaps(kernel: Tensor, start: int, end: int) -> Tensor:
    """Squared distances of positions start .. end-1 to every later one; infinite elsewhere."""
    diagonal = kernel.diagonal()
    gaps = diagonal[start:end, None] + diagonal - kernel[start:end] - kernel[:, start:end].T
    earlier = torch.ones_like(gaps, dtype=torch.bool).tril(start)
    return gaps.masked_fill_(earlier | ~gaps.isfinite(), torch.inf)


def _closest(
    source: Tensor, squared: Tensor | None, vectors: Tensor | None, slack: float
) -> tuple[tuple[int, int] | None, float | None]:
    """The closest pair of positions and its distance; the first pair where several tie.

    Squared distances from a kernel are known to `slack`; with vectors at hand, every pair within
    that of the smallest is measured again by the difference of its rows. Distances tie within one
    part in 1e9.
    """
    if squared is not None:
        gaps = squared[1:].masked_fill(~squared[1:].isfinite(), torch.inf)
        if not gaps.isfinite().any():
            return None, None
        near = (gaps <= gaps.amin() + 2 * slack).nonzero()[:, 0] + 1
        first, second = torch.zeros_like(near), near
    else:
        step = max(1, _BLOCK_ELEMENTS // len(source))
        starts = range(0, len(source), step)
        smallest = min(_kernel_gaps(source, s, min(s + step, len(source))).amin() for s in starts)
        if not smallest.isfinite():
            return None, None
        found, held = [], 0
        for start in starts:
            gaps = _kernel_gaps(source, start, min(start + step, len(source)))
            near = (gaps <= smallest + 2 * slack).nonzero()[: _CANDIDATES - held]
            found.append(near + torch.tensor([start, 0], device=near.device))
            held += len(near)
        first, second = torch.cat(found).unbind(1)
    if vectors is not None:
        distances = torch.linalg.vector_norm(vectors[first] - vectors[second], dim=1)
    elif squared is not None:
        distances = squared[second].clamp(min=0).sqrt()
    else:
        diagonal = source.diagonal()
        cross = source[first, second] + source[second, first]
        distances = (diagonal[first] + diagonal[second] - cross).clamp(min=0).sqrt()
    smallest_distance = distances.amin()
    best = int((distances <= smallest_distance * (1 + 1e-9)).nonzero()[0])
    return (int(first[best]), int(second[best])), smallest_distance.item()


def _neighbours(
    source: Tensor, squared: Tensor | None, vectors: Tensor | None, finite: Tensor
) -> Tensor:
    """Distances between positions i and i + 1, where both are finite."""
    both = finite[:-1] & finite[1:]
    if vectors is not None:
        return torch.linalg.vector_norm(vectors.diff(dim=0), dim=1)[both]
    if squared is not None:
        return squared[1:2].clamp(min=0).sqrt()
    diagonal = source.diagonal()
    squared = diagonal[:-1] + diagonal[1:] - source.diagonal(1) - source.diagonal(-1)
    return squared[both].clamp(min=0).sqrt()
