r"""Position interpolation: every frequency divided by the scale factor.

Chen et al. 2023, arXiv 2306.15595, eq. 3: position p of a text s times as long is read as p / s, which
is :math:`\theta_m / s`.
"""

from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.errors import ConfigError
from posenc.formula import Writer
from posenc.schemes.known_rope import Block, Evidence, RopeBlock
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
    block_types: ClassVar[tuple[str, ...]] = ("linear",)
    block_keys: ClassVar[tuple[str, ...]] = ("factor",)
    vllm_counts_factor: ClassVar[bool] = True
    evidence: ClassVar[Evidence | None] = Evidence(
        training="fine-tuning",
        statement="LLaMA models trained on 2,048 tokens were extended to 32,768 (x16) by up to 1,000 steps "
        "of fine-tuning. Without it, LLaMA 7B had a perplexity of 16.1 at x4 and 112 at x8, against 7.2 at "
        "its trained length.",
        source="Chen et al. 2023, arXiv 2306.15595, abstract and tables 1 and 3",
        trained_to=16.0,
    )

    @classmethod
    def from_block(cls, block: RopeBlock) -> Self:
        return cls(**block.shared(), factor=block.factor())

    def to_block(self) -> Block | None:
        return {"rope_type": "linear", "factor": self.factor}

    def llama_cpp(self) -> str:
        return f"--rope-scaling linear --rope-scale {self.factor:.10g}"

    @classmethod
    def of_ladder(cls, dim: int, base: float, scale: float) -> Self | None:
        try:
            return cls(dim=dim, base=base, factor=1 / scale)
        except ConfigError:
            return None  # angles that are multiplied

    def rate_formula(self, write: Writer) -> tuple[str, ...]:
        return (rf"\frac{{1}}{{{write.value('factor')} \cdot {write.power('rotary_dim')}}}",)

    def divisors(self) -> Float[Tensor, " pairs"]:
        return torch.full_like(pair_numbers(self.rotary_dim // 2), self.factor)

    def float32_ladder(self, rotary_dim: int) -> Float[Tensor, " pairs"]:
        return super().float32_ladder(rotary_dim) / self.factor
