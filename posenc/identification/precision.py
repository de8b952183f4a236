"""How the numbers of a table may have been rounded on the way: ladder, angle, result.

An angle of p theta in a format with unit roundoff u is wrong by p theta u, which no later rounding can
mend: at position 4,096 a float32 angle moves a sine by 2e-4, a bfloat16 angle by more than a turn.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.identification.arrangements import Columns
from posenc.identification.ladders import Guess

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
