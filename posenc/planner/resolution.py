"""How finely numbers of few bits tell positions, and angles, apart."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from posenc.errors import SchemeArgumentError
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


def worst_cosine_error(
    inv_freq: Float[Tensor, " pairs"],
    length: int,
    *,
    ladder: Float[Tensor, " pairs"] | None = None,
) -> float:
    """Return the largest error of cos(p theta) for p < length, where angles are made in float32.

    ladder: the float32 frequencies that angles are made of, as `rope_frequencies(config,
    mode="transformers")` gives them, which computes them in float32 too; None rounds the exact ones once,
    the best that float32 holds. A frequency is multiplied by the position in float32, and the cosine of
    that angle is compared to that of the float64 one. Every position and pair counts; those are skipped
    whose angle is too small for the error to reach what was found: it is at most the angle times the error
    of the frequency and 2^-24, half an ulp of the product. Width 128, base 5e5: 1.5e-3 below 32,768, and
    2.3e-3 with transformers' ladder.
    Raises SchemeArgumentError for a length outside 1 .. 2^24 and a ladder of another size.
    """
    check_count("length", length, 1, MAX_CONTEXT)
    exact = inv_freq.detach().to("cpu", torch.float64).numpy()
    single = exact if ladder is None else ladder.detach().to("cpu").numpy()
    if single.shape != exact.shape:
        raise SchemeArgumentError(
            f"ladder must have the {len(exact):,} frequencies of inv_freq, got {len(single):,}."
        )
    worst = 0.0
    single = single.astype(np.float32)
    for pair in np.argsort(-exact):  # the fastest are wrong the most, which spares the others
        theta, rounded = exact[pair], single[pair]
        off = abs(float(rounded) - theta) + max(float(rounded), theta) * 2.0**-24
        end = length
        while end > 0 and (end - 1) * off * 1.001 > worst:
            start = max(0, end - _CHUNK)
            at = np.arange(start, end)
            angles = at.astype(np.float32) * rounded
            wrong = np.abs(np.cos(angles.astype(np.float64)) - np.cos(at * theta)).max()
            worst, end = max(worst, float(wrong)), start
    return worst
