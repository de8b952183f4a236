r"""CoPE: positions that count keys by a gate of query and key, not tokens.

Golovneva et al. 2024, arXiv 2405.18719, section 4 and its appended code:

.. math:: g_{it} = \sigma\Bigl(\frac{q_i \cdot k_t}{\sqrt d}\Bigr), \quad p_{ij} = \sum_{t=j}^{i} g_{it},
          \quad b(i, j) = q_i \cdot e[p_{ij}]

e is a trained table for all heads and, unlike there, all layers, starting from N(0, 0.02) instead of 0. It
is interpolated linearly; p is at most its last row. Masked keys count too; p is 0 for later keys. Gates
use scaled scores; q . e is not scaled. Positions depend on content, so there is no position kernel.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from posenc import fields
from posenc.hook_arguments import (
    Keys,
    Positions,
    Queries,
    at_least_float32,
    check_tokens,
    is_readable,
    over_heads,
    repeat_kv,
    resolve_both,
)
from posenc.latex import Writer
from posenc.schemes.base import HEAD_WIDTH, DimOf
from posenc.schemes.sizes import Sizes
from posenc.schemes.trainable import Trainable, TrainableConfig, drawn_parameter, source_field


@dataclass(frozen=True, kw_only=True)
class CopeConfig(TrainableConfig):
    """Positions that count keys which a query selects (Golovneva et al. 2024, arXiv 2405.18719, section 4).

    dim: width of a head, in features (1 to 65,536).
    counted: rows of its table; a count past the last row takes the last row (2 to 1,024).
    """

    kind: Literal["cope"] = "cope"
    dim: int = HEAD_WIDTH.field(64)
    counted: int = fields.IntRange(
        low=2,
        high=1_024,
        label="CoPE positions",
    ).field(64)
    source: str = source_field("CoPE")

    label: ClassVar[str] = "CoPE"
    summary: ClassVar[str] = "Counts as positions only the tokens that the query selects."
    sizes_used: ClassVar[tuple[str, ...]] = ("dim", "heads")
    dim_of: ClassVar[DimOf] = "head"

    @classmethod
    def shape(cls, sizes: Sizes) -> dict[str, Any]:
        return {"dim": sizes.head_dim}

    def formula(self, write: Writer) -> str:
        i, j, d = write.position, write.key, write.value("dim")
        return (
            rf"{write.bias()} = q_{{{i}}} \cdot e\left[\min\left(\sum_{{s={j}}}^{{{i}}} \sigma\left("
            rf"\frac{{q_{{{i}}} \cdot k_s}}{{\sqrt{{{d}}}}}\right),\ {write.value('counted')} - 1"
            r"\right)\right]"
        )

    def initial(self, generator: torch.Generator) -> "Cope":
        return Cope(self, generator)


class Cope(Trainable):
    """Adds q . e at the counted position."""

    config: CopeConfig
    needs_content = True

    def __init__(self, config: CopeConfig, generator: torch.Generator) -> None:
        super().__init__(config)
        self.weight = drawn_parameter(generator, config.counted, config.dim)

    def bias(
        self, q: Queries, k: Keys, q_positions: Positions = None, k_positions: Positions = None
    ) -> Float[Tensor, "b h q k"]:
        check_tokens(q, self.config.dim, q_positions)
        queries, keys = resolve_both(q, k, q_positions, k_positions)
        wide = at_least_float32(q.dtype)
        wide_q, wide_k = q.to(wide), repeat_kv(k, q.shape[1]).to(wide)
        gates = (wide_q @ wide_k.mT * self.softmax_scale(q.shape[-1])).sigmoid()
        later = over_heads(keys[..., None, :] > queries[..., :, None])
        gates = gates.masked_fill(later, 0.0)
        counted = sums_from(gates, keys).clamp(max=self.config.counted - 1)
        counted = counted.masked_fill(later, 0.0)
        products = wide_q @ self.weight.to(wide).T
        below = counted.detach().floor()
        share = counted - below
        # NaN is no index; `share` carries it into the result.
        low = products.gather(-1, below.nan_to_num(0.0).long())
        high = products.gather(-1, counted.detach().ceil().nan_to_num(0.0).long())
        return low * (1 - share) + high * share


def sums_from(
    gates: Float[Tensor, "b h q k"], positions: Int[Tensor, "*b k"]
) -> Float[Tensor, "b h q k"]:
    """Return each key's own number plus the numbers of all keys at later positions."""
    if is_readable(positions) and bool((positions.diff(dim=-1) > 0).all()):
        return gates.flip(-1).cumsum(dim=-1).flip(-1)
    ordered, order = positions.sort(dim=-1, stable=True)
    # The index of the next greater position: keys at equal positions do not count each other.
    after = torch.searchsorted(ordered, ordered, right=True)
    back = order.argsort(dim=-1)

    def along(index: Tensor) -> Tensor:
        shaped = index[:, None, None] if index.dim() == 2 else index
        return shaped.expand(*gates.shape[:3], -1)

    sums = gates.gather(-1, along(order)).flip(-1).cumsum(dim=-1).flip(-1)
    beyond = functional.pad(sums, (0, 1)).gather(-1, along(after))
    return gates + beyond.gather(-1, along(back))
