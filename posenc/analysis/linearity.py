"""Two claims about a kernel and its offsets, each able to fail, each with a random control.

Depends on the offset only: K(i, i + k) does not depend on i.
Straight line in the offset: the logit falls linearly with k (Press et al. 2022, arXiv 2108.12409).
The third claim of this kind, one matrix per offset, is in linear_map.py. Axes: n positions.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.analysis.arguments import as_float64, as_kernel
from posenc.analysis.seeds import Seed, as_generator
from posenc.analysis.similarity import similarity_by_offset
from posenc.limits import check_count

TOO_FEW_OFFSETS = "There are too few offsets with a value to lay a line through."
TOO_FEW_POSITIONS = "There are too few positions to compare one offset at two places."
NO_SPREAD = "All entries off the diagonal are equal, so there is no spread to compare with."

_EPS = torch.finfo(torch.float64).eps


@dataclass(frozen=True, eq=False)
class OffsetOnly:
    """How far a kernel is from a function of the offset alone.

    `error`: mean spread along the diagonals over the spread of all off-diagonal entries; 0 is
    exact, None with a `reason` where it is undefined. `control`: the same for a random table.
    `offsets`, `spread`: the diagonals averaged, and the standard deviation along each, in the
    kernel's unit.
    """

    error: float | None
    reason: str | None
    control: float | None
    offsets: Int[Tensor, " offsets"]
    spread: Float[Tensor, " offsets"]


@dataclass(frozen=True)
class LinearInOffset:
    """How straight a line the values by offset 0 .. n-1 make.

    `r_squared`: 1 for a straight line; None with a `reason` where the values do not
    vary or are fewer than three. `slope`
    in the values' unit per position. `control`: r_squared of Gaussian noise of the same length, on
    average 1 / (n - 1).
    """

    r_squared: float | None
    reason: str | None
    slope: float
    intercept: float
    control: float | None


def offset_only(
    kernel: Float[Tensor, "n n"], *, seed: Seed = 0, control_width: int = 64
) -> OffsetOnly:
    """Does K(i, i + k) depend on k alone? Spread along the diagonals over the overall spread.

    The mean over offsets 1 <= k < n/2 of the standard deviation (correction 0) of K(i, i + k) over
    i, divided by that of all off-diagonal entries; entries that are not finite are left out. No
    unit. The control is the kernel of a Gaussian table (n, control_width) drawn from `seed`.
    Raises SchemeArgumentError for a kernel that is not square.
    """
    kernel = as_kernel(kernel)
    check_count("control_width", control_width, 1, 2**16)
    profile = similarity_by_offset(kernel)
    error, reason = _diagonal_spread(kernel, profile.spread)
    noise = torch.randn(
        len(kernel), control_width, dtype=kernel.dtype, generator=as_generator(seed)
    ).to(kernel.device)
    gram = noise @ noise.T
    control, _ = _diagonal_spread(gram, similarity_by_offset(gram).spread)
    kept = slice(1, max(1, (len(kernel) + 1) // 2))
    return OffsetOnly(error, reason, control, profile.offsets[kept], profile.spread[kept])


def linear_in_offset(values: Float[Tensor, " n"], *, seed: Seed = 0) -> LinearInOffset:
    """Is the logit a straight line in the offset? R^2 of values at k = 0 .. n-1 against k.

    `values` (n,): the logit that position contributes at a distance of k, keys before the query;
    for a kernel given as a weight factor, its logarithm. ALiBi gives 1 with its slope. Offsets whose
    value is not finite are left out; with fewer than three others there is no answer but a reason.
    """
    values = as_float64("values", values, "(n,)")
    steps = torch.arange(len(values), dtype=values.dtype, device=values.device)
    finite = values.isfinite()
    if int(finite.sum()) < 3:
        return LinearInOffset(None, TOO_FEW_OFFSETS, math.nan, math.nan, math.nan)
    noise = torch.randn(len(values), dtype=values.dtype, generator=as_generator(seed))
    r_squared, slope, intercept = _line(steps[finite], values[finite])
    control, _, _ = _line(steps[finite], noise.to(values.device)[finite])
    reason = None if r_squared is not None else "The values do not change with the offset."
    return LinearInOffset(r_squared, reason, slope, intercept, control)


def diagonal_spread(kernel: Float[Tensor, "n n"]) -> tuple[float | None, str | None]:
    """The error of `offset_only` alone: (error, None), or (None, reason) where it is undefined.

    Raises SchemeArgumentError for a kernel that is not square.
    """
    kernel = as_kernel(kernel)
    return _diagonal_spread(kernel, similarity_by_offset(kernel).spread)


def _diagonal_spread(kernel: Tensor, spread: Tensor) -> tuple[float | None, str | None]:
    count = len(kernel)
    short = spread[1 : max(1, (count + 1) // 2)]
    short = short[short.isfinite()]
    if not len(short):
        return None, TOO_FEW_POSITIONS
    # Without its first entry, a row-major square has its diagonal in the last of count + 1 columns.
    others = kernel.contiguous().flatten()[1:].view(count - 1, count + 1)[:, :-1]
    others = others[others.isfinite()]
    overall = (others - others[0]).std(correction=0)
    if overall <= 64 * _EPS * others.abs().amax():
        return None, NO_SPREAD
    return (short.mean() / overall).item(), None


def _line(at: Tensor, values: Tensor) -> tuple[float | None, float, float]:
    """R^2, slope and intercept of values against `at`; R^2 is None when nothing varies."""
    steps = at - at.mean()
    centred = values - values[0]
    centred = centred - centred.mean()
    slope = (steps @ centred) / (steps @ steps)
    intercept = values.mean() - slope * at.mean()
    residual = centred - slope * steps
    varies = centred.abs().amax() > 64 * _EPS * values.abs().amax()
    share = 1 - (residual @ residual) / (centred @ centred) if varies else None
    return None if share is None else share.item(), slope.item(), intercept.item()
