"""Small tables and kernels for tests of analyses, entry by entry in Python's floats; imports no posenc."""

import math

import numpy as np
import torch
from torch import Tensor


def ladder(width: int, base: float = 10_000.0) -> Tensor:
    return torch.tensor([base ** (-2 * m / width) for m in range(width // 2)], dtype=torch.float64)


def table(length: int, width: int, base: float = 10_000.0, start: int = 0) -> Tensor:
    """The textbook sinusoidal table from a position on: sine and cosine interleaved."""
    angles = np.arange(start, start + length)[:, None] * base ** (-np.arange(0, width, 2) / width)
    rows = np.empty((length, width))
    rows[:, 0::2], rows[:, 1::2] = np.sin(angles), np.cos(angles)
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
    positions = torch.arange(length)
    return alibi_mean_curve(length, heads)[positions - positions[:, None] + length - 1]


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def cos_and_sin(
    rows: int, width: int, base: float, start: int = 0, exponents: np.ndarray | None = None
) -> tuple[Tensor, Tensor]:
    """Return cosines and sines (rows, pairs); exponents: of 1/base by pair, 2m/width by default."""
    usual = np.arange(0, width, 2) / np.longdouble(width)
    ladder = np.power(np.longdouble(base), -(usual if exponents is None else exponents))
    angles = np.arange(start, start + rows, dtype=np.longdouble)[:, None] * ladder
    return torch.tensor(np.cos(angles).astype(float)), torch.tensor(np.sin(angles).astype(float))


def side_by_side(first: Tensor, second: Tensor) -> Tensor:
    return torch.stack((first, second), -1).flatten(1)


def halves(x: Tensor) -> Tensor:
    return torch.cat((x, x), 1)


def neighbours(x: Tensor) -> Tensor:
    return x.repeat_interleave(2, 1)


def sinusoidal(rows: int, width: int, base: float = 1e4, start: int = 0) -> Tensor:
    cos, sin = cos_and_sin(rows, width, base, start)
    return side_by_side(sin, cos).float()
