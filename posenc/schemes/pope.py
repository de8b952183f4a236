r"""PoPE: a rotation whose angle depends on position alone, and a size that depends on content alone.

Gopalakrishnan et al. 2025, arXiv 2509.10534, section 3. Each of the d features of a query or key becomes
a complex number with the size softplus(x) and the angle of its position; a phase is trained for each
feature of each head and layer:

.. math:: \mathrm{logit}(i, j) = \frac{1}{\sqrt d} \sum_{c=0}^{d-1} \mathrm{softplus}(q_{ic})\,
          \mathrm{softplus}(k_{jc})\, \cos\bigl((j - i)\,\theta_c + \delta_{hc}\bigr), \quad
          \theta_c = b^{-c/d}

Rotated queries and keys are 2d wide, all cosines first; values stay d wide. As in public code, the phase
starts at 0 and counts within [-2 pi, 0]. Queries carry it with the other sign, so that grouped keys may
be shared. Kernel: the logit, before scaling, of a query and a key all of whose sizes are 1 / sqrt(d).
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from posenc import tables
from posenc.device import widest_dtype
from posenc.frequencies import Frequencies, Layout
from posenc.hook_arguments import Keys, Positions, Queries, WiderKeys, WiderQueries, check_tokens
from posenc.latex import Writer
from posenc.schemes.base import BASE, HEAD_WIDTH, HEADS, DimOf, Head, Request, of_head, rounded
from posenc.schemes.rope import At, RotaryScheme, Rows
from posenc.schemes.sizes import Sizes
from posenc.schemes.trainable import PerLayer, PerLayerConfig, source_field


@dataclass(frozen=True, kw_only=True)
class PopeConfig(PerLayerConfig):
    """Sizes by content and angles by position (Gopalakrishnan et al. 2025, arXiv 2509.10534, section 3).

    dim: width of a head, in features (1 to 65,536).
    heads: number of heads, each with its own phases (1 to 1,024).
    base: feature c turns by base^(-c/dim) radians per position (above 1, at most 1e12).
    """

    kind: str = "pope"
    dim: int = HEAD_WIDTH.field(128)
    heads: int = HEADS.field(8)
    base: float = BASE.field(10_000.0)
    source: str = source_field("PoPE")

    label: ClassVar[str] = "PoPE"
    summary: ClassVar[str] = (
        "Gives each feature of queries and keys a size by content and an angle by position."
    )
    sizes_used: ClassVar[tuple[str, ...]] = ("dim", "heads", "base")
    dim_of: ClassVar[DimOf] = "head"

    @classmethod
    def shape(cls, sizes: Sizes) -> dict[str, Any]:
        return {"dim": sizes.head_dim, "heads": sizes.heads, "base": sizes.base}

    @property
    def uses(self) -> tuple[str, ...]:
        return self.sizes_used  # its start draws nothing

    def formula(self, write: Writer) -> str:
        i, j, c, d = write.position, write.key, write.pair, write.value("dim")
        softplus = r"\mathrm{softplus}"
        return (
            rf"\begin{{gathered}} \mathrm{{logit}}_h({i}, {j}) = \frac{{1}}{{\sqrt{{{d}}}}} \sum_{{{c}}} "
            rf"{softplus}(q_{{{i},{c}}})\,{softplus}(k_{{{j},{c}}})\,\cos\left(({j} - {i})\,\rho_{c} + "
            rf"\delta_{{h,{c}}}\right), \\ \rho_{c} = \frac{{1}}{{{{{write.value('base')}}}^{{{c}/{d}}}}} "
            r"\end{gathered}"
        )

    def of_layer(self, generator: torch.Generator) -> "Pope":
        return Pope(self)


class Pope(PerLayer, RotaryScheme):
    """Makes every feature two: its softplus times the cosine and the sine of its angle."""

    config: PopeConfig
    rotary_layout: Layout = "half"
    kernel_unit = "logit"
    no_vectors = "its trained phases tell before from after"

    def __init__(self, config: PopeConfig) -> None:
        super().__init__(config)
        self.width, self.heads = config.dim, config.heads
        self.frequencies = Frequencies.geometric(2 * config.dim, config.base)
        self.phase = nn.Parameter(torch.zeros(config.heads, config.dim, device="cpu").float())

    def rows(self, at: At, dtype: torch.dtype, device: torch.device, sign: int = 1) -> Rows:
        return tables.rotary_rows(at, self.frequencies, dtype=dtype, device=device)

    def rotate(
        self, q: Queries, k: Keys, q_positions: Positions = None, k_positions: Positions = None
    ) -> tuple[WiderQueries, WiderKeys]:
        self.check_heads(q)
        check_tokens(q, self.width, q_positions)
        check_tokens(k, self.width, k_positions)
        cos, sin = self._rows_of(q, q_positions)
        turned_q = _polar(q, *_turned(cos, sin, *self._phases(cos)))
        return turned_q, _polar(k, *self._rows_of(k, k_positions))

    def offset_kernel(
        self, offsets: Int[Tensor, " *n"], head: Head = "mean", dtype: torch.dtype | None = None
    ) -> Float[Tensor, " *n"]:
        self.check_head(head)
        cos, sin = tables.cos_sin(offsets, self.frequencies, dtype=torch.float64)
        # cos(a + delta); the mean over heads is that of the phases' cosines and sines.
        phases = (of_head(part[:, 0].detach(), head) for part in self._phases(cos))
        turned, _ = _turned(cos, -sin, *phases)
        return turned.mean(dim=-1)

    def kernel(self, request: Request) -> Float[Tensor, "n n"]:
        if request.dtype is None:
            return super().kernel(request)
        self.check_head(request.head)
        cos, sin = self.cos_sin(request.positions)
        keys = rounded(torch.cat((cos, sin), -1), request.dtype)
        heads = range(self.config.heads) if isinstance(request.head, str) else [request.head]
        total = cos.new_zeros(len(cos), len(cos))
        for head in heads:
            phases = (part[head].detach() for part in self._phases(cos))
            total += rounded(torch.cat(_turned(cos, sin, *phases), -1), request.dtype) @ keys.T
        return total / (self.width * len(heads))

    def _phases(self, like: Tensor) -> tuple[Float[Tensor, "h 1 d"], Float[Tensor, "h 1 d"]]:
        """Return cosine and sine of the phases, in the dtype of `like`."""
        exact = widest_dtype(like.device)
        phase = self.phase.to(like.device, exact).clamp(-2 * math.pi, 0.0)[:, None]
        return phase.cos().to(like.dtype), phase.sin().to(like.dtype)


def _turned(
    cos: Tensor, sin: Tensor, cos_phase: Tensor, sin_phase: Tensor
) -> tuple[Tensor, Tensor]:
    """Return cosine and sine of an angle minus a phase."""
    return cos * cos_phase + sin * sin_phase, sin * cos_phase - cos * sin_phase


def _polar(x: Float[Tensor, "b h n d"], cos: Tensor, sin: Tensor) -> Float[Tensor, "b h n 2*d"]:
    """Return vectors twice as wide: softplus(x) times the cosines, then times the sines."""
    size = functional.softplus(x.to(cos.dtype))
    return torch.cat((size * cos, size * sin), dim=-1).to(x.dtype)
