r"""Captured queries and keys of a layer: where its heads look, and what each rotary pair added to logits.

Barbero et al. 2024, arXiv 2410.06205, figures 2 to 4, show mean norms of queries and keys by frequency;
Xiao et al. 2023, arXiv 2309.17453, section 3, how much attention falls on the first token.

Axes: b sequences, h query heads, g key heads, n tokens, d width of a head. Queries see the keys before
them and their own.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from posenc.analysis.pair_norms import pair_rows
from posenc.errors import SchemeArgumentError, quoted
from posenc.hook_arguments import repeat_kv
from posenc.limits import check_count
from posenc.notebook import Shown, View
from posenc.schemes.rope import Rope


@dataclass(frozen=True, eq=False)
class AttentionUse(Shown):
    """The attention of the heads of a layer by distance, means over texts and the last `queries` tokens.

    by_distance (heads, n): weight at each distance, query minus key; of queries that have a key there.
    entropy (heads,): of the weights, in nats. first_token (heads,): weight on token 0.
    distance (heads,): mean distance of the weight, in tokens. Three numbers say what equal weights would
    give: even_entropy, even_first_token and even_distance.
    """

    by_distance: Float[Tensor, "heads n"]
    entropy: Float[Tensor, " heads"]
    first_token: Float[Tensor, " heads"]
    distance: Float[Tensor, " heads"]
    queries: int
    even_entropy: float
    even_first_token: float
    even_distance: float

    def view(self) -> View:
        names = [f"head {head}" for head in range(len(self.by_distance))]
        return View(
            title="Attention by distance",
            numbers={
                "heads": len(names),
                "entropy (nats)": float(self.entropy.mean()),
                "share on the first token": float(self.first_token.mean()),
                "mean distance (tokens)": float(self.distance.mean()),
            },
            columns={
                "distance": range(self.by_distance.shape[1]),
                **dict(zip(names, self.by_distance, strict=True)),
            },
            x="distance",
            lines=tuple(names),
        )


@dataclass(frozen=True, eq=False)
class PairUse(Shown):
    """The part of each rotary pair of a layer in captured queries and keys.

    queries (heads, pairs), keys (kv_heads, pairs): mean length of the pair's part of a vector.
    contributions (heads, pairs): mean size of what the pair added to a logit, either sign.
    inv_freq (pairs,): radians per position, pair 0 first.
    """

    queries: Float[Tensor, "heads pairs"]
    keys: Float[Tensor, "kv_heads pairs"]
    contributions: Float[Tensor, "heads pairs"]
    inv_freq: Float[Tensor, " pairs"]

    def share(self, pairs: Bool[Tensor, " pairs"]) -> float:
        """Return the share of these pairs in what all pairs added, summed over the heads (0 to 1)."""
        return float(self.contributions[:, pairs].sum() / self.contributions.sum())

    def view(self) -> View:
        mean = self.contributions.mean(0)
        return View(
            title="Mean size of what each rotary pair added to a logit, mean of the heads",
            numbers={"pairs": len(mean), "largest pair": int(mean.argmax())},
            columns={"pair": range(len(mean)), "frequency": self.inv_freq, "contribution": mean},
            x="pair",
            lines=("contribution",),
        )


def attention_use(weights: Float[Tensor, "b h n n"], queries: int | None = None) -> AttentionUse:
    """Return where heads look, from causal attention weights.

    queries: how many of the last queries count; None is all. Raises SchemeArgumentError for weights that
    are not causal or do not sum to 1.
    """
    n = weights.shape[-1]
    count = n if queries is None else check_count("queries", queries, 1, n)
    at = torch.arange(n - count, n)
    rows = weights.detach()[..., n - count :, :].cpu().double()  # b, h, queries, n
    distances = at[:, None] - torch.arange(n)
    seen = distances >= 0
    whole = torch.ones((), dtype=torch.float64)
    if not torch.allclose(rows.sum(-1), whole, atol=1e-3) or bool(rows[..., ~seen].any()):
        raise SchemeArgumentError(
            "weights must be those of causal attention: each row sums to 1, and no key after the query has "
            "any."
        )
    mean = rows.mean(0)
    entropy = -torch.special.xlogy(rows, rows).sum(-1).mean((0, 2))
    by_distance = torch.zeros(len(mean), n, dtype=torch.float64)
    by_distance.index_add_(1, distances[seen], mean[:, seen])
    by_distance /= torch.bincount(distances[seen], minlength=n)
    keys = at.double() + 1
    return AttentionUse(
        by_distance=by_distance,
        entropy=entropy,
        first_token=mean[..., 0].mean(1),
        distance=(mean * distances.clamp(min=0)).sum(-1).mean(1),
        queries=count,
        even_entropy=float(keys.log().mean()),
        even_first_token=float((1 / keys).mean()),
        even_distance=float((at.double() / 2).mean()),
    )


def pair_use(
    q: Float[Tensor, "b h n d"],
    k: Float[Tensor, "b g n d"],
    scheme: Rope,
    *,
    scale: float | Float[Tensor, "n 1"] | None = None,
    seen: Bool[Tensor, "n n"] | None = None,
) -> PairUse:
    """Return what each rotary pair added to the logits of visible keys, from q and k before the rotation.

    scale: the softmax scale, also one for each query; None is 1/sqrt(d). seen: which keys each query sees;
    None: those before it and its own.
    Raises SchemeArgumentError for a scheme that does not rotate.
    """
    if not isinstance(scheme, Rope):
        raise SchemeArgumentError(
            f"scheme must be a built RoPE, or a scaling of it, got {quoted(type(scheme).__name__)}."
        )
    layout, rotated = scheme.rotary_layout, 2 * scheme.frequencies.pairs
    assert layout is not None
    n = q.shape[-2]
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    if seen is None:
        seen = torch.ones(n, n, dtype=torch.bool, device=q.device).tril()

    def parts(x: Tensor) -> Tensor:
        """Return the pairs of vectors: heads, pairs, 2, b, n."""
        return pair_rows(x.permute(1, 3, 0, 2).flatten(2), rotated, layout).unflatten(
            -1, (-1, x.shape[-2])
        )

    query_lengths, key_lengths = (
        torch.linalg.vector_norm(parts(x.double()), dim=2).mean((2, 3)) for x in (q, k)
    )
    turned_q, turned_k = scheme.rotate(q, k)
    queries, keys = parts(turned_q), parts(repeat_kv(turned_k, q.shape[1]))
    visible = len(q) * int(seen.sum())
    contributions = torch.zeros(queries.shape[:2], dtype=torch.float64)
    for pair in range(queries.shape[1]):
        added = torch.einsum("hcbi,hcbj->hbij", queries[:, pair], keys[:, pair]) * factor
        contributions[:, pair] = (added.abs() * seen).double().sum((1, 2, 3)) / visible
    return PairUse(query_lengths, key_lengths, contributions, scheme.frequencies.inv_freq.clone())
