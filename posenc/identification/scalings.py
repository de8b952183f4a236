"""Ladders that RoPE's scalings make of a plain one, tried where no plain ladder fits a table."""

import contextlib
import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor

from posenc import limits
from posenc.errors import ConfigError
from posenc.identification.arrangements import Columns
from posenc.identification.frequencies import Waves
from posenc.identification.ladders import Guess
from posenc.schemes import ROPE_SCALINGS
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling.proportional import RopeProportionalConfig
from posenc.schemes.rope_scaling.scaled import ScaledRopeConfig

USUAL_BASES = (
    10_000.0, 500_000.0, 1_000_000.0, 150_000.0, 160_000.0, 100_000.0, 5_000_000.0, 10_000_000.0,
    1_000.0, 500.0, 100.0, 50_000.0, 2_000_000.0,
)  # fmt: skip
_FACTORS = (2.0, 4.0, 8.0, 16.0, 32.0, 40.0, 64.0)
_TRAINED = (1_024, 2_048, 4_096, 8_192, 16_384, 32_768, 65_536)
_FAST = 0.25  # exponents up to this are of pairs that scalings keep
_TRIED_STANDING = 32
_TRIED = 4  # of the scalings whose frequencies come nearest


@dataclass(frozen=True)
class ScaledGuess(Guess):
    """A guess whose ladder is that of a scaling of RoPE; base and scale are the config's own."""

    config: RopeConfig | None = None

    def rates(self, columns: Columns) -> Float[Tensor, " c"]:
        assert self.config is not None
        return _by_column(self.config.frequencies().phases.inv_freq, columns)


def scaled_guesses(found: Waves, plain: Guess, columns: Columns) -> list[ScaledGuess]:
    """Return the scalings whose frequencies come nearest to those of a table, with a guess's start."""
    if columns.dim > limits.MAX_DIM:
        return []
    rows = float((found.turned / found.theta.clamp_min(1e-300)).max())
    scored = []
    bases = _bases(found, columns)
    tried = (*_configs(columns.dim, bases), *_standing(bases, found, columns))
    for config in tried:
        expected = _by_column(config.unscaled().inv_freq / config.divisors(), columns)
        apart = (found.theta - expected).abs() * rows  # radians in the last row
        scored.append((float(apart.clamp_max(1.0).mean()), config))
    scored.sort(key=lambda pair: pair[0])
    return [
        ScaledGuess(plain.arrangement, config.base, 1.0, plain.start, 1.0, config)
        for _, config in scored[:_TRIED]
    ]


def _bases(found: Waves, columns: Columns) -> list[float]:
    """Return the usual bases that the fastest pairs speak for, which scalings leave alone, and theirs."""
    fast = (found.weight > 0) & (columns.exponents > 0) & (columns.exponents <= _FAST)
    if not bool(fast.any()):
        return list(USUAL_BASES)
    measured = float(
        (-found.theta[fast].log() / columns.exponents[fast]).median().clamp(0.01, 27).exp()
    )
    return [base for base in USUAL_BASES if abs(math.log(base / measured)) < 0.1] or [measured]


def _by_column(ladder: Float[Tensor, " p"], columns: Columns) -> Float[Tensor, " c"]:
    return ladder[(columns.exponents * len(ladder)).round().long()]


def _configs(dim: int, bases: Sequence[float]) -> Iterator[ScaledRopeConfig]:
    """Yield every scaling by a factor and a trained length, over usual numbers of all three."""
    for made in ROPE_SCALINGS.values():
        names = {field.name for field in dataclasses.fields(made)}
        if not issubclass(made, ScaledRopeConfig) or "length" in names:
            continue  # of a ladder that moves with the text there is no one table
        if not {"factor", "trained_length"} <= names:
            continue
        switches: list[dict[str, Any]] = [{}]
        switches += [{name: not getattr(made(), name)} for name in _switches(made)]
        for base, trained, factor, own in itertools.product(bases, _TRAINED, _FACTORS, switches):
            try:
                given = {"dim": dim, "base": base, "trained_length": trained, "factor": factor}
                yield made(**given, **own)
            except ConfigError:
                continue


def _standing(
    bases: Sequence[float], found: Waves, columns: Columns
) -> Iterator[RopeProportionalConfig]:
    """Yield the ladders of which as many pairs turn as in the table."""
    pairs = columns.dim // 2
    pair = (columns.exponents * pairs).round().long()
    turns = found.turned > 0
    first = int(pair[turns].max()) + 1 if bool(turns.any()) else 0
    # Not every column is looked at: the last that turns lies between one that does and one that does not.
    later = pair[~turns & (pair >= first)]
    last = int(later.min()) if len(later) else first
    for turning in range(max(1, first), min(last, first + _TRIED_STANDING) + 1):
        for base in bases if turning < pairs else []:
            with contextlib.suppress(ConfigError):
                share = turning / pairs
                yield RopeProportionalConfig(
                    dim=columns.dim, base=base, partial_rotary_factor=share
                )


def _switches(made: type[RopeConfig]) -> list[str]:
    return [field.name for field in dataclasses.fields(made) if field.type in (bool, "bool")]
