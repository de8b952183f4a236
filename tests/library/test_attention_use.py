"""Where heads look, and what each pair added: against plain loops."""

import math
from typing import Any

import pytest
import torch

import posenc
from posenc.analysis import attention_use, attention_weights, pair_use
from posenc.errors import SchemeArgumentError
from tests.library.tensors import assert_close, random

B, H, G, N, D = 2, 4, 2, 9, 8


@pytest.mark.parametrize("count", [None, 3])
def test_attention_by_distance_entropy_and_first_token_are_those_of_a_loop(count: Any) -> None:
    q, k = random(B, H, N, D), random(B, G, N, D, seed=1)
    weights = attention_weights(q, k, posenc.RopeConfig(dim=D).build())
    use = attention_use(weights, count)
    first = N - (count or N)
    for head in range(H):
        totals, counts = [0.0] * N, [0] * N
        entropies, firsts, distances = [], [], []
        for b in range(B):
            for i in range(first, N):
                row = [float(weights[b, head, i, j]) for j in range(i + 1)]
                assert sum(row) == pytest.approx(1)
                for j, weight in enumerate(row):
                    totals[i - j] += weight
                    counts[i - j] += 1
                entropies.append(-sum(w * math.log(w) for w in row))
                firsts.append(row[0])
                distances.append(sum(w * (i - j) for j, w in enumerate(row)))
        assert_close(use.by_distance[head], [t / c for t, c in zip(totals, counts, strict=True)])
        for found, values in (
            (use.entropy, entropies), (use.first_token, firsts), (use.distance, distances),
        ):  # fmt: skip
            assert float(found[head]) == pytest.approx(sum(values) / len(values))
    assert use.queries == N - first


def test_weights_are_those_of_the_attention_function() -> None:
    q, k = random(B, H, N, D), random(B, G, N, D, seed=1)
    for config in (posenc.RopeConfig(dim=D), posenc.AlibiConfig(heads=H)):
        scheme = config.build()
        values = torch.eye(N, dtype=torch.float64).expand(B, G, N, N)
        wanted = posenc.attention(q, k, values, scheme)
        assert_close(attention_weights(q, k, scheme), wanted, atol=1e-6)


def test_even_weights_have_the_numbers_that_are_stated_for_them() -> None:
    even = torch.ones(N, N, dtype=torch.float64).tril() / torch.arange(1, N + 1)[:, None]
    use = attention_use(even.expand(1, 1, N, N), 4)
    assert float(use.entropy[0]) == pytest.approx(use.even_entropy)
    assert float(use.first_token[0]) == pytest.approx(use.even_first_token)
    assert float(use.distance[0]) == pytest.approx(use.even_distance)
    assert use.even_entropy == pytest.approx(sum(map(math.log, range(6, 10))) / 4)


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_what_a_pair_added_is_that_of_a_loop_over_angles(layout: Any) -> None:
    q, k = random(B, H, N, D), random(B, G, N, D, seed=1)
    config = posenc.RopeConfig(dim=D, layout=layout, base=100.0)
    use = pair_use(q, k, config.build())
    for head in range(H):
        for pair in range(D // 2):
            at = [2 * pair, 2 * pair + 1] if layout == "interleaved" else [pair, pair + D // 2]
            theta, total, lengths = 100.0 ** (-2 * pair / D), 0.0, []
            for b in range(B):
                for i in range(N):
                    x = complex(*q[b, head, i, at].tolist())
                    lengths.append(abs(x))
                    for j in range(i + 1):
                        y = complex(*k[b, head // 2, j, at].tolist())
                        turned = x * complex(math.cos((i - j) * theta), math.sin((i - j) * theta))
                        total += abs((turned * y.conjugate()).real) / math.sqrt(D)
            visible = B * N * (N + 1) / 2
            assert float(use.contributions[head, pair]) == pytest.approx(total / visible, rel=1e-5)
            assert float(use.queries[head, pair]) == pytest.approx(sum(lengths) / len(lengths))


@pytest.mark.usefixtures("no_shape_checks")
def test_what_is_no_causal_attention_and_what_does_not_rotate_are_refused() -> None:
    with pytest.raises(SchemeArgumentError, match="those of causal attention"):
        attention_use(torch.full((1, 1, 4, 4), 0.25))
    alibi: Any = posenc.AlibiConfig(heads=4).build()
    with pytest.raises(SchemeArgumentError, match="must be a built RoPE"):
        pair_use(random(1, 4, 3, 8), random(1, 4, 3, 8), alibi)
