"""One prediction of a scheme's cosines and sines, and where rows first and most differ from it.

Numbers belong to a scheme if they are the exact ones, rounded once, or those of code whose angles are
float32.
"""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.frequencies import Frequencies, join_pairs
from posenc.identification.columns import TableInput
from posenc.identification.float32_code import float32_codes
from posenc.identification.frequency_fit import narrowest_format, rounding
from posenc.identification.rotary_modules import Answer
from posenc.schemes.rope import RopeConfig
from posenc.schemes.sinusoidal import SinusoidalConfig
from posenc.tables import cos_sin

TableScheme = SinusoidalConfig | RopeConfig
Match = Literal["exact angles", "float32 arithmetic"]
_BLOCK = 2**20  # numbers that are compared at once


class Way(NamedTuple):
    """A way of computing a scheme in a text of one length: cosines and sines of positions."""

    match: Match
    cos_sin: Callable[[Int[Tensor, " t"]], tuple[Tensor, Tensor]]


class Place(NamedTuple):
    """A number of an answer, and by how much it differs."""

    answer: int
    row: int
    column: int
    amount: float


class Difference(NamedTuple):
    """How answers differ from one way: first by more than is allowed, and most."""

    way: int
    match: Match
    allowed: float
    first: Place
    most: Place


def ways_of(config: TableScheme, length: int) -> list[Way]:
    """Return the ways of computing a scheme in a text of a length, the exact one first."""
    config = config.at_length(length)
    if isinstance(config, SinusoidalConfig):
        frequencies, scale = Frequencies.geometric(config.dim, config.base), 1.0
    else:
        frequencies, scale = config.frequencies(), config.attention_scaling()

    def exact(positions: Int[Tensor, " t"]) -> tuple[Tensor, Tensor]:
        return cos_sin(positions, frequencies, dtype=torch.float64, scale=scale)

    codes = (Way("float32 arithmetic", code.cos_sin) for code in float32_codes(config))
    return [Way("exact angles", exact), *codes]


def allowed_differences(
    answers: Sequence[Answer], config: TableScheme, tolerance: float | None
) -> list[float]:
    """Return by how much numbers may differ from each way that they may match."""
    if tolerance is not None:
        return [tolerance]
    scale = 1.0 if isinstance(config, SinusoidalConfig) else max(1.0, config.attention_scaling())
    latest = 1 + max(int(answer.positions.abs().max()) for answer in answers)
    formats = {narrowest_format(answer.source.columns) for answer in answers}
    exact = min(rounding(stored, latest, scale) for stored in formats)
    if torch.float64 in formats:
        return [exact]
    # Another library rounds cosines differently, and these are themselves rounded.
    float32 = max(exact, 2 * rounding(torch.float32, 0, scale))
    return [exact, *(float32 for _ in ways_of(config, 1)[1:])]


def difference_of(
    answers: Sequence[Answer], config: TableScheme, way: int, allowed: float
) -> Difference | None:
    """Return how answers differ from one way of computing a scheme, None if they match it."""
    ways = [ways_of(config, answer.length)[way] for answer in answers]
    first, most = None, Place(0, 0, 0, 0.0)
    for index, (answer, one) in enumerate(zip(answers, ways, strict=True)):
        size = max(1, _BLOCK // answer.source.columns.shape[1])
        for start in range(0, len(answer.positions), size):
            rows = slice(start, start + size)
            expected = columns_of(config, answer.source, *one.cos_sin(answer.positions[rows]))
            largest, columns = (answer.source.columns[rows] - expected).abs().max(1)
            early, late = (
                Place(index, start + row, int(columns[row]), float(largest[row]))
                for row in (int((largest > allowed).byte().argmax()), int(largest.argmax()))
            )
            if first is None and early.amount > allowed:
                first = early
            most = max(most, late, key=lambda place: place.amount)
    return first and Difference(way, ways[0].match, allowed, first, most)


def columns_of(
    config: TableScheme, source: TableInput, cos: Tensor, sin: Tensor
) -> Float[Tensor, "t c"]:
    """Return cosines and sines in the order of a table's columns, float64."""
    cos, sin = cos.double(), sin.double()
    if isinstance(config, SinusoidalConfig):
        return join_pairs(sin, cos, config.layout)
    if source.width == config.rotary_dim:
        cos, sin = (join_pairs(part, part, config.layout) for part in (cos, sin))
    return torch.cat((cos, sin), 1)
