r"""KERPLE: a trained kernel of the distance for every head.

Chi et al. 2022, arXiv 2205.09921, section 4. r1 and r2 are trained for each head:

.. math:: \text{power (eq. 6): } b(k) = -r_1 |k|^{r_2},\ 0 < r_2 \le 2, \qquad
          \text{logarithmic (eq. 7): } b(k) = -r_1 \ln(1 + r_2 |k|)

Both are conditionally positive definite, so the kernel exp(bias), the factor on an attention weight, is
positive definite. Power with r2 = 1 is ALiBi with trained slopes. What must stay positive is trained as
its logarithm, and the power variant's r2 as 2 sigmoid(x); public code cuts them off at 0.01 and 2.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from posenc.device import widest_dtype
from posenc.latex import Writer
from posenc.schemes.base import HEADS
from posenc.schemes.sizes import Sizes
from posenc.schemes.trainable import Trainable, TrainableConfig, source_field, uniform

SMALLEST_START = 0.01  # of r1 and r2, as public code cuts them off


@dataclass(frozen=True, kw_only=True)
class KerpleConfig(TrainableConfig):
    """A kernel of two trained numbers for each head (Chi et al. 2022, arXiv 2205.09921, section 4).

    heads: number of heads (1 to 1,024).

    highest: r1 and r2 start evenly from SMALLEST_START to these. bound: of r2.
    """

    heads: int = HEADS.field(8)

    sizes_used: ClassVar[tuple[str, ...]] = ("heads",)
    highest: ClassVar[tuple[float, float]]
    bound: ClassVar[float] = math.inf

    @classmethod
    def shape(cls, sizes: Sizes) -> dict[str, Any]:
        return {"heads": sizes.heads}

    @staticmethod
    @abstractmethod
    def growth(distances: Tensor, r2: Tensor) -> Tensor:
        """Return what r1 multiplies, of distances that broadcast against r2."""

    def initial(self, generator: torch.Generator) -> "Kerple":
        return Kerple(self, generator)


@dataclass(frozen=True, kw_only=True)
class KerplePowerConfig(KerpleConfig):
    """A trained power of the distance for each head (Chi et al. 2022, arXiv 2205.09921, eq. 6)."""

    kind: Literal["kerple_power"] = "kerple_power"
    source: str = source_field("KERPLE power")

    label: ClassVar[str] = "KERPLE power"
    summary: ClassVar[str] = "Lowers every logit by a trained power of the distance."
    highest: ClassVar[tuple[float, float]] = (1.0, 2.0)
    bound: ClassVar[float] = 2.0

    def formula(self, write: Writer) -> str:
        return (
            rf"{write.bias('h')} = -r_{{1,h}} "
            rf"\left|{write.key} - {write.position}\right|^{{r_{{2,h}}}},\quad r_{{1,h}} > 0,\ "
            rf"0 < r_{{2,h}} \le 2"
        )

    @staticmethod
    def growth(distances: Tensor, r2: Tensor) -> Tensor:
        return distances**r2


@dataclass(frozen=True, kw_only=True)
class KerpleLogConfig(KerpleConfig):
    """A trained logarithm of the distance for each head (Chi et al. 2022, arXiv 2205.09921, eq. 7)."""

    kind: Literal["kerple_log"] = "kerple_log"
    source: str = source_field("KERPLE log")

    label: ClassVar[str] = "KERPLE log"
    summary: ClassVar[str] = "Lowers every logit by a trained logarithm of the distance."
    highest: ClassVar[tuple[float, float]] = (2.0, 1.0)

    def formula(self, write: Writer) -> str:
        return (
            rf"{write.bias('h')} = -r_{{1,h}} \ln\left(1 + r_{{2,h}}"
            rf"\left|{write.key} - {write.position}\right|\right),\quad r_{{1,h}}, r_{{2,h}} > 0"
        )

    @staticmethod
    def growth(distances: Tensor, r2: Tensor) -> Tensor:
        return torch.log1p(r2 * distances)


class Kerple(Trainable):
    """Adds -r1 times a growing function of the distance and r2, both trained per head."""

    config: KerpleConfig
    no_vectors = "its kernel is positive definite, so some exist, but in no closed form"

    def __init__(self, config: KerpleConfig, generator: torch.Generator) -> None:
        super().__init__(config)
        self.heads = config.heads
        low = SMALLEST_START
        r1, r2 = (uniform(generator, config.heads, low=low, high=high) for high in config.highest)
        self.log_r1 = nn.Parameter(r1.log())
        if math.isinf(config.bound):
            self.log_r2 = nn.Parameter(r2.log())
        else:
            self.logit_r2 = nn.Parameter((r2 / config.bound).logit())

    @property
    def r1(self) -> Float[Tensor, " h"]:
        """r1 of every head, greater than 0."""
        return self.log_r1.to(widest_dtype(self.log_r1.device)).exp()

    @property
    def r2(self) -> Float[Tensor, " h"]:
        """r2 of every head, greater than 0 and at most the config's bound."""
        exact = widest_dtype(self.log_r1.device)
        if self.config.bound == math.inf:  # math.isinf is not compiled
            return self.log_r2.to(exact).exp()
        return self.config.bound * self.logit_r2.to(exact).sigmoid()

    def offset_bias(self, offsets: Int[Tensor, " *shape"]) -> Float[Tensor, " h *shape"]:
        # As a floating-point number before the sign goes: the least integer has no positive twin.
        distances = offsets.to(widest_dtype(offsets.device)).abs()
        shape = (-1, *(1,) * offsets.dim())
        r1, r2 = (value.to(offsets.device).reshape(shape) for value in (self.r1, self.r2))
        return -r1 * self.config.growth(distances, r2)
