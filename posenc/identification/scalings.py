"""Ladders that RoPE's scalings make of a plain one, tried where no plain ladder fits a table."""

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from dataclasses import fields as dataclass_fields
from typing import Any

from jaxtyping import Float
from torch import Tensor

from posenc import limits
from posenc.errors import ConfigError
from posenc.identification.columns import Arrangement, Columns
from posenc.identification.frequency_fit import Guess
from posenc.identification.waves import Phases, Waves, starts
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling.base import RopeLinearConfig
from posenc.schemes.rope_scaling.llama3 import RopeLlama3Config
from posenc.schemes.rope_scaling.ntk import RopeNtkConfig
from posenc.schemes.rope_scaling.proportional import RopeProportionalConfig
from posenc.schemes.rope_scaling.yarn import RopeYarnConfig, RopeYarnPaperConfig

USUAL_BASES = (
    10_000.0, 500_000.0, 1_000_000.0, 150_000.0, 160_000.0, 100_000.0, 5_000_000.0, 10_000_000.0,
    1_000.0, 500.0, 100.0, 50_000.0, 2_000_000.0,
)  # fmt: skip
_FAST = 0.25  # exponents up to this are of pairs that scalings keep
_TRIED_STANDING = 32
_FEWEST_WAVES = 0.25  # of the columns, which standing still is not
_TRIED = 4  # of the scalings whose frequencies come nearest
_FACTORS = (2.0, 4.0, 8.0, 16.0, 32.0, 40.0, 64.0)
_TRAINED = (1_024, 2_048, 4_096, 8_192, 16_384, 32_768, 65_536)


@dataclass(frozen=True, kw_only=True)
class SeenLadder:
    """What a table shows of its frequencies before a scaling is named.

    dim: twice its pairs. bases: those that its fastest pairs speak for, which scalings leave alone.
    turning: how many pairs, the fastest ones, may turn; () where all do.
    """

    dim: int
    bases: tuple[float, ...]
    turning: tuple[int, ...] = ()


def usual_configs(scaling: type[RopeConfig], seen: SeenLadder) -> Iterator[RopeConfig]:
    """Yield usual factors of usual trained lengths, and each switch turned over."""
    switches: list[dict[str, Any]] = [{}]
    switches += [
        {field.name: not getattr(scaling(), field.name)}
        for field in dataclass_fields(scaling)
        if field.type in (bool, "bool")
    ]
    for base, trained, factor, own in itertools.product(seen.bases, _TRAINED, _FACTORS, switches):
        numbers: dict[str, Any] = {"base": base, "trained_length": trained, "factor": factor}
        with contextlib.suppress(ConfigError):
            yield scaling(dim=seen.dim, **numbers, **own)


def _proportional_configs(seen: SeenLadder) -> Iterator[RopeConfig]:
    for turning, base in itertools.product(seen.turning, seen.bases):
        share = turning / (seen.dim // 2)
        with contextlib.suppress(ConfigError):
            yield RopeProportionalConfig(dim=seen.dim, base=base, partial_rotary_factor=share)


# Configs whose frequencies a table may have, by kind. A kind that is missing is not identified: those
# by a factor alone have a geometric ladder, which is seen without being tried, and of those that move
# with the text there is no one table.
CANDIDATES: dict[str, Callable[[SeenLadder], Iterator[RopeConfig]]] = {
    "rope_yarn": functools.partial(usual_configs, RopeYarnConfig),
    "rope_yarn_paper": functools.partial(usual_configs, RopeYarnPaperConfig),
    "rope_llama3": functools.partial(usual_configs, RopeLlama3Config),
    "rope_proportional": _proportional_configs,
}


def divided_config(dim: int, base: float, scale: float) -> RopeConfig | None:
    """Return position interpolation with the frequencies scale * base^(-2m/dim), scale below 1."""
    try:
        return RopeLinearConfig(dim=dim, base=base, factor=1 / scale)
    except ConfigError:
        return None  # angles that are multiplied


def ntk_bases(dim: int, base: float, usual: Sequence[float]) -> list[tuple[float, str]]:
    """Return the bases near one that NTK-aware scaling makes of usual ones, each with how, in words."""
    found = []
    for plain in usual if dim > 2 else ():
        factor = round((base / plain) ** ((dim - 2) / dim))
        with contextlib.suppress(ConfigError):
            larger = RopeNtkConfig(dim=dim, base=plain, factor=float(factor)).larger_base
            if factor > 1 and math.isclose(larger, base, rel_tol=1e-3):
                found.append((larger, f"NTK-aware scaling of base {plain:,.6g} by {factor}"))
    return found


@dataclass(frozen=True)
class ScaledGuess(Guess):
    """A guess whose ladder is that of a scaling of RoPE; base and scale are the config's own."""

    config: RopeConfig | None = None

    def rates(self, columns: Columns) -> Float[Tensor, " c"]:
        assert self.config is not None
        return _by_column(self.config.frequencies().inv_freq, columns)

    def float32_rates(self, columns: Columns) -> Float[Tensor, " c"]:
        assert self.config is not None
        return _by_column(self.config.float32_ladder(self.config.rotary_dim), columns)


def scaled_ladders(found: Waves, columns: Columns, turning: int) -> list[tuple[float, RopeConfig]]:
    """Return the scalings whose frequencies come nearest to those of a table, with how far they are.

    turning: how many pairs turn at least; the columns of the others stand still.
    """
    pairs = columns.dim // 2
    if columns.dim > limits.MAX_DIM or float((found.weight > 0).double().mean()) < _FEWEST_WAVES:
        return []
    rows = len(found.table)
    last = min(pairs - 1, turning + _TRIED_STANDING)
    seen = SeenLadder(
        dim=columns.dim,
        bases=_bases(found, columns),
        turning=tuple(range(max(1, turning), last + 1)),
    )
    scored: list[tuple[float, RopeConfig]] = []
    for config, ladder in _ladders_like(seen):
        apart = (found.theta - _by_column(ladder, columns)).abs() * rows  # radians in the last row
        scored.append((float(apart.clamp_max(1.0).mean()), config))
    return sorted(scored, key=lambda pair: pair[0])[:_TRIED]


@functools.lru_cache(maxsize=4)  # asked alike for every arrangement, and again without what departs
def _ladders_like(seen: SeenLadder) -> list[tuple[RopeConfig, Float[Tensor, " p"]]]:
    """Return every scaling in use whose frequencies a table may have, with them."""
    return [
        (config, config.frequencies().inv_freq)
        for configs in CANDIDATES.values()
        for config in configs(seen)
    ]


def scaled_guesses(
    found: Waves,
    arrangement: Arrangement,
    config: RopeConfig,
    columns: Columns,
    allowed: float,
    signs: tuple[int, float],
) -> list[ScaledGuess]:
    """Return where a table of a scaling may start; allowed: what rounding does to a number."""
    sense, sign = signs
    one = ScaledGuess(arrangement, config.base, size=sign, sense=sense, config=config)
    rates = one.rates(columns)
    likely = starts(Phases.of(found, columns, rates, allowed, signs), rates)
    return [replace(one, start=start) for start in likely]


def _bases(found: Waves, columns: Columns) -> tuple[float, ...]:
    """Return the usual bases that the fastest pairs speak for, which scalings leave alone, and theirs."""
    fast = (found.weight > 0) & (columns.exponents > 0) & (columns.exponents <= _FAST)
    if not bool(fast.any()):
        return USUAL_BASES
    measured = float(
        (-found.theta[fast].log() / columns.exponents[fast]).median().clamp(0.01, 27).exp()
    )
    usual = tuple(base for base in USUAL_BASES if abs(math.log(base / measured)) < 0.1)
    return usual or (measured,)


def _by_column(ladder: Float[Tensor, " p"], columns: Columns) -> Float[Tensor, " c"]:
    return ladder[(columns.exponents * len(ladder)).round().long()]
