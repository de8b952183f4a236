"""Claims about attention without position: what permuting the tokens does to it.

Lee et al. 2019, arXiv 1810.00825 (equivariance); Kazemnejad et al. 2023, arXiv 2305.19466 (a causal
mask shows order).
"""

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.claims.claim import (
    EXACT,
    Number,
    Status,
    Verdict,
    claim,
    figure,
    randn,
    relative_change,
)
from posenc.schemes.base import NoneConfig, Scheme
from posenc.schemes.rope import RopeConfig
from posenc.schemes.sizes import Sizes
from posenc.sdpa import attention

TOKENS = 8
OF_LARGEST = "of the largest entry"


def random_tokens(sizes: Sizes) -> Float[Tensor, "1 h n d"]:
    """Return random content of a few tokens in heads of these sizes."""
    return randn(sizes.seed, 1, sizes.heads, TOKENS, sizes.head_dim)


def rope_control(sizes: Sizes) -> Scheme:
    """Return RoPE for heads of these sizes: the control, which distinguishes positions."""
    return RopeConfig(dim=sizes.head_dim, base=sizes.base).build()


def layer(x: Tensor, scheme: Scheme, *, causal: bool) -> Tensor:
    """Return self-attention of content x, with keys that are x shifted by one feature.

    With keys equal to the queries every token would attend to itself alone.
    """
    return attention(x, x.roll(1, dims=-1), x, scheme, causal=causal)


@claim(
    "Attention without position is permutation-invariant.",
    theme="order",
    source="Textbooks; Lee et al. 2019, arXiv 1810.00825, decides",
    steps=(layer, rope_control),
    uses=("dim", "heads", "base", "seed"),
)
def permutation(sizes: Sizes) -> Verdict:
    """Reverse the tokens; compare the outputs as they are, and reversed back.

    Controls: the mean over tokens, which is invariant; RoPE, whose outputs are not equivariant.
    """
    x, nope, rope = random_tokens(sizes), NoneConfig().build(), rope_control(sizes)
    before, after = (layer(tokens, nope, causal=False) for tokens in (x, x.flip(-2)))
    changed = relative_change(after, before)
    back = relative_change(after.flip(-2), before)
    mean = relative_change(after.mean(dim=-2), before.mean(dim=-2))
    rope_before, rope_after = (layer(tokens, rope, causal=False) for tokens in (x, x.flip(-2)))
    rope_back = relative_change(rope_after.flip(-2), rope_before)
    end = "" if back > EXACT else ": outputs move with their tokens (equivariance)"
    return Verdict(
        Status.FALSE if changed > EXACT else Status.HOLDS,
        (
            Number("reversed tokens change the outputs by", changed, OF_LARGEST),
            Number("change of each token's own output", back, OF_LARGEST),
            Number("with RoPE, change of each token's own output", rope_back, OF_LARGEST),
        ),
        f"{TOKENS} tokens are reversed. The output at each place then changes by up to {figure(changed)} "
        f"of the largest entry. The output that belongs to each token changes by {figure(back)}{end}.",
        Number("change of the mean over tokens, which is invariant", mean, OF_LARGEST),
    )


@claim(
    "Attention without position is blind to order.",
    theme="order",
    source="Textbooks; Kazemnejad et al. 2023, arXiv 2305.19466, decides",
    steps=(layer, rope_control),
    uses=("dim", "heads", "base", "seed"),
)
def blind(sizes: Sizes) -> Verdict:
    """Reverse all tokens but the last; compare the last output, without and with a causal mask."""
    x, nope, rope = random_tokens(sizes), NoneConfig().build(), rope_control(sizes)
    unmasked = _last_change(x, nope, layers=2, causal=False)
    first, second = (_last_change(x, nope, layers=layers, causal=True) for layers in (1, 2))
    control = _last_change(x, rope, layers=1, causal=False)
    mask_shows = unmasked <= EXACT < second
    status = Status.THEOREM if unmasked <= EXACT else Status.FALSE
    return Verdict(
        Status.PARTLY if mask_shows else status,
        (
            Number("change in two layers under a causal mask", second, OF_LARGEST),
            Number("change in one layer under a causal mask", first, OF_LARGEST),
            Number("change in two layers without a mask", unmasked, OF_LARGEST),
        ),
        f"The first {TOKENS - 1} of {TOKENS} tokens are reversed. The output of the last token then "
        f"changes by {figure(unmasked)} without a mask and by {figure(first)} in one causal layer, but by "
        f"{figure(second)} in two causal layers{': a causal mask shows order' if mask_shows else ''}.",
        Number("change in one layer with RoPE, no mask", control, OF_LARGEST),
    )


def _last_change(tokens: Tensor, scheme: Scheme, *, layers: int, causal: bool) -> float:
    """Return the change of the last token's output when the tokens before it are reversed."""
    outputs = []
    for x in (tokens, torch.cat((tokens[..., :-1, :].flip(-2), tokens[..., -1:, :]), dim=-2)):
        for _ in range(layers):
            x = x + layer(x, scheme, causal=causal)
        outputs.append(x[..., -1, :])
    return relative_change(outputs[1], outputs[0])
