"""Scalings of RoPE that may have made a table, compared where no plain frequencies fit it."""

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from jaxtyping import Float
from torch import Tensor

from posenc import limits
from posenc.errors import ConfigError
from posenc.identification.columns import Arrangement, Columns
from posenc.identification.frequency_fit import Hypothesis
from posenc.identification.waves import ColumnPhases, Waves, likely_starts
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
_FACTORS = (2.0, 4.0, 8.0, 16.0, 32.0, 40.0, 64.0)
_TRAINED_LENGTHS = (1_024, 2_048, 4_096, 8_192, 16_384, 32_768, 65_536)
_FAST = 0.25  # scalings keep the frequencies of pairs with exponents up to this
_TRIED_ZEROS = 32  # numbers of pairs without rotation that are tried
_MIN_WAVES = 0.25  # of the columns
_FINALISTS = 4


@dataclass(frozen=True)
class ScaledHypothesis(Hypothesis):
    """A hypothesis with the frequencies of a scaling of RoPE; base and scale are the config's own."""

    config: RopeConfig | None = None

    def rates(self, columns: Columns) -> Float[Tensor, " c"]:
        assert self.config is not None
        return _by_column(self.config.frequencies().inv_freq, columns)

    def float32_rates(self, columns: Columns) -> Float[Tensor, " c"]:
        assert self.config is not None
        return _by_column(self.config.float32_frequencies(self.config.rotary_dim), columns)


@dataclass(frozen=True, kw_only=True)
class Observation:
    """Constraints on the scaling, as read from a table.

    dim: twice its pairs. bases: those that its fastest pairs support. rotating: numbers of pairs, the
    fastest ones, that may rotate.
    """

    dim: int
    bases: tuple[float, ...]
    rotating: tuple[int, ...] = ()


def usual_configs(scaling: type[RopeConfig], observation: Observation) -> Iterator[RopeConfig]:
    """Yield usual factors of usual trained lengths, and with each boolean option flipped, one at a time."""
    defaults = scaling()
    switches: list[dict[str, Any]] = [{}]
    switches += [
        {field.name: not getattr(defaults, field.name)}
        for field in fields(scaling)
        if field.type in (bool, "bool")
    ]
    for base, length, factor, switch in itertools.product(
        observation.bases, _TRAINED_LENGTHS, _FACTORS, switches
    ):
        numbers: dict[str, Any] = {"base": base, "trained_length": length, "factor": factor}
        with contextlib.suppress(ConfigError):
            yield scaling(dim=observation.dim, **numbers, **switch)


def _proportional_configs(observation: Observation) -> Iterator[RopeConfig]:
    for rotating, base in itertools.product(observation.rotating, observation.bases):
        fraction = rotating / (observation.dim // 2)
        with contextlib.suppress(ConfigError):
            yield RopeProportionalConfig(
                dim=observation.dim, base=base, partial_rotary_factor=fraction
            )


# Configs whose frequencies a table may have, by kind. Scalings by a factor alone are missing, because
# their frequencies are geometric like plain ones, and so are those that depend on the length.
CANDIDATES: dict[str, Callable[[Observation], Iterator[RopeConfig]]] = {
    "rope_yarn": functools.partial(usual_configs, RopeYarnConfig),
    "rope_yarn_paper": functools.partial(usual_configs, RopeYarnPaperConfig),
    "rope_llama3": functools.partial(usual_configs, RopeLlama3Config),
    "rope_proportional": _proportional_configs,
}


def divided_config(dim: int, base: float, scale: float) -> RopeConfig | None:
    """Return position interpolation with the frequencies scale * base^(-2m/dim), None for scale > 1."""
    try:
        return RopeLinearConfig(dim=dim, base=base, factor=1 / scale)
    except ConfigError:
        return None


def ntk_bases(dim: int, base: float, usual: Sequence[float]) -> list[tuple[float, str]]:
    """Return the bases near `base` that NTK-aware scaling makes of usual ones, each with a description."""
    bases = []
    for plain in usual if dim > 2 else ():
        factor = round((base / plain) ** ((dim - 2) / dim))
        with contextlib.suppress(ConfigError):
            larger = RopeNtkConfig(dim=dim, base=plain, factor=float(factor)).larger_base
            if factor > 1 and math.isclose(larger, base, rel_tol=1e-3):
                bases.append((larger, f"NTK-aware scaling of base {plain:,.6g} by {factor}"))
    return bases


def nearest_scalings(waves: Waves, columns: Columns, moving: int) -> list[tuple[float, RopeConfig]]:
    """Return the scalings whose frequencies come nearest to those of a table, with their distance.

    moving: the least number of pairs that rotate; the columns of the others do not change.
    """
    pairs = columns.dim // 2
    if columns.dim > limits.MAX_DIM or float((waves.weight > 0).double().mean()) < _MIN_WAVES:
        return []
    last = min(pairs - 1, moving + _TRIED_ZEROS)
    observation = Observation(
        dim=columns.dim,
        bases=_supported_bases(waves, columns),
        rotating=tuple(range(max(1, moving), last + 1)),
    )
    rows = len(waves.table)
    scored: list[tuple[float, RopeConfig]] = []
    for config, frequencies in _candidates(observation):
        phase_error = (
            waves.theta - _by_column(frequencies, columns)
        ).abs() * rows  # radians, last row
        scored.append((float(phase_error.clamp_max(1.0).mean()), config))
    return sorted(scored, key=lambda pair: pair[0])[:_FINALISTS]


@functools.lru_cache(maxsize=4)  # every arrangement asks for the same ones
def _candidates(observation: Observation) -> list[tuple[RopeConfig, Float[Tensor, " p"]]]:
    configs = itertools.chain.from_iterable(make(observation) for make in CANDIDATES.values())
    return [(config, config.frequencies().inv_freq) for config in configs]


def scaled_hypotheses(
    waves: Waves,
    arrangement: Arrangement,
    config: RopeConfig,
    columns: Columns,
    tolerance: float,
    signs: tuple[int, float],
) -> list[ScaledHypothesis]:
    """Return one hypothesis for each likely first position. tolerance: error of a number by rounding."""
    sense, sign = signs
    first = ScaledHypothesis(arrangement, config.base, size=sign, sense=sense, config=config)
    rates = first.rates(columns)
    phases = ColumnPhases.of(waves, columns, rates, tolerance, signs)
    return [replace(first, start=start) for start in likely_starts(phases, rates)]


def _supported_bases(waves: Waves, columns: Columns) -> tuple[float, ...]:
    """Return the usual bases near the one of the fastest pairs, which scalings keep, or that one."""
    fast = (waves.weight > 0) & (columns.exponents > 0) & (columns.exponents <= _FAST)
    if not bool(fast.any()):
        return USUAL_BASES
    measured = float(
        (-waves.theta[fast].log() / columns.exponents[fast]).median().clamp(0.01, 27).exp()
    )
    usual = tuple(base for base in USUAL_BASES if abs(math.log(base / measured)) < 0.1)
    return usual or (measured,)


def _by_column(frequencies: Float[Tensor, " p"], columns: Columns) -> Float[Tensor, " c"]:
    return frequencies[(columns.exponents * len(frequencies)).round().long()]
