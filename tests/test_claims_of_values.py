"""Claims of values and of what stands beside content, against numpy, mpmath and plain draws."""

import math
import statistics

import numpy as np
import pytest
import torch
from mpmath import mp, mpf

from posenc.claims import State
from tests import independent
from tests.claim_readings import at, control, decides, number, rows


def test_all_rows_differ_but_positions_in_bfloat16_do_not() -> None:
    assert at("unique").state is State.HOLDS
    exact = rows(4096, 512).astype(np.float32)
    assert decides(at("unique")) == len(np.unique(exact, axis=0)) == 4096
    low = at("unique", precision="bfloat16")
    assert low.state is State.PARTLY
    # Eight bits of a position: 256 below 256, then 128 for every doubling, and 4,096 itself by rounding.
    assert number(low, "different positions") == 256 + 4 * 128 + 1 == 769


def test_a_bfloat16_table_of_width_two_repeats_rows() -> None:
    found = at("unique", dim=2, heads=1, precision="bfloat16")
    table = torch.tensor([[math.sin(p), math.cos(p)] for p in range(4096)], dtype=torch.float64)
    pairs = {tuple(row) for row in table.to(torch.bfloat16).tolist()}
    assert found.state is State.FALSE
    assert decides(found) == len(pairs) == 1_014


def test_values_stay_in_bounds_and_gaussian_ones_do_not() -> None:
    for changes in ({}, {"base": 2.0}, {"precision": "float16"}):
        found = at("bounded", **changes)
        assert found.state is State.THEOREM
        assert decides(found) == 1  # the cosine of position 0
        assert control(found) > 3


@pytest.mark.parametrize(
    ("precision", "base", "lost"),
    [("float32", 1e4, 0), ("float32", 1e12, 0), ("bfloat16", 1e12, 0), ("float16", 1e4, 0),
     ("float16", 6e4, 0), ("float16", 7e4, 1), ("float16", 1e5, 9), ("float16", 1e8, 101)],
)  # fmt: skip
def test_powers_overflow_in_float16_alone(precision: str, base: float, lost: int) -> None:
    found = at("overflow", precision=precision, base=base)
    if precision == "float16":
        with np.errstate(over="ignore"):
            powers = [np.float16(float(mp.power(base, mpf(2 * m) / 512))) for m in range(256)]
        assert sum(np.isinf(powers)) == lost
    assert decides(found) == lost
    assert found.state is (State.HOLDS if lost else State.FALSE)
    assert number(found, "largest power") == pytest.approx(float(mp.power(base, mpf(510) / 512)))


def ladder_errors(dim: int, base: float) -> tuple[float, float]:
    """exp of log and power in NumPy's float32, against 40 digits, in eps."""
    steps = np.arange(0, dim, 2, dtype=np.float32)
    log = np.exp(steps * np.float32(-math.log(base) / dim), dtype=np.float32)
    power = np.power(np.float32(base), -(steps / np.float32(dim)), dtype=np.float32)
    exact = independent.inverse_frequencies(dim, base)
    eps = 2.0**-23
    return tuple(
        max(abs(float(mpf(float(x)) / theta - 1)) for x, theta in zip(way, exact, strict=True))
        / eps
        for way in (log, power)
    )


@pytest.mark.parametrize(("dim", "base"), [(512, 1e4), (1024, 1e4), (128, 5e5)])
def test_exp_of_log_is_the_less_accurate_ladder(dim: int, base: float) -> None:
    found = at("exp_of_log", dim=dim, base=base)
    by_log, by_power = ladder_errors(dim, base)
    # NumPy's and torch's exp may round differently by an ulp.
    assert decides(found) == pytest.approx(by_log, abs=1.0)
    assert number(found, "worst frequency by power") == pytest.approx(by_power, abs=0.6)
    assert decides(found) > 2 > 1 > number(found, "worst frequency by power")
    assert found.state is State.FALSE
    # Neither makes a measurably worse table.
    cosines = [number(found, f"worst cosine by {way}") for way in ("exp of log", "power")]
    assert max(cosines) < 2 * min(cosines)


def test_at_a_few_widths_exp_of_log_is_the_more_accurate() -> None:
    found = {
        (dim, base): at("exp_of_log", dim=dim, base=base, heads=1).state
        for dim in (4, 6, 8, 10, 12)
        for base in (2.0, 10.0, 100.0, 1e3, 1e4, 1e5)
    }
    assert State.HOLDS in found.values()
    assert sum(state is State.FALSE for state in found.values()) > len(found) / 2
    assert at("exp_of_log", dim=2, heads=1).state is State.UNDECIDED


def test_the_factor_sets_one_scale_under_two_starts_of_four() -> None:
    found = at("sqrt_scale")
    said = {"N(0, 1/d)": 1.41, "N(0, 1)": 32.0, "N(0, 0.02²)": 0.64, "Xavier": 0.23}
    for name, ratio in said.items():
        assert number(found, f"token over position, {name}") == pytest.approx(ratio, rel=0.02)
    assert (found.state, decides(found)) == (State.PARTLY, 2)
    assert control(found) == pytest.approx(1 / 16)


def test_the_scales_are_those_of_drawn_embeddings() -> None:
    draw = torch.Generator().manual_seed(1)
    norm = np.linalg.norm(rows(64, 512), axis=1).mean()
    drawn = {
        "N(0, 1/d)": torch.nn.init.normal_(torch.empty(500, 512), 0, 512**-0.5, generator=draw),
        "N(0, 1)": torch.nn.init.normal_(torch.empty(500, 512), generator=draw),
        "N(0, 0.02²)": torch.nn.init.normal_(torch.empty(500, 512), 0, 0.02, generator=draw),
        "Xavier": torch.nn.init.xavier_uniform_(torch.empty(37_000, 512), generator=draw)[:500],
    }
    for name, table in drawn.items():
        ratio = table.norm(dim=1).mean().item() * 512**0.5 / norm
        assert number(at("sqrt_scale"), f"token over position, {name}") == pytest.approx(
            ratio, rel=0.02
        )
        assert number(at("dominating"), f"position over token, {name}") == pytest.approx(
            512**0.5 / ratio, rel=0.02
        )


@pytest.mark.parametrize(
    ("dim", "state", "count"),
    [(64, State.FALSE, 1), (512, State.PARTLY, 2), (4096, State.PARTLY, 3)],
)
def test_the_scale_flips_with_the_width(dim: int, state: State, count: int) -> None:
    found = at("sqrt_scale", dim=dim)
    assert (found.state, decides(found)) == (state, count)


def test_position_dominates_by_its_norm() -> None:
    found = at("dominating")
    assert (found.state, decides(found)) == (State.PARTLY, pytest.approx(16.0))
    assert decides(at("dominating", dim=128)) == pytest.approx(8.0)
    assert number(found, "starts whose tokens are shorter") == 3
    assert number(found, "the same times sqrt(d)") == 2
    assert at("dominating", dim=2, heads=1).state is State.PARTLY


def test_position_is_compared_with_tokens_without_and_with_their_factor() -> None:
    """Norm 16 of position; tokens N(0, 1/d), N(0, 1), N(0, 0.02²) and Xavier's, by hand."""
    deviations = {
        "N(0, 1/d)": 512**-0.5, "N(0, 1)": 1.0, "N(0, 0.02²)": 0.02,
        "Xavier": (2 / (37_000 + 512)) ** 0.5,
    }  # fmt: skip
    found = at("dominating")
    for name, deviation in deviations.items():
        plain = 16 / (deviation * 512**0.5)
        assert number(found, f"position over token, {name}") == pytest.approx(plain, rel=1e-3)
        scaled = number(found, f"position over token times sqrt(d), {name}")
        assert scaled == pytest.approx(plain / 512**0.5, rel=1e-3)
    assert "without the factor sqrt(d)" in found.sentence
    assert (
        "With that factor (Vaswani et al., section 3.4) it is 0.707 (N(0, 1/d))" in found.sentence
    )


def lost_at(dim: int, words: int, seed: int) -> float:
    """Content over position at which fewer than three pairs in four decode in order, by loops."""
    draw = torch.Generator().manual_seed(seed)
    book = torch.randn(words, dim, generator=draw, dtype=torch.float64)
    content = book[torch.randint(words, (64,), generator=draw)].numpy()
    table = rows(64, dim)
    content *= np.linalg.norm(table, axis=1).mean() / np.linalg.norm(content, axis=1).mean()
    for step in range(80):
        strength = 2 ** (step / 2 - 4)
        mixed = (strength * content + table).astype(np.float32).astype(np.float64)
        decoded = [min(range(64), key=lambda j: np.sum((s - table[j]) ** 2)) for s in mixed]
        order = [
            0.5 * (1 + np.sign(decoded[b] - decoded[a]))
            for a in range(64)
            for b in range(a + 1, 64)
        ]
        if np.mean(order) < 0.75:
            return strength
    raise AssertionError("order is never lost")


def test_strong_content_overwrites_position_unless_it_is_concatenated() -> None:
    found = at("overwritten")
    drawn = [lost_at(512, 64, seed) for seed in range(9)]
    assert decides(found) == pytest.approx(statistics.median(drawn))
    assert number(found, "the least of the draws") == pytest.approx(min(drawn))
    assert number(found, "the most of the draws") == pytest.approx(max(drawn))
    assert min(drawn) < max(drawn)
    assert found.sentence.startswith("Over 9 draws of 64 words, added content of 8 to 11.3 times")
    assert found.state is State.PARTLY
    assert number(found, "pairs in order there") < 0.75
    assert number(found, "pairs in order for a reader that leaves out") > 0.99
    assert control(found) == 1


@pytest.mark.parametrize("dim", [8, 64])
def test_position_is_lost_for_good_where_the_words_leave_no_room(dim: int) -> None:
    found = at("overwritten", dim=dim, heads=1)
    assert found.state is State.HOLDS
    assert decides(found) == pytest.approx(
        statistics.median(lost_at(dim, 64, seed) for seed in range(9))
    )
    assert number(found, "pairs in order for a reader that leaves out") == 0.5
    assert control(found) == 1


def test_weak_content_that_overwrites_is_not_called_strong() -> None:
    found = at("overwritten", dim=2, heads=1, length=2, train_length=1)
    assert {lost_at(2, 64, seed) for seed in range(9)} == {0.0625}  # the first that is tried
    assert " added content of 0.0625 or less times position's norm leaves " in found.sentence
    assert found.sentence.endswith(
        " In 9 of 9 draws that is weak content, shorter than position: it need not be strong."
    )
    assert [one.unit for one in found.numbers[:3]] == ["times or less"] * 3
    drawn = [lost_at(4, 64, seed) for seed in range(9)]
    found = at("overwritten", dim=4, heads=1)
    assert max(drawn) < 1 < 16 * min(drawn)
    assert " added content of 0.25 to 0.5 times " in found.sentence
    assert " In 9 of 9 draws that is weak content" in found.sentence
    assert [one.unit for one in found.numbers[:3]] == ["times"] * 3
    assert "weak" not in at("overwritten").sentence


def test_content_that_stays_weak_overwrites_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("posenc.claims.scale.STRENGTHS", 1)  # a sixteenth of position's norm
    found = at("overwritten")
    assert (found.state, decides(found)) == (State.FALSE, 0)
    assert found.sentence.startswith("In 9 of 9 draws order is kept to content 0.0625 times")


def test_the_draws_follow_the_seed() -> None:
    assert at("overwritten", seed=3) != at("overwritten")
    assert at("overwritten", seed=3) == at("overwritten", seed=3)
    found = at("overwritten", dim=64, seed=2**31 - 1)  # later seeds than any control offers
    assert found.state is State.HOLDS
