"""Claims of wavelengths and of distance, against mpmath and plain formulas."""

import math

import numpy as np
import pytest
import torch
from mpmath import mp

from posenc import SCHEMES, Setting
from posenc.claims import State
from posenc.claims.offsets import two_ahead_control, two_ahead_weights
from tests import independent
from tests.claim_readings import at, control, decides, number, rows, wavelengths


def test_low_dimensions_turn_fast_unless_the_layout_is_by_halves() -> None:
    found = at("fast_to_slow")
    assert (found.state, decides(found)) == (State.HOLDS, 0)
    thetas = independent.inverse_frequencies(512, 1e4)
    assert number(found, "first over last") == pytest.approx(float(thetas[0] / thetas[-1]))
    halves = at("fast_to_slow", own=(("sinusoidal.layout", "half"),))
    assert (halves.state, decides(halves)) == (State.FALSE, 1)
    assert "feature 256 starts again" in halves.sentence
    assert at("fast_to_slow", dim=2, heads=1).state is State.UNDECIDED


def test_two_dimensions_share_each_frequency() -> None:
    for dim in (8, 512):
        found = at("own_frequency", dim=dim, heads=1)
        # Two columns have one frequency where their squares sum to one at every position.
        table = rows(50, dim)
        partners = [
            sum(np.allclose(table[:, a] ** 2 + table[:, b] ** 2, 1, atol=1e-9) for b in range(dim))
            for a in range(min(dim, 8))
        ]
        assert partners == [1] * len(partners)
        assert (found.state, decides(found)) == (State.FALSE, dim / 2)
        assert control(found) == dim


@pytest.mark.parametrize(
    ("dim", "base", "expected"),
    [(512, 1e4, 60_611), (64, 1e4, 47_117), (4096, 1e4, 62_550), (512, 500.0, 3_066)],
)
def test_the_slowest_wavelength_is_the_formula_s(dim: int, base: float, expected: float) -> None:
    found = at("slowest", dim=dim, base=base)
    assert round(decides(found)) == expected
    assert decides(found) == pytest.approx(float(wavelengths(dim, base)[-1]))
    said = {1e4: 62_832, 500.0: 3_142}  # tensor2tensor
    assert round(number(found, "2 pi times the base")) == said[base]
    assert found.state is (State.HOLDS if dim == 4096 else State.FALSE)
    # The card states the tolerance that decides, and how far off the number is.
    assert f"{100 * (2 * np.pi * base / decides(found) - 1):.3g}% longer." in found.sentence
    assert found.sentence.endswith('Here "about" means within 1%.')


def test_below_ten_thousand_positions_most_pairs_turn() -> None:
    found = at("nearly_linear")
    angles = [10_000 * theta for theta in independent.inverse_frequencies(512, 1e4)]
    assert decides(found) == sum(a < 1 for a in angles) == 0
    assert number(found, "pairs under a quarter") == sum(a < mp.pi / 2 for a in angles) == 12
    assert number(found, "pairs over a full") == sum(a > 2 * mp.pi for a in angles) == 205
    assert found.state is State.FALSE
    assert at("nearly_linear", base=1e8).state is State.PARTLY


@pytest.mark.parametrize(("length", "state"), [(128, State.HOLDS), (1_048_576, State.FALSE)])
def test_the_hour_hand_completes_a_turn_once_training_is_long(length: int, state: State) -> None:
    found = at("hour_hand", train_length=length)
    turns = [length / wavelength for wavelength in wavelengths(512, 1e4)]
    assert decides(found) == pytest.approx(float(turns[-1]))
    assert number(found, "pairs that complete") == sum(turn >= 1 for turn in turns)
    assert number(found, "pairs that never") == sum(turn < 1 for turn in turns)
    assert found.state is state


def cosines(dim: int, length: int, base: float = 1e4) -> list[float]:
    thetas = base ** (-np.arange(0, dim, 2) / dim)
    return [float(np.cos(k * thetas).mean()) for k in range(length)]


def test_neighbours_are_the_most_similar_unless_one_pair_comes_round() -> None:
    found = at("near")
    assert found.state is State.HOLDS
    assert decides(found) == pytest.approx(cosines(512, 2)[1])
    assert round(decides(found), 4) == 0.9731
    assert number(found, "largest further out, at distance 2") == pytest.approx(cosines(512, 3)[2])
    single = at("near", dim=2, heads=1)
    assert single.state is State.FALSE
    assert number(single, "largest further out, at distance 44") == pytest.approx(math.cos(44))


@pytest.mark.parametrize(("dim", "rise"), [(512, 44), (128, 12), (64, 6)])
def test_similarity_first_rises_where_the_formula_does(dim: int, rise: int) -> None:
    found = at("falls", dim=dim)
    curve = cosines(dim, 64)
    assert next(k for k in range(1, 64) if curve[k] > curve[k - 1]) == rise
    assert (found.state, decides(found)) == (State.FALSE, rise)
    assert number(found, "rise") == pytest.approx(curve[rise] - curve[rise - 1], rel=1e-6)
    assert at("falls", dim=dim, length=rise).state is State.HOLDS


def test_one_matrix_moves_every_row_and_none_moves_random_ones() -> None:
    found = at("linear_map")
    assert found.state is State.THEOREM
    assert decides(found) < 1e-14
    # A rotation of an unrelated row is as far from its target as two random vectors.
    assert control(found) == pytest.approx(math.sqrt(2), rel=0.05)
    low = at("linear_map", precision="bfloat16")
    assert low.state is State.PARTLY
    assert 1e-4 < decides(low) < 2**-8


def test_a_linear_key_map_looks_two_to_the_right() -> None:
    found = at("two_right")
    table = rows(66, 512)
    weights = two_ahead_weights(Setting()).numpy()
    # The definition: q_i = p_i and k_j a multiple of p_(j-2); only the order of logits counts here.
    logits = table[:64] @ np.vstack([rows_before(512, 2), table[:62]]).T
    assert (weights.argmax(1) == logits.argmax(1)).all()
    assert (weights.argmax(1)[:62] == np.arange(62) + 2).all()
    assert np.allclose(weights.sum(1), 1)
    assert found.state is State.THEOREM
    assert decides(found) == 62
    assert number(found, "mean weight") == pytest.approx(weights[range(62), range(2, 64)].mean())
    assert number(found, "mean weight") > 0.98
    missed = two_ahead_control(Setting()).numpy().argmax(1)[:62] == np.arange(62) + 2
    assert control(found) == pytest.approx(missed.mean())
    assert control(found) < 0.1
    assert at("two_right", length=2).state is State.UNDECIDED


def rows_before(dim: int, count: int) -> np.ndarray:
    """Rows of the positions -count .. -1."""
    angles = np.arange(-count, 0)[:, None] * 1e4 ** (-np.arange(0, dim, 2) / dim)
    table = np.empty((count, dim))
    table[:, 0::2], table[:, 1::2] = np.sin(angles), np.cos(angles)
    return table


def test_a_coarse_table_cannot_aim() -> None:
    found = at("two_right", dim=2, heads=1, precision="bfloat16")
    assert found.state in (State.PARTLY, State.FALSE)


def test_rope_s_logits_stay_and_added_sinusoids_do_not() -> None:
    found = at("offset_only")
    assert found.state is State.THEOREM
    assert decides(found) < 1e-13
    assert control(found) > 0.1
    low = at("offset_only", precision="bfloat16")
    assert low.state is State.PARTLY
    assert 1e-4 < decides(low) < 0.1


def test_the_logit_of_the_offset_is_a_complex_product() -> None:
    """Moved along by a training length, a logit is the same number by hand."""
    draw = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 1, 1, 64, 64, generator=draw, dtype=torch.float64)
    rope = SCHEMES["rope"](dim=64).build()
    moved = rope.scores(q, k, torch.arange(64) + 128, torch.arange(64) + 128)
    one = independent.turned(q[0, 0, 3:4], [131], 1e4, rotary=64, layout="interleaved")
    two = independent.turned(k[0, 0, 9:10], [137], 1e4, rotary=64, layout="interleaved")
    assert moved[0, 0, 3, 9].item() == pytest.approx((one @ two.T).item() / 8)
