"""Measured properties of kernels and vectors: against loops over single pairs, NumPy and SciPy."""

import dataclasses
import itertools
import math
import operator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc import Request, analysis
from posenc.analysis import (
    diagonal_spread,
    expand_curve,
    first_rise,
    kendall_tau,
    offset_checks,
)
from posenc.schemes.alibi import Alibi
from posenc.schemes.base import Scheme
from posenc.schemes.rope import Rope
from posenc.schemes.sizes import PRECISIONS
from tests.library.configs import config_of
from tests.library.small_tables import alibi_mean_curve, noise, table

F64 = torch.float64
measure: Any = analysis.measure  # any field may be None
offset_only: Any = analysis.offset_only
linear_in_offset: Any = analysis.linear_in_offset


def sum_of_cosines(length: int, width: int) -> torch.Tensor:
    thetas = [10_000.0 ** (-2 * m / width) for m in range(width // 2)]
    values = [math.fsum(math.cos(k * theta) for theta in thetas) for k in range(1 - length, length)]
    return torch.tensor(values, dtype=F64)


def falling_tau(values: list[float]) -> float:
    from scipy.stats import kendalltau  # slow to import

    return float(kendalltau(values, [-k for k in range(len(values))]).statistic)


@pytest.mark.parametrize(("width", "rise"), [(512, 44), (128, 12), (64, 6)])
def test_sinusoidal_similarity_first_rises_where_published(width: int, rise: int) -> None:
    rows = table(60, width)
    for found in (
        measure(curve=sum_of_cosines(60, width)), measure(rows @ rows.T), measure(vectors=rows),
    ):  # fmt: skip
        assert found.first_rise == rise
        assert found.closest_pair == (0, 1)  # the first of neighbours that tie but for rounding


def test_every_number_is_that_of_a_loop_over_pairs() -> None:
    rows = noise(25, 6)
    values = rows.tolist()
    gaps = {(i, j): math.dist(values[i], values[j])
            for i, j in itertools.combinations(range(25), 2)}  # fmt: skip
    pair = min(gaps, key=gaps.__getitem__)
    steps = [gaps[i, i + 1] for i in range(24)]
    norms = [math.hypot(*row) for row in values]
    cosine = [
        [sum(map(operator.mul, a, b)) / math.hypot(*a) / math.hypot(*b) for b in values]
        for a in values
    ]
    curve = [sum(cosine[i][i - k] for i in range(k, 25)) / (25 - k) for k in range(25)]
    for found in (
        measure(vectors=rows), measure(rows @ rows.T), measure(rows @ rows.T, vectors=rows),
    ):  # fmt: skip
        assert (found.positions, found.closest_pair) == (25, pair)
        for actual, expected in (
            (found.smallest_distance, gaps[pair]), (found.neighbour_mean, sum(steps) / 24),
            (found.norm_low, min(norms)), (found.norm_high, max(norms)),
            (found.kendall_tau, falling_tau(curve)),
        ):  # fmt: skip
            assert actual == pytest.approx(expected, rel=1e-12)
        assert found.first_rise == next(k for k in range(1, 25) if curve[k] > curve[k - 1])
    found = measure(vectors=rows)
    assert (found.value_low, found.value_high) == (rows.min().item(), rows.max().item())
    assert measure(rows @ rows.T).value_low is None


def test_curve_measures_as_its_kernel_does() -> None:
    curve = sum_of_cosines(60, 16)
    from_curve, from_kernel = measure(curve=curve), measure(expand_curve(curve))
    for field in dataclasses.fields(from_curve):
        first, second = getattr(from_curve, field.name), getattr(from_kernel, field.name)
        assert second == (first if first is None else pytest.approx(first, rel=1e-9)), field.name
    assert from_curve.translation_invariance_error == 0.0
    assert from_curve.norm_low == pytest.approx(math.sqrt(8), rel=1e-15)


def test_long_curve_is_measured_without_a_matrix() -> None:
    # A matrix of 2^18 positions would take 512 GiB. Past k = 190,000 the curve is zero and ties.
    offsets = torch.arange(-(2**18), 2**18 + 1, dtype=F64)
    found = measure(curve=torch.exp(-(2.0**-8) * offsets.abs()))
    assert (found.first_rise, found.positions) == (None, 2**18 + 1)
    assert 0.9 < found.kendall_tau < 1.0
    assert found.smallest_distance == pytest.approx(math.sqrt(2 - 2 * math.exp(-(2.0**-8))))


def test_vectors_tell_rows_apart_that_a_kernel_cannot() -> None:
    rows = noise(30, 8)
    rows[21] = rows[4]
    for found in (measure(vectors=rows), measure(rows @ rows.T)):
        assert (found.smallest_distance, found.closest_pair) == (0.0, (4, 21))
    rows[21, 3] += 1e-11
    found, from_kernel = measure(vectors=rows), measure(rows @ rows.T)
    assert found.smallest_distance == pytest.approx(1e-11, rel=1e-4)
    assert found.closest_pair == (4, 21)
    assert from_kernel.smallest_distance == 0.0


def test_missing_rows_are_left_out_everywhere() -> None:
    rows = noise(12, 4)
    missing = torch.full((5, 4), math.nan, dtype=F64)
    padded = torch.cat([missing[:2], rows, missing])
    whole, found = measure(rows @ rows.T, vectors=rows), measure(padded @ padded.T, vectors=padded)
    assert found.closest_pair == tuple(position + 2 for position in whole.closest_pair)
    for name, value in dataclasses.asdict(whole).items():
        if name != "closest_pair":
            assert getattr(found, name) == (value if value is None else pytest.approx(value)), name
    rows[5, 1] = math.inf
    found = measure(vectors=rows)
    assert found.positions == 11
    steps = [math.dist(rows[i], rows[i + 1]) for i in range(11) if i not in (4, 5)]
    assert found.neighbour_mean == pytest.approx(sum(steps) / 9)


def test_zero_rows_and_constant_kernels_have_no_similarity_order() -> None:
    zeros = measure(vectors=torch.zeros(6, 4, dtype=F64))
    assert zeros.smallest_distance == zeros.norm_high == zeros.value_high == 0.0
    for count in (1, 2, 5):
        constant = torch.full((2 * count - 1,), 0.1, dtype=F64)
        for found in (zeros, measure(expand_curve(constant)), measure(curve=constant)):
            assert found.translation_invariance_error is None
            assert found.translation_reason
            assert (found.first_rise, found.kendall_tau) == (None, None)
            single = found.positions == 1
            assert found.smallest_distance == (None if single else 0.0)
            assert found.closest_pair == (None if single else (0, 1))


def test_asymmetric_curve_is_read_on_the_side_of_earlier_keys() -> None:
    before = [1.0, 0.5, 0.6, 0.1]
    curve = torch.tensor([*before[:0:-1], before[0], 0.9, 0.8, 0.7], dtype=F64)
    for found in (measure(curve=curve), measure(expand_curve(curve))):
        assert found.first_rise == 2
        assert found.kendall_tau == pytest.approx(falling_tau(before))
        # Distance needs the symmetric part: 2 K(0) - K(k) - K(-k).
        assert found.neighbour_mean == pytest.approx(math.sqrt(2 - 0.5 - 0.9))


@settings(max_examples=40)
@given(st.lists(st.integers(-5, 5), min_size=1, max_size=40))
def test_kendall_tau_matches_scipy(values: list[int]) -> None:
    found = kendall_tau(torch.tensor(values, dtype=F64))
    if len(set(values)) == 1:
        assert found is None
    else:
        assert found == pytest.approx(falling_tau([float(v) for v in values]), abs=1e-12)


def test_plateau_with_rounding_is_no_rise() -> None:
    assert first_rise(torch.tensor([1.0, 0.5, 0.5 + 2**-52, 0.4], dtype=F64)) is None
    assert first_rise(torch.tensor([1.0, 0.5, 0.5 + 1e-12, 0.4], dtype=F64)) == 2


@pytest.mark.parametrize("count", [3, 4, 31])
def test_error_is_the_spread_along_diagonals_over_that_of_all(count: int) -> None:
    """The mean standard deviation along the diagonals of half the offsets, over that of all entries."""
    kernel = noise(count, count)
    found, array = offset_only(kernel), kernel.numpy()
    spreads = [array.diagonal(k).std() for k in range(1, (count + 1) // 2)]
    expected = np.mean(spreads) / array[~np.eye(count, dtype=bool)].std()
    assert found.error == pytest.approx(expected, rel=1e-12)
    assert diagonal_spread(kernel) == (found.error, None)


def test_stationary_kernels_pass_and_random_kernels_do_not() -> None:
    rows, random = table(128, 64), noise(128, 64)
    stationary = offset_only(rows @ rows.T)
    assert stationary.error < 1e-13
    assert offset_only(expand_curve(alibi_mean_curve(100))).error == 0.0
    found = offset_only(random @ random.T)
    assert found.error == pytest.approx(found.control, abs=0.02)
    scaled = rows * torch.linspace(1.0, 1.2, 128, dtype=F64)[:, None]
    between = offset_only(scaled @ scaled.T).error
    assert 0.01 < between < 1.0


def test_numbers_that_are_undefined_have_a_reason() -> None:
    for kernel, reason in (
        (torch.full((9, 9), 0.1), "equal, so there is no spread"),
        (torch.eye(9), "equal, so there is no spread"),
        (torch.eye(2), "too few positions"),
        (torch.full((9, 9), math.nan), "too few positions"),
    ):
        found = offset_only(kernel.double())
        assert found.error is None
        assert reason in (found.reason or "")
    for values, reason in (
        ([1.0, 2.0], "too few"), ([1.0, math.nan, 2.0], "too few"), ([0.1] * 10, "do not change"),
    ):  # fmt: skip
        line = linear_in_offset(torch.tensor(values, dtype=F64))
        assert line.r_squared is None
        assert reason in (line.reason or "")


def test_line_is_that_of_least_squares_whatever_offsets_are_missing() -> None:
    values = table(90, 64) @ table(1, 64)[0]
    found = linear_in_offset(values)
    slope, _ = np.polyfit(np.arange(90.0), values.numpy(), 1)
    correlation = np.corrcoef(np.arange(90.0), values.numpy())[0, 1]
    assert found.slope == pytest.approx(slope, rel=1e-12)
    assert found.r_squared == pytest.approx(correlation**2, rel=1e-12)
    values = -0.25 * torch.arange(200, dtype=F64) + 3.0
    values[[0, 4, 8]] = torch.tensor([math.nan, math.inf, math.nan]).double()
    found = linear_in_offset(values)
    assert found.r_squared == pytest.approx(1.0, abs=1e-14)
    assert found.slope == pytest.approx(-0.25, rel=1e-14)
    assert found.control < 0.1


def request(kind: str, precision: str = "float32", head: Any = "mean", **fields: Any) -> Request:
    dtype = PRECISIONS[precision]
    return Request(config=config_of(kind, **fields), length=256, dtype=dtype, head=head)


def test_worst_head_decides_about_the_closed_form(monkeypatch: pytest.MonkeyPatch) -> None:
    right: Any = analysis.scheme_offset_map(request("alibi", heads=4), 3, 2)
    assert right.closed < 1e-13
    true_map = Alibi.offset_map

    def wrong_in_one_head(self: Alibi, offset: int, *, size: int, head: Any = "mean") -> Any:
        matrix = true_map(self, offset, size=size, head=head)
        return matrix * 0 if head == 2 else matrix

    monkeypatch.setattr(Alibi, "offset_map", wrong_in_one_head)
    wrong = analysis.scheme_offset_map(request("alibi", heads=4), 3, 2)
    assert wrong.closed == pytest.approx(1)
    assert (right.exists, wrong.exists) == (True, False)
    assert wrong.verdict == "no such matrix, error 1"


@pytest.mark.parametrize("kind", ["sinusoidal", "rope", "alibi"])
def test_closed_form_moves_its_own_vectors_and_no_random_ones(kind: str) -> None:
    fields: dict[str, Any] = {"heads": 4} if kind == "alibi" else {"dim": 64}
    found = analysis.scheme_map_errors(request(kind, **fields))
    assert len(found.offset) == len(offset_checks.OFFSETS)
    assert (found.error < 1e-12).all()
    assert (found.control > 0.8).all()
    if kind == "sinusoidal":  # of wide vectors fewer offsets are checked
        assert analysis.scheme_map_errors(request(kind, dim=4_096)).offset.tolist() == [1, 8, 64]


def test_untrained_table_fits_as_well_as_its_control() -> None:
    """Both are noise of one shape: the error is sqrt(1 + n / (d - n)) for n fitted positions."""
    found = analysis.scheme_offset_map(request("learned", dim=200, max_len=128), 1, 2)
    expected = math.sqrt(1 + 64 / (200 - 64))
    assert found.fitted == pytest.approx(expected, rel=0.03)
    assert found.fitted_control == pytest.approx(expected, rel=0.03)
    assert (found.closed, found.closed_control) == (None, None)


@pytest.mark.usefixtures("no_shape_checks")
def test_scheme_without_vectors_has_a_verdict_and_no_number() -> None:
    none = analysis.scheme_offset_map(request("none"), 1, 2)
    rounded = analysis.scheme_offset_map(request("alibi", "bfloat16", heads=4), 1, 2)
    assert none.verdict == "no position vectors"
    assert rounded.verdict == "no position vectors once rounded to bfloat16"
    for found in (none, rounded):
        numbers = (found.closed, found.fitted, found.pairs, found.composed, found.corner)
        assert (found.exists, *numbers) == (None,) * 6
    assert analysis.scheme_dense_fit(request("none"), 1).reason == "no position vectors"
    assert analysis.scheme_map_errors(request("none")).error.isnan().all()


@pytest.mark.parametrize(
    ("scheme", "asked"), [(Alibi, request("alibi", heads=4)), (Rope, request("rope"))]
)
def test_map_of_a_scheme_without_offset_map_is_not_computed(
    scheme: type[Scheme], asked: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its kernel depends on the offset alone, so a matrix exists, whatever a fit finds."""
    monkeypatch.setattr(scheme, "offset_map", Scheme.offset_map)
    found = analysis.scheme_offset_map(asked, 1, 2)
    assert found.verdict.startswith("not computed")
    numbers = (found.closed, found.fitted, found.composed, found.corner)
    assert (found.exists, *numbers) == (None,) * 5
    assert analysis.scheme_map_errors(asked).error.isnan().all()


def test_line_through_a_rounded_bias_is_that_of_the_bias() -> None:
    exact, rounded = (
        analysis.scheme_offset_claims(request("t5", precision, heads=4)).straight
        for precision in ("float32", "bfloat16")
    )
    assert rounded.slope == pytest.approx(exact.slope, rel=0.05)
    assert rounded.r_squared == pytest.approx(exact.r_squared, rel=0.05)


def test_distance_is_query_minus_key() -> None:
    kernel = noise(5, 5)
    kernel.fill_diagonal_(1)  # so that it is its own cosine
    found = analysis.scheme_similarity(request("none"), kernel)
    assert found.distances.tolist() == [0, 1, 2, 3, 4]
    below = [kernel.diagonal(-distance).mean().item() for distance in range(5)]
    assert found.mean.tolist() == pytest.approx(below)
