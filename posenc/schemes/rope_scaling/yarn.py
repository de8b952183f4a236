r"""YaRN: fast pairs as they are, slow pairs divided, a ramp between.

Peng et al. 2023, arXiv 2309.00071, eqs. 17 to 23. In its authors' code, which differs from the printed
formula, the ramp is linear in the number of the pair, from low = floor m(beta_fast) to
high = ceil m(beta_slow), where pair m(r) rotates r times within the trained length L:

.. math:: m(r) = \frac{d \ln(L / 2 \pi r)}{2 \ln b}

Queries and keys are multiplied by g(s) = 0.1 ln s + 1, or by g(s, mscale) / g(s, mscale_all_dim) if both
are set (DeepSeek). As printed (rope_yarn_paper) the ramp is linear in the rotations, as in Llama 3.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from posenc import fields, limits
from posenc.errors import ConfigError
from posenc.latex import Writer, number
from posenc.schemes.rope import float32_powers
from posenc.schemes.rope_scaling.base import (
    ATTENTION_FACTOR,
    TRAINED_LENGTH,
    RotationRampConfig,
    ScaledRopeConfig,
    blended,
    blended_formula,
    pair_numbers,
    rotations_field,
)


def _weight_field(label: str) -> Any:
    rule = fields.FloatRange(
        low=0.0,
        high=limits.MAX_ATTENTION_WEIGHT,
        label=label,
    )
    return rule.field(0.0)


def attention_scale(factor: float, weight: float = 1.0) -> float:
    """Return g(s, m) = 0.1 m ln s + 1, and 1 for s up to 1."""
    return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0


@dataclass(frozen=True, kw_only=True)
class RopeYarnConfig(ScaledRopeConfig):
    """RoPE with YaRN's ramp over pairs, as in public code (Peng et al. 2023, arXiv 2309.00071).

    trained_length: positions that the unscaled model was trained on (2 to 2,147,483,647).
    beta_fast: pairs with more turns than this in the trained length are kept (1e-6 to 1,000,000).
    beta_slow: pairs with fewer turns than this in the trained length are divided by the factor (1e-6 to
        1,000,000).
    mscale: DeepSeek's weight of ln(factor) in the numerator of the attention factor; 0 stands for not
        given (0 to 10).
    mscale_all_dim: DeepSeek's weight of ln(factor) in the denominator of the attention factor; 0 stands
        for not given (0 to 10).
    attention_factor: multiplies queries and keys; 0 stands for the one made from the scale factor (0.01
        to 100).
    truncate: round the ramp's ends to whole pairs.
    """

    kind: str = "rope_yarn"
    trained_length: int = TRAINED_LENGTH.field(2_048)
    beta_fast: float = rotations_field(32.0, "Beta fast")
    beta_slow: float = rotations_field(1.0, "Beta slow")
    mscale: float = _weight_field("Mscale")
    mscale_all_dim: float = _weight_field("Mscale of all dimensions")
    attention_factor: float = ATTENTION_FACTOR.field(0.0)
    truncate: bool = fields.Flag(label="Whole pairs").field(True)

    label: ClassVar[str] = "RoPE YaRN"
    summary: ClassVar[str] = "RoPE that keeps fast pairs, slows slow pairs and blends between."
    scaling_name: ClassVar[str] = "YaRN"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.beta_fast < self.beta_slow:
            raise ConfigError(
                f"{type(self).__name__}.beta_fast must be at least beta_slow, got "
                f"{self.beta_fast:g} and {self.beta_slow:g}."
            )

    def ends(self, rotary_dim: int) -> tuple[float, float]:
        """Return the pairs, low and high, between which the ramp runs; high may pass the last one."""
        low, high = (
            rotary_dim * math.log(self.trained_length / (rotations * 2 * math.pi))
            / (2 * math.log(self.base))
            for rotations in (self.beta_fast, self.beta_slow)
        )  # fmt: skip
        low, high = max(low, 0), min(high, rotary_dim - 1)
        if self.truncate:
            low, high = math.floor(low), math.ceil(high)
        return (low, high + 0.001) if low == high else (low, high)

    def divisors(self) -> Float[Tensor, " pairs"]:
        low, high = self.ends(self.rotary_dim)
        divided = ((pair_numbers(self.rotary_dim // 2) - low) / (high - low)).clamp(0, 1)
        return blended(1 - divided, self.factor)

    def attention_scaling(self) -> float:
        if self.attention_factor:
            return float(self.attention_factor)
        if self.mscale and self.mscale_all_dim:
            above = attention_scale(self.factor, self.mscale)
            return above / attention_scale(self.factor, self.mscale_all_dim)
        return attention_scale(self.factor)

    def frequency_formula(self, write: Writer) -> tuple[str, ...]:
        if write.numbers:
            low, high = (number(end) for end in self.ends(self.rotary_dim))
            return blended_formula(write, rf"\frac{{{high} - {write.pair}}}{{{high} - {low}}}")
        low, high = r"m(\beta)", r"m(\alpha)"
        if self.truncate:
            low, high = rf"\lfloor {low} \rfloor", rf"\lceil {high} \rceil"
        return blended_formula(
            write,
            rf"\frac{{h - {write.pair}}}{{h - l}}",
            rf"l = \max({low}, 0),\; h = \min({high}, r - 1)",
            r"m(x) = \frac{r \ln(L / 2 \pi x)}{2 \ln b}",
        )

    def float32_frequencies(self) -> Float[Tensor, " pairs"]:
        powers = float32_powers(self.base, self.float32_rotary_dim)
        low, high = self.ends(self.float32_rotary_dim)
        pairs = torch.arange(len(powers), dtype=torch.float32, device="cpu")
        share = 1 - ((pairs - low) / (high - low)).clamp(0, 1)
        return 1.0 / (self.factor * powers) * (1 - share) + 1.0 / powers * share


@dataclass(frozen=True, kw_only=True)
class RopeYarnPaperConfig(RotationRampConfig):
    """RoPE with YaRN's ramp as printed, over turns (Peng et al. 2023, arXiv 2309.00071, 3.2 and 3.4).

    beta_fast: pairs with more turns than this in the trained length are kept; the paper's beta (1e-6 to
        1,000,000).
    beta_slow: pairs with fewer turns than this in the trained length are divided by the factor; the
        paper's alpha (1e-6 to 1,000,000).
    attention_factor: multiplies queries and keys; 0 stands for the one made from the scale factor (0.01
        to 100).
    """

    kind: str = "rope_yarn_paper"
    beta_fast: float = rotations_field(32.0, "Beta")
    beta_slow: float = rotations_field(1.0, "Alpha")
    attention_factor: float = ATTENTION_FACTOR.field(0.0)

    label: ClassVar[str] = "RoPE YaRN as printed"
    summary: ClassVar[str] = (
        "YaRN by the formula of its paper; with equal numbers Llama 3's frequencies."
    )
    scaling_name: ClassVar[str] = "YaRN as printed"
    advanced: ClassVar[bool] = True

    ramp = ("beta_slow", "beta_fast")

    def attention_scaling(self) -> float:
        return float(self.attention_factor) or attention_scale(self.factor)
