r"""NTK-aware scaling: a larger base; and dynamic NTK, whose base grows with the text.

bloc97 2023, as in Peng et al. 2023, arXiv 2309.00071, eq. 16: :math:`b' = b\,s^{d/(d-2)}`, which divides
pair m by :math:`s^{2m/(d-2)}`. Dynamic NTK: emozilla 2023, as in section 3.3 and, with the factor s, all
public code: at n positions :math:`b' = b\,(s n / L_0 - (s - 1))^{d/(d-2)}`, :math:`n \ge L_0`.
"""

from dataclasses import dataclass
from typing import ClassVar, Self

from jaxtyping import Float
from torch import Tensor

from posenc.latex import Writer, number
from posenc.schemes.rope import RopeConfig, float32_powers
from posenc.schemes.rope_scaling.base import (
    READ_LENGTH,
    TRAINED_LENGTH,
    ScaledRopeConfig,
    pair_numbers,
)


@dataclass(frozen=True, kw_only=True)
class RopeNtkConfig(ScaledRopeConfig):
    """RoPE with a larger base, b factor^(d/(d-2)) (Peng et al. 2023, arXiv 2309.00071, section 3.1).

    d features rotate; a single pair keeps its frequency.
    """

    kind: str = "rope_ntk"

    label: ClassVar[str] = "RoPE NTK-aware"
    summary: ClassVar[str] = "RoPE with a larger base: slow pairs become slower, the fastest stays."
    scaling_name: ClassVar[str] = "NTK-aware"
    sizes_used: ClassVar[tuple[str, ...]] = RopeConfig.sizes_used

    @property
    def larger_base(self) -> float:
        """The base that has these frequencies."""
        return self._larger_base(self.rotary_dim)

    def _larger_base(self, rotary_dim: int) -> float:
        power = 0.0 if rotary_dim == 2 else rotary_dim / (rotary_dim - 2)
        larger: float = self.base * self.slowest_divisor**power
        return larger

    def frequency_formula(self, write: Writer) -> tuple[str, ...]:
        return _larger_base_formula(write, write.value("factor"))

    def divisors(self) -> Float[Tensor, " pairs"]:
        return larger_base_divisors(self.rotary_dim // 2, self.slowest_divisor)

    def float32_frequencies(self) -> Float[Tensor, " pairs"]:
        rotary_dim = self.float32_rotary_dim
        return 1.0 / float32_powers(self._larger_base(rotary_dim), rotary_dim)


@dataclass(frozen=True, kw_only=True)
class RopeDynamicConfig(RopeNtkConfig):
    """RoPE whose base grows with the text (dynamic NTK, Peng et al. 2023, arXiv 2309.00071, section 3.3).

    factor: how fast the base grows past the trained length (1 to 4,096).
    trained_length: positions that the unscaled model was trained on (2 to 2,147,483,647).
    length: length of the text, in positions; 0 stands for no more than the trained length (0 to
        2,147,483,647).
    """

    kind: str = "rope_dynamic"
    trained_length: int = TRAINED_LENGTH.field(2_048)
    length: int = READ_LENGTH.field(0)

    label: ClassVar[str] = "RoPE dynamic NTK"
    summary: ClassVar[str] = "RoPE whose base grows with the text past the trained length."
    scaling_name: ClassVar[str] = "dynamic NTK"
    sizes_used: ClassVar[tuple[str, ...]] = (*ScaledRopeConfig.sizes_used, "length")

    @property
    def slowest_divisor(self) -> float:
        """Divisor of the slowest frequency: s n / L0 - (s - 1), and 1 up to L0."""
        n, trained = max(self.length, self.trained_length), self.trained_length
        return (self.factor * n / trained) - (self.factor - 1)

    @property
    def scaled_length(self) -> float | None:
        return None  # it follows the text

    def at_length(self, length: int) -> Self:
        return self.replace(length=length)

    def frequency_formula(self, write: Writer) -> tuple[str, ...]:
        if write.numbers:
            return _larger_base_formula(write, number(self.slowest_divisor))
        return _larger_base_formula(write, r"\left(\frac{s\,\max(n, L)}{L} - (s - 1)\right)")


def larger_base_divisors(pairs: int, growth: float) -> Float[Tensor, " pairs"]:
    """Return the divisors of the d/2 frequencies at a base times growth^(d/(d-2))."""
    share = pair_numbers(pairs) / max(pairs - 1, 1)  # a single pair keeps its frequency
    powers: Tensor = float(growth) ** share
    return powers


def _larger_base_formula(write: Writer, growth: str) -> tuple[str, ...]:
    if write.config.rotary_dim == 2:
        return (rf"\frac{{1}}{{{write.power('rotary_dim')}}}",)
    width = write.value("rotary_dim")
    larger = rf"{{{write.value('base')}}} \cdot {{{growth}}}^{{{width}/({width} - 2)}}"
    return (rf"\left({larger}\right)^{{-2{write.pair}/{width}}}",)
