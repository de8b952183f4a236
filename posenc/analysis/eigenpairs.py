"""Leading eigenpairs of symmetric matrices, by halves where a matrix has a symmetry to use.

LAPACK's symmetric eigensolver through SciPy, which computes no more pairs than asked for.
Eigenvalues descend, eigenvectors are columns, their signs are the solver's.
"""

import math

import torch
from torch import Tensor

from posenc.errors import NoPositionVectors


def top_eigenpairs(matrix: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The `size` largest eigenvalues, descending, and their eigenvectors as columns."""
    from scipy.linalg import eigh

    last = len(matrix) - 1
    values, vectors = eigh(matrix.cpu().numpy(), subset_by_index=[last + 1 - size, last])
    return (
        torch.from_numpy(values).to(matrix.device).flip(0),
        torch.from_numpy(vectors).to(matrix.device).flip(1),
    )


def merged_eigenpairs(
    even_values: Tensor, even_axes: Tensor, odd_values: Tensor, odd_axes: Tensor, size: int
) -> tuple[Tensor, Tensor]:
    """Leading eigenpairs of a block-diagonal matrix from those of its two blocks."""
    values = torch.cat([even_values, odd_values])
    order = values.sort(descending=True, stable=True).indices[:size]
    return values[order], torch.block_diag(even_axes, odd_axes)[:, order]


def leading_eigenpairs(block: Tensor, size: int, slack: Tensor) -> tuple[Tensor, Tensor]:
    """Leading eigenpairs of a symmetric matrix, by halves where it equals its own half turn.

    Raises NoPositionVectors if an eigenvalue is below -slack.
    """
    count = len(block)
    if (block - block.flip(0, 1)).abs_().amax() > slack / count:
        check_positive(block, slack)
        return top_eigenpairs(block, size)
    half = count // 2
    near, far = block[:half, :half], block[:half, count - half :].flip(1)
    even, odd = near + far, near - far
    if count % 2:
        edge = math.sqrt(2) * block[:half, half, None]
        centre = block[half, half].view(1, 1)
        even = torch.cat([torch.cat([even, edge], 1), torch.cat([edge.T, centre], 1)])
    for part in (even, odd):
        check_positive(part, slack)
    leading_even = top_eigenpairs(even, min(size, count - half))
    leading_odd = top_eigenpairs(odd, min(size, half))
    values, axes = merged_eigenpairs(*leading_even, *leading_odd, size)
    even_half, middle = axes[:half] / math.sqrt(2), axes[half : count - half]
    odd_half = axes[count - half :] / math.sqrt(2)
    return values, torch.cat([even_half + odd_half, middle, (even_half - odd_half).flip(0)])


def check_positive(block: Tensor, slack: Tensor) -> None:
    """Raise NoPositionVectors if a symmetric matrix has an eigenvalue below -slack."""
    shifted = block + slack * torch.eye(len(block), dtype=block.dtype, device=block.device)
    if torch.linalg.cholesky_ex(shifted).info:
        raise NoPositionVectors(
            "This kernel has a negative eigenvalue, so it is no inner product and has no "
            "position vectors."
        )
