r"""Llama 3.1's scaling: short waves kept, long waves divided, a blend between.

Grattafiori et al. 2024, arXiv 2407.21783, give the base; the formula is that of Meta's published code.
A wave shorter than L / high_freq_factor is kept, one longer than L / low_freq_factor is divided by s,
and between them a share of :math:`(L / \lambda - low) / (high - low)` is kept.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from posenc import fields, limits
from posenc.errors import ConfigError
from posenc.formula import Writer
from posenc.schemes.rope_scaling.base import (
    ScaledRopeConfig,
    blended,
    blended_formula,
    factor_field,
    trained_length_field,
)


def _waves_field(default: float, label: str, help: str) -> Any:
    rule = fields.FloatRange(low=limits.MIN_TURNS, high=limits.MAX_TURNS, label=label, help=help)
    return fields.ruled(default, rule)


@dataclass(frozen=True, kw_only=True)
class RopeLlama3Config(ScaledRopeConfig):
    """RoPE with the ramp of Llama 3.1, linear in the waves that fit into the trained length."""

    kind: str = "rope_llama3"
    factor: float = factor_field(8.0)
    low_freq_factor: float = _waves_field(
        1.0, "Low frequency factor", "Pairs with fewer waves in the trained length are divided."
    )
    high_freq_factor: float = _waves_field(
        4.0, "High frequency factor", "Pairs with more waves in the trained length are kept."
    )
    trained_length: int = trained_length_field(8_192)

    label: ClassVar[str] = "RoPE Llama 3"
    summary: ClassVar[str] = "RoPE with short waves kept, long waves divided, a blend between."
    paper: ClassVar[str] = "Grattafiori et al. 2024, arXiv 2407.21783"
    reading: ClassVar[str] = "Llama 3 scaling"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.high_freq_factor <= self.low_freq_factor:
            raise ConfigError(
                f"{type(self).__name__}.high_freq_factor must be greater than low_freq_factor, got "
                f"{self.high_freq_factor:g} and {self.low_freq_factor:g}."
            )

    def kept(self) -> Float[Tensor, " pairs"]:
        """Return the share of each frequency that is kept, float64."""
        waves = self.trained_length * self.unscaled().inv_freq / (2 * math.pi)
        low, high = self.low_freq_factor, self.high_freq_factor
        return ((waves - low) / (high - low)).clamp(0, 1)

    def rate_formula(self, write: Writer) -> tuple[str, ...]:
        low, high = write.value("low_freq_factor"), write.value("high_freq_factor")
        waves = (
            rf"\frac{{{write.value('trained_length')}}}{{2 \pi \cdot {write.power('rotary_dim')}}}"
        )
        return blended_formula(write, rf"\frac{{{waves} - {low}}}{{{high} - {low}}}")

    def divisors(self) -> Float[Tensor, " pairs"]:
        return blended(self.kept(), self.factor)

    def float32_ladder(self, rotary_dim: int) -> Float[Tensor, " pairs"]:
        plain = super().float32_ladder(rotary_dim)
        low, high, trained = self.low_freq_factor, self.high_freq_factor, self.trained_length
        waves = 2 * math.pi / plain
        longer, shorter = waves > trained / low, waves < trained / high
        divided = torch.where(longer, plain / self.factor, plain)
        share = (trained / waves - low) / (high - low)
        mixed = (1 - share) * divided / self.factor + share * divided
        return torch.where(~shorter & ~longer, mixed, divided)
