"""assert_matches: tables and modules of a scheme pass, others fail and are described."""

import json
import math
import re
from collections.abc import Callable
from contextlib import suppress
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
    for wrong, said in (
        (other, "The base is 500,"),
        (negated, "negated"),
        (narrow, "no table of RoPE"),
    ):
        message = rf"^local\.cos_cached and local\.sin_cached: .*{said}"
        with pytest.raises(AssertionError, match=message):
            assert_matches(nn.ModuleDict({"global": right, "local": wrong}), ROPE)


def test_bases_from_a_million_on_are_written_whole() -> None:
    """Of a scheme of base 1e6, and of a table of base 5e6, which the message describes."""
    rates = 5e6 ** (-torch.arange(0, 32, 2, dtype=torch.float64) / 32)
    angles = torch.arange(64, dtype=torch.float64)[:, None] * rates
    config = config_of("rope", dim=32, base=1e6, layout="half")
    with pytest.raises(AssertionError) as failure:
        assert_matches((angles.cos().float(), angles.sin().float()), config)
    said = str(failure.value)
    assert "base 1,000,000) from position 0" in said
    assert said.startswith("The base is 5,000,000, where the scheme has 1,000,000. ")
    assert "e+0" not in said


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
        with pytest.raises(AssertionError, match="The base is 500,"):
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
        (torch.zeros(64, 32), SINUSOIDAL, "No known formula"),
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
        (Rotary(), config_of("rope", dim=8), r"Rotary .* \(for positions 0 and 1, it raised"),
        *((TABLE, scheme, "scheme must be a config, such as ")
          for scheme in ("sinusoidal", SCHEMES["sinusoidal"], None, 512)),
    ],
)  # fmt: skip
def test_incomparable_input_is_an_error_and_no_failure(
    given: Any, scheme: Any, message: str
) -> None:
    with pytest.raises(SchemeArgumentError, match=message):
        assert_matches(given, scheme)


class Called(nn.Module):
    """RoPE in float32 at what `change` makes of the positions, called as the modules of transformers."""

    def __init__(self, change: Callable[[Tensor], Tensor] = Tensor.float) -> None:
        super().__init__()
        self.change = change
        self.inv_freq = 1.0 / 1e4 ** (torch.arange(0, 32, 2) / 32)

    def forward(self, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        angles = self.change(position_ids).float()[..., None] * self.inv_freq
        return angles.cos(), angles.sin()


def failure_of(given: Any, scheme: Any, **options: Any) -> str:
    with pytest.raises(AssertionError) as failure:
        assert_matches(given, scheme, **options)
    return str(failure.value)


def llama(context: int, **block: Any) -> dict[str, Any]:
    return LLAMA | {"max_position_embeddings": context, "rope_scaling": block or None}


@pytest.mark.parametrize("context", [100, 8_192, 100_003, 10_000_000])
def test_module_is_asked_over_the_whole_context_in_order_and_out_of_order(context: int) -> None:
    asked: list[Tensor] = []

    def record(positions: Tensor) -> Tensor:
        asked.append(positions[0])
        return positions

    assert assert_matches(Called(record), llama(context)) == "float32 arithmetic"
    assert sum(map(len, asked)) < 2_048 + 600
    first = torch.arange(min(context, 2_048))
    assert any(positions.equal(first) for positions in asked)
    rising, last = asked[-2:]
    near = {2**n + step for n in range(24) for step in (-1, 0, 1)} | {context - 1}
    assert {place for place in near if place < context} <= set(rising.tolist())
    assert len(set(rising.tolist()) - near) > 10  # random ones
    assert bool((rising.diff() > 0).all())
    assert bool((last.diff() < 0).any())
    assert last.sort().values.equal(rising.repeat_interleave(2))


@pytest.mark.parametrize(
    ("scheme", "last"),
    [
        (ROPE, 131_071),
        (llama(5_000), 4_999),
        (llama(40_960, type="yarn", factor=4.0, original_max_position_embeddings=32_768), 131_071),
        (config_of("rope_yarn", dim=32, layout="half", factor=8.0, trained_length=512), 4_095),
        (config_of("rope_dynamic", dim=32, layout="half", factor=3.0, trained_length=1_000), 2_999),
    ],
)
def test_context_is_the_largest_that_the_scheme_names(scheme: Any, last: int) -> None:
    for context, expected in ((None, last), (300, 299)):
        asked: list[int] = []

        def record(positions: Tensor, asked: list[int] = asked) -> Tensor:
            asked.append(int(positions.max()))
            return positions

        with suppress(AssertionError):  # of the scaled ones, which this module is not
            assert_matches(Called(record), scheme, context=context)
        assert max(asked) == expected


FAULTS: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "float16": (  # infinity from 65,520 on
        Tensor.half,
        "^Positions are rounded to float16.* first at position 2,049, .* NaN or infinity, where",
    ),
    "clamped": (
        lambda p: p.clamp(max=4_095), "^Positions are clamped at 4,095.* first at position 4,096, ",
    ),
    "bfloat16": (Tensor.bfloat16, "^Positions are rounded to bfloat16.* first at position 257, "),
    "16 bits": (
        Tensor.short,
        "^Positions wrap after 65,536.* first at position 32,768, .* right for positions 0 to 2,047",
    ),
    "shifted": (lambda p: p + 1, "^Row 0 stands for position 1, .* first at position 0, "),
    "counted": (
        lambda p: torch.arange(p.shape[1])[None],
        "^Rows are counted: row 6 stands for position 6, whichever",
    ),
    "sorted": (lambda p: p.sort().values, "^Positions are those asked for, sorted: "),
    "without repeats": (lambda p: p.unique()[None], "each twice, it did not return a row for each"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_module_that_is_wrong_at_single_positions_fails_and_is_told_where(fault: str) -> None:
    change, words = FAULTS[fault]
    failure = failure_of(Called(change), llama(131_072))
    assert re.search(words, failure), failure
    assert "of 131,072 positions, for each power of two, its neighbours, the last" in failure


@pytest.mark.parametrize(
    ("change", "position", "taken_for"),
    [(Tensor.half, 2_049, 2_048), (lambda p: p.clamp(max=4_095), 4_096, 4_095)],
)
def test_failure_says_by_how_much_the_first_wrong_position_differs(
    change: Callable[[Tensor], Tensor], position: int, taken_for: int
) -> None:
    rates = [10_000.0 ** (-pair / 16) for pair in range(16)]
    off = max(
        abs(wave(position * rate) - wave(taken_for * rate))
        for wave in (math.cos, math.sin)
        for rate in rates
    )
    failure = failure_of(Called(change), llama(8_192))
    assert re.search(
        rf"differs from float32 arithmetic first at position {position:,}, column \d of the (co)?sines, "
        rf"by {off:.3g}, and most at position [\d,]+, column \d+ of the (co)?sines, by [12][.\d]*, where "
        r"2\.4\s×\s10⁻⁷ is allowed; from exact angles at most by [12][.\d]*, where 1\.2\s×\s10⁻⁷ is\.",
        failure,
    ), failure
    assert assert_matches(Called(change), llama(8_192), context=2_048) == "float32 arithmetic"


class CacheOf(nn.Module):
    """Looks positions up in a table of some rows."""

    def __init__(self, rows: int, registered: bool) -> None:
        super().__init__()
        cos, sin = rope_tables(rows, 32)
        if registered:
            self.register_buffer("cos_cached", cos)
            self.register_buffer("sin_cached", sin)
        self.look_up = lambda positions: (cos[positions], sin[positions])

    def forward(self, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        found: tuple[Tensor, Tensor] = self.look_up(position_ids)
        return found


@pytest.mark.parametrize("registered", [False, True])
def test_module_whose_cache_is_shorter_than_the_context_is_told_so(registered: bool) -> None:
    failure = failure_of(CacheOf(4_096, registered), llama(131_072))
    assert "but for positions up to 131,071, it raised IndexError: index " in failure
    assert "`context` sets how many positions" in failure
    module = CacheOf(4_096, registered)
    assert assert_matches(module, llama(131_072), context=4_096) == "exact angles"
    if registered:
        assert assert_matches(module, ROPE) == "exact angles"


def test_module_that_is_called_is_no_table_of_rows() -> None:
    with pytest.raises(
        SchemeArgumentError, match="start and positions are those of a table's rows"
    ):
        assert_matches(Called(), ROPE, start=1)
    with pytest.raises(SchemeArgumentError, match="context is the number of positions of a module"):
        assert_matches(rope_tables(40, 32), ROPE, context=40)
    with pytest.raises(SchemeArgumentError, match="context must be a whole number from 2"):
        assert_matches(Called(), ROPE, context=1)


def float32_angles(positions: Tensor, way: str) -> Tensor:
    """Angles as public code computes them, of 16 pairs."""
    dim, even, places = 32, torch.arange(0, 32, 2), positions.float()[:, None]
    match way:
        case "powers":  # transformers
            return places * (1.0 / 10_000.0 ** (even.float() / dim))
        case "negative powers":  # README
            return places * 10_000.0 ** (-even / dim)
        case "exponentials":  # the tutorial of PyTorch on transformers
            return places * torch.exp(even * (-math.log(10_000.0) / dim))
        case "division":  # Dive into Deep Learning
            return places / torch.pow(10_000, even / dim)
        case _:  # numpy, and a cast
            exact = 1.0 / 10_000.0 ** (even.double() / dim)
            return places * exact.float()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("way", ["powers", "negative powers", "exponentials", "division", "cast"])
def test_float32_code_matches_by_its_own_arithmetic(way: str, dtype: torch.dtype) -> None:
    for start in (0, 1_000_000):
        angles = float32_angles(start + torch.arange(3_000), way)
        cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)
        # Numbers near 0 show errors of the angles in 16 bits, too.
        assert assert_matches((cos, sin), ROPE, start=start) == "float32 arithmetic"
        table = torch.stack((sin, cos), -1).flatten(1)
        assert assert_matches(table, SINUSOIDAL, start=start) == "float32 arithmetic"


def test_exact_angles_are_told_from_float32_arithmetic() -> None:
    assert assert_matches(rope_tables(20_000, 32), ROPE) == "exact angles"
    angles = float32_angles(torch.arange(20_000), "powers")
    failure = failure_of((angles.cos(), angles.sin()), ROPE, tolerance=2.0**-23)
    assert "from exact angles, where 1.2 × 10⁻⁷ is allowed. " in failure
    loose = 2e-7 * 20_000
    assert assert_matches((angles.cos(), angles.sin()), ROPE, tolerance=loose) == "exact angles"


LOW: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "bfloat16 angles": lambda p, w: (p.bfloat16() * w.bfloat16()).float(),
    "bfloat16 frequencies": lambda p, w: p * w.bfloat16().float(),
    "float16 positions": lambda p, w: p.half().float() * w,
    "float16 frequencies": lambda p, w: p * w.half().float(),
    "frequencies off by 1e-5": lambda p, w: p * (w * (1 + 1e-5)),
    "frequencies off by 5e-7": lambda p, w: p * (w * (1 + 5e-7)),
    "one pair off by 1e-4": lambda p, w: p * torch.cat((w[:-1], w[-1:] * 1.0001)),
}


@pytest.mark.parametrize(
    ("fault", "dtype"),
    [
        *((fault, torch.float32) for fault in LOW),
        *((fault, torch.bfloat16) for fault in [*LOW][:5]),
    ],
)
def test_less_than_float32_arithmetic_fails(fault: str, dtype: torch.dtype) -> None:
    frequencies = 1.0 / 1e4 ** (torch.arange(0, 32, 2) / 32)
    angles = LOW[fault](torch.arange(3_000.0)[:, None], frequencies)
    failure = failure_of((angles.cos().to(dtype), angles.sin().to(dtype)), ROPE)
    assert " from exact angles" in failure
    assert " from float32 arithmetic" in failure


def test_float64_numbers_are_compared_with_exact_angles_alone() -> None:
    cos, sin = rope_tables(16, 32, dtype=torch.float64)
    assert assert_matches((cos, sin), ROPE) == "exact angles"
    cos[3, 3] += 1e-9  # less than float32 code is allowed
    failure = failure_of((cos, sin), ROPE)
    assert "float32" not in failure.split("What it is")[0]


@pytest.mark.parametrize("tolerance", [True, -1e-9, float("nan"), float("inf"), "x"])
def test_tolerance_that_allows_everything_is_refused(tolerance: Any) -> None:
    with pytest.raises(SchemeArgumentError, match="tolerance must be a number from 0"):
        assert_matches(torch.zeros(4, 8), config_of("sinusoidal", dim=8), tolerance=tolerance)
