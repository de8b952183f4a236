"""The two layouts on the same queries and keys, and what is read back from position vectors."""

import math

import numpy as np
import pytest
import torch

from posenc import sinusoidal_table
from posenc.analysis.layouts import inspect_layouts
from posenc.analysis.probes import PAIRS, probe, probe_each
from posenc.errors import SchemeArgumentError
from posenc.interop.position_tables import minilm_table
from posenc.interop.sources import named_table


def complex_scores(q: np.ndarray, k: np.ndarray, base: float, layout: str) -> np.ndarray:
    """Scores by complex multiplication of the pairs, with loops over positions."""
    count, dim = q.shape
    rates = [base ** (-2 * m / dim) for m in range(dim // 2)]

    def turned(x: np.ndarray) -> np.ndarray:
        first, second = (x[:, 0::2], x[:, 1::2]) if layout == "interleaved" else np.split(x, 2, 1)
        return (first + 1j * second) * np.exp(1j * np.arange(count)[:, None] * rates)

    return (turned(q) @ turned(k).conj().T).real / math.sqrt(dim)


@pytest.mark.parametrize(("positions", "dim", "base"), [(2, 2, 1e4), (16, 8, 1e4), (48, 64, 5e5)])
def test_scores_of_both_layouts_equal_complex_multiplication(
    positions: int, dim: int, base: float
) -> None:
    found = inspect_layouts(positions, dim, base, seed=3)
    chance = torch.Generator().manual_seed(3)
    q, k = torch.randn(2, positions, dim, generator=chance, dtype=torch.float64).numpy()
    meant = complex_scores(q, k, base, "interleaved")
    np.testing.assert_allclose(found.scores.numpy(), meant, atol=1e-12)
    np.testing.assert_allclose(found.mended.scores.numpy(), meant, atol=1e-12)
    assert found.largest < 1e-12
    assert max(found.mended.change, 1 - found.mended.correlation) < 1e-12
    order = found.to_half.numpy()
    np.testing.assert_allclose(
        complex_scores(q[:, order], k[:, order], base, "half"), meant, atol=1e-12
    )
    assert torch.equal(found.to_half[found.to_interleaved], torch.arange(dim))
    one = torch.randn(2, 1, dim, generator=chance, dtype=torch.float64).numpy()
    same_q, same_k = (np.repeat(part, min(positions, 64), 0) for part in one)
    for use, layout in ((found, "interleaved"), (found.mistakes["both"], "half")):
        same = complex_scores(same_q, same_k, base, layout)
        np.testing.assert_allclose(use.alike.numpy(), same, atol=1e-12)
    np.testing.assert_allclose(found.mended.alike.numpy(), found.alike.numpy(), atol=1e-12)


def turned_one_by_one(x: np.ndarray, base: float, way: str) -> np.ndarray:
    """Queries or keys turned number by number; "cache" takes halves' angles with the neighbours' turn."""
    count, dim = x.shape
    half, out = dim // 2, np.empty_like(x)
    for t in range(count):
        for c in range(dim):
            beside = c % 2 if way != "half" else c // half  # whether it is the second of its pair
            step = 1 if way != "half" else half
            pair = c // 2 if way == "interleaved" else c % half
            angle = t * base ** (-2 * pair / dim)
            other = x[t, c - step] if beside else -x[t, c + step]
            out[t, c] = x[t, c] * math.cos(angle) + other * math.sin(angle)
    return out


MISTAKES = {"both": ("half", "half"), "one": ("interleaved", "half"), "cache": ("cache", "cache")}


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize(("positions", "dim", "base"), [(2, 2, 1e4), (16, 8, 1e4), (40, 16, 500.0)])
def test_what_a_mistake_does_is_what_plain_loops_say(
    mistake: str, positions: int, dim: int, base: float
) -> None:
    used = inspect_layouts(positions, dim, base, seed=3).mistakes[mistake]
    chance = torch.Generator().manual_seed(3)
    q, k = torch.randn(2, positions, dim, generator=chance, dtype=torch.float64).numpy()
    one = torch.randn(2, 1, dim, generator=chance, dtype=torch.float64).numpy()
    same_q, same_k = (np.repeat(part, positions, 0) for part in one)
    of_q, of_k = MISTAKES[mistake]

    def scores(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        turned = turned_one_by_one(left, base, of_q), turned_one_by_one(right, base, of_k)
        return turned[0] @ turned[1].T / math.sqrt(dim)

    wrong, meant = scores(q, k), complex_scores(q, k, base, "interleaved")
    np.testing.assert_allclose(used.scores.numpy(), wrong, atol=1e-12)
    change = np.sqrt(np.mean((wrong - meant) ** 2) / np.mean(meant**2))
    assert math.isclose(used.change, change, abs_tol=1e-12)
    together = np.corrcoef(wrong.ravel(), meant.ravel())[0, 1]
    assert math.isclose(used.correlation, together, abs_tol=1e-12)
    norms = [np.sqrt(np.sum(x * x, 1)) for x in (turned_one_by_one(q, base, of_q), q)]
    assert math.isclose(used.norm_change, max(abs(norms[0] / norms[1] - 1)), abs_tol=1e-12)
    alike = scores(same_q, same_k)
    np.testing.assert_allclose(used.alike.numpy(), alike, atol=1e-12)
    along = [np.std(np.diagonal(alike, offset)) for offset in range(1 - positions, positions)]
    assert math.isclose(used.offset_spread, max(along) / np.std(alike), abs_tol=1e-12)
    if dim == 2:  # where both layouts are one
        assert used.change < 1e-12
    else:
        assert used.change > 0.5


def test_a_consistent_mix_up_passes_the_tests_of_norm_and_offset_and_the_others_do_not() -> None:
    found = inspect_layouts(64, 64)
    both, one, cache = (found.mistakes[name] for name in ("both", "one", "cache"))
    assert both.norm_change < 1e-12 > both.offset_spread
    assert both.change > 0.5
    assert one.norm_change < 1e-12
    assert one.offset_spread > 0.1
    assert cache.norm_change > 0.05
    assert cache.offset_spread > 0.05


def test_a_weight_is_converted_by_its_rows_in_every_head() -> None:
    heads, dim, width = 3, 8, 5
    weight, x = torch.randn(heads * dim, width), torch.randn(7, width)
    order = inspect_layouts(2, dim).to_half
    converted = weight.view(heads, dim, width)[:, order].reshape(heads * dim, width)
    expected = (x @ weight.T).view(7, heads, dim)[..., order]
    torch.testing.assert_close((x @ converted.T).view(7, heads, dim), expected)


def test_layouts_refuse_what_they_cannot_turn() -> None:
    for positions, dim in ((1, 8), (513, 8), (8, 7), (8, 0)):
        with pytest.raises(SchemeArgumentError):
            inspect_layouts(positions, dim)


def test_an_index_that_stands_in_the_vectors_is_read_back() -> None:
    line = torch.arange(100.0)[:, None] * torch.tensor([[1.0, -2.0]]) / 100
    found = probe(line)
    assert found.index_error.value < 0.05
    assert found.order.value > 0.99
    assert found.guessing == 25.0
    assert found.index_error.control > 20
    assert abs(found.order.control - 0.5) < 0.1
    assert found.control_properties.kendall_tau is not None
    assert abs(found.control_properties.kendall_tau) < 0.2
    assert found.control_properties.positions == 100


def test_random_vectors_tell_neither_index_nor_order() -> None:
    found = probe(torch.randn(400, 64, generator=torch.Generator().manual_seed(1)), seed=2)
    assert found.index_error.value > 0.8 * found.guessing
    assert abs(found.order.value - 0.5) < 0.1


def test_sinusoids_tell_the_index_and_trained_tables_nearly_do() -> None:
    sinusoidal = probe(sinusoidal_table(256, 128))
    assert sinusoidal.index_error.value < 0.1
    minilm = minilm_table()
    assert minilm is not None
    for table in (minilm.table, named_table("trained").table):
        found = probe(table)
        assert found.index_error.value < 0.25 * found.guessing
        assert found.index_error.control > 0.8 * found.guessing
        assert found.order.value > 0.9
        assert abs(found.order.control - 0.5) < 0.1
    assert probe(sinusoidal_table(256, 128)) == sinusoidal


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


@pytest.mark.parametrize(("count", "width"), [(60, 4), (47, 90), (40, 40)])
def test_what_is_read_back_is_what_scikit_learn_reads_back_fold_by_fold(
    count: int, width: int
) -> None:
    from sklearn.linear_model import LogisticRegression, RidgeCV

    rows = torch.randn(count, width, generator=torch.Generator().manual_seed(0)).double()
    rows[:, 0] += torch.arange(count) / 10
    order, pairs = splits(count, width, 5)
    scaled = rows.numpy() / rows.numpy().std()
    off = []
    for fold in np.array_split(order, 5):
        kept = [p for p in range(count) if p not in fold]
        alphas = [a * count for a in (1e-6, 1e-4, 1e-2, 1.0, 100.0)]
        fitted = RidgeCV(alphas=alphas).fit(scaled[kept], kept)
        off += [abs(fitted.predict(scaled[[p]])[0] - p) for p in fold]
    found = probe(rows, seed=5)
    assert math.isclose(found.index_error.value, float(np.mean(off)), rel_tol=1e-6)
    apart = [(scaled[second] - scaled[first], second > first) for first, second in pairs]
    told = LogisticRegression(fit_intercept=False, tol=1e-10, max_iter=5_000).fit(*apart[0])
    assert math.isclose(found.order.value, told.score(*apart[1]), abs_tol=1e-3)


def test_tables_that_are_probed_together_share_splits_and_random_numbers() -> None:
    first, second = torch.randn(2, 50, 6, generator=torch.Generator().manual_seed(3))
    assert probe_each([first, second], seed=4) == (probe(first, seed=4), probe(second, seed=4))
    turned = torch.linalg.qr(torch.randn(6, 6, generator=torch.Generator().manual_seed(1))).Q
    same = probe(first.double() @ turned.double(), seed=4)
    assert math.isclose(
        same.index_error.value, probe(first, seed=4).index_error.value, rel_tol=1e-5
    )
    with pytest.raises(SchemeArgumentError, match="one shape"):
        probe_each([first, second[:, :5]])


def test_a_constant_table_tells_nothing() -> None:
    found = probe(torch.ones(40, 8))
    assert found.index_error.value >= 0.9 * found.guessing
    assert abs(found.order.value - 0.5) < 0.1


def test_probes_refuse_too_few_rows_and_leave_out_rows_past_the_end() -> None:
    rows = sinusoidal_table(40, 16)
    rows[30:] = math.nan
    assert probe(rows).positions == 30
    with pytest.raises(SchemeArgumentError, match="20 finite rows"):
        probe(rows[15:])
    assert probe(torch.randn(1_100, 2)).positions == 1_024
