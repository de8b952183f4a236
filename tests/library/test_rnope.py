"""RNoPE: which layers rotate, which keys their queries see, and how queries grow where none rotates."""

import math
from typing import Any

import pytest
import torch

from posenc import RopeConfig, attention
from posenc.analysis import RandomLayer, read_orders
from posenc.sdpa import attention_weights
from tests.library.configs import config_of
from tests.library.tensors import assert_close, random

HEADS, WIDTH, TOKENS = 2, 8, 12


def built(**fields: Any) -> Any:
    return config_of("rnope", dim=WIDTH, base=100.0, **fields).build()


@pytest.mark.parametrize(
    ("every", "rotating"), [(2, [1, 0, 1, 0, 1, 0, 1, 0]), (4, [1, 1, 1, 0] * 2)]
)
def test_every_nth_layer_is_without_rope(every: int, rotating: list[int]) -> None:
    """SmolLM3's `no_rope_layers`, where 1 means that a layer rotates: 1 1 1 0 for an interval of 4."""
    q, k = random(2, 1, HEADS, TOKENS, WIDTH)
    scheme, rope = built(every=every), RopeConfig(dim=WIDTH, base=100.0).build()
    for index, rotates in enumerate(rotating):
        found = scheme.layer(index).rotate(q, k)
        for actual, wanted in zip(found, rope.rotate(q, k) if rotates else (q, k), strict=True):
            assert torch.equal(actual, wanted), index


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", [1, 3, 50])
def test_queries_of_layers_with_rope_see_a_window(window: int, causal: bool) -> None:
    scheme, rope = built(window=window), RopeConfig(dim=WIDTH, base=100.0).build()
    q, k, v = random(3, 1, HEADS, TOKENS, WIDTH)
    logits = rope.scores(q, k)
    for h in range(HEADS):
        for i in range(TOKENS):
            last = i if causal else min(i + window - 1, TOKENS - 1)
            seen = range(max(0, i - window + 1), last + 1)
            sizes = [math.exp(logits[0, h, i, j].item()) for j in seen]
            wanted = sum(v[0, h, j] * size for j, size in zip(seen, sizes, strict=True)) / sum(
                sizes
            )
            found = attention(q, k, v, scheme, causal=causal)[0, h, i]
            assert_close(found, wanted, atol=1e-12)
    weights = attention_weights(q, k, scheme, causal=causal)
    assert_close(weights @ v, attention(q, k, v, scheme, causal=causal), atol=1e-12)
    assert scheme.layer(1).window is None, "layers without RoPE see all keys"


def test_query_past_the_window_of_all_keys_gets_zeros() -> None:
    q, k = random(2, 1, HEADS, 1, WIDTH)
    found = attention(q, k, k, built(window=4), q_positions=torch.tensor([9]))
    assert torch.equal(found, torch.zeros_like(found))


def test_words_outside_the_window_are_not_read() -> None:
    words = ("a", "b", "c", "d", "e", "f")
    layer = RandomLayer(width=16, heads=HEADS, head_dim=WIDTH)
    swapped = (1, 0, 2, 3, 4, 5)
    reading = read_orders(built(window=3), layer, words, swapped, causal=True)
    assert reading.differences[:4].min() > 1e-3
    assert reading.differences[4:].max() < 1e-12, "their three keys stand where they stood"


def test_queries_without_rope_grow_as_those_of_llama_4() -> None:
    """1 + 0.1 ln(1 + floor((p + 1) / 8192)): 1.0693 at 8,192 tokens, 1.2833 at 131,072."""
    scheme = built(growth=0.1)
    q = torch.ones(1, 1, 4, WIDTH).double()
    at = torch.tensor([0, 8_190, 8_191, 131_071])
    grown, _ = scheme.layer(1).rotate(q, q, at, at)
    assert_close(grown[0, 0, :, 0], [1, 1, 1.0693, 1.2833], atol=5e-5)
    batched, _ = scheme.layer(1).rotate(q, q, at[None], at[None])
    assert torch.equal(batched, grown)
    assert torch.equal(scheme.rotate(q, q, at, at)[0].norm(dim=-1).round(decimals=9),
                       q.norm(dim=-1).round(decimals=9)), "layers with RoPE do not grow"  # fmt: skip
