r"""The one attention function: any scheme through its hooks, on scaled_dot_product_attention.

Causality comes from positions, never from the shape of the scores, so that a window, a decoding step
and a whole sequence agree. A bias that depends on the offset alone stays a curve: query blocks read
it through a view without copies, and memory grows with T x block, not with T x T.
"""

import functools
import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from posenc.errors import SchemeArgumentError
from posenc.hook_arguments import (
    Positions,
    at_least_float32,
    check_queries_and_keys,
    is_readable,
    is_real,
    is_traced,
    over_heads,
    repeat_kv,
    resolve_both,
    resolve_positions,
    type_and_shape,
)
from posenc.limits import check_flag
from posenc.schemes.base import Scheme, check_scheme
from posenc.toeplitz import QUERY_BLOCK, attend_trained, flipped_rows


def attention(
    q: Float[Tensor, "b h q d"],
    k: Float[Tensor, "b g k d"],
    v: Float[Tensor, "b g k e"],
    scheme: Scheme,
    *,
    q_positions: Positions = None,
    k_positions: Positions = None,
    key_mask: Bool[Tensor, "b k"] | None = None,
    causal: bool = True,
) -> Float[Tensor, "b h q e"]:
    """Return softmax(scheme.scores(q, k)) v, with queries blind to later keys if `causal`.

    Keys outside the scheme's window are not seen either.

    k and v may have fewer heads g than q, where g divides h (grouped queries). Positions are (n,) or
    (b, n) whole numbers; None is 0, 1, 2, ...: a decoding step with one query and n keys must say
    `q_positions=torch.tensor([n - 1])`. key_mask is True where a key may be seen. A query that sees
    no key gets zeros. Raises SchemeArgumentError for shapes that do not fit.
    """
    check_scheme(scheme)
    _check_shapes(q, k, v, q_positions, k_positions, key_mask)
    scheme.check_heads(q)
    check_flag("causal", causal)
    if q.shape[-2] == 0:
        return v.new_zeros(*q.shape[:3], v.shape[-1])
    rotated_q, rotated_k = scheme.rotate(q, k, q_positions, k_positions)
    scale = scheme.softmax_scale(q.shape[-1])
    own_weights = type(scheme).weights is not Scheme.weights
    stationary_bias = type(scheme).bias is Scheme.bias and scheme.window is None
    if key_mask is None and stationary_bias and not own_weights:
        first_query, first_key = _first(q_positions), _first(k_positions)
        if first_query is not None and first_key is not None:
            shift = first_query - first_key
            return _windowed(rotated_q, rotated_k, v, scheme, shift, scale, causal)
    query_positions = resolve_positions(q_positions, q.shape[-2], q)
    key_positions = resolve_positions(k_positions, k.shape[-2], k)
    blocks = []
    for start in range(0, q.shape[-2], QUERY_BLOCK):
        rows = slice(start, start + QUERY_BLOCK)
        positions = query_positions[..., rows]
        bias = scheme.bias(q[..., rows, :], k, positions, key_positions)
        visible = visible_keys(scheme, positions, key_positions, key_mask, causal=causal)
        block = rotated_q[..., rows, :]
        if own_weights:
            logits = _logits(block, rotated_k, bias, scale)
            weights = scheme.weights(logits, visible, positions, key_positions).to(v.dtype)
            blocks.append(weights @ repeat_kv(v, q.shape[1]))
        else:
            blocks.append(_masked(block, rotated_k, v, bias, visible, scale))
    return torch.cat(blocks, dim=-2)


def _windowed(
    q: Tensor, k: Tensor, v: Tensor, scheme: Scheme, shift: int, scale: float, causal: bool
) -> Tensor:
    """Return attention where query i is at position i + shift and key j at position j."""
    queries, keys = q.shape[-2], k.shape[-2]
    offsets = torch.arange(1 - queries - shift, keys - shift, device=q.device)
    curve = scheme.offset_bias(offsets)
    if curve is None:
        if not causal or shift >= keys - 1:
            return _sdpa(q, k, v, None, scale)
        if shift == 0:
            return _sdpa(q, k, v, None, scale, causal=True)
        curve = torch.zeros(1, len(offsets), device=q.device)
    if causal:
        curve = curve.masked_fill(offsets > 0, -math.inf)
    # Scores are float32 inside the kernel whatever q is, and so is the bias: see Scheme.bias.
    curve = curve.to(at_least_float32(q.dtype))
    attend = functools.partial(_attend_under_curve, shift=shift, scale=scale, causal=causal)
    wants_gradient = curve.requires_grad and torch.is_grad_enabled()
    # In a graph and under torch.func, torch differentiates the attention itself.
    if wants_gradient and not torch.compiler.is_compiling() and not _any_traced(q, k, v, curve):
        k, v = (repeat_kv(x, q.shape[1]) for x in (k, v))
        curve = curve.expand(q.shape[1], -1)  # one curve may serve all heads
        return attend_trained(attend, q, k, v, curve, scale)
    return attend(q, k, v, curve)


def _attend_under_curve(
    q: Tensor, k: Tensor, v: Tensor, curve: Tensor, *, shift: int, scale: float, causal: bool
) -> Tensor:
    """Return attention under a curve over all offsets, one block of queries at a time."""
    queries, keys = q.shape[-2], k.shape[-2]
    blocks = []
    for start in range(0, queries, QUERY_BLOCK):
        stop = min(start + QUERY_BLOCK, queries)
        visible = min(keys, max(stop + shift, 0)) if causal else keys
        rows = q[..., start:stop, :].flip(-2)
        if visible == 0:
            blocks.append(v.new_zeros(*q.shape[:2], stop - start, v.shape[-1]))
            continue
        mask = flipped_rows(curve, queries, start, stop, visible)[None]
        block = _sdpa(rows, k[..., :visible, :], v[..., :visible, :], mask, scale).flip(-2)
        blind = max(-shift - start, 0) if causal else 0  # queries before the first key
        if blind > 0:
            sighted = torch.arange(stop - start, device=q.device) >= blind
            block = torch.where(sighted[:, None], block, 0.0)
        blocks.append(block)
    return torch.cat(blocks, dim=-2)


def _masked(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, visible: Tensor | None, scale: float
) -> Tensor:
    """Return attention of one block of queries under a dense mask."""
    if visible is None:
        return _sdpa(q, k, v, bias, scale)
    sees_any = visible.any(dim=-1, keepdim=True)
    # A row without any key would be 0/0: let it see everything, then blank it.
    usable = visible | ~sees_any
    mask = usable if bias is None else bias.masked_fill(~usable, -math.inf)
    return torch.where(sees_any, _sdpa(q, k, v, mask, scale), 0.0)


def _logits(q: Tensor, k: Tensor, bias: Tensor | None, scale: float) -> Tensor:
    """Return the logits of rotated queries and keys, in float32 at least."""
    wide = at_least_float32(q.dtype)
    logits = q.to(wide) @ repeat_kv(k, q.shape[1]).to(wide).mT * scale
    return logits if bias is None else logits + bias


def _sdpa(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float, causal: bool = False
) -> Tensor:
    if mask is not None and mask.is_floating_point() and mask.device.type != "cpu":
        mask = mask.to(q.dtype)  # accelerator kernels take no float32 mask beside half precision
    if mask is not None and mask.is_floating_point() and _any_traced(q, k, v, mask):
        # Under vmap a mask does not show that it wants a gradient, which the other backends cannot give.
        with sdpa_kernel(SDPBackend.MATH):
            return _sdpa_of(q, k, v, mask, scale, causal)
    return _sdpa_of(q, k, v, mask, scale, causal)


def _sdpa_of(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float, causal: bool
) -> Tensor:
    # Left out where it is not needed: a comparison of sizes that change in a graph is no bool.
    groups = {"enable_gqa": True} if q.shape[1] != k.shape[1] else {}
    return functional.scaled_dot_product_attention(
        q, k, v, mask, is_causal=causal, scale=scale, **groups
    )


def _any_traced(*tensors: Tensor) -> bool:
    return not torch.compiler.is_compiling() and any(map(is_traced, tensors))


def visible_keys(
    scheme: Scheme,
    q_positions: Int[Tensor, "*b q"],
    k_positions: Int[Tensor, "*b k"],
    key_mask: Bool[Tensor, "b k"] | None = None,
    *,
    causal: bool = True,
) -> Bool[Tensor, "#b 1 q k"] | None:
    """Return which keys each query sees, None where it sees all: see `attention`."""
    visible = None
    if causal or scheme.window is not None:
        offsets = over_heads(k_positions[..., None, :] - q_positions[..., :, None])
        visible = offsets <= 0 if causal else None
        if scheme.window is not None:
            near = offsets.abs() < scheme.window
            visible = near if visible is None else visible & near
    if key_mask is not None:
        keys = key_mask[:, None, None, :]
        queries = q_positions.shape[-1]
        visible = keys.expand(-1, -1, queries, -1) if visible is None else visible & keys
    return visible


def attention_weights(
    q: Float[Tensor, "b h q d"],
    k: Float[Tensor, "b g k d"],
    scheme: Scheme,
    *,
    causal: bool = True,
) -> Float[Tensor, "b h q k"]:
    """Return the weights that `attention` gives to keys, from queries and keys before any rotation."""
    queries, keys = resolve_both(q, k, None, None)
    visible = visible_keys(scheme, queries, keys, causal=causal)
    return scheme.weights(scheme.scores(q, k), visible, queries, keys)


def _first(positions: Positions) -> int | None:
    """Return the first of contiguous ascending positions known on the host, else None."""
    if positions is None:
        return 0
    if positions.dim() != 1 or not is_readable(positions):
        return None
    if positions.numel() == 0:
        return None
    first = int(positions[0])
    steps = torch.arange(first, first + positions.numel(), device="cpu")
    return first if torch.equal(positions.long(), steps) else None  # uint8 would wrap around


def _check_shapes(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    q_positions: Positions,
    k_positions: Positions,
    key_mask: Tensor | None,
) -> None:
    check_queries_and_keys(q, k, q_positions, k_positions)
    if not is_real(v) or v.dim() != 4 or k.shape[:3] != v.shape[:3]:
        raise SchemeArgumentError(
            f"v must agree with k {tuple(k.shape)} in batch, heads and tokens, got {type_and_shape(v)}."
        )
    if v.dtype != q.dtype or v.device != q.device:
        raise SchemeArgumentError(
            f"v must have the dtype and device of q, {q.dtype} on {q.device}, got {v.dtype} on "
            f"{v.device}."
        )
    mask_shape = (k.shape[0], k.shape[2])
    if key_mask is not None and (
        not isinstance(key_mask, Tensor)
        or (key_mask.dtype, key_mask.shape, key_mask.layout)
        != (torch.bool, mask_shape, torch.strided)
    ):
        raise SchemeArgumentError(
            f"key_mask must be boolean with the shape {mask_shape}, got {type_and_shape(key_mask)}."
        )
