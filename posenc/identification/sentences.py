"""Sentences and a record of a table: the formula that makes it, deviations, and whether a model has it."""

import math
from typing import Any

import torch

from posenc.identification.clauses import (
    cause_clause,
    deviation_sentence,
    mistake_clause,
    size_clause,
)
from posenc.identification.columns import column_words
from posenc.identification.deviations import cause_of_rows, is_tensor2tensor
from posenc.identification.differences import Differences
from posenc.identification.facts import ModelMatch, SchemeMatch
from posenc.identification.frequency_fit import Hypothesis, is_round
from posenc.identification.identify import FITS, Identification
from posenc.identification.positions import UNKNOWN
from posenc.identification.rotated import RotationMatch
from posenc.identification.rotation_words import layout_words
from posenc.identification.scalings import scaling_words
from posenc.identification.table_words import (
    alternative_words,
    angle_words,
    order_words,
    recipe_words,
)
from posenc.identification.waves import EARLIEST_START, LATEST_START
from posenc.schemes.base import SchemeConfig
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling.base import ScaledRopeConfig
from posenc.text import count_of, significant

_TIMESTEP_BASE = 10_000.0  # the only base of diffusion models


def headline(result: Identification, *, count: bool = True) -> str:
    """Return what a table is, in one sentence. count: whether it counts the deviations."""
    if result.constant is not None:
        return f"No known formula: every number of this table is {result.constant:.6g}."
    if result.hypothesis is None or result.arrangement is None:
        return (
            f"No known formula makes this {result.rows:,} x {result.width:,} table: the nearest sinusoidal "
            f"table or rotary cache, its first row at any position from {EARLIEST_START} to "
            f"{LATEST_START:,}, differs from it by {min(1.0, result.residual):.0%} of its size."
        )
    named = ("padding", "positions")
    faults = sum(deviation.kind not in named for deviation in result.deviations)
    but = f"; {count_of(faults, 'deviation')} found" if faults and count else ""
    for each in result.also:
        if each.word == "order":
            but = f", or {alternative_words(each)}{but}"
    cause = cause_of_rows(result.positions)
    what = f"{scheme_name(result)}, base {base_words(result)}, {order_words(result.arrangement)}"
    if cause is not None:
        return f"{what}{but}; {cause_clause(cause)}."
    return f"{what}, from position {result.hypothesis.start:,}{but}."


def deviation_sentences(result: Identification) -> list[str]:
    """Return each deviation that the headline does not name."""
    return [deviation_sentence(each) for each in result.deviations if each.kind != "positions"]


def alternative_sentences(result: Identification) -> list[str]:
    """Return what else the numbers may be, each as a sentence."""
    return [f"It may also be {alternative_words(each)}." for each in result.also]


def scheme_name(result: Identification) -> str:
    """Return the name of an identified table; if two uses make the same numbers, both."""
    assert result.hypothesis is not None
    hypothesis = result.hypothesis
    cosines_first = hypothesis.arrangement.order == "c+s" and hypothesis.arrangement.form == "table"
    if is_tensor2tensor(hypothesis, result.usual_base):
        if cosines_first:
            return "Tensor2Tensor's sinusoidal, cosines first (flip_sin_to_cos in diffusers)"
        return "Tensor2Tensor's sinusoidal (as in Whisper, M2M100 and DDPM)"
    if result.config is not None:
        name = result.config.label
    else:
        name = "Sinusoidal" if hypothesis.arrangement.scheme == "sinusoidal" else "RoPE"
    if isinstance(result.config, RopeConfig) and (words := scaling_words(result.config)):
        name += f" ({words})"
    if cosines_first:
        name += " cache in one tensor (as in vLLM)"
        if hypothesis.base == _TIMESTEP_BASE and hypothesis.config is None:
            name += " or timestep embedding with flip_sin_to_cos (as in Stable Diffusion)"
    return name


def shown_base(result: Identification) -> float:
    """Return the base of the exponent 2m/d, with as many digits as the table shows."""
    assert result.hypothesis is not None
    if is_round(result.hypothesis.base):
        return result.hypothesis.base
    digits = 12
    if 1e-12 <= result.base_within < math.inf:
        digits = min(12, max(2, math.ceil(-math.log10(result.base_within))))
    return float(f"{result.hypothesis.base:.{digits}g}")


def base_words(result: Identification) -> str:
    """Return the base with as many digits as the table shows, or a usual one with its exponent."""
    if result.usual_base is not None:
        return f"{significant(result.usual_base.base, 6)} with the exponent {result.usual_base.exponent}"
    if math.isinf(result.base_within):
        return "of any size"
    return f"{shown_base(result):,.12g}"


def fit_sentence(result: Identification) -> str:
    """Return how near the formula comes."""
    if result.hypothesis is None:
        return f"A table matches a formula if the residual is under {FITS:.0%} of its size."
    dtype = _dtype_name(result)
    low = result.recipe is not None and result.recipe.low
    if result.largest == 0:
        means = ""
        if result.recipe is not None and low:  # the largest error is against exact angles
            means = f" with {angle_words(result.recipe)}"
        return f"The formula{means} makes exactly these numbers, to the last bit ({dtype})."
    subject = "With these angles, the largest difference is" if low else "Largest difference"
    row, column = result.worst
    return (
        f"{subject} {significant(result.largest, 2)} (row {row:,}, {_column(result, column)}), "
        f"root mean square {significant(result.residual, 2)} of the table's size; its numbers are {dtype}."
    )


def _column(result: Identification, column: int) -> str:
    form = "table" if result.arrangement is None else result.arrangement.form
    return column_words(form, result.width, column)


def _dtype_name(result: Identification) -> str:
    return str(result.dtype).removeprefix("torch.")


def _first_position(result: Identification, hypothesis: Hypothesis) -> int | None:
    """Return the position of row 0, None if it stands for none."""
    if result.positions is None:
        return hypothesis.start - result.padding
    first = int(result.positions[0])
    return None if first == UNKNOWN else first


def record(result: Identification) -> dict[str, Any]:
    """Return the whole result as JSON values."""
    hypothesis, arrangement, known = result.hypothesis, result.arrangement, result.known
    return {
        "identified": headline(result),
        "config": None if result.config is None else result.config.record(),
        "arrangement": None if arrangement is None else order_words(arrangement),
        "layout": None if arrangement is None else arrangement.layout,
        "base": None if hypothesis is None else hypothesis.base,
        "base_within": None if math.isinf(result.base_within) else result.base_within,
        "start": None if hypothesis is None else _first_position(result, hypothesis),
        "scale": None if hypothesis is None else abs(hypothesis.scale),
        "size": None if hypothesis is None else hypothesis.size,
        "sense": None if hypothesis is None else int(math.copysign(1, hypothesis.scale)),
        "angles": None if result.recipe is None else recipe_words(result.recipe),
        "format": _dtype_name(result),
        "rows": result.rows,
        "width": result.width,
        "residual": result.residual,
        "largest_difference": result.largest if known else None,
        "row": result.worst[0] if known else None,
        "column": result.worst[1] if known else None,
        "deviations": [
            {"kind": each.kind, "sentence": deviation_sentence(each)} for each in result.deviations
        ],
        "also": [alternative_words(each) for each in result.also],
    }


def error_sentence(result: Identification, error: Differences) -> str:
    """Return the largest error of a table against its formula with exact angles, and where it is."""
    if error.largest == 0:
        return "Every number is that of the formula, to the last bit."
    row, column = error.worst
    return f"Largest error {significant(error.largest)}, in row {row:,}, {_column(result, column)}."


def leading_error(result: Identification, error: Differences | None) -> str:
    """Return the sentence on the largest error, "" if it is float32's last rounding or less."""
    inexact = {"angles", "unexplained"} & {deviation.kind for deviation in result.deviations}
    rounded = result.dtype in (torch.float32, torch.float64) and not inexact
    return "" if rounded or error is None else error_sentence(result, error)


def cause_sentence(match: SchemeMatch) -> str:
    """Return what is wrong with a table, "" if nothing is or no reason is known."""
    if match.low_angles is not None:
        name = str(match.low_angles.dtype).removeprefix("torch.")
        largest = significant(match.low_angles.largest)
        return (
            f"Its angles are rounded to {name}: the largest error is {largest}, and numbers are wrong from "
            f"row {match.low_angles.row:,} on."
        )
    clauses = []
    if match.wrong_layout:
        clauses.append(
            "its layout is not that of the model: its columns are repeated in neighbours, the model's in "
            "halves"
        )
    clauses += [
        text
        for text in (
            match.mistake and mistake_clause(match.mistake),
            match.size and size_clause(match.size),
            match.cause and cause_clause(match.cause),
        )
        if text
    ]
    if not clauses:
        return ""
    text = ", and ".join(clauses)
    if match.until:
        where = f"rows {match.since:,} to {match.until - 1:,}" if match.since > 1 else (
            f"the first {match.until:,} rows"
        )  # fmt: skip
        return f"In {where}, {text}."
    if match.since:
        return f"From row {match.since:,} on, {text}."
    return f"{text[:1].upper()}{text[1:]}."


def difference_sentence(match: SchemeMatch) -> str:
    """Return where a table differs first from a scheme, "" if nowhere."""
    if not match.first:
        count, pairs = match.columns, match.scheme.rotary_dim // 2
        return "" if match.belongs else (
            f"It has {count_of(count, 'column')} of cosines and sines, which {pairs:,} pairs (width "
            f"{2 * pairs:,}) do not make."
        )  # fmt: skip
    row, amount = match.first.fastest.row, significant(match.first.fastest.amount)
    return f"It differs first in row {row:,}, pair {match.pair:,}, by {amount}."


def reordering_sentence(match: SchemeMatch) -> str:
    """Return what code must do with a cache in halves of a scheme that pairs neighbours, else ""."""
    if not match.reordered:
        return ""
    return (
        "The model pairs neighbours, and the columns are repeated in halves: the code that uses them must "
        "reorder, as that of GLM and DeepSeek in transformers does."
    )


def match_sentences(match: ModelMatch, result: Identification | None) -> list[str]:
    """Return whether a table belongs to a model, the cause first where it does not.

    result: what the table is, if that was looked for.
    """
    layers = {
        name: f"{_kind(name)} have {_rotation(scheme)}" for name, scheme in match.schemes.items()
    }
    if match.belonging is not None:
        one = match.matches[match.belonging]
        single = one.arithmetic == "float32 arithmetic"
        return [
            f"This table belongs to the model: its {layers[match.belonging]}.",
            *([note] if (note := reordering_sentence(one)) else []),
            *(["Its angles are float32, as transformers computes them."] if single else []),
        ]
    nearest, several = match.nearest, len(match.schemes) > 1
    causes = [
        _against(name, sentence, several)
        for name, one in match.matches.items()
        if one is nearest and (sentence := cause_sentence(one))
    ]
    halves = all(getattr(scheme, "layout", "half") == "half" for scheme in match.schemes.values())
    width = "" if result is None else _width(result, halves=halves)
    own = "; its ".join(layers.values())
    different = "This table does not belong to the model: "
    if result is not None and result.config in match.schemes.values():
        belongs = f"{different}width and base are the model's, the numbers are not."
    else:
        belongs = f"{different}{width}the model's {own}."
    faults = [
        _against(name, sentence, several)
        for name, one in match.matches.items()
        for sentence in (
            "" if one is nearest else cause_sentence(one),
            _other_width(one, result) or difference_sentence(one),
        )
        if sentence
    ]
    return [*causes, belongs, *faults]


def rotation_sentences(match: RotationMatch, result: Identification | None) -> list[str]:
    """Return whether layers of a model rotate like vectors, the cause first where they do not."""
    tables = match.tables
    if match.permuted:
        return ["These vectors are not those of the model: its features stay in their places."]
    if tables is None or (match.belongs and tables.nearest is None):
        return ["These vectors are not those of the model's RoPE."]
    if match.start and not match.wrong_layouts:
        name = next(name for name, one in tables.matches.items() if one is tables.nearest)
        return [f"The model's {_kind(name)} rotate like this, from position {match.start:,} on."]
    if match.wrong_layouts:
        expected = " or ".join(layout_words(each, match.features) for each in match.wrong_layouts)
        wrong = f"These vectors have the wrong layout: the model pairs {expected}."
        right = tables.belongs or match.start
        return [wrong] if right else [wrong, *match_sentences(tables, result)]
    if match.other_way:
        return [
            "These vectors turn the other way: the model turns each pair by minus the angle of its "
            "position."
        ]
    return match_sentences(tables, result)


def _against(name: str, sentence: str, several: bool) -> str:
    return (
        f"Against its {_kind(name)}, {sentence[0].lower()}{sentence[1:]}" if several else sentence
    )


def _kind(name: str) -> str:
    return "layers" if name == "all" else f"{name.replace('_', ' ')} layers"


def _width(result: Identification, *, halves: bool) -> str:
    """Return what a table has, "" where it is not identified. halves: whether the model pairs halves."""
    if result.arrangement is None:
        return ""
    other = halves and result.arrangement.layout == "interleaved"
    layout = ", with columns repeated in neighbours" if other else ""
    if isinstance(result.config, ScaledRopeConfig):
        return f"it has {_rotation(result.config)}{layout}; "
    return f"it has width {result.pairs * 2:,} and base {base_words(result)}{layout}; "


def _other_width(match: SchemeMatch, result: Identification | None) -> str:
    """Return a sentence on a table that rotates another width than a scheme, "" for the same."""
    if result is None or result.arrangement is None or 2 * result.pairs == match.scheme.rotary_dim:
        return ""
    scheme, width = match.scheme, 2 * result.pairs
    share = f", the first of {scheme.dim:,} features" if scheme.rotary_dim < scheme.dim else ""
    return (
        f"It rotates {count_of(width // 2, 'pair')} of features (width {width:,}), and the model rotates "
        f"{scheme.rotary_dim // 2:,} (width {scheme.rotary_dim:,}{share})."
    )


def _rotation(scheme: SchemeConfig | None) -> str:
    if not isinstance(scheme, RopeConfig):
        return "no RoPE"
    scaling = f" ({words})" if (words := scaling_words(scheme)) else ""
    width, base = scheme.rotary_dim, f"{scheme.base:,.10g}"
    return f"{scheme.label} of width {width:,} and base {base}{scaling}"
