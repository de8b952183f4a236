"""Cosine similarity of positions: the kernel scaled to a unit diagonal, whole, by row, by offset.

Definition: cos(i, j) = K(i, j) / sqrt(K(i, i) K(j, j)), where K is the position kernel.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.analysis.inputs import as_curve, as_kernel, kernel_or_curve
from posenc.errors import NotStationary, SchemeArgumentError
from posenc.kernel import offset_curve, position_kernel
from posenc.limits import MAX_KERNEL_LENGTH, check_choice, check_count
from posenc.notebook import Shown, View, numbers_of, title_of
from posenc.schemes.base import Request, check_request
from posenc.toeplitz import toeplitz

Side = Literal["after", "before", "both"]

DIAGONALS_AT_ONCE = 256  # bounds the memory of a long kernel's statistics


@dataclass(frozen=True, eq=False)
class OffsetProfile(Shown):
    """Statistics of a kernel along its diagonals; every field is (offsets,), in the kernel's unit.

    `offsets`: key minus query. `mean`, `deviation` (standard deviation, correction 0), `low` and
    `high` are of the finite entries of that diagonal; they are NaN where there is none.
    """

    offsets: Int[Tensor, " offsets"]
    mean: Float[Tensor, " offsets"]
    deviation: Float[Tensor, " offsets"]
    low: Float[Tensor, " offsets"]
    high: Float[Tensor, " offsets"]

    def view(self) -> View:
        return View(
            title=title_of(self),
            numbers=numbers_of(self),
            columns={
                "offset": self.offsets,
                "mean": self.mean,
                "deviation": self.deviation,
                "low": self.low,
                "high": self.high,
            },
            x="offset",
            lines=("mean", "low", "high"),
        )


@dataclass(frozen=True, eq=False)
class SchemeSimilarity(Shown):
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

    @property
    def random_pair(self) -> float:
        """Mean similarity of a query and an earlier key, over every pair that has one; NaN without any."""
        count = len(self.distances)
        if self.cosine.ndim == 1:
            values = self.cosine[: count - 1]  # at offsets -(n-1) .. -1, of 1 .. n-1 pairs
            pairs = torch.arange(1, count, device=values.device)
        else:
            rows, columns = torch.tril_indices(count, count, -1, device=self.cosine.device)
            values, pairs = self.cosine[rows, columns], torch.ones_like(rows)
        pairs = pairs * values.isfinite()
        return float((values.nan_to_num() * pairs).sum() / pairs.sum())

    def view(self) -> View:
        return View(
            title=title_of(self),
            numbers=numbers_of(self),
            columns={
                "distance": self.distances,
                "mean": self.mean,
                "deviation": self.deviation,
                "low": self.low,
                "high": self.high,
            },
            x="distance",
            lines=("mean", "low", "high"),
        )


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


def cosine_matrix(kernel: Float[Tensor, "n n"]) -> Float[Tensor, "n n"]:
    """Return a kernel (n, n) scaled to a unit diagonal, which is cosine similarity.

    The row and column of a position whose K(i, i) is not positive and finite are NaN, as are other
    entries that are not finite. Nothing is clamped: a value above 1 by more than rounding shows a
    kernel that is no inner product.
    Raises SchemeArgumentError for a kernel that is not square.
    """
    kernel = as_kernel(kernel)
    norms = _norms(kernel)
    values = torch.outer(norms, norms)  # of square roots: no finite kernel overflows
    torch.div(kernel, values, out=values)
    values.masked_fill_(values.isinf(), torch.nan)
    values.diagonal().copy_(norms / norms)
    return values


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
) -> Float[Tensor, " n"]:
    """Return the cosine similarity of one position (query) with all n, from a kernel or a curve.

    Raises SchemeArgumentError for a reference outside 0 .. n-1, or unless exactly one is given.
    """
    source, count, is_curve = kernel_or_curve(kernel, curve)
    check_count("reference", reference, 0, count - 1)
    if is_curve:
        return cosine_curve(source)[count - 1 - reference : 2 * count - 1 - reference].clone()
    norms = _norms(source)
    cosine = source[reference] / (norms[reference] * norms)
    cosine.masked_fill_(cosine.isinf(), torch.nan)
    cosine[reference] = norms[reference] / norms[reference]
    return cosine


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
    source, count, is_curve = kernel_or_curve(kernel, curve)
    sides = {"after": range(count), "before": range(0, -count, -1), "both": range(1 - count, count)}
    check_choice("side", side, sides)
    offsets = torch.tensor(sides[side], device=source.device)
    if is_curve:
        mean = source[offsets + count - 1]
        mean.masked_fill_(mean.isinf(), torch.nan)
        return OffsetProfile(offsets, mean, 0.0 * mean, mean, mean)
    parts = [_statistics(source, some) for some in offsets.split(DIAGONALS_AT_ONCE)]
    return OffsetProfile(offsets, *torch.cat(parts, dim=1))


def _norms(kernel: Tensor) -> Tensor:
    """Square roots of a kernel's diagonal, NaN where that is not positive and finite."""
    diagonal = kernel.diagonal()
    return diagonal.masked_fill(~(diagonal.isfinite() & (diagonal > 0)), torch.nan).sqrt()


def _statistics(kernel: Tensor, offsets: Tensor) -> Tensor:
    """Mean, standard deviation, lowest and highest of the finite values on each of these diagonals."""
    count = len(kernel)
    row = torch.arange(count, device=kernel.device)
    column = row + offsets[:, None]
    values = kernel[row, column.clamp(0, count - 1)]
    counted = (column >= 0) & (column < count) & values.isfinite()
    number = counted.sum(dim=1, keepdim=True)
    first = values.gather(1, counted.int().argmax(dim=1, keepdim=True))
    above = (values - first).where(counted, 0)  # of equal values the mean has no rounding
    mean = above.sum(dim=1, keepdim=True) / number
    squares = (above - mean).where(counted, 0).square()
    found = torch.cat(
        (
            first + mean,
            (squares.sum(dim=1, keepdim=True) / number).sqrt(),
            values.where(counted, torch.inf).amin(dim=1, keepdim=True),
            values.where(counted, -torch.inf).amax(dim=1, keepdim=True),
        ),
        dim=1,
    )
    return found.masked_fill(number == 0, torch.nan).T


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


def kernel_values(request: Request, device: torch.device | str | None = None) -> Tensor:
    """Return a scheme's position kernel over the positions that have a value, float64.

    (2n-1,) by offset where a curve says it all, else (n, n). On a device, by default that of the request.
    """
    check_request(request)
    device = request.device if device is None else device
    scheme = request.build(device)
    length = scheme.positions_within(request.length)
    try:
        return offset_curve(scheme, length, head=request.head, dtype=request.dtype, device=device)
    except NotStationary:
        return position_kernel(
            scheme, length, head=request.head, dtype=request.dtype, device=device
        )


def scheme_similarity(request: Request, values: Tensor | None = None) -> SchemeSimilarity:
    """Return the similarity of a scheme's positions. values: of `kernel_values`, if computed."""
    values = (kernel_values(request) if values is None else values).cpu()
    if values.ndim == 1:
        cosine, undefined = cosine_curve(values), 0
        profile = similarity_by_offset(curve=cosine, side="before")
    else:
        cosine = cosine_matrix(values)
        undefined = int(cosine.diagonal().isnan().sum())
        profile = similarity_by_offset(cosine, side="before")
    low, high = profile.low, profile.high
    if values.ndim == 1 and request.head == "mean" and (scheme := request.build("cpu")).heads:
        heads = torch.stack(
            [scheme.offset_kernel(profile.offsets, x, request.dtype) for x in range(scheme.heads)]
        )
        heads = heads / heads[:, :1]  # offset 0 comes first
        low, high = heads.amin(dim=0), heads.amax(dim=0)
    return SchemeSimilarity(
        cosine, -profile.offsets, profile.mean, profile.deviation, low, high, undefined
    )
