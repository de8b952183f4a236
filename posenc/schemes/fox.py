r"""FoX: a forget gate for each token, whose product lowers the weight of everything before it.

Lin et al. 2025, arXiv 2503.02130, section 3 (Forgetting Attention). Each layer computes a gate for each
head from its input x, the vector of a token from which queries and keys are made as well:

.. math:: b_h(i, j) = \sum_{l=j+1}^{i} \ln \sigma(w_h \cdot x_l + a_h)

w starts from N(0, 0.02), a at 0, as in its public code; both are trained for each layer. `with_input`
puts ln sigma into keys as one feature more, so that a cache of keys has it. The sums go over the keys
between key and query by position. Later keys, which a causal model never sees, mirror earlier ones.

Without an input the gates are those of x = 0: a bias by distance, of slope ln(1 + exp(-a_h)). The kernel
is exp of that bias, the factor on an attention weight.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from posenc.device import widest_dtype
from posenc.errors import ConfigError, SchemeArgumentError
from posenc.hook_arguments import (
    Inputs,
    Keys,
    Positions,
    Queries,
    WiderKeys,
    WiderQueries,
    at_least_float32,
    check_tokens,
    resolve_both,
)
from posenc.latex import Writer
from posenc.schemes.base import HEADS, WIDTH, DimOf
from posenc.schemes.sizes import Sizes
from posenc.schemes.trainable import PerLayer, PerLayerConfig, drawn_parameter, source_field


@dataclass(frozen=True, kw_only=True)
class FoxConfig(PerLayerConfig):
    """A forget gate of each token, computed from it (Lin et al. 2025, arXiv 2503.02130, section 3).

    dim: width of the model, whose layers' inputs the gates are computed from, in features (1 to 65,536).
    heads: number of heads, each dim / heads wide and with gates of its own (1 to 1,024).
    """

    kind: str = "fox"
    dim: int = WIDTH.field(512)
    heads: int = HEADS.field(8)
    source: str = source_field("FoX")

    label: ClassVar[str] = "FoX"
    summary: ClassVar[str] = (
        "Lowers each logit by what the gates of the tokens between key and query forget."
    )
    sizes_used: ClassVar[tuple[str, ...]] = ("dim", "heads")
    dim_of: ClassVar[DimOf] = "model"

    @classmethod
    def shape(cls, sizes: Sizes) -> dict[str, Any]:
        return {"dim": sizes.dim, "heads": sizes.heads}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dim % self.heads:
            raise ConfigError(
                f"FoxConfig.dim must be a multiple of the heads, got {self.dim:,} for "
                f"{self.heads:,} heads."
            )

    @property
    def head_dim(self) -> int:
        """Width of a head."""
        return self.dim // self.heads

    def formula(self, write: Writer) -> str:
        i, j = write.position, write.key
        return (
            rf"{write.bias('h')} = \sum_{{s={j}+1}}^{{{i}}} "
            r"\ln \sigma\left(w_h \cdot x_s + a_h\right)"
        )

    def of_layer(self, generator: torch.Generator) -> "Fox":
        return Fox(self, generator)


class Fox(PerLayer):
    """Adds the sum of the logarithms of the gates between key and query."""

    config: FoxConfig
    no_vectors = "its gates depend on the input"

    def __init__(self, config: FoxConfig, generator: torch.Generator) -> None:
        super().__init__(config)
        self.heads = config.heads
        self.weight = drawn_parameter(generator, config.heads, config.dim)
        self.gate_bias = nn.Parameter(torch.zeros(config.heads, device="cpu").float())

    def with_input(self, q: Queries, k: Keys, x: Inputs) -> tuple[WiderQueries, WiderKeys]:
        """Return queries with a 0 more and keys with ln of their gate.

        Raises SchemeArgumentError for grouped keys: every query head has gates of its own.
        """
        self.check_heads(q)
        check_tokens(x, self.config.dim, None)
        check_tokens(k, self.config.head_dim, None)
        if k.shape[1] != self.heads or x.shape[:-1] != (k.shape[0], k.shape[2]):
            raise SchemeArgumentError(
                f"k {tuple(k.shape)} must have the {self.heads} heads of queries, and the batch and tokens "
                f"of x {tuple(x.shape)}: FoX computes a gate of each head from each token."
            )
        wide = at_least_float32(x.dtype)
        gates = functional.linear(x.to(wide), self.weight.to(wide), self.gate_bias.to(wide))
        logs = functional.logsigmoid(gates).movedim(-1, 1)[..., None].to(k.dtype)
        zeros = q.new_zeros(*q.shape[:-1], 1)
        return torch.cat((q, zeros), -1), torch.cat((k, logs), -1)

    def softmax_scale(self, head_dim: int) -> float:
        return super().softmax_scale(self.config.head_dim)  # a gate is no feature of a product

    def bias(
        self, q: Queries, k: Keys, q_positions: Positions = None, k_positions: Positions = None
    ) -> Float[Tensor, "#b h q k"] | None:
        if k.shape[-1] == self.config.head_dim:  # no input
            return super().bias(q, k, q_positions, k_positions)
        check_tokens(k, self.config.head_dim + 1, k_positions)
        queries, keys = resolve_both(q, k, q_positions, k_positions)
        self.check_heads(q)
        exact, wide = widest_dtype(k.device), at_least_float32(q.dtype)
        logs = k[..., -1].to(exact)
        at_queries, at_keys = _sums(logs, keys, queries), _sums(logs, keys, keys)
        return -(at_queries[..., :, None] - at_keys[..., None, :]).abs().to(wide)

    def offset_bias(self, offsets: Int[Tensor, " *shape"]) -> Float[Tensor, " h *shape"]:
        # As a floating-point number before the sign goes: the least integer has no positive twin.
        distances = offsets.to(widest_dtype(offsets.device)).abs()
        logs = functional.logsigmoid(self.gate_bias.to(distances))
        return logs.reshape(-1, *(1,) * offsets.dim()) * distances


def _sums(
    logs: Float[Tensor, "b h k"], keys: Int[Tensor, "*b k"], at: Int[Tensor, "*c n"]
) -> Float[Tensor, "b h n"]:
    """Return for each position of `at` the sum of the logs of all keys up to it."""
    ordered, order = keys.sort(dim=-1, stable=True)
    if ordered.dim() < at.dim():
        ordered, order = (part.expand(len(at), -1) for part in (ordered, order))
    elif ordered.dim() > at.dim():
        at = at.expand(len(ordered), -1)
    counts = torch.searchsorted(ordered.contiguous(), at.contiguous(), right=True)

    def along(index: Tensor) -> Tensor:
        shaped = index[:, None] if index.dim() == 2 else index
        return shaped.expand(*logs.shape[:2], -1)

    sums = logs.gather(-1, along(order)).cumsum(dim=-1)
    return functional.pad(sums, (1, 0)).gather(-1, along(counts))
