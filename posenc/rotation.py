r"""Rotary application: pairs of features turned by the angle of their position.

Su et al. 2021, arXiv 2104.09864, equation 34. A pair (x0, x1) at angle t becomes
(x0 cos t - x1 sin t, x1 cos t + x0 sin t): multiplication by e^{+it}.
"interleaved" pairs features (2m, 2m + 1), as the paper, GPT-J and the original LLaMA do;
"half" pairs (m, m + pairs), as GPT-NeoX and transformers do.
"""

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.errors import SchemeArgumentError
from posenc.limits import check_width

Layout = Literal["interleaved", "half"]

TILE_ENTRIES = 131_072  # numbers of x turned at once: 0.5 MiB of float32
ACCELERATOR_TILES = 1_024  # an accelerator's tile in CPU tiles

_LOW_PRECISION = (torch.bfloat16, torch.float16)


def half_to_interleaved(dim: int) -> Int[Tensor, " dim"]:
    """Index that takes half-split features to interleaved order, y = x[..., index].

    dim: even width. Returns (dim,) int64: 0, dim/2, 1, dim/2 + 1, ...
    """
    return torch.arange(check_width("dim", dim)).view(2, -1).T.flatten()


def interleaved_to_half(dim: int) -> Int[Tensor, " dim"]:
    """Index that takes interleaved features to half-split order, y = x[..., index].

    dim: even width. Returns (dim,) int64: 0, 2, 4, ..., 1, 3, 5, ...
    """
    return torch.arange(check_width("dim", dim)).view(-1, 2).T.flatten()


def apply_rope(
    x: Float[Tensor, "*batch T d"],
    cos: Float[Tensor, "*#batch T pairs"],
    sin: Float[Tensor, "*#batch T pairs"],
    *,
    layout: Layout = "interleaved",
    out: Tensor | None = None,
) -> Float[Tensor, "*batch T d"]:
    """Turn the first 2 * pairs features of each row of x; the rest, if any, pass untouched.

    x: (..., T, d) of any floating dtype; bfloat16 and float16 are turned in float32 and rounded
    once. cos, sin: (T, pairs), or with leading dimensions that broadcast against those of x, such
    as (B, 1, T, pairs); of any floating dtype. layout: "interleaved" or "half" (module docstring).
    out: a tensor of x's shape, dtype and device to fill, x itself included; not under autograd.
    Returns a tensor like x. Differentiable in x, cos and sin. Raises SchemeArgumentError.
    """
    _check(x, cos, sin, layout)
    recording = torch.is_grad_enabled() and (
        x.requires_grad or cos.requires_grad or sin.requires_grad
    )
    if out is None:
        if recording or torch.compiler.is_compiling():
            return _turned(x, cos, sin, layout)
        out = torch.empty_like(x)
    else:
        _check_out(out, x, recording)
        if out.untyped_storage().data_ptr() == x.untyped_storage().data_ptr():
            x = x.clone()
    _turn_into(out, x, cos, sin, layout)
    return out


def _check(x: Tensor, cos: Tensor, sin: Tensor, layout: str) -> None:
    if layout not in ("interleaved", "half"):
        raise SchemeArgumentError(f'layout must be "interleaved" or "half", got {layout!r}.')
    shape, rows = x.shape, cos.shape
    if not (x.is_floating_point() and cos.is_floating_point() and sin.is_floating_point()):
        raise SchemeArgumentError(
            f"x, cos and sin must be floating point, got {x.dtype}, {cos.dtype}, {sin.dtype}."
        )
    if rows != sin.shape:
        raise SchemeArgumentError(
            f"cos and sin must have one shape, got {tuple(rows)} and {tuple(sin.shape)}."
        )
    fits = 2 <= len(rows) <= len(shape) and 0 < 2 * rows[-1] <= shape[-1]
    if not fits or any(
        have not in (want, 1) for have, want in zip(rows[-3::-1], shape[-3::-1], strict=False)
    ) or rows[-2] != shape[-2]:
        raise SchemeArgumentError(
            "cos and sin must be (T, pairs) for x of (..., T, d) with 2 * pairs <= d, or broadcast "
            f"against its leading dimensions; got {tuple(rows)} for x of {tuple(shape)}."
        )


def _check_out(out: Tensor, x: Tensor, recording: bool) -> None:
    if out.shape != x.shape or out.dtype != x.dtype or out.device != x.device:
        raise SchemeArgumentError(
            f"out must be a {tuple(x.shape)} tensor of {x.dtype} on {x.device} like x, "
            f"got {tuple(out.shape)} of {out.dtype} on {out.device}."
        )
    if recording or (torch.is_grad_enabled() and out.requires_grad):
        raise SchemeArgumentError(
            "out cannot be given where a gradient is recorded; call without out, or in no_grad."
        )


def _turned(x: Tensor, cos: Tensor, sin: Tensor, layout: Layout) -> Tensor:
    """The rotation as one differentiable, traceable expression."""
    dtype = torch.float32 if x.dtype in _LOW_PRECISION else x.dtype
    cos, sin = cos.to(dtype), sin.to(dtype)
    pairs = cos.shape[-1]
    head = x[..., : 2 * pairs].to(dtype)
    if layout == "interleaved":
        x0, x1 = head.unflatten(-1, (pairs, 2)).unbind(-1)
        head = torch.stack((x0 * cos - x1 * sin, x1 * cos + x0 * sin), -1).flatten(-2)
    else:
        x0, x1 = head.split(pairs, -1)
        head = torch.cat((x0 * cos - x1 * sin, x1 * cos + x0 * sin), -1)
    head = head.to(x.dtype)
    return head if x.shape[-1] == 2 * pairs else torch.cat((head, x[..., 2 * pairs :]), -1)


def _turn_into(out: Tensor, x: Tensor, cos: Tensor, sin: Tensor, layout: Layout) -> None:
    """The rotation tile by tile into out, which shares no memory with x."""
    length, width = x.shape[-2:]
    dtype = torch.float32 if x.dtype in _LOW_PRECISION else x.dtype
    pairs = cos.shape[-1]
    if width > 2 * pairs:
        out[..., 2 * pairs :] = x[..., 2 * pairs :]
        x, out = x[..., : 2 * pairs], out[..., : 2 * pairs]
    limit = TILE_ENTRIES * (1 if x.device.type == "cpu" else ACCELERATOR_TILES)
    turn = _turn_interleaved if layout == "interleaved" else _turn_half
    if x.numel() <= limit:
        turn(out, x, cos.to(dtype), sin.to(dtype))
        return
    step = max(1, limit * length // x.numel())
    for row in range(0, length, step):
        some = (..., slice(row, row + step), slice(None))
        turn(out[some], x[some], cos[some].to(dtype), sin[some].to(dtype))


def _turn_interleaved(out: Tensor, x: Tensor, cos: Tensor, sin: Tensor) -> None:
    """One complex product of pairs with e^{it}."""
    factor = torch.complex(cos, sin)
    if x.dtype != cos.dtype or not _is_packed(x):
        x = x.to(cos.dtype, memory_format=torch.contiguous_format, copy=True)
    if out.dtype == cos.dtype and _is_packed(out):
        torch.mul(x.view(factor.dtype), factor, out=out.view(factor.dtype))
    else:
        out.copy_(torch.mul(x.view(factor.dtype), factor).view(cos.dtype))


def _is_packed(x: Tensor) -> bool:
    """Whether neighbouring features can be viewed as complex numbers."""
    *strides, last = x.stride()
    return last == 1 and not any(s % 2 for s in strides) and x.storage_offset() % 2 == 0


def _turn_half(out: Tensor, x: Tensor, cos: Tensor, sin: Tensor) -> None:
    """Two products, each completed by a multiply-add."""
    if x.dtype != cos.dtype:
        wide = x.to(cos.dtype)
        turned = torch.empty_like(wide)
        _turn_half(turned, wide, cos, sin)
        out.copy_(turned)
        return
    pairs = cos.shape[-1]
    x0, x1 = x.split(pairs, -1)
    out0, out1 = out.split(pairs, -1)
    torch.mul(x0, cos, out=out0).addcmul_(x1, sin, value=-1)
    torch.mul(x1, cos, out=out1).addcmul_(x0, sin)
