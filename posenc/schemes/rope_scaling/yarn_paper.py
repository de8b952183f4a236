r"""YaRN as printed in the paper: the ramp is linear in how often a pair turns, not in its number.

Peng et al. 2023, arXiv 2309.00071, eqs. 17 to 22: with r = L / lambda turns within the trained length,
:math:`\gamma = \mathrm{clip}((r - \alpha) / (\beta - \alpha), 0, 1)`, alpha = 1, beta = 32, and
:math:`\theta' = (1 - \gamma)\,\theta / s + \gamma\,\theta`. No public code computes this: see rope_yarn.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from posenc.errors import ConfigError
from posenc.formula import Writer
from posenc.schemes.known_rope import Evidence, InCode
from posenc.schemes.rope_scaling.scaled import (
    ScaledRopeConfig,
    blended,
    blended_formula,
    factor_field,
    trained_length_field,
)
from posenc.schemes.rope_scaling.yarn import attention_factor_field, attention_scale, turns_field

_AGAINST_CODE = "Peng et al. 2023, arXiv 2309.00071, eqs. 17 to 22, against the authors' code"


@dataclass(frozen=True, kw_only=True)
class RopeYarnPaperConfig(ScaledRopeConfig):
    """RoPE with YaRN's ramp as printed, over turns."""

    kind: str = "rope_yarn_paper"
    factor: float = factor_field(4.0)
    trained_length: int = trained_length_field(2_048)
    beta_fast: float = turns_field(
        32.0, "Beta", "Pairs with more turns than this in the trained length are kept."
    )
    beta_slow: float = turns_field(
        1.0, "Alpha", "Pairs with fewer turns than this in the trained length are divided."
    )
    attention_factor: float = attention_factor_field()

    label: ClassVar[str] = "RoPE YaRN as printed"
    summary: ClassVar[str] = "YaRN by the formula of its paper, which no public code computes."
    paper: ClassVar[str] = "Peng et al. 2023, arXiv 2309.00071"
    reading: ClassVar[str] = "YaRN as printed"
    advanced: ClassVar[bool] = True
    in_code: ClassVar[InCode | None] = InCode(
        kind="rope_yarn",
        rule="YaRN's printed ramp is not the one in public code.",
        source=_AGAINST_CODE,
    )
    evidence: ClassVar[Evidence | None] = Evidence(
        training="fine-tuning",
        statement="The printed formula; the authors' own code ramps over pairs instead, and their models "
        "were trained with that.",
        source=_AGAINST_CODE,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.beta_fast <= self.beta_slow:
            raise ConfigError(
                f"{type(self).__name__}.beta_fast must be greater than beta_slow, got "
                f"{self.beta_fast:g} and {self.beta_slow:g}."
            )

    def kept(self) -> Float[Tensor, " pairs"]:
        """Return the share of each frequency that is kept, float64."""
        turns = self.trained_length * self.unscaled().inv_freq / (2 * math.pi)
        return ((turns - self.beta_slow) / (self.beta_fast - self.beta_slow)).clamp(0, 1)

    def rate_formula(self, write: Writer) -> tuple[str, ...]:
        low, high = write.value("beta_slow"), write.value("beta_fast")
        waves = (
            rf"\frac{{{write.value('trained_length')}}}{{2 \pi \cdot {write.power('rotary_dim')}}}"
        )
        return blended_formula(write, rf"\frac{{{waves} - {low}}}{{{high} - {low}}}")

    def divisors(self) -> Float[Tensor, " pairs"]:
        return blended(self.kept(), self.factor)

    def attention_scaling(self) -> float:
        return float(self.attention_factor) or attention_scale(self.factor)
