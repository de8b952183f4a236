r"""Stick-breaking: each query breaks its weight among earlier keys, the nearest first; no softmax.

Tan et al. 2024, arXiv 2410.17980, section 2. With the logits z of a query i and earlier keys, the nearest
key takes the share sigma(z) of a stick of length 1, the next one its share of what is left:

.. math:: A_{ij} = \sigma(z_{ij}) \prod_{j < l < i} \bigl(1 - \sigma(z_{il})\bigr), \quad j < i

What no key takes is lost, so weights sum to 1 or less. As in public code a query does not see its own
key. Nothing else tells positions apart. Weights depend on content, so there is no position kernel.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from posenc.hook_arguments import over_heads
from posenc.latex import Writer
from posenc.schemes.base import Scheme, SchemeConfig
from posenc.schemes.cope import sums_from


@dataclass(frozen=True, kw_only=True)
class StickBreakingConfig(SchemeConfig):
    """Weights broken off a stick, nearest key first (Tan et al. 2024, arXiv 2410.17980, section 2)."""

    kind: Literal["stick_breaking"] = "stick_breaking"

    label: ClassVar[str] = "Stick-breaking"
    summary: ClassVar[str] = (
        "Gives each key, the nearest first, a share of the weight that is left."
    )

    def formula(self, write: Writer) -> str:
        i, j = write.position, write.key
        share = r"\sigma\left(\frac{q_{%s} \cdot k_{%s}}{\sqrt{d_\mathrm{head}}}\right)"
        return (
            rf"A_{{{i},{j}}} = {share % (i, j)} \prod_{{{j} < s < {i}}} "
            rf"\left(1 - {share % (i, 's')}\right)"
        )

    def build(self, device: torch.device | str | None = None, seed: int = 0) -> "StickBreaking":
        return StickBreaking(self)


class StickBreaking(Scheme):
    """Breaks weights off a stick in place of a softmax."""

    config: StickBreakingConfig
    needs_content = True

    def weights(
        self,
        logits: Float[Tensor, "b h q k"],
        visible: Bool[Tensor, "#b 1 q k"] | None,
        q_positions: Int[Tensor, "*b q"],
        k_positions: Int[Tensor, "*c k"],
    ) -> Float[Tensor, "b h q k"]:
        seen = over_heads(k_positions[..., None, :] < q_positions[..., :, None])
        seen = seen if visible is None else seen & visible
        left = functional.logsigmoid(-logits).masked_fill(~seen, 0.0)
        nearer = (
            sums_from(left, k_positions) - left
        )  # keys at one position take nothing from each other
        return (functional.logsigmoid(logits) + nearer).exp().masked_fill(~seen, 0.0)
