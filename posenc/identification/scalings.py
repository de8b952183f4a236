"""Ladders that RoPE's scalings make of a plain one, tried where no plain ladder fits a table."""

import functools
import math
from dataclasses import dataclass, replace

from jaxtyping import Float
from torch import Tensor

from posenc import limits
from posenc.identification.columns import Arrangement, Columns
from posenc.identification.frequency_fit import Guess
from posenc.identification.waves import Phases, Waves, starts
from posenc.schemes import ROPE_SCALINGS
from posenc.schemes.known_rope import SeenLadder
from posenc.schemes.rope import RopeConfig

USUAL_BASES = (
    10_000.0, 500_000.0, 1_000_000.0, 150_000.0, 160_000.0, 100_000.0, 5_000_000.0, 10_000_000.0,
    1_000.0, 500.0, 100.0, 50_000.0, 2_000_000.0,
)  # fmt: skip
_FAST = 0.25  # exponents up to this are of pairs that scalings keep
_TRIED_STANDING = 32
_FEWEST_WAVES = 0.25  # of the columns, which standing still is not
_TRIED = 4  # of the scalings whose frequencies come nearest


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
        for made in ROPE_SCALINGS.values()
        for config in made.like(seen)
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
