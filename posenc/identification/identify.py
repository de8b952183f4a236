"""Which scheme made a table of numbers, how the table differs from it, in sentences and as a record."""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.errors import ConfigError, SchemeArgumentError
from posenc.identification.columns import MIN_ROWS, SMALLEST, Arrangement, TableInput
from posenc.identification.deviations import (
    Comparison,
    Deviation,
    Differences,
    Kind,
    Reading,
    compare,
    consistent_run,
    deviations_of,
    other_descriptions,
    other_reading,
    published,
)
from posenc.identification.frequency_fit import Hypothesis, Recipe, narrowest_format, rounding
from posenc.identification.scalings import ScaledHypothesis, divided_config
from posenc.identification.search import SEARCH_ROWS, Fit, nearest_fit, searched_columns
from posenc.identification.waves import EARLIEST_START, LATEST_START
from posenc.schemes.base import SchemeConfig
from posenc.schemes.rope import RopeConfig
from posenc.schemes.sinusoidal import SinusoidalConfig
from posenc.text import counted

FITS = 0.02  # largest relative residual of a table that a formula made
_BLOCK = 2**20  # numbers of the table that are compared at once
_TIMESTEP_BASE = 10_000.0  # the only base of diffusion models


@dataclass(frozen=True, eq=False)
class Identification:
    """What a table is.

    config: the scheme that makes it, None if none does. hypothesis: order of columns, base, scale, first
    position and size; None if no formula fits. recipe: how the angles were computed, as far as the
    numbers show. dtype: the narrowest format that holds its numbers. residual: root mean square of
    table minus formula over that of the table, of the nearest formula if none fits. largest: the
    largest difference, at row and column `worst`. by_column (c,): the largest in each column.
    base_within: relative change of the base that makes the same numbers; inf if any base does.
    reading: a usual base with another exponent that makes the same numbers, if the base of 2m/d is
    unusual. also: other descriptions of the same numbers. padding: rows of zeros before the first position.
    """

    config: SchemeConfig | None
    hypothesis: Hypothesis | None
    recipe: Recipe | None
    dtype: torch.dtype
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
        return self.hypothesis is not None

    @property
    def arrangement(self) -> Arrangement | None:
        """The order of the columns."""
        return None if self.hypothesis is None else self.hypothesis.arrangement

    def has(self, kind: Kind) -> bool:
        """Whether the table differs from its formula in this way."""
        return any(deviation.kind == kind for deviation in self.deviations)


def identify(table: Tensor, sines: Tensor | None = None) -> Identification:
    """Find the scheme that made a table, or a cache of cosines and sines.

    table: (rows, columns), row p for position start + p; a complex table is cos + i sin. With `sines`,
    of the same shape, `table` holds the cosines. A few rows and columns that follow no formula are
    excluded from the search and named. Raises SchemeArgumentError unless the numbers are finite and
    there are two rows or more.
    """
    source = TableInput.of(table, sines)
    dtype = narrowest_format(source.columns)
    best = _best_comparison(source, dtype)
    if best is None or not best.others.residual <= FITS:
        return _none(source, dtype, 1.0 if best is None else best.all.residual)
    source, fit = best.table, best.fit
    hypothesis, rows = fit.hypothesis, len(source.columns)
    config, in_config = _config(hypothesis, source.width)
    tolerance = rounding(dtype, rows + abs(hypothesis.start), abs(hypothesis.size))
    within = _base_within(fit, source, tolerance)
    # Differences beyond rounding make the base uncertain by as much more.
    uncertainty = within * max(1.0, best.others.largest / tolerance)
    reading = other_reading(hypothesis, source.width, uncertainty)
    return Identification(
        config=config,
        hypothesis=hypothesis,
        recipe=fit.recipe,
        dtype=dtype,
        residual=best.all.residual,
        largest=best.all.largest,
        worst=best.all.worst,
        by_column=best.by_column,
        base_within=within,
        reading=reading,
        deviations=deviations_of(best, dtype, in_config, reading),
        also=other_descriptions(hypothesis, source.width, uncertainty, reading),
        rows=rows,
        width=source.width,
        padding=source.padding,
    )


def _best_comparison(source: TableInput, dtype: torch.dtype) -> Comparison | None:
    best: Comparison | None = None
    # A first row of zeros is position 0 of sines alone, or padding if that comes far nearer.
    for padding in dict.fromkeys((0 if source.padding == 1 else source.padding, source.padding)):
        padded = replace(source, padding=padding)
        begin, end = padded.longest_run
        body = source.columns[begin:end]
        if len(body) >= MIN_ROWS and float(body.abs().max()) >= SMALLEST:
            fit = nearest_fit(body, source.form, source.width, dtype)
            comparison = compare(padded, _moved(fit, begin - padding))
            if best is None or comparison.all.residual < 0.5 * best.all.residual:
                best = comparison
    if best is not None and (best.all.residual > FITS or best.rows or best.columns):
        by_part = _compare_consistent_run(best.table, dtype)
        if by_part is not None and by_part.others.residual < best.others.residual:
            return by_part
    return best


def _compare_consistent_run(source: TableInput, dtype: torch.dtype) -> Comparison | None:
    """Compare a table with the formula of its longest run of rows that follow one, if it has any."""
    begin, end = source.longest_run
    body, searched = source.columns[begin:end], searched_columns(source.columns.shape[1])
    run = consistent_run(body[:SEARCH_ROWS, searched])
    if run is None:
        return None
    first, last, outliers = run
    fit = nearest_fit(body[first:last], source.form, source.width, dtype, searched[outliers])
    return compare(source, _moved(fit, begin + first - source.padding))


def _moved(fit: Fit, row: int) -> Fit:
    """Return a fit that was made from row `row` on, with the start of row 0."""
    return replace(fit, hypothesis=replace(fit.hypothesis, start=fit.hypothesis.start - row))


def _none(source: TableInput, dtype: torch.dtype, residual: float) -> Identification:
    nothing = torch.full((source.columns.shape[1],), math.nan, dtype=torch.float64)
    return Identification(
        None, None, None, dtype, residual, math.nan, (0, 0), nothing, math.inf, None, (), (),
        len(source.columns), source.width, source.padding,
    )  # fmt: skip


def _config(hypothesis: Hypothesis, width: int) -> tuple[SchemeConfig | None, set[str]]:
    """Return the config of a table and which of scale and size it contains."""
    arrangement, scale = hypothesis.arrangement, hypothesis.scale
    dim, layout = 2 * arrangement.pairs(width), arrangement.layout or "interleaved"
    try:
        if arrangement.fault:
            return None, set()
        if isinstance(hypothesis, ScaledHypothesis):
            assert hypothesis.config is not None
            config = replace(hypothesis.config, layout=layout)
            factor = config.attention_scaling()
            sized = math.isclose(factor, abs(hypothesis.size), rel_tol=2e-3)
            return config, {"scale", "size"} if sized else {"scale"}
        if arrangement.scheme == "sinusoidal":
            if width % 2 or scale != 1.0:
                return None, set()
            return SinusoidalConfig(dim=dim, base=hypothesis.base, layout=layout), set()
        if scale == 1.0:
            return RopeConfig(dim=dim, base=hypothesis.base, layout=layout), set()
        if (scaled := divided_config(dim, hypothesis.base, scale)) is not None:
            return replace(scaled, layout=layout), {"scale"}
    except ConfigError:
        pass
    return None, set()


def _base_within(fit: Fit, source: TableInput, tolerance: float) -> float:
    """Return the relative change of the base that changes no number by more than rounding does."""
    columns = fit.hypothesis.arrangement.columns(source.width)
    last = len(source.columns) - source.padding - 1
    positions = torch.linspace(0, last, min(last + 1, 256), dtype=torch.float64)
    angles = (positions + fit.hypothesis.start).unsqueeze(1) * fit.hypothesis.rates(columns)
    moved = angles * columns.exponents * torch.where(columns.sines, angles.cos(), angles.sin())
    slope = float(moved.abs().max()) * abs(fit.hypothesis.size)
    return tolerance / slope if slope > tolerance else math.inf


def headline(result: Identification) -> str:
    """Return what a table is, in one sentence."""
    if result.hypothesis is None or result.arrangement is None:
        return (
            f"None of these: of the sinusoidal tables and rotary caches tried, from positions "
            f"{EARLIEST_START} to {LATEST_START:,}, none comes nearer to this {result.rows:,} x "
            f"{result.width:,} table than {result.residual:.0%} of its size."
        )
    faults = sum(deviation.kind not in ("padding", "start") for deviation in result.deviations)
    verb = "departs" if faults == 1 else "depart"
    but = f", but {counted(faults, 'thing')} {verb}" if faults else ""
    return (
        f"{scheme_name(result)}, base {base_words(result)}, {result.arrangement.words}, from position "
        f"{result.hypothesis.start:,}{but}."
    )


def scheme_name(result: Identification) -> str:
    """Return the name of an identified table; if two uses make the same numbers, both."""
    assert result.hypothesis is not None
    hypothesis = result.hypothesis
    cosines_first = hypothesis.arrangement.name == "cosines_first"
    if published(hypothesis, result.reading):
        if cosines_first:
            return "Tensor2Tensor's sinusoidal, cosines first (flip_sin_to_cos in diffusers)"
        return "Tensor2Tensor's sinusoidal (as in Whisper, M2M100 and DDPM)"
    if result.config is not None:
        name = result.config.label
    else:
        name = "Sinusoidal" if hypothesis.arrangement.scheme == "sinusoidal" else "RoPE"
    if cosines_first:
        name += " cache in one tensor (as in vLLM)"
        if hypothesis.base == _TIMESTEP_BASE and type(hypothesis) is Hypothesis:
            name += " or timestep embedding with flip_sin_to_cos (as in Stable Diffusion)"
    return name


def base_words(result: Identification) -> str:
    """Return the base with as many digits as the table shows, or a usual one with its exponent."""
    assert result.hypothesis is not None
    if result.reading is not None:
        return f"{result.reading.base:,.6g} with the exponent {result.reading.exponent}"
    if math.isinf(result.base_within):
        return "of any size"
    digits = 12
    if result.base_within >= 1e-12:
        digits = min(12, max(2, math.ceil(-math.log10(result.base_within))))
    return f"{float(f'{result.hypothesis.base:.{digits}g}'):,.12g}"


def fit_sentence(result: Identification) -> str:
    """Return how near the formula comes."""
    if result.hypothesis is None:
        return (
            f"A table is taken for a formula's where what is left is under {FITS:.0%} of its size."
        )
    dtype = _dtype_name(result)
    if result.largest == 0:
        return f"Made like that, every number is the same; all are {dtype}."
    low = result.recipe is not None and result.recipe.low
    subject = "Made like that, the largest difference is" if low else "Largest difference"
    row, column = result.worst
    return (
        f"{subject} {result.largest:.2g} (row {row:,}, {_column(result, column)}), root mean square "
        f"{result.residual:.2g} of the table's size; its numbers are {dtype}."
    )


def _column(result: Identification, column: int) -> str:
    if result.arrangement is None or result.arrangement.form == "table":
        return f"column {column:,}"
    part = "sines" if column >= result.width else "cosines"
    return f"column {column % result.width:,} of the {part}"


def _dtype_name(result: Identification) -> str:
    return str(result.dtype).removeprefix("torch.")


def record(result: Identification) -> dict[str, Any]:
    """Return the whole result as JSON values."""
    hypothesis, arrangement, known = result.hypothesis, result.arrangement, result.known
    return {
        "identified": headline(result),
        "config": None if result.config is None else result.config.record(),
        "arrangement": None if arrangement is None else arrangement.words,
        "layout": None if arrangement is None else arrangement.layout,
        "base": None if hypothesis is None else hypothesis.base,
        "base_within": None if math.isinf(result.base_within) else result.base_within,
        "start": None if hypothesis is None else hypothesis.start - result.padding,
        "scale": None if hypothesis is None else hypothesis.scale,
        "size": None if hypothesis is None else hypothesis.size,
        "sense": None if hypothesis is None else hypothesis.sense,
        "angles": None if result.recipe is None else result.recipe.words,
        "format": _dtype_name(result),
        "rows": result.rows,
        "width": result.width,
        "residual": result.residual,
        "largest_difference": result.largest if known else None,
        "row": result.worst[0] if known else None,
        "column": result.worst[1] if known else None,
        "deviations": [
            {"kind": each.kind, "sentence": each.sentence} for each in result.deviations
        ],
        "also": list(result.also),
    }


class Reconstruction(NamedTuple):
    """Rows of a table, of cosines and sines the cosines first: as read, and by its formula.

    as_identified: with the identified rounding; exact: the same formula with angles right to the last
    bit. Padding is zeros in all three.
    """

    table: Float[Tensor, "t c"]
    as_identified: Float[Tensor, "t c"]
    exact: Float[Tensor, "t c"]


def reconstruct(
    result: Identification, table: Tensor, sines: Tensor | None = None, *, rows: int | None = None
) -> Reconstruction:
    """Return the first rows, all by default, of an identified table and of its formula, float64.

    Raises SchemeArgumentError for a table that no formula makes.
    """
    source = TableInput.of(table, sines)
    return _reconstruct(result, source, 0, len(source.columns) if rows is None else rows)


def _reconstruct(
    result: Identification, source: TableInput, begin: int, end: int
) -> Reconstruction:
    hypothesis, recipe = result.hypothesis, result.recipe
    if hypothesis is None or recipe is None:
        raise SchemeArgumentError("No formula makes this table, so there is none beside it.")
    body = source.columns[begin:end]
    columns = hypothesis.arrangement.columns(source.width)
    position = torch.arange(begin, begin + len(body), dtype=torch.float64) - result.padding
    padded = ((position < 0) | source.blank[begin:end]).unsqueeze(1)
    as_identified = recipe.values(hypothesis, position, columns).masked_fill(padded, 0.0)
    exact = hypothesis.values(position, columns).masked_fill(padded, 0.0)
    return Reconstruction(body, as_identified, exact)


class FromExact(NamedTuple):
    """Largest differences from the formula with exact angles: of each column, of all, and where."""

    by_column: Float[Tensor, " c"]
    largest: float
    row: int
    column: int


def from_exact(result: Identification, table: Tensor, sines: Tensor | None = None) -> FromExact:
    """Compare an identified table with its formula, angles right to the last bit.

    Raises SchemeArgumentError for a table that no formula makes.
    """
    source = TableInput.of(table, sines)
    width = source.columns.shape[1]
    by_column = torch.zeros(width, dtype=torch.float64)
    differences = Differences()
    rows = max(1, _BLOCK // width)
    for begin in range(0, len(source.columns), rows):
        part = _reconstruct(result, source, begin, begin + rows)
        off = (part.table - part.exact).abs()
        by_column = torch.maximum(by_column, off.amax(0))
        differences.add(off, part.table, begin)
    return FromExact(by_column, differences.largest, *differences.worst)


def error_sentence(result: Identification, error: FromExact) -> str:
    """Return the largest error of a table against its formula with exact angles, and where it is."""
    if error.largest == 0:
        return "Every number is that of the formula, to the last bit."
    return (
        f"Largest error {error.largest:.3g}, in row {error.row:,}, {_column(result, error.column)}."
    )


def leading_error(result: Identification, error: FromExact | None) -> str:
    """Return the sentence on the largest error, "" if it is float32's last rounding or less."""
    exact = result.dtype in (torch.float32, torch.float64)
    rounded = exact and not (result.has("angles") or result.has("unexplained"))
    return "" if rounded or error is None else error_sentence(result, error)
