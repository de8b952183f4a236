"""Claims about attention without position: what permuting the tokens does to it.

Lee et al. 2019, arXiv 1810.00825 (equivariance); Kazemnejad et al. 2023, arXiv 2305.19466 (a causal
mask shows order).
"""

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.attention import attention
from posenc.claims.claim import Number, State, Verdict, figure
from posenc.schemes.base import NoneConfig, Scheme
from posenc.schemes.rope import RopeConfig
from posenc.settings import Setting

TOKENS = 8
SAME = 1e-9  # float64 rounding, with room


def permutation(setting: Setting) -> Verdict:
    """Reverse the tokens; compare the outputs as they stand, and put back in place.

    The control is what the sentence is true of: the mean over tokens. Putting back in place has one,
    too: with RoPE the outputs do not permute with the inputs.
    """
    tokens, plain = sentence(setting), NoneConfig().build()
    out, reversed_out = (layer(x, plain, causal=False) for x in (tokens, tokens.flip(-2)))
    moved = change(reversed_out, out)
    back = change(reversed_out.flip(-2), out)
    pooled = change(reversed_out.mean(dim=-2), out.mean(dim=-2))
    rope = rotated(setting)
    turned, turned_back = (layer(x, rope, causal=False) for x in (tokens, tokens.flip(-2)))
    also = "" if back > SAME else ": outputs permute with the inputs, which is equivariance"
    return Verdict(
        State.FALSE if moved > SAME else State.HOLDS,
        (
            Number("change of the outputs, tokens reversed", moved, "of the largest"),
            Number("change once put back in place", back, "of the largest"),
            Number(
                "with RoPE, change once put back in place",
                change(turned_back.flip(-2), turned),
                "of the largest",
            ),
        ),
        f"Reversing {TOKENS} tokens changes the outputs by {figure(moved)} of the largest, and by "
        f"{figure(back)} once they are put back in place{also}.",
        Number("change of the mean over tokens, which is invariant", pooled, "of the largest"),
    )


def blind(setting: Setting) -> Verdict:
    """Reverse all tokens but the last; compare the last one's output, without and with a causal mask."""
    tokens, plain = sentence(setting), NoneConfig().build()
    other = torch.cat((tokens[..., :-1, :].flip(-2), tokens[..., -1:, :]), dim=-2)
    free = _last(tokens, other, plain, layers=2, causal=False)
    one = _last(tokens, other, plain, layers=1, causal=True)
    two = _last(tokens, other, plain, layers=2, causal=True)
    control = _last(tokens, other, rotated(setting), layers=1, causal=False)
    shows = ": a causal mask shows order" if free <= SAME < two else ""
    return Verdict(
        State.PARTLY if free <= SAME < two else State.THEOREM if free <= SAME else State.FALSE,
        (
            Number("change in two layers under a causal mask", two, "of the largest"),
            Number("change in one layer under a causal mask", one, "of the largest"),
            Number("change in two layers without a mask", free, "of the largest"),
        ),
        f"Reversing {TOKENS - 1} tokens changes the last one's output by {figure(free)} without a mask "
        f"and by {figure(one)} in one causal layer, but by {figure(two)} in two{shows}.",
        Number("change in one layer with RoPE, no mask", control, "of the largest"),
    )


def sentence(setting: Setting) -> Float[Tensor, "1 h n d"]:
    """Return random content of a few tokens in the heads of a setting."""
    draw = torch.Generator().manual_seed(setting.seed)
    shape = (1, setting.heads, TOKENS, setting.head_dim)
    return torch.randn(shape, generator=draw, dtype=torch.float64)


def rotated(setting: Setting) -> Scheme:
    """Return RoPE on the heads of a setting: the control, for it tells places apart."""
    return RopeConfig(dim=setting.head_dim, base=setting.base).build()


def layer(x: Tensor, scheme: Scheme, *, causal: bool) -> Tensor:
    """Return self-attention of a token's content; its keys are the content, one feature moved on.

    With keys like the queries every token would look at itself alone.
    """
    return attention(x, x.roll(1, dims=-1), x, scheme, causal=causal)


def change(after: Tensor, before: Tensor) -> float:
    """Return the largest difference over the largest entry."""
    return ((after - before).abs().max() / before.abs().max()).item()


def _last(tokens: Tensor, other: Tensor, scheme: Scheme, *, layers: int, causal: bool) -> float:
    outputs = []
    for x in (tokens, other):
        for _ in range(layers):
            x = x + layer(x, scheme, causal=causal)
        outputs.append(x[..., -1, :])
    return change(outputs[1], outputs[0])
