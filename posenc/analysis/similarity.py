"""Cosine similarity of positions: the kernel scaled to a unit diagonal, whole, by row, by offset.

Definition: cos(i, j) = K(i, j) / sqrt(K(i, i) K(j, j)), where K is the position kernel.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from posenc.analysis.inputs import as_curve, as_kernel, kernel_or_curve
from posenc.errors import NotStationary, SchemeArgumentError, shown
from posenc.kernel import offset_curve, position_kernel
from posenc.limits import MAX_KERNEL_LENGTH, check_count
from posenc.settings import Query, known
from posenc.toeplitz import toeplitz

Side = Literal["after", "before", "both"]

_BLOCK_ELEMENTS = 2**21  # of one block of rows: 16 MiB of float64


@dataclass(frozen=True, eq=False)
class CosineMatrix:
    """Cosine similarity of every pair of positions; no unit.

    `values` (n, n): NaN in the row and column of an undefined position.
    `undefined` (n,): positions whose K(i, i) is not a positive finite number.
    """

    values: Float[Tensor, "n n"]
    undefined: Bool[Tensor, " n"]


@dataclass(frozen=True, eq=False)
class SimilarityRow:
    """One reference position (the query) against every position (the keys).

    `offsets` (n,): key minus query. `kernel` (n,): K in its own unit. `cosine` (n,): no unit.
    """

    reference: int
    offsets: Int[Tensor, " n"]
    kernel: Float[Tensor, " n"]
    cosine: Float[Tensor, " n"]


@dataclass(frozen=True, eq=False)
class OffsetProfile:
    """Statistics of a kernel along its diagonals; every field is (offsets,), in the kernel's unit.

    `offsets`: key minus query. `mean`, `deviation` (standard deviation, correction 0), `low` and
    `high` are of the `counts` finite entries of that diagonal; they are NaN where there is none.
    """

    offsets: Int[Tensor, " offsets"]
    mean: Float[Tensor, " offsets"]
    deviation: Float[Tensor, " offsets"]
    low: Float[Tensor, " offsets"]
    high: Float[Tensor, " offsets"]
    counts: Int[Tensor, " offsets"]


@dataclass(frozen=True, eq=False)
class SchemeSimilarity:
    """Similarity of a scheme's n positions: of every two, and by distance.

    `cosine`: (2n-1,) by offset where that says it all, else (n, n). `distances` (n,): 0 .. n-1,
    query minus key. `mean`, `deviation`, `low`, `high` (n,): along each diagonal; for a mean of
    heads, the lowest and highest head. `undefined`: positions whose vector is zero or not finite.
    """

    cosine: Tensor
    distances: Int[Tensor, " n"]
    mean: Float[Tensor, " n"]
    deviation: Float[Tensor, " n"]
    low: Float[Tensor, " n"]
    high: Float[Tensor, " n"]
    undefined: int


def expand_curve(curve: Float[Tensor, " offsets"]) -> Float[Tensor, "n n"]:
    """Return the (n, n) kernel K[i, j] = curve(j - i) of a (2n-1,) offset curve, same unit.

    Raises SchemeArgumentError for an even length or more than MAX_KERNEL_LENGTH positions.
    """
    curve, count, _ = kernel_or_curve(None, curve)
    if count > MAX_KERNEL_LENGTH:
        raise SchemeArgumentError(
            f"a full kernel is allowed up to {MAX_KERNEL_LENGTH:,} positions, got {count:,}."
        )
    return toeplitz(curve)


def cosine_matrix(kernel: Float[Tensor, "n n"]) -> CosineMatrix:
    """Return a kernel (n, n) scaled to a unit diagonal.

    The row and column of a position whose K(i, i) is not positive and finite are NaN, as are other
    entries that are not finite. Nothing is clamped: a value above 1 by more than rounding shows a
    kernel that is no inner product.
    Raises SchemeArgumentError for a kernel that is not square.
    """
    kernel = as_kernel(kernel)
    norms, undefined = _norms(kernel.diagonal())
    values = torch.outer(norms, norms)  # of square roots: no finite kernel overflows
    torch.div(kernel, values, out=values)
    values.masked_fill_(values.isinf(), torch.nan)
    values.diagonal().copy_(torch.where(undefined, torch.nan, 1.0))
    return CosineMatrix(values, undefined)


def cosine_curve(curve: Float[Tensor, " offsets"]) -> Float[Tensor, " offsets"]:
    """Return a (2n-1,) offset curve over its value at offset 0, which is cosine similarity.

    Raises SchemeArgumentError where that value is not positive and finite, or for an even length.
    """
    curve = as_curve(curve)
    zero = curve[len(curve) // 2]
    if not (torch.isfinite(zero) and zero > 0):
        raise SchemeArgumentError(
            "cosine similarity needs a positive finite kernel value at offset 0, "
            f"got {zero.item():g}."
        )
    return curve / zero


def similarity_row(
    reference: int,
    kernel: Float[Tensor, "n n"] | None = None,
    *,
    curve: Float[Tensor, " offsets"] | None = None,
) -> SimilarityRow:
    """Return one position (query) against all n keys, from a kernel (n, n) or a curve (2n-1,).

    Raises SchemeArgumentError for a reference outside 0 .. n-1, or unless exactly one is given.
    """
    source, count, is_curve = kernel_or_curve(kernel, curve)
    check_count("reference", reference, 0, count - 1)
    if is_curve:
        keys = slice(count - 1 - reference, 2 * count - 1 - reference)
        row, cosine = source[keys], cosine_curve(source)[keys]
    else:
        row = source[reference]
        norms, _ = _norms(source.diagonal())
        cosine = row / (norms[reference] * norms)
        cosine = cosine.masked_fill(cosine.isinf(), torch.nan)
        cosine[reference] = torch.where(norms[reference].isnan(), torch.nan, 1.0)
    offsets = torch.arange(count, device=source.device) - reference
    return SimilarityRow(reference, offsets, row.clone(), cosine.clone())


def similarity_by_offset(
    kernel: Float[Tensor, "n n"] | None = None,
    *,
    curve: Float[Tensor, " offsets"] | None = None,
    side: Side = "after",
) -> OffsetProfile:
    """Return the statistics of a kernel (n, n) along its diagonals, in the kernel's unit.

    `side` "after": offsets 0 .. n-1 (key after query); "before": 0, -1 .. -(n-1) (what a causal
    model sees); "both": -(n-1) .. n-1. A diagonal of equal entries has a deviation of exactly 0,
    and so has a curve (2n-1,), which is its own profile.
    Raises SchemeArgumentError for another `side`, or unless exactly one of both is given.
    """
    if side not in ("after", "before", "both"):
        raise SchemeArgumentError(f"side must be 'after', 'before' or 'both', got {shown(side)}.")
    source, count, is_curve = kernel_or_curve(kernel, curve)
    offsets = torch.arange(1 - count, count, device=source.device)
    if is_curve:
        mean = source.masked_fill(source.isinf(), torch.nan)
        counts = torch.where(mean.isfinite(), count - offsets.abs(), 0)
        fields = [offsets, mean, 0.0 * mean, mean, mean, counts]
    else:
        fields = [offsets, *_along_diagonals(source)]
    if side == "before":
        return OffsetProfile(*(field[:count].flip(0) for field in fields))
    first = count - 1 if side == "after" else 0
    return OffsetProfile(*(field[first:].clone() for field in fields))


def _norms(diagonal: Tensor) -> tuple[Tensor, Tensor]:
    """Square roots of a kernel's diagonal, NaN where undefined, and the mask of undefined rows."""
    undefined = ~(diagonal.isfinite() & (diagonal > 0))
    return diagonal.masked_fill(undefined, torch.nan).sqrt(), undefined


def _along_diagonals(kernel: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Mean, standard deviation, low, high and counts of every diagonal, at offset + n - 1.

    Sums are of deviations from the diagonal's first entry: equal entries have a mean without rounding.
    """
    first = torch.cat([kernel[1:, 0].flip(0), kernel[0]])
    first = torch.where(first.isfinite(), first, 0.0)
    total, squares = torch.zeros_like(first), torch.zeros_like(first)
    low, high = torch.full_like(first, torch.inf), torch.full_like(first, -torch.inf)
    counts = torch.zeros_like(first, dtype=torch.int64)
    for diagonals, rows in _sheared_blocks(kernel):
        missing = ~rows.isfinite()
        total[diagonals] += (rows - first[diagonals]).masked_fill_(missing, 0.0).sum(0)
        counts[diagonals] += len(rows) - missing.sum(0)
        low[diagonals] = low[diagonals].minimum(rows.masked_fill(missing, torch.inf).amin(0))
        high[diagonals] = high[diagonals].maximum(rows.masked_fill(missing, -torch.inf).amax(0))
    mean = first + total / counts  # 0 / 0 is NaN: a diagonal without a finite entry
    for diagonals, rows in _sheared_blocks(kernel):
        squares[diagonals] += (rows - mean[diagonals]).square_().nan_to_num_(0, 0, 0).sum(0)
    empty = counts == 0
    low, high = low.masked_fill(empty, torch.nan), high.masked_fill(empty, torch.nan)
    return mean, (squares / counts).sqrt(), low, high, counts


def _sheared_blocks(kernel: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Blocks of rows with every diagonal in one column, and the columns' range in offset + n - 1."""
    count = len(kernel)
    end = 0
    for block in kernel.split(max(1, _BLOCK_ELEMENTS // (2 * count))):
        rows, end = len(block), end + len(block)
        # Padded by their number and read again at a width of one less, rows move one further each.
        padded = pad(block.flip(0), (0, rows), value=torch.nan).flatten()[:-rows]
        width = count + rows - 1
        yield slice(count - end, count - end + width), padded.view(rows, width)


def squared_distances(source: Tensor, is_curve: bool) -> Tensor:
    """Return the squared distances of the vectors behind a kernel, infinite where not finite.

    (n, n) from a kernel, (n,) by distance 0 .. n-1 from a curve, whose rows are all alike.
    """
    if is_curve:
        zero = len(source) // 2
        squares = ((source[zero] - source) + (source[zero] - source.flip(0)))[zero:]
    else:
        diagonal = source.diagonal()
        squares = (diagonal[:, None] + diagonal).sub_(source + source.T)
    return squares.masked_fill_(~squares.isfinite(), torch.inf)


def kernel_values(query: Query, device: torch.device | str | None = None) -> Tensor:
    """Return a scheme's position kernel over the positions that have a value, float64.

    (2n-1,) by offset where a curve says it all, else (n, n). On a device, by default the query's.
    """
    device = query.device if device is None else device
    scheme = query.build(device)
    length = known(scheme, query.length)
    try:
        return offset_curve(scheme, length, head=query.head, dtype=query.dtype, device=device)
    except NotStationary:
        return position_kernel(scheme, length, head=query.head, dtype=query.dtype, device=device)


def scheme_similarity(query: Query, values: Tensor | None = None) -> SchemeSimilarity:
    """Return the similarity of a scheme's positions. values: of `kernel_values`, if computed."""
    values = (kernel_values(query) if values is None else values).cpu()
    if values.ndim == 1:
        cosine, undefined = cosine_curve(values), 0
        profile = similarity_by_offset(curve=cosine, side="before")
    else:
        scaled = cosine_matrix(values)
        cosine, undefined = scaled.values, int(scaled.undefined.sum())
        profile = similarity_by_offset(cosine, side="before")
    low, high = profile.low, profile.high
    if values.ndim == 1 and query.head == "mean" and (scheme := query.build("cpu")).heads:
        heads = torch.stack(
            [scheme.offset_kernel(profile.offsets, x, query.dtype) for x in range(scheme.heads)]
        )
        heads = heads / heads[:, :1]  # offset 0 comes first
        low, high = heads.amin(dim=0), heads.amax(dim=0)
    return SchemeSimilarity(
        cosine, -profile.offsets, profile.mean, profile.deviation, low, high, undefined
    )


def similarity_change(a: SchemeSimilarity, b: SchemeSimilarity, count: int) -> Tensor:
    """Return the cosine similarity of `a` minus `b`, (count, count), NaN where either has none."""
    return _square(a.cosine, count) - _square(b.cosine, count)


def _square(cosine: Tensor, count: int) -> Tensor:
    """The first `count` rows and columns, NaN past the last position."""
    if cosine.ndim == 1:
        zero = len(cosine) // 2
        size = min(count, zero + 1)
        cosine = expand_curve(cosine[zero - size + 1 : zero + size])
    matrix = cosine[:count, :count]
    missing = count - len(matrix)
    return pad(matrix, (0, missing, 0, missing), value=torch.nan)
