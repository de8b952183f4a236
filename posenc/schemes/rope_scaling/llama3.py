r"""Llama 3.1's scaling: short waves left as they are, long waves divided, a blend between.

Meta's published code, with the base of Grattafiori et al. 2024, arXiv 2407.21783. A wave shorter than
L / high_freq_factor stays, one longer than L / low_freq_factor is divided by s, and between them a share
of :math:`(L / \lambda - low) / (high - low)` stays.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.schemes.rope_scaling.base import (
    FACTOR,
    TRAINED_LENGTH,
    RotationRampConfig,
    rotations_field,
)


@dataclass(frozen=True, kw_only=True)
class RopeLlama3Config(RotationRampConfig):
    """RoPE with the ramp of Llama 3.1 (Grattafiori et al. 2024, arXiv 2407.21783, and its public code).

    The ramp is linear in the number of waves that fit into the trained length.

    low_freq_factor: pairs with fewer waves in the trained length are divided by the factor (1e-6 to
        1,000,000).
    high_freq_factor: pairs with more waves in the trained length are kept (1e-6 to 1,000,000).
    """

    kind: str = "rope_llama3"
    factor: float = FACTOR.field(8.0)
    low_freq_factor: float = rotations_field(1.0, "Low frequency factor")
    high_freq_factor: float = rotations_field(4.0, "High frequency factor")
    trained_length: int = TRAINED_LENGTH.field(8_192)

    label: ClassVar[str] = "RoPE Llama 3"
    summary: ClassVar[str] = "RoPE that keeps short waves, slows long waves and blends between."
    scaling_name: ClassVar[str] = "Llama 3 scaling"

    ramp = ("low_freq_factor", "high_freq_factor")

    def float32_frequencies(self) -> Float[Tensor, " pairs"]:
        plain = super().float32_frequencies()
        low, high, trained = self.low_freq_factor, self.high_freq_factor, self.trained_length
        waves = 2 * math.pi / plain
        longer, shorter = waves > trained / low, waves < trained / high
        divided = torch.where(longer, plain / self.factor, plain)
        share = (trained / waves - low) / (high - low)
        mixed = (1 - share) * divided / self.factor + share * divided
        return torch.where(~shorter & ~longer, mixed, divided)
