"""The table that a description makes, beside the one that was identified."""

import numpy as np
import pytest
import torch

from posenc.errors import SchemeArgumentError
from posenc.identification import identify
from posenc.identification.made import from_exact, made
from tests.formula_tables import beside, exact


@pytest.mark.parametrize("start", [0, 2])
@pytest.mark.parametrize("padding", [0, 3])
def test_a_formula_is_made_row_by_row_with_its_padding(start: int, padding: int) -> None:
    cos, sin = exact(60, 16, 700.0, start=start + padding)
    zeros = torch.zeros(padding, 16, dtype=torch.float64)
    table = torch.cat((zeros, beside(sin, cos)))
    table[20, 5] += 1e-3
    found = identify(table)
    rows = made(found, table)
    for part in rows:
        assert part.shape == table.shape
    assert torch.equal(rows.given, table)
    off = (rows.exact - table).abs()
    assert float(off.flatten().topk(2).values[1]) < 1e-5
    worst = from_exact(found, table)
    assert (worst.row, worst.column) == (20, 5)
    assert worst.largest == pytest.approx(1e-3, abs=1e-5)
    np.testing.assert_array_equal(worst.by_column, off.amax(0))
    assert torch.equal(made(found, table, rows=7).exact, rows.exact[:7])


def test_rounded_angles_are_made_as_found_and_as_they_should_be() -> None:
    ladder = torch.tensor([10_000.0 ** (-2 * m / 32) for m in range(16)]).bfloat16().float()
    angles = torch.arange(90.0)[:, None] * ladder
    found = identify(angles.cos(), angles.sin())
    assert found.has("angles")
    rows = made(found, angles.cos(), angles.sin())
    assert torch.equal(rows.as_found, rows.given)
    cos, sin = exact(90, 32, 10_000.0)
    np.testing.assert_allclose(rows.exact, torch.cat((cos, sin), 1), atol=1e-14)


def test_a_table_that_no_formula_makes_has_none_beside_it() -> None:
    table = torch.randn(40, 8, generator=torch.Generator().manual_seed(0))
    with pytest.raises(SchemeArgumentError, match="No formula"):
        made(identify(table), table)
