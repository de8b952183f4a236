"""Stick-breaking against a loop that breaks a stick, and its properties in attention."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from posenc import NoPositionKernel, attention, position_kernel
from posenc.analysis import attention_use
from posenc.errors import SchemeArgumentError
from posenc.sdpa import attention_weights
from tests.library.configs import config_of
from tests.library.tensors import assert_close, random

HEADS, WIDTH, TOKENS = 2, 4, 7


def built() -> Any:
    return config_of("stick_breaking").build()


def broken(q: Tensor, k: Tensor, at: list[int]) -> Tensor:
    """Return the weights of each query: its key's share of what nearer keys have left."""
    weights = torch.zeros(HEADS, TOKENS, TOKENS, dtype=torch.float64)
    for h in range(HEADS):
        for i, query in enumerate(at):
            left = 1.0
            earlier = [j for j in range(TOKENS) if at[j] < query]
            for j in sorted(earlier, key=lambda j: -at[j]):
                logit = float(q[0, h, i] @ k[0, h, j]) / math.sqrt(WIDTH)
                share = 1 / (1 + math.exp(-logit))
                weights[h, i, j] = left * share
                left *= 1 - share
    return weights


@pytest.mark.parametrize("at", [[*range(TOKENS)], [9, 0, 3, 40, 1, 5, 6]])
def test_weights_are_broken_off_a_stick(at: list[int]) -> None:
    q, k, v = random(3, 1, HEADS, TOKENS, WIDTH)
    positions, wanted = torch.tensor(at), broken(q, k, at)
    found = attention(q, k, v, built(), q_positions=positions, k_positions=positions)
    assert_close(found[0], wanted @ v[0], atol=1e-13)
    if at == [*range(TOKENS)]:
        weights = attention_weights(q, k, built())
        assert_close(weights[0], wanted, atol=1e-13)
        assert wanted.sum(-1).max() < 1, "a part is lost"
        assert weights[0, :, 0].abs().max() == 0, "the first query has no earlier key"


def test_far_keys_get_what_is_left_whatever_their_logits_are() -> None:
    q = torch.ones(1, 1, 1, 1).double()
    k = torch.tensor([50.0, -50.0, 0.0, 0.0, 7.0]).double().reshape(1, 1, 5, 1)
    v = torch.eye(5).double()[None, None]
    found = attention(q, k, v, built(), q_positions=torch.tensor([4]))
    assert_close(found[0, 0, 0], [0.25, 0, 0.25, 0.5, 0], atol=1e-12)


def test_hidden_keys_take_nothing() -> None:
    q, k, v = random(3, 1, HEADS, TOKENS, WIDTH)
    mask = torch.tensor([[True, False, True, True, False, True, True]])
    kept = mask[0].nonzero()[:, 0]
    found = attention(q, k, v, built(), key_mask=mask)
    at = torch.arange(TOKENS)
    alone = attention(
        q, k[:, :, kept], v[:, :, kept], built(), q_positions=at, k_positions=at[kept]
    )
    assert_close(found, alone, atol=1e-13)
    assert_close(attention(q, k, v, built(), causal=False), attention(q, k, v, built()), atol=1e-13)


def test_what_it_has_not_is_refused() -> None:
    with pytest.raises(NoPositionKernel, match=r"no fixed position kernel: what it adds depends"):
        position_kernel(built(), 4)
    q, k = random(2, 1, HEADS, TOKENS, WIDTH)
    with pytest.raises(SchemeArgumentError, match="each row sums to 1"):
        attention_use(attention_weights(q, k, built()))
