"""Curves over the offset: read as Toeplitz matrices without a copy, and their gradient.

A curve holds one value per offset, key minus query, from -(q-1) to k-1: entry (i, j) of the matrix
is `curve[j - i + q - 1]`. Axes: h heads, q query positions, k key positions.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from posenc.hook_arguments import at_least_float32


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


QUERY_BLOCK = 256

Attend = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def attend_trained(
    attend: Attend, q: Tensor, k: Tensor, v: Tensor, curve: Tensor, scale: float
) -> Tensor:
    """Return `attend(q, k, v, curve)` with gradients of q, k, v and the curve; k and v have q's heads.

    A mask that needs a gradient makes torch's attention store every weight, T x T of them. Here the
    backward pass computes the weights of one block of queries at a time, and sums their gradients
    along diagonals.
    attend: attention under a fixed curve, minus infinity where a key may not be seen; a query that
    sees none gets zeros.
    """
    out: Tensor = _Attend.apply(q, k, v, curve, attend, scale)
    return out


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        curve: Tensor,
        attend: Attend,
        scale: float,
    ) -> Tensor:
        # Detached: torch stores every weight for a mask that needs a gradient, even unrecorded.
        out = attend(q, k, v, curve.detach())
        ctx.save_for_backward(q, k, v, curve, out)
        ctx.scale = scale
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, curve, out = ctx.saved_tensors
        grads = _gradients(q, k, v, curve, out, upstream, ctx.scale)
        return (*grads, None, None)


def _gradients(
    q: Tensor, k: Tensor, v: Tensor, curve: Tensor, out: Tensor, upstream: Tensor, scale: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of q, k, v and the curve, in float32 at least, rounded last."""
    wide = at_least_float32(q.dtype)
    keys_wide, values_wide = k.to(wide), v.to(wide)
    of_q = torch.empty_like(q)
    of_k, of_v = torch.zeros_like(keys_wide), torch.zeros_like(values_wide)
    of_curve = torch.zeros_like(curve, dtype=wide)
    queries, keys = q.shape[-2], k.shape[-2]
    open_entries = (curve != -math.inf).any(dim=0).nonzero()
    reach = int(open_entries.max()) + 1 if len(open_entries) else 0  # entries that are not masked
    # Softmax's own part of the gradient: what each query's output has to do with its change.
    shared = (upstream.to(wide) * out.to(wide)).sum(dim=-1, keepdim=True)
    for start in range(0, queries, QUERY_BLOCK):
        stop = min(start + QUERY_BLOCK, queries)
        rows = slice(start, stop)
        # Past the last offset that is not masked, no query of the block has a key.
        visible = min(keys, max(reach - (queries - stop), 0))
        if visible == 0:
            of_q[..., rows, :] = 0.0
            continue
        # Everything of the block in falling order of queries, in which the curve is a mask as it is.
        mask = flipped_rows(curve, queries, start, stop, visible)
        block = (q[..., rows, :].to(wide) * scale).flip(-2)
        change = upstream[..., rows, :].to(wide).flip(-2)
        scores = (block @ keys_wide[..., :visible, :].mT).add_(mask)
        weights = functional.softmax(scores, dim=-1)
        if queries - 1 - start >= reach:  # the first query sees no key: 0 / 0
            weights = weights.nan_to_num_(0.0)
        of_v[..., :visible, :] += weights.mT @ change
        of_weights = change @ values_wide[..., :visible, :].mT
        of_scores = of_weights.sub_(shared[..., rows, :].flip(-2)).mul_(weights)
        of_q[..., rows, :] = (
            (of_scores @ keys_wide[..., :visible, :]).mul_(scale).flip(-2).to(q.dtype)
        )
        of_k[..., :visible, :] += of_scores.mT @ block
        # A sum over a batch of one would be a copy.
        per_offset = diagonal_sums(of_scores[0] if len(of_scores) == 1 else of_scores.sum(dim=0))
        first = queries - stop
        of_curve[..., first : first + per_offset.shape[-1]] += per_offset
    return of_q, of_k.to(k.dtype), of_v.to(v.dtype), of_curve.to(curve.dtype)


def diagonal_sums(upwards: Tensor) -> Tensor:
    """Return the n + k - 1 sums along the diagonals of a matrix (..., n, k), lowest left one first.

    upwards: the matrix with its rows in falling order, the last row first.
    """
    n, k = upwards.shape[-2:]
    # Padded by n and read again at a width of one less, each row moves one further.
    padded = functional.pad(upwards, (0, n)).flatten(-2)
    return padded[..., :-n].unflatten(-1, (n, n + k - 1)).sum(dim=-2)
