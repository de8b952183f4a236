"""Which scheme made a table of numbers, and how the table differs from it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.errors import ConfigError, SchemeArgumentError
from posenc.identification.columns import (
    MIN_ROWS,
    SMALLEST,
    Arrangement,
    TableInput,
    longest_run,
)
from posenc.identification.deviations import (
    Alternative,
    Deviation,
    UsualBase,
    deviations_of,
    dim_of,
    other_descriptions,
    usual_base,
)
from posenc.identification.differences import (
    MOST_OUTLIERS,
    Comparison,
    Differences,
    base_within,
    compare,
    consistent_run,
    rows_of_formula,
)
from posenc.identification.frequency_fit import (
    EXACT,
    OF_ANGLES,
    Hypothesis,
    Precision,
    Recipe,
    is_round,
    narrowest_format,
    one_rounding,
    rounding,
)
from posenc.identification.positions import UNKNOWN, recover
from posenc.identification.scalings import USUAL_BASES
from posenc.identification.search import SEARCH_ROWS, nearest_fit
from posenc.schemes.base import SchemeConfig
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling.base import RopeLinearConfig
from posenc.schemes.sinusoidal import SinusoidalConfig

FITS = 0.02  # largest relative residual of a table that a formula made


@dataclass(frozen=True, eq=False)
class Identification:
    """The formula of a table and its deviations from it, as facts.

    config: the scheme that makes it, None if none does. hypothesis: order of columns, base, scale, first
    position and size; None if no formula fits. recipe: how the angles were computed, as far as the
    numbers show. dtype: the narrowest format that holds its numbers. residual: root mean square of
    table minus formula over that of the table, of the nearest formula if none fits. largest: the
    largest difference, at row and column `worst`. by_column (c,): the largest in each column.
    base_within: relative change of the base that makes the same numbers; inf if any base does.
    usual_base: a usual base with another exponent that makes the same numbers, if the base of 2m/d is
    unusual. also: other descriptions of the same numbers. padding: rows of zeros before the first position.
    positions (rows,): of the rows, None where they rise by 1 from the first one on. constant: the number
    that the whole table consists of, None if there are several.
    """

    dtype: torch.dtype
    rows: int
    width: int
    padding: int
    residual: float
    config: SchemeConfig | None = None
    hypothesis: Hypothesis | None = None
    recipe: Recipe | None = None
    largest: float = math.nan
    worst: tuple[int, int] = (0, 0)
    by_column: Float[Tensor, " c"] | None = None
    base_within: float = math.inf
    usual_base: UsualBase | None = None
    deviations: tuple[Deviation, ...] = ()
    also: tuple[Alternative, ...] = ()
    positions: Int[Tensor, " t"] | None = None
    constant: float | None = None

    @property
    def known(self) -> bool:
        """Whether a formula makes this table."""
        return self.hypothesis is not None

    @property
    def arrangement(self) -> Arrangement | None:
        """The order of the columns."""
        return None if self.hypothesis is None else self.hypothesis.arrangement

    @property
    def pairs(self) -> int:
        """Number of pairs of the order of the columns, 0 if there is none."""
        if self.arrangement is None or self.by_column is None:
            return 0
        return self.arrangement.columns(len(self.by_column)).dim // 2


def identify(
    table: Tensor, sines: Tensor | None = None, *, of_vectors: bool = False
) -> Identification:
    """Find the scheme that made a table, or a cache of cosines and sines.

    table: (rows, columns), row p for position start + p; a complex table is cos + i sin. With `sines`,
    of the same shape, `table` holds the cosines. A few rows and columns that follow no formula are
    excluded from the search and named. of_vectors: whether the numbers are quotients of rounded vectors.
    Raises SchemeArgumentError unless the numbers are finite and there are two rows or more.
    """
    source = TableInput.of(table, sines)
    dtype, rows = narrowest_format(source.columns), len(source.columns)
    best = _nearest(source, Precision(dtype, of_vectors))
    if best is None or not best.others.residual <= FITS:
        residual = 1.0 if best is None else best.all.residual
        first = float(source.columns[0, 0])
        constant = first if bool((source.columns == first).all()) else None
        return Identification(
            dtype, rows, source.width, source.padding, residual, constant=constant
        )
    source, hypothesis = best.table, best.hypothesis
    dim = dim_of(source, hypothesis)
    config, scaled = _config(hypothesis, source)
    tolerance = rounding(dtype, rows + abs(hypothesis.start), hypothesis.size)
    error = best.recipe.base_error(hypothesis.base)
    within = shown = best.base_within + error
    if is_round(hypothesis.base):  # every number of 16 bits was compared by a share of itself
        once = one_rounding(dtype, rows + abs(hypothesis.start), hypothesis.size)
        shown = base_within(best.table, hypothesis, once) + error
    # Differences beyond rounding make the base uncertain by as much more.
    uncertainty = shown * max(1.0, best.others.largest / tolerance)
    usual = None
    if hypothesis.base not in USUAL_BASES and hypothesis.config is None:
        usual = usual_base(hypothesis.base, dim, uncertainty)
    return Identification(
        dtype=dtype,
        rows=rows,
        width=source.width,
        padding=source.padding,
        residual=best.all.residual,
        config=config,
        hypothesis=hypothesis,
        recipe=best.recipe,
        largest=best.all.largest,
        worst=best.all.worst,
        by_column=best.all.by_column,
        base_within=within,
        usual_base=usual,
        deviations=deviations_of(best, dtype, scaled, usual),
        also=other_descriptions(hypothesis, dim, uncertainty, usual),
        positions=source.positions,
    )


def _nearest(source: TableInput, precision: Precision) -> Comparison | None:
    """Compare a table with the formula of its longest run of rows that are not all zeros."""
    begin, end = longest_run(source.zeros)
    if end - begin < MIN_ROWS or float(source.columns.abs().max()) < SMALLEST:
        return None
    run = consistent_run(source.columns[begin : min(end, begin + SEARCH_ROWS)])
    if run is None:
        return _compare_part(source, precision, begin, end)
    first, last, outliers = run
    part = _compare_part(source, precision, begin + first, begin + last, outliers)
    if part.rows and (moved := _recovered(part, precision)) is not None and not moved.rows:
        return moved
    if part.others.residual > FITS and (moved := _recovered(part, precision)) is not None:
        return moved
    if part.others.largest <= rounding(precision.dtype, len(source.columns), part.hypothesis.size):
        return part
    whole = _compare_part(source, precision, begin, end)
    return min((whole, part), key=lambda comparison: comparison.others.residual)


def _recovered(part: Comparison, precision: Precision) -> Comparison | None:
    """Compare a table with the formula of a part of it, each row at the position that it stands for.

    None if the formula has no sines or no cosines, or more than a tenth of the rows stand for no position.
    """
    source, hypothesis = part.table, part.hypothesis
    numbers = source.columns / hypothesis.size
    columns = hypothesis.arrangement.columns(numbers.shape[1])
    frequencies = hypothesis.frequencies(columns)
    sines = columns.sines.nonzero().flatten()
    both = [
        (cosine, sine)
        for sine in sines.tolist()
        for cosine in ((frequencies == frequencies[sine]) & ~columns.sines).nonzero().flatten()[:1]
    ]
    if not both:
        return None
    cosines, with_sines = (torch.tensor(index) for index in zip(*both, strict=True))
    sign = math.copysign(1.0, hypothesis.scale)
    positions = recover(
        numbers[:, cosines],
        sign * numbers[:, with_sines],
        frequencies[with_sines].abs(),
        4 * rounding(precision.dtype, 0) + OF_ANGLES,
    )
    if float((positions == UNKNOWN).double().mean()) > MOST_OUTLIERS:
        return None
    moved = replace(source, padding=0, zeros=torch.zeros_like(source.zeros), positions=positions)
    compared = compare(moved, replace(hypothesis, start=0), part.recipe, precision)
    return compared if compared.others.residual <= FITS else None


def _compare_part(
    source: TableInput, precision: Precision, begin: int, end: int, excluded: Sequence[int] = ()
) -> Comparison:
    """Compare a table with the formula of some of its rows. excluded: columns that are not used."""
    fit = nearest_fit(source.columns[begin:end], source.form, precision, excluded)
    columns = fit.hypothesis.arrangement.columns(source.columns.shape[1])
    start = fit.hypothesis.start - begin
    if source.padding == 1 and start == 0 and bool(columns.sines.all()):  # position 0, not padding
        zeros = source.zeros & (torch.arange(len(source.zeros)) > 0)
        source = replace(source, zeros=zeros, padding=0)
    hypothesis = replace(fit.hypothesis, start=start + source.padding)
    return compare(source, hypothesis, fit.recipe, precision)


def _config(hypothesis: Hypothesis, source: TableInput) -> tuple[SchemeConfig | None, bool]:
    """Return the config of a table and whether it contains the scale."""
    arrangement, scale, base = hypothesis.arrangement, abs(hypothesis.scale), hypothesis.base
    dim, layout = dim_of(source, hypothesis), arrangement.layout or "interleaved"
    try:
        if arrangement.fault:
            return None, False
        if hypothesis.config is not None:
            return replace(hypothesis.config, layout=layout), True
        if arrangement.scheme == "sinusoidal":
            if dim != source.width or scale != 1.0:
                return None, False
            return SinusoidalConfig(dim=dim, base=base, layout=layout), False
        if scale == 1.0:
            return RopeConfig(dim=dim, base=base, layout=layout), False
        return RopeLinearConfig(dim=dim, base=base, factor=1 / scale, layout=layout), True
    except ConfigError:
        return None, False


def reconstruct(
    result: Identification, table: Tensor, sines: Tensor | None = None, *, rows: int | None = None
) -> Float[Tensor, "t c"]:
    """Return the first rows, all by default, of the formula of an identified table, float64.

    Angles are right to the last bit; of cosines and sines the cosines come first; padding is zeros.
    Raises SchemeArgumentError for a table that no formula makes.
    """
    source, hypothesis = _with_formula(result, table, sines)
    return rows_of_formula(source, hypothesis, EXACT, torch.arange(len(source.columns))[:rows])


def from_exact(result: Identification, table: Tensor, sines: Tensor | None = None) -> Differences:
    """Compare an identified table with its formula, angles right to the last bit.

    Raises SchemeArgumentError for a table that no formula makes.
    """
    return compare(*_with_formula(result, table, sines), EXACT, Precision(result.dtype)).all


def _with_formula(
    result: Identification, table: Tensor, sines: Tensor | None
) -> tuple[TableInput, Hypothesis]:
    if result.hypothesis is None:
        raise SchemeArgumentError("No formula makes this table.")
    source = TableInput.of(table, sines)
    if result.positions is not None:
        zeros = torch.zeros_like(source.zeros)
        source = replace(source, zeros=zeros, positions=result.positions)
    return replace(source, padding=result.padding), result.hypothesis
