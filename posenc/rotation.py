r"""Rotary application, and the rotation as a matrix.

Su et al. 2021, arXiv 2104.09864, equation 34. A pair (x0, x1) at angle t becomes
(x0 cos t - x1 sin t, x1 cos t + x0 sin t): multiplication by :math:`e^{+it}`.
"interleaved" pairs features (2m, 2m + 1), as the paper, GPT-J and the original LLaMA do;
"half" pairs (m, m + pairs), as GPT-NeoX and transformers do.
"""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.errors import SchemeArgumentError
from posenc.frequencies import Layout, check_layout
from posenc.hook_arguments import at_least_float32, check_out, is_real, is_traced, type_and_shape
from posenc.limits import check_choice

First = Literal["sin", "cos"]

DENSE_WIDTH = 512  # wider matrices are sparse

# Entries of x rotated at once: 256 KiB of float32, which stay in the cache. It changes the speed alone.
TILE_ENTRIES = 65_536


def apply_rope(
    x: Float[Tensor, "*batch T d"],
    cos: Float[Tensor, "*#batch T pairs"],
    sin: Float[Tensor, "*#batch T pairs"],
    *,
    layout: Layout = "interleaved",
    out: Tensor | None = None,
) -> Float[Tensor, "*batch T d"]:
    """Rotate the first 2 * pairs features of each row of x; the rest, if any, pass untouched.

    x: (..., T, d) of any floating dtype; bfloat16 and float16 are rotated in float32 and rounded
    once. cos, sin: (T, pairs), or with leading dimensions that broadcast against those of x, such
    as (B, 1, T, pairs); of any floating dtype. layout: "interleaved" or "half" (module docstring).
    out: a tensor of x's shape, dtype and device to fill, x itself included; not under autograd.
    Returns a tensor like x. Differentiable in x, cos and sin. Raises SchemeArgumentError.
    """
    _check(x, cos, sin, layout)
    wide = at_least_float32(x.dtype)
    if not cos.dtype == sin.dtype == wide:
        cos, sin = cos.to(wide), sin.to(wide)
    needs_grad = torch.is_grad_enabled() and (
        x.requires_grad or cos.requires_grad or sin.requires_grad
    )
    fits_one_product = layout == "interleaved" and x.dtype == wide
    if out is not None:
        _check_out(out, x, needs_grad)
        if torch.compiler.is_compiling() or any(_share_memory(out, part) for part in (x, cos, sin)):
            return out.copy_(apply_rope(x, cos, sin, layout=layout))
    else:
        out_of_place = needs_grad or torch.compiler.is_compiling()
        if x.numel() > TILE_ENTRIES // 8:  # below, the number of calls is what counts
            out_of_place = out_of_place or any(is_traced(part) for part in (x, cos, sin))
        elif layout == "half":
            out_of_place = True
        if out_of_place or fits_one_product or x.numel() <= 2 * TILE_ENTRIES:
            return _rotated(x, cos, sin, layout, out_of_place)
        out = torch.empty_like(x)
    pairs = cos.shape[-1]
    if x.shape[-1] > 2 * pairs:
        out[..., 2 * pairs :] = x[..., 2 * pairs :]
    if fits_one_product and _is_packed(x) and _is_packed(out):
        _product(
            x[..., : 2 * pairs], _factors(cos, sin, layout), sin, layout, out[..., : 2 * pairs]
        )
    else:
        _rotate_by_tiles(out[..., : 2 * pairs], x[..., : 2 * pairs], cos, sin, layout)
    return out


def apply_rope_to_both(
    q: Float[Tensor, "b h n d"],
    k: Float[Tensor, "b g n d"],
    cos: Float[Tensor, "*#b n pairs"],
    sin: Float[Tensor, "*#b n pairs"],
    *,
    layout: Layout = "interleaved",
) -> tuple[Float[Tensor, "b h n d"], Float[Tensor, "b g n d"]]:
    """`apply_rope` to queries and keys of the same positions; in a decoding step by one call."""
    small = q.numel() + k.numel() <= TILE_ENTRIES // 2  # here the number of calls is what counts
    if not small or q.dtype != k.dtype or not (q.ndim == k.ndim == 4 and len(q) == len(k) == 1):
        return apply_rope(q, cos, sin, layout=layout), apply_rope(k, cos, sin, layout=layout)
    both = apply_rope(torch.cat((q, k), 1), cos, sin, layout=layout)
    return both[:, : q.shape[1]], both[:, q.shape[1] :]


def _rotated(x: Tensor, cos: Tensor, sin: Tensor, layout: Layout, out_of_place: bool) -> Tensor:
    """Return the rotation; out of place it is one expression, which can be differentiated."""
    pairs, whole = cos.shape[-1], x.shape[-1] == 2 * cos.shape[-1]
    head = x if whole else x[..., : 2 * pairs]
    if x.dtype != cos.dtype:
        head = head.to(cos.dtype)
    if out_of_place and layout == "half":
        x0, x1 = head.chunk(2, -1)
        rotated0 = torch.addcmul(x0 * cos, x1, sin, value=-1)
        rotated = torch.cat((rotated0, torch.addcmul(x1 * cos, x0, sin)), -1)
    elif torch.compiler.is_compiling():  # complex numbers are not compiled
        x0, x1 = head.unflatten(-1, (-1, 2)).unbind(-1)
        rotated = torch.stack((x0 * cos - x1 * sin, x1 * cos + x0 * sin), -1).flatten(-2)
    else:
        if layout == "interleaved" and not _is_packed(head):
            head = head.clone(memory_format=torch.contiguous_format)
        rotated = _product(head, _factors(cos, sin, layout), sin, layout)
    if x.dtype != cos.dtype:
        rotated = rotated.to(x.dtype)
    return rotated if whole else torch.cat((rotated, x[..., 2 * pairs :]), -1)


def _factors(cos: Tensor, sin: Tensor, layout: Layout) -> Tensor:
    return torch.cat((cos, cos), -1) if layout == "half" else torch.complex(cos, sin)


def _product(
    x: Tensor, factors: Tensor, sin: Tensor, layout: Layout, out: Tensor | None = None
) -> Tensor:
    """Return x times the factors of all its pairs, all of one dtype; `out`, if given, is filled."""
    if layout == "interleaved":
        product = torch.mul(_as_complex(x), factors, out=None if out is None else _as_complex(out))
        return torch.view_as_real(product).flatten(-2)
    rotated = torch.mul(x, factors, out=out)
    (x0, x1), (rotated0, rotated1) = x.chunk(2, -1), rotated.chunk(2, -1)
    rotated0.addcmul_(x1, sin, value=-1)
    rotated1.addcmul_(x0, sin)
    return rotated


def _rotate_by_tiles(out: Tensor, x: Tensor, cos: Tensor, sin: Tensor, layout: Layout) -> None:
    """Rotate x into out some rows at a time: what is computed in between stays in the cache."""
    length, step = x.shape[-2], x.shape[-2]
    if x.device.type == "cpu":
        step = max(1, TILE_ENTRIES * length // max(1, x.numel()))
    head = torch.empty_like(
        x[..., :step, :], dtype=cos.dtype, memory_format=torch.contiguous_format
    )
    rotated = torch.empty_like(head)
    operands = (part.split(step, -2) for part in (out, x, _factors(cos, sin, layout), sin))
    for target, tile, factors, tile_sin in zip(*operands, strict=True):
        rows = tile.shape[-2]
        head, rotated = head[..., :rows, :], rotated[..., :rows, :]
        target.copy_(_product(head.copy_(tile), factors, tile_sin, layout, rotated))


def _is_packed(x: Tensor) -> bool:
    """Whether neighbouring features can be viewed as complex numbers."""
    *strides, last = x.stride()
    return last == 1 and x.storage_offset() % 2 == 0 and not any(s % 2 for s in strides)


def _as_complex(x: Tensor) -> Tensor:
    return torch.view_as_complex(x.unflatten(-1, (-1, 2)))


def _share_memory(a: Tensor, b: Tensor) -> bool:
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def _check(x: Tensor, cos: Tensor, sin: Tensor, layout: str) -> None:
    """Raise SchemeArgumentError unless the tables fit x; cheap, because decoding calls it per token."""
    check_layout(layout)
    for tensor in (x, cos, sin):
        if not is_real(tensor):
            raise SchemeArgumentError(
                f"x, cos and sin must be floating point tensors, got {type_and_shape(tensor)}."
            )
    shape, rows = x.shape, cos.shape
    if rows != sin.shape:
        raise SchemeArgumentError(
            f"cos and sin must have one shape, got {tuple(rows)} and {tuple(sin.shape)}."
        )
    fits = 2 <= len(rows) <= len(shape) and rows[-2] == shape[-2] and 0 < 2 * rows[-1] <= shape[-1]
    if fits and len(rows) > 2:
        fits = all(a in (1, b) for a, b in zip(rows[-3::-1], shape[-3::-1], strict=False))
    if not fits:
        raise SchemeArgumentError(
            "cos and sin must be (T, pairs), or broadcast against the leading dimensions of x, "
            f"for x of (..., T, d) with 2 * pairs <= d; got {tuple(rows)} for {tuple(shape)}."
        )
    if not x.device == cos.device == sin.device:
        raise SchemeArgumentError(
            f"x, cos and sin must be on one device, got {x.device}, {cos.device} and {sin.device}."
        )


def _check_out(out: Tensor, x: Tensor, needs_grad: bool) -> None:
    check_out(out, x.shape, x.dtype, x.device)
    if needs_grad or (torch.is_grad_enabled() and out.requires_grad):
        raise SchemeArgumentError(
            "out cannot be given where a gradient is recorded: leave it out, or use torch.no_grad()."
        )


def pair_columns(pairs: int, layout: Layout) -> tuple[Tensor, Tensor]:
    """Return the columns of the first and of the second member of every pair."""
    check_layout(layout)
    index = torch.arange(pairs)
    return (2 * index, 2 * index + 1) if layout == "interleaved" else (index, index + pairs)


def pair_matrix(
    cos: Tensor, sin: Tensor, layout: Layout, first: First, tail: int
) -> Float[Tensor, "d d"]:
    """Return the matrix that rotates every pair, and leaves `tail` features after them alone.

    cos, sin: (pairs,). first: what the vectors it acts on hold first, "sin" or "cos" of their angle.
    Above 512 features it is a sparse COO tensor, whose memory and product grow with d, not with d^2.
    """
    check_choice("first", first, ("sin", "cos"))
    first_columns, second_columns = (
        columns.to(cos.device) for columns in pair_columns(len(cos), layout)
    )
    width = 2 * len(cos) + tail
    rest = torch.arange(2 * len(cos), width, device=cos.device)
    above = sin if first == "sin" else -sin
    rows = torch.cat((first_columns, second_columns, first_columns, second_columns, rest))
    columns = torch.cat((first_columns, second_columns, second_columns, first_columns, rest))
    values = torch.cat((cos, cos, above, -above, torch.ones_like(rest, dtype=cos.dtype)))
    matrix = torch.sparse_coo_tensor(
        torch.stack((rows, columns)), values, (width, width), check_invariants=False
    )
    return matrix.coalesce() if width > DENSE_WIDTH else matrix.to_dense()
