"""Tables as public code makes and keeps them: what departs is named, and nothing false is said."""

import io
import math

import numpy as np
import pytest
import torch
from safetensors.torch import save
from torch import Tensor, nn

from posenc import SCHEMES
from posenc.errors import SchemeArgumentError
from posenc.identification import Identification, identify
from posenc.identification.made import made
from posenc.interop.number_tables import read_number_table
from posenc.testing import assert_matches


def angles(rows: int, exponents: Tensor, base: float = 1e4, start: int = 0) -> Tensor:
    position = torch.arange(start, start + rows, dtype=torch.float64)
    return position[:, None] * base**-exponents


def plain(width: int) -> Tensor:
    return torch.arange(0, width, 2).double() / width


def beside(x: Tensor) -> Tensor:
    return torch.stack((x.sin(), x.cos()), -1).flatten(1).float()


def kinds(found: Identification) -> list[str]:
    return [one.kind for one in found.deviations]


@pytest.mark.parametrize("base", [10_001.0, 9_999.0, 10_000.01, 100.01, 999_900.0])
def test_a_base_near_a_usual_one_is_not_told_as_another_exponent(base: float) -> None:
    """10,001 is not 100 squared, and numbers that tell them apart are not said to be the same."""
    found = identify(beside(angles(512, plain(64), base)))
    assert found.guess is not None
    assert math.isclose(found.guess.base, base, rel_tol=1e-9)
    assert kinds(found) == []
    assert not any("exponent" in words for words in found.also)


@pytest.mark.parametrize(
    ("exponent", "made_of"),
    [
        ("2m/(d - 1)", lambda m, d: 2 * m / (d - 1)),
        ("2(m + 1)/d", lambda m, d: 2 * (m + 1) / d),
        ("(2m + 1)/d", lambda m, d: (2 * m + 1) / d),
    ],
)
@pytest.mark.parametrize("width", [64, 128])
def test_exponents_that_count_otherwise_are_named(exponent: str, made_of, width: int) -> None:  # type: ignore[no-untyped-def]
    x = angles(512, made_of(torch.arange(width // 2).double(), width))
    found = identify(beside(x))
    assert kinds(found) == ["exponent"]
    assert f"the exponent {exponent} in place of 2m/d" in found.deviations[0].sentence
    cache = identify(x.cos().float(), x.sin().float())
    assert any(f"the exponent {exponent} in place" in words for words in cache.also)


def test_a_cache_of_rows_pairs_and_two_is_read_as_cosines_and_sines() -> None:
    """As torchtune and gpt-fast keep it, in every way it may be handed over."""
    x = angles(100, plain(32))
    cache = torch.stack((x.cos(), x.sin()), -1).float()
    rope = SCHEMES["rope"](dim=32)
    expected = identify(x.cos().float(), x.sin().float())
    stream = io.BytesIO()
    np.save(stream, cache.numpy())
    for content in (stream.getvalue(), save({"cache": cache})):
        read = read_number_table(content)
        assert read.sines is not None
        assert torch.equal(read.table, cache[..., 0])
        assert torch.equal(read.sines, cache[..., 1])
        assert read.notes == ("Two numbers for every pair: taken as cosine, then sine.",)
    for given in (cache, cache[None], cache[:, None]):
        found = identify(given)
        assert found.config == expected.config == rope
        assert kinds(found) == []
    assert_matches(cache, rope)
    held = nn.Module()
    held.register_buffer("cache", cache)
    held.register_buffer("theta", torch.ones(16))
    assert_matches(held, rope)
    with pytest.raises(AssertionError, match="changed places"):
        assert_matches(cache.flip(-1), rope)


@pytest.mark.parametrize(
    ("block", "longest", "kind"),
    [
        ({"rope_type": "linear", "factor": 3.0}, 8_192, "rope_linear"),
        ({"rope_type": "dynamic", "factor": 2.0}, 512, "rope"),
    ],
)
def test_scaled_caches_of_transformers_leave_nothing_unexplained(
    block: dict[str, object], longest: int, kind: str
) -> None:
    from transformers.models.llama.configuration_llama import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    config = LlamaConfig(
        hidden_size=512,
        num_attention_heads=4,
        max_position_embeddings=longest,
        rope_parameters={"rope_theta": 1e4, **block},
    )
    cos, sin = LlamaRotaryEmbedding(config)(torch.zeros(1), torch.arange(1_024)[None])
    found = identify(cos, sin)
    assert found.config is not None
    assert found.config.kind == kind
    assert kinds(found) == ["angles"]
    assert found.largest == 0
    if kind == "rope":
        assert found.also == ("NTK-aware scaling of base 10,000 by 3",)


@pytest.mark.parametrize("index", [1, 7])
def test_a_padding_row_inside_a_table_is_named_and_not_counted(index: int) -> None:
    """fairseq's sinusoids, which M2M100 and NLLB keep: row padding_idx is blanked, no other moves."""
    from transformers.models.speech_to_text.modeling_speech_to_text import (
        Speech2TextSinusoidalPositionalEmbedding,
    )

    table = Speech2TextSinusoidalPositionalEmbedding(300, 64, padding_idx=index).weights
    assert not table[index].any()
    found = identify(table)
    # Only row 1 is where published tables have it; elsewhere it counts as a departure.
    assert kinds(found) == ["padding" if index == 1 else "zero rows", "angles"]
    verb = "is" if index == 1 else "may be"
    said = f"Row {index} is all zeros, as that of a padding token {verb}."
    assert found.deviations[0].sentence == said
    assert found.guess is not None
    assert found.guess.start == 0
    assert found.largest == 0
    assert torch.equal(made(found, table).as_found, table.double())


def test_sines_alone_are_zero_at_position_zero_and_not_padded() -> None:
    found = identify(angles(200, plain(32), start=-3).sin().float())
    assert found.guess is not None
    assert found.guess.start == -3
    assert kinds(found) == ["start"]


def test_two_rows_of_zeros_inside_are_named_and_nothing_else_is() -> None:
    table = beside(angles(60, plain(16)))
    table[[3, 9]] = 0
    (deviation,) = identify(table).deviations
    assert deviation.sentence.startswith("2 rows, the first of them row 3, are all zeros")


@pytest.mark.usefixtures("no_shape_checks")
def test_a_module_that_is_called_otherwise_is_refused_in_words() -> None:
    class Rotary(nn.Module):
        inv_freq = torch.ones(4)

        def forward(self, positions: Tensor) -> tuple[Tensor, Tensor]:
            return positions.cos(), positions.sin()

    with pytest.raises(SchemeArgumentError, match="Rotary cannot be called as"):
        assert_matches(Rotary(), SCHEMES["rope"](dim=8))
