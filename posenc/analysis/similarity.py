"""Cosine similarity of positions: the kernel scaled to a unit diagonal, whole, by row, by offset.

Definition: cos(i, j) = K(i, j) / sqrt(K(i, i) K(j, j)), where K is the position kernel.
Axes: n positions. A kernel is (n, n), row = query, column = key. An offset curve is (2n-1,) over
the offsets -(n-1) .. n-1, offset = key minus query, so its middle value belongs to offset 0.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from posenc.analysis.inputs import as_curve, as_kernel, kernel_or_curve
from posenc.errors import SchemeArgumentError, shown
from posenc.limits import MAX_KERNEL_LENGTH
from posenc.toeplitz import toeplitz

Side = Literal["after", "before", "both"]

_BLOCK_ELEMENTS = 2**21  # scratch of one block of rows: 16 MiB of float64


@dataclass(frozen=True, eq=False)
class CosineMatrix:
    """Cosine similarity of every pair of positions; no unit.

    `values` (n, n): NaN in the row and column of an undefined position.
    `undefined` (n,): positions whose K(i, i) is not a positive finite number.
    `undefined_count`: how many those are.
    """

    values: Float[Tensor, "n n"]
    undefined: Bool[Tensor, " n"]
    undefined_count: int


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
    """What a kernel does along its diagonals; every field is (offsets,), in the kernel's unit.

    `offsets`: key minus query. `mean`, `spread` (standard deviation, correction=0), `low`, `high`
    run over the `counts` finite entries of that diagonal; they are NaN where there is none.
    """

    offsets: Int[Tensor, " offsets"]
    mean: Float[Tensor, " offsets"]
    spread: Float[Tensor, " offsets"]
    low: Float[Tensor, " offsets"]
    high: Float[Tensor, " offsets"]
    counts: Int[Tensor, " offsets"]


def reversed_rows_view(curve: Float[Tensor, " offsets"]) -> Float[Tensor, "n n"]:
    """View a (2n-1,) curve as the (n, n) kernel with its rows reversed, without a copy.

    Row r belongs to query n-1-r, column j to key j. A torch stride cannot be negative, so a kernel
    that is constant along its diagonals has a free view only with one axis reversed. Read only:
    entries share memory. Raises SchemeArgumentError for a curve of even length.
    """
    curve = as_curve(curve)
    return curve.unfold(0, (len(curve) + 1) // 2, 1)


def expand_curve(curve: Float[Tensor, " offsets"]) -> Float[Tensor, "n n"]:
    """Write a (2n-1,) offset curve out as the (n, n) kernel K[i, j] = curve(j - i), same unit.

    Raises SchemeArgumentError for an even length or more than MAX_KERNEL_LENGTH positions.
    """
    curve = as_curve(curve)
    count = (len(curve) + 1) // 2
    if count > MAX_KERNEL_LENGTH:
        raise SchemeArgumentError(
            f"a full kernel is allowed up to {MAX_KERNEL_LENGTH:,} positions, got {count:,}."
        )
    return toeplitz(curve)


def cosine_matrix(kernel: Float[Tensor, "n n"]) -> CosineMatrix:
    """Scale a kernel (n, n) to a unit diagonal.

    A position whose K(i, i) is not positive and finite has no cosine: its row and column are NaN
    and it is counted. Other entries that are not finite become NaN. Nothing is clamped: a value
    above 1 by more than rounding shows a kernel that is no inner product. Norms are multiplied
    after their square roots are taken, so no finite kernel overflows.
    Raises SchemeArgumentError for a kernel that is not square.
    """
    kernel = as_kernel(kernel)
    norms, undefined = _norms(kernel.diagonal())
    values = torch.empty(kernel.shape, dtype=kernel.dtype, device=kernel.device)
    step = max(1, _BLOCK_ELEMENTS // len(kernel))
    for start in range(0, len(kernel), step):
        rows = slice(start, start + step)
        torch.mul(norms[rows, None], norms, out=values[rows])
        torch.div(kernel[rows], values[rows], out=values[rows])
        values[rows].masked_fill_(values[rows].isinf(), torch.nan)
    values.diagonal().copy_(torch.where(undefined, torch.nan, 1.0))
    return CosineMatrix(values, undefined, int(undefined.sum()))


def cosine_curve(curve: Float[Tensor, " offsets"]) -> Float[Tensor, " offsets"]:
    """Scale a (2n-1,) offset curve by its value at offset 0, which makes it cosine similarity.

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
    """One reference position (query) against all n keys, from a kernel (n, n) or a curve (2n-1,).

    Raises SchemeArgumentError for a reference outside 0 .. n-1, or unless exactly one is given.
    """
    source, is_curve = kernel_or_curve(kernel, curve)
    count = (len(source) + 1) // 2 if is_curve else len(source)
    if isinstance(reference, bool) or not isinstance(reference, int) or not 0 <= reference < count:
        raise SchemeArgumentError(
            f"reference must be a position from 0 to {count - 1:,}, got {shown(reference)}."
        )
    if is_curve:
        first = count - 1 - reference
        row, cosine = source[first : first + count], cosine_curve(source)[first : first + count]
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
    """Mean, spread, low and high of a kernel (n, n) along its diagonals, in the kernel's unit.

    `side` "after": offsets 0 .. n-1 (key after query); "before": 0, -1 .. -(n-1) (what a causal
    model sees); "both": -(n-1) .. n-1. A symmetric kernel has the same profile on either side.
    Entries that are not finite are left out of mean, spread and counts. A diagonal of equal entries
    has a spread of exactly 0, and so has a curve (2n-1,), which is its own profile.
    Raises SchemeArgumentError for another `side`, or unless exactly one of both is given.
    """
    if side not in ("after", "before", "both"):
        raise SchemeArgumentError(f"side must be 'after', 'before' or 'both', got {shown(side)}.")
    source, is_curve = kernel_or_curve(kernel, curve)
    count = (len(source) + 1) // 2 if is_curve else len(source)
    offsets = torch.arange(1 - count, count, device=source.device)
    if is_curve:
        mean = source.masked_fill(source.isinf(), torch.nan)
        present = mean.isfinite()
        spread = torch.where(present, 0.0, torch.nan).to(mean.dtype)
        counts = torch.where(present, count - offsets.abs(), 0)
        low, high = mean, mean
    else:
        mean, spread, low, high, counts = _along_diagonals(source, side)
    kept = {
        "after": slice(count - 1, None),
        "before": slice(None, count),
        "both": slice(None),
    }[side]
    fields = [field[kept] for field in (offsets, mean, spread, low, high, counts)]
    return OffsetProfile(*(f.flip(0) if side == "before" else f.clone() for f in fields))


def _norms(diagonal: Tensor) -> tuple[Tensor, Tensor]:
    """Square roots of a kernel's diagonal, NaN where undefined, and the mask of undefined rows."""
    undefined = ~(diagonal.isfinite() & (diagonal > 0))
    return diagonal.masked_fill(undefined, torch.nan).sqrt(), undefined


def _along_diagonals(kernel: Tensor, side: Side) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Mean, spread, low, high and counts of every diagonal, at offset + n - 1.

    Two passes over blocks of rows, each sheared so that one diagonal is one column. Deviations are
    taken from the diagonal's first entry, so that equal entries have a mean without rounding.
    """
    # The first entry of diagonal k is K[0, k] for k >= 0 and K[-k, 0] for k < 0.
    anchor = torch.cat([kernel[1:, 0].flip(0), kernel[0]])
    anchor = torch.where(anchor.isfinite(), anchor, 0.0)
    total, squares = torch.zeros_like(anchor), torch.zeros_like(anchor)
    low, high = torch.full_like(anchor, torch.inf), torch.full_like(anchor, -torch.inf)
    counts = torch.zeros(len(anchor), dtype=torch.int64, device=anchor.device)
    for columns, sheared in _sheared_blocks(kernel, side):
        missing = ~sheared.isfinite()
        deviation = (sheared - anchor[columns]).masked_fill_(missing, 0.0)
        total[columns] += deviation.sum(0)
        counts[columns] += len(sheared) - missing.sum(0)
        low[columns] = torch.minimum(low[columns], sheared.masked_fill(missing, torch.inf).amin(0))
        high[columns] = torch.maximum(
            high[columns], sheared.masked_fill(missing, -torch.inf).amax(0)
        )
    mean = anchor + total / counts  # 0 / 0 is NaN: a diagonal without a finite entry
    for columns, sheared in _sheared_blocks(kernel, side):
        deviation = sheared.sub_(mean[columns])
        squares[columns] += deviation.square_().nan_to_num_(0.0, 0.0, 0.0).sum(0)
    for extreme in (low, high):
        extreme.masked_fill_(counts == 0, torch.nan)
    return mean, (squares / counts).sqrt(), low, high, counts


def _sheared_blocks(kernel: Tensor, side: Side) -> Iterator[tuple[slice, Tensor]]:
    """Blocks of rows of a kernel, row i moved right by -i, with NaN where no entry lands.

    Yields the columns' range in offset + n - 1, and the (rows, range) block.
    """
    count = len(kernel)
    step = max(1, min(count, _BLOCK_ELEMENTS // (2 * count)))
    for start in range(0, count, step):
        end = min(start + step, count)
        left = start if side == "after" else 0
        right = end if side == "before" else count
        width = right - left + end - start - 1
        block = torch.full(
            (end - start, width), torch.nan, dtype=kernel.dtype, device=kernel.device
        )
        # Column of key j in row i: j - i - (left - (end - 1)), one less per row.
        target = block.as_strided(
            (end - start, right - left), (width - 1, 1), storage_offset=end - start - 1
        )
        target.copy_(kernel[start:end, left:right])
        first = left - (end - 1) + count - 1
        yield slice(first, first + width), block
