r"""KERPLE, power: every logit is lowered by r1 |k|^r2, r1 and 0 < r2 <= 2 trained for each head.

Chi et al. 2022, arXiv 2205.09921, eq. 6. With r2 = 1 it is ALiBi with trained slopes; r2 = 2 is a Gaussian
window. Beyond 2 the exponential is no longer positive definite.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal, Self

from jaxtyping import Float
from torch import Tensor, nn

from posenc.errors import SchemeArgumentError
from posenc.formula import Writer
from posenc.schemes.kerple import Kerple, KerpleConfig
from posenc.schemes.trainable import source_field, wide

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
