"""Coefficients of logits by least squares, head by head, with their errors and what is left over."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

# The coefficients take up errors of the numbers, so that what is left of one may pass its own error.
_LEFT_OVER = 2.0
_LEAST_SPARE = 2


@dataclass(frozen=True, eq=False)
class Fit:
    """Coefficients (h, c) of columns, and how far errors of the numbers can move each.

    residuals: (h, n, m), 0 where a number is left out. limits: what rounding allows of each. excess: the
    largest residual of each head as a multiple of that; a fit explains the numbers where it is at most 1.
    An error is infinite where the numbers do not show a coefficient. spare: how many numbers the head with
    the fewest has beyond its coefficients and constants.
    """

    coefficients: Float[Tensor, "h c"]
    errors: Float[Tensor, "h c"]
    residuals: Float[Tensor, "h n m"]
    limits: Float[Tensor, "h n m"]
    excess: Float[Tensor, " h"]
    spare: int

    @property
    def explains(self) -> bool:
        """Whether every number is the formula's, up to rounding."""
        return bool((self.excess <= 1).all())

    @property
    def shows(self) -> bool:
        """Whether it explains the numbers, and there are enough that others would not fit."""
        return self.explains and self.spare >= _LEAST_SPARE


def fit(
    values: Float[Tensor, "h n m"],
    columns: Sequence[Float[Tensor, "h n m"]],
    allowed: Float[Tensor, "h n m"],
    seen: Bool[Tensor, "h n m"],
    *,
    up_to_rows: bool = False,
) -> Fit:
    """Return the coefficients of columns whose sum is nearest to values, with each head's own.

    allowed: the error of each number. seen: which numbers count. up_to_rows: whether a constant for each
    query is free, which a softmax does not show.
    """
    parts = [torch.where(seen, each, 0.0) for each in (values, *columns)]
    if up_to_rows:
        counts = seen.sum(-1, keepdim=True).clamp(min=1)
        parts = [
            torch.where(seen, part - part.sum(-1, keepdim=True) / counts, 0.0) for part in parts
        ]
    target, matrix = parts[0].flatten(1), torch.stack([part.flatten(1) for part in parts[1:]], 1)
    inverse = torch.linalg.pinv(matrix @ matrix.mT, rtol=1e-10, hermitian=True)
    solution = inverse @ matrix
    coefficients = (solution @ target[..., None])[..., 0]
    bounds = torch.where(seen, allowed, 0.0)
    errors = (solution.abs() @ bounds.flatten(1)[..., None])[..., 0]
    resolved = (solution @ matrix.mT).diagonal(dim1=-2, dim2=-1) > 0.5
    errors = torch.where(resolved, errors, torch.inf)
    residuals = target - (coefficients[:, None] @ matrix)[:, 0]
    limits = _LEFT_OVER * bounds
    if up_to_rows:  # the mean of a row has the errors of all its numbers
        limits = limits + torch.where(seen, bounds.sum(-1, keepdim=True) / counts, 0.0)
    least = torch.finfo(torch.float64).tiny
    excess = (residuals.abs() / limits.flatten(1).clamp(min=least)).amax(1)
    spare = seen.sum((1, 2)) - len(columns) - up_to_rows * seen.any(-1).sum(-1)
    return Fit(coefficients, errors, residuals.view_as(values), limits, excess, int(spare.min()))
