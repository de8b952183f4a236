"""Scalings of RoPE that may have made a table, compared where no plain frequencies fit it."""

import contextlib
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jaxtyping import Float
from torch import Tensor

from posenc import fields
from posenc.errors import ConfigError
from posenc.identification.columns import Arrangement, Columns
from posenc.identification.frequency_fit import Hypothesis, by_column
from posenc.identification.waves import Waves
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling.base import ScaledRopeConfig
from posenc.schemes.rope_scaling.llama3 import RopeLlama3Config
from posenc.schemes.rope_scaling.ntk import RopeNtkConfig
from posenc.schemes.rope_scaling.proportional import RopeProportionalConfig
from posenc.schemes.rope_scaling.sections import RopeSectionsConfig
from posenc.schemes.rope_scaling.yarn import RopeYarnConfig, RopeYarnPaperConfig
from posenc.text import joined

USUAL_BASES = (
    10_000.0, 500_000.0, 1_000_000.0, 150_000.0, 160_000.0, 100_000.0, 5_000_000.0, 10_000_000.0,
    1_000.0, 500.0, 100.0, 50_000.0, 2_000_000.0,
)  # fmt: skip
_FACTORS = (
    2.0,
    4.0,
    8.0,
    16.0,
    32.0,
    40.0,
    64.0,
    1.5,
    3.0,
    6.0,
    10.0,
    12.0,
    20.0,
    24.0,
    48.0,
    128.0,
)
_TRAINED_LENGTHS = (
    4_096, 8_192, 32_768, 2_048, 16_384, 65_536, 131_072, 1_024, 262_144, 524_288, 1_048_576,
)  # fmt: skip
_USUAL_TURNS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)  # of the ends of a ramp
# Scalings keep the frequencies of pairs with small exponents: nearly all up to the first, most up to the
# second, which tables of few pairs need.
_FASTEST, _FAST = 0.1, 0.25
_MIN_WAVES = 0.25  # of the columns
_MARGIN = (
    0.02  # radians in the last row, mean of the columns: scalings as near as this are compared
)
_DIGITS = 6  # after the point, of errors that are told apart


def usual_configs(
    scaling: type[ScaledRopeConfig], dim: int, base: float
) -> Iterator[ScaledRopeConfig]:
    """Yield usual factors of usual trained lengths, and with each boolean option flipped, one at a time."""
    defaults = scaling()
    switches: list[dict[str, Any]] = [{}]
    switches += [
        {field.name: not getattr(defaults, field.name)}
        for field in dataclasses.fields(scaling)
        if field.type in (bool, "bool") and not hasattr(RopeConfig, field.name)
    ]
    for length, factor, switch in itertools.product(_TRAINED_LENGTHS, _FACTORS, switches):
        numbers: dict[str, Any] = {"base": base, "trained_length": length, "factor": factor}
        with contextlib.suppress(ConfigError):
            yield scaling(dim=dim, **numbers, **switch)


def changed_scalings(
    scheme: RopeConfig,
) -> Iterator[tuple[ScaledRopeConfig, str, float | bool, float | bool]]:
    """Yield a scaling with one of its numbers changed to another usual one, doubled or halved.

    With the name of the field, its new value and the scheme's own.
    """
    if not isinstance(scheme, ScaledRopeConfig):
        return
    for name, _ in _own_rules(scheme):
        own = getattr(scheme, name)
        for value in _usual_values(name, own):
            if value != own:
                with contextlib.suppress(ConfigError):
                    yield scheme.replace(**{name: value}), name, value, own


def _usual_values(name: str, own: float | bool) -> Sequence[Any]:
    if isinstance(own, bool):
        return (not own,)
    usual = {"factor": (1.0, *_FACTORS), "trained_length": _TRAINED_LENGTHS}.get(name, _USUAL_TURNS)
    halved = own // 2 if isinstance(own, int) else own / 2
    return [*dict.fromkeys((*usual, 2 * own, halved))]


def scaling_words(scheme: RopeConfig) -> str:
    """Return a scaling with every number in which it may differ from others of its kind, "" for none."""
    if isinstance(scheme, RopeSectionsConfig):
        return _section_words(scheme)
    usual = fields.defaults(type(scheme))
    numbers = [
        f"{rule.label.lower()} {fields.described(getattr(scheme, name))}"
        for name, rule in _own_rules(scheme)
        if name == "trained_length" or (name != "factor" and getattr(scheme, name) != usual[name])
    ]
    return ", ".join(filter(None, (scheme.words, *numbers)))


def _section_words(scheme: RopeSectionsConfig) -> str:
    """Return which pairs belong to which axis, and the grid unless the tokens are text."""
    pairs = f"axes of {joined([f'{size}' for size in scheme.sizes], 'and')} pairs"
    turns = ", assigned in turn" if scheme.interleaved else ""
    return f"{pairs}{turns}{f', in a grid of {scheme.grid} columns' if scheme.grid else ''}"


def _own_rules(scheme: RopeConfig) -> list[tuple[str, fields.Rule]]:
    """Return the fields of a scaling that plain RoPE does not have, without lists and the text's length."""
    plain = (*fields.rules(RopeConfig), "length")
    return [
        (name, rule)
        for name, rule in fields.rules(scheme).items()
        if name not in plain and not isinstance(rule, fields.Numbers)
    ]


def _proportional_configs(dim: int, base: float) -> Iterator[ScaledRopeConfig]:
    for rotating in range(1, dim // 2):
        with contextlib.suppress(ConfigError):
            yield RopeProportionalConfig(
                dim=dim, base=base, partial_rotary_factor=2 * rotating / dim
            )


# Configs whose frequencies a table of `dim` and `base` may have, by kind. Scalings by a factor alone are
# missing, because their frequencies are geometric like plain ones, and so are those by length.
CANDIDATES: dict[str, Callable[[int, float], Iterator[ScaledRopeConfig]]] = {
    "rope_yarn": functools.partial(usual_configs, RopeYarnConfig),
    "rope_yarn_paper": functools.partial(usual_configs, RopeYarnPaperConfig),
    "rope_llama3": functools.partial(usual_configs, RopeLlama3Config),
    "rope_proportional": _proportional_configs,
}


def ntk_scalings(
    dim: int, base: float, usual: Sequence[float], within: float = 1e-3
) -> list[RopeNtkConfig]:
    """Return the NTK-aware scalings of usual bases that make a larger base near `base`.

    within: the largest relative difference of the larger base.
    """
    scalings = []
    for plain in usual if dim > 2 else ():
        factor = round((base / plain) ** ((dim - 2) / dim))
        with contextlib.suppress(ConfigError):
            scaling = RopeNtkConfig(dim=dim, base=plain, factor=float(factor))
            if factor > 1 and math.isclose(scaling.larger_base, base, rel_tol=within):
                scalings.append(scaling)
    return scalings


def nearest_scalings(
    waves: Waves, orders: Sequence[tuple[Arrangement, Columns]]
) -> list[list[Hypothesis]]:
    """Return the scalings whose frequencies come nearest to those of a table, for every order."""
    if float((waves.weight > 0).double().mean()) < _MIN_WAVES:
        return []
    scalings = functools.cache(_scalings)
    found: list[list[tuple[float, Hypothesis]]] = []
    for arrangement, columns in orders:
        scored = []
        for base in _supported_bases(waves, columns):
            for config, frequencies in scalings(columns.dim, base):
                # In radians of the last row.
                error = (waves.theta - by_column(frequencies, columns)).abs() * waves.rows
                hypothesis = Hypothesis(arrangement, base, config=config)
                scored.append((float(error.clamp_max(1.0).mean()), hypothesis))
        if scored:
            # Of equal ones, the usual first: the last digits of an error depend on the processor.
            found.append(sorted(scored, key=lambda pair: round(pair[0], _DIGITS)))
    least = min((scored[0][0] for scored in found), default=0.0)
    near = [
        [hypothesis for error, hypothesis in scored if error <= least + _MARGIN] for scored in found
    ]
    return [hypotheses for hypotheses in near if hypotheses]


def _scalings(dim: int, base: float) -> list[tuple[ScaledRopeConfig, Float[Tensor, " p"]]]:
    configs = itertools.chain.from_iterable(make(dim, base) for make in CANDIDATES.values())
    # Without the exact cycles of config.frequencies(), which take most of a search and are not compared.
    scaled = [(config, config.divisors()) for config in configs]
    # One divisor for all pairs is plain RoPE, or linear scaling, which is found without these.
    return [
        (config, config.unscaled().inv_freq / divisors)
        for config, divisors in scaled
        if float(divisors.min()) != float(divisors.max())
    ]


def _supported_bases(waves: Waves, columns: Columns) -> tuple[float, ...]:
    """Return the usual bases near the one of the fastest pairs, which scalings keep, or that one."""
    known = (waves.weight > 0) & (columns.exponents > 0)
    fast = known & (columns.exponents <= _FASTEST)
    if not bool(fast.any()):
        fast = known & (columns.exponents <= _FAST)
    if not bool(fast.any()):
        return USUAL_BASES
    measured = float(
        (-waves.theta[fast].log() / columns.exponents[fast]).median().clamp(0.01, 27).exp()
    )
    usual = tuple(base for base in USUAL_BASES if abs(math.log(base / measured)) < 0.1)
    return usual or (measured,)
