r"""KERPLE, logarithmic: every logit is lowered by r1 ln(1 + r2 |k|), r1 and r2 trained for each head.

Chi et al. 2022, arXiv 2205.09921, eq. 7. The kernel :math:`(1 + r_2 |k|)^{-r_1}` falls as a power of the
distance, far more slowly than ALiBi's exponential.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import torch
from jaxtyping import Float
from torch import Tensor, nn

from posenc.formula import Writer
from posenc.schemes.kerple import Kerple, KerpleConfig
from posenc.schemes.trainable import source_field, wide


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
