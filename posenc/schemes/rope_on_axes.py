"""RoPE of positions with several axes, such as the row and the column of a grid."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc import tables
from posenc.schemes.rope import Rope, RopeConfig
from posenc.schemes.scheme import Head


class RopeOnAxes(Rope):
    """Rotates queries and keys, each pair by the position on its own axis.

    axes: the axis of every pair. count: how many axes there are. grid: columns that tokens fill row by
    row; at 0 the text is no picture, and every axis is the position.
    """

    def __init__(self, config: RopeConfig, axes: Sequence[int], count: int, grid: int) -> None:
        super().__init__(config)
        self.stationary = grid == 0
        self.axes = tuple(axes)
        self.count = count
        self.grid = grid

    @property
    def inv_freq(self) -> Float[Tensor, " p"] | None:  # type: ignore[override]  # Rope has them
        """Inverse frequencies; None on a grid, where no pair turns by the number of the token."""
        return self.phases.inv_freq if self.stationary else None

    def cos_sin(
        self,
        positions: int | Int[Tensor, " *n"],
        *,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str | None = None,
    ) -> tuple[Float[Tensor, "*n p"], Float[Tensor, "*n p"]]:
        if self.stationary:
            return super().cos_sin(positions, dtype=dtype, device=device)
        if isinstance(positions, int):
            positions = torch.arange(positions, device=device)
        elif device is not None:
            positions = positions.to(device)
        tables.check_range(positions)  # of the token: its places on the grid are nearer
        place = positions.device
        found = [tables.cos_sin(at, self.phases, dtype=dtype) for at in self.places(positions)]
        axes, pairs = (
            torch.tensor(self.axes, device=place),
            torch.arange(len(self.axes), device=place),
        )
        cos, sin = (
            torch.stack(plane, dim=-2)[..., axes, pairs] for plane in zip(*found, strict=True)
        )
        return cos, sin

    def offset_map(
        self, offset: int, *, size: int = 1, head: Head = "mean"
    ) -> Float[Tensor, "d d"] | None:
        """Return M_k of text; on a grid none serves every position."""
        return super().offset_map(offset, size=size, head=head) if self.stationary else None

    def places(self, positions: Int[Tensor, " *n"]) -> list[Int[Tensor, " *n"]]:
        """Return the position on every axis: the digits of p to the base of the grid, in text p."""
        count, grid = self.count, self.grid
        if grid == 0:
            return [positions] * count
        found, rest = [], positions
        for _ in range(count - 1):
            found.append(rest % grid)
            rest = rest.div(grid, rounding_mode="floor")
        return [rest, *reversed(found)]
