"""How finely numbers of few bits tell positions, and angles, apart."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from posenc.limits import check_count
from posenc.planner.cache import MAX_CONTEXT

_CHUNK = 2**16


def distinct_positions(length: int, dtype: torch.dtype = torch.bfloat16) -> int:
    """Count the different numbers that positions 0 .. length-1 become in `dtype`, by counting all.

    bfloat16: 256 below 256, 641 below 2,048, 1,409 below 131,072.
    Raises SchemeArgumentError for a length outside 1 .. 2^24.
    """
    check_count("length", length, 1, MAX_CONTEXT)
    count, last = 0, None
    for start in range(0, length, _CHUNK):
        rounded = torch.arange(start, min(start + _CHUNK, length), device="cpu").to(dtype)
        # Rounding keeps the order, so equal numbers are neighbours.
        count += 1 + int((rounded[1:] != rounded[:-1]).sum())
        if last is not None and bool(rounded[0] == last):
            count -= 1
        last = rounded[-1]
    return count


def worst_cosine_error(inv_freq: Float[Tensor, " pairs"], length: int) -> float:
    """Return the largest error of cos(p theta) for p < length, where angles are made in float32.

    The frequencies are rounded to float32, multiplied by the position in float32, and the cosine of
    that angle is compared to that of the float64 one. Every position and pair counts; those are skipped
    whose angle is too small for the error to reach what was found: half an ulp of the frequency and half
    one of the product are at most 2^-23 of the angle. Width 128, base 5e5: 1.5e-3 below 32,768.
    Raises SchemeArgumentError for a length outside 1 .. 2^24.
    """
    check_count("length", length, 1, MAX_CONTEXT)
    exact = inv_freq.detach().to("cpu", torch.float64).numpy()
    worst = 0.0
    for theta in np.sort(exact)[::-1]:
        rounded, end = np.float32(theta), length
        while end > 0 and (end - 1) * theta * 2.0**-23 * 1.001 > worst:
            start = max(0, end - _CHUNK)
            at = np.arange(start, end)
            angles = at.astype(np.float32) * rounded
            wrong = np.abs(np.cos(angles.astype(np.float64)) - np.cos(at * theta)).max()
            worst, end = max(worst, float(wrong)), start
    return worst
