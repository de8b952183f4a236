r"""What one attention layer sees of word order: one sentence, read in two orders.

Attention without position is permutation-equivariant (Lee et al. 2019, Set Transformer, arXiv
1810.00825, section 3.1; Yun et al. 2020, arXiv 1912.10077): with P a permutation of the tokens,
:math:`\mathrm{Attn}(P X) = P\,\mathrm{Attn}(X)`, so a word's output does not depend on the order. It
is not invariant: the outputs move with their words, and only a sum or mean over words stays.

The layer has random weights: whether order changes an output at all is a property of the scheme, by
how much is a property of the weights too. Everything is float64, on the CPU.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from jaxtyping import Float
from torch import Tensor

from posenc import limits
from posenc.errors import SchemeArgumentError, quoted
from posenc.notebook import Shown, View, title_of
from posenc.schemes.base import Scheme, check_scheme
from posenc.schemes.sizes import Sizes
from posenc.sdpa import attention, attention_weights

MAX_WORDS = 256
_WORDS, _WEIGHTS = 1 << 32, 2 << 32  # streams of their own: no table of a scheme starts with them
_BLOCK = 256  # rows of a weight matrix that exist at a time


@dataclass(frozen=True, kw_only=True)
class RandomLayer:
    """One attention layer whose weights are drawn, not trained: q, k, v = x W_q, x W_k, x W_v.

    Token vectors are N(0, 1) per feature and weights N(0, 1/width), so that scores vary by about 1.
    Drawn in float32 and used in float64. `width` is that of the token vectors; the outputs of all
    heads stand side by side, heads x head_dim wide, without an output projection.
    """

    width: int
    heads: int
    head_dim: int
    seed: int = 0

    def __post_init__(self) -> None:
        limits.check_count("width", self.width, 1, limits.MAX_DIM)
        limits.check_count("heads", self.heads, 1, limits.MAX_HEADS)
        limits.check_count("head_dim", self.head_dim, 1, limits.MAX_DIM)
        limits.check_count("seed", self.seed, 0, 2**32 - 1)

    @classmethod
    def of(cls, sizes: Sizes, scheme: Scheme) -> Self:
        """Return the layer of a comparison that fits one of its schemes.

        A table of another width than the model's has token vectors of its own width; a rotation over
        the whole model dimension (equal width) leaves one head.
        """
        config = scheme.config
        width = getattr(config, "dim", sizes.dim) if config.dim_of == "model" else sizes.dim
        head_dim = sizes.head_dim
        if config.dim_of == "head":
            head_dim = getattr(config, "dim", head_dim)
        heads = max(1, sizes.dim // head_dim)
        if scheme.heads is not None:  # of a model they may be others than those of the comparison
            heads = scheme.heads
            head_dim = max(1, sizes.dim // heads)
        return cls(width=width, heads=heads, head_dim=head_dim, seed=sizes.seed)

    def tokens(self, words: Sequence[str]) -> Float[Tensor, "n d"]:
        """Return the token vectors of words: equal words have the same vector."""
        vocabulary = list(dict.fromkeys(words))
        draw = torch.Generator("cpu").manual_seed(_WORDS + self.seed)
        vectors = [torch.randn(self.width, generator=draw, device="cpu") for _ in vocabulary]
        return torch.stack([vectors[vocabulary.index(word)] for word in words]).double()

    def project(self, x: Float[Tensor, "b n d"]) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values of token vectors, (b, heads, n, head_dim) each."""
        draw = torch.Generator("cpu").manual_seed(_WEIGHTS + self.seed)
        total = self.heads * self.head_dim
        projections = []
        for _ in range(3):
            out = x.new_zeros(*x.shape[:2], total)
            for start in range(0, self.width, _BLOCK):
                rows = min(_BLOCK, self.width - start)
                weight = torch.randn(rows, total, generator=draw, device="cpu").double()
                out += x[..., start : start + rows] @ (weight * self.width**-0.5)
            projections.append(out.unflatten(-1, (self.heads, self.head_dim)).transpose(1, 2))
        return projections[0], projections[1], projections[2]


@dataclass(frozen=True, eq=False)
class OrderReading(Shown):
    """Outputs of one layer for a sentence and for its other order, under one mask.

    Entry i is of word i of the first order in all four: the other order's are sorted back to it by
    the permutation, never by what the words are.
    outputs, other_outputs: (n, heads x head_dim). patterns, other_patterns: attention weights,
    (heads, n query, n key), rows sum to 1.
    """

    outputs: Float[Tensor, "n w"]
    other_outputs: Float[Tensor, "n w"]
    patterns: Float[Tensor, "h n n"]
    other_patterns: Float[Tensor, "h n n"]

    @property
    def differences(self) -> Float[Tensor, " n"]:
        """Largest absolute difference between each word's two outputs."""
        return (self.outputs - self.other_outputs).abs().amax(dim=1)

    @property
    def largest(self) -> float:
        """Largest of `differences`: 0 to rounding where the layer is blind to the reordering."""
        return self.differences.max().item()

    @property
    def pooled(self) -> float:
        """Largest absolute difference between the two means over words."""
        return (self.outputs.mean(dim=0) - self.other_outputs.mean(dim=0)).abs().max().item()

    @property
    def size(self) -> float:
        """Root mean square of the outputs, to compare a difference with."""
        return self.outputs.square().mean().sqrt().item()

    def view(self) -> View:
        return View(
            title=title_of(self),
            numbers={"largest": self.largest, "pooled": self.pooled, "size": self.size},
            columns={"word": range(len(self.differences)), "difference": self.differences},
            x="word",
            lines=("difference",),
        )


def read_orders(
    scheme: Scheme,
    layer: RandomLayer,
    words: Sequence[str],
    order: Sequence[int],
    *,
    causal: bool = False,
) -> OrderReading:
    """Return what one layer with this scheme gives for `words` in their order and in another.

    order: a permutation of 0..n-1; the other order has `words[order[i]]` at place i. A word is
    followed by its index, so a word that stands twice is followed correctly. Without a mask every
    word sees every word; `causal` hides later words. Raises SchemeArgumentError where `order` is no
    permutation or the scheme does not fit the layer, PositionOutOfRange past a learned table.
    """
    check_scheme(scheme)
    limits.check_count("number of words", len(words), 1, MAX_WORDS)
    indices = [index for index in order if isinstance(index, int)]
    if len(indices) < len(order) or sorted(indices) != [*range(len(words))]:
        raise SchemeArgumentError(
            f"order must hold each index from 0 to {len(words) - 1} once, got {quoted([*order])}."
        )
    other = torch.tensor(indices)
    places = other.argsort()  # the place in the other order of every word of the first
    scheme = scheme.to("cpu")
    with torch.no_grad():
        x = scheme.embed(torch.stack((layer.tokens(words), layer.tokens(words)[other])))
        q, k, v = layer.project(x)
        q, k = scheme.with_input(q, k, x)
        outputs = attention(q, k, v, scheme, causal=causal).transpose(1, 2).flatten(2)
        patterns = attention_weights(q, k, scheme, causal=causal)
    back = patterns[1][:, places][:, :, places]
    return OrderReading(outputs[0], outputs[1][places], patterns[0], back)
