"""Principal components: against NumPy's SVD, against each other, and published shares of variance."""

import math

import numpy as np
import pytest
import torch

from posenc import NoPositionVectors, SchemeArgumentError
from posenc.analysis import (
    Projection,
    components_explaining,
    expand_curve,
    project,
    project_gram,
)
from tests.library.small_tables import alibi_mean_matrix, noise, table
from tests.library.tensors import assert_close

NAN, INF = math.nan, math.inf


def assert_matches_svd(found: Projection, rows: torch.Tensor, fitted: list[bool]) -> None:
    """Compare with NumPy's SVD of the fitted rows and with the sign convention as a loop."""
    values, chosen = rows.numpy(), np.array(fitted)
    mean = values[chosen].mean(0)
    _, singular, axes = np.linalg.svd(values[chosen] - mean, full_matrices=False)
    axes = axes[: found.rank]
    scores = (values - mean) @ axes.T
    for k in range(found.rank):
        sizes = np.abs(scores[chosen, k])
        first = next(i for i, size in enumerate(sizes) if size >= 0.37 * sizes.max())
        if scores[chosen, k][first] < 0:
            scores[:, k] *= -1
            axes[k] *= -1
    variance = singular**2 / (chosen.sum() - 1)
    expected = {
        "scores": scores,
        "components": axes,
        "mean": mean,
        "explained_variance_ratio": variance[: found.rank] / variance.sum(),
    }
    for name, value in expected.items():
        np.testing.assert_allclose(getattr(found, name), value, rtol=1e-11, atol=1e-11)
    assert found.fitted.tolist() == fitted


@pytest.mark.parametrize(("length", "width"), [(60, 8), (9, 20)])
def test_components_match_singular_value_decomposition(length: int, width: int) -> None:
    rows = noise(length, width) + 5.0
    found = project(rows, 4)
    assert_matches_svd(found, rows, [True] * length)
    assert found.rank == 4
    assert not found.missing.any()


@pytest.mark.parametrize("fit", [7, 30])
def test_rows_outside_the_fit_are_projected_on_the_same_axes(fit: int) -> None:
    rows = noise(40, 5)
    found = project(rows, 3, fit)
    assert_matches_svd(found, rows, [row < fit for row in range(40)])
    from_gram = project_gram(rows @ rows.T, 3, fit)
    assert_close(from_gram.scores, found.scores, rtol=1e-9, atol=1e-10)


def test_columns_of_unequal_size_far_from_the_origin_keep_their_components() -> None:
    for length, width in ((130, 30), (30, 110)):
        rows = noise(length, width) * torch.logspace(0, -3, width, dtype=torch.float64) + 7.0
        assert_matches_svd(project(rows, 5), rows, [True] * length)
        rows[0] = NAN
        before = rows.clone()
        found = project(rows, 5, length // 2)
        expected = project(rows[1:], 5, length // 2 - 1)
        assert_close(found.scores[1:], expected.scores, atol=1e-12)
        assert_matches_svd(expected, rows[1:], [row < length // 2 for row in range(1, length)])
        np.testing.assert_array_equal(rows, before)


def test_sinusoidal_table_explains_the_published_shares() -> None:
    found = project(table(512, 512), 96)
    assert found.explained_variance_ratio[:2].tolist() == pytest.approx([0.147, 0.085], abs=5e-4)
    assert found.explained_variance_ratio[:95].sum() < 0.95 <= found.explained_variance_ratio.sum()


@pytest.mark.parametrize("length", [2, 50, 51])
def test_stationary_kernel_has_the_eigenvalues_of_its_centred_matrix(length: int) -> None:
    kernel = alibi_mean_matrix(length, heads=4)
    found = project_gram(kernel, 5)
    centre = np.eye(length) - 1 / length
    values, vectors = np.linalg.eigh(centre @ kernel.numpy() @ centre)
    count = min(5, length - 1)
    assert found.rank == count
    np.testing.assert_allclose(
        found.explained_variance_ratio[:count], values[::-1][:count] / values.sum(), rtol=1e-10
    )
    scores = vectors[:, ::-1][:, :count] * np.sqrt(values[::-1][:count])
    np.testing.assert_allclose(found.scores[:, :count].abs(), np.abs(scores), atol=1e-10)


@pytest.mark.parametrize("shape", [(60, 20), (20, 60)])
def test_components_that_explain_a_share_are_counted_past_those_projected(
    shape: tuple[int, int],
) -> None:
    rows = noise(*shape) * torch.logspace(0, -2, shape[1], dtype=torch.float64)
    values = rows[:18].numpy() - rows[:18].numpy().mean(0)
    squares = np.linalg.svd(values, compute_uv=False) ** 2
    cumulative = np.cumsum(squares / squares.sum())
    for found in (project(rows, 2, fit=18), project_gram(rows @ rows.T, 2, fit=18)):
        np.testing.assert_allclose(found.all_variance_ratios.cumsum(0)[:17], cumulative[:17])
        assert found.scores.shape[1] == len(found.explained_variance_ratio) == 2
        for share in (0.1, 0.5, 0.9, 0.999):
            count = components_explaining(found, share)
            assert cumulative[count - 1] >= share > (cumulative[count - 2] if count > 1 else 0)
    for share in (0.0, 1.0, NAN):
        with pytest.raises(SchemeArgumentError, match="share must lie between 0 and 1"):
            components_explaining(found, share)


@pytest.mark.parametrize("rows", [torch.full((6, 3), 0.1), torch.zeros(6, 3), torch.ones(1, 3)])
def test_rows_that_do_not_differ_have_no_components(rows: torch.Tensor) -> None:
    rows = rows.double()
    for found in (project(rows), project_gram(rows @ rows.T)):
        assert found.rank == components_explaining(found, 0.9) == 0
        assert not found.scores.any()
        assert not found.explained_variance_ratio.any()


@pytest.mark.parametrize("size", [1e170, 1e-170])
def test_numbers_near_the_limits_of_float64_have_the_same_components(size: float) -> None:
    table = torch.randn(20, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    plain, far = project(table, fit=15), project(table * size, fit=15)
    assert far.rank == plain.rank == 3
    assert_close(far.scores / size, plain.scores, atol=1e-12)
    assert far.mean is not None
    assert_close(far.mean / size, torch.as_tensor(plain.mean), atol=1e-12)


def test_components_past_the_rank_are_zero_and_not_counted() -> None:
    steps = torch.arange(10.0, dtype=torch.float64)
    line = steps[:, None] * torch.tensor([[3.0, 4.0]], dtype=torch.float64)
    for found in (project(line, 4), project_gram(line @ line.T, 4)):
        assert found.rank == 1
        assert_close(found.scores[:, 0], 5 * (4.5 - steps), atol=1e-11)
        assert not found.scores[:, 1:].any()
        assert found.explained_variance_ratio.tolist() == pytest.approx([1.0, 0, 0, 0])
    # Four fitted rows less their mean span three axes; the fourth eigenvalue is 11 eps.
    rows = noise(6, 4, seed=5)
    assert project(rows, 4, 4).rank == project_gram(rows @ rows.T, 4, 4).rank == 3


def test_missing_rows_are_left_out_and_labelled() -> None:
    rows, missing = noise(20, 4), [4, 9, 15]
    rows[4, 1], rows[9], rows[15, 0] = NAN, INF, -INF
    finite = [i for i in range(20) if i not in missing]
    for found, whole in (
        (project(rows), project(rows[finite])),
        (project_gram(rows @ rows.T), project_gram(rows[finite] @ rows[finite].T)),
    ):
        assert found.missing.nonzero().flatten().tolist() == missing
        assert found.fitted.nonzero().flatten().tolist() == finite
        assert found.scores[missing].isnan().all()
        assert_close(found.scores[finite], whole.scores, atol=1e-12)


def test_kernel_that_is_no_inner_product_has_no_vectors() -> None:
    skewed = alibi_mean_matrix(20, heads=4)
    skewed[3, 7] += 1e-6
    with pytest.raises(NoPositionVectors, match="not symmetric"):
        project_gram(skewed)
    # A box of width 5 in the offset has negative frequencies in its spectrum.
    box = expand_curve((torch.arange(-19, 20).abs() <= 2).double())
    lopsided = box.clone()
    lopsided[0, 0] = 2.0  # equals its half turn no more
    for kernel in (box, lopsided):
        with pytest.raises(NoPositionVectors, match="negative eigenvalue"):
            project_gram(kernel)
