"""The relative family as x-transformers computes it, where it has the same scheme; differences named."""

import inspect
import math

import pytest
import torch
from torch import Tensor

from posenc import SCHEMES
from posenc.schemes.t5 import t5_buckets

peer = pytest.importorskip("x_transformers.x_transformers")


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("causal", [True, False])
def test_t5_equals_x_transformers_up_to_the_scale_of_its_own(causal: bool) -> None:
    """It multiplies the bias by a number of its own and goes on dividing scores by sqrt(d)."""
    theirs = peer.RelativePositionBias(scale=3.0, causal=causal, heads=4)
    scheme = SCHEMES["t5"](heads=4, bidirectional=not causal).build()
    scheme.load_state_dict({"weight": theirs.relative_attention_bias.weight})
    q = torch.zeros(1, 4, 150, 8)
    found = theirs(150, 150) / 3.0
    torch.testing.assert_close(scheme.bias(q, q)[0], found, rtol=1e-6, atol=1e-7)
    far = torch.arange(-4_000, 4_000)
    ours = t5_buckets(far, bidirectional=not causal)
    assert torch.equal(ours, theirs._relative_position_bucket(far, causal=causal))


@pytest.mark.parametrize("width", [8, 32])
def test_xpos_equals_x_transformers_at_the_origin_that_it_takes(width: int) -> None:
    """Its origin is half the length at hand, so it moves with every token that is added; its angles
    are float32.
    """
    length = 200
    theirs = peer.RotaryEmbedding(width, use_xpos=True)
    freqs, scale = theirs.forward_from_seq_len(length)
    q, k = random(1, 2, length, width), random(1, 2, length, width, seed=1)
    ours = SCHEMES["xpos"](dim=width, origin=length // 2).build().rotate(q, k)
    for x, found, power in ((q, ours[0], 1.0), (k, ours[1], -1.0)):
        wanted = peer.apply_rotary_pos_emb(x, freqs, scale**power)
        torch.testing.assert_close(found, wanted, rtol=0, atol=2e-5 * wanted.abs().max().item())
    moved, _ = theirs.forward_from_seq_len(length)[1], None
    longer = theirs.forward_from_seq_len(length + 2)[1]
    assert not torch.equal(longer[:, :length], moved), "a cached key is off once the text grows"


def test_cope_equals_x_transformers_on_scaled_and_masked_scores() -> None:
    heads, tokens, width, rows = 3, 30, 8, 12
    theirs = peer.CoPE(width, heads, rows)
    with torch.no_grad():
        theirs.pos_emb.copy_(random(rows, width, seed=5))
    scheme = SCHEMES["cope"](dim=width, counted=rows).build()
    scheme.load_state_dict({"weight": theirs.pos_emb})
    q, k = random(2, heads, tokens, width), random(2, heads, tokens, width, seed=1)
    later = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
    scores = (q @ k.mT / math.sqrt(width)).masked_fill(later, -torch.finfo(q.dtype).max)
    found, wanted = scheme.bias(q, k), theirs(q, scores)
    torch.testing.assert_close(found, wanted, rtol=0, atol=2e-5)
    # It counts later keys too where nothing masks them; the paper's sum ends at the query.
    open_scores = q @ k.mT / math.sqrt(width)
    assert (theirs(q, open_scores) - found).abs().max() > 0.1


def test_what_x_transformers_lacks_is_named() -> None:
    """So that a version which gains one of them, under whatever longer name, is compared with."""
    lacking = ("shaw", "transformerxl", "relposxl", "kerple", "fire", "sandwich")
    asked = {
        name
        for layer in (peer.Attention, peer.AttentionLayers)
        for name in inspect.signature(layer).parameters
    }
    found = {
        name
        for name in (*vars(peer), *asked)
        if any(one in name.lower().replace("_", "") for one in lacking)
    }
    # An order of layers and a place of norms, no bias.
    assert found == {"sandwich_coef", "sandwich_norm"}
