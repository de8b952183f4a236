"""Which scheme made a table of numbers, and where it departs from it."""

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.errors import ConfigError
from posenc.identification.arrangements import Arrangement
from posenc.identification.compared import Compared, compared, consistent
from posenc.identification.deviations import (
    Deviation,
    Kind,
    Reading,
    also,
    deviations_of,
    other_reading,
)
from posenc.identification.given import FEWEST_ROWS, SMALLEST, Given
from posenc.identification.ladders import Guess
from posenc.identification.precision import Recipe, rounding, written_in
from posenc.identification.scalings import ScaledGuess
from posenc.identification.search import SEARCH_ROWS, Fit, nearest_fit, searched_columns
from posenc.schemes import ROPE_SCALINGS
from posenc.schemes.rope import RopeConfig
from posenc.schemes.scheme import SchemeConfig
from posenc.schemes.sinusoidal import SinusoidalConfig

FITS = 0.02  # of the table's size: what may be left of one that a formula made


@dataclass(frozen=True, eq=False)
class Identification:
    """What a table is.

    config: the scheme that makes it, None where none does. guess: order of columns, base, scale, first
    position and size; None where no formula fits. recipe: how the angles were computed, as far as the
    numbers tell. written: the narrowest format that holds its numbers. residual: root mean square of
    table minus formula over that of the table, of the nearest formula where none fits. largest: the
    largest difference, at row and column `worst`. by_column (c,): the largest in each column.
    base_within: the share by which another base would make the same numbers; inf where any would.
    reading: a usual base with another exponent that makes the same numbers, where the base of 2m/d is
    unusual. deviations: what departs from the formula. also: other descriptions of the same numbers.
    padding: rows of zeros before the first position.
    """

    config: SchemeConfig | None
    guess: Guess | None
    recipe: Recipe | None
    written: torch.dtype
    residual: float
    largest: float
    worst: tuple[int, int]
    by_column: Float[Tensor, " c"]
    base_within: float
    reading: Reading | None
    deviations: tuple[Deviation, ...]
    also: tuple[str, ...]
    rows: int
    width: int
    padding: int

    @property
    def known(self) -> bool:
        """Whether a formula makes this table."""
        return self.guess is not None

    @property
    def arrangement(self) -> Arrangement | None:
        """The order of the columns."""
        return None if self.guess is None else self.guess.arrangement

    def has(self, kind: Kind) -> bool:
        """Whether the table departs from its formula in this way."""
        return any(one.kind == kind for one in self.deviations)


def identify(table: Tensor, sines: Tensor | None = None) -> Identification:
    """Find the scheme that made a table, or a cache of cosines and sines.

    table: (rows, columns), row p for position start + p; a complex table is cos + i sin. With `sines`,
    of the same shape, `table` holds the cosines. A few rows and columns that follow no formula are left
    out of the search and named. Raises SchemeArgumentError for what is no table of finite numbers with
    two rows or more.
    """
    given = Given.of(table, sines)
    written = written_in(given.columns)
    best: Compared | None = None
    # A first row of zeros is position 0 of sines alone, or padding where that leaves far less.
    for padding in dict.fromkeys((0 if given.padding == 1 else given.padding, given.padding)):
        here = replace(given, padding=padding)
        begin, end = here.longest
        body = given.columns[begin:end]
        if len(body) >= FEWEST_ROWS and float(body.abs().max()) >= SMALLEST:
            fit = nearest_fit(body, given.form, given.width, written)
            one = compared(here, _from_row(fit, begin - padding))
            if best is None or one.residual < 0.5 * best.residual:
                best = one
    if best is not None and (best.residual > FITS or best.rows or best.columns):
        again = _by_consistent_part(best.given, written)
        if again is not None and again.others_residual < best.others_residual:
            best = again
    if best is None or not best.others_residual <= FITS:
        return _none(given, written, 1.0 if best is None else best.residual)
    given, fit = best.given, best.fit
    guess, latest = fit.guess, len(given.columns) + abs(fit.guess.start)
    config, taken = _config(guess, given.width)
    allowed = rounding(written, latest, abs(guess.size))
    within = _base_within(fit, given, allowed)
    # What differs by more than rounding tells bases apart no better than by that much.
    apart = within * max(1.0, best.others_largest / allowed)
    reading = other_reading(guess, given.width, apart)
    return Identification(
        config=config,
        guess=guess,
        recipe=fit.recipe,
        written=written,
        residual=best.residual,
        largest=best.largest,
        worst=best.worst,
        by_column=best.by_column,
        base_within=within,
        reading=reading,
        deviations=deviations_of(best, written, taken, reading),
        also=also(guess, given.width, apart, reading),
        rows=len(given.columns),
        width=given.width,
        padding=given.padding,
    )


def _by_consistent_part(given: Given, written: torch.dtype) -> Compared | None:
    """Compare a table with the formula of its longest run of rows that follow one, if it has any."""
    begin, end = given.longest
    body, searched = given.columns[begin:end], searched_columns(given.columns.shape[1])
    part = consistent(body[:SEARCH_ROWS, searched])
    if part is None:
        return None
    first, last, outliers = part
    fit = nearest_fit(body[first:last], given.form, given.width, written, searched[outliers])
    return compared(given, _from_row(fit, begin + first - given.padding))


def _from_row(fit: Fit, row: int) -> Fit:
    """Return the fit of a table whose row `row` is the first one of the rows that were fitted."""
    return replace(fit, guess=replace(fit.guess, start=fit.guess.start - row))


def _none(given: Given, written: torch.dtype, residual: float) -> Identification:
    nothing = torch.full((given.columns.shape[1],), math.nan, dtype=torch.float64)
    return Identification(
        None, None, None, written, residual, math.nan, (0, 0), nothing, math.inf, None, (), (),
        len(given.columns), given.width, given.padding,
    )  # fmt: skip


def _config(guess: Guess, width: int) -> tuple[SchemeConfig | None, set[str]]:
    """Return the config of a table and which of scale and size it takes care of."""
    arrangement = guess.arrangement
    if arrangement.fault:
        return None, set()
    dim = 2 * arrangement.pairs(width)
    layout = arrangement.layout or "interleaved"
    try:
        if isinstance(guess, ScaledGuess):
            assert guess.config is not None
            made = replace(guess.config, layout=layout)
            size = (
                {"size"}
                if math.isclose(made.attention_scaling(), abs(guess.size), rel_tol=2e-3)
                else set()
            )
            return made, {"scale", *size}
        if arrangement.scheme == "sinusoidal":
            if width % 2 or guess.scale != 1.0:
                return None, set()
            return SinusoidalConfig(dim=dim, base=guess.base, layout=layout), set()
        if guess.scale != 1.0:
            scaled = (one.of_ladder(dim, guess.base, guess.scale) for one in ROPE_SCALINGS.values())
            for one in scaled:
                if one is not None:
                    return replace(one, layout=layout), {"scale"}
            return None, set()
        return RopeConfig(dim=dim, base=guess.base, layout=layout), set()
    except ConfigError:
        return None, set()


def _base_within(fit: Fit, given: Given, allowed: float) -> float:
    """Return the share of the base that moves no number by more than rounding does."""
    columns = fit.guess.arrangement.columns(given.width)
    last = len(given.columns) - given.padding - 1
    positions = torch.linspace(0, last, min(last + 1, 256), dtype=torch.float64)
    angles = (positions + fit.guess.start).unsqueeze(1) * fit.guess.rates(columns)
    moved = angles * columns.exponents * torch.where(columns.sines, angles.cos(), angles.sin())
    slope = float(moved.abs().max()) * abs(fit.guess.size)
    return allowed / slope if slope > allowed else math.inf
