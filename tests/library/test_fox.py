"""FoX: gates computed from a layer's input, against plain loops and an installed peer."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from posenc import ConfigError, SchemeArgumentError
from tests.library.configs import config_of
from tests.library.tensors import assert_close, random

HEADS, DIM, TOKENS = 3, 12, 9
WIDTH = DIM // HEADS


def built(**fields: Any) -> Any:
    scheme = config_of("fox", dim=DIM, heads=HEADS, **fields).build(seed=1).double()
    with torch.no_grad():
        scheme.weight.add_(0.5 * random(HEADS, DIM, seed=50))
        scheme.gate_bias.add_(random(HEADS, seed=51))
    return scheme


def gates(scheme: Any, x: Tensor) -> list[list[float]]:
    """Return ln sigma(w . x + a) of each head and token by Python's own floats."""
    rows = zip(scheme.weight.tolist(), scheme.gate_bias.tolist(), strict=True)
    return [
        [
            -math.log1p(math.exp(-math.fsum(a * b for a, b in zip(w, token, strict=True)) - bias))
            for token in x.tolist()
        ]
        for w, bias in rows
    ]


@pytest.mark.parametrize("at", [list(range(TOKENS)), [7, 0, 3, 12, 1, 40, 5, 6, 2]])
def test_bias_is_the_sum_of_the_gates_after_the_key(at: list[int]) -> None:
    scheme, positions = built(), torch.tensor(at)
    q, k, x = (
        random(1, HEADS, TOKENS, WIDTH),
        random(1, HEADS, TOKENS, WIDTH),
        random(1, TOKENS, DIM),
    )
    wide_q, wide_k = scheme.with_input(q, k, x)
    bias = scheme.bias(wide_q, wide_k, positions, positions).detach()
    logs = gates(scheme, x[0])
    for h in range(HEADS):
        for i, query in enumerate(at):
            for j, key in enumerate(at):
                if key > query:
                    continue
                between = [t for t, place in enumerate(at) if key < place <= query]
                wanted = math.fsum(logs[h][t] for t in between)
                assert bias[0, h, i, j].item() == pytest.approx(wanted, abs=1e-12)
    scores = scheme.scores(wide_q, wide_k, positions, positions)
    assert_close(scores, q @ k.mT / math.sqrt(WIDTH) + bias, atol=1e-12)


def test_bias_equals_that_of_an_installed_peer() -> None:
    peer = pytest.importorskip("x_transformers.x_transformers")
    scheme, x = built().float(), random(2, TOKENS, DIM, dtype=torch.float32)
    q, k = random(2, 2, HEADS, TOKENS, WIDTH, dtype=torch.float32)
    other = peer.DataDependentAlibi(DIM, HEADS)
    with torch.no_grad():
        other.to_forget_gates[0].weight.copy_(scheme.weight)
        other.to_forget_gates[0].bias.copy_(scheme.gate_bias)
        expected = other(x).tril()
        bias = scheme.bias(*scheme.with_input(q, k, x)).tril()
    assert_close(bias, expected, atol=1e-5)


def test_without_an_input_its_gates_are_those_of_zeros() -> None:
    scheme = built()
    q, k = random(2, 1, HEADS, TOKENS, WIDTH)
    blank = scheme.with_input(q, k, torch.zeros(1, TOKENS, DIM).double())
    assert_close(scheme.scores(q, k), scheme.scores(*blank).detach(), atol=1e-12)
    slopes = [math.log1p(math.exp(-a)) for a in scheme.gate_bias.tolist()]
    bias = scheme.bias(q, k)
    assert_close(bias[0, :, 5, 2], [-3 * slope for slope in slopes], atol=1e-12)


def test_far_gates_cost_no_precision_near_the_query() -> None:
    """Sums of a million positions are subtracted; a bias beside the query stays exact in float32."""
    scheme = config_of("fox", dim=2, heads=1).build()
    q = torch.zeros(1, 1, 1, 3)
    k = torch.full((1, 1, 200_000, 3), -math.log(2))
    bias = scheme.bias(q, k, torch.tensor([199_999])).detach()
    assert_close(bias[0, 0, 0, -3:], [-2 * math.log(2), -math.log(2), 0], atol=1e-6)


@pytest.mark.usefixtures("no_shape_checks")
def test_input_of_other_tokens_groups_of_heads_or_another_width_are_refused() -> None:
    scheme = built()
    q = torch.zeros(1, HEADS, TOKENS, WIDTH)
    x = torch.zeros(1, TOKENS, DIM)
    for k, input_, message in (
        (q, torch.zeros(1, TOKENS, DIM + 1), "width 12"), (q[..., :3], x, "width 4"),
        (q[:, :, 1:], x, "tokens of x"), (q[:, :1], x, "3 heads of queries"),
    ):  # fmt: skip
        with pytest.raises(SchemeArgumentError, match=message):
            scheme.with_input(q, k, input_)
    with pytest.raises(SchemeArgumentError, match="width 5"):
        scheme.bias(torch.zeros(1, HEADS, 2, 7), torch.zeros(1, HEADS, 2, 7))
    with pytest.raises(ConfigError, match="multiple of the heads"):
        config_of("fox", dim=10, heads=3)
