r"""Bounds of what each rotary pair of a layer can add to a logit, by its query and key weights.

Barbero et al. 2024, arXiv 2410.06205, section 5, ask which frequencies a trained model uses; their figures
2 to 4 show norms of queries and keys per frequency. Here the weights alone answer: pair m of a head has two
rows :math:`A_m` of the query projection and two rows :math:`B_m` of the key projection. With inputs x and y
of the layer and the rotation R by their offset, the pair adds

.. math:: s\,a^2\, x^T A_m^T R\, B_m y \;\le\; s\,a^2\, \|A_m\|_2\, \|B_m\|_2\, \|x\|\, \|y\|

to the logit, where s is the softmax scale, a the attention factor and the norms of the rows are spectral. R
turns the plane of a pair, so some angle takes the longest axis of B_m to that of A_m: the bound is reached.
A bias of the projections adds its own norm to :math:`\|A_m\|_2\|x\|`, and to that of the key.

A layer that normalises queries and keys after the projections (Qwen 3, OLMo 2, Gemma 3) undoes the size of
its weights: there the norms compare pairs of one head, and are no bound.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from posenc.errors import SchemeArgumentError, quoted
from posenc.frequencies import Layout
from posenc.limits import check_choice, check_count
from posenc.notebook import Shown, View
from posenc.schemes.rope import RopeConfig


@dataclass(frozen=True, eq=False)
class PairNorms(Shown):
    """Norms of the rotary pairs of a layer's query and key projections.

    queries (heads, pairs), keys (kv_heads, pairs): spectral norms of the two rows of a pair.
    query_biases, key_biases: norms of the two biases of a pair, in the same shapes; 0 without biases.
    inv_freq (pairs,): radians per position, pair 0 first.
    factor: what multiplies the product of a query and a key on its way to the logit.
    """

    queries: Float[Tensor, "heads pairs"]
    keys: Float[Tensor, "kv_heads pairs"]
    query_biases: Float[Tensor, "heads pairs"]
    key_biases: Float[Tensor, "kv_heads pairs"]
    inv_freq: Float[Tensor, " pairs"]
    factor: float

    @property
    def bounds(self) -> Float[Tensor, "heads pairs"]:
        """The most that a pair can add to a logit of a head, for inputs of norm 1."""
        return self.at_most(1.0, 1.0)

    def at_most(self, query_input: float, key_input: float) -> Float[Tensor, "heads pairs"]:
        """Return the most that a pair can add to a logit, by the norms of both inputs of the layer."""
        group = len(self.queries) // len(self.keys)
        keys = (self.keys * key_input + self.key_biases).repeat_interleave(group, 0)
        return self.factor * (self.queries * query_input + self.query_biases) * keys

    @property
    def shares(self) -> Float[Tensor, "heads pairs"]:
        """The share of each pair in the sum of its head's bounds; 0 for a head of zeros."""
        return _over_sum(self.bounds, self.bounds.sum(1, keepdim=True))

    def view(self) -> View:
        mean = self.bounds.mean(0)
        return View(
            title="Most that each rotary pair can add to a logit, mean of the heads",
            numbers={
                "heads": len(self.queries),
                "key heads": len(self.keys),
                "pairs": len(self.inv_freq),
                "largest pair": int(mean.argmax()),
            },
            columns={"pair": range(len(mean)), "frequency": self.inv_freq, "bound": mean},
            x="pair",
            lines=("bound",),
        )


@dataclass(frozen=True, eq=False)
class PairCut(Shown):
    """Pairs that would lose their rotation, and the share of the bounds that goes with them.

    kept (heads, pairs): which pairs keep their rotation. shares (heads,): the part of each head's sum
    of bounds that belongs to the other pairs. share: that of all heads together.
    """

    kept: Bool[Tensor, "heads pairs"]
    shares: Float[Tensor, " heads"]
    share: float

    def view(self) -> View:
        return View(
            title="Share of the bounds in pairs that would lose their rotation",
            numbers={"share": self.share, "pairs kept": int(self.kept[0].sum())},
            columns={"head": range(len(self.shares)), "share": self.shares},
            x="head",
            lines=("share",),
            dots=True,
        )


def pair_rows(
    weight: Float[Tensor, "heads features width"], rotary_dim: int, layout: Layout
) -> Float[Tensor, "heads pairs 2 width"]:
    """Return the rows of a projection by head and rotary pair, for the first `rotary_dim` features."""
    rotated = weight[:, :rotary_dim]
    if layout == "interleaved":
        return rotated.unflatten(1, (-1, 2))
    return rotated.unflatten(1, (2, -1)).transpose(1, 2)


def pair_norms(
    queries: Float[Tensor, "heads features width"],
    keys: Float[Tensor, "kv_heads features key_width"],
    scheme: RopeConfig,
    *,
    query_bias: Float[Tensor, "heads features"] | None = None,
    key_bias: Float[Tensor, "kv_heads features"] | None = None,
    softmax_scale: float | None = None,
) -> PairNorms:
    """Return the norms of each rotary pair of a layer's projections, which bound what it can add.

    queries, keys: the weights by head; the first `scheme.rotary_dim` features of a head rotate. Query
        heads in turn share a key head where there are fewer of these. Inputs of queries and of keys may
        differ in width, as in DeepSeek's latent attention.
    softmax_scale: of the logits; None is 1/sqrt(features).
    Raises SchemeArgumentError for shapes that do not fit, and numbers that are not finite.
    """
    if not isinstance(scheme, RopeConfig):
        raise SchemeArgumentError(
            f"scheme must be RoPE or a scaling of it, whose pairs rotate, got {quoted(scheme)}."
        )
    _check_heads(queries, keys, scheme)
    scale = queries.shape[1] ** -0.5 if softmax_scale is None else float(softmax_scale)
    return PairNorms(
        queries=_spectral(queries, scheme),
        keys=_spectral(keys, scheme),
        query_biases=_bias_norms("query_bias", query_bias, queries, scheme),
        key_biases=_bias_norms("key_bias", key_bias, keys, scheme),
        inv_freq=scheme.frequencies().inv_freq.clone(),
        factor=scale * scheme.attention_scaling() ** 2,
    )


def slow_pairs(norms: PairNorms, length: int) -> PairCut:
    """Return which pairs complete a turn within `length` positions, and the share of the others.

    A pair without a full turn meets angles past `length` that training never showed (Liu et al. 2023,
    arXiv 2310.05209). Exactly one turn counts as complete.
    """
    check_count("length", length, 1, 2**31)
    return _cut(norms, (norms.inv_freq * length >= 2 * math.pi).expand_as(norms.queries))


def _fastest(norms: PairNorms, count: int) -> Tensor:
    return (torch.arange(len(norms.inv_freq)) < count).expand_as(norms.queries)


def _spread(norms: PairNorms, count: int) -> Tensor:
    pairs = len(norms.inv_freq)
    kept = torch.zeros(pairs, dtype=torch.bool)
    kept[torch.arange(count) * pairs // max(count, 1)] = True
    return kept.expand_as(norms.queries)


def _largest(norms: PairNorms, count: int) -> Tensor:
    kept = torch.zeros_like(norms.queries, dtype=torch.bool)
    return kept.scatter(1, norms.bounds.topk(count, dim=1).indices, True)


# fastest: p-RoPE, whose slowest pairs stand still (Barbero et al. 2024, arXiv 2410.06205, section 6.1).
# spread: partial rotary, whose n pairs have the frequencies base^(-j/n): those of every (pairs/n)th pair.
# largest: what the conversion to latent attention keeps in each head (Ji et al. 2025, arXiv 2502.14837).
CUTS: Mapping[str, Callable[[PairNorms, int], Tensor]] = {
    "fastest": _fastest,
    "spread": _spread,
    "largest": _largest,
}


def cut_pairs(norms: PairNorms, rule: str, share: float) -> PairCut:
    """Return which pairs keep their rotation by a rule, and the share of the bounds of the others.

    rule: "fastest" keeps the fastest pairs, as p-RoPE does; "spread" keeps pairs at even distances, whose
        frequencies are those of partial rotary; "largest" keeps the pairs with the largest bounds of each
        head, as a conversion to latent attention may.
    share: of the pairs that are kept, from 0 to 1; their number is rounded down.
    Raises SchemeArgumentError for another rule or share.
    """
    check_choice("rule", rule, CUTS)
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
        raise SchemeArgumentError(f"share must be a number from 0 to 1, got {quoted(share)}.")
    count = math.floor(len(norms.inv_freq) * share + 1e-9)
    return _cut(norms, CUTS[rule](norms, count))


def _cut(norms: PairNorms, kept: Tensor) -> PairCut:
    bounds = norms.bounds
    lost = bounds.masked_fill(kept, 0.0)
    return PairCut(
        kept=kept,
        shares=_over_sum(lost.sum(1), bounds.sum(1)),
        share=float(_over_sum(lost.sum(), bounds.sum())),
    )


def _over_sum(part: Tensor, total: Tensor) -> Tensor:
    return torch.where(total > 0, part / total, torch.zeros_like(part))


def _check_heads(queries: Tensor, keys: Tensor, scheme: RopeConfig) -> None:
    for name, weight in (("queries", queries), ("keys", keys)):
        if not isinstance(weight, Tensor) or not weight.is_floating_point() or weight.ndim != 3:
            raise SchemeArgumentError(
                f"{name} must be a (heads, features, width) tensor of floating-point numbers."
            )
        if weight.shape[1] < scheme.rotary_dim or weight.numel() == 0:
            raise SchemeArgumentError(
                f"{name} must have {scheme.rotary_dim} features or more in every head, as many as "
                f"rotate, got the shape {tuple(weight.shape)}."
            )
    heads, groups = len(queries), len(keys)
    if heads % groups or queries.shape[1] != keys.shape[1]:
        raise SchemeArgumentError(
            "queries must have as many features in a head as keys, and a multiple of their heads, got the "
            f"shapes {tuple(queries.shape)} and {tuple(keys.shape)}."
        )


def _spectral(weight: Tensor, scheme: RopeConfig) -> Float[Tensor, "heads pairs"]:
    """Return the spectral norm of the two rows of each pair; one head at a time is in float64."""
    norms = []
    for head in weight.detach():
        rows = pair_rows(head[None], scheme.rotary_dim, scheme.layout)[0].cpu().double()
        first, second = rows.unbind(1)
        a, b = first.square().sum(-1), second.square().sum(-1)
        cross = (first * second).sum(-1)
        # The larger eigenvalue of the 2 x 2 matrix of inner products.
        norms.append(((a + b) / 2 + torch.hypot((a - b) / 2, cross)).sqrt())
    stacked = torch.stack(norms)
    if not stacked.isfinite().all():
        raise SchemeArgumentError("The projections hold NaN or infinite numbers.")
    return stacked


def _bias_norms(
    name: str, bias: Tensor | None, weight: Tensor, scheme: RopeConfig
) -> Float[Tensor, "heads pairs"]:
    if bias is None:
        return torch.zeros(len(weight), scheme.rotary_dim // 2, dtype=torch.float64)
    if bias.shape != weight.shape[:2]:
        raise SchemeArgumentError(
            f"{name} must have the shape {tuple(weight.shape[:2])}, got {tuple(bias.shape)}."
        )
    rows = pair_rows(bias.detach().cpu().double()[..., None], scheme.rotary_dim, scheme.layout)
    return torch.linalg.vector_norm(rows, dim=(2, 3))
