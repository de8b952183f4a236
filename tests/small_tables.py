"""Small inputs of the analyses' tests: entry by entry, in Python's own floats.

Nothing here imports posenc. Next to tests/independent.py, whose 40 digits are for what must be right
to the last bit, these are quick enough for hundreds of rows.
"""

import math

import numpy as np
import torch
from torch import Tensor


def ladder(width: int, base: float = 10_000.0) -> Tensor:
    """Inverse frequencies from Python's own power, one at a time."""
    return torch.tensor([base ** (-2 * m / width) for m in range(width // 2)], dtype=torch.float64)


def table(length: int, width: int, base: float = 10_000.0) -> Tensor:
    """The textbook sinusoidal table, entry by entry: sine and cosine interleaved."""
    rows = np.zeros((length, width))
    for p in range(length):
        for m in range(width // 2):
            angle = p * base ** (-2 * m / width)
            rows[p, 2 * m], rows[p, 2 * m + 1] = math.sin(angle), math.cos(angle)
    return torch.from_numpy(rows)


def alibi_mean_curve(length: int, heads: int = 8) -> Tensor:
    """The mean over heads of exp(-slope |k|), by offset -(length-1) .. length-1."""
    return torch.tensor(
        [
            sum(math.exp(-(2.0 ** (-8 * h / heads)) * abs(k)) for h in range(1, heads + 1)) / heads
            for k in range(1 - length, length)
        ],
        dtype=torch.float64,
    )


def alibi_mean_matrix(length: int, heads: int = 8) -> Tensor:
    """The mean over heads of exp(-slope |i - j|), entry by entry."""
    curve = alibi_mean_curve(length, heads).tolist()
    return torch.tensor(
        [[curve[j - i + length - 1] for j in range(length)] for i in range(length)],
        dtype=torch.float64,
    )


def noise(*shape: int, seed: int = 0) -> Tensor:
    """Normal numbers, the same at every call."""
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
