"""A ladder of frequencies and what is known of a table on it: base, scale, start and size."""

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.identification.arrangements import Arrangement, Columns
from posenc.identification.frequencies import Waves
from posenc.identification.starts import Phases, starts

_ROWS = 128  # of one step of least squares


@dataclass(frozen=True)
class Guess:
    """A table: size * f(scale * base^-exponent * (row + start)), f and exponent by its arrangement.

    sense: -1 where sines are negated, so that angles run backwards. size: below 0 where all are.
    """

    arrangement: Arrangement
    base: float
    scale: float = 1.0
    start: int = 0
    size: float = 1.0
    sense: int = 1

    @property
    def signs(self) -> tuple[int, float]:
        """The sense, and 1 or -1 with the sign of the size."""
        return self.sense, math.copysign(1.0, self.size)

    def rates(self, columns: Columns) -> Float[Tensor, " c"]:
        """Return the frequency of every column, radians per position, float64."""
        return self.scale * self.base ** (-columns.exponents)

    def float32_rates(self, columns: Columns) -> Float[Tensor, " c"] | None:
        """Return the frequencies as public code computes them in float32; None by the plain formula."""
        return None

    def values(self, rows: Float[Tensor, " t"], columns: Columns) -> Float[Tensor, "t c"]:
        """Return the rows of these numbers, float64; the angles are float64 products."""
        angles = (rows + self.start).unsqueeze(1) * self.rates(columns)
        return self.size * torch.where(columns.sines, self.sense * angles.sin(), angles.cos())


def guesses(
    found: Waves,
    arrangement: Arrangement,
    columns: Columns,
    *,
    scaled: bool,
    allowed: float,
    signs: tuple[int, float] = (1, 1.0),
) -> list[Guess]:
    """Return where a table of this arrangement may start, and on which ladder; [] where none fits.

    scaled: whether the fastest pair may turn by another angle than one radian. allowed: what rounding
    does to a number. signs: of sines, and of all numbers.
    """
    line = _line(found, columns, scaled)
    if line is None:
        return []
    sense, sign = signs
    one = Guess(arrangement, *line, size=sign, sense=sense)
    rates = one.rates(columns)
    phases = Phases.of(found, columns, rates, allowed, signs)
    return [replace(one, start=start) for start in starts(phases, rates)]


def _line(found: Waves, columns: Columns, scaled: bool) -> tuple[float, float] | None:
    """Return base and scale of the straight line through the logarithms of the frequencies."""
    known = (found.weight > 0) & (found.theta > 0)
    if not bool(known.any()):
        return None
    x, y = columns.exponents[known], found.theta[known].log()
    weight = given = found.weight[known]
    slope, height = 0.0, 0.0
    for _ in range(6):  # columns that lie off the line count less each time
        total = weight.sum()
        middle = (weight * x).sum() / total if scaled else torch.zeros((), dtype=torch.float64)
        spread = float((weight * (x - middle).square()).sum())
        if spread <= 1e-12 * float(total):
            return None if scaled else (10_000.0, 1.0)
        slope = float((weight * (x - middle) * y).sum()) / spread
        height = float((weight * y).sum() / total) - slope * float(middle) if scaled else 0.0
        off = (y - height - slope * x).abs()
        weight = given / (1 + (off / (3 * off.median().clamp_min(1e-9))).square())
    base = math.exp(max(-60.0, min(-slope, 60.0)))
    return (base, math.exp(max(-30.0, min(height, 30.0)))) if 1.0 < base <= 1e13 else None


def refined(guess: Guess, table: Float[Tensor, "t c"], columns: Columns, *, scaled: bool) -> Guess:
    """Return the guess with base, scale and size of least squares, by Gauss and Newton, from the first
    rows to all.
    """
    reach = min(len(table), 16)
    while True:
        rows = torch.linspace(0, reach - 1, min(reach, _ROWS)).round().long()
        for _ in range(4):
            guess = _step(guess, table[rows], rows.double(), columns, scaled)
        if reach == len(table):
            return guess
        reach = min(len(table), reach * 4)


def _step(
    guess: Guess,
    table: Float[Tensor, "t c"],
    rows: Float[Tensor, " t"],
    columns: Columns,
    scaled: bool,
) -> Guess:
    angles = (rows + guess.start).unsqueeze(1) * guess.rates(columns)
    sin, cos = guess.sense * angles.sin(), angles.cos()
    value = torch.where(columns.sines, sin, cos)
    slope = guess.sense * torch.where(columns.sines, cos, -sin)
    turning = guess.size * slope * angles  # by the rate's logarithm
    slopes = [-turning * columns.exponents, value]
    if scaled:
        slopes.append(turning)
    matrix = torch.stack([one.flatten() for one in slopes], 1)
    norms = matrix.norm(dim=0).clamp_min(1e-12)
    scaled_matrix = matrix / norms
    normal = scaled_matrix.T @ scaled_matrix + 1e-12 * torch.eye(len(slopes), dtype=torch.float64)
    left = (table - guess.size * value).flatten()
    step = torch.linalg.solve(normal, scaled_matrix.T @ left) / norms
    # A step of the base is bounded, so that a rough start cannot throw it far away.
    base = math.exp(max(1e-6, min(30.0, math.log(guess.base) + _bounded(step[0]))))
    scale = guess.scale * math.exp(_bounded(step[2])) if scaled else guess.scale
    sign = guess.signs[1]
    size = sign * max(1e-6, sign * (guess.size + float(step[1])))
    return replace(guess, base=base, scale=scale, size=size)


def _bounded(step: Tensor) -> float:
    return max(-0.5, min(0.5, float(step)))
