"""What the Encoding page shows: every number of it comes from `read`, by name, before anything is drawn."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import streamlit as st
import torch

from dashboard import compute, encoding_frames
from dashboard.compute import CACHE, Array
from dashboard.encoding_choice import PLACES, EncodingChoice
from dashboard.kept import kept
from dashboard.notation import formulas, notation_of
from posenc import Setting, encoding, formula, limits, position_vectors, sinusoidal_table
from posenc.analysis import embedding_sum, spectrum
from posenc.query import Query, known
from posenc.schemes.scheme import Scheme
from posenc.schemes.sinusoidal import SinusoidalConfig

MOST_WAVE_POSITIONS = 1_024  # points of one wave: thinned ones would beat
EXAMPLE_POSITIONS, EXAMPLE_WIDTH = 4, 8
SUM_WINDOW = 48  # positions and dimensions of the pictured sum


@dataclass(frozen=True)
class Drawn:
    """The numbers that one scheme puts in: (rows, columns), NaN where there is no row."""

    values: Array
    unit: str
    features: tuple[str, ...]
    provenance: str
    untrained: bool
    start: str  # what untrained numbers are
    rounded: bool

    @property
    def picture(self) -> Array:
        """The rows and columns that are drawn."""
        return self.values[: limits.MAX_DRAWN_CELLS, : limits.MAX_DRAWN_CELLS]


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
    norms: embedding_sum.RowNorms
    found: dict[str, embedding_sum.EmbeddingSum]  # by start
    pictures: tuple[Array, Array, Array]  # content, position and their sum, a window


@dataclass(frozen=True)
class EncodingPage:
    """Everything that the page shows, for a setting and a choice."""

    setting: Setting
    reasons: dict[str, str]  # why a scheme has no numbers to show, such as a table that is not here
    drawn: dict[str, Drawn]
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


@kept
def read(setting: Setting, chosen: EncodingChoice) -> EncodingPage:
    """Return everything that the page shows."""
    queries = {kind: compute.query(setting, kind) for kind in setting.schemes}
    found, reasons = compute.each(values, queries)
    queries = {kind: queries[kind] for kind in found}
    drawn = {kind: one for kind, one in found.items() if one is not None}
    ladders = {
        kind: one
        for kind, query in queries.items()
        if (one := ladder(query, setting.train_length)) is not None
    }
    pairs = {
        kind: chosen_pairs(chosen, len(one.inv_freq))
        for kind, one in ladders.items()
        if kind in drawn
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
        drawn=drawn,
        absent=tuple(kind for kind in queries if kind not in drawn),
        provenances={kind: compute.provenance(query) for kind, query in queries.items()},
        ladders=ladders,
        pairs=pairs,
        waves=encoding_frames.waves(
            {kind: drawn[kind] for kind in pairs}, pairs, setting.train_length, MOST_WAVE_POSITIONS
        ),
        spectrum=encoding_frames.spectrum(ladders, setting.train_length),
        example=worked_example(setting.base),
        example_inv_freq=example.build().inv_freq.numpy(),
        example_formula=formula(example, notation_of(chosen.notation), numbers=chosen.substituted),
        sums=sums,
        sum_table=encoding_frames.sums(sums),
        formulas=formulas(setting, queries, chosen.notation, numbers=chosen.substituted),
        corner=encoding_frames.corner(drawn),
    )


def chosen_pairs(chosen: EncodingChoice, count: int) -> tuple[int, ...]:
    """Return the chosen pairs of a ladder of `count`, fastest first, none twice.

    A place on the ladder means the nearest pair; a number past the last pair means the last.
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
def values(query: Query) -> Drawn | None:
    """Return the numbers a scheme puts in, as many positions as are drawn; None where there are none."""
    scheme = query.build()
    asked = min(query.length, MOST_WAVE_POSITIONS)
    found = encoding(scheme, known(scheme, asked), head=query.head, dtype=query.dtype)
    if found is None:
        return None
    if found.is_bias:
        rows = found.values[: limits.MAX_DRAWN_CELLS, : limits.MAX_DRAWN_CELLS]
    else:
        rows = found.values.new_full((asked, found.values.shape[1]), torch.nan)
        rows[: len(found.values)] = found.values
    return Drawn(
        values=rows.numpy(),
        unit=found.unit,
        features=found.features,
        provenance=scheme.provenance,
        untrained=scheme.untrained,
        start=scheme.config.start,
        rounded=query.dtype is not None,
    )


@st.cache_data(**CACHE)
def ladder(query: Query, train_length: int) -> Ladder | None:
    """Return what the frequencies do within the training length, None for a scheme without any."""
    inv_freq = query.build().inv_freq
    if inv_freq is None:
        return None
    found = spectrum(inv_freq, train_length)
    assert found.turns is not None
    return Ladder(inv_freq.numpy(), found.wavelengths.numpy(), found.turns.numpy())


@st.cache_data(**CACHE)
def added(query: Query, start: str, factor: str, seed: int) -> Sum | None:
    """Return position beside content where a scheme adds rows to token vectors, else None."""
    scheme = query.build()
    if type(scheme).embed is Scheme.embed:
        return None
    rows = position_vectors(scheme, known(scheme, query.length), dtype=query.dtype)
    width = rows.shape[1]
    norms = embedding_sum.row_norms(rows)
    window = rows[:SUM_WINDOW, :SUM_WINDOW]
    generator = torch.Generator("cpu").manual_seed(seed)
    tokens = embedding_sum.draw_tokens(start, len(window), width, generator)[:, :SUM_WINDOW]
    content = tokens * width**0.5 if factor == "scaled" else tokens
    return Sum(
        width=width,
        norms=norms,
        found={
            one: embedding_sum.position_beside_content(norms.root_mean_square, width, one)
            for one in embedding_sum.STARTS
        },
        pictures=(content.numpy(), window.numpy(), (content + window).numpy()),
    )
