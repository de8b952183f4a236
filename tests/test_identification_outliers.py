"""A few rows or columns that follow no formula are named, and the others are identified without them."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from posenc import sinusoidal_table
from posenc.errors import SchemeArgumentError
from posenc.identification import identify
from posenc.identification.words import headline
from tests.formula_tables import beside, exact, halves, kinds

pytestmark = pytest.mark.usefixtures("no_shape_checks")


def noise(shape: tuple[int, ...], seed: int) -> Tensor:
    return torch.tensor(np.random.default_rng(seed).normal(size=shape))


def sentences(table: Tensor, sines: Tensor | None = None) -> list[str]:
    return [one.sentence for one in identify(table, sines).deviations]


@pytest.mark.parametrize("rows", [[44], [0], [63], [28, 59], [3, 4, 5], [0, 13, 26, 39, 52, 63]])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_bad_rows_of_64_are_named_and_the_others_identified(
    rows: list[int], dtype: torch.dtype
) -> None:
    cos, sin = exact(64, 64, 1e4)
    table = beside(sin, cos)
    clean = table.clone()
    table[rows] = noise((len(rows), 64), seed=len(rows))
    found = identify(table.to(dtype))
    assert headline(found) == (
        "Sinusoidal, base 10,000, sine and cosine side by side, from position 0, but 1 thing departs."
    )
    (deviation,) = found.deviations
    assert deviation.kind == "unexplained"
    named = (
        f"{len(rows)} rows (the first is {rows[0]}) do"
        if len(rows) > 5
        else f"Row {rows[0]} does"
        if len(rows) == 1
        else f"Rows {', '.join(map(str, rows[:-1]))} and {rows[-1]} do"
    )
    assert deviation.sentence.startswith(f"{named} not follow the formula (largest difference ")
    assert deviation.sentence.endswith("; all the rest does.")
    # What is said of the whole table is true of the whole table.
    off = (table.to(dtype).double() - clean).abs()
    assert found.largest == pytest.approx(float(off.max()), abs=1e-6)
    assert found.worst[0] == int(off.amax(1).argmax())
    assert found.residual == pytest.approx(
        math.sqrt(float(off.square().sum() / table.to(dtype).double().square().sum())), rel=1e-3
    )


@pytest.mark.parametrize("row", [10, 300])
def test_a_bad_row_hides_neither_another_base_nor_the_start(row: int) -> None:
    cos, sin = (part.float() for part in exact(512, 64, 12_345.6, start=9))
    cos[row] = 0.5
    found = identify(halves(cos), halves(sin))
    assert found.guess is not None
    assert found.guess.start == 9
    assert math.isclose(found.guess.base, 12_345.6, rel_tol=1e-6)
    assert found.config is not None
    assert found.config.kind == "rope"
    assert kinds(found) == {"start", "unexplained"}
    assert f"Row {row} does not follow" in found.deviations[-1].sentence


def test_a_row_repeated_by_mistake_and_a_row_of_another_size_are_named() -> None:
    cos, sin = (part.float() for part in exact(256, 128, 1e4))
    table = torch.cat((sin, cos), 1)
    table[100] = table[101]
    table[200] *= 100
    (said,) = sentences(table)
    assert said.startswith("Rows 100 and 200 do not follow the formula (largest difference ")


def test_a_bad_row_beyond_the_rows_that_are_searched_is_named() -> None:
    cos, sin = (part.float() for part in exact(9_000, 16, 1e4))
    table = beside(sin, cos)
    table[8_500] = noise((16,), 1)
    (said,) = sentences(table)
    assert said.startswith("Row 8,500 does not follow the formula")


def test_a_bad_column_is_named_with_the_part_that_it_stands_in() -> None:
    cos, sin = (part.float() for part in exact(128, 64, 1e4))
    sin[:, 3] = noise((128,), 2).float()
    (said,) = sentences(cos, sin)
    assert said.startswith("Column 3 of the sines does not follow the formula")
    table = beside(sin, cos)
    table[77] = 0.25
    (said,) = sentences(table)
    assert said.startswith("Row 77 and column 6 do not follow the formula")


@pytest.mark.parametrize("where", [(77,), (slice(None), 5)], ids=["row", "column"])
def test_a_bad_row_or_column_hides_no_float32_angles(where: tuple[object, ...]) -> None:
    ladder = torch.exp(torch.arange(0, 64, 2).float() * (-math.log(10_000.0) / 64))
    angles = torch.arange(512).float()[:, None] * ladder
    table = torch.cat((angles.sin(), angles.cos()), 1)
    table[where] = noise(tuple(table[where].shape), 4).float()
    found = identify(table)
    assert [one.kind for one in found.deviations] == ["angles", "unexplained"]
    assert "exponentials of logarithms" in found.deviations[0].sentence
    assert found.deviations[1].sentence.endswith("; all the rest does.")


@pytest.mark.parametrize("bad", [7, 20, 64])
def test_with_more_than_a_tenth_of_its_rows_bad_a_table_is_none_of_these(bad: int) -> None:
    cos, sin = exact(64, 64, 1e4)
    table = beside(sin, cos)
    rows = np.random.default_rng(0).permutation(64)[:bad]
    table[torch.tensor(rows)] = noise((bad, 64), 3)
    found = identify(table.float())
    assert found.guess is None
    assert headline(found).startswith("None of these")


def test_a_table_joined_of_two_that_do_not_continue_is_none_of_these() -> None:
    cos, sin = exact(100, 64, 1e4)
    table = beside(sin, cos)
    found = identify(torch.cat((table[:50], table[20:70])).float())
    assert found.guess is None


@pytest.mark.parametrize("seed", range(3))
def test_a_random_table_with_a_few_rows_of_a_formula_is_none_of_these(seed: int) -> None:
    cos, sin = exact(64, 16, 1e4)
    table = noise((64, 16), seed)
    table[10:30] = beside(sin, cos)[10:30]
    assert identify(table.float()).guess is None


def test_a_row_of_zeros_in_the_middle_departs() -> None:
    table = sinusoidal_table(64, 64)
    table[17] = 0
    found = identify(table)
    assert [(one.kind, one.sentence) for one in found.deviations] == [
        ("zero rows", "Row 17 is all zeros, as that of a padding token may be.")
    ]
    assert headline(found).endswith("but 1 thing departs.")


def test_a_number_that_is_none_is_placed() -> None:
    table = sinusoidal_table(64, 64)
    table[9, 5] = torch.nan
    with pytest.raises(SchemeArgumentError, match="NaN or infinity, first in row 9, column 5"):
        identify(table)
