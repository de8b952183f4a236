r"""SSMax: logits that grow with the logarithm of the number of keys, so that attention does not flatten.

Nakanishi 2025, arXiv 2501.19399, section 2: the softmax over n keys becomes that of s ln n times the
logits, with a trained s for each head and layer. A causal query at position i sees n = i + 1 keys:

.. math:: \mathrm{logit}(i, j) = s_h \ln(i + 1)\, \frac{q_i \cdot k_j}{\sqrt d}

q and k may be rotated before (RoPE) or not (NoPE). s starts so that the factor is 1 in the mean of the
first L positions. Kernel: the expected logit of unit isotropic content q = k, that of RoPE (or 1) times
s ln(i + 1). It grows with the query, so it is neither symmetric nor a function of the offset.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from posenc import tables
from posenc.device import float64_device
from posenc.frequencies import Frequencies, Layout
from posenc.hook_arguments import (
    Keys,
    Positions,
    Queries,
    at_least_float32,
    check_positions,
    resolve_positions,
)
from posenc.latex import Writer
from posenc.schemes.base import BASE, EVEN_HEAD_WIDTH, HEADS, DimOf, Request, of_head
from posenc.schemes.query_growth import log_of_keys, mean_log
from posenc.schemes.rope import At, Rope, RopeConfig, RotaryScheme, Rows
from posenc.schemes.rope_scaling.base import TRAINED_LENGTH
from posenc.schemes.sizes import Sizes
from posenc.schemes.trainable import PerLayer, PerLayerConfig, source_field


@dataclass(frozen=True, kw_only=True)
class SsmaxConfig(PerLayerConfig):
    """Logits times a trained multiple of ln n (Nakanishi 2025, arXiv 2501.19399, section 2).

    heads: number of heads, each with its own multiple s (1 to 1,024).
    trained_length: L, in positions: s starts at 1 / the mean of ln n up to it (2 to 2,147,483,647).
    """

    kind: str = "ssmax"
    heads: int = HEADS.field(8)
    trained_length: int = TRAINED_LENGTH.field(512)
    source: str = source_field("SSMax")

    label: ClassVar[str] = "SSMax"
    summary: ClassVar[str] = "Multiplies logits by a trained multiple of ln(number of keys seen)."
    sizes_used: ClassVar[tuple[str, ...]] = ("heads", "train_length")

    @classmethod
    def shape(cls, sizes: Sizes) -> dict[str, Any]:
        return {"heads": sizes.heads, "trained_length": max(sizes.train_length, 2)}

    @property
    def uses(self) -> tuple[str, ...]:
        return self.sizes_used  # its start draws nothing

    def formula(self, write: Writer) -> str:
        i, j = write.position, write.key
        return (
            rf"\mathrm{{logit}}_{{h}}({i}, {j}) = s_h \ln({i} + 1)\,"
            rf"\frac{{q_{{{i}}} \cdot k_{{{j}}}}}{{\sqrt{{d_\mathrm{{head}}}}}}"
        )

    def of_layer(self, generator: torch.Generator) -> "Ssmax":
        return Ssmax(self)


@dataclass(frozen=True, kw_only=True)
class SsmaxRopeConfig(SsmaxConfig):
    """RoPE with logits times a trained multiple of ln n (Nakanishi 2025, arXiv 2501.19399, section 2).

    dim: width of a head, in features (even, 2 to 65,536).
    base: pair m rotates by base^(-2m/dim) radians per position (above 1, at most 1e12).
    """

    kind: str = "ssmax_rope"
    dim: int = EVEN_HEAD_WIDTH.field(128)
    base: float = BASE.field(10_000.0)
    source: str = source_field("SSMax on RoPE")

    label: ClassVar[str] = "SSMax on RoPE"
    summary: ClassVar[str] = (
        "Rotates as RoPE does and multiplies logits by a trained multiple of ln(number of keys seen)."
    )
    sizes_used: ClassVar[tuple[str, ...]] = ("dim", "heads", "base", "train_length")
    dim_of: ClassVar[DimOf] = "head"

    @classmethod
    def shape(cls, sizes: Sizes) -> dict[str, Any]:
        return super().shape(sizes) | {"dim": sizes.head_dim, "base": sizes.base}

    def formula(self, write: Writer) -> str:
        growth = rf"s_h \ln({write.position} + 1)\,"
        lines = [
            rf"\frac{{1}}{{{write.power('dim')}}}",
            r"s_h \ln(\ldots) \text{ for queries only}",
        ]
        return write.rotation("interleaved", "dim", lines, growth)

    def of_layer(self, generator: torch.Generator) -> "SsmaxRope":
        return SsmaxRope(self)


class Ssmax(PerLayer):
    """Multiplies queries by s ln(position + 1)."""

    config: SsmaxConfig
    stationary = False
    kernel_unit = "logit"
    no_vectors = "its kernel grows with the query's position"

    def __init__(self, config: SsmaxConfig) -> None:
        super().__init__(config)
        self.heads = config.heads
        start = torch.full((config.heads,), 1 / mean_log(config.trained_length), device="cpu")
        self.s = nn.Parameter(start.float())

    def factors(self, positions: Tensor) -> Float[Tensor, "*b h q"]:
        """Return what the logits of each query are multiplied by, in the widest dtype of the device."""
        logs = log_of_keys(positions)
        return self.s.to(logs)[:, None] * logs[..., None, :]

    def rotate(
        self, q: Queries, k: Keys, q_positions: Positions = None, k_positions: Positions = None
    ) -> tuple[Queries, Keys]:
        check_positions("q_positions", q_positions, q)
        self.check_heads(q)
        factors = self.factors(resolve_positions(q_positions, q.shape[-2], q))
        wide = at_least_float32(q.dtype)
        # Rounded once: a factor in half precision would be off by up to 0.4%.
        return (q.to(wide) * factors[..., None].to(wide)).to(q.dtype), k

    @torch.no_grad()
    def kernel(self, request: Request) -> Float[Tensor, "n n"]:
        self.check_head(request.head)
        factors = of_head(self.factors(request.positions).double(), request.head)
        return factors[:, None] * self.unscaled_kernel(request)

    def unscaled_kernel(self, request: Request) -> Float[Tensor, "n n"]:
        """Return the position kernel without the factors, float64."""
        place = float64_device(request.device)
        return torch.ones(request.length, request.length, dtype=torch.float64, device=place)


class SsmaxRope(Ssmax, RotaryScheme):
    """Rotates queries and keys, then multiplies queries by s ln(position + 1)."""

    config: SsmaxRopeConfig
    rotary_layout: Layout = "interleaved"
    kernel_unit = "logit"

    def __init__(self, config: SsmaxRopeConfig) -> None:
        super().__init__(config)
        self.width = config.dim
        self.frequencies = Frequencies.geometric(config.dim, config.base)

    def rows(self, at: At, dtype: torch.dtype, device: torch.device, sign: int = 1) -> Rows:
        return tables.rotary_rows(at, self.frequencies, dtype=dtype, device=device)

    def rotate(
        self, q: Queries, k: Keys, q_positions: Positions = None, k_positions: Positions = None
    ) -> tuple[Queries, Keys]:
        wide_q = q.to(at_least_float32(q.dtype))
        rotated_q, rotated_k = RotaryScheme.rotate(self, wide_q, k, q_positions, k_positions)
        grown, _ = Ssmax.rotate(self, rotated_q, k, q_positions, k_positions)
        return grown.to(q.dtype), rotated_k

    def unscaled_kernel(self, request: Request) -> Float[Tensor, "n n"]:
        return Rope(RopeConfig(dim=self.width, base=self.config.base)).kernel(request)
