"""A ladder of frequencies and what is known of a table on it: base, scale, start and size.

How the numbers of a table may have been rounded on the way: ladder, angle, result.

An angle of p theta in a format with unit roundoff u is wrong by p theta u, which no later rounding can
mend: at position 4,096 a float32 angle moves a sine by 2e-4, a bfloat16 angle by more than a turn.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.identification.columns import Arrangement, Columns
from posenc.identification.waves import Phases, Waves, starts

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


# Half a unit in the last place at 1, with as much again for a library's sine.
_ROUNDING = {
    torch.bfloat16: 2.0**-8,
    torch.float16: 2.0**-11,
    torch.float32: 2.0**-23,
    torch.float64: 2.0**-50,
}
_NARROW_FIRST = (torch.bfloat16, torch.float16, torch.float32)


@dataclass(frozen=True)
class Recipe:
    """One way of making a table. ladder: how the frequencies are computed. kept: the format that they
    are then held in. angle: the format of the product. words: what a sentence says of it.
    """

    words: str
    ladder: Literal["exact", "powers", "exponentials"]
    kept: torch.dtype
    angle: torch.dtype

    @property
    def low(self) -> bool:
        """Whether the angles are less than float64."""
        return self.words != EXACT.words

    def values(
        self, guess: Guess, rows: Float[Tensor, " t"], columns: Columns
    ) -> Float[Tensor, "t c"]:
        """Return the table of a guess made this way, float64."""
        if not self.low:
            return guess.values(rows, columns)
        rates = self._rates(guess, columns).to(self.kept)
        positions = (rows + guess.start).to(self.angle)
        angles = positions.unsqueeze(1) * rates.to(self.angle)
        made = torch.where(columns.sines, guess.sense * angles.sin(), angles.cos())
        return guess.size * made.double()

    def _rates(self, guess: Guess, columns: Columns) -> Float[Tensor, " c"]:
        if self.ladder == "powers" and (own := guess.float32_rates(columns)) is not None:
            return own
        if self.ladder == "exact" or type(guess) is not Guess:
            return guess.rates(columns)
        if self.ladder == "powers":
            plain = 1.0 / (guess.base ** columns.exponents.float())
        else:
            step = -math.log(guess.base) / columns.dim
            plain = ((columns.exponents * columns.dim).float() * step).exp()
        return plain / (1.0 / guess.scale)  # by a whole factor, as public code divides


EXACT = Recipe("angles right to the last bit", "exact", torch.float64, torch.float64)
RECIPES = (
    Recipe("float32 angles, the frequencies as float32 powers of the base",
           "powers", torch.float32, torch.float32),
    Recipe("float32 angles, the frequencies as float32 exponentials of logarithms",
           "exponentials", torch.float32, torch.float32),
    Recipe("float32 angles, the frequencies rounded to float32 once",
           "exact", torch.float32, torch.float32),
    Recipe("frequencies kept in bfloat16", "powers", torch.bfloat16, torch.float32),
    Recipe("frequencies kept in float16", "powers", torch.float16, torch.float32),
    Recipe("bfloat16 angles", "powers", torch.bfloat16, torch.bfloat16),
    Recipe("float16 angles", "powers", torch.float16, torch.float16),
)  # fmt: skip


def written_in(columns: Float[Tensor, "t c"]) -> torch.dtype:
    """Return the narrowest format that holds every number as it is."""
    for dtype in _NARROW_FIRST:
        if torch.equal(columns.to(dtype).double(), columns):
            return dtype
    return torch.float64


def rounding(dtype: torch.dtype, latest: float, size: float = 1.0) -> float:
    """Return by how much a number up to `size` may be off where it was rounded once to `dtype`.

    latest: the last position; of a float64 table the angle was rounded, too.
    """
    angle = 2.0**-52 * latest if dtype == torch.float64 else 0.0
    return (_ROUNDING[dtype] + angle) * size
