"""Properties of an encoding, measured: are positions unique, bounded, smooth, shift-invariant?

Measured on a position kernel, or on the offset curve of a stationary one, without an (n, n) matrix.
Translation invariance and monotonicity after Wang et al. 2021 (On position embeddings in BERT), with
indicator formulas of our own, stated at each field.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from posenc.analysis.inputs import as_float64, kernel_or_curve
from posenc.analysis.kernel_claims import NO_SPREAD, TOO_FEW_POSITIONS, diagonal_spread
from posenc.analysis.similarity import (
    cosine_matrix,
    kernel_values,
    similarity_by_offset,
    squared_distances,
)
from posenc.errors import SchemeArgumentError
from posenc.kernel import position_vectors
from posenc.notebook import Shown
from posenc.schemes.base import Request, VectorScheme

_EPS = torch.finfo(torch.float64).eps
_CANDIDATES = 2**16  # pairs of positions among which the closest is sought


@dataclass(frozen=True)
class Properties(Shown):
    """Numbers that back or refute what is said of an encoding; distances in the vectors' unit.

    `positions`: rows that are finite; the others are left out everywhere.
    `smallest_distance`, `closest_pair`: unique positions are a distance above 0 apart. Without
    vectors, distances below 8 sqrt(eps) of the largest norm cannot be told from 0 and are 0.
    `neighbour_mean`: distance between positions i and i + 1: smoothness.
    `norm_low`, `norm_high`: sqrt K(i, i).
    `value_low`, `value_high`: entries of the vectors, None without vectors.
    `translation_invariance_error`: see `diagonal_spread`; None with a `translation_reason` where it
    is undefined.
    `first_rise`: the first distance k >= 1 whose mean cosine similarity exceeds that at k - 1, for
    keys before their query; None when it never rises, or when no row has a positive norm.
    `kendall_tau`: rank correlation (tau-b) of that similarity with -k; 1 falls at every step, None
    when it is constant.
    A number that needs two positions is None where there is one.
    """

    positions: int
    smallest_distance: float | None
    closest_pair: tuple[int, int] | None
    neighbour_mean: float | None
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
    """Return the properties of a kernel (n, n), or of the offset curve (2n-1,) of a stationary one.

    With vectors (n, d) too, distances come from differences of rows, without the cancellation of
    K_ii + K_jj - 2 K_ij, and the range of values is known; vectors alone have their Gram matrix as
    kernel. A curve costs O(n log n); a kernel O(n^2).
    Raises SchemeArgumentError for a kernel and a curve, for none of the three, for sizes that
    disagree, or when no position is finite.
    """
    if vectors is not None:
        vectors = as_float64("vectors", vectors, "(n, d)")
        if kernel is None and curve is None:
            kernel = vectors @ vectors.T
    source, count, is_curve = kernel_or_curve(kernel, curve)
    if vectors is not None and len(vectors) != count:
        raise SchemeArgumentError(
            f"vectors must have one row per position: {count:,}, got {len(vectors):,}."
        )
    diagonal = source[count - 1].expand(count) if is_curve else source.diagonal()
    finite = diagonal.isfinite()
    if vectors is not None:
        finite = finite & vectors.isfinite().all(1)
        if is_curve and not finite.all():
            raise SchemeArgumentError("vectors with a curve must be finite in every row.")
    if not finite.any():
        raise SchemeArgumentError("no position has a finite kernel value with itself.")
    first, last = finite.nonzero()[[0, -1], 0].tolist()
    if is_curve:
        invariance = _curve_invariance(source)
        similarity = source[:count].flip(0)
    else:  # rows past a table's end do not count as positions
        inside = slice(first, last + 1)
        finite, diagonal = finite[inside], diagonal[inside]
        source = source[inside, inside].masked_fill(~(finite[:, None] & finite), torch.nan)
        vectors = None if vectors is None else vectors[inside]
        invariance = diagonal_spread(source)
        similarity = similarity_by_offset(cosine_matrix(source), side="before").mean
    similarity = similarity[similarity.isfinite()]
    peak = diagonal[finite].abs().amax().item()
    squares = squared_distances(source, is_curve)
    squares = squares[None] if is_curve else squares  # every other row of a curve repeats the first
    pair, smallest = _closest(squares, vectors, 64 * _EPS * peak)
    if vectors is None:
        rows, norms = None, diagonal[finite].clamp(min=0).sqrt()
        neighbours = squares.diagonal(1)
        neighbours = neighbours[neighbours.isfinite()].clamp(min=0).sqrt()
    else:
        rows = vectors[finite]
        norms = torch.linalg.vector_norm(rows, dim=1)
        neighbours = torch.linalg.vector_norm(vectors.diff(dim=0), dim=1)
        neighbours = neighbours[finite[:-1] & finite[1:]]
    return Properties(
        positions=int(finite.sum()),
        smallest_distance=smallest,
        closest_pair=None if pair is None else (pair[0] + first, pair[1] + first),
        neighbour_mean=neighbours.mean().item() if len(neighbours) else None,
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
    """Return the first k >= 1 with similarity[k] above similarity[k-1], (n,) by distance, or None.

    A rise counts beyond 64 eps of the largest magnitude, so that rounding on a plateau does not.
    """
    similarity = as_float64("similarity", similarity, "(n,)")
    rises = (similarity.diff() > 64 * _EPS * similarity.abs().amax()).nonzero()
    return int(rises[0]) + 1 if len(rises) else None


def kendall_tau(similarity: Float[Tensor, " n"]) -> float | None:
    """Return Kendall's tau-b of similarity (n,) by distance with minus the distance; None if constant.

    1: each value is below every earlier one; ties in the values are corrected for (Kendall 1945).
    """
    from scipy.stats import kendalltau

    values = as_float64("similarity", similarity, "(n,)").cpu().numpy()
    if values.min() == values.max():
        return None
    return float(kendalltau(values, -np.arange(len(values))).statistic)


def scheme_properties(request: Request, values: Tensor | None = None) -> Properties:
    """Return the measured properties of a scheme's positions. values: as in `scheme_similarity`."""
    values = (kernel_values(request) if values is None else values).cpu()
    kernel, curve = (None, values) if values.ndim == 1 else (values, None)
    scheme, vectors = request.build("cpu"), None
    if isinstance(scheme, VectorScheme):
        vectors = position_vectors(
            scheme, scheme.positions_within(request.length), dtype=request.dtype
        )
    return measure(kernel, curve=curve, vectors=vectors)


def _curve_invariance(curve: Tensor) -> tuple[float | None, str | None]:
    """A curve is a function of the offset alone; undefined where it is constant."""
    zero = len(curve) // 2
    others = torch.cat([curve[:zero], curve[zero + 1 :]])
    if zero < 2:
        return None, TOO_FEW_POSITIONS
    if others.amax() - others.amin() <= 64 * _EPS * others.abs().amax():
        return None, NO_SPREAD
    return 0.0, None


def _closest(
    squares: Tensor, vectors: Tensor | None, slack: float
) -> tuple[tuple[int, int] | None, float | None]:
    """The closest pair of positions and its distance; the first pair where several tie.

    Squared distances from a kernel are known to `slack`: with vectors, every pair within that of the
    smallest is measured again by the difference of its rows. Distances tie within one part in 1e9.
    """
    earlier = torch.ones_like(squares, dtype=torch.bool).tril()
    squares = squares.masked_fill(earlier, torch.inf)
    smallest = squares.amin()
    if smallest.isinf():
        return None, None
    first, second = (squares <= smallest + 2 * slack).nonzero()[:_CANDIDATES].unbind(1)
    if vectors is None:
        distances = squares[first, second]
        distances = distances.masked_fill(distances <= slack, 0.0).sqrt()
    else:
        distances = torch.linalg.vector_norm(vectors[first] - vectors[second], dim=1)
    distance = distances.amin()
    best = int((distances <= distance * (1 + 1e-9)).nonzero()[0])
    return (int(first[best]), int(second[best])), distance.item()
