r"""FIRE: a trained function of the distance relative to the query's position.

Li et al. 2023, arXiv 2310.04418, section 3.3 and its appended code:

.. math:: b_h(i, j) = f_h\Bigl(\frac{\psi(i - j)}{\psi(\max(i, |m|\,L))}\Bigr), \quad
          \psi(x) = \ln(|c\,x| + 1)

f is a perceptron 1 - 32 - heads with ReLU; c and the multiplier m of the threshold L are trained too. As
in that code, 1e-6 is added to the denominator. Kernel: exp(bias), the factor on an attention weight.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from posenc import fields, limits
from posenc.device import float64_device, widest_dtype
from posenc.hook_arguments import Keys, Positions, Queries, at_least_float32, resolve_both
from posenc.latex import Writer
from posenc.schemes.base import HEADS, Head, Request, of_head, rounded
from posenc.schemes.sizes import Sizes
from posenc.schemes.trainable import Trainable, TrainableConfig, source_field, uniform

HIDDEN = 32
INITIAL_C = 0.1
EPSILON = 1e-6
_ROWS = 512  # queries computed at once


@dataclass(frozen=True, kw_only=True)
class FireConfig(TrainableConfig):
    """A trained function of the relative distance (Li et al. 2023, arXiv 2310.04418, section 3.3).

    heads: number of heads, each with its own function (1 to 1,024).
    threshold: L, in positions: the distance of an earlier query is divided as if the query stood at L
        (1 to 2,147,483,647).
    """

    kind: Literal["fire"] = "fire"
    heads: int = HEADS.field(8)
    threshold: int = fields.IntRange(low=1, high=limits.MAX_POSITION, label="FIRE threshold").field(
        512
    )
    source: str = source_field("FIRE")

    label: ClassVar[str] = "FIRE"
    summary: ClassVar[str] = (
        "Adds a trained function of distance divided by query position to each logit."
    )
    sizes_used: ClassVar[tuple[str, ...]] = ("heads", "train_length")

    @classmethod
    def shape(cls, sizes: Sizes) -> dict[str, Any]:
        return {"heads": sizes.heads, "threshold": max(sizes.train_length, 2)}

    def formula(self, write: Writer) -> str:
        i, j = write.position, write.key
        return (
            rf"{write.bias('h')} = f_h\left(\frac{{\psi({i} - {j})}}{{\psi(\max({i},\,|m|\,"
            rf"{write.value('threshold')}))}}\right),\quad \psi(x) = \ln(|c\,x| + 1)"
        )

    def initial(self, generator: torch.Generator) -> "Fire":
        return Fire(self, generator)


class Fire(Trainable):
    """Adds a perceptron's value of the interpolated distance."""

    config: FireConfig
    stationary = False
    no_vectors = "its kernel is not symmetric past its threshold"

    def __init__(self, config: FireConfig, generator: torch.Generator) -> None:
        super().__init__(config)
        self.heads = config.heads
        bound = HIDDEN**-0.5
        # Drawn as by torch's linear layers: uniform within 1 / sqrt(inputs).
        self.inner_weight = nn.Parameter(uniform(generator, HIDDEN, low=-1, high=1))
        self.inner_bias = nn.Parameter(uniform(generator, HIDDEN, low=-1, high=1))
        self.outer_weight = nn.Parameter(
            uniform(generator, HIDDEN, config.heads, low=-bound, high=bound)
        )
        self.outer_bias = nn.Parameter(uniform(generator, config.heads, low=-bound, high=bound))
        self.c = nn.Parameter(torch.tensor(INITIAL_C, dtype=torch.float32, device="cpu"))
        self.multiplier = nn.Parameter(torch.tensor(1.0, dtype=torch.float32, device="cpu"))

    def bias(
        self, q: Queries, k: Keys, q_positions: Positions = None, k_positions: Positions = None
    ) -> Float[Tensor, "#b h q k"]:
        both = resolve_both(q, k, q_positions, k_positions)
        self.check_heads(q)
        values = self._values(*both, at_least_float32(q.dtype))
        return values if values.dim() == 4 else values[None]

    def kernel(self, request: Request) -> Float[Tensor, "n n"]:
        rows = self._rows(request.start, request.length, request.dtype)
        parts = [of_head(bias.exp(), request.head) for bias in rows]
        return torch.cat(parts).to(float64_device(request.device))

    def bias_matrix(
        self, length: int, *, head: Head = "mean", dtype: torch.dtype | None = None
    ) -> Float[Tensor, "n n"]:
        self.check_head(head)
        return torch.cat([of_head(bias, head) for bias in self._rows(0, length, dtype)])

    def _rows(
        self, start: int, length: int, dtype: torch.dtype | None
    ) -> Iterator[Float[Tensor, "h q n"]]:
        """Yield the bias of _ROWS queries at a time, which bounds the memory of the hidden layer."""
        positions = torch.arange(start, start + length, device=float64_device(self.c.device))
        for part in positions.split(_ROWS):
            yield rounded(self._values(part, positions, torch.float64).detach(), dtype)

    def _values(
        self, queries: Int[Tensor, " *b q"], keys: Int[Tensor, " *c k"], dtype: torch.dtype
    ) -> Float[Tensor, " *d h q k"]:
        """Return the bias of every query and key in this dtype."""
        exact = widest_dtype(queries.device)
        c = self.c.to(device=queries.device, dtype=exact)
        threshold = (self.multiplier.to(c) * self.config.threshold).abs()
        distances = (queries[..., :, None] - keys[..., None, :]).to(exact)
        reach = torch.maximum(queries.to(exact), threshold)[..., :, None]
        share = (c * distances).abs().log1p() / ((c * reach).abs().log1p() + EPSILON)
        share = share.to(dtype)[..., None]
        inner = (share * self.inner_weight.to(share) + self.inner_bias.to(share)).relu()
        outer = inner @ self.outer_weight.to(share) + self.outer_bias.to(share)
        return outer.movedim(-1, -3)
