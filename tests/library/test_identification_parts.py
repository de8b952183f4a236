"""Parts of identification: scaled and partly bad tables, without searches of large ones."""

import math
from typing import Any

import pytest
import torch

from posenc import identification
from posenc.identification.clauses import deviation_sentence
from posenc.identification.columns import ARRANGEMENTS
from posenc.identification.deviations import Alternative, Deviation
from posenc.identification.facts import Size
from posenc.identification.frequency_fit import EXACT, RECIPES, Hypothesis, Precision
from posenc.identification.positions import Cause
from posenc.identification.predict import Allowed, TableRecipe, first_difference
from posenc.identification.scalings import ntk_scalings, scaling_words
from posenc.identification.search import nearest_fit, rounder_bases
from posenc.identification.sentences import fit_sentence
from posenc.identification.table_words import (
    ALSO,
    FAULTS,
    ORDERS,
    alternative_words,
    recipe_words,
)
from posenc.schemes.rope_scaling.sections import RopeSectionsConfig
from tests.library.configs import config_of
from tests.library.small_tables import sinusoidal
from tests.library.tensors import assert_close, random

pytestmark = pytest.mark.usefixtures("no_shape_checks")

identify: Any = identification.identify


def test_larger_base_of_ntk_aware_scaling_is_identified() -> None:
    larger = 1e4 * 8 ** (32 / 30)  # about 91,900
    (scaling,) = ntk_scalings(32, larger, [1e4])
    assert scaling.larger_base == pytest.approx(larger, rel=1e-12)
    assert (scaling.base, scaling.factor) == (1e4, 8)
    assert ntk_scalings(32, 8e4, [1e4]) == []
    assert any(
        math.isclose(scaling.larger_base, tried, rel_tol=1e-12)
        for tried in rounder_bases(1.0001 * larger, 32)
    )


def test_float32_frequencies_are_divided_by_a_whole_factor() -> None:
    arrangement = next(one for one in ARRANGEMENTS if one.order == "s+c")
    columns = arrangement.columns(64)
    rows = torch.arange(1_024, dtype=torch.float64)
    made = RECIPES[0].values(Hypothesis(arrangement, 1e4, scale=1 / 3), rows, columns)
    frequencies = 1.0 / 1e4 ** (torch.arange(0, 64, 2).float() / 64) / 3.0
    angles = rows.float()[:, None] * frequencies
    expected = torch.cat((angles.sin(), angles.cos()), 1).double()
    assert_close(made, expected, rtol=0, atol=2**-23)  # one float32 step; angles reach 341


def test_column_that_is_left_out_of_a_search_has_no_part_in_it() -> None:
    table = sinusoidal(48, 8).double()
    table[:, 3] = random(48, seed=2)
    fit = nearest_fit(table, "table", Precision(torch.float32), [3])
    assert fit.hypothesis.base == 1e4
    assert fit.residual < 1e-6


def test_no_table_has_the_angles_of_positions_past_the_largest_number_of_float16() -> None:
    recipe = TableRecipe(torch.ones(1), torch.tensor([False]), angle=torch.float16)
    places = torch.tensor([65_504, 65_536])  # the second is infinite in float16
    table = torch.full((2, 1), math.cos(65_504.0), dtype=torch.float64)
    difference = first_difference(table, recipe, places, Allowed(0.01))
    assert difference is not None
    assert (difference.first.row, difference.share) == (1, 0.5)


def test_numbers_that_rounded_angles_make_are_not_called_those_of_exact_angles() -> None:
    angles = torch.arange(3_000.0)[:, None] * (1 / 1e4 ** (torch.arange(16) / 16))
    result = identification.identify(angles.cos(), angles.sin())
    assert result.largest == 0
    assert fit_sentence(result).startswith("The formula with float32 angles makes exactly these")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"sections": (24, 20, 20), "grid": 0}, "axes of 24, 20 and 20 pairs"),
        ({"sections": (24, 20, 20), "grid": 0, "interleaved": True},
         "axes of 24, 20 and 20 pairs, assigned in turn"),
        ({}, "axes of 32 and 32 pairs, in a grid of 16 columns"),
    ],
)  # fmt: skip
def test_rope_in_sections_is_described_by_its_axes_and_its_grid(
    fields: dict[str, Any], words: str
) -> None:
    assert scaling_words(RopeSectionsConfig(dim=128, **fields)) == words


def test_every_order_of_columns_and_fault_has_words() -> None:
    named = {(form, order) for form, orders in ORDERS.items() for order in orders}
    assert named == {(one.form, one.order) for one in ARRANGEMENTS}
    assert {*FAULTS} == {one.fault for one in ARRANGEMENTS} - {None}
    assert {*ALSO} == {one.also for one in ARRANGEMENTS} - {None}


def test_ways_of_computing_angles_are_named_by_their_formats() -> None:
    assert [recipe_words(recipe) for recipe in (EXACT, *RECIPES)] == [
        "angles right to the last bit",
        "float32 angles, the frequencies as float32 powers of the base",
        "float32 angles, the frequencies as float32 exponentials of logarithms",
        "float32 angles, the frequencies rounded to float32 once",
        "frequencies kept in bfloat16",
        "frequencies kept in float16",
        "bfloat16 angles",
        "float16 angles",
    ]


@pytest.mark.parametrize(
    ("alternative", "words"),
    [
        (Alternative("scaling", (config_of("rope_linear", dim=16, factor=4.0),)),
         "RoPE linear (position interpolation by 4)"),
        (Alternative("more scalings", (1_200,)), "one of 1,200 other scalings"),
        (Alternative("any base"), "the same with any other base, which one pair does not show"),
        (Alternative("exponent", (1e4, "m/d")), "base 10,000 with the exponent m/d in place of 2m/d"),
        (Alternative("NTK", (config_of("rope_ntk", dim=16, factor=8.0, base=1e4),)),
         "NTK-aware scaling of base 10,000 by 8"),
    ],
)  # fmt: skip
def test_other_description_of_equal_numbers_is_named(alternative: Alternative, words: str) -> None:
    assert alternative_words(alternative) == words


SWAPPED_CACHE = next(one for one in ARRANGEMENTS if one.order == "s+c" and one.fault)


@pytest.mark.parametrize(
    ("word", "values", "sentence"),
    [
        ("order", (SWAPPED_CACHE,),
         "Sines and cosines have changed places (cosines and sines, one of each for a pair)."),
        ("sign", (), "Every sine is negated: the angles have the other sign."),
        ("base", (1e8, 1e4, "4m/d"),
         "Base 100,000,000 is unusual: base 10,000 with the exponent 4m/d in place of 2m/d makes the same "
         "numbers."),
        ("scale", (0.37,), "Every angle is multiplied by 0.37."),
        ("shifted exponent", (0.1, "2(m + 1)/d"),
         "Every angle is multiplied by 0.1, as by the exponent 2(m + 1)/d in place of 2m/d."),
        ("attention factor", (Size("missing", 1.0, 1.2, 1.2, 4),),
         "The attention factor 1.2 is missing, unless scores are multiplied elsewhere."),
        ("size", (2.0,), "Every number is multiplied by 2."),
        ("padding", (1,), "The first row is all zeros, as padding rows are."),
        ("padding", (1_024,), "The first 1,024 rows are all zeros, as padding rows are."),
        ("zero rows", (1, 1, True), "Row 1 is all zeros, as the row of a padding token is."),
        ("zero rows", (3, 5, False),
         "3 rows, the first of them row 5, are all zeros, as the row of a padding token may be."),
        ("positions", (Cause("stuck", 40, (0,)),),
         "From row 40 on, every row stands for position 0, as where each decoding step counts anew."),
        ("start", (2,), "Row 0 stands for position 2, not for 0."),
        ("angles", (RECIPES[5],), "Computed with bfloat16 angles, where float64 would be accurate."),
        ("outliers", ((30,), (), 32, 0.5, True),
         "Row 30 does not follow the formula (largest difference 0.5); all the rest does."),
        ("outliers", ((3, 4), (33,), 32, 0.5, False),
         "Rows 3 and 4 and column 1 of the sines do not follow the formula (largest difference 0.5)."),
        ("outliers", (tuple(range(7, 15)), (), 32, 0.5, True),
         "8 rows (the first is 7) do not follow the formula (largest difference 0.5); all the rest does."),
        ("difference", (False, 0.01, 9, 40, "cosines and sines", 32),
         "It differs from the formula by up to 0.01, most in row 9, column 8 of the sines."),
        ("difference", (True, 0.01, 9, 4, "table", 32),
         "With these angles, it still differs from the formula by up to 0.01, most in row 9, column 4."),
    ],
)  # fmt: skip
def test_deviation_is_a_sentence_with_its_numbers(
    word: str, values: tuple[Any, ...], sentence: str
) -> None:
    assert deviation_sentence(Deviation("unexplained", word, values)) == sentence
