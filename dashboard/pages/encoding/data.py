"""Numbers of the page Encoding, and the same as Python."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
import torch

from dashboard import limits, results
from dashboard.cache import cached
from dashboard.components.matrix import Full, MatrixValues, Scale, Waves, smallest
from dashboard.pages.encoding.options import PLACES
from dashboard.results import Array
from dashboard.scheme_facts import place
from dashboard.script import requests_in_python, whole_script
from dashboard.settings import Setting
from posenc import Request, encoding, position_vectors, sinusoidal_table
from posenc.analysis import STARTS, embedding_sum, spectrum
from posenc.schemes import SCHEMES, SchemeConfig
from posenc.schemes.alibi import Alibi
from posenc.schemes.base import Head, Scheme

MOST_WAVE_POSITIONS = 1_024  # points of one wave: thinned ones would beat
SUM_WINDOW = 48  # positions and dimensions of the pictured sum
CORNER = 12  # rows and columns of every matrix in the table of numbers
OUTLIERS = 0.999  # of the entries within the colours' ends; the others take the end's colour
WORKED_POSITIONS, WORKED_WIDTH = 4, 8
WAVES, BIAS = "cosine or sine", "logit"  # units of numbers from -1 to 1, and of a bias

IMPORTS = """
import posenc
"""
BODY = """
print("scheme,position,column,name,value")
for request in requests.values():
    scheme = request.build("cpu")
    rows = scheme.positions_within(request.length)
    numbers = posenc.encoding(scheme, rows, head=request.head, dtype=request.dtype)
    if numbers is None:  # a scheme without numbers
        continue
    width = request.length if numbers.is_bias else numbers.values.shape[1]
    for i in range(min({corner}, request.length)):
        for j in range(min({corner}, width)):
            name = f"key {{j}}" if numbers.is_bias else numbers.features[j]
            value = numbers.values[i, j].item() if i < rows else float("nan")
            print(scheme.config.label, i, j, name, repr(value), sep=",")
"""


@dataclass(frozen=True, kw_only=True)
class SchemeEncoding:
    """Numbers of one scheme.

    config: what was built; it knows the shape of a file's table, which the setting does not. place: where
    it acts in attention. head: of a
    bias. corner: the first rows and columns, in full precision. frequencies: a row per pair, pair 0 the
    fastest. pairs: the chosen ones. slopes: a row per head. matrix: its numbers as far as they are drawn,
    None where a scheme adds none; the fields below are of all its numbers. rows: of a table, None where
    every position has numbers. bias: at the last trained distance, NaN where there is none. features: none
    of a bias, whose columns are keys. untrained: what untrained numbers are, "" for others.
    """

    config: SchemeConfig
    place: str
    head: Head
    provenance: str
    frequencies: pd.DataFrame
    slopes: pd.DataFrame
    corner: pd.DataFrame = field(default_factory=pd.DataFrame)
    waves: pd.DataFrame = field(default_factory=pd.DataFrame)
    pairs: tuple[int, ...] = ()
    matrix: MatrixValues | None = None
    rows: int | None = None
    bias: float = np.nan
    unit: str = ""
    features: tuple[str, ...] = ()
    untrained: str = ""

    @property
    def is_table(self) -> bool:
        """Whether its columns have numbers for names: no formula makes them."""
        return bool(self.features) and self.features[0].isdigit()


@dataclass(frozen=True)
class Encodings:
    """Numbers of the schemes of a setting."""

    setting: Setting
    schemes: dict[str, SchemeEncoding]
    reasons: dict[str, str]  # why a scheme has no numbers to show, such as a table that is not here

    @property
    def with_matrix(self) -> dict[str, SchemeEncoding]:
        """The schemes that add numbers."""
        return {kind: each for kind, each in self.schemes.items() if each.matrix is not None}

    @property
    def with_pairs(self) -> dict[str, SchemeEncoding]:
        """The schemes whose numbers are sines and cosines of pairs."""
        return {kind: each for kind, each in self.schemes.items() if each.pairs}


def read(setting: Setting, places: tuple[str, ...], pair: int) -> Encodings:
    """Return the numbers of every scheme. places, pair: which pairs are drawn, as for `chosen_pairs`."""
    requests = {kind: results.request(setting, kind) for kind in setting.schemes}
    found = results.per_scheme(scheme_encoding, requests, setting.train_length, places, pair)
    return Encodings(setting, *found)


def joined(tables: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Return tables of schemes under each other, but for empty ones."""
    full = [table for table in tables if len(table)]
    return pd.concat(full, ignore_index=True) if full else pd.DataFrame()


@cached
def scheme_encoding(
    request: Request, train_length: int, places: tuple[str, ...], pair: int
) -> SchemeEncoding:
    """Return the numbers of one scheme, at as many positions as are drawn."""
    scheme = request.build("cpu")
    label, frequencies = scheme.config.label, _frequencies(scheme, train_length)
    slopes = pd.DataFrame()
    if isinstance(scheme, Alibi):
        values = scheme.slopes.numpy()
        heads = np.arange(1, len(values) + 1)
        slopes = pd.DataFrame({"scheme": label, "head": heads, "slope": values})
    result = SchemeEncoding(
        config=scheme.config,
        place=place(scheme),
        head=request.head,
        provenance=scheme.provenance,
        frequencies=frequencies,
        slopes=slopes,
    )
    asked = min(request.length, MOST_WAVE_POSITIONS)
    numbers = encoding(
        scheme, scheme.positions_within(asked), head=request.head, dtype=request.dtype
    )
    if numbers is None:
        return result
    values, features, bias = numbers.values.numpy(), numbers.features, np.nan
    if numbers.is_bias:
        values = values[: limits.MAX_DRAWN_CELLS, : limits.MAX_DRAWN_CELLS]
        bias = values[min(train_length, len(values)) - 1, 0]
    else:
        missing = asked - len(values)  # past the last row of a learned table
        values = np.pad(values, ((0, missing), (0, 0)), constant_values=np.nan)
    pairs = chosen_pairs(places, pair, len(frequencies)) if len(frequencies) else ()
    return replace(
        result,
        corner=_corner(label, values, features),
        waves=_waves(label, values, features, pairs),
        pairs=pairs,
        matrix=_picture(values, features, frequencies),
        rows=scheme.max_length,
        bias=float(bias),
        unit=numbers.unit,
        features=features,
        untrained=scheme.config.start if scheme.untrained else "",
    )


def _picture(values: Array, features: tuple[str, ...], frequencies: pd.DataFrame) -> MatrixValues:
    """Return what is drawn of a matrix: sines and cosines of pairs as waves, half of an even bias."""
    most = limits.MAX_DRAWN_CELLS
    picture = np.ascontiguousarray(values[:most, :most], np.float32)
    if not features:
        if np.array_equal(picture, picture.T):  # nothing is lost of what a causal model reads
            picture[np.triu_indices(len(picture), 1)] = np.nan
        return smallest(picture)
    names = [name.split() for name in features[:most]]
    if frequencies.empty or any(name[0] not in ("sin", "cos") for name in names):
        return Full(picture)
    angles = frequencies["inv_freq"].to_numpy()[[int(name[1]) for name in names]]
    return Waves.of(picture, angles, [name[0] == "sin" for name in names]) or Full(picture)


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
    waves = [(pair, wave) for pair in pairs for wave in ("sin", "cos")]
    rows, columns = len(values), [features.index(f"{wave} {pair}") for pair, wave in waves]
    return pd.DataFrame(
        {
            "scheme": label,
            "pair": np.repeat([pair for pair, _ in waves], rows),
            "wave": np.repeat([wave for _, wave in waves], rows),
            "x": np.tile(np.arange(rows), len(waves)),
            "y": values[:, columns].T.ravel(),
        }
    )


def chosen_pairs(places: tuple[str, ...], pair: int, count: int) -> tuple[int, ...]:
    """Return the chosen pairs of `count`, fastest first, none twice.

    A place among the frequencies means the nearest pair; a number past the last pair means the last.
    """
    nearest = {round(PLACES[place] * (count - 1)) for place in places}
    return tuple(sorted(nearest | {min(pair, count - 1)}))


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
    """Position beside content for a scheme that adds rows.

    width: of the rows. by_start: norms and shares by token initialization. pictures: the first entries of
    content, position and their sum.
    """

    width: int
    by_start: dict[str, embedding_sum.EmbeddingSum]
    pictures: tuple[Array, Array, Array]


@dataclass(frozen=True)
class Sums:
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


def read_sums(setting: Setting, start: str, *, scaled: bool) -> Sums:
    """Return position beside content. start: of the tokens in the pictures. scaled: by sqrt(d), too."""
    requests = {kind: results.request(setting, kind) for kind in setting.schemes}
    read, _ = results.per_scheme(_sum, requests, setting.seed, start, scaled)
    sums = {kind: total for kind, total in read.items() if total is not None}
    rows = [
        {"scheme": f"{SCHEMES[kind].label}, {STARTS[start]}", "d": total.width} | vars(compared)
        for kind, total in sums.items()
        for start, compared in total.by_start.items()
    ]
    others = tuple(kind for kind in read if kind not in sums)
    return Sums(sums, others, pd.DataFrame(rows).rename(columns=SUM_COLUMNS))


def _sum(request: Request, seed: int, chosen: str, scaled: bool) -> Sum | None:
    scheme = request.build("cpu")
    if type(scheme).embed is Scheme.embed:
        return None
    rows = position_vectors(scheme, scheme.positions_within(request.length), dtype=request.dtype)
    width = rows.shape[1]
    norm = embedding_sum.row_norm(rows)
    window = rows[:SUM_WINDOW, :SUM_WINDOW]
    generator = torch.Generator("cpu").manual_seed(seed)
    tokens = embedding_sum.draw_tokens(chosen, len(window), width, generator)
    content = tokens[:, :SUM_WINDOW] * (width**0.5 if scaled else 1.0)
    by_start = {start: embedding_sum.content_and_position(norm, width, start) for start in STARTS}
    return Sum(width, by_start, (content.numpy(), window.numpy(), (content + window).numpy()))


def worked_example(base: float) -> pd.DataFrame:
    """Return the sinusoidal table of 4 positions and 8 dimensions in full precision."""
    rows = sinusoidal_table(WORKED_POSITIONS, WORKED_WIDTH, base, dtype=torch.float64)
    frame = pd.DataFrame(rows.numpy(), columns=[str(i) for i in range(WORKED_WIDTH)])
    frame.insert(0, "position", np.arange(WORKED_POSITIONS))
    return frame


def scale(unit: str, pictures: list[Array]) -> Scale:
    """One scale for all matrices of a unit: even about 0, or from the least bias to 0 if none is above."""
    if unit == WAVES:
        return Scale(-1.0, 1.0, "diverging", unit)
    entries = np.abs(np.concatenate([picture.ravel() for picture in pictures]))
    entries = entries[np.isfinite(entries)]
    if unit == BIAS:
        largest = float(entries.max(initial=0.0)) or 1.0
        if not any((picture > 0).any() for picture in pictures):
            return Scale(-largest, 0.0, "sequential", unit)
        return Scale(-largest, largest, "diverging", unit)
    most = float(np.quantile(entries, OUTLIERS, method="higher")) if len(entries) else 1.0
    return Scale(-most or -1.0, most or 1.0, "diverging", unit)


def script(setting: Setting) -> str:
    """Return a complete Python script that prints the page's table of first entries."""
    return whole_script(IMPORTS, requests_in_python(setting), BODY.format(corner=CORNER))
