"""What a table is: every mistake of its code is named, and nothing else is taken for one."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from posenc.identification import identify
from posenc.identification.made import made
from posenc.identification.words import headline, record
from posenc.schemes import SCHEMES
from tests.formula_tables import DTYPES, FORMS, beside, exact, halves, kinds, neighbours


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
    assert kinds(found) == {"padding", "angles"}
    assert found.config is not None
    assert found.config.layout == "half"  # type: ignore[attr-defined]
    assert record(found)["start"] == 0
    assert found.largest < 1e-6
    assert "base 10,000 with the exponent 2m/(d - 2)," in headline(found)
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
def test_swapped_columns_and_swapped_names_are_named(width: int, dtype: torch.dtype) -> None:
    cos, sin = (part.to(dtype) for part in exact(200, width, 1e4))
    for given in (
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
