"""Parts of the search for a table's formula: bad rows, and widths without a config."""

import math
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
import torch

from posenc import identification, limits
from posenc.identification.search import nearest_fit
from tests.library.small_tables import sinusoidal

pytestmark = pytest.mark.usefixtures("no_shape_checks")

identify: Any = identification.identify


def test_table_wider_than_any_config_has_a_formula_and_no_config() -> None:
    found = identify(sinusoidal(2, limits.MAX_DIM + 2))
    assert (found.config, found.arrangement.scheme) == (None, "sinusoidal")
    assert math.isclose(found.hypothesis.base, 1e4, rel_tol=1e-5)


def test_fit_that_a_bad_row_misled_is_replaced_by_that_of_the_other_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = sinusoidal(64, 4)
    table[30] = 5.0
    fitted: list[int] = []

    def misled_by_row_30(columns: torch.Tensor, *others: Any) -> Any:
        fit = nearest_fit(columns[:30], *others)
        fitted.append(len(columns))
        return (
            fit
            if len(columns) < 64
            else replace(fit, hypothesis=replace(fit.hypothesis, base=9_000.0))
        )

    # The package has a function of the module's name.
    module = import_module("posenc.identification.identify")
    monkeypatch.setattr(module, "nearest_fit", misled_by_row_30)
    found = identify(table)
    assert fitted[0] == 64 > fitted[1]
    assert found.hypothesis.base == 1e4
    assert [one.sentence[:25] for one in found.deviations] == ["Row 30 does not follow th"]
