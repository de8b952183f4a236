"""A ladder of frequencies and what is known of a table on it: base, scale, start and size."""

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.identification.arrangements import Arrangement, Columns
from posenc.identification.frequencies import Waves

# Tensors stay under the size from which torch shares work between threads, which costs more here.
LATEST_START = 4_096
EARLIEST_START = -8
_STARTS_AT_ONCE = 1_026
_COHERENT = 0.6  # of the phases of the fast columns, for a start to be likely
_SHOWN = 60.0
_STARTS_KEPT = 2
_FAST_COLUMNS = 24
_ROWS = 128  # of one step of least squares


@dataclass(frozen=True)
class Guess:
    """A table: size * f(scale * base^-exponent * (row + start)), f and exponent by its arrangement."""

    arrangement: Arrangement
    base: float
    scale: float = 1.0
    start: int = 0
    size: float = 1.0

    def rates(self, columns: Columns) -> Float[Tensor, " c"]:
        """Return the frequency of every column, radians per position, float64."""
        return self.scale * self.base ** (-columns.exponents)

    def values(self, rows: Float[Tensor, " t"], columns: Columns) -> Float[Tensor, "t c"]:
        """Return the rows of these numbers, float64; the angles are float64 products."""
        angles = (rows + self.start).unsqueeze(1) * self.rates(columns)
        return self.size * torch.where(columns.sines, angles.sin(), angles.cos())


def guesses(
    found: Waves, arrangement: Arrangement, columns: Columns, *, scaled: bool, allowed: float
) -> list[Guess]:
    """Return where a table of this arrangement may start, and on which ladder; [] where none fits.

    scaled: whether the fastest pair may turn by another angle than one radian. allowed: what rounding
    does to a number.
    """
    line = _line(found, columns, scaled)
    if line is None:
        return []
    one = Guess(arrangement, *line)
    starts = _starts(found, columns, one.rates(columns), allowed)
    return [replace(one, start=start) for start in starts]


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


def _starts(
    found: Waves, columns: Columns, rates: Float[Tensor, " c"], allowed: float
) -> list[int]:
    """Return the first positions that the phases of the fast columns speak for, likeliest first."""
    sine, cosine = found.sine, found.cosine
    phase = torch.where(columns.sines, torch.atan2(cosine, sine), torch.atan2(-sine, cosine))
    # A part of a turn shows its phase where its bend is far above rounding.
    shown = min(1.5, _SHOWN * math.sqrt(allowed))
    chosen = torch.nonzero((found.weight > 0) & (found.turned > shown)).flatten()
    if not len(chosen):
        return [0, 1]
    # Evenly over the fast columns: the fastest tell neighbours apart, the slow ones far starts.
    chosen = chosen[torch.linspace(0, len(chosen) - 1, min(len(chosen), _FAST_COLUMNS)).long()]
    start = torch.arange(EARLIEST_START, LATEST_START, dtype=torch.float64)
    parts = start.unsqueeze(1).split(_STARTS_AT_ONCE)
    score = torch.cat([(part * rates[chosen] - phase[chosen]).cos().mean(1) for part in parts])
    best = score.topk(_STARTS_KEPT)
    likely = [int(start[i]) for s, i in zip(*best, strict=True) if float(s) > _COHERENT]
    return likely if not likely or 0 in likely else [*likely, 0]


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
    sin, cos = angles.sin(), angles.cos()
    value = torch.where(columns.sines, sin, cos)
    turning = guess.size * torch.where(columns.sines, cos, -sin) * angles  # by the rate's logarithm
    slopes = [-turning * columns.exponents, value]
    if scaled:
        slopes.append(turning)
    matrix = torch.stack([one.flatten() for one in slopes], 1)
    size = matrix.norm(dim=0).clamp_min(1e-12)
    scaled_matrix = matrix / size
    normal = scaled_matrix.T @ scaled_matrix + 1e-12 * torch.eye(len(slopes), dtype=torch.float64)
    left = (table - guess.size * value).flatten()
    step = torch.linalg.solve(normal, scaled_matrix.T @ left) / size
    # A step of the base is bounded, so that a rough start cannot throw it far away.
    base = math.exp(max(1e-6, min(30.0, math.log(guess.base) + _bounded(step[0]))))
    scale = guess.scale * math.exp(_bounded(step[2])) if scaled else guess.scale
    return replace(guess, base=base, scale=scale, size=max(1e-6, guess.size + float(step[1])))


def _bounded(step: Tensor) -> float:
    return max(-0.5, min(0.5, float(step)))
