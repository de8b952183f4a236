r"""Sinusoidal absolute positions: fixed sines and cosines added to the token vectors.

Vaswani et al. 2017, arXiv 1706.03762, section 3.5:

.. math:: PE(p, 2m) = \sin(p\,\theta_m), \quad PE(p, 2m+1) = \cos(p\,\theta_m), \quad \theta_m = b^{-2m/d}

so that :math:`PE(i) \cdot PE(j) = \sum_m \cos((j - i)\,\theta_m)` depends on the offset alone.
Layout "half" stores all sines, then all cosines, as tensor2tensor does.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc import fields, tables
from posenc.device import float64_device
from posenc.frequencies import Frequencies, Layout
from posenc.hook_arguments import Positions, Tokens, check_tokens
from posenc.latex import Writer
from posenc.rotation import pair_matrix
from posenc.schemes.base import (
    BASE,
    EVEN_WIDTH,
    DimOf,
    Head,
    Request,
    SchemeConfig,
    VectorScheme,
    rounded,
)
from posenc.schemes.sizes import Sizes


@dataclass(frozen=True, kw_only=True)
class SinusoidalConfig(SchemeConfig):
    """Sines and cosines of geometric frequencies (Vaswani et al. 2017, arXiv 1706.03762, section 3.5).

    dim: width of the vectors, in features; a sine and a cosine for every two (even, 2 to 65,536).
    base: pair m has the frequency base^(-2m/dim), in radians per position (above 1, at most 1e12).
    layout: sine and cosine side by side (interleaved, as in the paper), or all sines before all cosines
        (half).
    """

    kind: Literal["sinusoidal"] = "sinusoidal"
    dim: int = EVEN_WIDTH.field(512)
    base: float = BASE.field(10000.0)
    layout: Layout = fields.Choice(
        options=("interleaved", "half"),
        label="Sinusoidal layout",
    ).field("interleaved")

    label: ClassVar[str] = "Sinusoidal"
    summary: ClassVar[str] = "Adds sines and cosines of the position to the token vectors."
    sizes_used: ClassVar[tuple[str, ...]] = ("dim", "base")
    dim_of: ClassVar[DimOf] = "model"

    @classmethod
    def shape(cls, sizes: Sizes) -> dict[str, Any]:
        return {"dim": sizes.dim, "base": sizes.base}

    def formula(self, write: Writer) -> str:
        return write.waves("dim", self.layout)

    def build(self, device: torch.device | str | None = None, seed: int = 0) -> "Sinusoidal":
        return Sinusoidal(self)


class Sinusoidal(VectorScheme):
    """Adds the sinusoidal table to the token vectors. It stores nothing."""

    config: SinusoidalConfig
    frequencies: Frequencies

    def __init__(self, config: SinusoidalConfig) -> None:
        super().__init__(config)
        self.frequencies = Frequencies.geometric(config.dim, config.base)
        self.pair_layout = config.layout

    def embed(self, x: Tokens, positions: Positions = None) -> Tokens:
        check_tokens(x, self.config.dim, positions)
        rows = tables.sinusoidal_rows(
            x.shape[-2] if positions is None else positions,
            self.frequencies,
            layout=self.config.layout,
            dtype=x.dtype,
            device=x.device,
        )
        return x + rows

    def offset_map(self, offset: int, size: int = 1, head: Head = "mean") -> Float[Tensor, "d d"]:
        cos, sin = tables.cos_sin(torch.tensor(offset), self.frequencies, dtype=torch.float64)
        return pair_matrix(cos, sin, self.config.layout, "sin", tail=0)

    def offset_kernel(
        self, offsets: Int[Tensor, " *n"], head: Head = "mean", dtype: torch.dtype | None = None
    ) -> Float[Tensor, " *n"]:
        return tables.cosine_sum(offsets, self.frequencies)

    def vectors(self, request: Request) -> Float[Tensor, "n d"]:
        table = tables.sinusoidal_table(
            request.length,
            self.config.dim,
            self.config.base,
            start=request.start,
            layout=self.config.layout,
            dtype=torch.float64,
            device=float64_device(request.device),
        )
        return rounded(table, request.dtype)
