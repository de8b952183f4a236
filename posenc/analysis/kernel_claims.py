"""Two claims about the numbers of a kernel by offset, each with a random control.

Depends on the offset only: K(i, i + k) does not depend on i.
Straight line in the offset: the logit falls linearly with k (Press et al. 2022, arXiv 2108.12409).
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.analysis.inputs import Seed, as_float64, as_generator, as_kernel
from posenc.analysis.similarity import similarity_by_offset
from posenc.notebook import Shown

TOO_FEW_POSITIONS = "There are too few positions to compare one offset at two places."
NO_SPREAD = "All entries off the diagonal are equal, so there is no spread to compare with."

_EPS = torch.finfo(torch.float64).eps


@dataclass(frozen=True, eq=False)
class OffsetOnly(Shown):
    """Deviation of a kernel from a function of the offset alone.

    `error`: see `diagonal_spread`; None with a `reason` where it is undefined. `control`: the same
    for a random table.
    """

    error: float | None
    reason: str | None
    control: float | None


@dataclass(frozen=True)
class LinearInOffset(Shown):
    """Straight line fitted to the values by offset 0 .. n-1, and its residual.

    `r_squared`: 1 for a straight line; None with a `reason` where the values do not vary or are
    fewer than three. `slope`: in the values' unit per position. `control`: r_squared of Gaussian
    noise of the same length, on average 1 / (n - 1).
    """

    r_squared: float | None
    reason: str | None
    slope: float
    control: float | None


def offset_only(kernel: Float[Tensor, "n n"], *, seed: Seed = 0) -> OffsetOnly:
    """Return how far K(i, i + k) is from a function of k, by `diagonal_spread`.

    The control is the kernel of a Gaussian table (n, 64) drawn from `seed`.
    Raises SchemeArgumentError for a kernel that is not square.
    """
    error, reason = diagonal_spread(kernel)
    noise = torch.randn(len(kernel), 64, dtype=torch.float64, generator=as_generator(seed))
    return OffsetOnly(error, reason, diagonal_spread(noise @ noise.T)[0])


def linear_in_offset(values: Float[Tensor, " n"], *, seed: Seed = 0) -> LinearInOffset:
    """Return how straight a line `values` (n,) make: R^2 of the values at k = 0 .. n-1 against k.

    `values`: the logit that position contributes at a distance of k, keys before the query; for a
    kernel in units of a weight factor, its logarithm. ALiBi has 1 and its slope. Offsets whose value
    is not finite are left out; with fewer than three others there is no answer but a reason.
    """
    values = as_float64("values", values, "(n,)")
    steps = torch.arange(len(values), dtype=values.dtype, device=values.device)
    finite = values.isfinite()
    if int(finite.sum()) < 3:
        too_few = "There are too few offsets with a value to lay a line through."
        return LinearInOffset(None, too_few, math.nan, math.nan)
    noise = torch.randn(len(values), dtype=values.dtype, generator=as_generator(seed))
    r_squared, slope = _line(steps[finite], values[finite])
    control, _ = _line(steps[finite], noise.to(values.device)[finite])
    reason = None if r_squared is not None else "The values do not change with the offset."
    return LinearInOffset(r_squared, reason, slope, control)


def diagonal_spread(kernel: Float[Tensor, "n n"]) -> tuple[float | None, str | None]:
    """Return (error, None), or (None, reason) where it is undefined.

    The error is the mean over offsets 1 <= k < n/2 of the standard deviation (correction 0) of
    K(i, i + k) over i, divided by that of all off-diagonal entries; entries that are not finite are
    left out. 0: K depends on the offset only; a random table is near 1. No unit.
    Raises SchemeArgumentError for a kernel that is not square.
    """
    kernel = as_kernel(kernel)
    count = len(kernel)
    short = similarity_by_offset(kernel).deviation[1 : max(1, (count + 1) // 2)]
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


def _line(at: Tensor, values: Tensor) -> tuple[float | None, float]:
    """R^2 and slope of values against `at`; R^2 is None when nothing varies."""
    steps = at - at.mean()
    centred = values - values[0]
    centred = centred - centred.mean()
    slope = (steps @ centred) / (steps @ steps)
    residual = centred - slope * steps
    r_squared = None
    if centred.abs().amax() > 64 * _EPS * values.abs().amax():
        r_squared = (1 - (residual @ residual) / (centred @ centred)).item()
    return r_squared, slope.item()
