"""Whether a table belongs to a scheme or a model, and if not, what is wrong with it and where."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from posenc.identification.columns import ARRANGEMENTS, Arrangement, Columns, TableInput
from posenc.identification.corrected import CORRECTED, corrected_code, scheme_code
from posenc.identification.deviations import compare, same_size, size_words
from posenc.identification.frequency_fit import (
    ANGLE_ERROR,
    EXACT,
    RECIPES,
    Hypothesis,
    Recipe,
    by_column,
    narrowest_format,
    rounding,
)
from posenc.identification.identify import Identification, base_words
from posenc.identification.scalings import changed_scalings, scaling_words
from posenc.limits import MAX_POSITION
from posenc.schemes.base import SchemeConfig
from posenc.schemes.rope import RopeConfig, rope_frequencies
from posenc.schemes.rope_scaling.base import ScaledRopeConfig
from posenc.text import count_of

_CLOSE = 1e-6  # relative difference of frequencies that are one
_SAMPLED_ROWS = 256
_COMPARED_ROWS = 16  # before all rows are
_BLOCK = 2**20  # numbers of the table that are compared at once


class ModelMatch(NamedTuple):
    """Whether a table belongs to a model, and a sentence on it.

    code: makes the model's table where this one deviates, "" else. exact: whether the table is the model's
    up to rounding and the error of float32 angles.
    """

    belongs: bool
    sentence: str
    code: str = ""
    exact: bool = False


def match_model(
    result: Identification,
    schemes: Mapping[str, SchemeConfig | None],
    table: Tensor,
    sines: Tensor | None = None,
) -> ModelMatch:
    """Return whether layers of a model rotate by a table, what is wrong if none do, and correct code.

    schemes: of each kind of layer, by its name. table, sines: as `identify` took them.
    """
    source = TableInput.of(table, sines)
    count, dim, width = source.columns.shape[1], None, ""
    if result.arrangement is not None:
        dim = result.arrangement.columns(count).dim
        width = f"it has width {dim:,} and base {base_words(result)}; "
        if isinstance(result.config, ScaledRopeConfig):
            width = f"it has {_rotation(result.config)}; "
    layers, faults, code = [], [], ""
    for name, scheme in schemes.items():
        kind = "layers" if name == "all" else f"{name.replace('_', ' ')} layers"
        text = f"{kind} have {_rotation(scheme)}"
        if isinstance(scheme, RopeConfig):
            orders, fault = _orders(scheme, source), ""
            if result.recipe is not None and result.recipe.in_16_bits:
                fault = difference_from(scheme, source, arrangement=result.arrangement)
            if not fault and not _rotates_by(scheme, result, source):
                fault = _shifted_or_scaled(scheme, result, source) or difference_from(
                    scheme, source, arrangement=result.arrangement
                )
            order = _order_of_code(scheme, result.arrangement, orders, source)
            if not fault:
                match = f"This table belongs to the model: its {text}."
                match += reordering_note(scheme, result.arrangement, source)
                if not result.deviations or not difference_from(scheme, source):
                    return ModelMatch(True, match + _float32_note(result), exact=True)
                code = (
                    scheme_code(scheme.at_length(result.rows), result.rows, order) if order else ""
                )
                return ModelMatch(True, f"{match} It has deviations.", code)
            if dim not in (None, scheme.rotary_dim):
                fault = _other_width(scheme, dim)
            if scheme.build().stationary:
                lower = f"{fault[0].lower()}{fault[1:]}"
                faults.append(f"Against its {kind}, {lower}" if len(schemes) > 1 else fault)
                if order is not None and not code:
                    code = scheme_code(scheme.at_length(result.rows), result.rows, order)
        layers.append(text)
    sentence = (
        f"This table does not belong to the model: {width}the model's {'; its '.join(layers)}."
    )
    return ModelMatch(False, " ".join((sentence, *faults)), code)


def code_by_title(result: Identification, match: ModelMatch | None) -> dict[str, str]:
    """Return the corrected code of a table by title: of the model's table, if a model was compared."""
    if match is None:
        return corrected_code(result)
    return {CORRECTED: match.code} if match.code else {}


def _order_of_code(
    scheme: RopeConfig,
    arrangement: Arrangement | None,
    orders: Sequence[Arrangement],
    source: TableInput,
) -> Arrangement | None:
    """Return the order of columns of a scheme's cache: the table's own, unless it is wrong."""
    if (
        arrangement is not None
        and arrangement.scheme == "rope"
        and not arrangement.fault
        and not _has_wrong_layout(scheme, arrangement, source)
    ):
        return arrangement
    return orders[0] if orders else None


def _other_width(scheme: RopeConfig, dim: int) -> str:
    """Return a sentence on a table that rotates another width than a scheme."""
    share = f", the first of {scheme.dim:,} features" if scheme.rotary_dim < scheme.dim else ""
    return (
        f"It rotates {count_of(dim // 2, 'pair')} of features (width {dim:,}), and the model rotates "
        f"{scheme.rotary_dim // 2:,} (width {scheme.rotary_dim:,}{share})."
    )


def _float32_note(result: Identification) -> str:
    is_float32 = result.recipe is not None and result.recipe.angle == torch.float32
    angles = any(deviation.kind == "angles" for deviation in result.deviations)
    return (
        " Its angles are float32, as transformers computes them." if is_float32 and angles else ""
    )


def _rotation(scheme: SchemeConfig | None) -> str:
    if not isinstance(scheme, RopeConfig):
        return "no RoPE"
    scaling = f" ({words})" if (words := scaling_words(scheme)) else ""
    width, base = scheme.rotary_dim, f"{scheme.base:,.10g}"
    return f"{scheme.label} of width {width:,} and base {base}{scaling}"


def _rotates_by(scheme: RopeConfig, result: Identification, source: TableInput) -> bool:
    """Whether a scheme has the frequencies and the size of an identified table, as far as it shows."""
    hypothesis = result.hypothesis
    wrong = {"swapped", "wrong pairs", "sign", "start"} & {each.kind for each in result.deviations}
    if hypothesis is None or wrong or _has_wrong_layout(scheme, hypothesis.arrangement, source):
        return False
    columns = hypothesis.arrangement.columns(source.columns.shape[1])
    if scheme.rotary_dim != columns.dim:
        return False
    frequencies, factor = rope_frequencies(scheme, length=result.rows)
    expected = by_column(frequencies, columns)
    difference = (hypothesis.frequencies(columns).abs() - expected).abs()
    tolerance = max(_CLOSE, 2 * result.base_within)
    return bool((difference <= tolerance * expected).all()) and same_size(
        abs(hypothesis.size), factor, result.dtype
    )


def _shifted_or_scaled(scheme: RopeConfig, result: Identification, source: TableInput) -> str:
    """Return how a table's rows or all its frequencies differ from a scheme's by one number, or ""."""
    hypothesis = result.hypothesis
    if hypothesis is None or result.padding or not _orders(scheme, source):
        return ""
    if _has_wrong_layout(scheme, hypothesis.arrangement, source):
        return ""
    start = hypothesis.start
    if start and not difference_from(scheme, source, start):
        return (
            f"Its rows are the model's from position {start:,} on: row 0 is position {start:,}, and in a "
            "cache it is position 0."
        )
    columns = hypothesis.arrangement.columns(source.columns.shape[1])
    if columns.dim != scheme.rotary_dim:
        return ""
    expected = by_column(rope_frequencies(scheme, length=result.rows)[0], columns)
    ratio = hypothesis.frequencies(columns) / expected
    if start or not bool((ratio / ratio[0] - 1).abs().max() <= 2 * max(_CLOSE, result.base_within)):
        return ""
    factor = f"{1 / float(ratio[0]):.4g}"
    if float(factor) <= 1:
        return ""
    return (
        f"Every frequency is the model's divided by {factor}, as linear scaling by {factor} does."
    )


def difference_from(
    scheme: RopeConfig, source: TableInput, start: int = 0, arrangement: Arrangement | None = None
) -> str:
    """Return what is wrong with a cache of a scheme and where first, in sentences; "" if nothing is.

    Numbers may have the error of float32 angles. start: the position of the first row. arrangement: the
    order of the columns, if it is known.
    """
    all_orders = _orders(scheme, source)
    if not all_orders:
        return (
            f"It has {count_of(source.columns.shape[1], 'column')} of cosines and sines, which "
            f"{scheme.rotary_dim // 2:,} pairs (width {scheme.rotary_dim:,}) do not make."
        )
    orders = [order for order in all_orders if not _has_wrong_layout(scheme, order, source)]
    wrong_orders = [order for order in all_orders if order not in orders]
    rows, dtype = len(source.columns), narrowest_format(source.columns)
    expected, factor = rope_frequencies(scheme, length=rows)
    words = _explained(scheme, expected, factor, source, dtype, orders, start)
    if words is not None:
        return f"{words[0].upper()}{words[1:]}." if words else ""
    if words := _rounded_angles(scheme, source, orders, start):
        return words
    if arrangement is not None and arrangement in wrong_orders:  # cosines are compared with cosines
        functions = arrangement.order.replace("+", "")
        orders = [order for order in orders if order.order.replace("+", "") == functions]
    wrong = min(
        filter(
            None, (_first_wrong(source, dtype, each, expected, factor, start) for each in orders)
        ),
        key=lambda place: place.share,
    )
    sentence = (
        f"It differs first in row {wrong.row:,}, pair {wrong.pair:,}, by {wrong.difference:.3g}"
    )
    words = _explained(scheme, expected, factor, source, dtype, wrong_orders, start)
    if words is not None or arrangement in wrong_orders:
        also = f", and {words}" if words else ""
        return (
            f"Its layout is not that of the model: its columns are repeated in neighbours, the model's in "
            f"halves{also}. {sentence}."
        )
    if 0 < wrong.row < rows - 2:
        tail = replace(
            source, columns=source.columns[wrong.row :], zeros=source.zeros[wrong.row :], padding=0
        )
        at = start + wrong.row
        if words := _explained(scheme, expected, factor, tail, dtype, [wrong.order], at):
            return f"{sentence}: from there on, {words}."
    return f"{sentence}."


def _has_wrong_layout(scheme: RopeConfig, order: Arrangement, source: TableInput) -> bool:
    """Whether the columns are repeated in neighbours, where the scheme pairs halves.

    Halves under a scheme that pairs neighbours are not wrong as such: see `reordering_note`.
    """
    return scheme.layout == "half" and _other_layout(scheme, order, source)


def _other_layout(scheme: RopeConfig, order: Arrangement, source: TableInput) -> bool:
    # Of a single pair, both layouts are the same.
    is_repeated = order.scheme == "rope" and order.layout is not None
    several = order.columns(source.columns.shape[1]).dim > 2
    return is_repeated and several and order.layout != scheme.layout


def reordering_note(scheme: RopeConfig, arrangement: Arrangement | None, source: TableInput) -> str:
    """Return a sentence on a cache in halves of a scheme that pairs neighbours, else "".

    transformers has such caches: its GLM code repeats the first half itself, and its DeepSeek code moves
    the features into halves.
    """
    if arrangement is None or scheme.layout == "half":
        return ""
    if not _other_layout(scheme, arrangement, source):
        return ""
    return (
        " The model pairs neighbours, and the columns are repeated in halves: the code that uses them must "
        "reorder, as that of GLM and DeepSeek in transformers does."
    )


def _explained(
    scheme: RopeConfig,
    expected: Float[Tensor, " p"],
    factor: float,
    source: TableInput,
    dtype: torch.dtype,
    orders: Sequence[Arrangement],
    start: int,
) -> str | None:
    """Return clauses on the mistakes that make a table, "" for none, None where they do not explain it."""
    rows = _sampled_rows(source)
    for frequencies, own_factor, words in _variants(scheme, expected, factor, len(source.columns)):
        for order in orders:
            size = _size(source, order, frequencies, start)
            # Most mistakes show in a few rows, which take less time than all.
            if _is_wrong(source, dtype, order, frequencies, size, start, rows).any():
                continue
            if _first_wrong(source, dtype, order, frequencies, size, start) is None:
                return " and ".join(filter(None, (words, size_words(size, own_factor, dtype))))
    return None


def _rounded_angles(
    scheme: RopeConfig, source: TableInput, orders: Sequence[Arrangement], start: int
) -> str:
    """Return a sentence on a table whose angles are rounded to 16 bits, "" if they are not."""
    config, dtype = scheme.at_length(len(source.columns)), narrowest_format(source.columns)
    inv_freq, factor = rope_frequencies(config)
    recipes = [recipe for recipe in RECIPES if recipe.angle in (torch.bfloat16, torch.float16)]
    for recipe, order in itertools.product(recipes, orders):
        rounded = recipe if config.in_transformers else replace(recipe, frequencies="exact")
        hypothesis = Hypothesis(order, scheme.base, start=start, size=factor, config=config)
        if not _made_by(hypothesis, rounded, source):
            continue
        first = _first_wrong(source, dtype, order, inv_freq, factor, start)
        if first is not None:
            name = str(recipe.angle).removeprefix("torch.")
            return (
                f"Its angles are rounded to {name}: the largest error is "
                f"{compare(source, hypothesis, EXACT).all.largest:.3g}, and numbers are wrong from row "
                f"{first.row:,} on."
            )
    return ""


def _made_by(hypothesis: Hypothesis, recipe: Recipe, source: TableInput) -> bool:
    """Whether a formula and a way of rounding make a table; its numbers may have as many bits less."""
    allowed = 2 * rounding(recipe.angle, 0, hypothesis.size)
    columns = hypothesis.arrangement.columns(source.columns.shape[1])
    return all(
        bool(
            (recipe.values(hypothesis, rows.double(), columns) - source.columns[rows])
            .abs().max() <= allowed
        )
        for rows in (_sampled_rows(source), *_blocks(source))
    )  # fmt: skip


def _sampled_rows(source: TableInput) -> Int[Tensor, " n"]:
    rows = len(source.columns)
    return torch.linspace(0, rows - 1, min(rows, _COMPARED_ROWS)).round().long()


def _orders(scheme: RopeConfig, source: TableInput) -> list[Arrangement]:
    """Return the orders of columns that a cache of a scheme may have, that of its layout first."""
    count = source.columns.shape[1]
    orders = [
        order
        for order in ARRANGEMENTS
        if order.scheme == "rope" and not order.fault and order.form == source.form
        and order.fits(count) and order.columns(count).dim == scheme.rotary_dim
    ]  # fmt: skip
    return sorted(orders, key=lambda order: order.layout != scheme.layout)


def _variants(
    scheme: RopeConfig, expected: Float[Tensor, " p"], factor: float, rows: int
) -> Iterator[tuple[Float[Tensor, " p"], float, str]]:
    """Yield a scheme's frequencies and factor, then those of mistakes, with a clause on each.

    The mistakes are those of public code, and other numbers of the scaling.
    """
    for frequencies, words in _mistakes(scheme, expected, rows):
        yield frequencies, factor, words
    for other, words in changed_scalings(scheme):
        frequencies = other.at_length(rows).unscaled().inv_freq / other.at_length(rows).divisors()
        if not torch.equal(frequencies, expected):
            yield frequencies, other.attention_scaling(), words


def _mistakes(
    scheme: RopeConfig, expected: Float[Tensor, " p"], rows: int
) -> Iterator[tuple[Float[Tensor, " p"], str]]:
    """Yield a scheme's frequencies, then those that mistakes in public code make, with a clause on each."""
    yield expected, ""
    pairs = len(expected)
    exponents = torch.arange(pairs, dtype=torch.float64) / pairs
    plain = scheme.base**-exponents
    if not torch.equal(expected, plain):
        scaling = scheme.words or scheme.label
        yield plain, f"the frequencies are not scaled, where the scheme has {scaling}"
        yield expected.square() / plain, f"the frequencies are scaled twice by {scaling}"
        if (factor := getattr(scheme, "factor", None)) is not None:
            yield (
                plain / factor,
                f"every frequency is divided by {factor:g}, where the scheme has {scaling}",
            )
    for length in (1, MAX_POSITION):
        other, _ = rope_frequencies(scheme, length=length)
        if not torch.equal(other, expected):
            texts = "short" if length == 1 else "long"
            yield other, f"the frequencies are those of {texts} texts, not of {rows:,} tokens"
    if scheme.rotary_dim < scheme.dim:
        yield (
            scheme.base ** (-exponents * scheme.rotary_dim / scheme.dim),
            f"the exponents are 2m/{scheme.dim}, of the whole head, in place of 2m/{scheme.rotary_dim}",
        )
    for dtype in (torch.bfloat16, torch.float16):
        name = str(dtype).removeprefix("torch.")
        yield expected.to(dtype).double(), f"the frequencies are rounded to {name}"


def _size(
    source: TableInput, order: Arrangement, frequencies: Float[Tensor, " p"], start: int
) -> float:
    """Return the factor of all sines and cosines; of cosines and sines, whatever the frequencies are."""
    rows = (~source.zeros).nonzero().flatten()
    if source.form == "table" and len(rows):  # by least squares
        rows = rows[:: -(-len(rows) // _SAMPLED_ROWS)]
        values = _values(order, frequencies, rows + start, source.columns.shape[1])
        power = float(values.square().sum())
        return float((values * source.columns[rows]).sum()) / power if power else 1.0
    if not len(rows):
        return 0.0
    return math.sqrt(2 * float(source.columns[rows].square().mean()))


def _values(
    order: Arrangement, frequencies: Float[Tensor, " p"], positions: Int[Tensor, " t"], count: int
) -> Float[Tensor, "t c"]:
    columns = order.columns(count)
    angles = positions.double().unsqueeze(1) * by_column(frequencies, columns)
    return torch.where(columns.sines, angles.sin(), angles.cos())


class _Wrong(NamedTuple):
    """The first row that differs, its fastest pair that does, by how much; share: of its block."""

    order: Arrangement
    row: int
    pair: int
    difference: float
    share: float


def _first_wrong(
    source: TableInput,
    dtype: torch.dtype,
    order: Arrangement,
    frequencies: Float[Tensor, " p"],
    size: float,
    start: int,
) -> _Wrong | None:
    """Return where a table first differs from these frequencies by more than rounding, None if nowhere.

    dtype: the narrowest format of the table's numbers.
    """
    columns: Columns = order.columns(source.columns.shape[1])
    for rows in _blocks(source):
        wrong = _is_wrong(source, dtype, order, frequencies, size, start, rows)
        if bool(wrong.any()):
            at = int(wrong.any(1).nonzero()[0])
            row = int(rows[at])
            column = torch.where(wrong[at], columns.exponents, 2.0).argmin()
            pair = round(float(columns.exponents[column]) * len(frequencies))
            values = size * _values(
                order, frequencies, rows[at : at + 1] + start, len(columns.sines)
            )
            off = float((source.columns[row, column] - values[0, column]).abs())
            return _Wrong(order, row, pair, off, float(wrong.double().mean()))
    return None


def _blocks(source: TableInput) -> Sequence[Int[Tensor, " n"]]:
    rows, width = source.columns.shape
    return torch.arange(rows).split(max(1, _BLOCK // width))


def _is_wrong(
    source: TableInput,
    dtype: torch.dtype,
    order: Arrangement,
    frequencies: Float[Tensor, " p"],
    size: float,
    start: int,
    rows: Int[Tensor, " n"],
) -> Bool[Tensor, "n c"]:
    """Return which numbers of rows differ from these frequencies by more than rounding."""
    columns = order.columns(source.columns.shape[1])
    least = 4 * rounding(dtype, 0, max(abs(size), 1.0)) + 2e-6
    angles = (rows.double() + start).unsqueeze(1) * by_column(frequencies, columns)
    values = size * torch.where(columns.sines, angles.sin(), angles.cos())
    return (source.columns[rows] - values).abs() > least + ANGLE_ERROR * abs(size) * angles.abs()
