"""The recipes by which a scheme's cosines and sines may be computed, and how answers differ from each.

Numbers belong to a scheme if they are the exact ones, rounded once, or those of code whose angles are
float32.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch

from posenc.frequencies import Frequencies
from posenc.identification.columns import ARRANGEMENTS, Columns, TableInput
from posenc.identification.float32_code import float32_codes
from posenc.identification.frequency_fit import (
    by_column,
    narrowest_format,
    one_rounding,
    rounding,
)
from posenc.identification.predict import Allowed, Place, TableRecipe, first_difference
from posenc.identification.rotary_modules import Answer
from posenc.schemes.rope import RopeConfig
from posenc.schemes.sinusoidal import SinusoidalConfig

TableScheme = SinusoidalConfig | RopeConfig
Match = Literal["exact angles", "float32 arithmetic"]
_ORDERS = {(order.order, order.form): order for order in ARRANGEMENTS}


class Way(NamedTuple):
    """A way of computing a scheme, and by how much numbers may differ from it."""

    match: Match
    recipe: TableRecipe
    allowed: Allowed


class AnswersDifference(NamedTuple):
    """Differences of answers from one way, with the answer's number: the first that counts, the most."""

    way: int
    match: Match
    first: tuple[int, Place]
    most: tuple[int, Place]


def ways_of(
    config: TableScheme, source: TableInput, length: int, allowed: Sequence[Allowed]
) -> list[Way]:
    """Return the ways of computing a scheme in a text of a length, the exact one first.

    allowed: for the exact way, and for the others if they count, too.
    """
    config, columns = config.at_length(length), columns_of(config, source)
    if isinstance(config, SinusoidalConfig):
        frequencies, scale = Frequencies.geometric(config.dim, config.base), 1.0
    else:
        frequencies, scale = config.frequencies(), config.attention_scaling()
    exact = TableRecipe(by_column(frequencies.inv_freq, columns), columns.sines, scale)
    ways = [Way("exact angles", exact, allowed[0])]
    for code in float32_codes(config) if len(allowed) > 1 else ():
        recipe = code.recipe(columns)
        ways.append(Way("float32 arithmetic", recipe, allowed[1]))
    return ways


def columns_of(config: TableScheme, source: TableInput) -> Columns:
    """Return what the columns of a scheme's table are."""
    half = config.layout == "half"
    if isinstance(config, SinusoidalConfig):
        order = "s+c" if half else "sc"
    elif source.width == config.rotary_dim and config.rotary_dim > 1:
        order = "c+c+s+s" if half else "cc+ss"
    else:
        order = "c+s"
    return _ORDERS[order, source.form].columns(source.columns.shape[1])


def allowed_differences(
    answers: Sequence[Answer], config: TableScheme, tolerance: float | None
) -> list[Allowed]:
    """Return by how much numbers may differ from exact ones, and from float32 code if that counts."""
    if tolerance is not None:
        return [Allowed(tolerance)]
    scale = 1.0 if isinstance(config, SinusoidalConfig) else max(1.0, config.attention_scaling())
    latest = 1 + max(int(answer.positions.abs().max()) for answer in answers)
    formats = [narrowest_format(answer.source.columns) for answer in answers]
    stored = min(formats, key=lambda dtype: rounding(dtype, 0))  # the widest
    exact = one_rounding(stored, latest, scale)
    if stored == torch.float64:
        return [exact]
    exact = exact._replace(number=exact.number + 2.0**-52 * latest * scale)  # of angles in float64
    # Another library rounds cosines differently, and these are themselves rounded.
    number = max(exact.number, 2 * rounding(torch.float32, 0, scale))
    return [exact, exact._replace(number=number)]


def differences_of(
    answers: Sequence[Answer], config: TableScheme, allowed: Sequence[Allowed]
) -> Match | list[AnswersDifference]:
    """Return the arithmetic that gives every answer, or how they differ from each way of computing."""
    of_answers = [ways_of(config, one.source, one.length, allowed) for one in answers]
    differences = []
    for index, ways in enumerate(zip(*of_answers, strict=True)):
        first: tuple[int, Place] | None = None
        most = (0, Place(0, 0, 0.0))
        for number, (answer, way) in enumerate(zip(answers, ways, strict=True)):
            found = first_difference(
                answer.source.columns, way.recipe, answer.positions, way.allowed
            )
            if found is not None:
                first = first or (number, found.first)
                most = max(most, (number, found.most), key=lambda place: place[1].amount)
        if first is None:
            return ways[0].match
        differences.append(AnswersDifference(index, ways[0].match, first, most))
    return differences
