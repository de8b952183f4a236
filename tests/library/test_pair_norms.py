"""Norms per rotary pair: the bound holds and is reached, planted pairs are found, cuts counted by hand."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import posenc
from posenc import RopeConfig
from posenc.analysis import PairNorms, cut_pairs, pair_norms, slow_pairs
from posenc.errors import SchemeArgumentError
from tests.library.tensors import assert_close, random

HEADS, GROUPS, FEATURES, WIDTH = 4, 2, 12, 20
LAYOUTS: Any = ("interleaved", "half")


def features_of(pair: int, scheme: RopeConfig) -> list[int]:
    """Return the two features of a pair, as the layout defines them."""
    if scheme.layout == "interleaved":
        return [2 * pair, 2 * pair + 1]
    return [pair, pair + scheme.rotary_dim // 2]


def scheme_of(layout: Any, share: float = 1.0) -> RopeConfig:
    return RopeConfig(dim=FEATURES, layout=layout, partial_rotary_factor=share)


def parts_of_logit(
    queries: Tensor, keys: Tensor, scheme: RopeConfig, x: Tensor, y: Tensor, offsets: Tensor
) -> Tensor:
    """Return what each pair adds to each head's logit, (heads, pairs, offsets), by the module of RoPE."""
    at_zero = torch.zeros_like(offsets)
    q = (queries @ x)[None, :, None].expand(-1, -1, len(offsets), -1)
    k = (keys @ y)[None, :, None].expand(-1, -1, len(offsets), -1)
    rotated_q, rotated_k = scheme.build().rotate(q, k, offsets, at_zero)
    products = rotated_q[0] * rotated_k[0].repeat_interleave(len(queries) // len(keys), 0)
    pairs = range(scheme.rotary_dim // 2)
    parts = [products[..., features_of(pair, scheme)].sum(-1) for pair in pairs]
    return torch.stack(parts, 1) * FEATURES**-0.5


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_no_pair_adds_more_than_its_bound_and_some_offset_comes_near_it(
    layout: Any, share: float
) -> None:
    scheme = scheme_of(layout, share)
    queries, keys = random(HEADS, FEATURES, WIDTH), random(GROUPS, FEATURES, WIDTH, seed=1)
    norms = pair_norms(queries, keys, scheme)
    bounds = norms.bounds
    offsets = torch.arange(360)
    for seed in range(10):
        x, y = (nn.functional.normalize(random(WIDTH, seed=100 * seed + n), dim=0) for n in (0, 1))
        parts = parts_of_logit(queries, keys, scheme, x, y, offsets)
        assert (parts.abs() <= bounds[..., None] * (1 + 1e-12)).all()
    # The inputs along the longest axes; pair 0 turns by one radian per position and comes near any angle.
    at = features_of(0, scheme)
    x, y = (torch.linalg.svd(weight[0, at]).Vh[0] for weight in (queries, keys))
    best = parts_of_logit(queries, keys, scheme, x, y, offsets)[0, 0].max()
    assert 0.9999 * bounds[0, 0] <= best <= bounds[0, 0] * (1 + 1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_norms_are_those_of_numpys_singular_values(layout: Any) -> None:
    scheme = scheme_of(layout, 2 / 3)
    queries, keys = random(HEADS, FEATURES, WIDTH), random(GROUPS, FEATURES, WIDTH, seed=1)
    query_bias, key_bias = random(HEADS, FEATURES, seed=2), random(GROUPS, FEATURES, seed=3)
    norms = pair_norms(queries, keys, scheme, query_bias=query_bias, key_bias=key_bias)
    for weights, bias, found, found_bias in (
        (queries, query_bias, norms.queries, norms.query_biases),
        (keys, key_bias, norms.keys, norms.key_biases),
    ):
        for head in range(len(weights)):
            for pair in range(4):
                at = features_of(pair, scheme)
                assert found[head, pair].item() == pytest.approx(
                    np.linalg.svd(weights[head, at].numpy())[1][0], rel=1e-12
                )
                assert found_bias[head, pair].item() == pytest.approx(
                    math.hypot(*bias[head, at].tolist()), rel=1e-12
                )
    wanted = torch.tensor([
        [
            (2 * norms.queries[head, pair] + norms.query_biases[head, pair])
            * (3 * norms.keys[head // 2, pair] + norms.key_biases[head // 2, pair]) / math.sqrt(12)
            for pair in range(4)
        ]
        for head in range(HEADS)
    ])  # fmt: skip
    assert_close(norms.at_most(2, 3), wanted, atol=1e-4)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_planted_pair_is_the_largest(layout: Any) -> None:
    scheme = RopeConfig(dim=32, layout=layout)
    queries, keys = random(8, 32, 64), random(8, 32, 64, seed=1)
    queries[3, features_of(5, scheme)] *= 10
    bounds = pair_norms(queries, keys, scheme).bounds
    assert divmod(int(bounds.argmax()), 16) == (3, 5)


def test_scale_and_attention_factor_multiply_the_bounds_once_and_twice() -> None:
    queries, keys = random(1, 12, 20), random(1, 12, 20, seed=1)
    plain = pair_norms(queries, keys, scheme_of("half"), softmax_scale=1.0)
    yarn = posenc.RopeYarnConfig(dim=12, layout="half", factor=4.0, trained_length=64)
    scaled = pair_norms(queries, keys, yarn, softmax_scale=0.5)
    factor = 0.1 * math.log(4) + 1
    assert_close(scaled.bounds, plain.bounds * 0.5 * factor**2, atol=1e-10)


def norms_of(bounds: list[list[float]], base: float = 10_000.0) -> PairNorms:
    """Return norms whose bounds are these."""
    table = torch.tensor(bounds, dtype=torch.float64)
    zeros, pairs = torch.zeros_like(table), table.shape[1]
    inv_freq = base ** -(torch.arange(pairs, dtype=torch.float64) / pairs)
    return PairNorms(table, torch.ones_like(table), zeros, zeros, inv_freq, 1.0)


def test_cuts_keep_the_pairs_of_their_rule_and_lose_the_others_share() -> None:
    norms = norms_of([[1, 2, 3, 4, 5, 6, 7, 2], [8, 1, 1, 1, 1, 1, 1, 1]])
    fastest = cut_pairs(norms, "fastest", 0.75)
    assert fastest.kept.tolist() == [[True] * 6 + [False] * 2] * 2
    assert_close(fastest.shares, [9 / 30, 2 / 15])
    assert fastest.share == pytest.approx(11 / 45)
    spread = cut_pairs(norms, "spread", 0.5)
    assert spread.kept.tolist() == [[True, False] * 4] * 2
    assert_close(spread.shares, [14 / 30, 4 / 15])
    largest = cut_pairs(norms, "largest", 0.25)
    assert largest.kept[0].nonzero().flatten().tolist() == [5, 6]
    assert bool(largest.kept[1, 0])
    assert_close(largest.shares, [17 / 30, 6 / 15])
    assert cut_pairs(norms, "fastest", 0.0).share == 1.0
    assert cut_pairs(norms, "largest", 1).share == 0.0


def test_the_fastest_pairs_that_are_kept_are_those_that_p_rope_rotates() -> None:
    for dim in (8, 64, 80, 128):
        for share in (0.0, 0.25, 0.3, 0.75, 1.0):
            scheme = posenc.RopeProportionalConfig(dim=dim, partial_rotary_factor=share)
            norms = norms_of([[1.0] * (dim // 2)])
            rotates = scheme.frequencies().inv_freq > 0
            assert cut_pairs(norms, "fastest", share).kept[0].tolist() == rotates.tolist()


@pytest.mark.parametrize("share", [0.125, 0.25, 0.5, 1.0])
def test_the_spread_pairs_have_the_frequencies_of_partial_rotary(share: float) -> None:
    norms = pair_norms(random(1, 64, 8), random(1, 64, 8), RopeConfig(dim=64))
    kept = cut_pairs(norms, "spread", share).kept[0]
    partial = RopeConfig(dim=64, partial_rotary_factor=share).frequencies().inv_freq
    assert_close(norms.inv_freq[kept], partial, rtol=1e-12)


def test_pairs_that_never_turn_are_those_of_a_plain_count() -> None:
    norms = pair_norms(random(2, 128, 8), random(1, 128, 8, seed=1), RopeConfig(dim=128))
    turned = [4_096 * 10_000 ** (-2 * pair / 128) / (2 * math.pi) >= 1 for pair in range(64)]
    cut = slow_pairs(norms, 4_096)
    assert cut.kept.tolist() == [turned] * 2
    assert 2 * sum(turned) == 92  # Llama 2, Liu et al. 2023
    bounds = norms.bounds
    lost = [sum(row[turned.index(False) :].tolist()) / sum(row.tolist()) for row in bounds]
    assert_close(cut.shares, lost)


def test_a_head_of_zeros_has_no_share() -> None:
    norms = norms_of([[0.0] * 4, [1.0, 0, 0, 0]])
    assert norms.shares.tolist() == [[0.0] * 4, [1.0, 0, 0, 0]]
    assert slow_pairs(norms, 1).shares.tolist() == [0.0, 1.0]


@pytest.mark.usefixtures("no_shape_checks")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"scheme": posenc.AlibiConfig(heads=4)}, "must be RoPE or a scaling of it"),
        ({"queries": random(3, 12, 20)}, "a multiple of their heads"),
        ({"queries": random(4, 8, 20)}, "12 features or more in every head"),
        ({"queries": random(4, 14, 20)}, "as many features in a head as keys"),
        ({"queries": random(48, 20)}, "must be a (heads, features, width) tensor"),
        ({"keys": random(2, 12, 20).fill_(math.nan)}, "NaN or infinite"),
        ({"query_bias": random(4, 10)}, "query_bias must have the shape (4, 12)"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(change: Any, words: str) -> None:
    arguments: Any = {
        "queries": random(4, 12, 20), "keys": random(2, 12, 20), "scheme": scheme_of("half"),
    }  # fmt: skip
    with pytest.raises(SchemeArgumentError) as caught:
        pair_norms(**arguments | change)
    assert words in str(caught.value)


@pytest.mark.usefixtures("no_shape_checks")
@pytest.mark.parametrize(("rule", "share"), [("slowest", 0.5), ("fastest", 1.5), ("fastest", True)])
def test_other_rules_and_shares_are_refused(rule: str, share: Any) -> None:
    with pytest.raises(SchemeArgumentError, match="must be"):
        cut_pairs(norms_of([[1.0, 2.0]]), rule, share)
