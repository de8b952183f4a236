"""What is put into the hooks and what every one of them answers."""

import torch
from torch import Tensor

from posenc import (
    Scheme,
    attention,
)
from tests.conftest import SMALL

DIM, HEADS, WIDTH = SMALL.dim, SMALL.heads, SMALL.head_dim
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
DEVICES = ["cpu", "meta"] + (["cuda"] if torch.cuda.is_available() else [])


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def answers(scheme: Scheme, x: Tensor, q: Tensor, positions: Tensor | None) -> dict[str, Tensor]:
    """What every hook and the attention function give."""
    k = q.flip(-1)
    rotated_q, rotated_k = scheme.rotate(q, k, positions, positions)
    bias = scheme.bias(q, k, positions, positions)
    mixed = attention(q, k, q, scheme, q_positions=positions, k_positions=positions)
    found = {"embed": scheme.embed(x, positions), "q": rotated_q, "k": rotated_k, "mixed": mixed}
    return found if bias is None else found | {"bias": bias}


PLACES = [None, torch.arange(9) + 100, torch.tensor([[4, 2, 2, 9, 0, 1, 8, 7, 3]] * 2)]
