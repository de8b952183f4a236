"""The two orders of features in which sines and cosines, or the pairs that a rotation turns, stand.

"interleaved" pairs features (2m, 2m + 1), as the papers do; "half" pairs (m, m + pairs).
"""

from typing import Literal

import torch
from jaxtyping import Int
from torch import Tensor

from posenc.errors import SchemeArgumentError, shown
from posenc.limits import check_width

Layout = Literal["interleaved", "half"]


def check_layout(layout: str) -> None:
    """Raise SchemeArgumentError unless `layout` is one of the two."""
    if layout not in ("interleaved", "half"):
        raise SchemeArgumentError(f'layout must be "interleaved" or "half", got {shown(layout)}.')


def interleaved_to_half(dim: int) -> Int[Tensor, " dim"]:
    """Index that takes interleaved features to half-split order, y = x[..., index].

    dim: even width. Returns (dim,) int64: 0, 2, 4, ..., 1, 3, 5, ...
    """
    return torch.arange(check_width("dim", dim)).view(-1, 2).T.flatten()


def half_to_interleaved(dim: int) -> Int[Tensor, " dim"]:
    """Index that takes half-split features to interleaved order, y = x[..., index].

    dim: even width. Returns (dim,) int64: 0, dim/2, 1, dim/2 + 1, ...
    """
    return torch.arange(check_width("dim", dim)).view(2, -1).T.flatten()
