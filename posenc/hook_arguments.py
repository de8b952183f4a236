"""The arguments of the three hooks: positions, token vectors, queries and keys, checked and widened.

Positions are whole numbers, (n,) or (b, n); None is 0, 1, 2, ... Offsets are key minus query.
"""

from typing import TypeGuard

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor
from torch.autograd import forward_ad

from posenc.errors import SchemeArgumentError

# The length has no name: one call may take positions of queries and of keys, which differ in number.
Positions = Int[Tensor, " _"] | Int[Tensor, "b _"] | None
Tokens = Float[Tensor, "b t d"]
Queries = Float[Tensor, "b h q d"]
Keys = Float[Tensor, "b g k d"]  # g divides h
Inputs = Float[Tensor, "b k w"]  # of a layer, from which keys are made
# As a scheme changes them, maybe to another width.
WiderQueries = Float[Tensor, "b h q e"]
WiderKeys = Float[Tensor, "b g k e"]


def check_tokens(x: Tensor, width: int, positions: Positions) -> None:
    """Raise SchemeArgumentError unless x has this width and `positions`, if given, fits its tokens."""
    if not is_real(x) or x.dim() < 2:
        raise SchemeArgumentError(
            "token vectors must be a floating-point tensor (batch, ..., tokens, width), "
            f"got {type_and_shape(x)}."
        )
    if x.shape[-1] != width:
        raise SchemeArgumentError(
            f"the last axis must have the scheme's width {width}, got the shape {tuple(x.shape)}."
        )
    check_positions("positions", positions, x)


def check_positions(name: str, positions: Positions, x: Tensor) -> None:
    """Raise SchemeArgumentError unless positions are None or whole numbers, one per token of x."""
    if positions is None:
        return
    check_whole(name, positions)
    batch, tokens = x.shape[0], x.shape[-2]
    # Not by tuples, which in a graph never equal a shape whose sizes change.
    shape = positions.shape
    if not (1 <= len(shape) <= 2 and shape[-1] == tokens and (len(shape) < 2 or shape[0] == batch)):
        raise SchemeArgumentError(
            f"{name} must have the shape ({tokens},) or {(batch, tokens)}, "
            f"got {tuple(positions.shape)}."
        )


def check_whole(name: str, x: Tensor) -> None:
    """Raise SchemeArgumentError unless x is a dense tensor of integers that int64 can hold."""
    if (
        not isinstance(x, Tensor)
        or x.is_floating_point()
        or x.is_complex()
        or x.dtype in (torch.bool, torch.uint64)
        or x.layout != torch.strided
    ):
        raise SchemeArgumentError(
            f"{name} must hold whole numbers of int64 or a narrower type, got {type_and_shape(x)}."
        )


def is_real(x: object) -> TypeGuard[Tensor]:
    """Whether x is a dense tensor of floating-point numbers."""
    return isinstance(x, Tensor) and x.is_floating_point() and x.layout == torch.strided


def is_traced(x: Tensor) -> bool:
    """Whether torch.func, forward-mode differentiation or a tracing mode follows what is done to x."""
    if forward_ad.unpack_dual(x).tangent is not None:
        return True
    try:
        x.data_ptr()
    except RuntimeError:  # the tensors of torch.func have no memory
        return True
    return False


def is_readable(x: Tensor) -> bool:
    """Whether numbers of x can decide what is done: they are on the CPU, and nothing stands for them.

    A graph and the transforms of torch.func (vmap) compute with stand-ins, which have no numbers.
    """
    on_host = not torch.compiler.is_compiling() and x.device.type == "cpu"
    return on_host and not is_traced(x)


def check_queries_and_keys(
    q: Tensor, k: Tensor, q_positions: Positions, k_positions: Positions
) -> None:
    """Raise SchemeArgumentError unless queries and keys can meet: see `posenc.attention`."""
    for name, x in (("q", q), ("k", k)):
        if not is_real(x) or x.dim() != 4:
            raise SchemeArgumentError(
                f"{name} must be a floating-point tensor (batch, heads, tokens, width), "
                f"got {type_and_shape(x)}."
            )
    if q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3] or 0 in (q.shape[3], k.shape[1]):
        raise SchemeArgumentError(
            f"q {tuple(q.shape)} and k {tuple(k.shape)} do not fit: batch and head width must agree, "
            "and there must be a head, and a width."
        )
    if q.shape[1] % k.shape[1]:
        raise SchemeArgumentError(
            f"the key heads must divide the query heads, got {k.shape[1]} and {q.shape[1]}."
        )
    if q.dtype != k.dtype or q.device != k.device:
        raise SchemeArgumentError(
            f"q and k must have one dtype and one device, got {q.dtype} on {q.device} and {k.dtype} "
            f"on {k.device}."
        )
    check_positions("q_positions", q_positions, q)
    check_positions("k_positions", k_positions, k)


def type_and_shape(x: object) -> str:
    """Return the dtype and shape of a tensor, or the type of anything else."""
    if not isinstance(x, Tensor):
        return type(x).__name__
    layout = "" if x.layout == torch.strided else f" in the layout {x.layout}"
    return f"{x.dtype} of shape {tuple(x.shape)}{layout}"


def check_out(
    out: Tensor, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device | None
) -> None:
    """Raise SchemeArgumentError unless `out` can be filled: of this kind, each entry of its own."""
    fits = isinstance(out, Tensor) and (out.shape, out.dtype) == (shape, dtype)
    if fits and device is not None:  # "cuda" names any of its kind
        fits = out.device.type == device.type and device.index in (None, out.device.index)
    reach = 0  # of the entries of the axes before, in memory
    for stride, size in sorted(zip(out.stride(), out.shape, strict=True)) if fits else ():
        fits = fits and (size < 2 or stride > reach)
        reach += stride * (size - 1)
    if (not fits and 0 not in shape) or not isinstance(out, Tensor):
        where = "" if device is None else f" on {device}"
        raise SchemeArgumentError(
            f"out must be a {tuple(shape)} tensor of {dtype}{where} whose entries share no memory, "
            f"got {type_and_shape(out)}{f' on {out.device}' if isinstance(out, Tensor) else ''}."
        )


def resolve_positions(positions: Positions, count: int, like: Tensor) -> Int[Tensor, " ..."]:
    """Return `positions` as int64 on the device of `like`; None is 0 .. count-1.

    int64, because an offset of uint8 or int8 positions would wrap around.
    """
    if positions is None:
        return torch.arange(count, device=like.device)
    return positions.to(device=like.device, dtype=torch.int64)


def resolve_both(
    q: Tensor, k: Tensor, q_positions: Positions, k_positions: Positions
) -> tuple[Int[Tensor, " ..."], Int[Tensor, " ..."]]:
    """Return the positions of checked queries and keys; see `resolve_positions`."""
    check_queries_and_keys(q, k, q_positions, k_positions)
    queries = resolve_positions(q_positions, q.shape[-2], q)
    return queries, resolve_positions(k_positions, k.shape[-2], k)


def offsets_between(
    q: Tensor, k: Tensor, q_positions: Positions, k_positions: Positions
) -> Int[Tensor, " *b q k"]:
    """Return the offset of every query and key, key minus query. Raises SchemeArgumentError."""
    queries, keys = resolve_both(q, k, q_positions, k_positions)
    return keys[..., None, :] - queries[..., :, None]


def repeat_kv(x: Shaped[Tensor, "b g n d"], heads: int) -> Shaped[Tensor, "b h n d"]:
    """Return keys or values of every one of `heads` query heads; a group of query heads shares one."""
    shared = heads // x.shape[1]
    return x if shared == 1 else x.repeat_interleave(shared, dim=1)


def at_least_float32(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which logits, biases and angles of such queries are computed."""
    return dtype if dtype == torch.float64 else torch.float32


def over_heads(x: Shaped[Tensor, "*b q k"]) -> Shaped[Tensor, "#b 1 q k"]:
    """Return what is the same for every head, (q, k) or (b, q, k), with axes for batch and heads."""
    return x[:, None] if x.dim() == 3 else x[None, None]
