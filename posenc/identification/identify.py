"""Which scheme made a table of numbers, and where it departs from it."""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.errors import ConfigError
from posenc.identification.arrangements import Arrangement
from posenc.identification.deviations import Deviation, Kind, also, deviations_of
from posenc.identification.given import FEWEST_ROWS, SMALLEST, Given
from posenc.identification.ladders import Guess
from posenc.identification.precision import Recipe, rounding, written_in
from posenc.identification.scalings import ScaledGuess
from posenc.identification.search import Fit, nearest_fit
from posenc.schemes import ROPE_SCALINGS
from posenc.schemes.rope import RopeConfig
from posenc.schemes.scheme import SchemeConfig
from posenc.schemes.sinusoidal import SinusoidalConfig

FITS = 0.02  # of the table's size: what may be left of one that a formula made
_BLOCK = 2**20  # numbers of the table that are compared at once


@dataclass(frozen=True, eq=False)
class Identification:
    """What a table is.

    config: the scheme that makes it, None where none does. guess: order of columns, base, scale, first
    position and size; None where no formula fits. recipe: how the angles were computed, as far as the
    numbers tell. written: the narrowest format that holds its numbers. residual: root mean square of
    table minus formula over that of the table, of the nearest formula where none fits. largest: the
    largest difference, at row and column `worst`. by_column (c,): the largest in each column.
    base_within: the share by which another base would make the same numbers; inf where any would.
    deviations: what departs from the formula. also: other descriptions of the same numbers.
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
    of the same shape, `table` holds the cosines. Raises SchemeArgumentError for what is no table of
    finite numbers with two rows or more.
    """
    given = Given.of(table, sines)
    written = written_in(given.columns)
    best: _Compared | None = None
    # A first row of zeros is position 0 of sines alone, or padding where that leaves far less.
    for padding in dict.fromkeys((0 if given.padding == 1 else given.padding, given.padding)):
        here = replace(given, padding=padding)
        begin, end = here.longest
        body = given.columns[begin:end]
        if len(body) >= FEWEST_ROWS and float(body.abs().max()) >= SMALLEST:
            fit = nearest_fit(body, given.form, given.width, written)
            start = fit.guess.start - (begin - padding)
            one = _compared(here, replace(fit, guess=replace(fit.guess, start=start)))
            if best is None or one.residual < 0.5 * best.residual:
                best = one
    if best is None or not best.residual <= FITS:
        return _none(given, written, 1.0 if best is None else best.residual)
    given, fit, residual, by_column, worst = best
    guess, latest = fit.guess, len(given.columns) + abs(fit.guess.start)
    largest = float(by_column.max())
    config, taken = _config(guess, given.width)
    allowed = rounding(written, latest, abs(guess.size))
    within = _base_within(fit, given, allowed)
    # What differs by more than rounding tells bases apart no better than by that much.
    apart = within * max(1.0, largest / allowed)
    return Identification(
        config=config,
        guess=guess,
        recipe=fit.recipe,
        written=written,
        residual=residual,
        largest=largest,
        worst=worst,
        by_column=by_column,
        base_within=within,
        deviations=deviations_of(fit, given, written, largest, worst, taken, apart),
        also=also(guess, given.width, apart),
        rows=len(given.columns),
        width=given.width,
        padding=given.padding,
    )


def _none(given: Given, written: torch.dtype, residual: float) -> Identification:
    nothing = torch.full((given.columns.shape[1],), math.nan, dtype=torch.float64)
    return Identification(
        None, None, None, written, residual, math.nan, (0, 0), nothing, math.inf, (), (),
        len(given.columns), given.width, given.padding,
    )  # fmt: skip


class _Compared(NamedTuple):
    """What is left of a whole table, the largest difference per column, and where that is."""

    given: Given
    fit: Fit
    residual: float
    by_column: Float[Tensor, " c"]
    worst: tuple[int, int]


def _compared(given: Given, fit: Fit) -> _Compared:
    body = given.columns[given.padding :]
    columns = fit.guess.arrangement.columns(given.width)
    by_column = torch.zeros(body.shape[1], dtype=torch.float64)
    left, power, worst, largest = 0.0, 0.0, (0, 0), -1.0
    rows = max(1, _BLOCK // body.shape[1])
    for begin in range(0, len(body), rows):
        part = body[begin : begin + rows]
        positions = torch.arange(begin, begin + len(part), dtype=torch.float64)
        off = (fit.recipe.values(fit.guess, positions, columns) - part).abs()
        off[given.blank[given.padding + begin :][: len(part)]] = 0.0
        # By NumPy, whose sum is the same on any number of threads.
        left += float(off.square().numpy().sum())
        power += float(part.square().numpy().sum())
        by_column = torch.maximum(by_column, off.amax(0))
        if float(off.max()) > largest:
            largest, at = float(off.max()), int(off.argmax())
            worst = (given.padding + begin + at // off.shape[1], at % off.shape[1])
    return _Compared(given, fit, math.sqrt(left / max(power, 1e-300)), by_column, worst)


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
