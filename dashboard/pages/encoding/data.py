"""What the Encoding page shows: every number of it comes from `read`, by name, before anything is drawn."""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
import streamlit as st
import torch

from dashboard import limits
from dashboard.components.matrix import Full, MatrixValues, Scale, Waves, smallest
from dashboard.compute import schemes
from dashboard.compute.result_cache import cache_result
from dashboard.compute.schemes import CACHE, Array
from dashboard.pages.encoding import frames
from dashboard.pages.encoding.notation import formulas, notation_of
from dashboard.pages.encoding.options import PLACES, EncodingChoice
from posenc import encoding, formula, position_vectors, sinusoidal_table
from posenc.analysis import embedding_sum, spectrum
from posenc.schemes.base import Scheme
from posenc.schemes.sinusoidal import SinusoidalConfig
from posenc.settings import Query, Setting, known

MOST_WAVE_POSITIONS = 1_024  # points of one wave: thinned ones would beat
EXAMPLE_POSITIONS, EXAMPLE_WIDTH = 4, 8
SUM_WINDOW = 48  # positions and dimensions of the pictured sum
OUTLIERS = 0.999  # of the entries within the colours' ends; the others take the end's colour
WAVES = "cosine or sine"  # the unit of numbers from -1 to 1


@dataclass(frozen=True)
class Numbers:
    """The numbers that one scheme puts in: (rows, columns), NaN where there is no row."""

    values: Array
    unit: str
    features: tuple[str, ...]  # none of a bias, whose columns are keys
    untrained: str  # what untrained numbers are, "" for others

    @property
    def picture(self) -> Array:
        """The rows and columns that are drawn, in the precision in which they are sent."""
        return np.ascontiguousarray(
            self.values[: limits.MAX_DRAWN_CELLS, : limits.MAX_DRAWN_CELLS], np.float32
        )


@dataclass(frozen=True)
class Drawn:
    """What is shown of a scheme's numbers; of all of them a reading would hold megabytes."""

    matrix: MatrixValues  # the picture, in its smallest form
    shape: tuple[int, int]  # of all numbers
    told: (
        float  # of a bias: at the last trained distance; else the deviation of all trained entries
    )
    unit: str
    features: tuple[str, ...]
    untrained: str


@dataclass(frozen=True)
class Ladder:
    """The pairs of one scheme, pair 0 the fastest: what each does within the training length."""

    inv_freq: Array
    wavelengths: Array  # positions per full turn
    turns: Array  # within the training length

    @property
    def shares(self) -> Array:
        """Share of a full turn within the training length, at most 1."""
        return np.minimum(self.turns, 1.0)


@dataclass(frozen=True)
class Sum:
    """Position beside content for a scheme that adds rows, at one start of the token embeddings."""

    width: int
    norm: float  # root mean square of the finite rows, NaN without one
    found: dict[str, embedding_sum.EmbeddingSum]  # by start
    pictures: tuple[Array, Array, Array]  # content, position and their sum, a window


@dataclass(frozen=True)
class EncodingPage:
    """Everything that the page shows, for a setting and a choice."""

    setting: Setting
    reasons: dict[str, str]  # why a scheme has no numbers to show, such as a table that is not here
    drawn: dict[str, Drawn]
    scales: dict[str, Scale]  # of every unit
    absent: tuple[str, ...]  # schemes that put no numbers in
    provenances: dict[str, str]
    ladders: dict[str, Ladder]
    pairs: dict[str, tuple[int, ...]]  # the chosen pairs of every scheme that has any
    waves: pd.DataFrame
    spectrum: pd.DataFrame
    example: pd.DataFrame
    example_inv_freq: Array
    example_formula: str
    sums: dict[str, Sum]
    sum_table: pd.DataFrame
    formulas: dict[str, str]
    corner: pd.DataFrame


@cache_result
def read(setting: Setting, chosen: EncodingChoice) -> EncodingPage:
    """Return everything that the page shows."""
    queries = {kind: schemes.query(setting, kind) for kind in setting.schemes}
    found, reasons = schemes.each(values, queries)
    queries = {kind: queries[kind] for kind in found}
    numbers = {kind: one for kind, one in found.items() if one is not None}
    ladders = {
        kind: one
        for kind, query in queries.items()
        if (one := ladder(query, setting.train_length)) is not None
    }
    pairs = {
        kind: chosen_pairs(chosen, len(one.inv_freq))
        for kind, one in ladders.items()
        if kind in numbers
    }
    sums = {
        kind: one
        for kind, query in queries.items()
        if (one := added(query, chosen.start, "scaled" if chosen.scaled else "plain", setting.seed))
    }
    example = SinusoidalConfig(dim=EXAMPLE_WIDTH, base=setting.base)
    return EncodingPage(
        setting=setting,
        reasons=reasons,
        drawn={
            kind: _drawn(one, setting.train_length, ladders.get(kind))
            for kind, one in numbers.items()
        },
        scales={
            unit: scale(unit, [one.picture for one in numbers.values() if one.unit == unit])
            for unit in dict.fromkeys(one.unit for one in numbers.values())
        },
        absent=tuple(kind for kind in queries if kind not in numbers),
        provenances={kind: schemes.provenance(query) for kind, query in queries.items()},
        ladders=ladders,
        pairs=pairs,
        waves=frames.waves(
            {kind: numbers[kind] for kind in pairs},
            pairs,
            setting.train_length,
            MOST_WAVE_POSITIONS,
        ),
        spectrum=frames.spectrum(ladders, setting.train_length),
        example=worked_example(setting.base),
        example_inv_freq=example.build().frequencies.inv_freq.numpy(),
        example_formula=formula(example, notation_of(chosen.notation), numbers=chosen.substituted),
        sums=sums,
        sum_table=frames.sums(sums),
        formulas=formulas(setting, queries, chosen.notation, numbers=chosen.substituted),
        corner=frames.corner(numbers),
    )


def _drawn(numbers: Numbers, train_length: int, pairs: Ladder | None) -> Drawn:
    """Return what is shown of a scheme's numbers. pairs: its frequencies, where it has any."""
    values, picture = numbers.values, numbers.picture
    if not numbers.features:
        told = float(values[min(train_length, len(values)) - 1, 0])
        matrix = smallest(picture)
    else:
        trained = values[:train_length]
        told = float(np.nanstd(trained)) if np.isfinite(trained).any() else math.nan
        matrix = _as_waves(numbers, pairs) or Full(picture)
    shape = values.shape[0], values.shape[1]
    return Drawn(matrix, shape, told, numbers.unit, numbers.features, numbers.untrained)


def _as_waves(numbers: Numbers, pairs: Ladder | None) -> Waves | None:
    """Return sines and cosines as waves, None for numbers that are no waves."""
    picture = numbers.picture
    names = [name.split() for name in numbers.features[: picture.shape[1]]]
    if pairs is None or any(name[0] not in ("sin", "cos") for name in names):
        return None
    angles = pairs.inv_freq[[int(name[1]) for name in names]]
    return Waves.of(picture, angles, [name[0] == "sin" for name in names])


def scale(unit: str, pictures: list[Array]) -> Scale:
    """One scale for all matrices of a unit: even about 0, or from the least bias to 0 if none is above."""
    if unit == WAVES:
        return Scale(-1.0, 1.0, "diverging", unit)
    entries = np.abs(np.concatenate([picture.ravel() for picture in pictures]))
    entries = entries[np.isfinite(entries)]
    if unit == "logit":
        largest = float(entries.max(initial=0.0)) or 1.0
        if not any((picture > 0).any() for picture in pictures):
            return Scale(-largest, 0.0, "sequential", unit)
        return Scale(-largest, largest, "diverging", unit)
    most = float(np.quantile(entries, OUTLIERS, method="higher")) if len(entries) else 1.0
    return Scale(-most or -1.0, most or 1.0, "diverging", unit)


def chosen_pairs(chosen: EncodingChoice, count: int) -> tuple[int, ...]:
    """Return the chosen pairs of a ladder of `count`, fastest first, none twice.

    A place among the frequencies means the nearest pair; a number past the last pair means the last.
    """
    found = {round(PLACES[place] * (count - 1)) for place in chosen.places}
    return tuple(sorted(found | {min(chosen.pair, count - 1)}))


def worked_example(base: float) -> pd.DataFrame:
    """Return the sinusoidal table of 4 positions and 8 dimensions, full precision."""
    table = sinusoidal_table(EXAMPLE_POSITIONS, EXAMPLE_WIDTH, base, dtype=torch.float64)
    frame = pd.DataFrame(table.numpy(), columns=[str(i) for i in range(EXAMPLE_WIDTH)])
    frame.insert(0, "position", np.arange(EXAMPLE_POSITIONS))
    return frame


@st.cache_data(**CACHE)
def values(query: Query) -> Numbers | None:
    """Return the numbers a scheme puts in, as many positions as are drawn; None where there are none."""
    scheme = query.build("cpu")
    asked = min(query.length, MOST_WAVE_POSITIONS)
    found = encoding(scheme, known(scheme, asked), head=query.head, dtype=query.dtype)
    if found is None:
        return None
    if found.is_bias:
        rows = found.values[: limits.MAX_DRAWN_CELLS, : limits.MAX_DRAWN_CELLS]
    else:
        rows = found.values.new_full((asked, found.values.shape[1]), torch.nan)
        rows[: len(found.values)] = found.values
    return Numbers(
        values=rows.numpy(),
        unit=found.unit,
        features=found.features,
        untrained=scheme.config.start if scheme.untrained else "",
    )


@st.cache_data(**CACHE)
def ladder(query: Query, train_length: int) -> Ladder | None:
    """Return what the frequencies do within the training length, None for a scheme without any."""
    inv_freq = query.build("cpu").inv_freq
    if inv_freq is None:
        return None
    found = spectrum(inv_freq, train_length)
    return Ladder(inv_freq.numpy(), found.wavelengths.numpy(), found.turns.numpy())


@st.cache_data(**CACHE)
def added(query: Query, start: str, factor: str, seed: int) -> Sum | None:
    """Return position beside content where a scheme adds rows to token vectors, else None."""
    scheme = query.build("cpu")
    if type(scheme).embed is Scheme.embed:
        return None
    rows = position_vectors(scheme, known(scheme, query.length), dtype=query.dtype)
    width = rows.shape[1]
    norm = embedding_sum.row_norm(rows)
    window = rows[:SUM_WINDOW, :SUM_WINDOW]
    generator = torch.Generator("cpu").manual_seed(seed)
    tokens = embedding_sum.draw_tokens(start, len(window), width, generator)[:, :SUM_WINDOW]
    content = tokens * width**0.5 if factor == "scaled" else tokens
    return Sum(
        width=width,
        norm=norm,
        found={
            one: embedding_sum.content_and_position(norm, width, one)
            for one in embedding_sum.STARTS
        },
        pictures=(content.numpy(), window.numpy(), (content + window).numpy()),
    )
