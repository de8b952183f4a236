"""Deviations of a table from the formula that fits it, and what else its numbers may be."""

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from posenc.identification.columns import TableInput
from posenc.identification.differences import Comparison
from posenc.identification.facts import size_of
from posenc.identification.frequency_fit import Hypothesis
from posenc.identification.positions import Cause, cause_of
from posenc.identification.scalings import USUAL_BASES, ntk_scalings
from posenc.identification.search import SHIFTED_EXPONENTS, Exponent, exponent_powers

_PADDING_TOKEN = 1  # fairseq's padding_idx, whose row it sets to zero
_MOST_LISTED = 5  # scalings that make the same numbers

Kind = Literal[
    "swapped", "wrong pairs", "sign", "exponent", "scale", "size", "start", "angles", "padding",
    "zero rows", "positions", "unexplained",
]  # fmt: skip


@dataclass(frozen=True)
class Deviation:
    """One way in which a table differs from its formula.

    word: of `clauses.deviation_sentence`, which says what the values are.
    """

    kind: Kind
    word: str
    values: tuple[Any, ...] = ()


class UsualBase(NamedTuple):
    """A usual base and the exponent of 1/base that together make the numbers of an unusual base."""

    base: float
    exponent: Exponent


class Alternative(NamedTuple):
    """Another description of the same numbers.

    word: of `table_words.alternative_words`, which says what the values are.
    """

    word: Literal[
        "order", "scaling", "more scalings", "published exponent", "any base", "exponent", "NTK",
    ]  # fmt: skip
    values: tuple[Any, ...] = ()


def usual_base(
    base: float, dim: int, uncertainty: float, candidates: tuple[float, ...] = USUAL_BASES
) -> UsualBase | None:
    """Return a usual base, and its exponent, that make the numbers of another base; None if none does.

    uncertainty: the relative change of the base that makes the same numbers: base 10,001 is not 100
    squared where the numbers separate both.
    """
    close = _closeness(uncertainty)
    for exponent, power in exponent_powers(dim)[1:]:
        for usual in candidates:
            if math.isclose(base, usual**power, rel_tol=close):
                return UsualBase(usual, exponent)
    return None


def _closeness(uncertainty: float) -> float:
    """Return by how much bases may differ that make the same numbers."""
    return min(1e-3, max(1e-9, 2 * uncertainty))


def more_usual_base(base: float, dim: int, uncertainty: float) -> UsualBase | None:
    """Return a more usual base than another, and its exponent, that make the same numbers, or None."""
    more_usual = USUAL_BASES[: USUAL_BASES.index(base)] if base in USUAL_BASES else USUAL_BASES
    return usual_base(base, dim, uncertainty, more_usual)


def is_tensor2tensor(hypothesis: Hypothesis, usual: UsualBase | None) -> bool:
    """Whether these are frequencies and order of Tensor2Tensor, which published models have, too."""
    arrangement = hypothesis.arrangement
    ordered = arrangement.form == "table" and arrangement.order in ("s+c", "c+s")
    return ordered and usual is not None and usual.exponent == "2m/(d - 2)"


def deviations_of(
    comparison: Comparison, dtype: torch.dtype, scaled: bool, usual: UsualBase | None
) -> tuple[Deviation, ...]:
    """Return every way in which a table differs from the formula that fits it.

    dtype: the format of its numbers. scaled: whether the scheme's config contains the scale.
    usual: the usual base with another exponent.
    """
    table, hypothesis, recipe = comparison.table, comparison.hypothesis, comparison.recipe
    arrangement, scale, size = hypothesis.arrangement, abs(hypothesis.scale), hypothesis.size
    deviations: list[Deviation] = []

    def add(kind: Kind, word: str, *values: Any) -> None:
        deviations.append(Deviation(kind, word, values))

    if arrangement.fault:
        add(arrangement.fault, "order", arrangement)
    if hypothesis.scale < 0:
        add("sign", "sign")
    if usual is not None and not is_tensor2tensor(hypothesis, usual):
        add("exponent", "base", hypothesis.base, usual.base, usual.exponent)
    if scale != 1.0 and not scaled:
        if shifted := _shifted_exponent(hypothesis, dim_of(table, hypothesis)):
            add("exponent", "shifted exponent", scale, shifted)
        else:
            add("scale", "scale", scale)
    if hypothesis.config is not None:
        if (wrong := size_of(size, hypothesis.config.attention_scaling(), dtype)) is not None:
            add("size", "attention factor", wrong)
    elif size != 1.0:
        add("size", "size", size)
    if table.padding:
        add("padding", "padding", table.padding)
    if blank := [row for row in table.zeros.nonzero().flatten().tolist() if row >= table.padding]:
        is_token = blank == [_PADDING_TOKEN]
        add("padding" if is_token else "zero rows", "zero rows", len(blank), blank[0], is_token)
    if (cause := cause_of_rows(table.positions)) is not None:
        add("positions", "positions", cause)
    if first := hypothesis.start - table.padding:
        add("start", "start", first)
    if recipe.low:
        add("angles", "angles", recipe)
    beyond = comparison.beyond
    if comparison.rows or comparison.columns:
        outliers = comparison.rows, comparison.columns
        follows = beyond is None
        add("unexplained", "outliers", *outliers, table.width, comparison.largest, follows)
    if beyond is not None:
        where = beyond.row, beyond.column, table.form, table.width
        add("unexplained", "difference", recipe.low, beyond.amount, *where)
    return tuple(deviations)


def cause_of_rows(positions: Int[Tensor, " t"] | None) -> Cause | None:
    """Return why rows do not stand for positions 0, 1, 2 ..., None where they do."""
    return None if positions is None else cause_of(positions, torch.arange(len(positions)))


def dim_of(table: TableInput, hypothesis: Hypothesis) -> int:
    """Return twice the number of pairs of a table."""
    return hypothesis.arrangement.columns(table.columns.shape[1]).dim


def _shifted_exponent(hypothesis: Hypothesis, dim: int) -> Exponent | None:
    """Return the exponent that counts pairs from 1 or 1/2, if that is why all angles are smaller."""
    for exponent, shift in SHIFTED_EXPONENTS:
        if math.isclose(abs(hypothesis.scale), hypothesis.base ** (-shift / dim), rel_tol=1e-5):
            return exponent
    return None


def other_descriptions(
    hypothesis: Hypothesis, dim: int, uncertainty: float, usual: UsualBase | None
) -> tuple[Alternative, ...]:
    """Return other descriptions of the same numbers."""
    base, arrangement = hypothesis.base, hypothesis.arrangement
    if others := hypothesis.others:
        scalings = [Alternative("scaling", (each,)) for each in others[:_MOST_LISTED]]
        more = len(others) - _MOST_LISTED
        return (*scalings, *([Alternative("more scalings", (more,))] if more > 0 else []))
    rope, plain = arrangement.scheme == "rope", hypothesis.config is None
    if is_tensor2tensor(hypothesis, usual):
        return (Alternative("published exponent", (base,)),)
    found = [Alternative("order", (arrangement,))] if arrangement.also and plain else []
    if math.isinf(uncertainty):
        return (*found, Alternative("any base"))
    if other := more_usual_base(base, dim, uncertainty):
        found.append(Alternative("exponent", (other.base, other.exponent)))
    if rope and (shifted := _shifted_exponent(hypothesis, dim)):
        found.append(Alternative("exponent", (base, shifted)))
    if rope and plain and base not in USUAL_BASES:
        scaled = ntk_scalings(dim, base, USUAL_BASES[:3], _closeness(uncertainty))
        found += [Alternative("NTK", (scaling,)) for scaling in scaled]
    return tuple(found)
