"""The numbers that a formula makes, and the first place where a table differs from them."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

_BLOCK = 2**20  # numbers that are compared at once


@dataclass(frozen=True, eq=False)
class TableRecipe:
    """The formula of a table: size * f(position * frequency) in every column, f a cosine or a sine.

    frequencies (c,): radians per position of each column, negative where sines are negated; if `divides`,
    their inverses, which positions are divided by. sines (c,): which columns are sines. angle: the format
    of frequencies, positions and their product.
    """

    frequencies: Float[Tensor, " c"]
    sines: Bool[Tensor, " c"]
    size: float = 1.0
    angle: torch.dtype = torch.float64
    divides: bool = False

    def angles(self, positions: Tensor) -> Float[Tensor, "t c"]:
        """Return the angle of every row and column, in the format of the angles."""
        places = positions.to(self.angle).unsqueeze(1)
        theta = self.frequencies.to(self.angle)
        return places / theta if self.divides else places * theta


def predict(recipe: TableRecipe, positions: Tensor) -> Float[Tensor, "t c"]:
    """Return rows of a table in float64. positions (t,): of the rows."""
    angles = recipe.angles(positions)
    return recipe.size * torch.where(recipe.sines, angles.sin(), angles.cos()).double()


class Allowed(NamedTuple):
    """By how much numbers may differ: the sum of three parts.

    number: of every number. share: of the predicted number itself, as rounding to 16 bits changes it.
    angle: of the angle, times the size.
    """

    number: float
    share: float = 0.0
    angle: float = 0.0

    def limits(
        self, values: Float[Tensor, "t c"], angles: Float[Tensor, "t c"], size: float
    ) -> Float[Tensor, "t c"]:
        """Return by how much each of some predicted numbers may differ. size: of their waves."""
        return self.number + self.share * values.abs() + self.angle * abs(size) * angles.abs()


class Place(NamedTuple):
    """A number of a table, by how much it differs, and by how much it may."""

    row: int
    column: int
    amount: float
    allowed: float = 0.0


class Difference(NamedTuple):
    """Differences of a table from a recipe that are more than is allowed.

    first: the largest difference of the first row that differs. fastest: there the column of the highest
    frequency that does. most: the largest of all. share: of the numbers of the block of rows in which the
    first is, those that differ. last: the last row that differs.
    """

    first: Place
    fastest: Place
    most: Place
    share: float
    last: int


def first_difference(
    table: Float[Tensor, "t c"],
    recipe: TableRecipe,
    positions: Int[Tensor, " t"],
    allowed: Allowed,
) -> Difference | None:
    """Return where a table first differs from a recipe by more than is allowed, None if nowhere."""
    found: Difference | None = None
    theta, step = recipe.frequencies.abs().double(), max(1, _BLOCK // table.shape[1])
    speed = 1 / theta if recipe.divides else theta
    for start in range(0, len(table), step):
        places = positions[start : start + step]
        values = predict(recipe, places)
        # Of positions past 65,504 in float16 nothing is a number, which is not within any limit.
        off = (table[start : start + step] - values).abs().nan_to_num(torch.inf)
        limit = allowed.limits(values, places.double().unsqueeze(1) * speed, recipe.size)
        wrong = ~(off <= limit)
        if not bool(wrong.any()):
            continue
        excess = off.masked_fill(~wrong, -1.0)
        last = start + int(wrong.any(1).nonzero()[-1])
        most = _place(excess, limit, start, int(excess.amax(1).argmax()))
        if found is not None:
            most = max(found.most, most, key=lambda place: place.amount)
            found = found._replace(most=most, last=last)
            continue
        row = int(wrong.any(1).byte().argmax())
        fastest = int(speed.masked_fill(~wrong[row], -1.0).argmax())
        found = Difference(
            first=_place(excess, limit, start, row),
            fastest=_place(excess, limit, start, row, fastest),
            most=most,
            share=float(wrong.double().mean()),
            last=last,
        )
    return found


def _place(
    off: Float[Tensor, "t c"],
    limit: Float[Tensor, "t c"],
    start: int,
    row: int,
    column: int | None = None,
) -> Place:
    """Return a place of a block of rows. column: the one that differs most by default."""
    at = int(off[row].argmax()) if column is None else column
    return Place(start + row, at, float(off[row, at]), float(limit[row, at]))
