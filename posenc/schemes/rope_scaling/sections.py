"""RoPE in sections: each pair rotates by the position on an axis, such as the row of a grid.

Wang et al. 2024, Qwen2-VL, arXiv 2409.12191, section 2.1 (M-RoPE). In text all axes are equal, as in plain
RoPE. Qwen3-VL assigns the pairs to the axes in turn.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc import fields, limits, tables
from posenc.errors import ConfigError
from posenc.latex import Writer
from posenc.schemes.base import Head
from posenc.schemes.rope import At, Rope, RopeConfig, Rows, float32_powers


@dataclass(frozen=True, kw_only=True)
class RopeSectionsConfig(RopeConfig):
    """RoPE whose pairs rotate by positions on several axes (M-RoPE, Wang et al. 2024, arXiv 2409.12191).

    Token p is in a grid, filled row by row: the last axis is the column, the axis before it the row, and
    the first of three the square of grid x grid.

    sections: pairs of each axis; they sum to the number of pairs, and empty stands for two axes of half
        the pairs (up to 4 axes of 0 to 32,768).
    grid: columns of the grid; 0 is text, where every axis is the position (0 to 4,096).
    interleaved: deal the pairs out to the axes in turn.
    """

    kind: str = "rope_sections"
    sections: tuple[int, ...] = fields.Numbers(
        low=0,
        high=limits.MAX_DIM // 2,
        least=0,
        most=limits.MAX_AXES_OF_POSITION,
        whole=True,
        label="Pairs of each axis",
    ).field(())
    grid: int = fields.IntRange(
        low=0,
        high=limits.MAX_GRID,
        label="Columns of the grid",
    ).field(16)
    interleaved: bool = fields.Flag(label="Axes in turn").field(False)

    label: ClassVar[str] = "RoPE in sections"
    summary: ClassVar[str] = "RoPE whose pairs count rows, columns or other axes of a grid."

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sections and sum(self.sections) != self.rotary_dim // 2:
            raise ConfigError(
                f"{type(self).__name__}.sections must sum to the {self.rotary_dim // 2} pairs, got "
                f"{sum(self.sections)}."
            )
        axes = self.axes()
        counts = [axes.count(axis) for axis in range(len(self.sizes))]
        if self.sections and self.interleaved and counts != [*self.sizes]:
            raise ConfigError(
                f"{type(self).__name__}.sections dealt out in turn must leave each axis its number "
                f"of pairs, got {counts} for {[*self.sizes]}."
            )

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of pairs of each axis."""
        pairs = self.rotary_dim // 2
        return self.sections or (pairs - pairs // 2, pairs // 2)

    def axes(self) -> list[int]:
        """Return the axis of every pair."""
        count = len(self.sizes)
        if not self.interleaved:
            return [axis for axis, size in enumerate(self.sizes) for _ in range(size)]
        # In turn until an axis has its pairs; the first axis takes the rest.
        return [
            pair % count if pair < count * self.sizes[pair % count] else 0
            for pair in range(sum(self.sizes))
        ]

    def frequency_formula(self, write: Writer) -> tuple[str, ...]:
        lines = super().frequency_formula(write)
        if self.grid:
            meaning = rf"\text{{ the place on the pair's axis, in a grid of {self.grid} columns}}"
            lines += (rf"{write.position}:{meaning}",)
        return lines

    def float32_frequencies(self) -> Float[Tensor, " pairs"]:
        return 1.0 / float32_powers(self.base, self.rotary_dim)

    def build(self, device: torch.device | str | None = None, seed: int = 0) -> "RopeOnAxes":
        return RopeOnAxes(self)


class RopeOnAxes(Rope):
    """Rotates queries and keys, each pair by the position on its own axis."""

    config: RopeSectionsConfig

    def __init__(self, config: RopeSectionsConfig) -> None:
        super().__init__(config)
        self.stationary = config.grid == 0

    @property
    def inv_freq(self) -> Float[Tensor, " p"] | None:
        return super().inv_freq if self.stationary else None

    def rows(self, at: At, dtype: torch.dtype, device: torch.device, sign: int = 1) -> Rows:
        if self.stationary:
            return super().rows(at, dtype, device, sign)
        at = torch.arange(at, device=device) if isinstance(at, int) else at.to(device)
        tables.check_range(at)
        by_axis = [tables.cos_sin(axis, self.frequencies, dtype=dtype) for axis in self.places(at)]
        axes = torch.tensor(self.config.axes(), device=device)
        pairs = torch.arange(len(axes), device=device)
        cos, sin = (
            torch.stack(planes, dim=-2)[..., axes, pairs] for planes in zip(*by_axis, strict=True)
        )
        return cos, sin

    def offset_map(self, offset: int, size: int = 1, head: Head = "mean") -> Tensor | None:
        return super().offset_map(offset, size, head) if self.stationary else None

    def places(self, positions: Int[Tensor, " *n"]) -> list[Int[Tensor, " *n"]]:
        """Return the position on every axis: the digits of p to the base of the grid, in its order."""
        digits, rest = [], positions
        for _ in range(len(self.config.sizes) - 1):
            digits.append(rest % self.config.grid)
            rest = rest.div(self.config.grid, rounding_mode="floor")
        digits.append(rest)
        return digits[::-1]
