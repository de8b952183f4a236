"""Parts of the search for a table's formula: bad rows, rows at other positions, widths without a config."""

import math
from collections.abc import Iterable
from importlib import import_module
from typing import Any

import pytest
import torch

from posenc import identification, limits
from posenc.identification.clauses import deviation_sentence
from posenc.identification.identify import from_exact, reconstruct
from posenc.identification.positions import UNKNOWN
from posenc.identification.search import nearest_fit
from posenc.identification.sentences import deviation_sentences, headline, record
from posenc.identification.table_words import recipe_words
from tests.library.configs import config_of
from tests.library.scaling_by_hand import by_hand
from tests.library.small_tables import cos_and_sin, halves, side_by_side, sinusoidal
from tests.library.tensors import assert_close
from tests.longer import mostly

pytestmark = pytest.mark.usefixtures("no_shape_checks")

identify: Any = identification.identify


def test_table_wider_than_any_config_has_a_formula_and_no_config() -> None:
    found = identify(sinusoidal(2, limits.MAX_DIM + 2))
    assert (found.config, found.arrangement.scheme) == (None, "sinusoidal")
    assert math.isclose(found.hypothesis.base, 1e4, rel_tol=1e-5)


def test_formula_of_the_rows_before_or_after_a_bad_one_is_found_in_one_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = sinusoidal(64, 4)
    table[30] = 5.0
    fitted: list[int] = []

    def counted(columns: torch.Tensor, *others: Any) -> Any:
        fitted.append(len(columns))
        return nearest_fit(columns, *others)

    # The package has a function of the module's name.
    module = import_module("posenc.identification.identify")
    monkeypatch.setattr(module, "nearest_fit", counted)
    found = identify(table)
    assert len(fitted) == 1
    assert fitted[0] < 64
    assert found.hypothesis.base == 1e4
    assert [deviation_sentence(one)[:25] for one in found.deviations] == [
        "Row 30 does not follow th"
    ]


def rows(*parts: Iterable[int]) -> list[int]:
    return [row for part in parts for row in part]


# The positions of rows, and what the headline says of them.
PLACES: dict[str, tuple[list[int], str]] = {
    "packed documents": (
        rows(range(60), range(40), range(20)),
        "; positions begin again at 0 in row 60 (3 parts), as of packed documents.",
    ),
    "decoding steps that count anew": (
        rows(range(40), [0] * 24),
        "; from row 40 on, every row stands for position 0, as where each decoding step counts anew.",
    ),
    "two rows exchanged": (
        rows(range(5), [9], range(6, 9), [5], range(10, 60)),
        "; rows 5 and 9 have changed places.",
    ),
    "one row of another position": (
        rows([7], range(1, 60)),
        "; row 0 alone stands for another position, 7 in place of 0.",
    ),
    "an eviction": (
        rows(range(60), range(50, 90)),
        "; row 60 stands for position 50: positions go on from the number of rows kept, as after an ",
    ),
}


@pytest.mark.parametrize("case", PLACES)
@pytest.mark.parametrize("form", ["cache", "table"])
def test_rows_at_other_positions_are_named_beside_the_formula(case: str, form: str) -> None:
    places, words = PLACES[case]
    cos, sin = (part.float() for part in cos_and_sin(128, 32, 5e5 if form == "cache" else 1e4))
    parts = (halves(cos), halves(sin)) if form == "cache" else (side_by_side(sin, cos),)
    tables = [part[places] for part in parts]
    found = identify(*tables)
    assert words in headline(found)
    assert found.hypothesis.base == (5e5 if form == "cache" else 1e4)
    assert found.positions.tolist() == places
    assert [one.kind for one in found.deviations] == ["positions"]
    assert deviation_sentences(found) == []
    assert record(found)["start"] == places[0]
    assert from_exact(found, *tables).largest <= 2.0**-23
    assert_close(reconstruct(found, *tables), torch.cat(tables, 1).double(), atol=2.0**-23)


def test_rows_that_stand_for_no_position_are_named_beside_packed_documents() -> None:
    cos, sin = (part.float()[rows(range(60), range(60))] for part in cos_and_sin(60, 32, 1e4))
    cos[70] = 0.3
    found = identify(cos, sin)
    assert found.positions[70] == UNKNOWN
    assert found.positions[71:].tolist() == [*range(11, 60)]
    assert [one.kind for one in found.deviations] == ["positions", "unexplained"]
    assert "Row 70 does not follow the formula" in deviation_sentences(found)[0]


def cosines_and_sines(frequencies: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    angles = torch.arange(512, dtype=torch.float64)[:, None] * frequencies
    return angles.cos().to(dtype), angles.sin().to(dtype)


LINEAR = "RoPE linear (position interpolation by 4)"
SLOW = [
    (name, divisor, times, dtype)
    for name, divisor, times in (("RoPE", 1.0, 2.0), (LINEAR, 4.0, 0.0))
    for dtype in (torch.bfloat16, torch.float16)
]


@pytest.mark.parametrize(("name", "divisor", "times", "dtype"), mostly(SLOW, SLOW[0], SLOW[3]))
def test_slow_pair_that_is_wrong_in_16_bits_is_a_column_that_does_not_follow(
    name: str, divisor: float, times: float, dtype: torch.dtype
) -> None:
    """A sine that is 0 in place of 0.0002 is off by less than the rounding of a cosine near 1."""
    frequencies = 1e6 ** (-torch.arange(32, dtype=torch.float64) / 32) / divisor
    wrong = torch.cat((frequencies[:-1], times * frequencies[-1:]))
    tables = cosines_and_sines(wrong, dtype)
    found = identify(*tables)
    assert headline(found).startswith(f"{name}, base 1,000,000, ")
    exact = (torch.arange(512) * frequencies[-1]).sin()
    off = float((tables[1][:, -1].double() - exact).abs().max())
    assert deviation_sentences(found) == [
        f"Column 31 of the sines does not follow the formula (largest difference {off:.2g}); all the rest "
        "does."
    ]
    assert identify(*cosines_and_sines(frequencies, dtype)).deviations == ()


def test_many_slow_pairs_that_are_wrong_in_16_bits_are_named_by_the_largest_difference() -> None:
    frequencies = 1e7 ** (-torch.arange(8, dtype=torch.float64) / 8)
    tables = cosines_and_sines(torch.cat((frequencies[:6], 2 * frequencies[6:])), torch.bfloat16)
    off = (tables[1][:, 6].double() - (torch.arange(512) * frequencies[6]).sin()).abs()
    assert off.max() < 4 * 2.0**-8  # of a cosine near 1, four roundings
    assert deviation_sentences(identify(*tables)) == [
        f"It differs from the formula by up to {float(off.max()):.2g}, most in row {int(off.argmax())}, "
        "column 6 of the sines."
    ]


SCALINGS = {
    "rope_yarn": {"dim": 64, "base": 1e6, "factor": 4.0, "trained_length": 32_768},
    "rope_llama3": {"dim": 64, "base": 5e5, "factor": 8.0, "trained_length": 8_192},
    "rope_proportional": {"dim": 64, "partial_rotary_factor": 0.5},
}


@pytest.mark.parametrize("kind", mostly(SCALINGS, "rope_llama3"))
def test_float32_angles_of_a_scaled_cache_are_named(kind: str) -> None:
    """As the modules of transformers make a cache: a float32 frequency times a float32 position."""
    config = config_of(kind, layout="half", **SCALINGS[kind])
    frequencies = torch.tensor([float(each) for each in by_hand(config)]).float()
    angles = torch.arange(300.0)[:, None] * frequencies
    size = config.attention_scaling()
    found = identify(halves(size * angles.cos()), halves(size * angles.sin()))
    assert found.config == config
    assert [one.kind for one in found.deviations] == ["angles"]
    assert recipe_words(found.recipe) == "float32 angles, the frequencies rounded to float32 once"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", mostly(SCALINGS, "rope_yarn"))
def test_few_rows_of_16_bits_show_the_scaling(kind: str, dtype: torch.dtype) -> None:
    config = config_of(kind, layout="half", **SCALINGS[kind])
    frequencies = torch.tensor([float(each) for each in by_hand(config)], dtype=torch.float64)
    angles = torch.arange(16)[:, None] * frequencies
    size = config.attention_scaling()
    tables = ((size * part).to(dtype) for part in (halves(angles.cos()), halves(angles.sin())))
    assert identify(*tables).config == config


@pytest.mark.parametrize("factor", [2.0, 3.7, 64.0])
def test_factor_of_position_interpolation_is_named(factor: float) -> None:
    """Every frequency divided by one number (Chen et al. 2023, 2306.15595), which the table tells."""
    frequencies = 1e4 ** (-torch.arange(32, dtype=torch.float64) / 32) / factor
    found = identify(*cosines_and_sines(frequencies, torch.float32))
    assert headline(found).startswith(
        f"RoPE linear (position interpolation by {factor:g}), base 10,000, "
    )
