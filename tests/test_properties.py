"""Measured properties: against loops over single pairs, SciPy, and the published first rises."""

import dataclasses
import inspect
import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from posenc import SchemeArgumentError
from posenc.analysis import expand_curve, first_rise, kendall_tau, measure, properties
from tests.small_tables import noise, table


def sum_of_cosines(length: int, width: int, base: float = 10_000.0) -> torch.Tensor:
    """The sinusoidal kernel by offset -(length-1) .. length-1, one sum at a time."""
    return torch.tensor(
        [
            math.fsum(math.cos(k * base ** (-2 * m / width)) for m in range(width // 2))
            for k in range(1 - length, length)
        ],
        dtype=torch.float64,
    )


@pytest.mark.parametrize(("width", "rise"), [(512, 44), (128, 12), (64, 6)])
def test_sinusoidal_similarity_first_rises_where_published(width: int, rise: int) -> None:
    rows = table(100, width)
    for found in (
        measure(curve=sum_of_cosines(100, width)),
        measure(rows @ rows.T),
        measure(vectors=rows),
    ):
        assert found.first_rise == rise


@pytest.mark.parametrize("block", [1, 60, 2**21])
def test_every_number_is_that_of_a_loop_over_pairs(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(properties, "_BLOCK_ELEMENTS", block)
    rows = noise(25, 6)
    values = rows.tolist()
    gaps = {
        (i, j): math.dist(values[i], values[j]) for i, j in itertools.combinations(range(25), 2)
    }
    pair = min(gaps, key=gaps.__getitem__)
    steps = [gaps[i, i + 1] for i in range(24)]
    norms = [math.hypot(*row) for row in values]
    cosines = [
        sum(
            sum(a * b for a, b in zip(values[i], values[i - k], strict=True))
            / norms[i]
            / norms[i - k]
            for i in range(k, 25)
        )
        / (25 - k)
        for k in range(25)
    ]
    rises = [k for k in range(1, 25) if cosines[k] > cosines[k - 1]]
    for found in (
        measure(vectors=rows),
        measure(rows @ rows.T),
        measure(rows @ rows.T, vectors=rows),
    ):
        assert found.positions == 25
        assert found.closest_pair == pair
        assert found.smallest_distance == pytest.approx(gaps[pair], rel=1e-12)
        assert found.neighbour_mean == pytest.approx(sum(steps) / 24, rel=1e-12)
        assert found.neighbour_low == pytest.approx(min(steps), rel=1e-12)
        assert found.neighbour_high == pytest.approx(max(steps), rel=1e-12)
        assert found.norm_low == pytest.approx(min(norms), rel=1e-14)
        assert found.norm_high == pytest.approx(max(norms), rel=1e-14)
        assert found.first_rise == rises[0]
        expected_tau = kendalltau(cosines, [-k for k in range(25)]).statistic
        assert found.kendall_tau == pytest.approx(expected_tau, rel=1e-12)
    entries = [entry for row in values for entry in row]
    found = measure(vectors=rows)
    assert (found.value_low, found.value_high) == (min(entries), max(entries))
    assert measure(rows @ rows.T).value_low is None


def test_a_curve_measures_as_its_kernel_does() -> None:
    curve = sum_of_cosines(60, 16)
    one, two = measure(curve=curve), measure(expand_curve(curve))
    for field in dataclasses.fields(one):
        first, second = getattr(one, field.name), getattr(two, field.name)
        assert second == (first if first is None else pytest.approx(first, rel=1e-9)), field.name
    assert one.translation_invariance_error == 0.0
    # ATen takes square roots from MKL, which promises one unit in the last place, not IEEE's rounding.
    for norm in (one.norm_low, one.norm_high):
        assert norm == pytest.approx(math.sqrt(8), rel=2 * torch.finfo(torch.float64).eps, abs=0)
    assert one.closest_pair == (0, 1)


def test_a_curve_never_makes_a_matrix() -> None:
    offsets = torch.arange(-(2**18), 2**18 + 1, dtype=torch.float64)
    found = measure(curve=torch.exp(-(2.0**-8) * offsets.abs()))
    # exp(-k / 256) is subnormal and then zero past k = 190,000: it never rises, and ties there.
    assert found.first_rise is None
    assert found.positions == 2**18 + 1
    assert 0.9 < found.kendall_tau < 1.0
    assert found.smallest_distance == pytest.approx(math.sqrt(2 - 2 * math.exp(-(2.0**-8))))


def test_alibi_falls_at_every_step() -> None:
    curve = torch.exp(-0.5 * torch.arange(-40, 41, dtype=torch.float64).abs())
    found = measure(curve=curve)
    assert found.first_rise is None
    assert found.kendall_tau == 1.0
    assert found.translation_invariance_error == 0.0


def test_two_equal_rows_are_found_and_near_equal_ones_told_apart_by_their_vectors() -> None:
    rows = noise(30, 8)
    rows[21] = rows[4]
    for found in (measure(vectors=rows), measure(rows @ rows.T)):
        assert found.smallest_distance == 0.0
        assert found.closest_pair == (4, 21)
    rows[21, 3] += 1e-11
    found = measure(vectors=rows)
    assert found.smallest_distance == pytest.approx(1e-11, rel=1e-4)
    assert found.closest_pair == (4, 21)
    from_kernel = measure(rows @ rows.T)
    assert from_kernel.smallest_distance == 0.0
    assert from_kernel.distance_resolution > 1e-11 > found.distance_resolution


def test_low_precision_makes_positions_collide() -> None:
    rounded = table(2_048, 2).to(torch.bfloat16).double()
    found = measure(vectors=rounded)
    assert found.smallest_distance == 0.0
    first, second = found.closest_pair
    assert torch.equal(rounded[first], rounded[second])
    assert measure(vectors=table(300, 2)).smallest_distance > 1e-3


def test_the_first_pair_is_named_where_all_neighbours_tie() -> None:
    rows = table(200, 64)
    assert measure(vectors=rows).closest_pair == (0, 1)
    assert measure(rows @ rows.T).closest_pair == (0, 1)
    assert measure(curve=sum_of_cosines(200, 64), vectors=rows).closest_pair == (0, 1)


def test_missing_rows_are_left_out_everywhere() -> None:
    rows = noise(12, 4)
    missing = torch.full((5, 4), math.nan, dtype=torch.float64)
    padded = torch.cat([missing[:2], rows, missing])
    one, other = measure(rows @ rows.T, vectors=rows), measure(padded @ padded.T, vectors=padded)
    assert other.closest_pair == tuple(position + 2 for position in one.closest_pair)
    for name, value in dataclasses.asdict(one).items():
        if name != "closest_pair":
            assert getattr(other, name) == (value if value is None else pytest.approx(value)), name
    holed = rows.clone()
    holed[5, 1] = math.inf
    found = measure(vectors=holed)
    assert found.positions == 11
    assert 5 not in found.closest_pair
    kept = [i for i in range(12) if i != 5]
    assert found.smallest_distance == measure(vectors=rows[kept]).smallest_distance
    steps = [math.dist(rows[i], rows[i + 1]) for i in range(11) if i not in (4, 5)]
    assert found.neighbour_mean == pytest.approx(sum(steps) / 9)


def test_a_table_of_zeros_has_no_similarity() -> None:
    found = measure(vectors=torch.zeros(6, 4, dtype=torch.float64))
    assert found.smallest_distance == found.norm_high == found.value_high == 0.0
    assert found.first_rise is None
    assert found.kendall_tau is None
    assert found.translation_invariance_error is None


def test_an_asymmetric_curve_is_read_on_the_side_of_earlier_keys() -> None:
    before = [1.0, 0.5, 0.6, 0.1]
    after = [0.9, 0.8, 0.7]
    curve = torch.tensor([*before[:0:-1], before[0], *after], dtype=torch.float64)
    found = measure(curve=curve)
    assert found.first_rise == 2
    assert found.kendall_tau == pytest.approx(kendalltau(before, [0, -1, -2, -3]).statistic)
    # Distance needs the symmetric part: 2 K(0) - K(k) - K(-k).
    assert found.neighbour_mean == pytest.approx(math.sqrt(2 - 0.5 - 0.9))
    from_kernel = measure(expand_curve(curve))
    assert from_kernel.first_rise == 2
    assert from_kernel.neighbour_mean == pytest.approx(found.neighbour_mean)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_constant_kernel_has_no_order_and_no_distances(count: int) -> None:
    for found in (
        measure(torch.full((count, count), 0.1, dtype=torch.float64)),
        measure(curve=torch.full((2 * count - 1,), 0.1, dtype=torch.float64)),
    ):
        assert found.translation_invariance_error is None
        assert found.translation_reason
        assert found.first_rise is None
        assert found.kendall_tau is None
        assert found.smallest_distance == (None if count == 1 else 0.0)
        assert found.closest_pair == (None if count == 1 else (0, 1))


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=40))
def test_kendall_tau_is_scipys(values: list[int]) -> None:
    found = kendall_tau(torch.tensor(values, dtype=torch.float64))
    if len(set(values)) == 1:
        assert found is None
    else:
        expected = kendalltau(values, [-k for k in range(len(values))]).statistic
        assert found == pytest.approx(expected, abs=1e-12)


def test_a_plateau_with_rounding_is_no_rise() -> None:
    plateau = torch.tensor([1.0, 0.5, 0.5 + 2**-52, 0.4], dtype=torch.float64)
    assert first_rise(plateau) is None
    assert first_rise(torch.tensor([1.0, 0.5, 0.5 + 1e-12, 0.4], dtype=torch.float64)) == 2


def test_what_cannot_be_measured_is_refused() -> None:
    rows = noise(5, 2)
    holed = rows.masked_fill(rows == rows[2], math.nan)
    with pytest.raises(SchemeArgumentError, match="exactly one of kernel and curve"):
        measure()
    with pytest.raises(SchemeArgumentError, match="exactly one of kernel and curve"):
        measure(rows @ rows.T, curve=torch.ones(9, dtype=torch.float64))
    with pytest.raises(SchemeArgumentError, match="one row per position: 4, got 5"):
        inspect.unwrap(measure)(torch.eye(4), vectors=rows)
    with pytest.raises(SchemeArgumentError, match="no position has a finite kernel value"):
        measure(torch.full((3, 3), math.nan, dtype=torch.float64))
    with pytest.raises(SchemeArgumentError, match="must be finite in every row"):
        measure(curve=torch.ones(9, dtype=torch.float64), vectors=holed)
