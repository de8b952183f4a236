"""The formula that comes nearest to a table of numbers.

Every order of columns gets the frequencies, first position and size that its own columns support; the
nearest table is the answer, if it is near. Then the ways of rounding are compared.
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
    Hypothesis,
    Recipe,
    hypotheses,
    refine,
    rounding,
)
from posenc.identification.scalings import (
    USUAL_BASES,
    nearest_scalings,
    ntk_bases,
    scaled_hypotheses,
)
from posenc.identification.waves import Waves, fit_waves

SEARCH_ROWS = 2_048
_SEARCH_COLUMNS = 96
_SCORED_ROWS = 256
_FIRST_ROWS = 32
_FINALISTS = 3
_USUAL_STARTS = (0, 1, 2)
_NEAR = 0.02  # relative residual below which the signs are right
_SIGNS = ((1, 1.0), (-1, 1.0), (1, -1.0), (-1, -1.0))  # of the sines, of all numbers


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
    """The part of a table that is searched: its first rows and the columns `picked`.

    moving (all columns,): which change in these rows.
    """

    table: Float[Tensor, "t c"]
    picked: Int[Tensor, " c"]
    width: int
    form: Form
    dtype: torch.dtype
    moving: Bool[Tensor, " all"]

    def moving_pairs(self, arrangement: Arrangement) -> int:
        """Return the least number of pairs with a frequency above 0."""
        columns = arrangement.columns(self.width)
        pair = (columns.exponents * (columns.dim // 2)).round()
        return int(pair[self.moving].max()) + 1 if bool(self.moving.any()) else 0

    def columns(self, arrangement: Arrangement) -> Columns:
        return arrangement.columns(self.width).at(self.picked)

    def exact(self, fit: Fit) -> bool:
        """Whether a fit differs by rounding alone."""
        latest = len(self.table) + abs(fit.hypothesis.start)
        return fit.largest <= rounding(self.dtype, latest, max(1.0, abs(fit.hypothesis.size)))

    def fits(self, hypothesis: Hypothesis, recipe: Recipe, *, rows: int = SEARCH_ROWS) -> list[Fit]:
        """Return the fit on the first `rows` rows, and a second one of the best size if it is better."""
        reach = min(rows, len(self.table))
        sample = torch.linspace(0, reach - 1, min(reach, _SCORED_ROWS)).round().long()
        table = self.table[sample]
        values = recipe.values(hypothesis, sample.double(), self.columns(hypothesis.arrangement))
        # Summed by NumPy: the same bits on any number of threads.
        power = float(values.square().numpy().sum())
        ratio = max(1e-6, float((values * table).numpy().sum()) / power) if power > 0 else 1.0
        norm = max(math.sqrt(table.square().numpy().mean()), 1e-300)
        fits: list[Fit] = []
        for size in (1.0, ratio):
            difference = values * size - table
            residual = math.sqrt(difference.square().numpy().mean()) / norm
            if not fits or residual < 0.5 * fits[0].residual:
                sized = replace(hypothesis, size=hypothesis.size * size)
                fits.append(Fit(sized, recipe, residual, float(difference.abs().max())))
        return fits


def nearest_fit(
    table: Float[Tensor, "t c"],
    form: Form,
    width: int,
    dtype: torch.dtype,
    excluded: Int[Tensor, " few"] | None = None,
) -> Fit:
    """Return the formula that comes nearest to a table. excluded: columns that are not used."""
    picked = searched_columns(table.shape[1])
    first = table[:SEARCH_ROWS]
    moving = first.amax(0) > first.amin(0)
    if excluded is not None:
        picked = picked[~torch.isin(picked, excluded)]
        moving[excluded] = False
    search = _Search(first[:, picked], picked, width, form, dtype, moving)
    waves = fit_waves(search.table) if len(table) >= 5 else None
    rough = sorted(_rough_fits(search, waves), key=lambda fit: fit.residual)
    fits = [fit for finalist in _distinct(rough) for fit in _finished(search, finalist)]
    if waves is not None and not any(search.exact(fit) for fit in fits):
        fits += _scaling_fits(search, waves)
    return _simplest(search, fits)


def searched_columns(count: int) -> Int[Tensor, " c"]:
    """Return all columns, or a random sample that includes what may be the columns' partners.

    The cosine of a sine is its neighbour, or half of all columns away.
    """
    mixed = torch.randperm(count, generator=torch.Generator().manual_seed(0))
    if count <= _SEARCH_COLUMNS or count % 4:
        return mixed[:_SEARCH_COLUMNS]
    few = mixed[mixed < count // 2]
    few = few[few % 2 == 0][: _SEARCH_COLUMNS // 4]
    few = torch.cat((few, few + 1))
    return torch.cat((few, few + count // 2))


def _rough_fits(search: _Search, waves: Waves | None) -> Iterator[Fit]:
    """Yield what the columns support in every order, then the usual tables."""
    arrangements = [a for a in ARRANGEMENTS if a.form == search.form and a.fits(search.width)]
    if waves is not None:
        tolerance = rounding(search.dtype, len(search.table))
        any_exact, least = False, math.inf
        for signs, scaled in itertools.product(_SIGNS, (False, True)):
            if least < _NEAR and not scaled:
                return  # wrong signs come less near
            for arrangement in arrangements:
                columns, exact = search.columns(arrangement), False
                if not _signs_matter(columns, signs):
                    continue
                for rough in hypotheses(
                    waves, arrangement, columns, scaled=scaled, tolerance=tolerance, signs=signs
                ):
                    hypothesis = refine(rough, search.table, columns, scaled=scaled)
                    fit = search.fits(hypothesis, EXACT)[0]
                    yield fit
                    exact = exact or search.exact(fit)
                    if not scaled and hypothesis.start in _USUAL_STARTS:
                        least = min(least, fit.residual)
                if exact and not arrangement.fault:
                    return  # nothing simpler is left
                any_exact = any_exact or exact
            if any_exact:
                return
    # Too few rows, or numbers too rough to measure frequencies: usual tables are compared.
    for signs in _SIGNS:
        near = False
        for arrangement in arrangements:
            if not _signs_matter(search.columns(arrangement), signs):
                continue
            for base, start in itertools.product(USUAL_BASES, _USUAL_STARTS):
                usual = Hypothesis(arrangement, base, 1.0, start, signs[1], signs[0])
                fit = search.fits(usual, EXACT, rows=_FIRST_ROWS)[-1]
                yield fit
                near = near or fit.residual < _NEAR
        if near:
            return


def _signs_matter(columns: Columns, signs: tuple[int, float]) -> bool:
    """Whether these signs differ from simpler ones: where all columns are sines, they are all numbers."""
    sense, _ = signs
    return sense == 1 or bool(columns.sines.any() and not columns.sines.all())


def _distinct(fits: Sequence[Fit]) -> list[Fit]:
    """Return the best few that differ in more than the last digits."""
    best: dict[tuple[object, ...], Fit] = {}
    for fit in fits:
        h = fit.hypothesis
        key = (h.arrangement.name, h.signs, h.start, f"{h.base:.2g}", f"{h.scale:.2g}")
        if len(best) < _FINALISTS:
            best.setdefault(key, fit)
    return list(best.values())


def _finished(search: _Search, rough: Fit) -> Iterator[Fit]:
    """Yield a fit with the rounder numbers that may be intended, by every recipe."""
    hypothesis = rough.hypothesis
    scales = dict.fromkeys((1.0, _rounder_scale(hypothesis.scale), hypothesis.scale))
    bases = rounder_bases(hypothesis.base, search.columns(hypothesis.arrangement).dim)
    candidates = [
        (digits, replace(hypothesis, base=base, scale=scale, size=hypothesis.signs[1]))
        for digits, base in enumerate(bases)
        for scale in scales
    ]
    exact_fits = [search.fits(candidate, EXACT) for _, candidate in candidates]
    least = min(fits[-1].residual for fits in exact_fits)
    for (digits, candidate), fits in zip(candidates, exact_fits, strict=True):
        # The smaller the least residual, the better the base is known.
        if fits[-1].residual > 10 * least + 1e-3:
            continue
        yield from (replace(fit, digits=digits) for fit in fits)
        if not any(search.exact(fit) for fit in fits):
            for recipe in RECIPES:
                yield from (replace(fit, digits=digits) for fit in search.fits(candidate, recipe))


def _scaling_fits(search: _Search, waves: Waves) -> Iterator[Fit]:
    """Yield fits of the scalings of RoPE that the columns support."""
    tolerance = rounding(search.dtype, len(search.table))
    likely = []
    for arrangement in ARRANGEMENTS:
        rope = arrangement.scheme == "rope" and not arrangement.fault
        if rope and arrangement.form == search.form and arrangement.fits(search.width):
            columns = search.columns(arrangement)
            scored = nearest_scalings(waves, columns, search.moving_pairs(arrangement))
            likely += [(score, arrangement, columns, config) for score, config in scored]
    likely = sorted(likely, key=lambda candidate: candidate[0])[:_FINALISTS]
    recipes = (EXACT, *(recipe for recipe in RECIPES if recipe.frequencies != "exponentials"))
    for signs in _SIGNS:
        near = False
        for _, arrangement, columns, config in likely:
            if not _signs_matter(columns, signs):
                continue
            for hypothesis in scaled_hypotheses(
                waves, arrangement, config, columns, tolerance, signs
            ):
                for recipe in recipes:
                    fit = search.fits(hypothesis, recipe)[-1]
                    yield fit
                    near = near or fit.residual < _NEAR
                    if search.exact(fit):
                        return
        if near:
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
        _SIGNS.index(hypothesis.signs),
        hypothesis.scale != 1.0,
        type(hypothesis) is not Hypothesis,
        (EXACT, *RECIPES).index(fit.recipe),
        abs(hypothesis.size) != 1.0,
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
        intended = base ** (1 / power)
        for digits in (1, 2, 3, 4, 5, 6, 8):
            if 1.0 < intended < 1e13:
                text = f"{intended:.{digits}g}"
                value = float(text) ** power
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
    ratio = 1 / scale
    whole = round(ratio)
    if whole >= 1 and math.isclose(ratio, whole, rel_tol=1e-2):
        return 1.0 / whole
    return float(f"{scale:.3g}")
