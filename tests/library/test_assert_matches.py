"""assert_matches: tables and modules of a scheme pass, others fail and are described."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from posenc import SCHEMES, rope_tables, sinusoidal_table
from posenc.errors import ConfigFileError, SchemeArgumentError
from posenc.testing import assert_matches
from tests.library.configs import config_of

pytestmark = pytest.mark.usefixtures("no_shape_checks")

SINUSOIDAL = config_of("sinusoidal", dim=32)
ROPE = config_of("rope", dim=32, layout="half")


class Cached(nn.Module):
    cos_cached: Tensor
    sin_cached: Tensor

    def __init__(self, cos: Tensor, sin: Tensor) -> None:
        super().__init__()
        self.register_buffer("cos_cached", cos[None, None])
        self.register_buffer("sin_cached", sin[None, None])


def test_tables_and_modules_of_the_scheme_pass() -> None:
    cos, sin = rope_tables(100, 32)
    pairs = torch.stack((cos, sin), -1)
    buffers = nn.Module()
    buffers.register_buffer("cache", pairs)
    buffers.register_buffer("theta", torch.ones(16))
    assert_matches(sinusoidal_table(100, 32, dtype=torch.bfloat16), SINUSOIDAL)
    assert_matches(sinusoidal_table(100, 32, start=7)[None], SINUSOIDAL.build(), start=7)
    assert_matches(nn.Embedding.from_pretrained(sinusoidal_table(100, 32)), SINUSOIDAL)
    repeated = Cached(torch.cat((cos, cos), 1), torch.cat((sin, sin), 1))
    nested = nn.ModuleDict({"cosine_rope": repeated})
    for given in ((cos, sin), torch.complex(cos, sin), pairs, buffers, nested):
        assert_matches(given, ROPE)


def test_every_cache_of_a_module_must_match() -> None:
    """As Gemma 3 and ModernBERT keep two."""
    right, other = Cached(*rope_tables(100, 32)), Cached(*rope_tables(100, 32, 500.0))
    negated = Cached(right.cos_cached[0, 0], -right.sin_cached[0, 0])
    negated.cos_cached = right.cos_cached  # shared, beside sines of its own
    narrow = Cached(*rope_tables(100, 16))
    for wrong, said in ((other, "base 500,"), (negated, "negated"), (narrow, "no table of RoPE")):
        message = rf"^local\.cos_cached and local\.sin_cached: .*{said}"
        with pytest.raises(AssertionError, match=message):
            assert_matches(nn.ModuleDict({"global": right, "local": wrong}), ROPE)


LLAMA = {
    "model_type": "llama", "hidden_size": 128, "num_attention_heads": 4, "num_hidden_layers": 1,
    "rope_theta": 10_000.0,
}  # fmt: skip


def test_config_is_taken_as_a_path_as_text_and_as_keys(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA))
    wrong = rope_tables(40, 32, 500.0)
    for config in (path, str(path), path.read_text(), LLAMA):
        assert_matches(rope_tables(40, 32), config)
        with pytest.raises(AssertionError, match="base 500,"):
            assert_matches(wrong, config)
    with pytest.raises(ConfigFileError):
        assert_matches(wrong, str(tmp_path / "absent.json"))


@pytest.mark.parametrize("part", ["cosines", "sines"])
def test_column_is_counted_in_the_cosines_or_in_the_sines(part: str) -> None:
    tables = dict(zip(("cosines", "sines"), rope_tables(40, 32), strict=True))
    tables[part][7, 3] += 0.01
    with pytest.raises(AssertionError) as failure:
        assert_matches(tuple(tables.values()), ROPE)
    assert f"row 7, column 3 of the {part} differs by 0.01" in str(failure.value)
    assert f"most in row 7, column 3 of the {part}." in str(failure.value)


@pytest.mark.parametrize(
    ("given", "scheme", "message"),
    [
        (sinusoidal_table(64, 32, layout="half"), SINUSOIDAL, "all sines, then all cosines"),
        (sinusoidal_table(64, 16), SINUSOIDAL, "64 x 16, and width 32 is expected"),
        (torch.zeros(64, 32), SINUSOIDAL, "None of these"),
    ],
)
def test_other_table_fails_and_is_described(given: Any, scheme: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        assert_matches(given, scheme)


class Rotary(nn.Module):
    inv_freq = torch.ones(4)

    def forward(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        return positions.cos(), positions.sin()


TABLE = torch.zeros(64, 32)


@pytest.mark.parametrize(
    ("given", "scheme", "message"),
    [
        (TABLE, config_of("alibi", heads=4), "has no table of sines and cosines"),
        (TABLE, ROPE, "RoPE's tables are two"),
        ((TABLE, TABLE), SINUSOIDAL, "has one table"),
        ((TABLE,), ROPE, "got 1 tables"),
        (nn.LayerNorm(4), SINUSOIDAL, "holds no one table"),
        ((TABLE, TABLE), config_of("rope_sections", dim=32, sections=(8, 8), grid=4), "of two axes"),
        (Rotary(), config_of("rope", dim=8), "Rotary cannot be called as"),
        *((TABLE, scheme, "scheme must be a config, such as ")
          for scheme in ("sinusoidal", SCHEMES["sinusoidal"], None, 512)),
    ],
)  # fmt: skip
def test_incomparable_input_is_an_error_and_no_failure(
    given: Any, scheme: Any, message: str
) -> None:
    with pytest.raises(SchemeArgumentError, match=message):
        assert_matches(given, scheme)


@pytest.mark.parametrize("tolerance", [True, -1e-9, float("nan"), float("inf"), "x"])
def test_tolerance_that_allows_everything_is_refused(tolerance: Any) -> None:
    with pytest.raises(SchemeArgumentError, match="tolerance must be a number from 0"):
        assert_matches(torch.zeros(4, 8), config_of("sinusoidal", dim=8), tolerance=tolerance)
