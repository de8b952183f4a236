"""Claims about sinusoids and RoPE, against NumPy and 40-digit arithmetic."""

import math
import statistics

import numpy as np
import pytest
import torch
from mpmath import mp, mpf

from posenc.claims import Status
from posenc.claims import tables as wavelengths
from posenc.claims.distances import two_ahead_weights
from posenc.schemes.sizes import Sizes
from tests.library import independent, small_tables
from tests.library.claim_checks import control, deciding, number, verdict

pytestmark = pytest.mark.usefixtures("no_shape_checks")


def test_frequencies_fall_along_features_unless_layout_is_halves() -> None:
    found = verdict("fast_to_slow")
    thetas = independent.inverse_frequencies(512, 1e4)
    assert (found.status, deciding(found)) == (Status.HOLDS, 0)
    assert number(found, "first over last") == pytest.approx(float(thetas[0] / thetas[-1]))
    halves = verdict("fast_to_slow", own=(("sinusoidal.layout", "half"),))
    assert (halves.status, deciding(halves)) == (Status.FALSE, 1)
    assert "feature 256" in halves.sentence
    assert verdict("fast_to_slow", dim=2, heads=1).status is Status.UNDECIDED


def test_two_features_share_each_frequency(monkeypatch: pytest.MonkeyPatch) -> None:
    # Two columns have one frequency where their squares sum to one at every position.
    table = small_tables.table(50, 8).numpy()
    for a in range(8):
        partners = [np.allclose(table[:, a] ** 2 + table[:, b] ** 2, 1) for b in range(8)]
        assert sum(partners) == 1
    found = verdict("own_frequency", dim=8, heads=1)
    assert (found.status, deciding(found), control(found)) == (Status.FALSE, 4, 8)
    monkeypatch.setattr(wavelengths, "feature_frequencies", lambda _: torch.linspace(1, 2, 512))
    assert verdict("own_frequency").status is Status.HOLDS


@pytest.mark.parametrize(
    ("dim", "base", "positions", "state"),
    [(512, 1e4, 60_611, Status.FALSE), (4096, 1e4, 62_550, Status.HOLDS),
     (512, 500.0, 3_066, Status.FALSE)],
)  # fmt: skip
def test_slowest_wavelength_follows_the_formula(
    dim: int, base: float, positions: int, state: Status
) -> None:
    found = verdict("slowest", dim=dim, base=base)
    assert round(deciding(found)) == positions
    slowest = 2 * mp.pi / independent.inverse_frequencies(dim, base)[-1]
    assert deciding(found) == pytest.approx(float(slowest))
    assert number(found, "2 pi times the base") == pytest.approx(2 * math.pi * base)
    assert found.status is state
    assert f"{100 * (2 * math.pi * base / deciding(found) - 1):.3g}% longer" in found.sentence


def test_pairs_turn_within_ten_thousand_positions() -> None:
    found = verdict("nearly_linear")
    angles = [10_000 * theta for theta in independent.inverse_frequencies(512, 1e4)]
    assert deciding(found) == sum(angle < 1 for angle in angles) == 0
    assert (
        number(found, "pairs that stay under a quarter") == sum(a < mp.pi / 2 for a in angles) == 12
    )
    assert number(found, "pairs that complete a full") == sum(a >= 2 * mp.pi for a in angles) == 205
    assert found.status is Status.FALSE
    assert verdict("nearly_linear", base=1e8).status is Status.PARTLY


def test_exactly_one_turn_counts_as_full() -> None:
    base = (10_000 / (2 * math.pi)) ** 2  # of width 4: its second pair makes one turn in 10,000
    exact = verdict("nearly_linear", dim=4, heads=1, base=base)
    assert number(exact, "pairs that complete a full") == 2
    longer = verdict("nearly_linear", dim=4, heads=1, base=base * (1 + 1e-9))
    assert number(longer, "pairs that complete a full") == 1


@pytest.mark.parametrize(("length", "state"), [(128, Status.HOLDS), (1_048_576, Status.FALSE)])
def test_slowest_pair_completes_a_turn_in_long_training(length: int, state: Status) -> None:
    found = verdict("hour_hand", train_length=length)
    turns = [length * theta / (2 * mp.pi) for theta in independent.inverse_frequencies(512, 1e4)]
    assert deciding(found) == pytest.approx(float(turns[-1]))
    assert number(found, "pairs that complete") == sum(turn >= 1 for turn in turns)
    assert number(found, "pairs that never") == sum(turn < 1 for turn in turns)
    assert found.status is state


def cosines(dim: int, length: int) -> list[float]:
    thetas = 1e4 ** (-np.arange(0, dim, 2) / dim)
    return [float(np.cos(k * thetas).mean()) for k in range(length)]


def test_neighbours_are_most_similar_unless_a_single_pair_repeats() -> None:
    found = verdict("near")
    assert found.status is Status.HOLDS
    assert deciding(found) == pytest.approx(cosines(512, 2)[1])
    assert round(deciding(found), 4) == 0.9731
    assert number(found, "largest further out, at distance 2") == pytest.approx(cosines(512, 3)[2])
    single = verdict("near", dim=2, heads=1)
    assert single.status is Status.FALSE
    assert number(single, "largest further out, at distance 44") == pytest.approx(math.cos(44))


def test_similarity_first_rises_where_the_formula_does() -> None:
    found = verdict("falls", dim=64)
    curve = cosines(64, 64)
    rise = next(k for k in range(1, 64) if curve[k] > curve[k - 1])
    assert (found.status, deciding(found), rise) == (Status.FALSE, rise, 6)
    assert number(found, "rise") == pytest.approx(curve[rise] - curve[rise - 1], rel=1e-6)
    assert verdict("falls", dim=64, length=rise).status is Status.HOLDS


def test_one_matrix_moves_sinusoidal_rows_and_no_random_rows() -> None:
    found = verdict("linear_map")
    assert found.status is Status.THEOREM
    assert deciding(found) < 1e-14
    # A rotation of an unrelated row is as far from its target as two random vectors are.
    assert control(found) == pytest.approx(math.sqrt(2), rel=0.05)
    rounded = verdict("linear_map", precision="bfloat16")
    assert rounded.status is Status.PARTLY
    assert 1e-4 < deciding(rounded) < 2**-8


def test_rope_logits_depend_on_offset_and_logits_of_added_rows_do_not() -> None:
    found = verdict("offset_only")
    assert found.status is Status.THEOREM
    assert deciding(found) < 1e-13
    assert control(found) > 0.1
    rounded = verdict("offset_only", precision="bfloat16")
    assert rounded.status is Status.PARTLY
    assert 1e-4 < deciding(rounded) < 0.1


def test_rows_are_unique_except_in_low_precision() -> None:
    found = verdict("unique")
    table = small_tables.table(4096, 512).numpy().astype(np.float32)
    assert found.status is Status.HOLDS
    assert deciding(found) == len(np.unique(table, axis=0)) == 4096
    rounded = verdict("unique", precision="bfloat16")
    assert rounded.status is Status.PARTLY
    # Eight bits of a position: 256 below 256, then 128 for every doubling, and 4,096 by rounding.
    assert number(rounded, "different positions") == 256 + 4 * 128 + 1 == 769
    narrow = verdict("unique", dim=2, heads=1, precision="bfloat16")
    entries = torch.tensor([[math.sin(p), math.cos(p)] for p in range(4096)], dtype=torch.float64)
    pairs = {tuple(row) for row in entries.to(torch.bfloat16).tolist()}
    assert (narrow.status, deciding(narrow)) == (Status.FALSE, len(pairs))
    assert len(pairs) == 1_014


@pytest.mark.parametrize(
    ("precision", "base", "overflows"),
    [("bfloat16", 1e12, 0), ("float16", 6e4, 0), ("float16", 7e4, 1), ("float16", 1e8, 101)],
)
def test_powers_of_the_base_overflow_in_float16_only(
    precision: str, base: float, overflows: int
) -> None:
    found = verdict("overflow", precision=precision, base=base)
    powers = [float(mp.power(base, mpf(2 * m) / 512)) for m in range(256)]
    if precision == "float16":
        with np.errstate(over="ignore"):
            assert sum(np.isinf(np.float16(power)) for power in powers) == overflows
    assert deciding(found) == overflows
    assert found.status is (Status.HOLDS if overflows else Status.FALSE)
    assert number(found, "largest power") == pytest.approx(powers[-1])


def worst_error(frequencies: np.ndarray, dim: int, base: float) -> float:
    exact = independent.inverse_frequencies(dim, base)
    pairs = zip(frequencies.tolist(), exact, strict=True)
    return max(abs(float(mpf(value) / theta - 1)) for value, theta in pairs)


@pytest.mark.parametrize(("dim", "base"), [(512, 1e4), (128, 5e5)])
def test_exp_of_log_is_the_less_accurate_way(dim: int, base: float) -> None:
    found = verdict("exp_of_log", dim=dim, base=base)
    steps = np.arange(0, dim, 2, dtype=np.float32)
    by_log = np.exp(steps * np.float32(-math.log(base) / dim), dtype=np.float32)
    by_power = np.power(np.float32(base), -(steps / np.float32(dim)), dtype=np.float32)
    log_error, power_error = (
        number(found, f"largest error of a frequency by {way}") for way in ("exp of log", "power")
    )
    eps = 2.0**-23  # of float32
    # NumPy's and torch's exponentials and powers may differ by the last bit.
    assert log_error == pytest.approx(worst_error(by_log, dim, base), abs=eps)
    assert power_error == pytest.approx(worst_error(by_power, dim, base), abs=0.6 * eps)
    assert log_error > 2 * eps > eps > power_error
    assert deciding(found) == pytest.approx(log_error / power_error)
    assert found.status is Status.FALSE
    # Neither way makes a measurably worse table.
    tables = [number(found, f"largest cosine error by {way}") for way in ("exp of log", "power")]
    assert max(tables) < 2 * min(tables)


def strength_that_loses_order(dim: int, seed: int) -> float:
    """Content over position at which fewer than three pairs in four decode in order."""
    draw = torch.Generator().manual_seed(seed)
    book = torch.randn(64, dim, generator=draw, dtype=torch.float64)
    content = book[torch.randint(64, (64,), generator=draw)].numpy()
    table = small_tables.table(64, dim).numpy()
    content *= np.linalg.norm(table, axis=1).mean() / np.linalg.norm(content, axis=1).mean()
    first, second = np.triu_indices(64, 1)
    for step in range(80):
        strength: float = 2 ** (step / 2 - 4)
        mixed = (strength * content + table).astype(np.float32).astype(np.float64)
        decoded = np.array([np.sum((row - table) ** 2, axis=1).argmin() for row in mixed])
        if np.mean(0.5 * (1 + np.sign(decoded[second] - decoded[first]))) < 0.75:
            return strength
    raise AssertionError("order is never lost")


def test_strong_added_content_overwrites_position_and_concatenated_content_does_not() -> None:
    found = verdict("overwritten", dim=128)
    strengths = [strength_that_loses_order(128, seed) for seed in range(9)]
    assert deciding(found) == pytest.approx(statistics.median(strengths))
    assert number(found, "the least of the draws") == pytest.approx(min(strengths))
    assert number(found, "the most of the draws") == pytest.approx(max(strengths))
    assert 1 < min(strengths) < max(strengths)
    assert "weak" not in found.sentence
    assert found.status is Status.PARTLY
    assert number(found, "pairs in order there") < 0.75
    assert number(found, "pairs in order for a decoder that removes") > 0.99
    assert control(found) == 1
    assert found == verdict("overwritten", dim=128) != verdict("overwritten", dim=128, seed=3)


def test_weak_content_that_overwrites_is_called_weak() -> None:
    # At width 2 order is lost at the first strength tried, which is therefore a bound.
    found = verdict("overwritten", dim=2, heads=1, length=2, train_length=1)
    assert deciding(found) == strength_that_loses_order(2, 0) == 0.0625
    assert "In 9 of 9 draws that is weak content" in found.sentence
    assert {one.unit for one in found.numbers[:3]} == {"times or less"}


def test_content_that_stays_weak_overwrites_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("posenc.claims.scale.STRENGTHS", 1)  # a sixteenth of position's norm
    assert min(strength_that_loses_order(128, seed) for seed in range(9)) > 1 / 16
    found = verdict("overwritten", dim=128)
    assert (found.status, deciding(found)) == (Status.FALSE, 0)
    assert found.sentence.startswith("In 9 of 9 draws order is kept to content 0.0625 times")


def test_linear_key_map_attends_two_to_the_right() -> None:
    found = verdict("two_right")
    weights, ahead = two_ahead_weights(Sizes()).numpy(), np.arange(62) + 2
    # By definition q_i = p_i and k_j is a multiple of p_(j-2): the order of logits decides.
    logits = small_tables.table(64, 512).numpy() @ small_tables.table(64, 512, start=-2).numpy().T
    assert (weights.argmax(1) == logits.argmax(1)).all()
    assert (weights.argmax(1)[:62] == ahead).all()
    assert (found.status, deciding(found)) == (Status.THEOREM, 62)
    assert number(found, "mean weight") == pytest.approx(weights[range(62), ahead].mean())
    assert control(found) < 0.2
    assert verdict("two_right", length=2).status is Status.UNDECIDED


@pytest.mark.parametrize(
    ("start", "deviation"), [("N(0, 1/d)", 512**-0.5), ("N(0, 1)", 1.0), ("N(0, 0.02²)", 0.02)]
)
def test_norms_are_compared_with_those_of_random_tokens(start: str, deviation: float) -> None:
    plain = 16 / (deviation * 512**0.5)  # sinusoidal rows have the norm sqrt(d / 2) = 16
    scale, dominating = verdict("sqrt_scale"), verdict("dominating")
    found = number(scale, f"token over position, {start}")
    assert found == pytest.approx(512**0.5 / plain, rel=0.02)
    found = number(dominating, f"position over token, {start}")
    assert found == pytest.approx(plain, rel=0.02)
    # Tokens are shorter than position for three of four starts, with the factor for two.
    assert (dominating.status, deciding(dominating)) == (Status.PARTLY, 3)
    assert number(dominating, "norm of a position vector") == pytest.approx(16.0)
    assert number(dominating, "the same times sqrt(d)") == 2
