"""Which scheme made a table of numbers, and where it departs from it.

What was identified, in sentences and as a record.

The table that a description makes, row by row, beside the one that was identified.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.errors import ConfigError, SchemeArgumentError
from posenc.identification.columns import FEWEST_ROWS, SMALLEST, Arrangement, Given
from posenc.identification.deviations import (
    Compared,
    Deviation,
    Kind,
    Reading,
    also,
    compared,
    consistent,
    deviations_of,
    other_reading,
    published,
)
from posenc.identification.frequency_fit import Guess, Recipe, rounding, written_in
from posenc.identification.scalings import ScaledGuess, divided_config
from posenc.identification.search import SEARCH_ROWS, Fit, nearest_fit, searched_columns
from posenc.identification.waves import EARLIEST_START, LATEST_START
from posenc.schemes.base import SchemeConfig
from posenc.schemes.rope import RopeConfig
from posenc.schemes.sinusoidal import SinusoidalConfig
from posenc.text import counted

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
            scaled = divided_config(dim, guess.base, guess.scale)
            return (None, set()) if scaled is None else (replace(scaled, layout=layout), {"scale"})
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


_TIMESTEP_BASE = 10_000.0  # of diffusion models, which have no other
_SHORT = {
    "torch.float64": "float64",
    "torch.float32": "float32",
    "torch.float16": "float16",
    "torch.bfloat16": "bfloat16",
}


def headline(found: Identification) -> str:
    """Return what a table is, in one sentence."""
    shape = f"{found.rows:,} x {found.width:,}"
    if found.guess is None or found.arrangement is None:
        return (
            f"None of these: of the sinusoidal tables and rotary caches tried, from positions "
            f"{EARLIEST_START} to {LATEST_START:,}, none comes nearer to this {shape} table than "
            f"{found.residual:.0%} of its size."
        )
    arrangement = found.arrangement
    base = f"base {base_words(found)}"
    faults = [one for one in found.deviations if one.kind not in ("padding", "start")]
    but = f", but {counted(len(faults), 'thing')} departs" if len(faults) == 1 else ""
    but = f", but {counted(len(faults), 'thing')} depart" if len(faults) > 1 else but
    return f"{scheme_name(found)}, {base}, {arrangement.words}, from position {found.guess.start:,}{but}."


def scheme_name(found: Identification) -> str:
    """Return what an identified table is called; where two uses make the same numbers, both."""
    assert found.guess is not None
    guess = found.guess
    cosines_first = guess.arrangement.name == "cosines_first"
    if published(guess, found.reading):
        if cosines_first:
            return "Tensor2Tensor's sinusoidal, cosines first (flip_sin_to_cos in diffusers)"
        return "Tensor2Tensor's sinusoidal (as in Whisper, M2M100 and DDPM)"
    if found.config is not None:
        name = found.config.label
    else:
        name = "Sinusoidal" if guess.arrangement.scheme == "sinusoidal" else "RoPE"
    if cosines_first:
        name += " cache in one tensor (as in vLLM)"
        if guess.base == _TIMESTEP_BASE and type(guess) is Guess:
            name += " or timestep embedding with flip_sin_to_cos (as in Stable Diffusion)"
    return name


def base_words(found: Identification) -> str:
    """Return the base with as many digits as the table shows, or a usual one with its exponent."""
    assert found.guess is not None
    if found.reading is not None:
        return f"{found.reading.base:,.6g} with the exponent {found.reading.exponent}"
    if math.isinf(found.base_within):
        return "of any size"
    digits = 12 if found.base_within < 1e-12 else max(2, math.ceil(-math.log10(found.base_within)))
    return f"{float(f'{found.guess.base:.{min(digits, 12)}g}'):,.12g}"


def fit_sentence(found: Identification) -> str:
    """Return how near the formula comes."""
    if found.guess is None:
        return (
            f"A table is taken for a formula's where what is left is under {FITS:.0%} of its size."
        )
    row, column = found.worst
    of = ""
    if found.arrangement is not None and found.arrangement.form != "table":
        of = " of the sines" if column >= found.width else " of the cosines"
        column %= found.width
    if found.largest == 0:
        return f"Made like that, every number is the same; all are {_SHORT[str(found.written)]}."
    low = found.recipe is not None and found.recipe.low
    largest = "Made like that, the largest difference is" if low else "Largest difference"
    return (
        f"{largest} {found.largest:.2g} (row {row:,}, column {column:,}{of}), root mean square "
        f"{found.residual:.2g} of the table's size; its numbers are {_SHORT[str(found.written)]}."
    )


def record(found: Identification) -> dict[str, Any]:
    """Return everything that was found, as JSON holds it."""
    guess, arrangement = found.guess, found.arrangement
    within = None if math.isinf(found.base_within) else found.base_within
    return {
        "identified": headline(found),
        "config": None if found.config is None else found.config.record(),
        "arrangement": None if arrangement is None else arrangement.words,
        "layout": None if arrangement is None else arrangement.layout,
        "base": None if guess is None else guess.base,
        "base_within": within,
        "start": None if guess is None else guess.start - found.padding,
        "scale": None if guess is None else guess.scale,
        "size": None if guess is None else guess.size,
        "sense": None if guess is None else guess.sense,
        "angles": None if found.recipe is None else found.recipe.words,
        "format": _SHORT[str(found.written)],
        "rows": found.rows,
        "width": found.width,
        "residual": found.residual,
        "largest_difference": None if guess is None else found.largest,
        "row": None if guess is None else found.worst[0],
        "column": None if guess is None else found.worst[1],
        "deviations": [{"kind": one.kind, "sentence": one.sentence} for one in found.deviations],
        "also": list(found.also),
    }


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
