"""The formula that comes nearest to a table of numbers.

Every order of columns (arrangements.py) is given the ladder, the first position and the size that its
own columns speak for (frequencies.py, ladders.py); the table that comes nearest is the answer, if it
comes near. Then the ways of rounding are told apart (precision.py).
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from posenc.identification.columns import ARRANGEMENTS, Arrangement, Columns, Form
from posenc.identification.frequency_fit import (
    EXACT,
    RECIPES,
    Guess,
    Recipe,
    guesses,
    refined,
    rounding,
)
from posenc.identification.scalings import USUAL_BASES, ntk_bases, scaled_guesses, scaled_ladders
from posenc.identification.waves import Waves, waves

SEARCH_ROWS = 2_048
_SEARCH_COLUMNS = 96
_SCORED_ROWS = 256
_EARLY_ROWS = 32
_FINALISTS = 3
_USUAL_STARTS = (0, 1, 2)
_NEAR = 0.02  # of a table's size, for signs to be right
_SIGNS = ((1, 1.0), (-1, 1.0), (1, -1.0), (-1, -1.0))  # of sines, of all numbers


@dataclass(frozen=True, eq=False)
class Fit:
    """A table made by a guess and a recipe, beside the one that was given.

    residual: root mean square of the difference over that of the table. largest: the largest difference.
    digits: how late the base comes among those that may be meant.
    """

    guess: Guess
    recipe: Recipe
    residual: float
    largest: float
    digits: int = 0


@dataclass(frozen=True, eq=False)
class _Search:
    """The part of a table that the search looks at: its first rows, some of its columns.

    moving: which of all columns change in these rows.
    """

    table: Float[Tensor, "t c"]
    picked: Int[Tensor, " c"]
    width: int
    form: Form
    written: torch.dtype
    moving: Bool[Tensor, " all"]

    def turning(self, arrangement: Arrangement) -> int:
        """Return how many pairs turn at least."""
        columns = arrangement.columns(self.width)
        pair = (columns.exponents * (columns.dim // 2)).round()
        return int(pair[self.moving].max()) + 1 if bool(self.moving.any()) else 0

    def columns(self, arrangement: Arrangement) -> Columns:
        return arrangement.columns(self.width).at(self.picked)

    def exact(self, fit: Fit) -> bool:
        """Whether a fit leaves no more than rounding does."""
        latest = len(self.table) + abs(fit.guess.start)
        return fit.largest <= rounding(self.written, latest, max(1.0, abs(fit.guess.size)))

    def fits(self, guess: Guess, recipe: Recipe, *, rows: int = SEARCH_ROWS) -> list[Fit]:
        """Return how near a guess comes on the first `rows` rows: as it is, and with the size that
        comes nearest, which is left out where it gains little.
        """
        reach = min(rows, len(self.table))
        seen = torch.linspace(0, reach - 1, min(reach, _SCORED_ROWS)).round().long()
        given = self.table[seen]
        made = recipe.values(guess, seen.double(), self.columns(guess.arrangement))
        # Summed by NumPy: the same bits on any number of threads.
        power = float(made.square().numpy().sum())
        ratio = max(1e-6, float((made * given).numpy().sum()) / power) if power > 0 else 1.0
        norm = max(math.sqrt(given.square().numpy().mean()), 1e-300)
        found: list[Fit] = []
        for size in (1.0, ratio):
            off = made * size - given
            residual = math.sqrt(off.square().numpy().mean()) / norm
            largest = float(off.abs().max())
            if not found or residual < 0.5 * found[0].residual:
                sized = replace(guess, size=guess.size * size)
                found.append(Fit(sized, recipe, residual, largest))
        return found


def nearest_fit(
    table: Float[Tensor, "t c"],
    form: Form,
    width: int,
    written: torch.dtype,
    left_out: Int[Tensor, " few"] | None = None,
) -> Fit:
    """Return the formula that comes nearest to a table; its residual says how near.

    left_out: columns that are not looked at.
    """
    picked = searched_columns(table.shape[1])
    first = table[:SEARCH_ROWS]
    moving = first.amax(0) > first.amin(0)
    if left_out is not None:
        picked = picked[~torch.isin(picked, left_out)]
        moving[left_out] = False
    search = _Search(first[:, picked], picked, width, form, written, moving)
    found = waves(search.table) if len(table) >= 5 else None
    rough = sorted(_rough(search, found), key=lambda fit: fit.residual)
    finalists = _distinct(rough)
    fits = [fit for one in finalists for fit in _finished(search, one)]
    if found is not None and not any(search.exact(fit) for fit in fits):
        fits += _by_scaling(search, found)
    return _simplest(search, fits)


def searched_columns(count: int) -> Int[Tensor, " c"]:
    """Return the columns that are looked at: all, or some at random, with what may be their partners.

    A sine's cosine is its neighbour, or half of all columns away.
    """
    mixed = torch.randperm(count, generator=torch.Generator().manual_seed(0))
    if count <= _SEARCH_COLUMNS or count % 4:
        return mixed[:_SEARCH_COLUMNS]
    few = mixed[mixed < count // 2]
    few = few[few % 2 == 0][: _SEARCH_COLUMNS // 4]
    few = torch.cat((few, few + 1))
    return torch.cat((few, few + count // 2))


def _rough(search: _Search, found: Waves | None) -> Iterator[Fit]:
    """Yield what the columns speak for in every order, and the usual tables."""
    fitting = [one for one in ARRANGEMENTS if one.form == search.form and one.fits(search.width)]
    allowed, exact, least = rounding(search.written, len(search.table)), False, math.inf
    for signs, scaled in itertools.product(_SIGNS, (False, True)):
        if least < _NEAR and not scaled:
            return  # a wrong sign leaves more
        for arrangement in fitting:
            columns, here = search.columns(arrangement), False
            if not _told_by_signs(columns, signs):
                continue
            asked = (
                guesses(found, arrangement, columns, scaled=scaled, allowed=allowed, signs=signs)
                if found is not None
                else []
            )
            for guess in asked:
                sharper = refined(guess, search.table, columns, scaled=scaled)
                fit = search.fits(sharper, EXACT)[0]
                yield fit
                here = here or search.exact(fit)
                if not scaled and guess.start in _USUAL_STARTS:
                    least = min(least, fit.residual)
            if here and not arrangement.fault:
                return  # nothing simpler is left
            exact = exact or here
        if exact:
            return
    # Too few rows, or numbers too rough to be measured by: what is usual is tried as it is.
    for signs in _SIGNS:
        close = False
        for arrangement in fitting:
            for base in USUAL_BASES if _told_by_signs(search.columns(arrangement), signs) else ():
                for start in _USUAL_STARTS:
                    guess = Guess(arrangement, base, 1.0, start, signs[1], signs[0])
                    fit = search.fits(guess, EXACT, rows=_EARLY_ROWS)[-1]
                    yield fit
                    close = close or fit.residual < _NEAR
        if close:
            return


def _told_by_signs(columns: Columns, signs: tuple[int, float]) -> bool:
    """Whether these signs are told from simpler ones: sines alone are all numbers there are."""
    sense, _ = signs
    return sense == 1 or bool(columns.sines.any() and not columns.sines.all())


def _distinct(fits: Sequence[Fit]) -> list[Fit]:
    """Return the best few that differ in more than the last digits."""
    kept: dict[tuple[object, ...], Fit] = {}
    for fit in fits:
        guess = fit.guess
        key = (
            guess.arrangement.name, guess.signs, guess.start, f"{guess.base:.2g}", f"{guess.scale:.2g}",
        )  # fmt: skip
        if len(kept) < _FINALISTS or key in kept:
            kept.setdefault(key, fit)
    return list(kept.values())


def _finished(search: _Search, rough: Fit) -> Iterator[Fit]:
    """Yield a guess with the rounder numbers that may be meant, made in every way."""
    guess = rough.guess
    scales = dict.fromkeys((1.0, _rounder_scale(guess.scale), guess.scale))
    bases = rounder(guess.base, search.columns(guess.arrangement).dim)
    plain = [
        (digits, replace(guess, base=base, scale=scale, size=guess.signs[1]))
        for digits, base in enumerate(bases)
        for scale in scales
    ]
    exact = [search.fits(one, EXACT) for _, one in plain]
    least = min(fits[-1].residual for fits in exact)
    for (digits, one), fits in zip(plain, exact, strict=True):
        # A base is the better known, the less is left with the best of them.
        if fits[-1].residual > 10 * least + 1e-3:
            continue
        yield from (replace(fit, digits=digits) for fit in fits)
        if not any(search.exact(fit) for fit in fits):
            for recipe in RECIPES:
                yield from (replace(fit, digits=digits) for fit in search.fits(one, recipe))


def _by_scaling(search: _Search, found: Waves) -> Iterator[Fit]:
    allowed = rounding(search.written, len(search.table))
    likely = []
    for arrangement in ARRANGEMENTS:
        rope = arrangement.scheme == "rope" and not arrangement.fault
        if rope and arrangement.form == search.form and arrangement.fits(search.width):
            columns = search.columns(arrangement)
            ladders = scaled_ladders(found, columns, search.turning(arrangement))
            likely += [(score, arrangement, columns, config) for score, config in ladders]
    likely = sorted(likely, key=lambda one: one[0])[:_FINALISTS]
    for signs in _SIGNS:
        near = False
        for _, arrangement, columns, config in likely:
            if not _told_by_signs(columns, signs):
                continue
            for guess in scaled_guesses(found, arrangement, config, columns, allowed, signs):
                for recipe in (EXACT, *(one for one in RECIPES if one.ladder != "exponentials")):
                    fit = search.fits(guess, recipe)[-1]
                    yield fit
                    near = near or fit.residual < _NEAR
                    if search.exact(fit):
                        return
        if near:
            return


def _simplest(search: _Search, fits: Sequence[Fit]) -> Fit:
    """Return the first fit that leaves rounding alone, else the one that leaves least."""
    least = min(fits, key=lambda fit: fit.residual)
    alike = [fit for fit in fits if search.exact(fit)]
    if alike:
        return min(alike, key=lambda fit: _effort(fit))
    near = [fit for fit in fits if fit.residual <= 1.1 * least.residual + 1e-12]
    return min(near, key=_effort)


def _effort(fit: Fit) -> tuple[object, ...]:
    """Return how much must be said of a fit, in the order in which it matters."""
    guess = fit.guess
    ways = (EXACT, *RECIPES)
    return (
        guess.arrangement.fault != "",
        _SIGNS.index(guess.signs),
        guess.scale != 1.0,
        type(guess) is not Guess,
        ways.index(fit.recipe),
        abs(guess.size) != 1.0,
        abs(guess.start),
        fit.digits,
        ARRANGEMENTS.index(guess.arrangement),
    )


def rounder(base: float, dim: int) -> list[float]:
    """Return the bases that may be meant by a measured one, those with few digits first.

    What is meant may be another formula's base: see `exponent_powers`.
    """
    found: dict[float, float] = {}
    for _, power in exponent_powers(dim):
        meant = base ** (1 / power)
        for digits in (1, 2, 3, 4, 5, 6, 8):
            if 1.0 < meant < 1e13:
                text = f"{meant:.{digits}g}"
                value = float(text) ** power
                if abs(value / base - 1) < 0.03:
                    found.setdefault(value, digits + (power != 1) * 0.5)
    for value, _ in ntk_bases(dim, base, USUAL_BASES[:3]):
        found.setdefault(value, 2.5)
    ordered = sorted(found, key=lambda value: found[value])
    return [*[value for value in ordered if 1.0 < value <= 1e13][:12], base]


def exponent_powers(dim: int) -> list[tuple[str, float]]:
    """Return other exponents of 1/base than 2m/d, in words, and the power of the base that each is."""
    powers = [("2m/d", 1.0), ("m/d", 0.5), ("4m/d", 2.0)]
    if dim > 2:
        powers += [("2m/(d - 2)", dim / (dim - 2)), ("2m/(d - 1)", dim / (dim - 1))]
    return powers


def _rounder_scale(scale: float) -> float:
    ratio = 1 / scale
    whole = round(ratio)
    if whole >= 1 and math.isclose(ratio, whole, rel_tol=1e-2):
        return 1.0 / whole
    return float(f"{scale:.3g}")
