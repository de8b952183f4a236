"""The table that a description makes, row by row, beside the one that was identified."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.errors import SchemeArgumentError
from posenc.identification.given import Given
from posenc.identification.identify import Identification

_BLOCK = 2**20  # numbers of the table that are compared at once


class Made(NamedTuple):
    """Rows of a table, cosines before sines where it is both: as given, and by its formula.

    as_found: with the rounding that was found; exact: the same formula with angles right to the last
    bit. Padding is zeros in all three.
    """

    given: Float[Tensor, "t c"]
    as_found: Float[Tensor, "t c"]
    exact: Float[Tensor, "t c"]


def made(
    found: Identification, table: Tensor, sines: Tensor | None = None, *, rows: int | None = None
) -> Made:
    """Return the first rows, all by default, of an identified table and of its formula, float64.

    Raises SchemeArgumentError for a table that no formula makes.
    """
    given = Given.of(table, sines)
    return _made(found, given, 0, len(given.columns) if rows is None else rows)


class FromExact(NamedTuple):
    """Largest differences from the formula with exact angles: of each column, of all, and where."""

    by_column: Float[Tensor, " c"]
    largest: float
    row: int
    column: int


def from_exact(found: Identification, table: Tensor, sines: Tensor | None = None) -> FromExact:
    """Compare an identified table with its formula, angles right to the last bit.

    Raises SchemeArgumentError for a table that no formula makes.
    """
    given = Given.of(table, sines)
    by_column = torch.zeros(given.columns.shape[1], dtype=torch.float64)
    largest, worst = -1.0, (0, 0)
    rows = max(1, _BLOCK // given.columns.shape[1])
    for begin in range(0, len(given.columns), rows):
        part = _made(found, given, begin, begin + rows)
        off = (part.given - part.exact).abs()
        by_column = torch.maximum(by_column, off.amax(0))
        if float(off.max()) > largest:
            largest, at = float(off.max()), int(off.argmax())
            worst = (begin + at // off.shape[1], at % off.shape[1])
    return FromExact(by_column, largest, *worst)


def error_sentence(found: Identification, apart: FromExact) -> str:
    """Return the largest error of a table against its formula with exact angles, and where it is."""
    if apart.largest == 0:
        return "Every number is that of the formula, to the last bit."
    part, column = "", apart.column
    if found.arrangement is not None and found.arrangement.form != "table":
        part = " of the sines" if column >= found.width else " of the cosines"
        column %= found.width
    return f"Largest error {apart.largest:.3g}, in row {apart.row:,}, column {column:,}{part}."


def leading_error(found: Identification, apart: FromExact | None) -> str:
    """Return the sentence on the largest error, "" where it is float32's last rounding or less."""
    exact = found.written in (torch.float32, torch.float64)
    rounded = exact and not (found.has("angles") or found.has("unexplained"))
    return "" if rounded or apart is None else error_sentence(found, apart)


def _made(found: Identification, given: Given, begin: int, end: int) -> Made:
    guess, recipe = found.guess, found.recipe
    if guess is None or recipe is None:
        raise SchemeArgumentError("No formula makes this table, so there is none beside it.")
    body = given.columns[begin:end]
    columns = guess.arrangement.columns(given.width)
    index = torch.arange(begin, begin + len(body), dtype=torch.float64)
    position = index - found.padding
    padded = ((position < 0) | given.blank[begin:end]).unsqueeze(1)
    as_found = recipe.values(guess, position, columns).masked_fill(padded, 0.0)
    exact = guess.values(position, columns).masked_fill(padded, 0.0)
    return Made(body, as_found, exact)
