"""What a table is: right about scheme, order, base, width, format, start and scaling, or none of these."""

import math
import random

import pytest
import torch

from posenc.errors import SchemeArgumentError
from posenc.identification import identify
from posenc.identification.arrangements import ARRANGEMENTS
from posenc.identification.ladders import Guess
from posenc.identification.words import base_words, fit_sentence, headline, record
from posenc.interop.position_tables import minilm_table
from posenc.interop.sources import named_table
from posenc.schemes import SCHEMES
from tests.formula_tables import DTYPES, FORMS, beside, exact, kinds
from tests.longer import mostly

BASES = (100.0, 500.0, 1e3, 1e4, 5e4, 1.5e5, 5e5, 1e6, 1e7, 12_345.6, 777.25, 3_141_592.0)
# Of two pairs the slow one shows no start; of eight rounded rows many starts fit.
WIDTHS = (6, 8, 16, 24, 64, 80, 128, 256, 512, 768)
LENGTHS = (16, 33, 64, 128, 300, 512)
STARTS = (0, 0, 0, 1, 2, 5, 100, 1500)
EACH = 28  # tables of every form: 252 in all

# Hundreds of thousands of calls of one search: checking the shapes of each of them takes as long again,
# and the other tests of this file go through the same search with its shapes checked.
many_searches = pytest.mark.usefixtures("no_shape_checks")


@many_searches
@pytest.mark.parametrize("form", FORMS)
def test_generated_tables_are_told_in_every_respect(form: str) -> None:
    make, scheme, layout = FORMS[form]
    chance = random.Random(form)
    for _ in range(EACH):
        base, width = chance.choice(BASES), chance.choice(WIDTHS)
        rows, start = chance.choice(LENGTHS), chance.choice(STARTS)
        dtype = chance.choice(DTYPES[: 2 if form == "complex cache" else 4])
        if dtype in (torch.bfloat16, torch.float16):
            start = min(start, 5)  # a far start takes more digits than a few such rows have
        case = f"{form} {rows}x{width} base {base:g} from {start} in {dtype}"
        cos, sin = (part.to(dtype) for part in exact(rows, width, base, start))
        found = identify(*make(cos, sin))
        assert found.guess is not None, case
        assert found.arrangement is not None
        assert (found.arrangement.scheme, found.arrangement.layout) == (scheme, layout), case
        assert found.config is not None, case
        assert found.config.kind == scheme, case
        assert found.config.dim == width, case  # type: ignore[attr-defined]
        assert found.guess.start == start, case
        assert kinds(found) == ({"start"} if start else set()), case
        if not math.isinf(found.base_within):
            assert math.isclose(found.guess.base, base, rel_tol=2 * found.base_within + 1e-12), case
        # One rounding, and the last digits of a base that was measured.
        assert found.largest <= 2.0 ** -{torch.bfloat16: 7, torch.float16: 10}.get(dtype, 22), case


FAR = (4_095, 4_096, 5_000, 30_000, 65_536, 131_071, 131_072, 500_000, 1_000_000, 1_048_576)


@many_searches
@pytest.mark.parametrize("form", FORMS)
def test_far_starts_are_told(form: str) -> None:
    make, scheme, layout = FORMS[form]
    chance = random.Random(f"far {form}")
    for _ in range(8):
        base, width = chance.choice(BASES), chance.choice((8, 16, 64, 128, 512))
        rows, start = chance.choice((33, 128, 512)), chance.choice(FAR)
        dtype = chance.choice(DTYPES[:2])
        case = f"{form} {rows}x{width} base {base:g} from {start} in {dtype}"
        found = identify(*make(*(part.to(dtype) for part in exact(rows, width, base, start))))
        assert found.guess is not None, case
        assert found.guess.start == start, case
        assert found.arrangement is not None
        assert (found.arrangement.scheme, found.arrangement.layout) == (scheme, layout), case
        assert kinds(found) == {"start"}, case
        assert math.isclose(found.guess.base, base, rel_tol=2 * found.base_within + 1e-12), case


@pytest.mark.parametrize("start", [1, 100_000, 131_072])
@pytest.mark.parametrize("dtype", DTYPES[2:])
def test_far_starts_of_rough_numbers_are_told(start: int, dtype: torch.dtype) -> None:
    for base, width in ((1e4, 64), (5e5, 128), (100.0, 64), (12_345.6, 128)):
        cos, sin = (part.to(dtype) for part in exact(256, width, base, start))
        for given in ((cos, sin), (beside(sin, cos),)):
            found = identify(*given)
            assert found.guess is not None
            assert found.guess.start == start
            assert math.isclose(found.guess.base, base, rel_tol=1e-3 if base == 12_345.6 else 1e-12)
            assert kinds(found) == {"start"}


def test_the_start_of_a_scaled_cache_may_be_far() -> None:
    config = SCHEMES["rope_llama3"](dim=128, base=5e5)  # type: ignore[call-arg]
    ladder = config.frequencies().phases.inv_freq  # type: ignore[attr-defined]
    angles = (torch.arange(1_024, dtype=torch.float64)[:, None] + 70_000) * ladder
    found = identify(angles.cos().float(), angles.sin().float())
    assert found.config == config.replace(layout="interleaved")
    assert found.guess is not None
    assert found.guess.start == 70_000


NEGATED = {
    "Every sine is negated: angles run the other way.": (1, -1),
    "Every cosine is negated.": (-1, 1),
    "Every number is negated.": (-1, -1),
}


@many_searches
@pytest.mark.parametrize("sentence", NEGATED)
@pytest.mark.parametrize("form", FORMS)
def test_flipped_signs_are_named(form: str, sentence: str) -> None:
    make, scheme, layout = FORMS[form]
    chance = random.Random(f"{form} {sentence}")
    alone = {"cosines": 0, "sines": 1}.get(form.split()[0])
    of_cosines, of_sines = NEGATED[sentence]
    for start in (0, 20_000):
        base, width = chance.choice(BASES), chance.choice((8, 16, 64, 128))
        dtype = chance.choice(DTYPES[:2])
        cos, sin = (part.to(dtype) for part in exact(128, width, base, start))
        found = identify(*make(of_cosines * cos, of_sines * sin))
        case = f"{form} 128x{width} base {base:g} from {start} in {dtype}: {headline(found)}"
        assert found.guess is not None, case
        assert found.guess.start == start, case
        assert found.arrangement is not None
        assert (found.arrangement.scheme, found.arrangement.layout) == (scheme, layout), case
        said = [one.sentence for one in found.deviations if one.kind == "sign"]
        if alone is None:
            assert said == [sentence], case
        else:
            negated = (of_cosines, of_sines)[alone] == -1
            assert said == (["Every number is negated."] if negated else []), case
        assert kinds(found) <= {"sign", "start"}, case
        assert found.largest < 1e-6, case


@pytest.mark.parametrize("kind", ["rope_llama3", "rope_yarn"])
def test_flipped_signs_and_sizes_of_scaled_caches_are_told(kind: str) -> None:
    config = SCHEMES[kind](dim=128, base=5e5)
    angles = (
        torch.arange(4_096, dtype=torch.float64)[:, None] * config.frequencies().phases.inv_freq
    )  # type: ignore[attr-defined]
    size = config.attention_scaling()  # type: ignore[attr-defined]
    found = identify((size * angles.cos()).float(), (-size * angles.sin()).float())
    assert found.config is not None
    assert found.config.kind == kind
    assert kinds(found) == {"sign"}
    tutorial = -3.5 * beside(*reversed(exact(200, 64, 1e4)))
    both = identify(tutorial.float())
    assert kinds(both) == {"sign", "size"}
    assert [one.sentence for one in both.deviations] == [
        "Every number is negated.", "Every number is multiplied by 3.5.",
    ]  # fmt: skip


def test_a_base_is_told_as_far_as_the_numbers_show_it() -> None:
    cos, sin = exact(64, 64, 12_345.6)
    full, rough = identify(beside(sin, cos)), identify(beside(sin, cos).bfloat16())
    assert full.base_within < 1e-12 < rough.base_within
    assert base_words(full) == "12,345.6"
    assert abs(float(base_words(rough).replace(",", "")) / 12_345.6 - 1) < 0.01
    one_pair = identify(beside(*reversed(exact(64, 2, 777.0))))
    assert math.isinf(one_pair.base_within)
    assert base_words(one_pair) == "of any size"


def test_the_worked_example_of_four_positions_is_enough() -> None:
    cos, sin = exact(4, 8, 10_000.0)
    found = identify(beside(sin, cos).float())
    assert found.config == SCHEMES["sinusoidal"](dim=8)
    assert headline(found) == (
        "Sinusoidal, base 10,000, sine and cosine side by side, from position 0."
    )


# Scalings of RoPE -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "config",
    [
        SCHEMES["rope_linear"](dim=64, factor=4.0),  # type: ignore[call-arg]
        SCHEMES["rope_linear"](dim=128, base=1e6, factor=8.0),  # type: ignore[call-arg]
        SCHEMES["rope_llama3"](dim=128, base=5e5),  # type: ignore[call-arg]
        SCHEMES["rope_llama3"](dim=64, base=5e5, factor=32.0),  # type: ignore[call-arg]
        SCHEMES["rope_yarn"](dim=128, base=1e6, factor=4.0, trained_length=32_768),  # type: ignore[call-arg]
        SCHEMES["rope_yarn"](dim=64, base=1.5e5, factor=32.0, trained_length=4_096, truncate=False),  # type: ignore[call-arg]
        SCHEMES["rope_proportional"](dim=64),  # type: ignore[call-arg]
        SCHEMES["rope_proportional"](dim=256, base=1e6, partial_rotary_factor=0.25),  # type: ignore[call-arg]
    ],
    ids=lambda config: f"{config.kind}-{config.dim}",
)
def test_the_caches_of_scaled_models_are_told(config) -> None:  # type: ignore[no-untyped-def]
    rates = config.frequencies()
    ladder = rates.phases.inv_freq
    angles = torch.arange(4_096, dtype=torch.float64)[:, None] * ladder
    size = rates.attention_factor
    found = identify((size * angles.cos()).float(), (size * angles.sin()).float())
    assert found.config is not None
    assert kinds(found) == set()
    assert found.config.kind == config.kind
    told = found.config.frequencies()  # type: ignore[attr-defined]
    torch.testing.assert_close(told.phases.inv_freq, ladder, rtol=1e-6, atol=0)
    assert math.isclose(told.attention_factor, size, rel_tol=1e-6)


@pytest.mark.parametrize("factor", [4, 32])
def test_ntk_aware_scaling_is_a_larger_base_and_said_to_be_either(factor: int) -> None:
    config = SCHEMES["rope_ntk"](dim=64, factor=float(factor))  # type: ignore[call-arg]
    angles = torch.arange(512, dtype=torch.float64)[:, None] * config.frequencies().phases.inv_freq  # type: ignore[attr-defined]
    found = identify(angles.cos().float(), angles.sin().float())
    assert found.config is not None
    assert found.config.kind == "rope"
    assert f"NTK-aware scaling of base 10,000 by {factor}" in found.also


# None of these ----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(16, 16), (24, 8), (512, 64), (128, 128), (40, 512)])
@pytest.mark.parametrize("seed", range(4))
def test_random_tables_are_none_of_these(shape: tuple[int, int], seed: int) -> None:
    chance = torch.Generator().manual_seed(seed)
    for table in (
        torch.randn(shape, generator=chance),
        torch.rand(shape, generator=chance) * 2 - 1,
    ):
        found = identify(table)
        assert found.config is None
        assert found.guess is None
        assert headline(found).startswith("None of these")
        assert "2%" in fit_sentence(found)
        assert record(found)["config"] is None


def test_trained_tables_are_none_of_these() -> None:
    minilm = minilm_table()
    assert minilm is not None
    for table in (minilm.table, named_table("trained").table):
        assert identify(table).guess is None
    assert identify(torch.linspace(-1, 1, 64)[:, None].expand(64, 8).clone()).guess is None
    assert identify(torch.zeros(64, 8)).guess is None
    assert identify(torch.ones(64, 8)).guess is None


def test_what_is_no_table_is_refused_in_one_sentence() -> None:
    good = torch.zeros(4, 4)
    for given, said in (
        ((torch.zeros(4),), "rows by columns"),
        ((torch.zeros(1, 4),), "2 rows or more"),
        ((torch.zeros(4, 4, dtype=torch.int64),), "floating-point"),
        ((torch.full((4, 4), math.nan),), "finite"),
        ((good, torch.zeros(4, 6)), "one shape"),
        ((torch.complex(good, good), good), "has its sines in it"),
    ):
        with pytest.raises(SchemeArgumentError, match=said):
            identify(*given)  # type: ignore[arg-type]


@many_searches
@pytest.mark.parametrize("noise", mostly([1e-4, 1e-3, 1e-2], 1e-3))
def test_a_rough_cache_of_any_order_is_answered(noise: float) -> None:
    """Every order of columns goes through the whole search, also those that no scaling can have."""
    chance = torch.Generator().manual_seed(0)
    for arrangement in ARRANGEMENTS:
        guess = Guess(arrangement, 10_000.0)
        columns = guess.values(torch.arange(128, dtype=torch.float64), arrangement.columns(16))
        rough = columns + noise * torch.randn(columns.shape, generator=chance, dtype=torch.float64)
        halves_of = rough.chunk(2, 1) if arrangement.form == "cosines and sines" else (rough,)
        found = identify(*halves_of)
        assert found.guess is not None, arrangement.name
        assert math.isclose(found.guess.base, 10_000.0, rel_tol=0.05), arrangement.name


def test_numbers_beyond_all_sines_are_refused_or_none_of_these() -> None:
    table = torch.randn(16, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with pytest.raises(SchemeArgumentError, match="up to 1e\\+30"):
        identify(table * 1e160)
    tiny = identify(table * 1e-200)
    assert tiny.guess is None
    assert headline(tiny).endswith("than 100% of its size.")
