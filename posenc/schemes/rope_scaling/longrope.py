r"""LongRoPE: a factor for every pair, in one list for short texts and one for long texts.

Ding et al. 2024, arXiv 2402.13753, eq. 4: :math:`\theta_m / \lambda_m`. The factors are searched for each
model. Empty lists stand for an example: 1 for short texts, NTK-aware scaling (section 3.3) for long ones.
Queries and keys are multiplied by :math:`\sqrt{1 + \ln s / \ln L_0}` at every length.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from jaxtyping import Float
from torch import Tensor

from posenc import fields, limits
from posenc.errors import ConfigError
from posenc.latex import Writer, number
from posenc.schemes.rope import float32_powers
from posenc.schemes.rope_scaling.base import (
    ATTENTION_FACTOR,
    READ_LENGTH,
    TRAINED_LENGTH,
    ScaledRopeConfig,
)
from posenc.schemes.rope_scaling.ntk import larger_base_divisors


def _factors_field(label: str) -> Any:
    rule = fields.Numbers(
        low=1e-3,
        high=limits.MAX_PAIR_FACTOR,
        least=0,
        most=limits.MAX_DIM // 2,
        label=label,
    )
    return rule.field(())


@dataclass(frozen=True, kw_only=True)
class RopeLongConfig(ScaledRopeConfig):
    """RoPE with a divisor for each pair, other ones for long texts (Ding et al. 2024, arXiv 2402.13753).

    short_factor: divisors in texts up to the trained length: one number for all pairs or one for each;
        empty stands for 1 (0.001 to 1,000,000).
    long_factor: divisors in longer texts: one number for all pairs or one for each; empty stands for an
        example, a geometric series from 1 to the scale factor (0.001 to 1,000,000).
    trained_length: positions that the unscaled model was trained on (2 to 2,147,483,647).
    attention_factor: multiplies queries and keys; 0 stands for the one made from the scale factor (0.01
        to 100).
    length: length of the text, in positions; 0 stands for no more than the trained length (0 to
        2,147,483,647).
    """

    kind: str = "rope_longrope"
    short_factor: tuple[float, ...] = _factors_field("Short factors")
    long_factor: tuple[float, ...] = _factors_field("Long factors")
    trained_length: int = TRAINED_LENGTH.field(2_048)
    attention_factor: float = ATTENTION_FACTOR.field(0.0)
    length: int = READ_LENGTH.field(0)

    label: ClassVar[str] = "LongRoPE"
    summary: ClassVar[str] = (
        "RoPE with a searched factor per pair, and a second set for long texts."
    )
    scaling_name: ClassVar[str] = "LongRoPE"
    after_training: ClassVar[bool] = False  # its factors are searched for
    sizes_used: ClassVar[tuple[str, ...]] = (*ScaledRopeConfig.sizes_used, "length")

    def __post_init__(self) -> None:
        super().__post_init__()
        pairs = self.rotary_dim // 2
        for name in ("short_factor", "long_factor"):
            count = len(getattr(self, name))
            if count not in (0, 1, pairs):
                raise ConfigError(
                    f"{type(self).__name__}.{name} must hold one number for each of the {pairs} "
                    f"pairs, one for all, or none, got {count}."
                )

    @property
    def is_long(self) -> bool:
        """Whether the text is longer than the trained length."""
        return self.length > self.trained_length

    def at_length(self, length: int) -> Self:
        return self.replace(length=length)

    def frequency_formula(self, write: Writer) -> tuple[str, ...]:
        divisor = rf"\lambda_{write.pair}"
        which = "long" if self.is_long else "short"
        definition = rf"{divisor}: \text{{ the {which} factor of the pair}}"
        if write.numbers:
            divisors = self.divisors().tolist()
            first, last = number(divisors[0]), number(divisors[-1])
            definition += rf"\text{{, from }} {first} \text{{ to }} {last}"
        return rf"\frac{{1}}{{{divisor} \cdot {write.power('rotary_dim')}}}", definition

    def divisors(self) -> Float[Tensor, " pairs"]:
        pairs = self.rotary_dim // 2
        factors = self.long_factor if self.is_long else self.short_factor
        if factors:
            return torch.tensor(factors, dtype=torch.float64, device="cpu").expand(pairs)
        return larger_base_divisors(pairs, self.factor if self.is_long else 1.0)

    def attention_scaling(self) -> float:
        if self.attention_factor:
            return float(self.attention_factor)
        if self.factor <= 1:
            return 1.0
        return math.sqrt(1 + math.log(self.factor) / math.log(self.trained_length))

    def float32_frequencies(self) -> Float[Tensor, " pairs"]:
        return 1.0 / (self.divisors().float() * float32_powers(self.base, self.float32_rotary_dim))
