"""RoPE in sections: each pair rotates by the position on an axis, such as the row of a grid.

Wang et al. 2024, Qwen2-VL, arXiv 2409.12191, section 2.1 (M-RoPE). In text all axes are equal, as in plain
RoPE. Axial RoPE has frequencies for each axis. Qwen3-VL assigns the pairs to the axes in turn, Pixtral
(Agrawal et al. 2024, arXiv 2410.07073) the frequencies. DINOv3 (Simeoni et al. 2025, arXiv
2508.10104) divides the places on an axis by the size of the image.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc import fields, limits, tables
from posenc.errors import ConfigError
from posenc.frequencies import Frequencies
from posenc.latex import Writer
from posenc.schemes.base import Head
from posenc.schemes.rope import At, Rope, RopeConfig, Rows, float32_powers


@dataclass(frozen=True, kw_only=True)
class RopeSectionsConfig(RopeConfig):
    """RoPE whose pairs rotate by positions on several axes (M-RoPE, Wang et al. 2024, arXiv 2409.12191).

    Token p is in a grid, filled row by row: the last axis is the column, the axis before it the row, and
    the first of three the square of grid x grid. On a normalized axis positions begin at 0, not at -1,
    which no product of a query and a key shows.

    sections: pairs of each axis; they sum to the number of pairs, and empty stands for two axes of half
        the pairs (up to 4 axes of 0 to 32,768).
    grid: columns of the grid; 0 is text, where every axis is the position (0 to 4,096).
    interleaved: deal the pairs out to the axes in turn.
    ladders: one list of frequencies cut into sections (M-RoPE), one for each axis (axial), or one that is
        dealt out to the axes in turn (Pixtral).
    normalized: each axis goes from -1 to 1, from edge to edge of a grid of as many rows as columns, and
        frequencies count turns (DINOv3).
    column_first: the first axis is the column, not the last one (Llama 4).
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
    ladders: Literal["one", "each", "dealt"] = fields.Choice(
        options=("one", "each", "dealt"),
        label="Frequencies",
    ).field("one")
    normalized: bool = fields.Flag(label="Grid from -1 to 1").field(False)
    column_first: bool = fields.Flag(label="Column first").field(False)

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
        pairs, count = self.rotary_dim // 2, len(self.sizes)
        dealt = [len(range(axis, pairs, count)) for axis in range(count)]
        if self.ladders == "dealt" and dealt != [*self.sizes]:
            raise ConfigError(
                f"{type(self).__name__}.sections of frequencies dealt out in turn must be {dealt}, got "
                f"{[*self.sizes]}."
            )
        if self.normalized and not self.grid:
            raise ConfigError(
                f"{type(self).__name__}.normalized needs a grid of 2 or more columns."
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
        base = write.value("base")
        if self.ladders == "each":
            power, meaning = (
                "j/n",
                r"j,\,n: \text{ number of the pair on its axis, of all pairs there}",
            )
        elif self.ladders == "dealt":
            pairs, count = self.rotary_dim // 2, len(self.sizes)
            power = rf"({count}\,j + x) / {pairs}"
            meaning = r"j,\,x: \text{ number of the pair on its axis, and of that axis}"
        if self.ladders != "one":
            lines = (rf"\frac{{1}}{{{{{base}}}^{{{power}}}}}", meaning)
        if self.normalized:
            lines = (rf"\frac{{4 \pi}}{{{self.grid}}}\,{lines[0]}", *lines[1:])
        if self.grid:
            meaning = rf"\text{{ the place on the pair's axis, in a grid of {self.grid} columns}}"
            lines += (rf"{write.position}:{meaning}",)
        return lines

    def frequencies(self) -> Frequencies:
        if self.ladders == "one" and not self.normalized:
            return self.unscaled()
        return Frequencies.from_inv_freq(
            self._by_pair(lambda width: Frequencies.geometric(width, self.base).inv_freq)
        )

    def float32_frequencies(self) -> Float[Tensor, " pairs"]:
        return self._by_pair(lambda width: 1.0 / float32_powers(self.base, width))

    def _by_pair(self, of_width: Callable[[int], Tensor]) -> Float[Tensor, " pairs"]:
        """Return the frequency of every pair. of_width: the frequencies of a RoPE of a width."""
        whole, count = of_width(self.rotary_dim), len(self.sizes)
        # A patch is 2 / grid from the next where an axis goes from -1 to 1.
        step = 4 * math.pi / self.grid if self.normalized else 1.0
        if self.ladders == "one":
            return whole * step
        axes = torch.tensor(self.axes(), device="cpu")
        frequencies = torch.empty_like(whole)
        for axis, size in enumerate(self.sizes):
            own = whole[axis::count] if self.ladders == "dealt" else of_width(2 * max(size, 1))
            frequencies[axes == axis] = own[:size]
        return frequencies * step

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
        return digits if self.config.column_first else digits[::-1]
