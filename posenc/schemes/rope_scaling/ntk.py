r"""NTK-aware scaling: a larger base, so that slow pairs are slowed and the fastest is kept.

bloc97 2023, as in Peng et al. 2023, arXiv 2309.00071, eq. 16: :math:`b' = b\,s^{d/(d-2)}`. The fastest
pair keeps its frequency, the slowest is divided by s; pair m is divided by :math:`s^{2m/(d-2)}`.

Dynamic NTK: NTK-aware scaling that grows with the text; none up to the trained length.

emozilla 2023, as in Peng et al. 2023, arXiv 2309.00071, section 3.3 and, with the factor s, all public
code: at n positions :math:`b' = b\,(s n / L_0 - (s - 1))^{d/(d-2)}`, :math:`n \ge L_0`. The frequencies
move as the text grows, so keys that were rotated and kept for a shorter text are stale.
"""

from dataclasses import dataclass
from typing import ClassVar, Self

from jaxtyping import Float
from torch import Tensor

from posenc.formula import Writer, number
from posenc.schemes.rope import RopeConfig, float32_powers
from posenc.schemes.rope_scaling.base import (
    ScaledRopeConfig,
    factor_field,
    pair_numbers,
    read_length_field,
    trained_length_field,
)


@dataclass(frozen=True, kw_only=True)
class RopeNtkConfig(ScaledRopeConfig):
    """RoPE with the base multiplied by factor^(d/(d-2)); a single pair has one frequency, kept."""

    kind: str = "rope_ntk"
    factor: float = factor_field(4.0)

    label: ClassVar[str] = "RoPE NTK-aware"
    summary: ClassVar[str] = "RoPE with a larger base: the slow pairs slowed, the fastest kept."
    paper: ClassVar[str] = "Peng et al. 2023, arXiv 2309.00071"
    reading: ClassVar[str] = "NTK-aware"
    shared: ClassVar[dict[str, str]] = RopeConfig.shared

    @property
    def larger_base(self) -> float:
        """The base that has these frequencies; one pair has one frequency and keeps it."""
        pairs = self.rotary_dim // 2
        power = 0.0 if pairs == 1 else pairs / (pairs - 1)
        found: float = self.base * self.factor**power
        return found

    def rate_formula(self, write: Writer) -> tuple[str, ...]:
        return larger_base_formula(write, write.value("factor"))

    def divisors(self) -> Float[Tensor, " pairs"]:
        return larger_base(self.rotary_dim // 2, self.factor)

    def float32_ladder(self, rotary_dim: int) -> Float[Tensor, " pairs"]:
        if rotary_dim == 2:  # one pair keeps its frequency; transformers divides by zero
            return super().float32_ladder(rotary_dim)
        base = self.base * self.factor ** (rotary_dim / (rotary_dim - 2))
        return 1.0 / float32_powers(base, rotary_dim)


def larger_base(pairs: int, factor: float) -> Float[Tensor, " pairs"]:
    """Return by what a base times factor^(d/(d-2)) divides each of the d/2 frequencies."""
    share = pair_numbers(pairs) / max(pairs - 1, 1)  # a single pair is kept
    powers: Tensor = float(factor) ** share
    return powers


def larger_base_formula(write: Writer, growth: str) -> tuple[str, ...]:
    """Return the frequencies of a base times growth^(r/(r-2)), for more than one pair."""
    if write.config.rotary_dim == 2:
        return (rf"\frac{{1}}{{{write.power('rotary_dim')}}}",)
    width = write.value("rotary_dim")
    larger = rf"{{{write.value('base')}}} \cdot {{{growth}}}^{{{width}/({width} - 2)}}"
    return (rf"\left({larger}\right)^{{-2{write.pair}/{width}}}",)


@dataclass(frozen=True, kw_only=True)
class RopeDynamicConfig(ScaledRopeConfig):
    """RoPE with NTK-aware scaling for a text of `length` positions."""

    kind: str = "rope_dynamic"
    factor: float = factor_field(4.0, "How fast the base grows past the trained length.")
    trained_length: int = trained_length_field(2_048)
    length: int = read_length_field()

    label: ClassVar[str] = "RoPE dynamic NTK"
    summary: ClassVar[str] = "RoPE whose base grows with the text past the trained length."
    paper: ClassVar[str] = "Peng et al. 2023, arXiv 2309.00071"
    reading: ClassVar[str] = "dynamic NTK"
    shared: ClassVar[dict[str, str]] = ScaledRopeConfig.shared | {"length": "length"}

    def stretch(self, length: int) -> float | None:
        return self.at_length(length).growth

    @property
    def made_for(self) -> float | None:
        return None  # it follows the text

    @property
    def growth(self) -> float:
        """What the base is multiplied by, to the power d/(d-2): s n / L0 - (s - 1), 1 up to L0."""
        n, trained = max(self.length, self.trained_length), self.trained_length
        return (self.factor * n / trained) - (self.factor - 1)

    def at_length(self, length: int) -> Self:
        return self.replace(length=length)

    def rate_formula(self, write: Writer) -> tuple[str, ...]:
        if write.numbers:
            return larger_base_formula(write, number(self.growth))
        growth = r"\left(\frac{s\,\max(n, L)}{L} - (s - 1)\right)"
        return larger_base_formula(write, growth)

    def divisors(self) -> Float[Tensor, " pairs"]:
        return larger_base(self.rotary_dim // 2, self.growth)

    def float32_ladder(self, rotary_dim: int) -> Float[Tensor, " pairs"]:
        if rotary_dim == 2:  # one pair keeps its frequency; transformers divides by zero
            return super().float32_ladder(rotary_dim)
        base = self.base * self.growth ** (rotary_dim / (rotary_dim - 2))
        return 1.0 / float32_powers(base, rotary_dim)
