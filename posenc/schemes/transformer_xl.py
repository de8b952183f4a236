r"""Transformer-XL: scores of content and of distance, each with a trained bias.

Dai et al. 2019, arXiv 1901.02860, section 3.3 and appendix B:

.. math:: \mathrm{logit}(i, j) = \frac{q_i \cdot k_j + q_i \cdot W r_{i-j} + u_h \cdot k_j +
          v_h \cdot W r_{i-j}}{\sqrt{d}}

r is the sinusoidal row of the distance, all sines first; W and, per head, u and v are trained, for all
layers together. Kernel: exp(v . W r / sqrt(d)), the factor on an attention weight without content.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc import limits
from posenc.device import widest_dtype
from posenc.errors import ConfigError
from posenc.frequencies import Frequencies
from posenc.hook_arguments import (
    Keys,
    Positions,
    Queries,
    at_least_float32,
    check_tokens,
    is_traced,
    offsets_between,
    over_heads,
    repeat_kv,
)
from posenc.latex import Writer
from posenc.schemes.base import BASE, EVEN_WIDTH, HEADS, DimOf
from posenc.schemes.sizes import Sizes
from posenc.schemes.trainable import Trainable, TrainableConfig, drawn_parameter, source_field
from posenc.tables import sinusoidal_rows


@dataclass(frozen=True, kw_only=True)
class TransformerXLConfig(TrainableConfig):
    """Scores of content and of distance (Dai et al. 2019, arXiv 1901.02860, section 3.3).

    dim: width of the model and of the sinusoids, in features (even, 2 to 65,536).
    heads: number of heads, each dim / heads wide (1 to 1,024).
    base: pair m of the sinusoids has the frequency base^(-2m/dim), in radians per position (above 1, at
        most 1e12).
    """

    kind: Literal["transformer_xl"] = "transformer_xl"
    dim: int = EVEN_WIDTH.field(512)
    heads: int = HEADS.field(8)
    base: float = BASE.field(10000.0)
    source: str = source_field("Transformer-XL")

    label: ClassVar[str] = "Transformer-XL"
    summary: ClassVar[str] = (
        "Adds each query's product with a trained projection of the distance's sinusoid."
    )
    sizes_used: ClassVar[tuple[str, ...]] = ("dim", "heads", "base")
    dim_of: ClassVar[DimOf] = "model"

    @classmethod
    def shape(cls, sizes: Sizes) -> dict[str, Any]:
        return {"dim": sizes.dim, "heads": sizes.heads, "base": sizes.base}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dim % self.heads:
            raise ConfigError(
                f"TransformerXLConfig.dim must be a multiple of the heads, got {self.dim:,} for "
                f"{self.heads:,} heads."
            )
        if self.dim**2 > limits.MAX_TENSOR_ELEMENTS:
            raise ConfigError(
                f"TransformerXLConfig.dim squared must be at most {limits.MAX_TENSOR_ELEMENTS:,}, got "
                f"{self.dim:,} squared."
            )

    @property
    def head_dim(self) -> int:
        """Width of a head."""
        return self.dim // self.heads

    def formula(self, write: Writer) -> str:
        i, j = write.position, write.key
        d = str(self.head_dim) if write.numbers else r"d_\mathrm{head}"
        row = rf"W_h\,r_{{{i} - {j}}}"
        pair = f"2{write.pair}/{write.value('dim')}"
        return (
            rf"\begin{{gathered}} {write.bias('h')} = \frac{{u_h \cdot k_{{{j}}} + (q_{{{i}}} + v_h) \cdot "
            rf"{row}}}{{\sqrt{{{d}}}}}, \\ r_x = \left(\sin\frac{{x}}{{{{{write.value('base')}}}^"
            rf"{{{pair}}}}},\ \cos\frac{{x}}{{{{{write.value('base')}}}^{{{pair}}}}}\right) "
            r"\end{gathered}"
        )

    def initial(self, generator: torch.Generator) -> "TransformerXL":
        return TransformerXL(self, generator)


class TransformerXL(Trainable):
    """Adds u . k + (q + v) . W r, scaled as the scores are."""

    config: TransformerXLConfig
    no_vectors = "its kernel is not symmetric"

    def __init__(self, config: TransformerXLConfig, generator: torch.Generator) -> None:
        super().__init__(config)
        self.heads = config.heads
        # A plain attribute, not a buffer: casting a model must not round it.
        self._frequencies = Frequencies.geometric(config.dim, config.base)
        self.projection = drawn_parameter(generator, config.dim, config.dim)
        self.u = drawn_parameter(generator, config.heads, config.head_dim)
        self.v = drawn_parameter(generator, config.heads, config.head_dim)

    def bias(
        self, q: Queries, k: Keys, q_positions: Positions = None, k_positions: Positions = None
    ) -> Float[Tensor, "b h q k"]:
        check_tokens(q, self.config.head_dim, q_positions)
        offsets = offsets_between(q, k, q_positions, k_positions)
        self.check_heads(q)
        dtype = at_least_float32(q.dtype)
        keys = repeat_kv(k, q.shape[1]).to(dtype)
        of_keys = torch.einsum("hd,bhkd->bhk", self.u.to(dtype), keys)[:, :, None, :]
        queries = q.to(dtype) + self.v.to(dtype)[:, None]
        of_offsets = self._products(queries, offsets)
        return (of_keys + of_offsets) * self.softmax_scale(q.shape[-1])

    def offset_bias(self, offsets: Int[Tensor, " *shape"]) -> Float[Tensor, " h *shape"]:
        # Sums, not a matrix product, whose rounding would depend on the number of offsets.
        rows = self._rows(offsets, widest_dtype(offsets.device))
        of_heads = self.projection.to(rows).unflatten(0, (self.heads, -1))
        products = (of_heads * self.v.to(rows)[..., None]).sum(dim=1)  # (h, D): v times W
        scaled = products * self.softmax_scale(self.config.head_dim)
        return torch.stack([(rows * of_head).sum(dim=-1) for of_head in scaled])

    def _products(
        self, queries: Queries, offsets: Int[Tensor, "*b q k"]
    ) -> Float[Tensor, "b h q k"]:
        """Return the product of every query with the projected row of each of its offsets."""
        has_numbers = offsets.device.type != "meta" and offsets.numel()
        if torch.compiler.is_compiling() or not has_numbers or is_traced(offsets):
            rows = self._projected(offsets, queries.dtype)  # *b q k h d
            batch = "" if rows.dim() == 4 else "b"
            return torch.einsum(f"bhqd,{batch}qkhd->bhqk", queries, rows)
        # Each distinct offset is projected once.
        low, high = int(offsets.min()), int(offsets.max())
        if high - low < offsets.numel():
            distinct = torch.arange(low, high + 1, device=offsets.device)
            index = offsets - low
        else:
            distinct, index = torch.unique(offsets, return_inverse=True)
        rows = self._projected(distinct, queries.dtype)
        products = torch.einsum("bhqd,mhd->bhqm", queries, rows)
        return products.gather(-1, over_heads(index).expand(*queries.shape[:2], -1, -1))

    def _projected(
        self, offsets: Int[Tensor, " *n"], dtype: torch.dtype
    ) -> Float[Tensor, "*n h d"]:
        rows = self._rows(offsets, dtype) @ self.projection.to(dtype).T
        return rows.unflatten(-1, (self.config.heads, self.config.head_dim))

    def _rows(self, offsets: Int[Tensor, " *n"], dtype: torch.dtype) -> Float[Tensor, "*n D"]:
        return sinusoidal_rows(
            -offsets, self._frequencies, layout="half", dtype=dtype, device=offsets.device
        )
