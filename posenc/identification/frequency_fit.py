"""Hypotheses on a table (base, scale, first position, size), fitted to it, and how it was rounded.

An angle p theta in a format with unit roundoff u is wrong by p theta u, which no later rounding can
mend: at position 4,096 a float32 angle moves a sine by 2e-4, a bfloat16 angle by more than a period.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.identification.columns import Arrangement, Columns
from posenc.identification.predict import Allowed, TableRecipe, predict
from posenc.identification.waves import Waves
from posenc.schemes.rope_scaling.base import ScaledRopeConfig

ANGLE_ERROR = 5e-7  # relative, of an angle in float32
_FITTED_ROWS = 128  # at most, of one step of least squares
_LEAST_SLOPE = (
    1e-12  # of a number by the logarithm of the base: with less, it shows nothing of the base
)
_NEAR_ONE = 5e-3  # difference of a size that may be 1
_ROUND_DIGITS = 8  # of a base that may be intended
OF_ANGLES = 2e-6  # error of a number that angles in another arithmetic make
_ROUNDINGS = 4  # of numbers with an attention factor: of cosines, the factor and their product
_VECTOR_ROUNDINGS = 8  # of a quotient of two rounded vectors


@dataclass(frozen=True)
class Hypothesis:
    """A table size * f(scale * base^-exponent * (row + start)); f and exponent are the arrangement's.

    scale: negative where sines are negated. config: of a scaling of RoPE, whose frequencies replace
    base^-exponent. others: scalings that make the same numbers.
    """

    arrangement: Arrangement
    base: float
    scale: float = 1.0
    start: int = 0
    size: float = 1.0
    config: ScaledRopeConfig | None = None
    others: tuple[ScaledRopeConfig, ...] = ()

    def frequencies(self, columns: Columns) -> Float[Tensor, " c"]:
        """Return the frequency of every column, radians per position, float64."""
        if self.config is None:
            return self.scale * self.base ** (-columns.exponents)
        return self.scale * by_column(self.config.frequencies().inv_freq, columns)

    def with_base(self, base: float) -> "Hypothesis":
        """Return the same hypothesis with another base."""
        config = self.config and self.config.replace(base=base)
        return replace(self, base=base, config=config)


def by_column(frequencies: Float[Tensor, " p"], columns: Columns) -> Float[Tensor, " c"]:
    """Return the frequencies of pairs by column."""
    return frequencies[(columns.exponents * len(frequencies)).round().long()]


def fit_line(waves: Waves, columns: Columns) -> tuple[float, float] | None:
    """Return base and scale of the straight line through the logarithms of the frequencies."""
    known = (waves.weight > 0) & (waves.theta > 0)
    if not bool(known.any()):
        return None
    x, y = columns.exponents[known], waves.theta[known].log()
    weight = full_weight = waves.weight[known]
    slope, height = 0.0, 0.0
    for _ in range(6):  # columns away from the line lose weight each time
        total = weight.sum()
        middle = (weight * x).sum() / total
        variance = float((weight * (x - middle).square()).sum())
        if variance <= 1e-12 * float(total):  # a single pair, whose base is any
            slope = -math.log(10_000.0)
        else:
            slope = float((weight * (x - middle) * y).sum()) / variance
        height = float((weight * y).sum() / total) - slope * float(middle)
        residual = (y - height - slope * x).abs()
        weight = full_weight / (1 + (residual / (3 * residual.median().clamp_min(1e-9))).square())
    base = math.exp(max(-60.0, min(-slope, 60.0)))
    return (base, math.exp(max(-30.0, min(height, 30.0)))) if 1.0 < base <= 1e13 else None


def refine(
    hypothesis: Hypothesis, table: Float[Tensor, "t c"], columns: Columns, *, scaled: bool
) -> Hypothesis:
    """Return the base, the size and, if `scaled`, the scale of least squares, by Gauss-Newton.

    On the first 16 rows, then on 64, 256 and so on, at last on all.
    """
    reach = min(len(table), 16)
    while True:
        rows = torch.linspace(0, reach - 1, min(reach, _FITTED_ROWS)).round().long()
        for _ in range(4):
            hypothesis = _step(hypothesis, table[rows], rows.double(), columns, scaled)
        if reach == len(table):
            return hypothesis
        reach = min(len(table), reach * 4)


def _step(
    hypothesis: Hypothesis,
    table: Float[Tensor, "t c"],
    rows: Float[Tensor, " t"],
    columns: Columns,
    scaled: bool,
) -> Hypothesis:
    angles = (rows + hypothesis.start).unsqueeze(1) * hypothesis.frequencies(columns)
    sin, cos = angles.sin(), angles.cos()
    value = torch.where(columns.sines, sin, cos)
    by_log_rate = hypothesis.size * torch.where(columns.sines, cos, -sin) * angles
    slopes = [-by_log_rate * columns.exponents, value]
    if scaled:
        slopes.append(by_log_rate)
    matrix = torch.stack([part.flatten() for part in slopes], 1)
    norms = matrix.norm(dim=0).clamp_min(1e-12)
    matrix = matrix / norms
    normal = matrix.T @ matrix + 1e-12 * torch.eye(len(slopes), dtype=torch.float64)
    residual = (table - hypothesis.size * value).flatten()
    step = torch.linalg.solve(normal, matrix.T @ residual) / norms
    # Steps are bounded, so that a rough start cannot leave the range of bases.
    log_base, log_scale = (max(-0.5, min(0.5, float(step[i]))) for i in (0, -1))
    base = math.exp(max(1e-6, min(30.0, math.log(hypothesis.base) + log_base)))
    return replace(
        hypothesis.with_base(base),
        scale=hypothesis.scale * math.exp(log_scale) if scaled else hypothesis.scale,
        size=max(1e-6, hypothesis.size + float(step[1])),
    )


def is_round(base: float) -> bool:
    """Whether a base has so few digits that it may be intended."""
    return base == float(f"{base:.{_ROUND_DIGITS}g}")


def roundest_base(
    hypothesis: Hypothesis, table: Float[Tensor, "t c"], columns: Columns, precision: "Precision"
) -> float:
    """Return the base of the fewest digits that makes every number of a table, else that of a hypothesis.

    hypothesis: the one of least squares, so that numbers change in proportion to the base around it; a size
    near 1 is taken for 1. precision: of the numbers; a small one of 16 bits shows most of the base.
    """
    if abs(hypothesis.size - 1) < _NEAR_ONE:
        hypothesis = replace(hypothesis, size=1.0)
    rows = torch.arange(len(table), dtype=torch.float64)
    angles = (rows + hypothesis.start).unsqueeze(1) * hypothesis.frequencies(columns)
    sin, cos = angles.sin(), angles.cos()
    values = hypothesis.size * torch.where(columns.sines, sin, cos)
    by_log_base = -hypothesis.size * torch.where(columns.sines, cos, -sin)
    slopes = by_log_base * angles * columns.exponents
    limits = precision.allowed(hypothesis.size).limits(values, angles, hypothesis.size)
    off = table - values
    moved = slopes.abs() > _LEAST_SLOPE
    middle, within = (off / slopes)[moved], (limits / slopes.abs())[moved]
    if not len(middle):
        return hypothesis.base
    # Errors of float32 frequencies are those of whole columns: least squares is as exact as one per column.
    of_squares = 2 * math.sqrt(float(off.square().mean() / slopes.square().mean()) / table.shape[1])
    of_squares += torch.finfo(torch.float32).eps / 2 * (1 + math.log(hypothesis.base))
    low = max(float((middle - within).max()), -of_squares)
    high = min(float((middle + within).min()), of_squares)
    likeliest = hypothesis.base * math.exp((low + high) / 2) if low <= high else hypothesis.base
    for digits in range(1, _ROUND_DIGITS + 1):
        base = float(f"{likeliest:.{digits}g}")
        if low <= math.log(base / hypothesis.base) <= high:
            return base
    return hypothesis.base


# In units in the last place just below 1: one; two in float32, for the sine of another library; eight in
# float64, whose angles are rounded, too.
_ROUNDING = {
    torch.bfloat16: 2.0**-8,
    torch.float16: 2.0**-11,
    torch.float32: 2.0**-23,
    torch.float64: 2.0**-50,
}


@dataclass(frozen=True)
class Recipe:
    """One way of computing a table.

    frequencies: how they are computed. stored: their format afterwards. angle: the format of position
    times frequency.
    """

    frequencies: Literal["exact", "powers", "exponentials"]
    stored: torch.dtype
    angle: torch.dtype

    @property
    def low(self) -> bool:
        """Whether the angles are less exact than float64."""
        return self.angle != torch.float64

    @property
    def in_16_bits(self) -> bool:
        """Whether frequencies or angles are rounded to 16 bits."""
        return self.stored in (torch.bfloat16, torch.float16)

    def base_error(self, base: float) -> float:
        """Return the relative change of the base that rounded frequencies hide, 0 for exact ones."""
        if self.stored == torch.float64:
            return 0.0
        # A power of the base, or an exponential, also has the rounding of its exponent.
        exponent = 0.0 if self.frequencies == "exact" else math.log(base)
        return torch.finfo(self.stored).eps / 2 * (1 + exponent)

    def values(
        self, hypothesis: Hypothesis, rows: Float[Tensor, " t"], columns: Columns
    ) -> Float[Tensor, "t c"]:
        """Return rows of a table computed in this way, float64."""
        frequencies = self._frequencies(hypothesis, columns).to(self.stored)
        recipe = TableRecipe(frequencies, columns.sines, hypothesis.size, self.angle)
        return predict(recipe, rows + hypothesis.start)

    def _frequencies(self, hypothesis: Hypothesis, columns: Columns) -> Float[Tensor, " c"]:
        """Return the frequencies as public code computes them."""
        config = hypothesis.config
        if config is not None and self.frequencies == "powers":
            frequencies = by_column(config.float32_frequencies(), columns)
            return hypothesis.scale * frequencies
        if config is not None or self.frequencies == "exact":
            return hypothesis.frequencies(columns)
        if self.frequencies == "powers":
            plain = 1.0 / (hypothesis.base ** columns.exponents.float())
        else:
            step = -math.log(hypothesis.base) / columns.dim
            plain = ((columns.exponents * columns.dim).float() * step).exp()
        return plain / (1.0 / hypothesis.scale)  # public code divides by a whole factor


EXACT = Recipe("exact", torch.float64, torch.float64)
RECIPES = (
    Recipe("powers", torch.float32, torch.float32),
    Recipe("exponentials", torch.float32, torch.float32),
    Recipe("exact", torch.float32, torch.float32),
    Recipe("powers", torch.bfloat16, torch.float32),
    Recipe("powers", torch.float16, torch.float32),
    Recipe("powers", torch.bfloat16, torch.bfloat16),
    Recipe("powers", torch.float16, torch.float16),
)


def narrowest_format(columns: Float[Tensor, "t c"]) -> torch.dtype:
    """Return the narrowest format that holds every number exactly."""
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        if torch.equal(columns.to(dtype).double(), columns):
            return dtype
    return torch.float64


def rounding(dtype: torch.dtype, latest: float, size: float = 1.0) -> float:
    """Return the error of a number up to `size` that was rounded once to `dtype`.

    latest: the last position; in a float64 table the angle was rounded, too.
    """
    angle = 2.0**-52 * latest if dtype == torch.float64 else 0.0
    return (_ROUNDING[dtype] + angle) * size


def one_rounding(dtype: torch.dtype, latest: float = 0, size: float = 1.0) -> Allowed:
    """Return what one rounding to `dtype` changes, where numbers were computed in float32 or float64.

    16 bits change each number by a share of itself, so that a small sine is still known to 8 bits or more.
    """
    if dtype in (torch.bfloat16, torch.float16):
        return Allowed(rounding(torch.float32, 0, size), share=_ROUNDING[dtype])
    return Allowed(rounding(dtype, latest, size))


class Precision(NamedTuple):
    """The rounding of numbers: to a format, or as quotients of vectors of this format."""

    dtype: torch.dtype
    of_vectors: bool = False

    def allowed(self, size: float) -> Allowed:
        """Return by how much numbers of float32 code may differ from exact ones, times a size."""
        largest = max(abs(size), 1.0)
        if self.of_vectors:  # whose error is a share of both numbers of a pair
            number = _VECTOR_ROUNDINGS * rounding(self.dtype, 0, largest) + OF_ANGLES
            return Allowed(number, angle=ANGLE_ERROR)
        once = one_rounding(self.dtype, 0, largest)
        roundings = 1 if size == 1.0 else _ROUNDINGS
        return Allowed(roundings * once.number + OF_ANGLES, roundings * once.share, ANGLE_ERROR)
