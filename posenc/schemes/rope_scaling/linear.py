r"""Position interpolation: every frequency divided by the scale factor.

Chen et al. 2023, arXiv 2306.15595, eq. 3: position p of a text s times as long is read as p / s, which
is :math:`\theta_m / s`.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.formula import Writer
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling.scaled import ScaledRopeConfig, factor_field, pair_numbers


@dataclass(frozen=True, kw_only=True)
class RopeLinearConfig(ScaledRopeConfig):
    """RoPE with positions, and so frequencies, divided by `factor`."""

    kind: str = "rope_linear"
    factor: float = factor_field(4.0)

    label: ClassVar[str] = "RoPE linear"
    summary: ClassVar[str] = "RoPE with every position divided by one factor."
    paper: ClassVar[str] = "Chen et al. 2023, arXiv 2306.15595"
    reading: ClassVar[str] = "position interpolation"
    shared: ClassVar[dict[str, str]] = RopeConfig.shared

    def rate_formula(self, write: Writer) -> tuple[str, ...]:
        return (rf"\frac{{1}}{{{write.value('factor')} \cdot {write.power('rotary_dim')}}}",)

    def divisors(self) -> Float[Tensor, " pairs"]:
        return torch.full_like(pair_numbers(self.rotary_dim // 2), self.factor)

    def float32_ladder(self, rotary_dim: int) -> Float[Tensor, " pairs"]:
        return super().float32_ladder(rotary_dim) / self.factor
