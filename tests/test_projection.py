"""Principal components: against an explicit SVD, against each other, and against published shares."""

import inspect
import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.decomposition import PCA

from posenc import NoPositionVectors, SchemeArgumentError
from posenc.analysis import (
    Projection,
    expand_curve,
    project,
    project_gram,
    project_waves,
    projection,
)
from tests.small_tables import alibi_mean_matrix, ladder, noise, table


def by_svd(rows: np.ndarray, components: int, fitted: np.ndarray) -> dict[str, np.ndarray]:
    """Principal components from numpy's SVD, with the sign convention written out as a loop."""
    mean = rows[fitted].mean(0)
    _, singular, axes = np.linalg.svd(rows[fitted] - mean, full_matrices=False)
    axes = axes[:components]
    scores = (rows - mean) @ axes.T
    for k in range(len(axes)):
        sizes = np.abs(scores[fitted, k])
        first = next(i for i, size in enumerate(sizes) if size >= 0.37 * sizes.max())
        if scores[fitted, k][first] < 0:
            scores[:, k] *= -1
            axes[k] *= -1
    variance = singular**2 / (fitted.sum() - 1)
    return {
        "scores": scores,
        "components": axes,
        "mean": mean,
        "explained_variance": variance[:components],
        "explained_variance_ratio": variance[:components] / variance.sum(),
    }


def assert_same(found: Projection, expected: dict[str, np.ndarray], tolerance: float) -> None:
    for name, value in expected.items():
        torch.testing.assert_close(
            getattr(found, name), torch.from_numpy(value), rtol=tolerance, atol=tolerance
        )


@pytest.mark.parametrize(
    ("length", "width", "solver"), [(60, 8, "covariance_eigh"), (9, 20, "full"), (12, 12, None)]
)
def test_components_are_those_of_a_singular_value_decomposition(
    length: int, width: int, solver: str | None
) -> None:
    rows = noise(length, width) + 5.0
    found = project(rows, 4)
    assert_same(found, by_svd(rows.numpy(), 4, np.ones(length, dtype=bool)), 1e-11)
    assert found.solver == (solver or "covariance_eigh")
    assert found.found == 4
    assert found.fitted.all()
    assert not found.missing.any()


@pytest.mark.parametrize("fit", [None, 1_290, slice(5, None), slice(None, None, 3), 299])
@pytest.mark.parametrize("missing", [[], [0, 700]])
def test_many_blocks_of_rows_are_one_table(fit: int | slice | None, missing: list[int]) -> None:
    rows = noise(1_300, 300) * torch.logspace(0, -3, 300, dtype=torch.float64) + 7.0
    rows[missing] = math.nan
    given = rows.clone()
    found = project(rows, 5, fit)
    torch.testing.assert_close(rows, given, rtol=0, atol=0, equal_nan=True)
    fitted = np.zeros(1_300, dtype=bool)
    fitted[fit if isinstance(fit, slice) else slice(fit)] = True
    fitted[missing] = False
    assert found.fitted.tolist() == fitted.tolist()
    kept = [i for i in range(1_300) if i not in missing]
    expected = by_svd(rows[kept].numpy(), 5, fitted[kept])
    torch.testing.assert_close(
        found.scores[kept], torch.from_numpy(expected.pop("scores")), rtol=0, atol=1e-12
    )
    assert_same(found, expected, 1e-11)


def test_many_blocks_of_rows_wider_than_many_are_one_table() -> None:
    rows = noise(300, 1_100) * torch.logspace(0, -3, 1_100, dtype=torch.float64) + 7.0
    found = project(rows, 4)
    assert found.solver == "full"
    assert_same(found, by_svd(rows.numpy(), 4, np.ones(300, dtype=bool)), 1e-11)


@pytest.mark.parametrize("shift", [0.0, 1_000.0])
def test_components_are_scikit_learns_where_it_has_the_digits(shift: float) -> None:
    rows = noise(900, 12) * torch.linspace(1.0, 2.0, 12, dtype=torch.float64) + shift
    found = project(rows, 4)
    peer = PCA(4, svd_solver="full").fit(rows.numpy())
    signs = (found.components * torch.from_numpy(peer.components_)).sum(1).sign()
    torch.testing.assert_close(
        found.scores * signs, torch.from_numpy(peer.transform(rows.numpy())), rtol=0, atol=1e-10
    )
    for name in ("explained_variance", "explained_variance_ratio"):
        torch.testing.assert_close(
            getattr(found, name), torch.from_numpy(getattr(peer, f"{name}_")), rtol=1e-11, atol=0
        )


@pytest.mark.parametrize(
    "fit", [7, slice(None, 7), slice(3, 30), slice(None, None, 3), slice(-9, None)]
)
def test_rows_outside_the_fit_are_projected_on_the_same_axes(fit: int | slice) -> None:
    rows = noise(40, 5)
    fitted = np.zeros(40, dtype=bool)
    fitted[: 7 if fit == 7 else None] = fit == 7
    if isinstance(fit, slice):
        fitted[fit] = True
    found = project(rows, 3, fit)
    assert found.fitted.tolist() == fitted.tolist()
    assert_same(found, by_svd(rows.numpy(), 3, fitted), 1e-11)
    from_gram = project_gram(rows @ rows.T, 3, fit)
    torch.testing.assert_close(from_gram.scores, found.scores, rtol=1e-9, atol=1e-10)


@given(
    length=st.integers(2, 40),
    width=st.integers(1, 40),
    components=st.integers(1, 6),
    shift=st.sampled_from([0.0, 1.0, 1_000.0]),
    seed=st.integers(0, 1_000),
)
def test_a_kernel_gives_the_scores_of_its_vectors_signs_included(
    length: int, width: int, components: int, shift: float, seed: int
) -> None:
    rows = noise(length, width, seed=seed) + shift
    fit = max(2, length - length // 3)
    one, two = project(rows, components, fit), project_gram(rows @ rows.T, components, fit)
    assert one.found == two.found == min(components, fit - 1, width)
    spread = one.explained_variance[0].sqrt().item()
    smallest = one.explained_variance[one.found - 1].sqrt().item()
    tolerance = 1e-13 * (1 + shift) ** 2 * length * width * (1 + spread / smallest) ** 2
    torch.testing.assert_close(two.explained_variance, one.explained_variance, rtol=1e-6, atol=1e-9)
    if (one.explained_variance[: one.found].diff().abs() > 1e-3 * spread**2).all():
        torch.testing.assert_close(one.scores, two.scores, rtol=0, atol=1e3 * tolerance)


def test_rounding_is_no_component_beyond_the_rank_of_centred_rows() -> None:
    """Four fitted rows less their mean span three axes, though the fourth eigenvalue is 11 eps."""
    rows = noise(6, 4, seed=5)
    assert project(rows, 4, 4).found == project_gram(rows @ rows.T, 4, 4).found == 3
    assert not project(rows, 4, 4).scores[:, 3].any()


def test_the_published_shares_of_a_sinusoidal_table() -> None:
    found = project(table(512, 512), 96)
    assert found.explained_variance_ratio[:2].tolist() == pytest.approx([0.147, 0.085], abs=5e-4)
    assert found.explained_variance_ratio.sum() >= 0.95
    assert found.explained_variance_ratio[:95].sum() < 0.95


def test_alibis_kernel_projects_to_a_horseshoe_of_twelve_and_eight_percent() -> None:
    found = project_gram(alibi_mean_matrix(512), 2)
    assert [round(share, 2) for share in found.explained_variance_ratio.tolist()] == [0.12, 0.08]
    first, second = found.scores.unbind(1)
    # A half cosine and a whole one: odd and even about the middle, whatever the content.
    torch.testing.assert_close(first, -first.flip(0), rtol=0, atol=1e-12)
    torch.testing.assert_close(second, second.flip(0), rtol=0, atol=1e-12)
    crossings = [int((scores.sign().diff() != 0).sum()) for scores in (first, second)]
    assert crossings == [1, 2]


@pytest.mark.parametrize("length", [2, 3, 50, 51])
def test_splitting_a_stationary_kernel_changes_nothing(
    length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = alibi_mean_matrix(length, heads=4)
    halves = project_gram(kernel, 5)
    monkeypatch.setattr(
        projection,
        "leading_eigenpairs",
        lambda block, size, slack: projection.top_eigenpairs(block, size),
    )
    whole = project_gram(kernel, 5)
    assert halves.found == whole.found == min(5, length - 1)
    torch.testing.assert_close(halves.scores, whole.scores, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("length", "width", "fit", "components"),
    [
        (512, 512, None, 3),
        (300, 64, 200, 5),
        (7, 8, 3, 3),
        (1, 8, None, 2),
        (40, 6, None, 8),
        (1500, 64, 701, 10),
        (64, 2, None, 2),
    ],
)
def test_closed_sums_give_the_components_of_the_table(
    length: int, width: int, fit: int | None, components: int
) -> None:
    from_table = project(table(length, width), components, fit)
    found = project_waves(ladder(width), length, components, fit=fit)
    for name in ("scores", "components", "explained_variance", "explained_variance_ratio", "mean"):
        torch.testing.assert_close(
            getattr(found, name), getattr(from_table, name), rtol=1e-11, atol=1e-11
        )
    assert found.total_variance == pytest.approx(from_table.total_variance, rel=1e-12)
    assert found.found == from_table.found
    assert torch.equal(found.fitted, from_table.fitted)


def test_a_rope_kernels_vectors_have_the_same_scores_up_to_their_amplitude() -> None:
    width, rotary, factor = 12, 8, 1.2
    waves = table(30, rotary, 500.0) * factor * math.sqrt(2 / width)
    tail = torch.full((30, width - rotary), 1 / math.sqrt(width), dtype=torch.float64)
    from_table = project(torch.cat([waves[:, 1::2], waves[:, 0::2], tail], 1), 3)
    found = project_waves(ladder(rotary, 500.0), 30, amplitude=factor * math.sqrt(2 / width))
    torch.testing.assert_close(found.scores, from_table.scores, rtol=0, atol=1e-13)
    assert from_table.components is not None
    assert (from_table.components[:, rotary:] == 0).all()


def test_signs_do_not_turn_when_the_table_moves_by_rounding() -> None:
    rows = table(256, 64)
    plain = project(rows, 6).scores
    for seed in range(5):
        moved = project(rows + 1e-13 * noise(256, 64, seed=seed), 6).scores
        torch.testing.assert_close(moved, plain, rtol=0, atol=1e-9)
    mirrored = project(-rows, 6).scores
    torch.testing.assert_close(mirrored, plain, rtol=0, atol=1e-9)


def test_turning_the_vectors_changes_no_score() -> None:
    rows = noise(50, 6)
    turn, _ = torch.linalg.qr(noise(6, 6, seed=1))
    torch.testing.assert_close(
        project(rows @ turn + 3.0).scores, project(rows).scores, rtol=0, atol=1e-13
    )


def test_a_large_common_offset_does_not_cost_digits() -> None:
    rows = noise(400, 6)
    shifted = rows + 2.0**20
    torch.testing.assert_close(
        project(shifted).scores, project(shifted - 2.0**20).scores, rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("power", [600, -600, 1_000, -1_000])
def test_scores_scale_with_the_vectors_to_the_edge_of_float64(power: int) -> None:
    rows = noise(30, 4)
    found = project(rows * 2.0**power)
    assert torch.equal(found.scores, project(rows).scores * 2.0**power)
    assert torch.equal(found.explained_variance_ratio, project(rows).explained_variance_ratio)


@pytest.mark.parametrize("unit", [2.0**-1074, 2.0**1021])
def test_the_smallest_and_the_largest_numbers_of_float64_have_components(unit: float) -> None:
    whole = torch.tensor([[0, 0], [4, 2], [2, 1], [1, -2], [3, 4]], dtype=torch.float64)
    plain, found = project(whole, 2), project(whole * unit, 2)
    torch.testing.assert_close(found.components, plain.components, rtol=0, atol=1e-15)
    torch.testing.assert_close(
        found.explained_variance_ratio, plain.explained_variance_ratio, rtol=1e-15, atol=0
    )
    torch.testing.assert_close(found.scores / unit, plain.scores, rtol=0, atol=0.5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64])
def test_every_real_dtype_is_read_exactly(dtype: torch.dtype) -> None:
    rows = (noise(60, 5) * 10).to(dtype)
    found = inspect.unwrap(project)(rows)
    assert torch.equal(found.scores, project(rows.double()).scores)


@pytest.mark.parametrize("rows", [torch.full((6, 3), 0.1), torch.zeros(6, 3), noise(1, 3)])
def test_rows_that_do_not_differ_explain_nothing(rows: torch.Tensor) -> None:
    rows = rows.double()
    for found in (project(rows), project_gram(rows @ rows.T)):
        assert found.found == 0
        assert (found.scores == 0).all()
        assert found.explained_variance_ratio.tolist() == [0.0, 0.0, 0.0]
        assert found.total_variance == 0.0


def test_components_that_do_not_exist_are_zero_and_counted() -> None:
    line = torch.arange(10.0, dtype=torch.float64)[:, None] * torch.tensor(
        [[3.0, 4.0]], dtype=torch.float64
    )
    for found in (project(line, 4), project_gram(line @ line.T, 4)):
        assert found.found == 1
        expected = [5 * (4.5 - p) for p in range(10)]
        torch.testing.assert_close(
            found.scores[:, 0], torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-11
        )
        assert (found.scores[:, 1:] == 0).all()
        assert found.explained_variance_ratio.tolist() == pytest.approx([1.0, 0, 0, 0])
    assert project(line, 4).components.shape == (4, 2)


@pytest.mark.parametrize(
    "bad", [(math.nan, math.inf, -math.inf), (math.inf,) * 3, (math.nan,) * 3, (-math.inf,) * 3]
)
def test_missing_rows_are_left_out_and_labelled(bad: tuple[float, float, float]) -> None:
    rows = noise(20, 4)
    rows[4, 1], rows[9], rows[15, 0] = bad
    kept = [i for i in range(20) if i not in (4, 9, 15)]
    for found, whole in (
        (project(rows), project(rows[kept])),
        (project_gram(rows @ rows.T), project_gram(rows[kept] @ rows[kept].T)),
    ):
        assert found.missing.nonzero().flatten().tolist() == [4, 9, 15]
        assert found.fitted.nonzero().flatten().tolist() == kept
        assert found.scores[[4, 9, 15]].isnan().all()
        torch.testing.assert_close(found.scores[kept], whole.scores, rtol=0, atol=1e-12)


def test_a_kernel_that_is_no_inner_product_has_no_vectors_to_project() -> None:
    skewed = alibi_mean_matrix(20, heads=4)
    skewed[3, 7] += 1e-6
    with pytest.raises(NoPositionVectors, match="not symmetric"):
        project_gram(skewed)
    # A box of width 5 in the offset has negative frequencies in its spectrum.
    box = expand_curve((torch.arange(-19, 20).abs() <= 2).double())
    with pytest.raises(NoPositionVectors, match="negative eigenvalue"):
        project_gram(box)
    lopsided = box.clone()
    lopsided[0, 0] = 2.0
    with pytest.raises(NoPositionVectors, match="negative eigenvalue"):
        project_gram(lopsided)


@pytest.mark.parametrize("fit", [0, 6, -1, slice(2, 2), slice(None, None, -1), True])
def test_a_fit_without_rows_or_past_the_table_is_refused(fit: int | slice) -> None:
    for call in (project, project_gram):
        with pytest.raises(SchemeArgumentError):
            call(torch.eye(5, dtype=torch.float64), 2, fit)


def test_bad_arguments_are_refused_with_their_range() -> None:
    rows = noise(5, 2)
    with pytest.raises(SchemeArgumentError, match="components must be a whole number from 1"):
        project(rows, 0)
    with pytest.raises(SchemeArgumentError, match="at least one finite row"):
        project(torch.full((3, 2), math.nan, dtype=torch.float64))
    kernel = torch.eye(3, dtype=torch.float64)
    kernel[0, 1] = math.nan
    with pytest.raises(SchemeArgumentError, match="finite wherever its diagonal is"):
        project_gram(kernel)
    with pytest.raises(SchemeArgumentError, match="amplitude must be positive"):
        project_waves(ladder(4), 5, amplitude=0.0)
    with pytest.raises(SchemeArgumentError, match="fit must be a whole number from 1 to 5"):
        project_waves(ladder(4), 5, fit=6)
    with pytest.raises(SchemeArgumentError, match=r"vectors must be a non-empty \(n, d\) tensor"):
        inspect.unwrap(project)(torch.ones(3))


def test_scikit_learn_and_scipy_are_imported_only_when_needed() -> None:
    code = (
        "import sys, posenc.analysis\n"
        "print([m for m in ('sklearn', 'scipy', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
