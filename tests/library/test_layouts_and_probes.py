"""The two layouts of RoPE on the same queries and keys, and position decoded from vectors."""

import math

import numpy as np
import pytest
import torch

from posenc import sinusoidal_table
from posenc.analysis import inspect_layouts, probe, probe_each, probes
from posenc.analysis.probes import PAIRS
from posenc.errors import SchemeArgumentError


def rotated(x: np.ndarray, base: float, layout: str) -> np.ndarray:
    """Rotate number by number; "cache" takes the angles of halves with the turn of neighbours."""
    count, dim = x.shape
    half, out = dim // 2, np.empty_like(x)
    for t in range(count):
        for c in range(dim):
            is_second = c % 2 if layout != "half" else c // half
            step = 1 if layout != "half" else half
            pair = c // 2 if layout == "interleaved" else c % half
            angle = t * base ** (-2 * pair / dim)
            other = x[t, c - step] if is_second else -x[t, c + step]
            out[t, c] = x[t, c] * math.cos(angle) + other * math.sin(angle)
    return out


def scores(q: np.ndarray, k: np.ndarray, base: float, of_q: str, of_k: str) -> np.ndarray:
    product: np.ndarray = rotated(q, base, of_q) @ rotated(k, base, of_k).T
    return product / math.sqrt(q.shape[1])


def drawn(positions: int, dim: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return queries and keys as seed 3 draws them, and one of each at every position."""
    chance = torch.Generator().manual_seed(3)
    q, k = torch.randn(2, positions, dim, generator=chance, dtype=torch.float64).numpy()
    one = torch.randn(2, 1, dim, generator=chance, dtype=torch.float64).numpy()
    same_q, same_k = (np.repeat(part, min(positions, 64), 0) for part in one)
    return q, k, same_q, same_k


MISTAKES = {"both": ("half", "half"), "one": ("interleaved", "half"), "cache": ("cache", "cache")}


@pytest.mark.parametrize(("positions", "dim", "base"), [(2, 2, 1e4), (16, 8, 500.0)])
def test_scores_of_both_layouts_and_of_mistakes_match_plain_loops(
    positions: int, dim: int, base: float
) -> None:
    found = inspect_layouts(positions, dim, base, seed=3)
    q, k, same_q, same_k = drawn(positions, dim)
    right = scores(q, k, base, "interleaved", "interleaved")
    np.testing.assert_allclose(found.scores, right, atol=1e-12)
    np.testing.assert_allclose(found.mended.scores, right, atol=1e-12)
    assert found.largest < 1e-12
    assert max(found.mended.change, 1 - found.mended.correlation) < 1e-12
    same = scores(same_q, same_k, base, "interleaved", "interleaved")
    np.testing.assert_allclose(found.alike, same, atol=1e-12)
    np.testing.assert_allclose(found.mended.alike, same, atol=1e-12)
    for mistake, (of_q, of_k) in MISTAKES.items():
        use = found.mistakes[mistake]
        wrong, alike = (scores(a, b, base, of_q, of_k) for a, b in ((q, k), (same_q, same_k)))
        np.testing.assert_allclose(use.scores, wrong, atol=1e-12)
        np.testing.assert_allclose(use.alike, alike, atol=1e-12)
        lengths = [np.linalg.norm(x, axis=1) for x in (rotated(q, base, of_q), q)]
        along = [np.std(np.diagonal(alike, offset)) for offset in range(1 - positions, positions)]
        expected = {
            "change": np.sqrt(np.mean((wrong - right) ** 2) / np.mean(right**2)),
            "correlation": np.corrcoef(wrong.ravel(), right.ravel())[0, 1],
            "norm_change": max(abs(lengths[0] / lengths[1] - 1)),
            "offset_spread": max(along) / np.std(alike),
        }
        for name, value in expected.items():
            assert getattr(use, name) == pytest.approx(value, abs=1e-12), name
        # Of two features both layouts are one.
        assert use.change < 1e-12 if dim == 2 else use.change > 0.5
        keeps_norm, keeps_offset = mistake != "cache", mistake == "both"
        if dim > 2:
            assert (use.norm_change < 1e-12) == keeps_norm
            assert (use.offset_spread < 1e-12) == keeps_offset


def test_layouts_refuse_sizes_that_cannot_be_rotated() -> None:
    for positions, dim in ((1, 8), (513, 8), (8, 7), (8, 0)):
        with pytest.raises(SchemeArgumentError):
            inspect_layouts(positions, dim)


def random_rows(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_index_that_stands_in_the_vectors_is_decoded() -> None:
    found = probe(torch.arange(100.0)[:, None] * torch.tensor([[1.0, -2.0]]) / 100)
    assert found.index_error.value < 0.05
    assert found.order_accuracy.value > 0.99
    assert found.guessing == 25.0
    assert found.index_error.control > 20
    assert abs(found.order_accuracy.control - 0.5) < 0.1
    assert found.control_properties.kendall_tau is not None
    assert abs(found.control_properties.kendall_tau) < 0.2
    assert found.control_properties.positions == 100


def splits(count: int, width: int, seed: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """The order of the positions and the pairs of both halves, drawn as `probe` states it."""
    chance = torch.Generator().manual_seed(seed)
    torch.randn(count, width, generator=chance, dtype=torch.float64)
    order = torch.randperm(count, generator=chance)
    pairs = []
    for half in (order[: count // 2], order[count // 2 :]):
        both = half[torch.randint(len(half), (2, PAIRS), generator=chance)].numpy()
        pairs.append(both[:, both[0] != both[1]])
    return order.numpy(), pairs


@pytest.mark.parametrize(("count", "width"), [(60, 4), (37, 50), (40, 40)])
def test_decoding_matches_scikit_learn_fold_by_fold(count: int, width: int) -> None:
    from sklearn.linear_model import LogisticRegression, RidgeCV

    rows = random_rows(count, width).double()
    rows[:, 0] += torch.arange(count) / 10
    order, pairs = splits(count, width, 5)
    scaled = rows.numpy() / rows.numpy().std()
    errors: list[float] = []
    for fold in np.array_split(order, 5):
        fitted = [p for p in range(count) if p not in fold]
        alphas = [a * count for a in (1e-6, 1e-4, 1e-2, 1.0, 100.0)]
        ridge = RidgeCV(alphas=alphas).fit(scaled[fitted], fitted)
        errors += np.abs(ridge.predict(scaled[fold]) - fold).tolist()
    found = probe(rows, seed=5)
    assert found.index_error.value == pytest.approx(np.mean(errors), rel=1e-6)
    apart = [(scaled[second] - scaled[first], second > first) for first, second in pairs]
    logistic = LogisticRegression(fit_intercept=False, tol=1e-10, max_iter=5_000).fit(*apart[0])
    assert found.order_accuracy.value == pytest.approx(logistic.score(*apart[1]), abs=1e-3)


def test_tables_probed_together_share_splits_and_random_numbers() -> None:
    first, second = random_rows(2, 50, 6, seed=3)
    assert probe_each([first, second], seed=4) == (probe(first, seed=4), probe(second, seed=4))
    turn = torch.linalg.qr(random_rows(6, 6, seed=1)).Q
    turned = probe(first.double() @ turn.double(), seed=4)
    expected = probe(first, seed=4).index_error.value
    assert turned.index_error.value == pytest.approx(expected, rel=1e-5)
    with pytest.raises(SchemeArgumentError, match="one shape"):
        probe_each([first, second[:, :5]])


def test_probe_needs_twenty_finite_rows_and_takes_the_first_1024(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = sinusoidal_table(40, 16)
    rows[30:] = math.nan
    assert probe(rows).positions == 30
    with pytest.raises(SchemeArgumentError, match="20 finite rows"):
        probe(rows[15:])
    assert probes.MAX_PROBED_POSITIONS == 1_024
    monkeypatch.setattr(probes, "MAX_PROBED_POSITIONS", 25)
    assert probe(rows).positions == 25
