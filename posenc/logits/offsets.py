"""Numbers of queries and keys in rows of one offset, key minus query."""

import torch
from jaxtyping import Int
from torch import Tensor


def offsets_of(offsets: Int[Tensor, "n m"]) -> Int[Tensor, " o"]:
    """Return all offsets of queries and keys in rising order."""
    return torch.arange(int(offsets.min()), int(offsets.max()) + 1)


def by_offset(x: Tensor) -> Tensor:
    """Return numbers (h, n, m) with a row for each offset and a column for each query, 0 where none is."""
    heads, queries, keys = x.shape
    padded = torch.nn.functional.pad(x.flip(1), (0, queries))  # each row begins one place later
    skewed = padded.flatten(1)[:, : queries * (keys + queries - 1)]
    return skewed.reshape(heads, queries, keys + queries - 1).flip(1).mT
