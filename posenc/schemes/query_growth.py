"""Growth of queries with their position, which makes all of their logits larger by the same factor."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.device import widest_dtype


@dataclass(frozen=True, kw_only=True)
class Growth:
    """The factor of a query at position p, 1 + rate ln(1 + floor((p + first) / length)).

    Layers of Llama 4 without RoPE have the rate 0.1, the length 8,192 and first = 1.
    """

    rate: float
    length: int
    first: int = 0

    def factors(self, positions: Int[Tensor, " *q"]) -> Float[Tensor, " *q"]:
        """Return the factor of each query, in the widest dtype of its device."""
        exact = positions.to(widest_dtype(positions.device))
        return 1.0 + self.rate * (exact + self.first).div(self.length).floor().log1p()


def log_of_keys(positions: Int[Tensor, " *q"]) -> Float[Tensor, " *q"]:
    """Return ln n of each query of a causal layer, where n = position + 1 is the number of keys it sees.

    In the widest dtype of the device; 0 for negative positions.
    """
    exact = positions.to(widest_dtype(positions.device))
    return (exact + 1).clamp(min=1).log()


def mean_log(length: int) -> float:
    """Return the mean of ln n over n = 1 .. length."""
    return float(torch.tensor(length + 1.0, dtype=torch.float64, device="cpu").lgamma()) / length
