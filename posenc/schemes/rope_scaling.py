r"""Scalings of RoPE: a trained rotation read at positions past its training length.

Each is a value that turns a width and a base into inverse frequencies. A factor of s stretches the
context s times. Position interpolation: Chen et al. 2023, arXiv 2306.15595, eq. 3, every frequency
divided by s. NTK-aware: bloc97 2023 (as eq. 16 of Peng et al. 2023, arXiv 2309.00071), the base
multiplied by :math:`s^{d/(d-2)}`, so that the fastest pair keeps its frequency and the slowest is
divided by s.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from posenc.errors import ConfigError, shown
from posenc.limits import MAX_BASE
from posenc.phases import Phases

MAX_FACTOR = 4_096.0


@dataclass(frozen=True, kw_only=True)
class Unscaled:
    """The ladder as it was trained."""

    kind: Literal["none"] = "none"
    label: ClassVar[str] = "unscaled"
    words: ClassVar[str] = ""

    def ladder(self, rotary_dim: int, base: float) -> Phases:
        """Return the frequencies base^(-2m/rotary_dim)."""
        return Phases.geometric(rotary_dim, base)


@dataclass(frozen=True, kw_only=True)
class Interpolated:
    """Position interpolation: positions, and so frequencies, divided by `factor`."""

    factor: float
    kind: Literal["linear"] = "linear"
    label: ClassVar[str] = "position interpolation"

    def __post_init__(self) -> None:
        object.__setattr__(self, "factor", _checked(type(self).__name__, self.factor))

    @property
    def words(self) -> str:
        """What was done to the ladder, in words."""
        return f"{self.label} by {self.factor:g}"

    def ladder(self, rotary_dim: int, base: float) -> Phases:
        """Return the frequencies base^(-2m/rotary_dim) / factor, in float64."""
        if self.factor == 1:
            return Phases.geometric(rotary_dim, base)
        return Phases.given(Phases.geometric(rotary_dim, base).inv_freq / self.factor)


@dataclass(frozen=True, kw_only=True)
class NtkAware:
    """NTK-aware scaling: a larger base, base * factor^(d/(d-2)) for rotary width d."""

    factor: float
    kind: Literal["ntk"] = "ntk"
    label: ClassVar[str] = "NTK-aware"

    def __post_init__(self) -> None:
        object.__setattr__(self, "factor", _checked(type(self).__name__, self.factor))

    @property
    def words(self) -> str:
        """What was done to the ladder, in words."""
        return f"{self.label} by {self.factor:g}"

    def ladder(self, rotary_dim: int, base: float) -> Phases:
        """Return the frequencies of the larger base; a single pair has one frequency and keeps it."""
        if rotary_dim == 2:
            return Phases.geometric(rotary_dim, base)
        scaled = base * self.factor ** (rotary_dim / (rotary_dim - 2))
        if scaled > MAX_BASE:
            raise ConfigError(
                f"NtkAware.factor {self.factor:g} makes of base {base:g} more than {MAX_BASE:g}, the "
                "largest base."
            )
        return Phases.geometric(rotary_dim, scaled)


Scaling = Unscaled | Interpolated | NtkAware
SCALINGS: dict[str, type[Any]] = {
    scaling.kind: scaling for scaling in (Unscaled, Interpolated, NtkAware)
}


def stretching(rotary_dim: int, base: float, factor: float) -> list[Scaling]:
    """Return every scaling by `factor` that this ladder has: beyond the largest base there is none."""
    found: list[Scaling] = []
    for kind in SCALINGS.values():
        if kind is Unscaled:
            continue
        scaling = kind(factor=factor)
        try:
            scaling.ladder(rotary_dim, base)
        except ConfigError:
            continue
        found.append(scaling)
    return found


def _checked(owner: str, factor: object) -> float:
    if (
        isinstance(factor, bool)
        or not isinstance(factor, int | float)
        or not 1 <= factor <= MAX_FACTOR
    ):
        raise ConfigError(
            f"{owner}.factor must be a number from 1 to {MAX_FACTOR:g}, got {shown(factor)}."
        )
    return float(factor)  # 2 and 2.0 are one value, written one way
