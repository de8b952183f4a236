"""The formula that comes nearest to a table of numbers.

Every order of columns gets the frequencies, first position and size that its own columns support; the
nearest table is the answer, if it is near. Then the ways of rounding are compared.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.identification.columns import ARRANGEMENTS, Arrangement, Columns, Form
from posenc.identification.frequency_fit import (
    EXACT,
    RECIPES,
    Hypothesis,
    Recipe,
    fit_line,
    refine,
    rounding,
)
from posenc.identification.scalings import USUAL_BASES, nearest_scalings, ntk_bases
from posenc.identification.waves import Waves, fit_waves, likely_starts

SEARCH_ROWS = 2_048
_SEARCH_COLUMNS = 96
_SCORED_ROWS = 256
_FIRST_ROWS = 32
_FINALISTS = 3
_USUAL_STARTS = (0, 1, 2)
_NEAR = 0.02  # relative residual below which the signs are right
_NEAR_ONE = 0.05  # relative difference of a scale that may be 1


@dataclass(frozen=True, eq=False)
class Fit:
    """A hypothesis, a recipe and how near the table they make comes.

    residual: root mean square of the difference over that of the table. largest: the largest
    difference. digits: how many digits the base needs.
    """

    hypothesis: Hypothesis
    recipe: Recipe
    residual: float
    largest: float
    digits: int = 0


@dataclass(frozen=True, eq=False)
class _Search:
    """The part of a table that is searched: its first rows and some of its columns.

    orders: the arrangements that the table may have, and what these columns are in each.
    """

    table: Float[Tensor, "t c"]
    dtype: torch.dtype
    orders: dict[Arrangement, Columns]

    def exact(self, fit: Fit) -> bool:
        """Whether a fit differs by rounding alone."""
        latest = len(self.table) + abs(fit.hypothesis.start)
        return fit.largest <= rounding(self.dtype, latest, max(1.0, fit.hypothesis.size))

    def fit(self, hypothesis: Hypothesis, recipe: Recipe, digits: int = 0) -> Fit:
        """Return the fit on a sample of rows, of the best size if size 1 is not exact and twice as far."""
        rows = len(self.table)
        sample = torch.linspace(0, rows - 1, min(rows, _SCORED_ROWS)).round().long()
        table = self.table[sample]
        values = recipe.values(hypothesis, sample.double(), self.orders[hypothesis.arrangement])
        # Summed by NumPy: the same bits on any number of threads.
        power = float(values.square().numpy().sum())
        ratio = max(1e-6, float((values * table).numpy().sum()) / power) if power > 0 else 1.0
        norm = max(math.sqrt(table.square().numpy().mean()), 1e-300)

        def fit_of_size(size: float) -> Fit:
            off = (values * size - table).abs()
            residual = math.sqrt(off.square().numpy().mean()) / norm
            sized = replace(hypothesis, size=hypothesis.size * size)
            return Fit(sized, recipe, residual, float(off.max()), digits)

        same, sized = fit_of_size(1.0), fit_of_size(ratio)
        better = sized.residual < 0.5 * same.residual and not self.exact(same)
        return sized if better else same


def nearest_fit(
    table: Float[Tensor, "t c"], form: Form, dtype: torch.dtype, excluded: Sequence[int] = ()
) -> Fit:
    """Return the formula that comes nearest to a table. excluded: columns that are not used."""
    count = table.shape[1]
    picked = torch.randperm(count, generator=torch.Generator().manual_seed(0))[:_SEARCH_COLUMNS]
    picked = picked[~torch.isin(picked, torch.tensor(excluded, dtype=torch.long))]
    orders = {
        arrangement: arrangement.columns(count).at(picked)
        for arrangement in ARRANGEMENTS
        if arrangement.form == form and arrangement.fits(count)
    }
    search = _Search(table[:SEARCH_ROWS, picked], dtype, orders)
    waves = fit_waves(search.table)
    rough = sorted(_rough_fits(search, waves), key=lambda fit: fit.residual)
    fits = [fit for finalist in _distinct(rough) for fit in _finished(search, finalist)]
    if not any(search.exact(fit) for fit in fits):
        fits += _scaling_fits(search, waves)
    return _simplest(search, fits)


def _rough_fits(search: _Search, waves: Waves) -> Iterator[Fit]:
    """Yield what the columns support in every order, then, if nothing is near, the usual tables."""
    for sign in (1, -1):
        near = False
        for arrangement, columns in search.orders.items():
            both = bool(columns.sines.any() and not columns.sines.all())
            if sign < 0 and not both:
                continue  # of sines alone, the sign is that of the size
            for fit in _fits_of_waves(search, waves, arrangement, sign):
                yield fit
                near = near or fit.residual < _NEAR
                if search.exact(fit) and fit.hypothesis.scale == sign and not arrangement.fault:
                    return  # nothing simpler is left
        if near:
            return
    # Too few rows, or numbers too rough to measure frequencies: usual tables are compared.
    first_rows = replace(search, table=search.table[:_FIRST_ROWS])
    for arrangement, base, start in itertools.product(search.orders, USUAL_BASES, _USUAL_STARTS):
        yield first_rows.fit(Hypothesis(arrangement, base, start=start), EXACT)


def _fits_of_waves(
    search: _Search, waves: Waves, arrangement: Arrangement, sign: int
) -> Iterator[Fit]:
    """Yield the fits of an arrangement, with the scale 1 first where it is near."""
    columns = search.orders[arrangement]
    line = fit_line(waves, columns)
    if line is None:
        return
    base, scale = line
    frequencies = Hypothesis(arrangement, base, sign * scale).frequencies(columns)
    scales = (1.0, scale) if abs(scale - 1) < _NEAR_ONE else (scale,)
    for start in likely_starts(search.table, columns, frequencies):
        for each in scales:
            rough = Hypothesis(arrangement, base, sign * each, start)
            fit = search.fit(refine(rough, search.table, columns, scaled=each != 1.0), EXACT)
            yield fit
            if search.exact(fit):
                break


def _distinct(fits: Sequence[Fit]) -> list[Fit]:
    """Return the best few that differ in more than the last digits."""
    best: dict[tuple[object, ...], Fit] = {}
    for fit in fits:
        h = fit.hypothesis
        best.setdefault((h.arrangement, h.start, f"{h.base:.2g}", f"{h.scale:.2g}"), fit)
    return list(best.values())[:_FINALISTS]


def _finished(search: _Search, rough: Fit) -> Iterator[Fit]:
    """Yield a fit with the rounder numbers that may be intended, by every recipe."""
    hypothesis = rough.hypothesis
    sign = math.copysign(1.0, hypothesis.scale)
    scales = dict.fromkeys((sign, _rounder_scale(hypothesis.scale), hypothesis.scale))
    bases = rounder_bases(hypothesis.base, search.orders[hypothesis.arrangement].dim)
    candidates = itertools.product(enumerate(bases), scales)
    exact_fits = [
        search.fit(replace(hypothesis, base=base, scale=scale, size=1.0), EXACT, digits)
        for (digits, base), scale in candidates
    ]
    least = min(fit.residual for fit in exact_fits)
    for fit in exact_fits:
        # The smaller the least residual, the better the base is known.
        if fit.residual <= 10 * least + 1e-3:
            yield fit
            if not search.exact(fit):
                unsized = replace(fit.hypothesis, size=1.0)
                yield from (search.fit(unsized, recipe, fit.digits) for recipe in RECIPES)


def _scaling_fits(search: _Search, waves: Waves) -> Iterator[Fit]:
    """Yield fits of the scalings of RoPE that the columns support."""
    orders = [(a, c) for a, c in search.orders.items() if a.scheme == "rope" and not a.fault]
    recipes = (EXACT, *(recipe for recipe in RECIPES if recipe.frequencies != "exponentials"))
    for sign, hypothesis in itertools.product((1.0, -1.0), nearest_scalings(waves, orders)):
        columns, signed = search.orders[hypothesis.arrangement], replace(hypothesis, scale=sign)
        starts = likely_starts(search.table, columns, signed.frequencies(columns))
        for start, recipe in itertools.product(starts, recipes):
            fit = search.fit(replace(signed, start=start), recipe)
            yield fit
            if search.exact(fit):
                return


def _simplest(search: _Search, fits: Sequence[Fit]) -> Fit:
    """Return the simplest fit that differs by rounding alone, else the simplest of the nearest ones."""
    exact = [fit for fit in fits if search.exact(fit)]
    if not exact:
        least = min(fit.residual for fit in fits)
        exact = [fit for fit in fits if fit.residual <= 1.1 * least + 1e-12]
    return min(exact, key=_complexity)


def _complexity(fit: Fit) -> tuple[object, ...]:
    """Return what makes a fit harder to explain, the most important first."""
    hypothesis = fit.hypothesis
    return (
        hypothesis.arrangement.fault != "",
        hypothesis.scale < 0,
        abs(hypothesis.scale) != 1.0,
        hypothesis.config is not None,
        (EXACT, *RECIPES).index(fit.recipe),
        hypothesis.size != 1.0,
        abs(hypothesis.start),
        fit.digits,
        ARRANGEMENTS.index(hypothesis.arrangement),
    )


def rounder_bases(base: float, dim: int) -> list[float]:
    """Return the bases that may be intended by a measured one, those with few digits first.

    A base of another exponent of 1/base counts, too: see `exponent_powers`.
    """
    digits_of: dict[float, float] = {}
    for _, power in exponent_powers(dim):
        root = base ** (1 / power)
        for digits in (1, 2, 3, 4, 5, 6, 8):
            if 1.0 < root < 1e13:
                value = float(f"{root:.{digits}g}") ** power
                if abs(value / base - 1) < 0.03:
                    digits_of.setdefault(value, digits + (power != 1) * 0.5)
    for value, _ in ntk_bases(dim, base, USUAL_BASES[:3]):
        digits_of.setdefault(value, 2.5)
    ordered = sorted(digits_of, key=lambda value: digits_of[value])
    return [*[value for value in ordered if 1.0 < value <= 1e13][:12], base]


def exponent_powers(dim: int) -> list[tuple[str, float]]:
    """Return other exponents of 1/base than 2m/d, in words, and the power of the base that each is."""
    powers = [("2m/d", 1.0), ("m/d", 0.5), ("4m/d", 2.0)]
    if dim > 2:
        powers += [("2m/(d - 2)", dim / (dim - 2)), ("2m/(d - 1)", dim / (dim - 1))]
    return powers


def _rounder_scale(scale: float) -> float:
    whole = round(1 / scale)
    if whole and math.isclose(1 / scale, whole, rel_tol=1e-2):
        return 1.0 / whole
    return float(f"{scale:.3g}")
