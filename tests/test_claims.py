"""Every claim's number once more by other means, its flip or its control, and laws over all claims."""

import functools
import itertools
import math
import re
import statistics
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from mpmath import mp, mpf

from posenc import SCHEMES, Setting
from posenc.claims import CLAIMS, THEMES, State, Verdict, biases, figure, training
from posenc.claims.claim import Claim
from posenc.claims.offsets import two_ahead_control, two_ahead_weights
from posenc.interop.sources import RESULTS
from posenc.lab import Run, Score, Store
from posenc.words import counted
from tests import independent
from tests.small_runs import small

HOSTILE = {
    "defaults": {},
    "least": {"dim": 2, "heads": 1, "length": 2, "train_length": 1, "base": 2.0},
    "least, largest base": {"dim": 2, "heads": 1, "length": 2, "base": 1e12},
    "widest": {"dim": 4096, "heads": 64, "length": 256, "base": 1e8},
    "longest": {"dim": 512, "length": 2048, "train_length": 1_048_576, "base": 1e12},
    "random, bfloat16": {"learned_source": "random", "precision": "bfloat16", "train_length": 1},
    "random, float16": {"learned_source": "random", "precision": "float16", "base": 1e8},
    "odd": {"dim": 72, "heads": 12, "length": 3, "train_length": 5, "base": 3.7, "seed": 2**31 - 1},
    "equal width": {"equal_width": True, "length": 5},
    "halves": {"own": (("rope.layout", "half"), ("sinusoidal.layout", "half"))},
    "partial": {"own": (("rope.partial_rotary_factor", 0.25),)},
}


@functools.cache
def judged(name: str, setting: Setting) -> Verdict:
    """A verdict, found once for all laws; those that read other runs are found anew."""
    return CLAIMS[name].test(setting)


def at(name: str, **changes: Any) -> Verdict:
    """The verdict of one claim at the defaults but for what is given."""
    return CLAIMS[name].test(Setting(**changes))


def number(found: Verdict, name: str) -> float:
    """The one number whose name begins so."""
    (value,) = [one.value for one in found.numbers if one.name.startswith(name)]
    assert value is not None
    return value


def decides(found: Verdict) -> float:
    assert found.decides is not None
    assert found.decides.value is not None
    return found.decides.value


def control(found: Verdict) -> float:
    assert found.control is not None
    assert found.control.value is not None
    return found.control.value


def wavelengths(dim: int, base: float) -> list[mpf]:
    return [2 * mp.pi / theta for theta in independent.inverse_frequencies(dim, base)]


def rows(count: int, dim: int, base: float = 10000.0) -> np.ndarray:
    """The sinusoidal table by NumPy's float64, right to 1e-9 at few positions."""
    angles = np.arange(count)[:, None] * base ** (-np.arange(0, dim, 2) / dim)
    table = np.empty((count, dim))
    table[:, 0::2], table[:, 1::2] = np.sin(angles), np.cos(angles)
    return table


# Laws over the registry ---------------------------------------------------------------------------


def test_the_registry_names_every_claim_once_and_the_issue_s_list_is_whole() -> None:
    listed = {
        "unique", "bounded", "near", "falls", "linear_map", "fast_to_slow", "slowest",
        "nearly_linear", "exp_of_log", "sqrt_scale", "dominating", "overwritten", "own_frequency",
        "hour_hand", "one_hot", "overflow", "two_right", "alike", "permutation", "t5_shaw", "ends",
        "sinusoids_extrapolate", "rope_extrapolates", "geometric", "offset_only", "blind",
    }  # fmt: skip
    assert listed <= set(CLAIMS)
    assert all(name == claim.id for name, claim in CLAIMS.items())
    assert len({claim.sentence for claim in CLAIMS.values()}) == len(CLAIMS)
    assert len({claim.test for claim in CLAIMS.values()}) == len(CLAIMS)


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
def test_every_claim_is_a_sentence_with_a_source_a_link_and_a_documented_test(claim: Claim) -> None:
    assert re.fullmatch(r"[A-Zn].*\.", claim.sentence)
    assert claim.source
    assert claim.link.startswith("https://")
    assert claim.theme in THEMES
    assert claim.test.__doc__
    rules = {*Setting.__dataclass_fields__, "sinusoidal.layout", "rope.layout"}
    assert set(claim.uses) <= rules | {"rope.partial_rotary_factor"}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
def test_every_claim_is_decided_at_any_legal_setting(claim: Claim, name: str) -> None:
    found = judged(claim.id, Setting(**HOSTILE[name]))
    assert isinstance(found.state, State)
    assert found.sentence.endswith(".")
    assert "nan" not in found.sentence
    assert "inf" not in re.findall(r"\w+", found.sentence)
    for one in (*found.numbers, *([found.control] if found.control else [])):
        assert one.name
        assert one.value is None or math.isfinite(one.value), one
    undecided = found.state in (State.NOT_MEASURED, State.UNDECIDED)
    assert bool(found.numbers) != undecided
    if found.state is State.THEOREM:
        assert found.control is not None, "a theorem without a control"


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
def test_a_verdict_depends_on_what_the_claim_says_it_uses_and_on_nothing_else(
    claim: Claim, name: str
) -> None:
    setting = Setting(**HOSTILE[name])
    assert judged(claim.id, claim.relevant(setting)) == judged(claim.id, setting)


def test_equal_relevant_settings_are_equal_keys() -> None:
    one, two = (CLAIMS["slowest"].relevant(Setting(length=n, seed=n)) for n in (8, 16))
    assert one == two
    assert hash(one) == hash(two)
    assert CLAIMS["falls"].relevant(Setting(length=8)) != CLAIMS["falls"].relevant(Setting())


def test_what_refuses_a_setting_is_a_named_error() -> None:
    with pytest.raises(ValueError, match="not held by this server"):
        at("one_hot", learned_source="table-0123456789ab")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (60611.4, "60,611"), (62800.0, "62,800"), (0.97312, "0.973"), (-3.0, "-3"),
     (4.6e-5, "4.6 × 10⁻⁵"), (3.4028e38, "3.4 × 10³⁸"), (math.inf, "inf"), (0.001, "0.001")],
)  # fmt: skip
def test_figures_are_written_for_people(value: float, text: str) -> None:
    assert figure(value) == text


def test_one_of_a_kind_has_no_plural() -> None:
    assert (counted(1, "row"), counted(0, "row"), counted(1_000, "row")) == (
        "1 row", "0 rows", "1,000 rows"
    )  # fmt: skip


# Values -------------------------------------------------------------------------------------------


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


# Beside content -----------------------------------------------------------------------------------


def test_the_factor_sets_one_scale_under_two_starts_of_four() -> None:
    found = at("sqrt_scale")
    said = {"N(0, 1/d)": 1.41, "N(0, 1)": 32.0, "N(0, 0.02^2)": 0.64, "Xavier": 0.23}
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
        "N(0, 0.02^2)": torch.nn.init.normal_(torch.empty(500, 512), 0, 0.02, generator=draw),
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
    assert (found.state, decides(found)) == (State.FALSE, pytest.approx(16.0))
    assert decides(at("dominating", dim=128)) == pytest.approx(8.0)
    assert number(found, "starts whose tokens are shorter") == 3
    assert at("dominating", dim=2, heads=1).state is State.PARTLY


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


# Wavelengths --------------------------------------------------------------------------------------


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


# Distance -----------------------------------------------------------------------------------------


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


# Order --------------------------------------------------------------------------------------------


def plain_attention(x: np.ndarray, causal: bool) -> np.ndarray:
    """One head, queries and values the tokens, keys the tokens with features moved on by one."""
    out = np.empty_like(x)
    for i in range(len(x)):
        seen = range(i + 1) if causal else range(len(x))
        logits = [x[i] @ np.roll(x[j], 1) / math.sqrt(x.shape[1]) for j in seen]
        weights = np.exp(np.array(logits) - max(logits))
        out[i] = sum(w * x[j] for w, j in zip(weights / weights.sum(), seen, strict=True))
    return out


def change(after: np.ndarray, before: np.ndarray) -> float:
    return float(np.abs(after - before).max() / np.abs(before).max())


def content(heads: int = 1, width: int = 16, seed: int = 0) -> np.ndarray:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(1, heads, 8, width, generator=draw, dtype=torch.float64)[0, 0].numpy()


def test_attention_is_equivariant_not_invariant() -> None:
    found = at("permutation", dim=16, heads=1)
    x = content()
    out, flipped = plain_attention(x, False), plain_attention(x[::-1], False)
    assert decides(found) == pytest.approx(change(flipped, out))
    assert found.state is State.FALSE
    assert decides(found) > 0.1
    assert number(found, "change once put back") < 1e-14
    assert control(found) < 1e-14


def test_a_causal_mask_shows_order_from_the_second_layer_on() -> None:
    found = at("blind", dim=16, heads=1)
    x = content()
    other = np.concatenate([x[:-1][::-1], x[-1:]])
    last = {}
    for causal in (False, True):
        ends = []
        for tokens in (x, other):
            one = tokens + plain_attention(tokens, causal)
            ends.append((one[-1], (one + plain_attention(one, causal))[-1]))
        last[causal] = [change(ends[1][n], ends[0][n]) for n in (0, 1)]
    assert decides(found) == pytest.approx(last[True][1])
    assert decides(found) > 0.01
    assert max(number(found, "change in one layer"), last[True][0]) < 1e-13
    assert max(number(found, "change in two layers without"), last[False][1]) < 1e-13
    assert found.state is State.PARTLY
    assert control(found) > 0.01


# Learned tables -----------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["trained", "random"])
def test_an_embedding_is_a_one_hot_product(source: str) -> None:
    found = at("one_hot", learned_source=source)
    table = Setting(learned_source=source).config("learned").build().weight.detach()
    linear = torch.nn.Linear(len(table), table.shape[1], bias=False)
    linear.weight.data = table.T.clone()
    one_hot = torch.nn.functional.one_hot(torch.arange(len(table))).float()
    assert torch.equal(
        linear(one_hot), torch.nn.functional.embedding(torch.arange(len(table)), table)
    )
    assert (found.state, decides(found)) == (State.THEOREM, 0)
    assert 0.01 < control(found) <= len(table) ** -0.5


def test_an_infinite_entry_tells_the_two_apart(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    table = torch.randn(16, 8, generator=torch.Generator().manual_seed(0))
    table[3, 3] = math.inf
    save_file({"position_embeddings.weight": table}, tmp_path / "odd.safetensors")
    source = str(tmp_path / "odd.safetensors")
    config = SCHEMES["learned"](source=source)
    found = at("one_hot")

    class Odd(Setting):
        def config(self, kind: str) -> Any:
            return config

    setting = Odd()
    assert CLAIMS["one_hot"].test(setting).state is State.FALSE
    assert found.state is State.THEOREM


@pytest.mark.parametrize(
    ("changes", "expected"),
    [({}, 128), ({"learned_source": "random", "train_length": 77}, 77),
     ({"learned_source": "random", "train_length": 1}, 1)],
)  # fmt: skip
def test_a_learned_table_ends_and_a_formula_does_not(
    changes: dict[str, Any], expected: int
) -> None:
    found = at("ends", **changes)
    assert (found.state, decides(found)) == (State.THEOREM, expected)
    assert f"position {expected:,} is an error" in found.sentence
    assert control(found) == pytest.approx(16.0)


# Biases -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("heads", "state", "first"),
    [(8, State.HOLDS, None), (16, State.HOLDS, None), (12, State.FALSE, 9)],
)
def test_slopes_are_geometric_for_powers_of_two(
    heads: int, state: State, first: int | None
) -> None:
    found = at("geometric", dim=1536, heads=heads)
    slopes = independent.alibi_slopes(heads)
    ratios = [after / before for before, after in itertools.pairwise(slopes)]
    assert decides(found) == pytest.approx(max(ratios) / min(ratios))
    assert found.state is state
    assert [one.value for one in found.numbers][2] == first


def test_two_slopes_decide_nothing() -> None:
    assert at("geometric", heads=2).state is State.UNDECIDED


def test_t5_s_buckets_start_where_its_code_starts_them() -> None:
    before, after = (
        [biases.t5_bucket(-n) for n in range(200)],
        [biases.t5_bucket(n) for n in range(200)],
    )
    starts = {bucket: before.index(bucket) for bucket in dict.fromkeys(before)}
    # Raffel et al.'s public code, per side.
    said = {9: 12, 10: 16, 11: 23, 12: 32, 13: 46, 14: 64, 15: 91}
    assert starts == {n: n for n in range(9)} | said
    assert after[1:] == [bucket + 16 for bucket in before[1:]]  # bucket 16 is never used


@pytest.mark.parametrize("offset", [*range(-300, 300, 7), 8, 16, 32, 64, 128, -128])
def test_t5_s_buckets_are_those_of_a_forty_digit_logarithm(offset: int) -> None:
    n, start = abs(offset), 16 if offset > 0 else 0
    if n < 8:
        expected = start + n
    else:
        steps = mp.log(mpf(n) / 8) / mp.log(16) * 8
        expected = start + min(15, 8 + int(mp.floor(steps + mpf(10) ** -30)))
    assert biases.t5_bucket(offset) == expected


def test_no_clipping_of_shaw_s_gives_t5_s_buckets() -> None:
    found = at("t5_shaw")
    assert (found.state, decides(found)) == (State.FALSE, 0)
    offsets = range(-255, 256)

    def same(classes: list[int]) -> set[tuple[int, int]]:
        return {(a, b) for a in range(511) for b in range(a) if classes[a] == classes[b]}

    t5 = same([biases.t5_bucket(o) for o in offsets])
    for furthest in range(1, 256, 5):
        assert same([max(-furthest, min(furthest, o)) for o in offsets]) != t5
    assert control(found) == 16
    assert number(found, "buckets in use") == len({biases.t5_bucket(o) for o in offsets}) == 31
    near = at("t5_shaw", length=8)
    assert near.state is State.PARTLY  # every offset its own bucket, still a number and no vector


# Trained models -----------------------------------------------------------------------------------


def losses(kind: str, length: int) -> dict[int, list[float]]:
    """Loss by context of the shipped runs as trained, straight from the store."""
    found: dict[int, list[float]] = {}
    for run in Store(RESULTS):
        one = run.specification
        if (one.task, one.train_length, one.scheme.kind) != ("language", length, kind):
            continue
        for score in run.scores:
            if (score.measure, score.variant) == ("context", "as trained"):
                found.setdefault(score.x, []).append(score.value)
    return found


@pytest.mark.parametrize("length", [64, 128])
def test_learned_and_sinusoidal_are_compared_by_the_runs_that_ship(length: int) -> None:
    found = at("alike", train_length=length)
    learned, waves = (losses(kind, length)[length] for kind in ("learned", "sinusoidal"))
    assert decides(found) == pytest.approx(np.mean(learned) - np.mean(waves))
    apart = min(learned) > max(waves) or min(waves) > max(learned)
    assert found.state is (State.FALSE if apart else State.PARTLY)
    assert abs(decides(found)) > math.log(1.01)
    assert "(3 layers, width 128, 1,200 training steps)" in found.sentence
    assert "where less than 1 % counts as alike" in found.sentence


@pytest.mark.parametrize("length", [64, 128])
@pytest.mark.parametrize(
    ("name", "kind"),
    [("sinusoids_extrapolate", "sinusoidal"), ("rope_extrapolates", "rope"),
     ("alibi_extrapolates", "alibi")],
)  # fmt: skip
def test_extrapolation_is_read_from_the_runs_that_ship(name: str, kind: str, length: int) -> None:
    found = at(name, train_length=length)
    by_context = {x: float(np.mean(values)) for x, values in losses(kind, length).items()}
    times = {x: math.exp(value - by_context[length]) for x, value in by_context.items()}
    assert decides(found) == pytest.approx(times[16 * length])
    elbow = next((x for x in sorted(times) if x > length and times[x] > 1.1), None)
    assert [one.value for one in found.numbers][1] == elbow
    expected = State.FALSE if elbow else State.PARTLY if times[16 * length] > 1.01 else State.HOLDS
    assert found.state is expected
    assert (kind == "alibi") == (elbow is None)
    assert "(3 layers, width 128, 1,200 training steps)" in found.sentence
    moved = times[16 * length] - 1
    rule = (
        "hurt (perplexity higher by more"
        if moved > 0.01
        else "was ignored (perplexity moved by no more"
    )
    assert f"longer context {rule} than 1 %)." in found.sentence


@pytest.mark.parametrize(
    "changes", [{"train_length": 100}, {"base": 500.0}, {"train_length": 1_048_576}]
)
def test_where_no_run_is_nothing_is_said(changes: dict[str, Any]) -> None:
    for name in ("alike", "sinusoids_extrapolate", "rope_extrapolates"):
        found = at(name, **changes)
        assert (found.state, found.numbers) == (State.NOT_MEASURED, ())
        assert found.sentence.startswith("No shipped run of ")
    own = at("rope_extrapolates", own=(("rope.partial_rotary_factor", 0.5),))
    assert own.state is State.NOT_MEASURED
    assert at("rope_extrapolates", own=(("rope.layout", "half"),)).state is State.FALSE


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setattr(training, "STORE", str(tmp_path))
    training._headings.cache_clear()
    yield Store(tmp_path)
    training._headings.cache_clear()


def put(store: Store, kind: str, seeds: list[dict[int, float]], **others: Any) -> None:
    """Runs of one scheme, one per seed, with a loss for each context."""
    for seed, by_context in enumerate(seeds):
        specification = replace(small(kind, train_length=64, seeds=2), seed=seed, **others)
        scores = [Score("context", "as trained", x, value, 1) for x, value in by_context.items()]
        store.add(Run(specification, tuple(scores), (2.0,), None, 1.0), {})


@pytest.mark.parametrize(
    ("learned", "state"),
    [([1.0, 1.004], State.HOLDS), ([0.9, 1.3], State.PARTLY), ([1.3, 1.4], State.FALSE)],
)
def test_other_runs_give_another_verdict(store: Store, learned: list[float], state: State) -> None:
    put(store, "learned", [{64: loss} for loss in learned])
    put(store, "sinusoidal", [{64: 1.0}, {64: 1.001}])
    assert at("alike", train_length=64).state is state


@pytest.mark.parametrize(
    ("far", "state"), [(0.9, State.HOLDS), (1.005, State.HOLDS), (1.05, State.PARTLY),
                       (1.2, State.FALSE)],
)  # fmt: skip
def test_rope_would_extrapolate_if_its_runs_did(store: Store, far: float, state: State) -> None:
    put(store, "rope", [{64: 1.0, 128: far}, {64: 1.0, 128: far}])
    found = at("rope_extrapolates", train_length=64)
    assert found.state is state
    assert decides(found) == pytest.approx(math.exp(far - 1.0))


def test_runs_that_went_no_further_or_stopped_measure_nothing(store: Store) -> None:
    put(store, "rope", [{64: 1.0}])
    assert at("rope_extrapolates", train_length=64).state is State.NOT_MEASURED
    assert at("alike", train_length=64).state is State.NOT_MEASURED
    stopped = replace(small("alibi", train_length=64), seed=0)
    store.add(Run(stopped, (), (2.0,), "the loss is not finite", 1.0), {})
    training._headings.cache_clear()
    assert at("alibi_extrapolates", train_length=64).state is State.NOT_MEASURED


def test_runs_that_cannot_be_read_are_left_out(store: Store) -> None:
    put(store, "rope", [{64: 1.0, 128: 1.0}])
    (Path(store.root) / f"{'0' * 20}.parquet").write_bytes(b"no run")
    assert at("rope_extrapolates", train_length=64).state is State.HOLDS
