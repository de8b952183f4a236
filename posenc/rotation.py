r"""Rotary application: pairs of features turned by the angle of their position.

Su et al. 2021, arXiv 2104.09864, equation 34. A pair (x0, x1) at angle t becomes
(x0 cos t - x1 sin t, x1 cos t + x0 sin t): multiplication by e^{+it}.
"interleaved" pairs features (2m, 2m+1), as the paper, GPT-J and the original LLaMA do;
"half" pairs (m, m + pairs), as GPT-NeoX and transformers do.
"""

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.errors import SchemeArgumentError
from posenc.limits import check_width

Layout = Literal["interleaved", "half"]


def half_to_interleaved(dim: int) -> Int[Tensor, " dim"]:
    """Index that takes features in half-split order to interleaved order: y = x[..., index].

    dim: even width. Returns (dim,) int64: 0, dim/2, 1, dim/2 + 1, ...
    """
    return torch.arange(check_width("dim", dim)).reshape(2, -1).T.flatten()


def interleaved_to_half(dim: int) -> Int[Tensor, " dim"]:
    """Index that takes features in interleaved order to half-split order: y = x[..., index].

    dim: even width. Returns (dim,) int64: 0, 2, 4, ..., 1, 3, 5, ...
    """
    return torch.arange(check_width("dim", dim)).reshape(-1, 2).T.flatten()


def apply_rope(
    x: Float[Tensor, "*batch T d"],
    cos: Float[Tensor, "*#batch T pairs"],
    sin: Float[Tensor, "*#batch T pairs"],
    *,
    layout: Layout = "interleaved",
    out: Tensor | None = None,
) -> Float[Tensor, "*batch T d"]:
    """Rotate the first 2 * pairs features of x; the rest, if any, pass through untouched.

    x: (..., T, d) of any float dtype. cos, sin: (T, pairs), or with leading dimensions that
    broadcast against those of x, e.g. (B, 1, T, pairs); float32 or float64 whatever x is.
    layout: "interleaved" or "half". out: a tensor like x to fill.
    Returns a tensor like x. Differentiable in x. Raises SchemeArgumentError.
    """
    if layout not in ("interleaved", "half"):
        raise SchemeArgumentError(f'layout must be "interleaved" or "half", got {layout!r}.')
    pairs = cos.shape[-1]
    width = torch.promote_types(torch.promote_types(x.dtype, cos.dtype), torch.float32)
    if x.dtype in (torch.bfloat16, torch.float16, torch.float32):
        width = torch.float32
    cos, sin = cos.to(width), sin.to(width)
    head = x[..., : 2 * pairs].to(width)
    if layout == "interleaved":
        x0, x1 = head[..., 0::2], head[..., 1::2]
        turned = torch.stack((x0 * cos - x1 * sin, x1 * cos + x0 * sin), -1).flatten(-2)
    else:
        x0, x1 = head[..., :pairs], head[..., pairs:]
        turned = torch.cat((x0 * cos - x1 * sin, x1 * cos + x0 * sin), -1)
    turned = turned.to(x.dtype)
    if x.shape[-1] > 2 * pairs:
        turned = torch.cat((turned, x[..., 2 * pairs :]), -1)
    return turned if out is None else out.copy_(turned)
