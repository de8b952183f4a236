"""Curves over the offset, read as matrices without being copied.

A curve holds one value per offset, key minus query, from -(q-1) to k-1: entry (i, j) of the matrix
is `curve[j - i + q - 1]`. Axes: h heads, q query positions, k key positions.
"""

import torch
from jaxtyping import Float
from torch import Tensor


def flipped_rows(
    curve: Float[Tensor, "... m"], queries: int, start: int, stop: int, keys: int
) -> Float[Tensor, "... n k"]:
    """View rows `stop - 1` down to `start` of the matrix of `curve`, columns 0 to `keys`.

    Rows come in falling order because a Toeplitz matrix read upwards is a plain sliding window of
    its curve: that is what makes a view with two positive strides possible, and no copy.
    """
    return curve[..., queries - stop :].unfold(-1, keys, 1)[..., : stop - start, :]


def toeplitz(curve: Float[Tensor, "... m"]) -> Float[Tensor, "... n n"]:
    """Return the (n, n) matrix of a curve over offsets -(n-1) .. n-1, materialised; no gradient."""
    length = (curve.shape[-1] + 1) // 2
    upwards = flipped_rows(curve.detach(), length, 0, length, length)
    if curve.device.type != "cpu" or curve.dtype == torch.bfloat16:  # numpy knows no bfloat16
        return upwards.flip(-2)
    # numpy asks the system for huge pages: a large copy takes a sixth of the time of torch's.
    return torch.from_numpy(upwards.numpy()[..., ::-1, :].copy())
