"""PoPE against its formula as a plain loop, and against an installed peer."""

import math
from typing import Any

import pytest
import torch

from posenc import SchemeArgumentError, attention, offset_curve
from tests.library.configs import config_of
from tests.library.tensors import assert_close, random

HEADS, WIDTH, BASE = 3, 5, 100.0


def built(**fields: Any) -> Any:
    """Return PoPE with phases in and out of [-2 pi, 0], in float64."""
    scheme = config_of("pope", dim=WIDTH, heads=HEADS, base=BASE, **fields).build().double()
    with torch.no_grad():
        scheme.phase.copy_(3 * random(HEADS, WIDTH, seed=5) - 3)
    return scheme


def softplus(x: float) -> float:
    return math.log1p(math.exp(x))


@pytest.mark.parametrize("at", [[0, 1, 2, 3], [700, 3, 0, 41]])
def test_scores_equal_its_formula(at: list[int]) -> None:
    scheme, positions = built(), torch.tensor(at)
    q, k = random(2, 1, HEADS, 4, WIDTH)
    scores = scheme.scores(q, k, positions, positions)
    phases = scheme.phase.tolist()
    assert min(map(min, phases)) < -2 * math.pi or max(map(max, phases)) > 0, "some are cut off"
    for h in range(HEADS):
        for i in range(4):
            for j in range(4):
                total = 0.0
                for c in range(WIDTH):
                    size = softplus(q[0, h, i, c].item()) * softplus(k[0, h, j, c].item())
                    phase = min(0.0, max(-2 * math.pi, phases[h][c]))
                    total += size * math.cos((at[j] - at[i]) * BASE ** (-c / WIDTH) + phase)
                wanted = total / math.sqrt(WIDTH)
                assert scores[0, h, i, j].item() == pytest.approx(wanted, abs=1e-12)


def test_scores_equal_those_of_an_installed_peer() -> None:
    peer = pytest.importorskip("x_transformers.x_transformers")
    scheme, at = built().float(), torch.arange(6)
    q, k = random(2, 2, HEADS, 6, WIDTH, dtype=torch.float32)
    polar = peer.PolarEmbedding(WIDTH, HEADS, base=BASE)
    with torch.no_grad():
        polar.learned_bias.copy_(scheme.phase[:, None])
        angles, phase = polar(at)
        turned_q = peer.apply_polar_pos_emb(q, angles)
        turned_k = peer.apply_polar_pos_emb(k, angles + phase)
        expected = turned_q @ turned_k.mT * WIDTH**-0.5
        assert_close(scheme.scores(q, k), expected, atol=2e-5)


def test_queries_and_keys_are_twice_as_wide_as_values_and_groups_share_keys() -> None:
    scheme = config_of("pope", dim=WIDTH, heads=4).build().double()
    with torch.no_grad():
        scheme.phase.copy_(-random(4, WIDTH).abs())
    q, k, v = random(1, 4, 7, WIDTH), random(1, 2, 7, WIDTH, seed=1), random(1, 2, 7, 3, seed=2)
    turned_q, turned_k = scheme.rotate(q, k)
    assert (turned_q.shape, turned_k.shape) == ((1, 4, 7, 10), (1, 2, 7, 10))
    grouped = attention(q, k, v, scheme)
    all_k, all_v = (part.repeat_interleave(2, dim=1) for part in (k, v))
    assert grouped.shape == (1, 4, 7, 3)
    assert_close(grouped, attention(q, all_k, all_v, scheme).detach(), atol=1e-12)


def test_kernel_starts_as_a_mean_of_cosines_and_phases_tilt_it() -> None:
    start = offset_curve(config_of("pope", dim=WIDTH, base=BASE).build(), 9)
    rates = [BASE ** (-c / WIDTH) for c in range(WIDTH)]
    wanted = [math.fsum(math.cos(o * rate) for rate in rates) / WIDTH for o in range(-8, 9)]
    assert_close(start, wanted, atol=1e-12)
    tilted = offset_curve(built(), 9)
    assert (tilted - tilted.flip(0)).abs().max() > 0.1


def test_another_width_or_number_of_heads_is_refused() -> None:
    scheme = built()
    for shape in ((1, HEADS, 2, 4), (1, 2, 2, WIDTH)):
        with pytest.raises(SchemeArgumentError, match=r"width 5|3 heads"):
            scheme.rotate(torch.zeros(shape), torch.zeros(shape))
