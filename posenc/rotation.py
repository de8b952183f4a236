r"""Rotary application: pairs of features turned by the angle of their position.

Su et al. 2021, arXiv 2104.09864, equation 34. A pair (x0, x1) at angle t becomes
(x0 cos t - x1 sin t, x1 cos t + x0 sin t): multiplication by e^{+it}.
"interleaved" pairs features (2m, 2m + 1), as the paper, GPT-J and the original LLaMA do;
"half" pairs (m, m + pairs), as GPT-NeoX and transformers do.

Products and sums are rounded one by one, never fused: an entry has the same bits in either layout,
alone or in a batch, one token at a time or all at once.

Closed forms of M_k, the matrix that moves every position vector by the same offset.

Waves turn, each pair by its own angle (Vaswani et al. 2017, section 3.5, arXiv 1706.03762; Su et al.
2021, arXiv 2104.09864, section 3.2). The vectors behind an exponential of distance (ALiBi: Press et
al. 2022, arXiv 2108.12409) gain a dimension per position, and the shift moves them along.
Vectors are columns in M phi and rows in a table.
"""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch._C._functorch import maybe_current_level
from torch.autograd import forward_ad
from torch.nn.functional import pad

from posenc.errors import SchemeArgumentError, shown
from posenc.frequencies import Layout, check_layout
from posenc.tables import complex_product_is_elementary, scratch_numbers

First = Literal["sin", "cos"]

DENSE_WIDTH = 512


def pair_columns(pairs: int, layout: Layout) -> tuple[Tensor, Tensor]:
    """Columns of the first and of the second member of every pair."""
    check_layout(layout)
    index = torch.arange(pairs)
    return (2 * index, 2 * index + 1) if layout == "interleaved" else (index, index + pairs)


def pair_matrix(
    cos: Tensor, sin: Tensor, layout: Layout, first: First, tail: int
) -> Float[Tensor, "d d"]:
    """The matrix that turns every pair: cos + 1j sin multiplied by its own complex number.

    Two entries a row; above 512 features it is a sparse COO tensor, which takes 8 MB less per
    thousand rows and multiplies by that much faster.
    """
    if first not in ("sin", "cos"):
        raise SchemeArgumentError(f"first must be 'sin' or 'cos', got {shown(first)}.")
    one, two = (columns.to(cos.device) for columns in pair_columns(len(cos), layout))
    width = 2 * len(cos) + tail
    rest = torch.arange(2 * len(cos), width, device=cos.device)
    above = sin if first == "sin" else -sin
    rows = torch.cat((one, two, one, two, rest))
    columns = torch.cat((one, two, two, one, rest))
    values = torch.cat((cos, cos, above, -above, torch.ones_like(rest, dtype=cos.dtype)))
    matrix = torch.sparse_coo_tensor(
        torch.stack((rows, columns)), values, (width, width), check_invariants=False
    )
    return matrix.coalesce() if width > DENSE_WIDTH else matrix.to_dense()


TILE_ENTRIES = 524_288  # numbers of x turned at once: 2 MiB of float32
ACCELERATOR_TILES = 1_024  # an accelerator's tile in CPU tiles
LANES = 16  # complex numbers that the widest processor multiplies at once, twice over
GRAIN = 32_768  # numbers that torch gives a thread at least
JOINED_ENTRIES = 16_384  # q and k up to this size together are turned by one call: it costs more


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
    recording = _is_recorded(x, cos, sin)
    if out is not None:
        _check_out(out, x, recording)
        if torch.compiler.is_compiling():
            return out.copy_(_turned(x, cos, sin, layout))
        written = out.untyped_storage().data_ptr()
        x, cos, sin = (
            part.clone() if part.untyped_storage().data_ptr() == written else part
            for part in (x, cos, sin)
        )
    elif recording or torch.compiler.is_compiling() or x.numel() <= TILE_ENTRIES:
        return _turned(x, cos, sin, layout, recording)
    else:
        out = torch.empty_like(x)
    _turn_into(out, x, cos, sin, layout)
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
    if (
        q.numel() + k.numel() > JOINED_ENTRIES
        or not (q.ndim == k.ndim == 4 and len(q) == len(k) == 1)  # else parts are not contiguous
        or torch.compiler.is_compiling()
        or _is_recorded(q, k, cos)
        or q.dtype != k.dtype
    ):
        return apply_rope(q, cos, sin, layout=layout), apply_rope(k, cos, sin, layout=layout)
    both = apply_rope(torch.cat((q, k), 1), cos, sin, layout=layout)
    return both[:, : q.shape[1]], both[:, q.shape[1] :]


def _check(x: Tensor, cos: Tensor, sin: Tensor, layout: str) -> None:
    """Refuse what cannot be meant; cheap when all is well, because decoding calls it per token."""
    check_layout(layout)
    if not (x.is_floating_point() and cos.is_floating_point() and sin.is_floating_point()):
        raise SchemeArgumentError(
            f"x, cos and sin must be floating point, got {x.dtype}, {cos.dtype} and {sin.dtype}."
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


def _check_out(out: Tensor, x: Tensor, recording: bool) -> None:
    if out.shape != x.shape or out.dtype != x.dtype or out.device != x.device:
        raise SchemeArgumentError(
            f"out must be a {tuple(x.shape)} tensor of {x.dtype} on {x.device} like x, "
            f"got {tuple(out.shape)} of {out.dtype} on {out.device}."
        )
    if recording or (torch.is_grad_enabled() and out.requires_grad):
        raise SchemeArgumentError(
            "out cannot be given where a gradient is recorded: leave it out, or use torch.no_grad()."
        )


def _is_recorded(x: Tensor, y: Tensor, z: Tensor) -> bool:
    """Whether autograd, forward-mode differentiation or a torch.func transform follows the call.

    What they cannot follow is then left out: writing into a given tensor, and x.view(dtype), which
    drops gradients and tangents silently.
    """
    if torch.is_grad_enabled() and (x.requires_grad or y.requires_grad or z.requires_grad):
        return True
    return forward_ad._current_level >= 0 or maybe_current_level() is not None


def _width(x: Tensor) -> torch.dtype:
    """The precision of the arithmetic: x's own, but float32 for 16-bit x, rounded once after."""
    return x.dtype if x.dtype in (torch.float32, torch.float64) else torch.float32


def _cast(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x if x.dtype == dtype else x.to(dtype)  # a call that does nothing still costs as an add


def _turned(x: Tensor, cos: Tensor, sin: Tensor, layout: Layout, recording: bool = False) -> Tensor:
    """The rotation as one traceable expression, differentiable if `recording` a gradient."""
    width, pairs = _width(x), cos.shape[-1]
    whole = x.shape[-1] == 2 * pairs
    head = x if whole else x[..., : 2 * pairs]
    head, cos, sin = _cast(head, width), _cast(cos, width), _cast(sin, width)
    spare = -pairs % LANES
    if layout == "half":
        x0, x1 = head.chunk(2, -1)
        turned = torch.cat((x0 * cos - x1 * sin, x1 * cos + x0 * sin), -1)
    elif _as_products(head, head.numel() // (2 * pairs) * (pairs + spare)):
        if not _is_packed(head):
            head = head.clone(memory_format=torch.contiguous_format)
        numbers, factors = _as_complex(head, recording), torch.complex(cos, sin)
        if spare:
            numbers, factors = pad(numbers, (0, spare)), pad(factors, (0, spare))
        product = numbers * factors
        turned = _as_real(product[..., :pairs] if spare else product, recording)
    else:
        x0, x1 = head.unflatten(-1, (-1, 2)).unbind(-1)
        turned = torch.stack((x0 * cos - x1 * sin, x1 * cos + x0 * sin), -1).flatten(-2)
    turned = _cast(turned, x.dtype)
    return turned if whole else torch.cat((turned, x[..., 2 * pairs :]), -1)


def _as_products(x: Tensor, numbers: int) -> bool:
    """Whether x is to be turned by that many complex products: one pass instead of several.

    On a CPU only where they have the bits of separate products and sums. What does not fill a
    vector goes one by one and may be fused, with a bit that depends on the place in memory: so
    rows are padded to LANES, and no thread may begin anywhere else.
    """
    if torch.compiler.is_compiling():
        return False  # complex numbers are not compiled
    if x.device.type != "cpu":
        return x.device.type == "cuda"
    threads = max(1, min(torch.get_num_threads(), -(-numbers // GRAIN)))
    return -(-numbers // threads) % LANES == 0 and complex_product_is_elementary(x.dtype)


def _is_packed(x: Tensor) -> bool:
    """Whether neighbouring features can be viewed as complex numbers."""
    *strides, last = x.stride()
    return last == 1 and x.storage_offset() % 2 == 0 and not any(s % 2 for s in strides)


def _as_complex(x: Tensor, recording: bool) -> Tensor:
    """Neighbouring features as complex numbers."""
    if recording:  # three times as long as x.view(dtype); see _is_recorded
        return torch.view_as_complex(x.unflatten(-1, (-1, 2)))
    return x.view(torch.complex64 if x.dtype == torch.float32 else torch.complex128)


def _as_real(x: Tensor, recording: bool) -> Tensor:
    """Complex numbers as neighbouring features."""
    if recording:
        return torch.view_as_real(x).flatten(-2)
    return x.view(torch.float32 if x.dtype == torch.complex64 else torch.float64)


def _turn_into(out: Tensor, x: Tensor, cos: Tensor, sin: Tensor, layout: Layout) -> None:
    """The rotation into out, which shares no memory with x, in tiles that stay in cache."""
    length, pairs, width = x.shape[-2], cos.shape[-1], _width(x)
    if x.shape[-1] > 2 * pairs:
        out[..., 2 * pairs :] = x[..., 2 * pairs :]
        x, out = x[..., : 2 * pairs], out[..., : 2 * pairs]
    cos, sin = _cast(cos, width), _cast(sin, width)
    limit = TILE_ENTRIES * (1 if x.device.type == "cpu" else ACCELERATOR_TILES)
    if x.dtype == width and layout == "interleaved":
        limit = x.numel()  # one pass over memory: nothing to keep
    step = max(1, min(length, limit * length // max(1, x.numel())))
    tiles = [(out, x, cos, sin)]
    if step < length:
        tiles = list(zip(*(part.split(step, -2) for part in tiles[0]), strict=True))
    turn = _turn_interleaved
    if layout == "half":
        turn = _turn_half_wide if step < length else _turn_half
    for target, tile, tile_cos, tile_sin in tiles:
        if x.dtype == width:
            turn(target, tile, tile_cos, tile_sin)
        else:
            wide = _scratch_like("wide", tile, width).copy_(tile)
            turned = wide if layout == "interleaved" else _scratch_like("turned", tile, width)
            turn(turned, wide, tile_cos, tile_sin)
            target.copy_(turned)


def _turn_half(out: Tensor, x: Tensor, cos: Tensor, sin: Tensor) -> None:
    (x0, x1), (out0, out1) = x.chunk(2, -1), out.chunk(2, -1)
    product = _scratch_like("product", x0, x.dtype)
    torch.mul(x0, cos, out=out0).sub_(torch.mul(x1, sin, out=product))
    torch.mul(x1, cos, out=out1).add_(torch.mul(x0, sin, out=product))


def _turn_half_wide(out: Tensor, x: Tensor, cos: Tensor, sin: Tensor) -> None:
    """The same bits; tables as wide as x cost a copy each, but whole rows go in one sweep."""
    product = _scratch_like("product", x, x.dtype)
    torch.mul(x, torch.cat((cos, cos), -1), out=out)
    torch.mul(x, torch.cat((sin, sin), -1), out=product)
    (out0, out1), (x0_sin, x1_sin) = out.chunk(2, -1), product.chunk(2, -1)
    out0.sub_(x1_sin)
    out1.add_(x0_sin)


def _turn_interleaved(out: Tensor, x: Tensor, cos: Tensor, sin: Tensor) -> None:
    padded = cos.shape[-1] % LANES
    if padded or not (_is_packed(x) and _is_packed(out) and _as_products(x, x.numel() // 2)):
        out.copy_(_turned(x, cos, sin, "interleaved"))
    else:
        torch.mul(_as_complex(x, False), torch.complex(cos, sin), out=_as_complex(out, False))


def _scratch_like(use: str, x: Tensor, dtype: torch.dtype) -> Tensor:
    """Uninitialised memory of x's shape, until the next call for the same use."""
    if x.device.type != "cpu":
        return torch.empty(x.shape, dtype=dtype, device=x.device)
    numbers = scratch_numbers(use, -(-x.numel() * dtype.itemsize // 8), x.device).view(dtype)
    return (numbers if len(numbers) == x.numel() else numbers[: x.numel()]).view(x.shape)
