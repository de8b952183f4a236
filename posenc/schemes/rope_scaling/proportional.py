"""p-RoPE: the frequencies of the whole head, of which only the fastest pairs rotate.

Barbero et al. 2024, arXiv 2410.06205, section 6.1: the slowest pairs have frequency 0; partial rotary has
all frequencies in fewer features. A scale factor divides all frequencies, as in Gemma.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from posenc import fields
from posenc.latex import Writer
from posenc.schemes.rope import RopeConfig, float32_powers
from posenc.schemes.rope_scaling.base import FACTOR, ScaledRopeConfig, pair_numbers


@dataclass(frozen=True, kw_only=True)
class RopeProportionalConfig(ScaledRopeConfig):
    """RoPE whose slowest pairs do not rotate (p-RoPE, Barbero et al. 2024, arXiv 2410.06205, section 6).

    partial_rotary_factor: share of the pairs that rotate: the fastest ones, with the frequencies of the
        whole head; the others have frequency 0 (0 to 1).
    factor: divides every frequency (1 to 4,096).
    """

    kind: str = "rope_proportional"
    partial_rotary_factor: float = fields.FloatRange(
        low=0.0,
        high=1.0,
        label="Share of pairs that turn",
    ).field(0.75)
    factor: float = FACTOR.field(1.0)

    label: ClassVar[str] = "p-RoPE"
    summary: ClassVar[str] = "RoPE whose slowest pairs do not turn at all."
    scaling_name: ClassVar[str] = "p-RoPE"
    after_training: ClassVar[bool] = False  # pairs that stop rotating need training
    sizes_used: ClassVar[tuple[str, ...]] = RopeConfig.sizes_used

    def as_trained(self) -> RopeConfig:
        return self  # it is no scaling of other frequencies

    @property
    def rotary_dim(self) -> int:
        """The whole width: pairs that stand still are pairs too."""
        return self.dim

    @property
    def rotating(self) -> int:
        """Number of pairs that rotate."""
        return math.floor(self.dim * self.partial_rotary_factor / 2 + 1e-9)

    @property
    def words(self) -> str:
        by = "" if self.factor == 1 else f", all divided by {self.factor:g}"
        return f"the {self.dim // 2 - self.rotating} slowest set to 0{by}"

    def frequency_formula(self, write: Writer) -> tuple[str, ...]:
        count = str(self.rotating) if write.numbers else "n"
        by = "" if self.factor == 1 else rf"{write.value('factor')} \cdot "
        frequency = rf"\frac{{1}}{{{by}{write.power('rotary_dim')}}}"
        return (
            rf"\begin{{cases}} {frequency} & {write.pair} < {count} \\ 0 & {write.pair} \ge {count} "
            rf"\end{{cases}}",
        )

    def divisors(self) -> Float[Tensor, " pairs"]:
        pairs = pair_numbers(self.dim // 2)
        return torch.full_like(pairs, self.factor).masked_fill(pairs >= self.rotating, torch.inf)

    def float32_frequencies(self) -> Float[Tensor, " pairs"]:
        rotating = int(self.partial_rotary_factor * self.dim // 2)
        powers = float32_powers(self.base, self.dim, rotating)
        still = torch.zeros(self.dim // 2 - rotating, dtype=torch.float32, device="cpu")
        return torch.cat((1.0 / powers, still)) / self.factor
