r"""What both KERPLEs share: a trained, shift-invariant kernel of the distance for every head.

Chi et al. 2022, arXiv 2205.09921, section 4: a bias that is conditionally positive definite in the offset,
such as -r1 |k|^r2 with 0 < r2 <= 2 or -r1 ln(1 + r2 |k|), has a positive definite exponential. That is
the kernel here: the factor exp(bias) on an attention weight, symmetric, a function of the offset
alone. So vectors exist for it, but no closed form of them is known: components come from the kernel.

What must stay positive is trained as its logarithm, and the power variant's r2, which must stay below 2
as well, as 2 sigmoid(x); public code cuts them off at 0.01 and 2 instead.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from posenc import fields
from posenc.errors import SchemeArgumentError
from posenc.schemes.shared_rules import HEADS
from posenc.schemes.trainable import Trainable, TrainableConfig, uniform, wide

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
