r"""Sandwich: the inner product of two sinusoidal rows as a bias, compressed differently for each head.

Chi et al. 2022b, arXiv 2212.10356, section 5: with rows of width w and heads h = 1..H

.. math:: b_h(k) = \frac{H}{8h} \Bigl(\sum_{m=0}^{w/2-1} \cos(k\,\theta_m) - \frac{w}{2}\Bigr), \quad
          \theta_m = b^{-2m/w}

w/2 is subtracted as in NeMo's code, so that the bias is 0 at distance 0; a softmax does not see it. Pairs
count from 0; NeMo counts from 1. Kernel: exp(bias), positive definite since a sum of cosines is.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc import fields
from posenc.device import float64_device
from posenc.frequencies import Frequencies
from posenc.latex import Writer
from posenc.schemes.base import BASE, HEADS, Scheme, SchemeConfig
from posenc.schemes.sizes import Sizes
from posenc.tables import cosine_sum

COMPRESSION = 8  # the paper's 8 in H / (8 h): what the last head's bias is divided by


@dataclass(frozen=True, kw_only=True)
class SandwichConfig(SchemeConfig):
    """Inner products of sinusoidal rows as a bias (Chi et al. 2022, arXiv 2212.10356, section 5).

    heads: number of heads; each compresses the bias by another factor (1 to 1,024).
    base: pair m has the frequency base^(-2m/width), in radians per position (above 1, at most 1e12).
    width: width of the sinusoidal rows behind the bias, in features; it belongs to no vector of the
        model (even, 2 to 512).
    """

    kind: Literal["sandwich"] = "sandwich"
    heads: int = HEADS.field(8)
    base: float = BASE.field(10000.0)
    width: int = fields.IntRange(
        low=2,
        high=512,
        multiple_of=2,
        label="Sandwich width",
    ).field(128)

    label: ClassVar[str] = "Sandwich"
    summary: ClassVar[str] = "Adds inner products of sinusoidal rows to the logits."
    sizes_used: ClassVar[tuple[str, ...]] = ("heads", "base")

    @classmethod
    def shape(cls, sizes: Sizes) -> dict[str, Any]:
        return {"heads": sizes.heads, "base": sizes.base}

    def formula(self, write: Writer) -> str:
        h = "h" if write.head == "mean" or not write.numbers else str(write.head + 1)
        width = write.value("width")
        half = str(self.width // 2) if write.numbers else "w/2"
        return (
            rf"{write.bias(h)} = \frac{{{write.value('heads')}}}"
            rf"{{{COMPRESSION} \cdot {h}}} \sum_{{{write.pair}=0}}^{{{half}-1}} \left(\cos\frac"
            rf"{{{write.key} - {write.position}}}{{{{{write.value('base')}}}^{{2{write.pair}/{width}}}}} "
            r"- 1\right)"
        )

    def build(self, device: torch.device | str | None = None, seed: int = 0) -> "Sandwich":
        return Sandwich(self)


class Sandwich(Scheme):
    """Adds compressed sums of cosines. Stores nothing."""

    config: SandwichConfig
    no_vectors = "its kernel is positive definite, so some exist, but in no closed form"

    def __init__(self, config: SandwichConfig) -> None:
        super().__init__(config)
        self.heads = config.heads
        self._frequencies = Frequencies.geometric(config.width, config.base)

    def offset_bias(self, offsets: Int[Tensor, " *shape"]) -> Float[Tensor, " h *shape"]:
        place = float64_device(offsets.device)
        below = (
            cosine_sum(offsets.to(place).long().abs(), self._frequencies) - self._frequencies.pairs
        )
        head = torch.arange(1, self.config.heads + 1, dtype=torch.float64, device=place)
        ratios = self.config.heads / (COMPRESSION * head)
        biases = ratios.reshape(-1, *(1,) * offsets.dim()) * below
        return biases if place == offsets.device else biases.float().to(offsets.device)
