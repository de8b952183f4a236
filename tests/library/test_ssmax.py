"""SSMax against its formula as a plain loop, on NoPE and on RoPE."""

import math
from typing import Any

import pytest
import torch

from posenc import NoPositionVectors, attention, position_vectors
from posenc.analysis import cosine_matrix
from posenc.kernel import position_kernel
from posenc.logits.rule import rule_of_scheme
from posenc.logits.scales import growth_found
from tests.library import independent
from tests.library.configs import config_of
from tests.library.tensors import random

HEADS, WIDTH = 3, 4
RATES = [float(theta) for theta in independent.inverse_frequencies(WIDTH, 100.0)]


def built(kind: str, **fields: Any) -> Any:
    """Return a scheme whose heads have different multiples, in float64."""
    sizes = {"dim": WIDTH, "base": 100.0} if kind == "ssmax_rope" else {}
    scheme = config_of(kind, heads=HEADS, trained_length=6, **sizes, **fields).build().double()
    with torch.no_grad():
        scheme.s.copy_(torch.tensor([0.3, 1.0, 2.5], dtype=torch.float64))
    return scheme


def turned(row: list[float], position: int) -> list[complex]:
    pairs = zip(row[::2], row[1::2], strict=True)
    angles = (position * theta for theta in RATES)
    return [
        complex(a, b) * complex(math.cos(angle), math.sin(angle))
        for (a, b), angle in zip(pairs, angles, strict=True)
    ]


@pytest.mark.parametrize("kind", ["ssmax", "ssmax_rope"])
def test_scores_are_n_to_the_power_s_times_those_without(kind: str) -> None:
    """The weights of a causal query of n keys are n^(s z) over their sum."""
    scheme, at = built(kind), [0, 1, 2, 3, 4, 5]
    q, k = random(2, 1, HEADS, 6, WIDTH)
    weights = scheme.scores(q, k).detach().exp()
    for h, s in enumerate([0.3, 1.0, 2.5]):
        for i in at:
            for j in at[: i + 1]:
                query, key = q[0, h, i].tolist(), k[0, h, j].tolist()
                if kind == "ssmax":
                    dot = math.fsum(a * b for a, b in zip(query, key, strict=True))
                else:
                    parts = zip(turned(query, i), turned(key, j), strict=True)
                    dot = sum((a * b.conjugate()).real for a, b in parts)
                wanted = (i + 1) ** (s * dot / math.sqrt(WIDTH))
                assert weights[0, h, i, j].item() == pytest.approx(wanted, rel=1e-12)


def test_factor_starts_at_one_in_the_mean_of_the_trained_length() -> None:
    for length in (2, 64, 1_024):
        start = config_of("ssmax", heads=2, trained_length=length).build().s.tolist()
        logs = [math.log(n) for n in range(1, length + 1)]
        assert start == pytest.approx([length / math.fsum(logs)] * 2, rel=1e-6)
    assert start == pytest.approx([0.168] * 2, abs=5e-4)


def test_attention_stays_as_sharp_however_many_keys_there_are() -> None:
    """With one key ahead by z, its weight is 1 / (1 + (n - 1) n^(-s z)), near 1 where s z > 1."""
    scheme = config_of("ssmax", heads=1).build().double()
    torch.nn.init.constant_(scheme.s, 1.0)
    for n in (10, 1_000, 5_000):
        k = torch.zeros(1, 1, n, 1).double()
        k[0, 0, 0] = 2.0
        last = torch.ones(1, 1, 1, 1).double()
        v = torch.zeros_like(k)
        v[0, 0, 0] = 1.0
        weight = attention(last, k, v, scheme, q_positions=torch.tensor([n - 1])).item()
        assert weight == pytest.approx(1 / (1 + (n - 1) / n**2), rel=1e-9)


def test_first_position_has_no_cosine_and_no_scheme_vectors() -> None:
    """ln 1 = 0: the first query weighs its one key whatever the logit is."""
    for kind in ("ssmax", "ssmax_rope"):
        scheme = built(kind)
        kernel = position_kernel(scheme, 5)
        assert kernel[0].abs().max() == 0
        assert cosine_matrix(kernel)[0].isnan().all()
        with pytest.raises(NoPositionVectors, match="grows with the query's position"):
            position_vectors(scheme, 5)


def test_logit_check_finds_the_growth_of_this_scheme() -> None:
    scheme, at = built("ssmax"), torch.arange(1, 9)
    rule = rule_of_scheme(config_of("none"), HEADS, WIDTH)
    rows = scheme.factors(at).detach()
    assert growth_found(rule, rows, torch.full_like(rows, 1e-12), at).word == "log"
    assert growth_found(rule, rows + 1, torch.full_like(rows, 1e-12), at).word == "unknown"
