"""The formula that comes nearest to a table of numbers.

Every order of columns gets the frequencies, first position and size that its own columns support; the
nearest table is the answer, if it is near. Then the ways of rounding are compared.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.identification.columns import ARRANGEMENTS, Arrangement, Columns, Form
from posenc.identification.frequency_fit import (
    ANGLE_ERROR,
    EXACT,
    RECIPES,
    Hypothesis,
    Precision,
    Recipe,
    fit_line,
    refine,
    roundest_base,
    rounding,
)
from posenc.identification.scalings import USUAL_BASES, nearest_scalings, ntk_scalings
from posenc.identification.waves import TRIED_STARTS, Waves, fit_waves, later_starts, likely_starts

SEARCH_ROWS = 2_048
_SEARCH_COLUMNS = 96
_SCORED_ROWS = 256
_FIRST_ROWS = 32
_FINALISTS = 3
_USUAL_STARTS = (0, 1, 2)
_NEAR = 0.02  # relative residual below which the signs are right
_NEAR_ONE = 0.05  # relative difference of a scale that may be 1
_RIGHT_ROWS = 0.9  # share of the rows of a table that a formula explains, of which some are bad
_CLOSE_SIZE = 5e-3  # relative difference of a size that is the attention factor
_ROUNDED_SCALINGS = 8  # of the nearest, whose rounding is compared

Exponent = Literal[  # of 1/base, of pair m
    "2m/d", "m/d", "4m/d", "2m/(d - 2)", "2m/(d - 1)", "2(m + 1)/d", "(2m + 1)/d",
]  # fmt: skip


@dataclass(frozen=True, eq=False)
class Fit:
    """A hypothesis, a recipe and how near the table they make comes.

    residual: root mean square of the difference over that of the table. largest: the largest
    difference. right: share of the rows that differ by rounding and the error of float32 angles.
    exact: whether every number differs by rounding alone. digits: how many digits the base needs.
    """

    hypothesis: Hypothesis
    recipe: Recipe
    residual: float
    largest: float
    right: float
    exact: bool
    digits: int = 0


@dataclass(frozen=True, eq=False)
class _Search:
    """The part of a table that is searched: its first rows and some of its columns.

    sample (n,): the rows that are compared, and their numbers (n, c). orders: the arrangements that the
    table may have, and what these columns are in each.
    """

    table: Float[Tensor, "t c"]
    sample: Int[Tensor, " n"]
    numbers: Float[Tensor, "n c"]
    precision: Precision
    orders: dict[Arrangement, Columns]

    def fit(self, hypothesis: Hypothesis, recipe: Recipe, digits: int = 0) -> Fit:
        """Return the fit on a sample of rows, of the best size if size 1 is not exact and twice as far."""
        table, columns = self.numbers, self.orders[hypothesis.arrangement]
        values = recipe.values(hypothesis, self.sample.double(), columns)
        # Summed by NumPy: the same bits on any number of threads.
        power = float(values.square().numpy().sum())
        ratio = max(1e-6, float((values * table).numpy().sum()) / power) if power > 0 else 1.0
        norm = max(math.sqrt(table.square().numpy().mean()), 1e-300)
        frequencies = hypothesis.frequencies(columns)
        places, latest = self.sample + hypothesis.start, len(self.table) + abs(hypothesis.start)
        angles = places.abs() * float(frequencies.abs().max())  # of the fastest column

        def fit_of_size(size: float) -> Fit:
            off = (values * size - table).abs()
            residual = math.sqrt(off.square().numpy().mean()) / norm
            sized = replace(hypothesis, size=hypothesis.size * size)
            once = rounding(self.precision.dtype, latest, max(1.0, sized.size))
            # Public code multiplies rounded numbers by a factor up to three times, and rounds each product.
            most = 3 * once + ANGLE_ERROR * sized.size * angles
            right = float((off.amax(1) <= most).double().mean())
            largest, allowed = float(off.max()), self.precision.allowed(sized.size)
            exact = largest <= once
            if exact and allowed.share:  # a small number may be off by a share of itself alone
                turns = places.double().unsqueeze(1) * frequencies
                exact = bool((off <= allowed.limits(values * size, turns, sized.size)).all())
            return Fit(sized, recipe, residual, largest, right, exact, digits)

        same, sized = fit_of_size(1.0), fit_of_size(ratio)
        better = sized.residual < 0.5 * same.residual and not same.exact
        return sized if better else same


def _sample(rows: int) -> Int[Tensor, " n"]:
    return torch.linspace(0, rows - 1, min(rows, _SCORED_ROWS)).round().long()


def nearest_fit(
    table: Float[Tensor, "t c"], form: Form, precision: Precision, excluded: Sequence[int] = ()
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
    first = table[:SEARCH_ROWS, picked]
    sample = _sample(len(first))
    search = _Search(first, sample, first[sample], precision, orders)
    waves = fit_waves(first)
    rough = sorted(_rough_fits(search, waves), key=lambda fit: fit.residual)
    fits = [fit for finalist in _distinct(rough) for fit in _finished(search, finalist)]
    nearest = _simplest(fits)
    # Scalings differ in slow pairs, which turn little in the first rows.
    sample = _sample(len(table))
    whole = replace(search, sample=sample, numbers=table[sample][:, picked])
    same = whole.fit(nearest.hypothesis, nearest.recipe)
    if same.exact and _has_own_size(nearest):
        return nearest
    scaled = _scaling_fits(whole, waves)
    if any(fit.exact and _has_own_size(fit) for fit in scaled):
        return _with_others(scaled)
    if same.exact or same.right >= _RIGHT_ROWS or not scaled:
        return nearest
    return _with_others(scaled)


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
                # Of the many late starts, one may come near by chance.
                late = fit.hypothesis.start > TRIED_STARTS and not fit.exact
                near = near or (fit.residual < _NEAR and not late)
                if fit.exact and fit.hypothesis.scale == sign and not arrangement.fault:
                    return  # nothing simpler is left
        if near:
            return
    # Too few rows, or numbers too rough to measure frequencies: usual tables are compared.
    few = search.table[:_FIRST_ROWS]
    first_rows = replace(search, table=few, sample=torch.arange(len(few)), numbers=few)
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
    near_one = abs(scale - 1) < _NEAR_ONE
    for start in likely_starts(
        search.table, columns, Hypothesis(arrangement, base, sign * scale).frequencies(columns)
    ):
        for each in (1.0, scale) if near_one else (scale,):
            rough = Hypothesis(arrangement, base, sign * each, start)
            fit = search.fit(refine(rough, search.table, columns, scaled=each != 1.0), EXACT)
            # Of rows past the starts that are tried, a scale near 1 makes rows that are almost these.
            if each == 1.0 or not near_one or not start or fit.right >= _RIGHT_ROWS:
                yield fit
            if fit.exact:
                return
    rounder = _rounder_scale(scale)
    bases = (base, *rounder_bases(base, columns.dim)) if near_one or rounder != scale else (base,)
    for each in dict.fromkeys(bases):
        rough = Hypothesis(arrangement, each, sign * (1.0 if near_one else rounder))
        for start in later_starts(search.table, columns, rough.frequencies(columns)):
            later = replace(rough, start=start)
            refined = refine(later, search.table, columns, scaled=False)
            for fit in (search.fit(later, EXACT), search.fit(refined, EXACT)):
                if fit.right >= _RIGHT_ROWS:
                    yield fit
                if fit.exact:
                    return


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
    columns = search.orders[hypothesis.arrangement]
    *rounder, measured = rounder_bases(hypothesis.base, columns.dim)
    is_near = abs(abs(hypothesis.scale) - 1) < _NEAR_ONE
    unscaled = replace(hypothesis, scale=sign) if is_near else hypothesis
    roundest = roundest_base(unscaled, search.table, columns, search.precision)
    bases = dict.fromkeys((*rounder, roundest, measured))
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
            if not fit.exact:
                unsized = replace(fit.hypothesis, size=1.0)
                yield from (search.fit(unsized, recipe, fit.digits) for recipe in RECIPES)


def _scaling_fits(search: _Search, waves: Waves) -> list[Fit]:
    """Return fits of the scalings of RoPE that explain a table, all of one order, start and rounding."""
    orders = [(a, c) for a, c in search.orders.items() if a.scheme == "rope" and not a.fault]
    recipes = (EXACT, *(recipe for recipe in RECIPES if recipe.frequencies != "exponentials"))
    nearest = nearest_scalings(waves, orders)
    for sign, scalings in itertools.product((1.0, -1.0), nearest):
        signed = [
            replace(each, scale=sign, size=each.config.attention_scaling())
            for each in scalings
            if each.config is not None
        ]
        columns = search.orders[signed[0].arrangement]
        frequencies = signed[0].frequencies(columns)
        starts = likely_starts(search.table, columns, frequencies)
        starts += later_starts(search.table, columns, frequencies)
        near: list[Fit] = []
        for start, recipe in itertools.product(starts, recipes):
            compared = signed if recipe is EXACT else signed[:_ROUNDED_SCALINGS]
            fits = [search.fit(replace(each, start=start), recipe) for each in compared]
            if exact := [fit for fit in fits if fit.exact]:
                return exact
            near = near or [fit for fit in fits if fit.right >= _RIGHT_ROWS]
        if near:
            return near
    return []


def _with_others(scaled: Sequence[Fit]) -> Fit:
    """Return the simplest of scalings that explain a table, with the others of which that is true."""
    best = _simplest(scaled)
    others = [
        fit.hypothesis.config
        for fit in scaled
        if fit is not best
        and fit.hypothesis.config is not None
        and _has_own_size(fit) == _has_own_size(best)
    ]
    return replace(best, hypothesis=replace(best.hypothesis, others=tuple(others)))


def _has_own_size(fit: Fit) -> bool:
    """Whether the size of a table is that of the scheme of a fit."""
    config = fit.hypothesis.config
    expected = 1.0 if config is None else config.attention_scaling()
    return fit.hypothesis.size == expected or (
        config is not None and math.isclose(fit.hypothesis.size, expected, rel_tol=_CLOSE_SIZE)
    )


def _simplest(fits: Sequence[Fit]) -> Fit:
    """Return the simplest fit that differs by rounding alone, else the simplest of the nearest ones."""
    exact = [fit for fit in fits if fit.exact]
    if not exact:
        least = min(fit.residual for fit in fits)
        exact = [fit for fit in fits if fit.residual <= 1.1 * least + 1e-12]
    return min(exact, key=_complexity)


def _complexity(fit: Fit) -> tuple[object, ...]:
    """Return what makes a fit harder to explain, the most important first."""
    hypothesis = fit.hypothesis
    return (
        hypothesis.arrangement.fault is not None,
        hypothesis.scale < 0,
        abs(hypothesis.scale) != 1.0,
        hypothesis.config is not None,
        (EXACT, *RECIPES).index(fit.recipe),
        not _has_own_size(fit),
        abs(hypothesis.start),
        fit.digits,
        ARRANGEMENTS.index(hypothesis.arrangement),
    )


def rounder_bases(base: float, dim: int) -> list[float]:
    """Return the bases that may be intended by a measured one, those with few digits first.

    A base of one or two digits with another exponent of 1/base counts, too: see `exponent_powers`.
    """
    digits_of: dict[float, float] = {}
    for _, power in exponent_powers(dim):
        root = base ** (1 / power)
        for digits in (1, 2, 3, 4, 5, 6, 8) if power == 1 else (1, 2):
            if 1.0 < root < 1e13:
                value = float(f"{root:.{digits}g}") ** power
                if abs(value / base - 1) < 0.03:
                    digits_of.setdefault(value, digits + (power != 1) * 0.5)
    for scaling in ntk_scalings(dim, base, USUAL_BASES[:3]):
        digits_of.setdefault(scaling.larger_base, 2.5)
    ordered = sorted(digits_of, key=lambda value: digits_of[value])
    return [*[value for value in ordered if 1.0 < value <= 1e13], base]


# Exponents that count pairs from 1, or from 1/2: of how many more features the exponent of a pair is.
SHIFTED_EXPONENTS: tuple[tuple[Exponent, int], ...] = (("2(m + 1)/d", 2), ("(2m + 1)/d", 1))


def exponent_powers(dim: int) -> list[tuple[Exponent, float]]:
    """Return the exponent 2m/d of 1/base, then others, and the power of the base that each is."""
    powers: list[tuple[Exponent, float]] = [("2m/d", 1.0), ("m/d", 0.5), ("4m/d", 2.0)]
    if dim > 2:
        powers += [("2m/(d - 2)", dim / (dim - 2)), ("2m/(d - 1)", dim / (dim - 1))]
    return powers


def _rounder_scale(scale: float) -> float:
    whole = round(1 / scale)
    if whole and math.isclose(1 / scale, whole, rel_tol=1e-2):
        return 1.0 / whole
    return float(f"{scale:.3g}")
