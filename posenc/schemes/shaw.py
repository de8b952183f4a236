r"""Shaw: a trained vector per clipped offset, multiplied with the query.

Shaw et al. 2018, arXiv 1803.02155, eq. 4 and 5:

.. math:: b(i, j) = \frac{q_i \cdot a_{\mathrm{clip}(j - i,\,-K,\,K)}}{\sqrt{d}}

One table serves all heads, as in the paper, and all layers, of which public code gives each its own. The
value term (eq. 3) is left out: no hook gets the weights, and table 3 finds no loss without it. What
position adds depends on the query, so there is no position kernel.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from posenc import fields, limits
from posenc.errors import ConfigError
from posenc.hook_arguments import (
    Keys,
    Positions,
    Queries,
    at_least_float32,
    check_tokens,
    offsets_between,
    over_heads,
)
from posenc.latex import Writer
from posenc.schemes.base import HEAD_WIDTH, DimOf
from posenc.schemes.sizes import Sizes
from posenc.schemes.trainable import Trainable, TrainableConfig, drawn_parameter, source_field


@dataclass(frozen=True, kw_only=True)
class ShawConfig(TrainableConfig):
    """A trained vector for each of 2 clip + 1 offsets (Shaw et al. 2018, arXiv 1803.02155, section 3.2).

    dim: width of a head, in features (1 to 65,536).
    clip: offsets beyond this many positions share the vector of the last (1 to 2,048).
    """

    kind: Literal["shaw"] = "shaw"
    dim: int = HEAD_WIDTH.field(64)
    clip: int = fields.IntRange(
        low=1,
        high=2_048,
        label="Shaw clipping",
    ).field(16)
    source: str = source_field("Shaw")

    label: ClassVar[str] = "Shaw"
    summary: ClassVar[str] = (
        "Adds each query's product with a trained vector of the clipped offset."
    )
    sizes_used: ClassVar[tuple[str, ...]] = ("dim", "heads")
    dim_of: ClassVar[DimOf] = "head"

    @classmethod
    def shape(cls, sizes: Sizes) -> dict[str, Any]:
        return {"dim": sizes.head_dim}

    def __post_init__(self) -> None:
        super().__post_init__()
        if (2 * self.clip + 1) * self.dim > limits.MAX_TENSOR_ELEMENTS:
            raise ConfigError(
                f"ShawConfig.clip times dim is too large: {self.clip:,} x {self.dim:,}; a table may "
                f"have at most {limits.MAX_TENSOR_ELEMENTS:,} numbers."
            )

    def formula(self, write: Writer) -> str:
        clip = write.value("clip")
        return (
            rf"{write.bias()} = \frac{{q_{{{write.position}}} \cdot "
            rf"a_{{\max(-{clip},\, \min({clip},\, {write.key} - {write.position}))}}}}"
            rf"{{\sqrt{{{write.value('dim')}}}}}"
        )

    def initial(self, generator: torch.Generator) -> "Shaw":
        return Shaw(self, generator)


class Shaw(Trainable):
    """Adds q . a of the clipped offset, scaled as the scores are."""

    config: ShawConfig
    needs_content = True

    def __init__(self, config: ShawConfig, generator: torch.Generator) -> None:
        super().__init__(config)
        self.weight = drawn_parameter(generator, 2 * config.clip + 1, config.dim)

    def bias(
        self, q: Queries, k: Keys, q_positions: Positions = None, k_positions: Positions = None
    ) -> Float[Tensor, "b h q k"]:
        check_tokens(q, self.config.dim, q_positions)
        clip = self.config.clip
        rows = offsets_between(q, k, q_positions, k_positions).clamp(-clip, clip) + clip
        wide = at_least_float32(q.dtype)
        products = q.to(wide) @ self.weight.to(wide).T * self.softmax_scale(q.shape[-1])
        return products.gather(-1, over_heads(rows).expand(*q.shape[:2], -1, -1))
