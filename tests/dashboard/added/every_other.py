"""Every second pair divided by the factor: a scaling made up for a test."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from posenc import fields
from posenc.latex import Writer
from posenc.schemes.rope_scaling.base import FACTOR, TRAINED_LENGTH, ScaledRopeConfig


@dataclass(frozen=True, kw_only=True)
class RopeEveryOtherConfig(ScaledRopeConfig):
    """RoPE with every second pair divided, the first of them pair `first`."""

    kind: str = "rope_every_other"
    factor: float = FACTOR.field(4.0)
    trained_length: int = TRAINED_LENGTH.field(2_048)
    first: float = fields.FloatRange(low=0.0, high=1.0, label="First divided pair").field(0.0)

    label: ClassVar[str] = "RoPE every other"
    summary: ClassVar[str] = "RoPE with every second pair divided."
    scaling_name: ClassVar[str] = "every other pair"

    def frequency_formula(self, write: Writer) -> tuple[str, ...]:
        return (rf"\frac{{1}}{{{write.power('rotary_dim')}}}",)

    def divisors(self) -> torch.Tensor:
        found = torch.ones(self.rotary_dim // 2, dtype=torch.float64)
        found[int(self.first) :: 2] = self.factor
        return found
