"""Whether a bias tensor is that of a layer's rule, up to a constant for each query, and where not, why."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from posenc.errors import SchemeArgumentError
from posenc.limits import check_count
from posenc.logits.buckets import BucketsFound, buckets_found
from posenc.logits.facts import Place, place_of
from posenc.logits.inputs import (
    HIDDEN,
    MAX_LOGITS,
    bias_input,
    check_heads,
    format_of,
    roundoff,
)
from posenc.logits.least_squares import fit
from posenc.logits.mask import MaskFault, mask_faults
from posenc.logits.offsets import by_offset, offsets_of
from posenc.logits.rule import LogitRule, check_comparable, positions_of, predict_bias, visible
from posenc.logits.slopes import SlopesFound, slopes_found
from posenc.schemes.alibi import AlibiConfig
from posenc.schemes.base import NoneConfig
from posenc.schemes.t5 import T5Config

_ROUNDINGS = 3  # of the slope or the distance, of their product, and of the result


@dataclass(frozen=True, eq=False)
class BiasMatch:
    """The comparison of a bias with a layer's rule.

    values: (h, n, m). predicted: the rule's, or for trained numbers that are not known the mean found at
    each offset. belongs: whether they are equal up to rounding and a constant for each query, which a
    softmax does not show; exactly: without such constants. by_distance: whether it is made of head and
    distance alone, up to such constants. alone: whether the bias has one key where several are cached.
    by_key: whether it is ALiBi's slope times the key's position, which is ALiBi under a causal mask alone.
    most, slopes, buckets, masks: where and how it differs. masks_apart: the number of places that are
    hidden here or by the rule, but not by both.
    """

    rule: LogitRule
    first_head: int
    values: Float[Tensor, "h n m"]
    predicted: Float[Tensor, "h n m"]
    belongs: bool
    exactly: bool
    by_distance: bool
    most: Place
    alone: bool = False
    by_key: bool = False
    slopes: SlopesFound | None = None
    buckets: BucketsFound | None = None
    masks: tuple[MaskFault, ...] = ()
    masks_apart: int = 0


def match_bias(
    rule: LogitRule,
    bias: Tensor,
    *,
    queries: int | None = None,
    keys: int | None = None,
    first_head: int = 0,
) -> BiasMatch:
    """Return how a bias differs from that of a rule.

    bias: (heads, queries, keys), in logits, added after the scaling; a first axis of 1 is dropped, and one
    head needs no axis. It may have minus infinity where the mask hides a key. queries, keys: the numbers of
    both where the bias has fewer and is repeated, such as one row for all queries in BLOOM; the queries are
    the last of the keys. first_head: of the layer, where the heads are those of a tensor-parallel rank.
    Raises SchemeArgumentError for inputs that do not fit, and for a scheme without a bias.
    """
    check_comparable(rule)
    found = bias_input(bias)
    if rule.rope is not None or isinstance(rule.config, NoneConfig):
        raise SchemeArgumentError(f"{rule.config.label} adds no bias to logits.")
    check_heads(rule, "bias", found.shape[0], first_head)
    whole = _whole(found, queries, keys)
    values = whole.double()
    positions, places = positions_of(*values.shape[1:])
    offsets = places[None, :] - positions[:, None]
    expected = visible(rule, positions, places).expand_as(values)
    seen = (values > HIDDEN) & expected
    if not bool(seen.any()):
        seen = values > HIDDEN
    values = torch.where(values > HIDDEN, values, 0.0)
    predicted = _predicted(rule, values, offsets, seen, first_head)
    unit = _ROUNDINGS * max(roundoff(format_of(found)), roundoff(torch.float32))
    allowed = unit * torch.maximum(values.abs(), predicted.abs())
    zero = torch.zeros_like(values)
    own = fit(values - predicted, [zero], allowed, seen, up_to_rows=True)
    exactly = bool(((values - predicted).abs() <= 2 * allowed)[seen].all())
    slopes = buckets = None
    by_distance, by_key = own.explains, False
    if isinstance(rule.config, AlibiConfig) and not own.explains:
        line = fit(values, [-offsets.abs().double() + zero], allowed, seen, up_to_rows=True)
        by_distance = line.explains
        if by_distance:
            slopes = slopes_found(
                rule, first_head, line.coefficients[:, 0], line.errors[:, 0],
                is_step=values.shape[1] == 1,
            )  # fmt: skip
        elif not rule.causal:
            by_key = fit(values, [places.double() + zero], allowed, seen, up_to_rows=True).explains
    elif isinstance(rule.config, T5Config) and (rule.is_trained or not own.explains):
        line = fit(
            by_offset(values), [by_offset(zero)], by_offset(allowed), by_offset(seen).bool(),
            up_to_rows=True,
        )  # fmt: skip
        by_distance = line.explains
    if isinstance(rule.config, T5Config) and by_distance and (rule.is_trained or not own.explains):
        shown = by_offset(seen).bool().any(-1)
        errors = torch.where(shown, by_offset(allowed).amax(-1), 0.0)
        curve = _curve(values, seen)
        every = shown.all(0)
        buckets = buckets_found(
            rule.config, curve[:, every], offsets_of(offsets)[every], 2 * errors[:, every]
        )
    masks = mask_faults(rule, whole > HIDDEN) if bool((whole <= HIDDEN).any()) else ()
    alone = found.shape[2] == 1 and whole.shape[2] > 1
    return BiasMatch(
        rule=rule, first_head=first_head, values=values, predicted=predicted,
        belongs=own.explains and not (buckets or masks or alone),
        exactly=exactly, by_distance=by_distance, most=place_of(own), alone=alone, by_key=by_key,
        slopes=slopes, buckets=buckets, masks=masks, masks_apart=int(((whole > HIDDEN) != expected).sum()),
    )  # fmt: skip


def _whole(
    found: Float[Tensor, "h n m"], queries: int | None, keys: int | None
) -> Float[Tensor, "h n m"]:
    """Return a bias repeated over the queries and keys that it is added to."""
    sizes = []
    for name, asked, own in (("queries", queries, found.shape[1]), ("keys", keys, found.shape[2])):
        size = own if asked is None else check_count(name, asked, 1, MAX_LOGITS)
        if own not in (1, size):
            raise SchemeArgumentError(
                f"The bias has {own:,} {name}: it cannot be added to logits of {size:,} {name}."
            )
        sizes.append(size)
    if found.shape[0] * sizes[0] * sizes[1] > MAX_LOGITS:
        raise SchemeArgumentError(
            f"The bias must be at most {MAX_LOGITS:,} numbers, got {found.shape[0]:,} heads of "
            f"{sizes[0]:,} queries and {sizes[1]:,} keys."
        )
    if sizes[0] > sizes[1]:
        raise SchemeArgumentError(
            f"The {sizes[0]:,} queries must be the last of the keys, got {sizes[1]:,} keys."
        )
    return found.expand(-1, *sizes)


def _predicted(
    rule: LogitRule,
    values: Float[Tensor, "h n m"],
    offsets: Tensor,
    seen: Bool[Tensor, "h n m"],
    first_head: int,
) -> Float[Tensor, "h n m"]:
    if rule.is_trained:
        return _curve(values, seen)[:, offsets - offsets.min()]
    positions, places = positions_of(*values.shape[1:])
    heads = slice(first_head, first_head + values.shape[0])
    bias = predict_bias(rule, positions, places, heads)
    if bias is None:
        raise SchemeArgumentError(f"{rule.config.label} adds no bias to logits.")
    return bias


def _curve(values: Float[Tensor, "h n m"], seen: Bool[Tensor, "h n m"]) -> Float[Tensor, "h o"]:
    """Return the mean of each offset."""
    counted = by_offset(seen).double()
    return (by_offset(values) * counted).sum(-1) / counted.sum(-1).clamp(min=1)
