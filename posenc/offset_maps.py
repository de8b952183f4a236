"""Closed forms of M_k, the matrix that moves every position vector by the same offset.

Waves turn, each pair by its own angle (Vaswani et al. 2017, section 3.5, arXiv 1706.03762; Su et al.
2021, arXiv 2104.09864, section 3.2). The vectors behind an exponential of distance (ALiBi: Press et
al. 2022, arXiv 2108.12409) gain a dimension per position, and the shift moves them along.
Vectors are columns in M phi and rows in a table.
"""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.errors import SchemeArgumentError, shown
from posenc.layout import Layout, check_layout
from posenc.limits import MAX_POSITION, check_count, check_elements

First = Literal["sin", "cos"]

DENSE_WIDTH = 512


def expanding_shift(ratio: float, size: int, offset: int) -> Float[Tensor, "more size"]:
    """The exact M_k of one ALiBi head, (size + offset, size): each step adds a dimension.

    With r = ratio = exp(-slope): phi(0) = e_0, phi(i) = r phi(i-1) + sqrt(1 - r^2) e_i, so
    M_1 e_0 = r e_0 + sqrt(1 - r^2) e_1 and M_1 e_i = e_(i+1); M_k is its k-th power. It acts on
    vectors that use the first `size` dimensions, so M_a (from size + b) M_b (from size) = M_(a+b).
    Raises SchemeArgumentError for a ratio outside [0, 1], a size below 1 or a negative offset.
    """
    if not 0 <= ratio <= 1:
        raise SchemeArgumentError(f"ratio must be from 0 to 1, got {shown(ratio)}.")
    check_count("size", size, 1, MAX_POSITION)
    check_count("offset", offset, 0, MAX_POSITION)
    check_elements(size + offset, size)
    shift = torch.zeros(size + offset, size, dtype=torch.float64)
    powers = torch.tensor(ratio, dtype=torch.float64) ** torch.arange(offset, -1, -1)
    shift[: offset + 1, 0] = powers
    shift[1 : offset + 1, 0] *= ((1 - ratio) * (1 + ratio)) ** 0.5
    shift[offset + 1 :, 1:].fill_diagonal_(1.0)
    return shift


def pair_columns(pairs: int, layout: Layout) -> tuple[Tensor, Tensor]:
    """Columns of the first and of the second member of every pair."""
    check_layout(layout)
    index = torch.arange(pairs)
    return (2 * index, 2 * index + 1) if layout == "interleaved" else (index, index + pairs)


def pair_matrix(
    cos: Tensor, sin: Tensor, layout: Layout, first: First, tail: int
) -> Float[Tensor, "d d"]:
    """The matrix that turns every pair: cos + 1j sin multiplied by its own complex number.

    Two entries a row; above 512 features it is a sparse COO tensor, which takes 8 MB less per
    thousand rows and multiplies by that much faster.
    """
    if first not in ("sin", "cos"):
        raise SchemeArgumentError(f"first must be 'sin' or 'cos', got {shown(first)}.")
    one, two = (columns.to(cos.device) for columns in pair_columns(len(cos), layout))
    width = 2 * len(cos) + tail
    rest = torch.arange(2 * len(cos), width, device=cos.device)
    above = sin if first == "sin" else -sin
    rows = torch.cat((one, two, one, two, rest))
    columns = torch.cat((one, two, two, one, rest))
    values = torch.cat((cos, cos, above, -above, torch.ones_like(rest, dtype=cos.dtype)))
    matrix = torch.sparse_coo_tensor(
        torch.stack((rows, columns)), values, (width, width), check_invariants=False
    )
    return matrix.coalesce() if width > DENSE_WIDTH else matrix.to_dense()


def corner(matrix: Tensor, size: int) -> Float[Tensor, "a b"]:
    """Return the first `size` rows and columns of a matrix, sparse or not, as a dense one."""
    if not matrix.is_sparse:
        return matrix[:size, :size]
    index = torch.arange(min(size, *matrix.shape), device=matrix.device)
    return matrix.index_select(0, index).index_select(1, index).to_dense()
