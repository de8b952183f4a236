"""Principal components of sinusoidal and rotary tables from their frequencies, without a table.

The covariance of waves is a closed sum of cosines, so its cost does not grow with the length. Same
result and same signs as projection.py, where both are described.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.analysis.eigenpairs import merged_eigenpairs, top_eigenpairs
from posenc.analysis.projection import Projection, signed_projection
from posenc.analysis.spectrum import as_inv_freq, check_length, cos_sin
from posenc.errors import SchemeArgumentError, shown
from posenc.limits import MAX_DIM, check_count

_EPS = torch.finfo(torch.float64).eps


def project_waves(
    inv_freq: Float[Tensor, " pairs"],
    length: int,
    components: int = 3,
    *,
    fit: int | None = None,
    amplitude: float = 1.0,
) -> Projection:
    """Principal components of the rows amplitude * (sin(p w_0), cos(p w_0), sin(p w_1), ...).

    `length`: rows p = 0 .. length-1. `fit`: the number of leading positions that set the axes
    (default: all). The covariance comes from closed sums instead of the table, so its cost does not
    grow with the length: about the middle of the fitted positions, sum_p cos(p w) = sin(n w / 2) /
    sin(w / 2), and the sines separate from the cosines, which leaves two eigenproblems of (pairs,
    pairs). Same result as `project` to about 1e-12 of the largest score; a RoPE kernel's vectors
    differ only by the amplitude a sqrt(2 / d), the order of columns and constant columns, which
    change no score. `components` come in the column order above (sines first, interleaved).
    Raises SchemeArgumentError for bad frequencies, a length outside 1 .. 2^24, a fit outside
    1 .. length, or an amplitude that is not positive and finite.
    """
    inv_freq = as_inv_freq(inv_freq)
    check_length("length", length, high=2**24)
    check_count("components", components, 1, MAX_DIM)
    count = length if fit is None else check_length("fit", fit, high=length)
    if not 0 < amplitude < math.inf:
        raise SchemeArgumentError(f"amplitude must be positive and finite, got {shown(amplitude)}.")
    pairs = len(inv_freq)
    # Scatter about the mean, positions counted from the middle: sines have mean 0 there.
    difference = _centred_cosine_sum(inv_freq[:, None] - inv_freq, count)
    together = _centred_cosine_sum(inv_freq[:, None] + inv_freq, count)
    cosine_sum = _centred_cosine_sum(inv_freq, count)
    even = (difference + together) / 2 - torch.outer(cosine_sum, cosine_sum) / count
    odd = (difference - together) / 2
    size = min(components, count, 2 * pairs)
    values, axes = merged_eigenpairs(
        *top_eigenpairs(even, min(size, pairs)), *top_eigenpairs(odd, min(size, pairs)), size
    )
    even_axes, odd_axes = axes[:pairs], axes[pairs:]
    mean = cosine_sum / count
    centre = torch.tensor([count - 1], device=inv_freq.device)
    cos_centre, sin_centre = (part[0, :, None] for part in cos_sin(centre, inv_freq / 2))
    # Back to columns counted from position 0: a rotation by half the fitted length in every pair.
    columns = torch.stack(
        [
            even_axes * sin_centre + odd_axes * cos_centre,
            even_axes * cos_centre - odd_axes * sin_centre,
        ],
        1,
    ).reshape(2 * pairs, size)
    middle = torch.stack([mean * sin_centre[:, 0], mean * cos_centre[:, 0]], 1).flatten()
    scores = _wave_sums(inv_freq, length, count, even_axes, odd_axes) - mean @ even_axes
    degrees = max(count - 1, 1)
    return signed_projection(
        scores=scores,
        components=columns.T.contiguous(),
        mean=middle * amplitude,
        variance=values.clamp(min=0) / degrees,
        total=((even.trace() + odd.trace()).clamp(min=0) / degrees).item(),
        floor=torch.tensor(2 * pairs * count * _EPS / degrees, dtype=values.dtype),
        scale=amplitude,
        size=components,
        fitted=torch.arange(length, device=inv_freq.device) < count,
        missing=torch.zeros(length, dtype=torch.bool, device=inv_freq.device),
        solver="closed_form_eigh",
    )


def _centred_cosine_sum(frequency: Tensor, count: int) -> Tensor:
    """sum_p cos(frequency * (p - (count - 1) / 2)) over p = 0 .. count-1."""
    half = (frequency / 2).sin()
    return torch.where(half == 0, float(count), (frequency * (count / 2)).sin() / half)


def _wave_sums(
    inv_freq: Tensor, length: int, count: int, even_axes: Tensor, odd_axes: Tensor
) -> Tensor:
    """sum_m even cos(q w_m) + odd sin(q w_m) for q = p - (count-1)/2, p < length; (length, k).

    p = a + b with a in steps: two short tables of angles and one matrix product per component.
    """
    stride = 2 ** ((length - 1).bit_length() + 1 >> 1)
    device = inv_freq.device
    starts = torch.arange(0, length, stride, device=device)
    cos, sin = cos_sin(2 * starts - (count - 1), inv_freq / 2)
    low = torch.cat(cos_sin(torch.arange(stride, device=device), inv_freq), 1)
    even, odd = even_axes.T[:, None], odd_axes.T[:, None]
    high = torch.cat([even * cos + odd * sin, odd * cos - even * sin], 2)
    return (high @ low.T).flatten(1)[:, :length].T
