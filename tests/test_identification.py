"""What a table is: right about scheme, order, base, width, format and start, and about every mistake."""

import math
import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from posenc.errors import SchemeArgumentError
from posenc.identification import Identification, identify
from posenc.identification.arrangements import ARRANGEMENTS
from posenc.identification.ladders import Guess
from posenc.identification.made import made
from posenc.identification.words import base_words, fit_sentence, headline, record
from posenc.interop.position_tables import minilm_table
from posenc.interop.sources import named_table
from posenc.schemes import SCHEMES
from tests.longer import mostly

BASES = (100.0, 500.0, 1e3, 1e4, 5e4, 1.5e5, 5e5, 1e6, 1e7, 12_345.6, 777.25, 3_141_592.0)
# Of two pairs the slow one shows no start; of eight rounded rows many starts fit.
WIDTHS = (6, 8, 16, 24, 64, 80, 128, 256, 512, 768)
LENGTHS = (16, 33, 64, 128, 300, 512)
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
STARTS = (0, 0, 0, 1, 2, 5, 100, 1500)
EACH = 28  # tables of every form: 252 in all

# Hundreds of thousands of calls of one search: checking the shapes of each of them takes as long again,
# and the other tests of this file go through the same search with its shapes checked.
many_searches = pytest.mark.usefixtures("no_shape_checks")


def exact(rows: int, width: int, base: float, start: int = 0) -> tuple[Tensor, Tensor]:
    """Cosines and sines (rows, pairs) by a formula of NumPy's own, independent of the library."""
    ladder = np.power(np.longdouble(base), -np.arange(0, width, 2, dtype=np.longdouble) / width)
    angles = np.arange(start, start + rows, dtype=np.longdouble)[:, None] * ladder
    return torch.tensor(np.cos(angles).astype(float)), torch.tensor(np.sin(angles).astype(float))


def beside(first: Tensor, second: Tensor) -> Tensor:
    return torch.stack((first, second), -1).flatten(1)


def halves(x: Tensor) -> Tensor:
    return torch.cat((x, x), 1)


def neighbours(x: Tensor) -> Tensor:
    return x.repeat_interleave(2, 1)


FORMS: dict[str, tuple[Callable[[Tensor, Tensor], tuple[Tensor, ...]], str, str | None]] = {
    "sinusoidal": (lambda c, s: (beside(s, c),), "sinusoidal", "interleaved"),
    "sinusoidal in halves": (lambda c, s: (torch.cat((s, c), 1),), "sinusoidal", "half"),
    "cache in halves": (lambda c, s: (halves(c), halves(s)), "rope", "half"),
    "cache of neighbours": (lambda c, s: (neighbours(c), neighbours(s)), "rope", "interleaved"),
    "cache of pairs": (lambda c, s: (c, s), "rope", None),
    "complex cache": (lambda c, s: (torch.complex(c, s),), "rope", None),
    "cosines in halves": (lambda c, s: (halves(c),), "rope", "half"),
    "cosines of neighbours": (lambda c, s: (neighbours(c),), "rope", "interleaved"),
    "sines of pairs": (lambda c, s: (s,), "rope", None),
}


def kinds(found: Identification) -> set[str]:
    return {one.kind for one in found.deviations}


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


# Mistakes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", [1e4, 5e5, 1e6])
@pytest.mark.parametrize("width", [64, 128, 512])
@pytest.mark.parametrize(("exponent", "power"), [("m/d", 0.5), ("4m/d", 2.0), ("2m/(d - 2)", None)])
def test_a_wrong_exponent_is_named(base: float, width: int, exponent: str, power: float) -> None:
    other = base ** (width / (width - 2) if power is None else power)
    if other > 1e12:
        pytest.skip("no ladder of so large a base is told apart")
    cos, sin = exact(256, width, other)
    found = identify(beside(sin, cos).float())
    said = [one.sentence for one in found.deviations if one.kind == "exponent"]
    said += [words for words in found.also if "exponent" in words]
    assert any(f"base {base:,.6g} with the exponent {exponent} " in words for words in said), said


@pytest.mark.parametrize("start", [1, 2])
@pytest.mark.parametrize("form", FORMS)
def test_a_shift_is_named(form: str, start: int) -> None:
    found = identify(*FORMS[form][0](*(part.float() for part in exact(96, 48, 1e4, start))))  # type: ignore[arg-type]
    assert kinds(found) == {"start"}
    assert f"position {start}," in found.deviations[0].sentence
    zeros = FORMS[form][0](*(part.float() for part in exact(96, 48, 1e4)))
    assert kinds(identify(*zeros)) == set()  # type: ignore[arg-type]


def test_rows_of_padding_are_named_and_not_counted_as_positions() -> None:
    cos, sin = exact(128, 64, 1e4, start=2)
    table = torch.cat((torch.zeros(2, 64, dtype=torch.float64), beside(sin, cos))).float()
    found = identify(table)
    assert kinds(found) == {"padding"}
    assert found.padding == 2
    assert record(found)["start"] == 0


def test_a_row_of_zeros_for_a_padding_token_is_named_and_no_position_is_lost() -> None:
    from transformers.models.m2m_100.modeling_m2m_100 import M2M100SinusoidalPositionalEmbedding

    table = M2M100SinusoidalPositionalEmbedding(128, 64, 1).weights
    found = identify(table)
    assert kinds(found) == {"padding", "angles", "exponent"}
    assert found.config is not None
    assert found.config.layout == "half"  # type: ignore[attr-defined]
    assert record(found)["start"] == 0
    assert found.largest < 1e-6
    assert found.also[-1] == "base 10,000 with the exponent 2m/(d - 2) in place of 2m/d"
    said = [one.sentence for one in found.deviations if one.kind == "padding"]
    assert said == ["Row 1 is all zeros, as that of a padding token is."]
    shown = made(found, table)
    assert not shown.exact[1].any()
    torch.testing.assert_close(shown.exact, table.double(), atol=1e-4, rtol=0)


@pytest.mark.parametrize("of", ["halves", "neighbours"])
@pytest.mark.parametrize("first", ["cosines", "sines"])
def test_a_repeated_cache_in_one_tensor_is_told(of: str, first: str) -> None:
    repeat = {"halves": halves, "neighbours": neighbours}[of]
    parts = [repeat(part).float() for part in exact(200, 64, 5e5)]
    found = identify(torch.cat(parts if first == "cosines" else parts[::-1], 1))
    assert found.config == SCHEMES["rope"](
        dim=64, base=5e5, layout="half" if of == "halves" else "interleaved"
    )  # type: ignore[call-arg]
    assert kinds(found) == set()
    assert f"{first}, then " in headline(found)
    assert f"{of} repeated, in one tensor" in headline(found)


@pytest.mark.parametrize("kind", ["llama3", "yarn", "linear"])
@pytest.mark.parametrize("start", [0, 100_000])
def test_rotary_modules_of_transformers_are_told_with_their_float32(kind: str, start: int) -> None:
    from transformers.models.llama.configuration_llama import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    block = {"rope_type": kind, "rope_theta": 5e5, "factor": 8.0}
    block |= {} if kind == "linear" else {"original_max_position_embeddings": 8_192}
    block |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0} if kind == "llama3" else {}
    config = LlamaConfig(
        hidden_size=256,
        num_attention_heads=2,
        max_position_embeddings=65_536,
        rope_parameters=block,
    )
    module = LlamaRotaryEmbedding(config)
    cos, sin = module(torch.zeros(1, 512, 1), start + torch.arange(512)[None])
    found = identify(cos, sin)
    assert found.config is not None
    assert found.config.kind == f"rope_{kind}"
    assert kinds(found) == ({"angles", "start"} if start else {"angles"})
    assert record(found)["start"] == start


@pytest.mark.parametrize("width", [8, 64, 130])
@pytest.mark.parametrize("dtype", DTYPES[:3])
def test_swapped_halves_and_swapped_names_are_named(width: int, dtype: torch.dtype) -> None:
    cos, sin = (part.to(dtype) for part in exact(200, width, 1e4))
    for given in (
        (torch.cat((cos, sin), 1),),
        (beside(cos, sin),),
        (sin, cos),
        (halves(sin), halves(cos)),
        (neighbours(sin), neighbours(cos)),
    ):
        found = identify(*given)
        assert kinds(found) == {"swapped"}
        assert found.config is None


@pytest.mark.parametrize("base", [1e3, 1e4, 1e6])
@pytest.mark.parametrize("width", [8, 64, 256])
def test_cosines_of_the_wrong_pairs_are_named(base: float, width: int) -> None:
    position = np.arange(150)[:, None]
    own = position * base ** (-np.arange(width) / width)
    following = position * base ** (-2 * np.arange(1, width // 2 + 1) / width)
    cos, sin = (part.numpy() for part in exact(150, width, base))
    column = np.where(np.arange(width) % 2 == 0, np.sin(own), np.cos(own))
    shifted = np.stack((sin, np.cos(following)), -1).reshape(150, width)
    both = np.concatenate((cos, cos), 1), np.concatenate((sin, sin), 1)
    mixed = np.where(np.arange(width) % 2 == 0, both[1], both[0])
    for table in (column, shifted, mixed):
        found = identify(torch.tensor(table, dtype=torch.float32))
        assert kinds(found) == {"wrong pairs"}
        assert found.guess is not None
        assert math.isclose(found.guess.base, base, rel_tol=1e-5)
    crossed = identify(halves(torch.tensor(cos)), neighbours(torch.tensor(sin)))
    assert kinds(crossed) == {"wrong pairs"}


def in_float32(rows: int, width: int, base: float, how: str) -> tuple[Tensor, Tensor]:
    even = torch.arange(0, width, 2).float()
    if how == "powers":
        ladder = 1.0 / base ** (even / width)
    elif how == "exponentials":
        ladder = torch.exp(even * (-math.log(base) / width))
    else:
        ladder = (1.0 / base ** (even.double() / width)).float()
    angles = torch.arange(rows).float()[:, None] * ladder
    return angles.cos(), angles.sin()


@pytest.mark.parametrize("how", ["powers", "exponentials", "once"])
@pytest.mark.parametrize("base", [1e4, 5e5])
@pytest.mark.parametrize("width", [64, 128])
def test_float32_angles_are_named_with_the_way_of_the_frequencies(
    how: str, base: float, width: int
) -> None:
    cos, sin = in_float32(2_048, width, base, how)
    for found in (identify(cos, sin), identify(beside(sin, cos))):
        assert kinds(found) == {"angles"}
        assert found.recipe is not None
        assert found.largest <= 2.0**-23
        assert found.guess is not None
        assert found.guess.base == base
        assert how in found.recipe.words
    short = identify(cos[:5], sin[:5])  # too few positions to show it
    assert short.config is not None


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("base", [1e4, 5e5, 1e6])
def test_angles_and_frequencies_of_half_precision_are_named(
    dtype: torch.dtype, base: float
) -> None:
    ladder = 1.0 / base ** (torch.arange(0, 64, 2).float() / 64)
    kept = torch.arange(1_500).float()[:, None] * ladder.to(dtype).float()
    found = identify(kept.cos(), kept.sin())
    name = str(dtype).removeprefix("torch.")
    assert kinds(found) == {"angles"}
    assert f"kept in {name}" in found.deviations[0].sentence
    angles = torch.arange(1_500).to(dtype)[:, None] * ladder.to(dtype)
    found = identify(angles.cos(), angles.sin())
    assert kinds(found) == {"angles"}
    assert f"{name} angles" in found.deviations[0].sentence


def test_numbers_that_no_formula_explains_are_said_where_they_are() -> None:
    cos, sin = exact(300, 64, 1e4)
    table = beside(sin, cos).float()
    table[123, 45] += 0.25
    found = identify(table)
    assert kinds(found) == {"unexplained"}
    assert found.worst == (123, 45)
    assert math.isclose(found.largest, 0.25, rel_tol=1e-6)
    assert float(found.by_column[45]) == found.largest
    assert int((found.by_column > 1e-6).sum()) == 1


def test_a_size_is_told_and_an_attention_factor_is_not_a_mistake() -> None:
    cos, sin = exact(512, 64, 1e4)
    found = identify((3.5 * beside(sin, cos)).float())
    assert kinds(found) == {"size"}
    assert found.guess is not None
    assert math.isclose(found.guess.size, 3.5, rel_tol=1e-6)


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
