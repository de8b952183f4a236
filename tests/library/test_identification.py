"""Identified tables: scheme, order of columns, base, start and scaling."""

import math
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from posenc import identification
from posenc.checkpoints.sources import named_table
from posenc.errors import SchemeArgumentError
from posenc.identification import Identification
from posenc.identification.clauses import deviation_sentence
from posenc.identification.identify import from_exact, reconstruct
from posenc.identification.sentences import (
    alternative_sentences,
    base_words,
    fit_sentence,
    headline,
    record,
)
from posenc.identification.table_words import recipe_words
from posenc.schemes.rope import RopeConfig
from tests.library.configs import config_of
from tests.library.small_tables import cos_and_sin, halves, neighbours, side_by_side, sinusoidal
from tests.library.tensors import assert_close, random
from tests.longer import mostly

# A search makes hundreds of thousands of calls; checking the shapes of each takes as long again.
pytestmark = pytest.mark.usefixtures("no_shape_checks")

identify: Any = identification.identify
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)

# How code keeps cosines and sines, the scheme that it is for, and its layout where the form shows it.
FORMS: dict[str, tuple[Callable[[Tensor, Tensor], tuple[Tensor, ...]], str, str | None]] = {
    "sinusoidal": (lambda c, s: (side_by_side(s, c),), "sinusoidal", "interleaved"),
    "sinusoidal in halves": (lambda c, s: (torch.cat((s, c), 1),), "sinusoidal", "half"),
    "cache in halves": (lambda c, s: (halves(c), halves(s)), "rope", "half"),
    "cache of neighbours": (lambda c, s: (neighbours(c), neighbours(s)), "rope", "interleaved"),
    "cache of pairs": (lambda c, s: (c, s), "rope", None),
    "cosines, then sines": (lambda c, s: (torch.cat((c, s), 1),), "rope", None),
    "complex cache": (lambda c, s: (torch.complex(c, s),), "rope", None),
    "cosines in halves": (lambda c, s: (halves(c),), "rope", "half"),
    "cosines of neighbours": (lambda c, s: (neighbours(c),), "rope", "interleaved"),
    "sines of pairs": (lambda c, s: (s,), "rope", None),
}


def kinds(found: Identification) -> list[str]:
    return [deviation.kind for deviation in found.deviations]


def sentences(found: Identification) -> str:
    return " ".join(deviation_sentence(deviation) for deviation in found.deviations)


BASES = (100.0, 500.0, 1e3, 1e4, 5e4, 1.5e5, 5e5, 1e6, 1e7, 12_345.6, 777.25, 3_141_592.0)
WIDTHS = (6, 8, 16, 24, 64, 80, 128, 256, 512, 768)
LAST_DIGITS = 2.0**-22  # sines of other code, or of other lanes of a processor, differ by it


def check_identified(
    form: str, rows: int, width: int, base: float, start: int, dtype: torch.dtype, sign: int = 1
) -> None:
    make, scheme, layout = FORMS[form]
    cos, sin = (part.to(dtype) for part in cos_and_sin(rows, width, base, start))
    found = identify(*make(cos, sign * sin))
    case = f"{form} {rows}x{width} base {base:g} from {start} in {dtype}: {headline(found)}"
    assert found.hypothesis.start == start, case
    assert (found.arrangement.scheme, found.arrangement.layout) == (scheme, layout), case
    if not math.isinf(found.base_within):
        assert math.isclose(found.hypothesis.base, base, rel_tol=2 * found.base_within + 1e-12), (
            case
        )
    # One rounding of the numbers, and the last digits of a base that was measured.
    least = {torch.bfloat16: 7, torch.float16: 10}.get(dtype, 20 if sign < 0 else 22)
    assert found.largest <= 2.0**-least, case
    assert kinds(found) == ["sign"] * (sign < 0) + ["start"] * bool(start), case
    assert sign > 0 or "Every sine is negated" in sentences(found), case
    assert (found.config.kind, getattr(found.config, "dim", None)) == (scheme, width), case


@pytest.mark.parametrize(
    "form", mostly(FORMS, "sinusoidal", "sinusoidal in halves", "cache in halves", "sines of pairs")
)
def test_table_in_any_form_is_identified(form: str) -> None:
    check_identified(form, 33, 16, 12_345.6, 5, torch.float32)


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
def test_random_tables_in_any_form_are_identified(form: str) -> None:
    chance = Random(form)
    dtypes = DTYPES[: 2 if form == "complex cache" else 4]
    for _ in range(14):
        dtype = chance.choice(dtypes)
        start = chance.choice((0, 0, 0, 1, 2, 5, 100, 1500))
        if dtype in (torch.bfloat16, torch.float16):
            start = min(start, 5)  # a far start takes more digits than a few such rows have
        rows = chance.choice((16, 33, 64, 128, 300, 512))
        check_identified(form, rows, chance.choice(WIDTHS), chance.choice(BASES), start, dtype)
    if not form.startswith(("cosines in", "cosines of", "sines of")):
        for start in (0, 1_000):
            width, dtype = chance.choice((8, 16, 64, 128)), chance.choice(DTYPES[:2])
            check_identified(form, 128, width, chance.choice(BASES), start, dtype, -1)


STARTS = (2_049, 2_050, 4_095, 10_000, 131_072, 1_000_001)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("form", "start"),
    mostly(
        [(form, start) for form in FORMS for start in STARTS],
        ("sinusoidal", 2_049), ("cache of pairs", 2_050), ("cache in halves", 131_072),
        ("cosines, then sines", 10_000),
    ),
)  # fmt: skip
def test_late_first_position_is_no_scale(form: str, start: int, dtype: torch.dtype) -> None:
    """Rows from 2,049 on are nearly those from 2,048 on with every angle multiplied by 1.0005."""
    if form.endswith(("in halves", "of neighbours", "of pairs")) and form.startswith(
        ("cos", "sines")
    ):
        start = min(start, 10_000)  # of cosines alone, slow pairs show no position
    if form == "complex cache":
        dtype = torch.float32
    check_identified(form, 128, 64, 1e4, start, dtype)


def test_negated_sines_are_named() -> None:
    check_identified("sinusoidal", 64, 16, 1e4, 1_000, torch.float64, -1)


@pytest.mark.parametrize(
    ("base", "width"), [(23.545943944, 1_024), (711.6, 256), (12_345.678, 128)]
)
def test_error_of_a_base_found_from_float32_frequencies_is_below_base_within(
    base: float, width: int
) -> None:
    divisors = torch.exp(torch.arange(0, width, 2).float() * (-math.log(base) / width))
    angles = torch.arange(300).float()[:, None] * divisors
    found = identify(torch.stack((angles.sin(), angles.cos()), -1).flatten(1))
    assert abs(found.hypothesis.base / base - 1) < found.base_within < 1e-6


def test_base_is_given_as_far_as_the_numbers_show_it() -> None:
    table = side_by_side(*cos_and_sin(64, 64, 12_345.6)[::-1])
    full, rounded = identify(table), identify(table.bfloat16())
    assert full.base_within < 1e-12 < rounded.base_within
    assert base_words(full) == "12,345.6"
    assert abs(float(base_words(rounded).replace(",", "")) / 12_345.6 - 1) < 0.01
    one_pair = identify(sinusoidal(64, 2, 777.0))
    assert math.isinf(one_pair.base_within)
    assert base_words(one_pair) == "of any size"


SCALED: dict[str, tuple[str, int, int, dict[str, Any]]] = {  # kind, rows, start, fields
    "linear": ("rope_linear", 128, 0, {"dim": 16, "factor": 4.0}),
    "llama3": ("rope_llama3", 1_024, 0, {"dim": 128, "base": 5e5}),
    "yarn": ("rope_yarn", 1_024, 700, {"dim": 64, "base": 1.5e5, "factor": 32.0,
                                       "trained_length": 4_096, "truncate": False}),
    "proportional": ("rope_proportional", 64, 0, {"dim": 32}),
}  # fmt: skip


@pytest.mark.parametrize("name", mostly(SCALED, "proportional"))
def test_scaled_cache_is_identified(name: str) -> None:
    kind, rows, start, fields = SCALED[name]
    config = config_of(kind, **fields)
    assert isinstance(config, RopeConfig)
    expected, size = config.frequencies().inv_freq, config.attention_scaling()
    positions = torch.arange(rows, dtype=torch.float64) + start
    angles = positions[:, None] * expected
    negated = name == "yarn"
    sin = -angles.sin() if negated else angles.sin()
    found = identify((size * angles.cos()).float(), (size * sin).float())
    assert kinds(found) == ["sign"] * negated + ["start"] * bool(start)
    assert isinstance(found.config, RopeConfig)
    assert found.config.kind == kind
    assert found.hypothesis.start == start
    assert_close(found.config.frequencies().inv_freq, expected, rtol=1e-6, atol=0)
    assert math.isclose(found.config.attention_scaling(), size, rel_tol=1e-6)


ZEROS = torch.zeros(4, 4)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((torch.zeros(4),), "rows by columns"),
        ((torch.zeros(1, 4),), "2 rows or more"),
        ((torch.zeros(4, 4, dtype=torch.int64),), "floating-point"),
        ((torch.full((4, 4), math.nan),), "NaN or infinity, first in row 0, column 0"),
        ((torch.eye(4, dtype=torch.float64) * 1e160,), r"up to 1e\+30"),
        ((ZEROS, torch.zeros(4, 6)), "one shape"),
        ((torch.complex(ZEROS, ZEROS), ZEROS), "has its sines in it"),
    ],
)
def test_input_that_is_no_table_is_refused(given: tuple[Tensor, ...], message: str) -> None:
    with pytest.raises(SchemeArgumentError, match=message):
        identify(*given)


EXPONENTS = {  # of 1/base, by pair m of d/2
    "m/d": lambda m, d: m / d,
    "4m/d": lambda m, d: 4 * m / d,
    "2m/(d - 2)": lambda m, d: 2 * m / (d - 2),
    "2m/(d - 1)": lambda m, d: 2 * m / (d - 1),
    "2(m + 1)/d": lambda m, d: 2 * (m + 1) / d,
    "(2m + 1)/d": lambda m, d: (2 * m + 1) / d,
}


@pytest.mark.parametrize("exponent", mostly(EXPONENTS, "m/d", "2(m + 1)/d", "2m/(d - 2)"))
def test_other_exponent_is_named(exponent: str) -> None:
    m = np.arange(16, dtype=np.longdouble)
    cos, sin = cos_and_sin(100, 32, 1e4, exponents=EXPONENTS[exponent](m, np.longdouble(32)))
    found = identify(side_by_side(sin, cos).float())
    if exponent in ("m/d", "4m/d"):  # also usual bases, 100 and 1e8
        text = " ".join((sentences(found), *alternative_sentences(found)))
        assert f"base 10,000 with the exponent {exponent} in place of 2m/d" in text
    else:
        assert kinds(found) == ["exponent"]
        assert f"the exponent {exponent} in place of 2m/d" in sentences(found)
    if exponent == "2(m + 1)/d":
        also = identify(cos.float(), sin.float()).also
        assert any(one.word == "exponent" and exponent in one.values for one in also)


def test_base_near_a_usual_one_is_not_called_another_exponent() -> None:
    found = identify(sinusoidal(512, 64, 10_001.0))  # 10,001 is not 100 squared
    assert math.isclose(found.hypothesis.base, 10_001.0, rel_tol=1e-9)
    assert kinds(found) == []
    assert not any(one.word == "exponent" for one in found.also)


def test_tensor2tensor_frequencies_are_named_in_the_orders_that_are_published() -> None:
    exponents = np.arange(16, dtype=np.longdouble) / 15  # get_timing_signal_1d, for 32 columns
    cos, sin = cos_and_sin(100, 32, 1e4, exponents=exponents)
    usual, flipped = (identify(torch.cat(p, 1).float()) for p in ((sin, cos), (cos, sin)))
    assert "Tensor2Tensor" in headline(usual)
    assert "base 10,000 with the exponent 2m/(d - 2)" in headline(usual)
    other_base = 1e4 ** (32 / 30)  # the same numbers by the exponent of Vaswani et al.
    assert alternative_sentences(usual) == [
        f"It may also be base {other_base:,.6g} with the exponent 2m/d of Vaswani et al. 2017."
    ]
    assert record(usual)["base"] == pytest.approx(other_base, rel=1e-9)
    assert headline(flipped).startswith("Tensor2Tensor's sinusoidal, cosines first")
    assert kinds(usual) == kinds(flipped) == []


def test_cosines_before_sines_are_a_rope_cache_or_a_timestep_embedding() -> None:
    for base, start, also in ((5e5, 7, ", base 500,000"), (1e4, 0, " or timestep embedding")):
        found = identify(torch.cat(cos_and_sin(128, 16, base, start), 1).float())
        assert headline(found).startswith(f"RoPE cache in one tensor (as in vLLM){also}")
        assert found.config == config_of("rope", dim=16, base=base)
        assert kinds(found) == ["start"] * bool(start)
        assert record(found)["layout"] is None  # each frequency stands once
        assert alternative_sentences(found) == [
            "It may also be a sinusoidal table whose sines and cosines have changed places."
        ]


def test_repeated_cache_in_one_tensor_is_identified() -> None:
    cos, sin = (part.float() for part in cos_and_sin(100, 32, 5e5))
    for parts, first, layout in (
        ((halves(cos), halves(sin)), "cosines", "half"),
        ((neighbours(sin), neighbours(cos)), "sines", "interleaved"),
    ):
        found = identify(torch.cat(parts, 1))
        assert found.config == config_of("rope", dim=32, base=5e5, layout=layout)
        assert kinds(found) == []
        assert f"{first}, then " in headline(found)
        assert "repeated, in one tensor" in headline(found)


def test_both_uses_of_equal_numbers_are_named() -> None:
    """A cache in one tensor has the numbers of a sinusoidal table, in an order of its own."""
    cos, sin = (part.float() for part in cos_and_sin(64, 32, 5e5))
    swapped = "or a sinusoidal table whose sines and cosines have changed places"
    for table, kind, other in (
        (side_by_side(cos, sin), "rope", swapped),
        (torch.cat((cos, sin), 1), "rope", swapped),
        (torch.cat((sin, cos), 1), "sinusoidal", "or a rotary cache in one tensor, sines first"),
    ):
        found = identify(table)
        assert found.config is not None
        assert found.config.kind == kind
        assert kinds(found) == []
        assert other in headline(found)


def test_swapped_sines_and_cosines_and_wrong_pairs_are_named() -> None:
    cos, sin = (part.float() for part in cos_and_sin(64, 16, 1e4))
    found = identify(halves(sin), halves(cos))
    assert (kinds(found), found.config) == (["swapped"], None)
    found = identify(halves(cos), neighbours(sin))
    assert kinds(found) == ["wrong pairs"]
    assert math.isclose(found.hypothesis.base, 1e4, rel_tol=1e-5)


def test_table_is_made_again_with_its_padding_and_start() -> None:
    table = torch.cat((torch.zeros(3, 16), sinusoidal(40, 16, 1e4, start=3))).double()
    found = identify(table)
    assert (kinds(found), found.padding, record(found)["start"]) == (["padding"], 3, 0)
    assert_close(reconstruct(found, table), table, atol=2.0**-24)
    table[20, 5] += 1e-3
    exact = reconstruct(found, table)
    differences = from_exact(found, table)
    assert differences.worst == (20, 5)
    assert differences.largest == pytest.approx(1e-3, rel=1e-3)
    assert_close(differences.by_column, (exact - table).abs().amax(0), atol=1e-15)
    assert_close(reconstruct(found, table, rows=7), exact[:7])


def test_rows_of_zeros_and_size_are_named() -> None:
    table = sinusoidal(64, 16)
    table[[17, 30]] = 0
    found = identify(table)
    assert kinds(found) == ["zero rows"]
    assert "2 rows, the first of them row 17, are all zeros" in sentences(found)
    assert headline(found).endswith("; 1 deviation found.")
    found = identify(3.5 * sinusoidal(32, 8))
    assert kinds(found) == ["size"]
    assert "Every number is multiplied by 3.5." in sentences(found)
    assert math.isclose(found.hypothesis.size, 3.5, rel_tol=1e-6)


POWERS, STEPS = 1.0 / 1e4 ** (torch.arange(0, 16, 2).float() / 16), torch.arange(300.0)
EXPONENTIALS = torch.exp(torch.arange(0, 16, 2).float() * (-math.log(1e4) / 16))
ONCE = (1.0 / 1e4 ** (torch.arange(0, 16, 2).double() / 16)).float()
ANGLES = {  # what is said of them
    "powers": STEPS[:, None] * POWERS,
    "exponentials": STEPS[:, None] * EXPONENTIALS,
    "once": STEPS[:, None] * ONCE,
    "kept in bfloat16": STEPS[:, None] * POWERS.bfloat16().float(),
    "kept in float16": STEPS[:, None] * POWERS.half().float(),
    "bfloat16 angles": STEPS.bfloat16()[:, None] * POWERS.bfloat16(),
    "float16 angles": STEPS.half()[:, None] * POWERS.half(),
}


@pytest.mark.long
@pytest.mark.parametrize("words", ANGLES)
def test_rounded_frequencies_and_angles_are_named(words: str) -> None:
    angles = ANGLES[words]
    found = identify(angles.cos(), angles.sin())
    assert kinds(found) == ["angles"]
    assert words in f"{recipe_words(found.recipe)} {sentences(found)}"
    assert found.hypothesis.base == 1e4
    assert found.largest <= LAST_DIGITS
    exact = torch.cat(cos_and_sin(300, 16, 1e4), 1)
    assert_close(reconstruct(found, angles.cos(), angles.sin()), exact, atol=1e-14)


@pytest.mark.parametrize(
    ("rows", "named"), [([44], "Row 44 does"), ([28, 59], "Rows 28 and 59 do")]
)
def test_bad_rows_are_named_and_the_others_are_identified(rows: list[int], named: str) -> None:
    table = sinusoidal(64, 8)
    clean = table.double()
    table[rows] = random(len(rows), 8, seed=len(rows)).float()
    found = identify(table)
    assert headline(found).startswith("Sinusoidal, base 10,000, sine and cosine side by side")
    assert kinds(found) == ["unexplained"]
    assert sentences(found).startswith(f"{named} not follow the formula")
    # Numbers of the whole table are about the whole table.
    difference = (table.double() - clean).abs()
    assert found.largest == pytest.approx(float(difference.max()), abs=1e-6)
    assert found.worst[0] == int(difference.amax(1).argmax())
    residual = difference.square().sum() / table.double().square().sum()
    assert found.residual == pytest.approx(math.sqrt(float(residual)), rel=1e-3)


@pytest.mark.long
def test_bad_rows_and_columns_hide_no_float32_angles() -> None:
    cos, sin = (part.float() for part in cos_and_sin(64, 32, 1e4))
    sin[:, 3] = random(64, seed=2).float()
    assert "Column 3 of the sines does not follow" in sentences(identify(cos, sin))
    table = side_by_side(sin, cos)
    table[47] = 0.25
    assert "Row 47 and column 6 do not follow the formula" in sentences(identify(table))
    angles = ANGLES["exponentials"]
    table = torch.cat((angles.sin(), angles.cos()), 1)
    table[77] = 0.25
    found = identify(table)
    assert kinds(found) == ["angles", "unexplained"]
    assert "exponentials of logarithms" in sentences(found)


def test_table_with_more_than_a_tenth_of_bad_rows_is_none_of_these() -> None:
    table = sinusoidal(64, 8)
    table[[2, 7, 16, 28, 29, 41, 55]] = random(7, 8, seed=3).float()
    assert identify(table).hypothesis is None


OTHERS = {
    "normal": random(24, 8),
    "zeros": torch.zeros(64, 8),
    "ones": torch.ones(64, 8),
    "two rows before zeros": torch.cat((random(2, 8), torch.zeros(62, 8))),
}


@pytest.mark.parametrize("name", mostly((*OTHERS, "trained"), "zeros", "two rows before zeros"))
def test_other_table_is_none_of_these(name: str) -> None:
    table = OTHERS[name] if name in OTHERS else named_table(name).table
    found = identify(table)
    assert (found.config, found.hypothesis, record(found)["config"]) == (None, None, None)
    assert headline(found).startswith("No known formula")
    constant = {"zeros": "0", "ones": "1"}.get(name)
    said = constant is not None and f"every number of this table is {constant}." in headline(found)
    assert said == (constant is not None)
    assert "2%" in fit_sentence(found)
    with pytest.raises(SchemeArgumentError, match="No formula"):
        reconstruct(found, table)
