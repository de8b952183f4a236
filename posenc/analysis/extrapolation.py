"""What the formula alone says about positions past a training length L.

Nothing here is measured extrapolation: a formula that is defined past L is not a model that works
past L; only a trained model shows that. A distance is query minus key, 0 or more.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.analysis.inputs import as_float64, check_length, kernel_or_curve
from posenc.errors import SchemeArgumentError
from posenc.kernel import offset_curve
from posenc.settings import Query

SAMPLED_DISTANCES = 2_048
SCANNED_POSITIONS = 8_192  # every position is checked up to here, samples are read past it
_BLOCK_ELEMENTS = 2**21  # of one block of distances: 16 MiB of float64


@dataclass(frozen=True, eq=False)
class KernelPast:
    """A kernel by distance, inside and past a training length, in the kernel's unit.

    `distances` (n,): 0 .. n-1. `values` (n,). `seen_low`, `seen_high`: the range of values at
    distances below `train_length`. `outside`: how many later distances have a value out of that
    range; `first_outside`: the first of them, or None.
    """

    train_length: int
    distances: Int[Tensor, " n"]
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


@dataclass(frozen=True, eq=False)
class SchemeKernelPast:
    """A scheme's position similarity past a training length.

    `limit`: the first position without a row, for a table; None for a formula. `distances` (m,),
    `cosine` (m,): every distance or a sample; empty where K is no function of the offset alone.
    `outside`, `first_outside`: as in `KernelPast`; None where distances are sampled. `positions`,
    `relative`: as in `NearestSeen`; empty where distances are sampled.
    """

    limit: int | None
    distances: Int[Tensor, " m"]
    cosine: Float[Tensor, " m"]
    outside: int | None
    first_outside: int | None
    positions: Int[Tensor, " p"]
    relative: Float[Tensor, " p"]


def kernel_past(curve: Float[Tensor, " offsets"], train_length: int) -> KernelPast:
    """Return a kernel's values past a training length, against the range within it.

    `curve` (2n-1,) over key minus query; only the side of keys before their query is used. A value
    past `train_length` counts as outside by more than rounding: 1e-12 of the end of the range it
    passes where all values have one sign (an exponential is exact to its own size), and of the
    largest magnitude where they do not (a sum of cosines is exact to the size of its terms).
    Raises SchemeArgumentError for a curve of even length or a train_length outside 1 .. n.
    """
    curve, count, _ = kernel_or_curve(None, curve)
    check_length("train_length", train_length, high=count)
    values = curve[:count].flip(0)
    low, high = values[:train_length].aminmax()
    if values.amin() >= 0 or values.amax() <= 0:
        below, above = 1e-12 * low.abs(), 1e-12 * high.abs()
    else:
        below = above = 1e-12 * values.abs().amax()
    later = values[train_length:]
    outside = ((later < low - below) | (later > high + above)).nonzero()
    return KernelPast(
        train_length=train_length,
        distances=torch.arange(count, device=curve.device),
        values=values,
        seen_low=low.item(),
        seen_high=high.item(),
        outside=len(outside),
        first_outside=train_length + int(outside[0]) if len(outside) else None,
    )


def nearest_seen_distance(
    train_length: int,
    *,
    vectors: Float[Tensor, "n d"] | None = None,
    kernel: Float[Tensor, "n n"] | None = None,
    curve: Float[Tensor, " offsets"] | None = None,
) -> NearestSeen:
    """Return the distance of each position p >= train_length to the nearest one below train_length.

    From vectors (n, d) by differences; from a kernel (n, n) by K_ii + K_jj - K_ij - K_ji; from a
    curve (2n-1,) by 2 K(0) - K(k) - K(-k). The last two cannot tell distances below about 1e-8 of
    the norm from 0. A row that is not finite has the distance NaN and is nobody's nearest. Without
    a position past train_length the result is empty.
    Raises SchemeArgumentError unless exactly one of the three is given, or for a train_length
    outside 1 .. n.
    """
    if vectors is None:
        source, count, is_curve = kernel_or_curve(kernel, curve)
        norms = (source[count - 1] if is_curve else source.diagonal()).clamp(min=0).sqrt()
    elif kernel is None and curve is None:
        source, is_curve = as_float64("vectors", vectors, "(n, d)"), False
        count, norms = len(source), torch.linalg.vector_norm(source, dim=1)
    else:
        raise SchemeArgumentError("give exactly one of vectors, kernel and curve.")
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
            gaps = _squared_gaps(source, rows, train_length, is_curve).clamp_(min=0).sqrt_()
        smallest, index = gaps.masked_fill(~gaps.isfinite(), torch.inf).min(1)
        missing = smallest.isinf()
        distance[start : start + step] = smallest.masked_fill(missing, torch.nan)
        nearest[start : start + step] = index.masked_fill(missing, -1)
    own = norms if is_curve else norms[train_length:]
    return NearestSeen(train_length, positions, nearest, distance, distance / own)


def _squared_gaps(source: Tensor, rows: Tensor, train_length: int, is_curve: bool) -> Tensor:
    """Squared distances (rows, train_length) from a kernel or a curve."""
    if is_curve:
        zero = len(source) // 2
        both = (source[zero] - source) + (source[zero] - source.flip(0))
        seen = torch.arange(train_length, device=source.device)
        return both[zero + rows[:, None] - seen]
    diagonal = source.diagonal()
    cross = source[rows, :train_length] + source[:train_length, rows].T
    return diagonal[rows, None] + diagonal[:train_length] - cross


def scheme_kernel_past(query: Query, train_length: int) -> SchemeKernelPast:
    """Return the similarity of a scheme's positions past a training length, from its formula."""
    scheme = query.build("cpu")
    none = torch.zeros(0, dtype=torch.int64)
    if not scheme.stationary:
        # An untrained table has a row per position of training, however many of them were drawn.
        untrained = scheme.untrained and scheme.max_length is not None
        limit = train_length if untrained else scheme.max_length
        return SchemeKernelPast(limit, none, none.double(), None, None, none, none.double())
    count = query.length
    sample = torch.linspace(0, count - 1, min(count, SAMPLED_DISTANCES), dtype=torch.float64)
    distances = torch.unique(sample.round().long())
    zero = scheme.offset_kernel(none.new_zeros(1), query.head)
    cosine = scheme.offset_kernel(-distances, query.head) / zero
    if count > SCANNED_POSITIONS:
        return SchemeKernelPast(None, distances, cosine, None, None, none, none.double())
    curve = offset_curve(scheme, count, head=query.head)
    past = kernel_past(curve, train_length)
    seen = nearest_seen_distance(train_length, curve=curve)
    return SchemeKernelPast(
        limit=None,
        distances=distances,
        cosine=cosine,
        outside=past.outside,
        first_outside=past.first_outside,
        positions=seen.positions,
        relative=seen.relative,
    )
