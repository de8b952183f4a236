"""Facts of a comparison: what a table is, beside one scheme and beside the layers of a model."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from posenc.identification.frequency_fit import rounding
from posenc.identification.positions import Cause
from posenc.identification.predict import Difference
from posenc.identification.variants import Mistake
from posenc.schemes.base import SchemeConfig
from posenc.schemes.rope import RopeConfig

Arithmetic = Literal["exact angles", "float32 arithmetic", "near float32"]
_CLOSE_SIZE = 2e-3  # relative difference of attention factors that are one


class Size(NamedTuple):
    """The factor of all sines and cosines, and the attention factor that was expected.

    word: "missing", "twice", "multiplied", or "both" with the scheme's own factor beside that of a mistake.
    """

    word: Literal["missing", "twice", "both", "multiplied"]
    size: float
    factor: float
    own: float
    digits: int  # of the size that the format of the numbers shows


def size_of(
    size: float, factor: float, dtype: torch.dtype, own: float | None = None
) -> Size | None:
    """Return what is wrong with the factor of all numbers, None if it is the attention factor.

    own: the scheme's, where `factor` is that of a mistake.
    """
    own = factor if own is None else own

    def is_size(other: float) -> bool:
        return math.isclose(size, other, rel_tol=max(_CLOSE_SIZE, rounding(dtype, 0)))

    if is_size(factor):
        return None
    word: Literal["missing", "twice", "both", "multiplied"] = "multiplied"
    if own != factor and own != 1.0 and is_size(own * factor):
        word = "both"
    elif is_size(1.0):
        word = "missing"
    elif is_size(factor**2):
        word = "twice"
    return Size(word, size, factor, own, 3 if dtype in (torch.bfloat16, torch.float16) else 4)


class LowAngles(NamedTuple):
    """Angles in 16 bits: their format, the largest error, and the first row that is wrong."""

    dtype: torch.dtype
    largest: float
    row: int


@dataclass(frozen=True, eq=False)
class SchemeMatch:
    """The comparison of a table with one scheme.

    expected, positions (t,): of the rows, and those recovered where they differ. belongs: whether every
    number is the scheme's, up to rounding and the error of float32 angles. arithmetic: of the numbers, if
    it belongs. mistake: of frequencies or columns, None for none. size, low_angles, cause: other mistakes.
    wrong_layout: whether columns are repeated in neighbours, the scheme's in halves. reordered: whether
    they are repeated in halves, the scheme's in neighbours, which code may reorder. first: where numbers
    differ first; pair: of the fastest of these; `mistake` and `size` begin at row `since`, and end before
    row `until` unless that is 0.
    """

    scheme: RopeConfig
    expected: Int[Tensor, " t"]
    belongs: bool = False
    arithmetic: Arithmetic = "near float32"
    mistake: Mistake | None = None
    size: Size | None = None
    low_angles: LowAngles | None = None
    cause: Cause | None = None
    positions: Int[Tensor, " t"] | None = None
    wrong_layout: bool = False
    reordered: bool = False
    first: Difference | None = None
    pair: int = 0
    since: int = 0
    until: int = 0
    columns: int = 0

    @property
    def explained(self) -> bool:
        """Whether a mistake or a cause explains every difference."""
        return bool(self.mistake or self.size or self.cause or self.low_angles or self.wrong_layout)

    @property
    def has_other_base(self) -> bool:
        """Whether the mistake is the base, as of every layer but those that a table is meant for."""
        return self.mistake is not None and self.mistake.word == "another base"


@dataclass(frozen=True, eq=False)
class ModelMatch:
    """The comparison of a table with each kind of layer of a model.

    schemes: of each kind of layer. matches: of those with RoPE of a text, by kind.
    """

    schemes: Mapping[str, SchemeConfig | None]
    matches: Mapping[str, SchemeMatch]

    @property
    def belonging(self) -> str | None:
        """The first kind of layer that the table belongs to."""
        return next((name for name, one in self.matches.items() if one.belongs), None)

    @property
    def belongs(self) -> bool:
        """Whether the table belongs to a kind of layer."""
        return self.belonging is not None

    @property
    def nearest(self) -> SchemeMatch | None:
        """The match that belongs, else one that is explained, best with its own base, else the first."""
        ranked = sorted(
            self.matches.values(),
            key=lambda one: (not one.belongs, not one.explained, one.has_other_base),
        )
        return ranked[0] if ranked else None
