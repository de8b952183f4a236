"""Captured queries and keys of a layer of a model, before any rotation: where its heads look, by its rule.

The rule is the config's: softmax scale, attention factor, window, chunks, soft cap, growth of queries. A
sink of gpt-oss is a trained number that no config holds: weights are those of the keys alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.analysis.attention_use import AttentionUse, PairUse, attention_use, pair_use
from posenc.errors import SchemeArgumentError
from posenc.logits.rule import LogitRule, check_comparable, positions_of, predict_logits, visible
from posenc.models.logit_rules import logit_rules
from posenc.models.model_config import LayerKind, ModelConfig
from posenc.schemes.rope import Rope

Use = TypeVar("Use", AttentionUse, PairUse)
_OF_ALL_HEADS = ("inv_freq",)


@dataclass(frozen=True, eq=False)
class CapturedUse:
    """Attention of the heads of a layer, and what its rotary pairs added, None where nothing rotates."""

    attention: AttentionUse
    pairs: PairUse | None


def by_head(array: Tensor) -> Float[Tensor, "heads n features"]:
    """Return captured vectors as heads x tokens x features; leading axes of size 1 are dropped.

    Raises SchemeArgumentError for other axes, and for numbers that are complex or not finite.
    """
    while array.ndim > 3 and len(array) == 1:
        array = array[0]
    array = array[None] if array.ndim == 2 else array
    if array.ndim != 3 or array.is_complex() or not array.numel() or not array.isfinite().all():
        raise SchemeArgumentError(
            "Captured queries and keys must be finite numbers of tokens x features, or of heads x tokens x "
            f"features, got the shape {tuple(array.shape)}."
        )
    return array.float()


def captured_use(
    q: Float[Tensor, "h n d"], k: Float[Tensor, "g keys d_key"], model: ModelConfig, kind: LayerKind
) -> CapturedUse:
    """Return what the heads of a layer of this kind did with captured queries and keys.

    q, k: of positions 0 .. n-1, before any rotation. As many heads of queries share a key head as come.
    Raises SchemeArgumentError for shapes that do not fit, for a layer whose queries see later keys, and for
    a scheme whose bias is trained or depends on content.
    """
    if len(q) % len(k) or q.shape[1:] != k.shape[1:]:
        raise SchemeArgumentError(
            "Queries and keys must have as many tokens and features, and queries a multiple of the heads "
            f"of keys; they have the shapes {tuple(q.shape)} and {tuple(k.shape)}."
        )
    if kind.scheme is None:
        raise SchemeArgumentError(f"These layers have no queries and keys. {kind.unsupported}")
    if q.shape[2] != kind.head_dim or len(q) > kind.heads:
        raise SchemeArgumentError(
            f"The model has {kind.heads:,} heads of {kind.head_dim:,} features, the files {len(q):,} of "
            f"{q.shape[2]:,}: they are of two models."
        )
    if not kind.causal:
        raise SchemeArgumentError("Layers whose queries see later keys are not read.")
    rule = logit_rules(model)[kind.name]
    check_comparable(rule)
    parts = [_of_group(rule, *part) for part in _groups(q, k)]
    uses = [part.attention for part in parts]
    pairs = [part.pairs for part in parts if part.pairs is not None]
    return CapturedUse(_joined(uses), _joined(pairs) if pairs else None)


def _groups(q: Tensor, k: Tensor) -> Iterator[tuple[int, Tensor, Tensor]]:
    """Yield the query heads that share a key head, with the first one's number: few weights at a time."""
    size = len(q) // len(k)
    for group in range(len(k)):
        yield group * size, q[group * size : (group + 1) * size], k[group : group + 1]


def _of_group(rule: LogitRule, first: int, q: Tensor, k: Tensor) -> CapturedUse:
    weights = predict_logits(rule, q, k, first_head=first).softmax(-1)
    scheme = rule.config.build()
    if not isinstance(scheme, Rope):
        return CapturedUse(attention_use(weights[None]), None)
    positions, _ = positions_of(q.shape[1], k.shape[1])
    scale: float | Tensor = rule.softmax_scale
    if rule.growth is not None:
        scale = scale * rule.growth.factors(positions)[:, None]
    # pair_use has the features that rotate first.
    shift = rule.rope.rotary_dim if rule.rotates_last and rule.rope is not None else 0
    pairs = pair_use(
        q.roll(shift, -1)[None], k.roll(shift, -1)[None], scheme, scale=scale,
        seen=visible(rule, positions, positions),
    )  # fmt: skip
    return CapturedUse(attention_use(weights[None]), pairs)


def _joined(parts: list[Use]) -> Use:
    """Return the numbers of all heads; what has no axis of heads is that of the first part."""
    first = parts[0]
    joined = {
        field.name: torch.cat([getattr(part, field.name) for part in parts])
        for field in fields(first)
        if isinstance(getattr(first, field.name), Tensor) and field.name not in _OF_ALL_HEADS
    }
    return type(first)(**vars(first) | joined)
