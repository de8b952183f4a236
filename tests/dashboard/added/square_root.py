"""A trained slope times the root of the distance: a scheme made up for a test."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.device import widest_dtype
from posenc.latex import Writer
from posenc.schemes.base import HEADS
from posenc.schemes.sizes import Sizes
from posenc.schemes.trainable import Trainable, TrainableConfig, drawn_parameter, source_field


@dataclass(frozen=True, kw_only=True)
class SquareRootConfig(TrainableConfig):
    """A slope for each of `heads` heads."""

    kind: Literal["square_root"] = "square_root"
    heads: int = HEADS.field(8)
    source: str = source_field("Square root")

    label: ClassVar[str] = "Square root"
    summary: ClassVar[str] = "Lowers every logit by a trained multiple of the distance's root."
    sizes_used: ClassVar[tuple[str, ...]] = ("heads",)

    @classmethod
    def shape(cls, sizes: Sizes) -> dict[str, Any]:
        return {"heads": sizes.heads}

    def formula(self, write: Writer) -> str:
        return rf"{write.bias('h')} = -s_h \sqrt{{\left|{write.key} - {write.position}\right|}}"

    def initial(self, generator: torch.Generator) -> "SquareRoot":
        return SquareRoot(self, generator)


class SquareRoot(Trainable):
    """Adds -exp(log_slope) times the root of the distance."""

    config: SquareRootConfig
    no_vectors = "nobody looked for some"

    def __init__(self, config: SquareRootConfig, generator: torch.Generator) -> None:
        super().__init__(config)
        self.heads = config.heads
        self.log_slope = drawn_parameter(generator, config.heads)

    def offset_bias(self, offsets: Int[Tensor, " *shape"]) -> Float[Tensor, " h *shape"]:
        slope = self.log_slope.to(offsets.device, widest_dtype(offsets.device)).exp()
        roots = offsets.to(slope.dtype).abs().sqrt()
        return -slope.reshape(-1, *(1,) * offsets.dim()) * roots
