"""Cosine similarity: against plain loops over single entries and against the papers' numbers."""

import inspect
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posenc import SchemeArgumentError
from posenc.analysis import (
    cosine_curve,
    cosine_matrix,
    expand_curve,
    reversed_rows_view,
    similarity,
    similarity_by_offset,
    similarity_row,
)
from tests.small_tables import noise, table

NAN, INF = math.nan, math.inf


def cosine_by_loop(kernel: torch.Tensor) -> torch.Tensor:
    values = kernel.tolist()
    count = len(values)
    return torch.tensor(
        [
            [values[i][j] / math.sqrt(values[i][i] * values[j][j]) for j in range(count)]
            for i in range(count)
        ],
        dtype=torch.float64,
    )


def test_cosine_matrix_is_the_kernel_over_both_norms() -> None:
    rows = noise(23, 7)
    found = cosine_matrix(rows @ rows.T)
    torch.testing.assert_close(found.values, cosine_by_loop(rows @ rows.T), rtol=1e-14, atol=1e-15)
    assert (found.values.diagonal() == 1).all()
    assert found.undefined_count == 0


def test_cosine_matrix_does_not_depend_on_its_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = noise(23, 7)
    whole = cosine_matrix(rows @ rows.T).values
    monkeypatch.setattr(similarity, "_BLOCK_ELEMENTS", 50)
    assert torch.equal(cosine_matrix(rows @ rows.T).values, whole)


def test_cosine_matrix_of_a_symmetric_kernel_is_symmetric_to_the_last_bit() -> None:
    rows = noise(40, 5)
    kernel = rows @ rows.T
    values = cosine_matrix((kernel + kernel.T) / 2).values
    assert torch.equal(values, values.T)


def test_an_asymmetric_kernel_keeps_its_asymmetry() -> None:
    kernel = noise(9, 9).abs() + 0.1
    torch.testing.assert_close(cosine_matrix(kernel).values, cosine_by_loop(kernel))


@pytest.mark.parametrize("bad", [0.0, -0.0, -1.0, NAN, INF, -INF])
def test_a_position_without_a_positive_norm_is_undefined_and_counted(bad: float) -> None:
    rows = noise(12, 4)
    kernel = rows @ rows.T
    expected = cosine_by_loop(kernel)
    kernel[5, 5] = bad
    found = cosine_matrix(kernel)
    assert found.undefined.nonzero().tolist() == [[5]]
    assert found.undefined_count == 1
    assert found.values[5].isnan().all()
    assert found.values[:, 5].isnan().all()
    others = [i for i in range(12) if i != 5]
    torch.testing.assert_close(found.values[others][:, others], expected[others][:, others])


def test_an_infinite_entry_is_not_a_similarity() -> None:
    kernel = torch.eye(3, dtype=torch.float64)
    kernel[0, 2] = INF
    values = cosine_matrix(kernel).values
    assert values[0, 2].isnan()
    assert values.isnan().sum() == 1


@pytest.mark.parametrize("power", [1_000, -1_000])
def test_scaling_a_kernel_to_the_edge_of_float64_changes_rounding_alone(power: int) -> None:
    rows = noise(10, 6)
    kernel = rows @ rows.T
    # Two square roots right to one unit in the last place, a product and a quotient, on either side.
    within = 8 * torch.finfo(torch.float64).eps
    torch.testing.assert_close(
        cosine_matrix(kernel * 2.0**power).values, cosine_matrix(kernel).values, rtol=within, atol=0
    )


@pytest.mark.parametrize(
    ("offset", "expected"), [(1, 0.9731), (2, 0.9052), (4, 0.7683), (8, 0.7225)]
)
def test_sinusoidal_similarity_at_width_512_is_as_published(offset: int, expected: float) -> None:
    rows = table(16, 512)
    values = cosine_matrix(rows @ rows.T).values
    assert abs(values[3, 3 + offset].item() - expected) < 5e-5


def test_cosine_of_a_stationary_kernel_is_its_curve_over_the_value_at_zero() -> None:
    curve = noise(19)
    curve[9] = 3.0
    from_matrix = cosine_matrix(expand_curve(curve)).values
    torch.testing.assert_close(
        expand_curve(cosine_curve(curve)), from_matrix, rtol=1e-15, atol=1e-16
    )


def test_cosine_similarity_of_alibi_is_the_factor_on_its_attention_weights() -> None:
    offsets = torch.arange(-30, 31, dtype=torch.float64)
    curve = torch.exp(-0.25 * offsets.abs())
    assert torch.equal(cosine_curve(7.0 * curve), 7.0 * curve / 7.0)
    assert cosine_curve(curve)[30 + 4].item() == math.exp(-1)


@pytest.mark.parametrize("zero", [0.0, -2.0, NAN, INF])
def test_cosine_is_refused_where_the_kernel_at_zero_is_not_positive(zero: float) -> None:
    curve = torch.tensor([1.0, zero, 1.0], dtype=torch.float64)
    with pytest.raises(SchemeArgumentError, match="positive finite kernel value at offset 0"):
        cosine_curve(curve)


@pytest.mark.parametrize("function", [cosine_curve, expand_curve, reversed_rows_view])
def test_a_curve_of_even_length_is_refused(function: Callable[[torch.Tensor], object]) -> None:
    with pytest.raises(SchemeArgumentError, match="odd length 2n-1"):
        function(torch.ones(4, dtype=torch.float64))


def test_a_curve_expands_by_key_minus_query() -> None:
    curve = noise(13)
    expected = torch.tensor(
        [[curve[j - i + 6].item() for j in range(7)] for i in range(7)], dtype=torch.float64
    )
    assert torch.equal(expand_curve(curve), expected)


def test_the_reversed_view_of_a_curve_copies_nothing() -> None:
    curve = noise(13)
    view = reversed_rows_view(curve)
    assert view.untyped_storage().data_ptr() == curve.untyped_storage().data_ptr()
    assert torch.equal(view.flip(0), expand_curve(curve))


def test_a_full_kernel_past_the_cap_is_refused_before_it_is_made() -> None:
    with pytest.raises(SchemeArgumentError, match="up to 16,384 positions, got 16,385"):
        expand_curve(torch.ones(2 * 16_385 - 1))


@pytest.mark.parametrize("reference", [0, 3, 8])
def test_one_row_is_the_row_of_the_matrix(reference: int) -> None:
    curve = noise(17)
    curve[8] = 2.5
    kernel = expand_curve(curve)
    matrix = cosine_matrix(kernel).values
    for row in (similarity_row(reference, kernel), similarity_row(reference, curve=curve)):
        assert row.offsets.tolist() == [j - reference for j in range(9)]
        assert torch.equal(row.kernel, kernel[reference])
        torch.testing.assert_close(row.cosine, matrix[reference], rtol=1e-15, atol=1e-16)


def test_one_row_of_an_undefined_position_is_nan() -> None:
    kernel = torch.eye(4, dtype=torch.float64)
    kernel[2, 2] = 0.0
    assert similarity_row(2, kernel).cosine.isnan().all()
    assert similarity_row(0, kernel).cosine.tolist()[:2] == [1.0, 0.0]
    assert similarity_row(0, kernel).cosine[2].isnan()


@pytest.mark.parametrize("reference", [-1, 4, True])
def test_a_reference_position_outside_the_kernel_is_refused(reference: int) -> None:
    with pytest.raises(SchemeArgumentError, match="reference must be a position from 0 to 3"):
        similarity_row(reference, torch.eye(4, dtype=torch.float64))


@given(
    count=st.integers(1, 24),
    side=st.sampled_from(["after", "before", "both"]),
    block=st.sampled_from([1, 40, 200, 2**21]),
    holes=st.integers(0, 30),
    seed=st.integers(0, 1_000),
)
def test_statistics_by_offset_equal_a_loop_over_diagonals(
    count: int, side: str, block: int, holes: int, seed: int
) -> None:
    draw = np.random.default_rng(seed)
    kernel = draw.normal(size=(count, count)) + 100.0
    for _ in range(holes):
        kernel[draw.integers(count), draw.integers(count)] = draw.choice([NAN, INF, -INF])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(similarity, "_BLOCK_ELEMENTS", block)
        profile = similarity_by_offset(torch.from_numpy(kernel), side=side)
    expected = {
        "after": list(range(count)),
        "before": [-k for k in range(count)],
        "both": list(range(1 - count, count)),
    }[side]
    assert profile.offsets.tolist() == expected
    for index, offset in enumerate(expected):
        entries = [
            kernel[i, i + offset]
            for i in range(count)
            if 0 <= i + offset < count and math.isfinite(kernel[i, i + offset])
        ]
        found = [getattr(profile, name)[index].item() for name in ("mean", "spread", "low", "high")]
        assert profile.counts[index].item() == len(entries)
        if not entries:
            assert all(math.isnan(value) for value in found)
            continue
        mean = math.fsum(entries) / len(entries)
        spread = math.sqrt(math.fsum((x - mean) ** 2 for x in entries) / len(entries))
        assert found == pytest.approx([mean, spread, min(entries), max(entries)], abs=1e-12)


def test_a_stationary_kernel_has_a_spread_of_exactly_zero_and_one_changed_bit_shows() -> None:
    curve = noise(2 * 300 - 1) / 3
    kernel = expand_curve(curve)
    profile = similarity_by_offset(kernel, side="both")
    assert (profile.spread == 0).all()
    assert torch.equal(profile.mean, curve)
    kernel[100, 107] = torch.nextafter(kernel[100, 107], torch.tensor(INF, dtype=torch.float64))
    changed = similarity_by_offset(kernel, side="both").spread
    assert changed.nonzero().tolist() == [[299 + 7]]


@pytest.mark.parametrize("side", ["after", "before", "both"])
def test_the_profile_of_a_curve_is_that_of_its_kernel(side: similarity.Side) -> None:
    curve = noise(15)
    curve[2] = NAN
    from_curve = similarity_by_offset(curve=curve, side=side)
    from_kernel = similarity_by_offset(expand_curve(curve), side=side)
    for name in ("offsets", "mean", "spread", "low", "high", "counts"):
        torch.testing.assert_close(
            getattr(from_curve, name), getattr(from_kernel, name), rtol=0, atol=0, equal_nan=True
        )


def test_sides_of_an_asymmetric_kernel_are_key_minus_query() -> None:
    kernel = torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)
    assert similarity_by_offset(kernel, side="after").mean.tolist() == [0.0, 1.0]
    assert similarity_by_offset(kernel, side="before").mean.tolist() == [0.0, -1.0]


def test_half_precision_kernels_are_measured_in_float64() -> None:
    rows = noise(6, 4)
    kernel = (rows @ rows.T).to(torch.float16)
    found = cosine_matrix(kernel).values
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, cosine_by_loop(kernel.double()))


def test_results_leave_the_input_unchanged_and_share_no_memory_with_it() -> None:
    curve = noise(9).abs()
    before = curve.clone()
    similarity_by_offset(curve=curve).mean.fill_(0)
    similarity_row(1, curve=curve).kernel.fill_(0)
    expand_curve(curve).fill_(0)
    assert torch.equal(curve, before)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (torch.ones(2, 3), "kernel must be square"),
        (torch.ones(3), r"kernel must be a non-empty \(n, n\) tensor"),
        (torch.ones(0, 0), r"kernel must be a non-empty \(n, n\) tensor"),
        (torch.ones(2, 2, dtype=torch.complex128), "kernel must be a tensor of real numbers"),
        (torch.ones(2, 2, dtype=torch.bool), "kernel must be a tensor of real numbers"),
        ([[1.0]], "kernel must be a tensor of real numbers, got list"),
    ],
)
def test_a_kernel_that_is_no_square_of_real_numbers_is_refused(
    kernel: torch.Tensor, message: str
) -> None:
    for function in (cosine_matrix, similarity_by_offset):
        with pytest.raises(SchemeArgumentError, match=message):
            inspect.unwrap(function)(kernel)


def test_exactly_one_of_kernel_and_curve_is_taken() -> None:
    one = torch.ones(1, 1, dtype=torch.float64)
    for arguments in ({}, {"kernel": one, "curve": one[0]}):
        with pytest.raises(SchemeArgumentError, match="exactly one of kernel and curve"):
            similarity_by_offset(**arguments)
    with pytest.raises(SchemeArgumentError, match="side must be"):
        inspect.unwrap(similarity_by_offset)(one, side="left")
