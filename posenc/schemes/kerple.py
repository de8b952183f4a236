r"""What both KERPLEs share: a trained, shift-invariant kernel of the distance for every head.

Chi et al. 2022, arXiv 2205.09921, section 4: a bias that is conditionally positive definite in the offset,
such as -r1 |k|^r2 with 0 < r2 <= 2 or -r1 ln(1 + r2 |k|), has a positive definite exponential. That is
the kernel here: the factor exp(bias) on an attention weight, symmetric, a function of the offset
alone. So vectors exist for it, but no closed form of them is known: components come from the kernel.

What must stay positive is trained as its logarithm, and the power variant's r2, which must stay below 2
as well, as 2 sigmoid(x); public code cuts them off at 0.01 and 2 instead.

KERPLE, power: every logit is lowered by r1 |k|^r2, r1 and 0 < r2 <= 2 trained for each head.

Chi et al. 2022, arXiv 2205.09921, eq. 6. With r2 = 1 it is ALiBi with trained slopes; r2 = 2 is a Gaussian
window. Beyond 2 the exponential is no longer positive definite.

KERPLE, logarithmic: every logit is lowered by r1 ln(1 + r2 |k|), r1 and r2 trained for each head.

Chi et al. 2022, arXiv 2205.09921, eq. 7. The kernel :math:`(1 + r_2 |k|)^{-r_1}` falls as a power of the
distance, far more slowly than ALiBi's exponential.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from posenc import fields
from posenc.errors import SchemeArgumentError
from posenc.formula import Writer
from posenc.schemes.base import HEADS
from posenc.schemes.trainable import Trainable, TrainableConfig, source_field, uniform, wide

LEAST = 0.01  # of what is drawn at the start, as public code cuts it off


@dataclass(frozen=True, kw_only=True)
class KerpleConfig(TrainableConfig):
    """A kernel of two trained numbers for each of `heads` heads."""

    heads: int = fields.ruled(8, HEADS)

    paper: ClassVar[str] = "Chi et al. 2022, arXiv 2205.09921"
    shared: ClassVar[dict[str, str]] = {"heads": "heads"}
    highest: ClassVar[tuple[float, float]]  # r1 and r2 start evenly from LEAST to these

    @classmethod
    @abstractmethod
    def scheme(cls) -> type["Kerple"]:
        """Return the class of the module."""

    def initial(self, generator: torch.Generator) -> "Kerple":
        r1, r2 = (uniform(generator, self.heads, low=LEAST, high=most) for most in self.highest)
        return self.scheme()(self, r1, r2)


class Kerple(Trainable):
    """A bias made of two trained numbers per head, r1 and r2."""

    config: KerpleConfig
    no_vectors = "its kernel is positive definite, so some exist, but in no closed form"

    def __init__(
        self, config: KerpleConfig, r1: Float[Tensor, " h"], r2: Float[Tensor, " h"]
    ) -> None:
        super().__init__(config)
        self.heads = config.heads
        for name, value in (("r1", r1), ("r2", r2)):
            if value.shape != (config.heads,) or not bool((value > 0).all()):
                raise SchemeArgumentError(
                    f"{name} must be {config.heads} numbers greater than 0, one per head."
                )
        self.log_r1 = nn.Parameter(r1.log())

    @classmethod
    @abstractmethod
    def of(cls, r1: Float[Tensor, " h"], r2: Float[Tensor, " h"]) -> Self:
        """Make the scheme of given numbers, one of each per head."""

    @property
    def r1(self) -> Float[Tensor, " h"]:
        """r1 of every head, greater than 0."""
        return self.log_r1.to(wide(self.log_r1.device)).exp()

    @property
    @abstractmethod
    def r2(self) -> Float[Tensor, " h"]:
        """r2 of every head, greater than 0."""

    def offset_bias(self, offsets: Int[Tensor, " *shape"]) -> Float[Tensor, " h *shape"]:
        # As a floating-point number before the sign goes: the least integer has no positive twin.
        distances = offsets.to(wide(offsets.device)).abs()
        r1, r2 = (
            value.to(offsets.device).reshape(-1, *(1,) * offsets.dim())
            for value in (self.r1, self.r2)
        )
        return -r1 * self.grown(distances, r2)

    @abstractmethod
    def grown(self, distances: Tensor, r2: Tensor) -> Tensor:
        """Return what r1 multiplies, of distances that broadcast against r2."""


LARGEST = 2.0  # of r2


@dataclass(frozen=True, kw_only=True)
class KerplePowerConfig(KerpleConfig):
    """Power KERPLE for `heads` heads."""

    kind: Literal["kerple_power"] = "kerple_power"
    source: str = source_field("KERPLE power")

    label: ClassVar[str] = "KERPLE power"
    summary: ClassVar[str] = "Lowers every logit by a trained power of the distance."
    highest: ClassVar[tuple[float, float]] = (1.0, LARGEST)

    @classmethod
    def scheme(cls) -> type["KerplePower"]:
        return KerplePower

    def formula(self, write: Writer) -> str:
        return (
            rf"b_h({write.position}, {write.key}) = -r_{{1,h}} "
            rf"\left|{write.key} - {write.position}\right|^{{r_{{2,h}}}},\quad r_{{1,h}} > 0,\ "
            rf"0 < r_{{2,h}} \le 2"
        )


class KerplePower(Kerple):
    """Adds -r1 |offset|^r2."""

    config: KerplePowerConfig

    def __init__(
        self, config: KerplePowerConfig, r1: Float[Tensor, " h"], r2: Float[Tensor, " h"]
    ) -> None:
        super().__init__(config, r1, r2)
        if bool((r2 > LARGEST).any()):
            raise SchemeArgumentError(f"r2 must be at most {LARGEST:g}.")
        # r2 = 2 sigmoid(x) stays within its bounds whatever x becomes.
        self.logit_r2 = nn.Parameter((r2 / LARGEST).logit())

    @classmethod
    def of(cls, r1: Float[Tensor, " h"], r2: Float[Tensor, " h"]) -> Self:
        return cls(KerplePowerConfig(heads=len(r1)), r1, r2)

    @property
    def r2(self) -> Float[Tensor, " h"]:
        return LARGEST * self.logit_r2.to(wide(self.logit_r2.device)).sigmoid()

    def grown(self, distances: Tensor, r2: Tensor) -> Tensor:
        return distances**r2


@dataclass(frozen=True, kw_only=True)
class KerpleLogConfig(KerpleConfig):
    """Logarithmic KERPLE for `heads` heads."""

    kind: Literal["kerple_log"] = "kerple_log"
    source: str = source_field("KERPLE log")

    label: ClassVar[str] = "KERPLE log"
    summary: ClassVar[str] = "Lowers every logit by a trained logarithm of the distance."
    highest: ClassVar[tuple[float, float]] = (2.0, 1.0)

    @classmethod
    def scheme(cls) -> type["KerpleLog"]:
        return KerpleLog

    def formula(self, write: Writer) -> str:
        return (
            rf"b_h({write.position}, {write.key}) = -r_{{1,h}} \ln\left(1 + r_{{2,h}}"
            rf"\left|{write.key} - {write.position}\right|\right),\quad r_{{1,h}}, r_{{2,h}} > 0"
        )


class KerpleLog(Kerple):
    """Adds -r1 ln(1 + r2 |offset|)."""

    config: KerpleLogConfig

    def __init__(
        self, config: KerpleLogConfig, r1: Float[Tensor, " h"], r2: Float[Tensor, " h"]
    ) -> None:
        super().__init__(config, r1, r2)
        self.log_r2 = nn.Parameter(r2.log())

    @classmethod
    def of(cls, r1: Float[Tensor, " h"], r2: Float[Tensor, " h"]) -> Self:
        return cls(KerpleLogConfig(heads=len(r1)), r1, r2)

    @property
    def r2(self) -> Float[Tensor, " h"]:
        return self.log_r2.to(wide(self.log_r2.device)).exp()

    def grown(self, distances: Tensor, r2: Tensor) -> Tensor:
        return torch.log1p(r2 * distances)
