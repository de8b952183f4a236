"""The numbers of the Encoding page, computed before anything is drawn."""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch

from dashboard import limits
from dashboard.charts.frames import stacked
from dashboard.components.matrix import Full, MatrixValues, Scale, Waves, smallest
from dashboard.compute import schemes
from dashboard.compute.result_cache import cache_result
from dashboard.compute.scheme_facts import compact_formula
from dashboard.compute.schemes import Array
from dashboard.pages.encoding.options import PLACES, EncodingChoice
from posenc import encoding, formula, position_vectors, sinusoidal_table
from posenc.analysis import STARTS, embedding_sum, spectrum
from posenc.encoding import Encoding
from posenc.schemes import SCHEMES
from posenc.schemes.alibi import Alibi
from posenc.schemes.base import Scheme
from posenc.schemes.sinusoidal import SinusoidalConfig
from posenc.settings import Query, Setting, known

MOST_WAVE_POSITIONS = 1_024  # points of one wave: thinned ones would beat
EXAMPLE_POSITIONS, EXAMPLE_WIDTH = 4, 8
SUM_WINDOW = 48  # positions and dimensions of the pictured sum
CORNER = 12  # rows and columns of every matrix in the table of numbers
OUTLIERS = 0.999  # of the entries within the colours' ends; the others take the end's colour
WAVES = "cosine or sine"  # the unit of numbers from -1 to 1


@dataclass(frozen=True)
class Matrix:
    """The matrix of one scheme, as far as it is drawn."""

    values: MatrixValues
    shape: tuple[int, int]  # of all numbers
    size: float  # of a bias: at the last trained distance; else the deviation of trained entries
    unit: str
    features: tuple[str, ...]  # none of a bias, whose columns are keys
    untrained: str  # what untrained numbers are, "" for others


@dataclass(frozen=True)
class SchemeEncoding:
    """Everything that the page shows of one scheme."""

    provenance: str
    formula: str
    matrix: Matrix | None
    corner: pd.DataFrame  # the first rows and columns, in full precision
    frequencies: pd.DataFrame  # a row per pair, pair 0 the fastest
    pairs: tuple[int, ...]  # the chosen pairs
    waves: pd.DataFrame
    slopes: pd.DataFrame  # a row per head


@dataclass(frozen=True)
class EncodingPage:
    """Everything that the page shows, for a setting and a choice."""

    setting: Setting
    reasons: dict[str, str]  # why a scheme has no numbers to show, such as a table that is not here
    schemes: dict[str, SchemeEncoding]

    @property
    def matrices(self) -> dict[str, Matrix]:
        return {
            kind: scheme.matrix
            for kind, scheme in self.schemes.items()
            if scheme.matrix is not None
        }

    @property
    def frequencies(self) -> dict[str, pd.DataFrame]:
        return {
            kind: scheme.frequencies
            for kind, scheme in self.schemes.items()
            if len(scheme.frequencies)
        }

    @property
    def pairs(self) -> dict[str, tuple[int, ...]]:
        return {kind: scheme.pairs for kind, scheme in self.schemes.items() if scheme.pairs}


@cache_result
def read(setting: Setting, chosen: EncodingChoice) -> EncodingPage:
    """Return everything that the page shows."""
    queries = {kind: schemes.query(setting, kind) for kind in setting.schemes}
    encodings, reasons = schemes.per_scheme(scheme_encoding, queries, setting, chosen)
    return EncodingPage(setting, reasons, encodings)


def scheme_encoding(query: Query, setting: Setting, chosen: EncodingChoice) -> SchemeEncoding:
    """Return everything that the page shows of one scheme, at as many positions as are drawn."""
    scheme = query.build("cpu")
    # What is built knows its shape: a file's table has another width than the setting.
    text = compact_formula(
        scheme.config, chosen.notation, numbers=chosen.substituted, head=query.head
    )
    matrix = None
    pairs: tuple[int, ...] = ()
    waves = corner = slopes = pd.DataFrame()
    frequencies = _frequencies(scheme, setting.train_length)
    if isinstance(scheme, Alibi):
        values = scheme.slopes.numpy()
        heads = np.arange(1, len(values) + 1)
        slopes = pd.DataFrame({"scheme": scheme.config.label, "head": heads, "slope": values})
    asked = min(query.length, MOST_WAVE_POSITIONS)
    numbers = encoding(scheme, known(scheme, asked), head=query.head, dtype=query.dtype)
    if numbers is not None:
        if numbers.is_bias:
            rows = numbers.values[: limits.MAX_DRAWN_CELLS, : limits.MAX_DRAWN_CELLS]
        else:
            rows = numbers.values.new_full((asked, numbers.values.shape[1]), torch.nan)
            rows[: len(numbers.values)] = numbers.values
        values = rows.numpy()
        untrained = scheme.config.start if scheme.untrained else ""
        matrix = _matrix(values, numbers, setting.train_length, frequencies, untrained)
        corner = _corner(scheme.config.label, values, numbers.features)
        if len(frequencies):
            pairs = chosen_pairs(chosen, len(frequencies))
            waves = _waves(scheme.config.label, values, numbers.features, pairs)
    return SchemeEncoding(
        provenance=scheme.provenance,
        formula=text,
        matrix=matrix,
        corner=corner,
        frequencies=frequencies,
        pairs=pairs,
        waves=waves,
        slopes=slopes,
    )


def _matrix(
    values: Array,
    numbers: Encoding,
    train_length: int,
    frequencies: pd.DataFrame,
    untrained: str,
) -> Matrix:
    most = limits.MAX_DRAWN_CELLS
    picture = np.ascontiguousarray(values[:most, :most], np.float32)
    if numbers.is_bias:
        size = float(values[min(train_length, len(values)) - 1, 0])
        if np.array_equal(picture, picture.T):  # nothing is lost of what a causal model reads
            picture[np.triu_indices(len(picture), 1)] = np.nan
        drawn = smallest(picture)
    else:
        trained = values[:train_length]
        size = float(np.nanstd(trained)) if np.isfinite(trained).any() else math.nan
        drawn = _as_waves(picture, numbers.features, frequencies) or Full(picture)
    shape = values.shape[0], values.shape[1]
    return Matrix(drawn, shape, size, numbers.unit, numbers.features, untrained)


def _as_waves(picture: Array, features: tuple[str, ...], frequencies: pd.DataFrame) -> Waves | None:
    """Return sines and cosines as waves, None for numbers that are no waves."""
    names = [name.split() for name in features[: picture.shape[1]]]
    if frequencies.empty or any(name[0] not in ("sin", "cos") for name in names):
        return None
    angles = frequencies["inv_freq"].to_numpy()[[int(name[1]) for name in names]]
    return Waves.of(picture, angles, [name[0] == "sin" for name in names])


def _corner(label: str, values: Array, features: tuple[str, ...]) -> pd.DataFrame:
    values = values[:CORNER, :CORNER]
    rows, columns = np.indices(values.shape).reshape(2, -1)
    names = [features[j] if features else f"key {j}" for j in columns]
    numbers = {"position": rows, "column": columns, "name": names, "value": values.ravel()}
    return pd.DataFrame({"scheme": label} | numbers)


def _waves(
    label: str, values: Array, features: tuple[str, ...], pairs: tuple[int, ...]
) -> pd.DataFrame:
    """Return sine and cosine of chosen pairs by position, read off the columns of the numbers."""
    parts = [
        {
            "scheme": label,
            "pair": pair,
            "wave": wave,
            "x": np.arange(len(values)),
            "y": values[:, features.index(f"{wave} {pair}")],
        }
        for pair in pairs
        for wave in ("sin", "cos")
    ]
    return stacked(parts, ["scheme", "pair", "wave", "x", "y"])


def chosen_pairs(chosen: EncodingChoice, count: int) -> tuple[int, ...]:
    """Return the chosen pairs of `count`, fastest first, none twice.

    A place among the frequencies means the nearest pair; a number past the last pair means the last.
    """
    places = {round(PLACES[place] * (count - 1)) for place in chosen.places}
    return tuple(sorted(places | {min(chosen.pair, count - 1)}))


def _frequencies(scheme: Scheme, train_length: int) -> pd.DataFrame:
    """Return every pair: its place among all, wavelength, turns and share of a turn in training."""
    if scheme.inv_freq is None:
        return pd.DataFrame()
    read = spectrum(scheme.inv_freq, train_length)
    pair, turns = np.arange(len(scheme.inv_freq)), read.turns.numpy()
    return pd.DataFrame(
        {
            "scheme": scheme.config.label,
            "pair": pair,
            "place": pair / len(pair),
            "inv_freq": scheme.inv_freq.numpy(),
            "wavelength": read.wavelengths.numpy(),
            "turns": turns,
            "share": np.minimum(turns, 1.0),
            "trained": float(train_length),
        }
    )


@dataclass(frozen=True)
class Sum:
    """Position beside content for a scheme that adds rows, at one start of the token embeddings."""

    width: int
    norm: float  # root mean square of the finite rows, NaN without one
    by_start: dict[str, embedding_sum.EmbeddingSum]
    pictures: tuple[Array, Array, Array]  # content, position and their sum, a window


@dataclass(frozen=True)
class SumsPage:
    """Position beside content, of every scheme that adds rows to token vectors."""

    sums: dict[str, Sum]
    others: tuple[str, ...]  # schemes that add nothing
    table: pd.DataFrame


SUM_COLUMNS = {
    "token": "token norm",
    "position": "position norm",
    "ratio_scaled": "ratio, times sqrt(d)",
    "ratio_plain": "ratio, plain",
    "share_scaled": "share, times sqrt(d)",
    "share_plain": "share, plain",
}


@cache_result
def read_sums(setting: Setting, chosen: EncodingChoice) -> SumsPage:
    """Return position beside content, for the tab that shows it."""
    queries = {kind: schemes.query(setting, kind) for kind in setting.schemes}
    read, _ = schemes.per_scheme(_sum, queries, setting.seed, chosen)
    sums = {kind: total for kind, total in read.items() if total is not None}
    rows = [
        {"scheme": f"{SCHEMES[kind].label}, {STARTS[start]}", "d": total.width}
        | {name: getattr(compared, field) for field, name in SUM_COLUMNS.items()}
        for kind, total in sums.items()
        for start, compared in total.by_start.items()
    ]
    return SumsPage(sums, tuple(kind for kind in read if kind not in sums), pd.DataFrame(rows))


def _sum(query: Query, seed: int, chosen: EncodingChoice) -> Sum | None:
    scheme = query.build("cpu")
    if type(scheme).embed is Scheme.embed:
        return None
    rows = position_vectors(scheme, known(scheme, query.length), dtype=query.dtype)
    width = rows.shape[1]
    norm = embedding_sum.row_norm(rows)
    window = rows[:SUM_WINDOW, :SUM_WINDOW]
    generator = torch.Generator("cpu").manual_seed(seed)
    tokens = embedding_sum.draw_tokens(chosen.start, len(window), width, generator)
    content = tokens[:, :SUM_WINDOW] * (width**0.5 if chosen.scaled else 1.0)
    return Sum(
        width=width,
        norm=norm,
        by_start={
            start: embedding_sum.content_and_position(norm, width, start) for start in STARTS
        },
        pictures=(content.numpy(), window.numpy(), (content + window).numpy()),
    )


@dataclass(frozen=True)
class Example:
    """The sinusoidal table of 4 positions and 8 dimensions, full precision."""

    base: float
    formula: str
    inv_freq: Array
    table: pd.DataFrame


@cache_result
def read_example(setting: Setting, chosen: EncodingChoice) -> Example:
    """Return the worked example, for the tab that shows it."""
    config = SinusoidalConfig(dim=EXAMPLE_WIDTH, base=setting.base)
    rows = sinusoidal_table(EXAMPLE_POSITIONS, EXAMPLE_WIDTH, setting.base, dtype=torch.float64)
    table = pd.DataFrame(rows.numpy(), columns=[str(i) for i in range(EXAMPLE_WIDTH)])
    table.insert(0, "position", np.arange(EXAMPLE_POSITIONS))
    return Example(
        base=setting.base,
        formula=formula(config, chosen.notation, numbers=chosen.substituted),
        inv_freq=config.build().frequencies.inv_freq.numpy(),
        table=table,
    )


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
