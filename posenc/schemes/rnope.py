r"""RNoPE: layers with RoPE, and every n-th layer without any position, which reads far back by content.

Yang et al. 2025, arXiv 2501.18795, section 3 (RNoPE-SWA, where layers with RoPE see a window of keys);
SmolLM3 has n = 4 and no window; Llama 4 has n = 4 and lets the queries of layers without RoPE grow:

.. math:: q_i \to q_i\,\bigl(1 + r \ln(1 + \lfloor (i + 1) / F \rfloor)\bigr)

Layer l, counted from 0, has no RoPE where l + 1 is a multiple of n. The scheme itself is that of a layer
with RoPE, whose kernel it has; `layer(l)` is that of a layer.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from posenc import fields, limits
from posenc.hook_arguments import (
    Keys,
    Positions,
    Queries,
    at_least_float32,
    check_positions,
    resolve_positions,
)
from posenc.latex import Writer
from posenc.schemes.base import BASE, EVEN_HEAD_WIDTH, DimOf, Scheme, SchemeConfig
from posenc.schemes.query_growth import Growth
from posenc.schemes.rope import Rope, RopeConfig
from posenc.schemes.sizes import Sizes


@dataclass(frozen=True, kw_only=True)
class RnopeConfig(SchemeConfig):
    """RoPE in all layers but every n-th, which has none (Yang et al. 2025, arXiv 2501.18795, section 3).

    dim: width of a head, in features (even, 2 to 65,536).
    base: pair m rotates by base^(-2m/dim) radians per position (above 1, at most 1e12).
    every: n: each n-th layer is without RoPE; a model needs as many layers (2 to 1,024).
    window: number of keys that a query of a layer with RoPE sees, its own included; 0 for all (0 to
        1,048,576).
    growth: r of queries in layers without RoPE, 0.1 in Llama 4; 0 for none (0 to 10).
    growth_length: F, in positions, 8,192 in Llama 4 (1 to 2,147,483,647).
    """

    kind: str = "rnope"
    dim: int = EVEN_HEAD_WIDTH.field(128)
    base: float = BASE.field(10_000.0)
    every: int = fields.IntRange(low=2, high=1_024, label="RNoPE interval").field(2)
    window: int = fields.IntRange(low=0, high=limits.MAX_TRAIN_LENGTH, label="RNoPE window").field(
        0
    )
    growth: float = fields.FloatRange(low=0.0, high=10.0, label="RNoPE query growth").field(0.0)
    growth_length: int = fields.IntRange(
        low=1, high=limits.MAX_POSITION, label="RNoPE growth length"
    ).field(8_192)

    label: ClassVar[str] = "RNoPE"
    summary: ClassVar[str] = (
        "Rotates as RoPE does in some layers; every few layers, one adds no position."
    )
    sizes_used: ClassVar[tuple[str, ...]] = ("dim", "heads", "base")
    dim_of: ClassVar[DimOf] = "head"

    @classmethod
    def shape(cls, sizes: Sizes) -> dict[str, Any]:
        return {"dim": sizes.head_dim, "base": sizes.base}

    @property
    def least_layers(self) -> int:
        return self.every

    def formula(self, write: Writer) -> str:
        every = str(self.every) if write.numbers else "n"
        lines = [
            rf"\frac{{1}}{{{write.power('dim')}}}",
            rf"\text{{no rotation in layers }} {every}, 2 \cdot {every}, \ldots",
        ]
        return write.rotation("interleaved", "dim", lines)

    def build(self, device: torch.device | str | None = None, seed: int = 0) -> "Rnope":
        return Rnope(self)


class Rnope(Rope):
    """Rotates queries and keys; `layer` gives every n-th layer a scheme that does not."""

    config: RnopeConfig  # type: ignore[assignment]

    def __init__(self, config: RnopeConfig) -> None:
        super().__init__(RopeConfig(dim=config.dim, base=config.base))
        self.config = config
        self.window = config.window or None
        self.without = WithoutRope(config)

    def layer(self, index: int) -> Scheme:
        return self if (index + 1) % self.config.every else self.without


class WithoutRope(Scheme):
    """The scheme of a layer without RoPE: queries grow with their position, or nothing happens."""

    config: RnopeConfig
    stationary = False
    kernel_unit = "logit"

    def rotate(
        self, q: Queries, k: Keys, q_positions: Positions = None, k_positions: Positions = None
    ) -> tuple[Queries, Keys]:
        check_positions("q_positions", q_positions, q)
        if not self.config.growth:
            return q, k
        growth = Growth(rate=self.config.growth, length=self.config.growth_length, first=1)
        factors = growth.factors(resolve_positions(q_positions, q.shape[-2], q))
        factors = factors[:, None, :, None] if factors.dim() == 2 else factors[:, None]
        wide = at_least_float32(q.dtype)
        return (q.to(wide) * factors.to(wide)).to(q.dtype), k
