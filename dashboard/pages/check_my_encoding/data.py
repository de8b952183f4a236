"""What Check my encoding shows of one table, of RoPE's layouts, and of how vectors tell positions."""

from dataclasses import dataclass, field, replace

import pandas as pd
import streamlit as st
import torch
from torch import Tensor

from dashboard.compute.schemes import CACHE
from dashboard.compute.uploaded_numbers import cached_numbers
from dashboard.limits import MAX_PROBED_ROWS, probed_rows
from dashboard.pages.check_my_encoding import frames
from dashboard.pages.check_my_encoding.corrected import corrected_code
from dashboard.pages.check_my_encoding.examples import EXAMPLES, Tables
from dashboard.pages.check_my_encoding.frames import TablePicture
from dashboard.pages.pca.projected import one_thread_for_numpy
from posenc.analysis import inspect_layouts, probe_each
from posenc.errors import CheckpointError, PosencError
from posenc.identification import identify
from posenc.identification.columns import TableInput
from posenc.identification.identify import error_sentence, fit_sentence, from_exact, headline
from posenc.kernel import position_vectors
from posenc.schemes import SCHEMES
from posenc.settings import Query, Setting, known
from posenc.tables import sinusoidal_table

LAYOUT_POSITIONS = 96  # of the scores of two layouts; more shows nothing else
NO_TABLE = "There is no table to check."


@dataclass(frozen=True)
class Answer:
    """What one table is, or why there is no answer.

    largest, worst: the largest error against exact angles, and the sentence on where it is; None and ""
    if no formula fits. deviations: kind and sentence. code: PyTorch without them. found: one row in full;
    facts: the same in words. by_column: largest differences of each column. tables: pictures.
    """

    headline: str
    reason: str = ""
    about: str = ""
    fit: str = ""
    largest: float | None = None
    worst: str = ""
    deviations: tuple[tuple[str, str], ...] = ()
    also: tuple[str, ...] = ()
    matches: str = ""
    code: str = ""
    found: pd.DataFrame = field(default_factory=pd.DataFrame)
    facts: pd.DataFrame = field(default_factory=pd.DataFrame)
    by_column: pd.DataFrame = field(default_factory=pd.DataFrame)
    tables: tuple[TablePicture, ...] = ()


@dataclass(frozen=True)
class Layouts:
    """Scores of two layouts used in every way: one row each, their pictures, and a weight's code."""

    headline: str
    numbers: pd.DataFrame
    scores: tuple[TablePicture, ...]
    conversion: str


@dataclass(frozen=True)
class Decoding:
    """How well positions are decoded from tables. reasons: why a table has no numbers."""

    sentences: tuple[str, ...]
    numbers: pd.DataFrame
    reasons: tuple[str, ...]

    @property
    def headline(self) -> str:
        """The sentence on the first table."""
        return self.sentences[0] if self.sentences else NO_TABLE


def answer(setting: Setting, name: str) -> Answer:
    """Return what the table of a name is; an upload's numbers have nothing of the setting in them."""
    try:
        if name in EXAMPLES:
            return _answer(name, without_model(setting))
        cached_numbers.get(name)
        return _answer(name, Setting())
    except CheckpointError as error:
        return Answer(NO_TABLE, f"{error} Nothing is shown in its place.")
    except PosencError as error:
        return Answer(NO_TABLE, str(error))


def layouts(setting: Setting) -> Layouts:
    """Return the scores of RoPE's two layouts at a setting's sizes."""
    width, heads = setting.rope_width, 1 if setting.equal_width else setting.heads
    return _layouts(min(setting.length, LAYOUT_POSITIONS), width, heads, setting.base, setting.seed)


def decoding(setting: Setting, name: str) -> Decoding:
    """Return how well positions are decoded from an upload, if one is chosen, and the learned table."""
    setting = without_model(setting)
    probes = [
        lambda: _probe_learned(Query.of(setting, "learned", length=MAX_PROBED_ROWS), setting.seed)
    ]
    if name not in EXAMPLES:
        probes.insert(0, lambda: _probe_upload(name, setting.seed))
    sentences, numbers, reasons = [], [], []
    for probe in probes:
        try:
            sentence, rows = probe()
        except PosencError as error:
            reasons.append(str(error))
        else:
            sentences.append(sentence)
            numbers.append(rows)
    all_numbers = pd.concat(numbers, ignore_index=True) if numbers else pd.DataFrame()
    return Decoding(tuple(sentences), all_numbers, tuple(reasons))


def without_model(setting: Setting) -> Setting:
    """Return a setting without its real model, which the page has no control of and does not read."""
    return replace(setting, model="", alibi_head=0)


def tables(name: str, setting: Setting) -> Tables:
    """Return the table of a name, or its cosines and sines; raises CheckpointError if it is gone."""
    if name in EXAMPLES:
        return EXAMPLES[name].make(setting)
    uploaded = cached_numbers.get(name)
    return uploaded.table, uploaded.sines


@st.cache_data(**CACHE)
def _answer(name: str, setting: Setting) -> Answer:
    table, sines = tables(name, setting)
    result = identify(table, sines)
    error = from_exact(result, table, sines) if result.known else None
    if name in EXAMPLES:
        rounded = (
            "" if setting.table_dtype is None else f" All of it rounded to {setting.precision}."
        )
        start, about = "", f"Example: {EXAMPLES[name].sentence}{rounded}"
    else:
        uploaded = cached_numbers.get(name)
        start, about = f"{uploaded.source}: ", " ".join(uploaded.notes)
    matches = ""
    if result.known and not result.deviations:
        matches = f"Matches the formula to {str(result.dtype).removeprefix('torch.')} rounding."
    return Answer(
        headline=f"{start}{headline(result)}",
        about=about,
        fit=fit_sentence(result),
        largest=None if error is None else error.largest,
        worst="" if error is None else error_sentence(result, error),
        deviations=tuple((each.kind, each.sentence) for each in result.deviations),
        also=result.also,
        matches=matches,
        code=corrected_code(result),
        found=frames.identified(result),
        facts=frames.facts(result),
        by_column=frames.by_column(result, error),
        tables=frames.tables(result, table, sines),
    )


@st.cache_data(**CACHE)
def _layouts(positions: int, width: int, heads: int, base: float, seed: int) -> Layouts:
    inspection = inspect_layouts(positions, width, base, seed=seed)
    return Layouts(
        frames.layout_sentence(inspection, width),
        frames.layouts(inspection),
        frames.scores(inspection),
        conversion(heads, width),
    )


@st.cache_data(**CACHE)
def _probe_learned(query: Query, seed: int) -> tuple[str, pd.DataFrame]:
    scheme = query.build("cpu")
    rows = position_vectors(scheme, known(scheme, query.length), dtype=query.dtype)
    name = scheme.provenance or SCHEMES["learned"].label
    return _probe(name, rows, scheme.max_length or len(rows), seed)


@st.cache_data(**CACHE)
def _probe_upload(name: str, seed: int) -> tuple[str, pd.DataFrame]:
    uploaded = cached_numbers.get(name)
    rows = TableInput.of(uploaded.table, uploaded.sines).columns
    return _probe(f"table in {uploaded.source}", rows, len(rows), seed)


def _probe(name: str, rows: Tensor, all_rows: int, seed: int) -> tuple[str, pd.DataFrame]:
    """Probe the first rows of a table beside a sinusoidal one: a sentence, and a row for each table."""
    width = rows.shape[1]
    rows = rows[: probed_rows(width)].double()
    same = sinusoidal_table(len(rows), width + width % 2, dtype=torch.float64)[:, :width]
    one_thread_for_numpy()
    probes, sinusoidal = probe_each([rows, same], seed=seed)
    return (
        frames.probe_sentence(name, probes, all_rows),
        frames.probes(name, width, probes, sinusoidal),
    )


def conversion(heads: int, width: int) -> str:
    """Return the code that makes a weight of queries or keys fit the other layout."""
    return (
        f"# weight: ({heads} x {width}, features in), of the queries, then of the keys\n"
        f"order = torch.arange({width}).view(-1, 2).T.flatten()  # 0, 2, 4, ..., then 1, 3, 5, ...\n"
        f"half = weight.view({heads}, {width}, -1)[:, order].flatten(0, 1)  # neighbours to halves\n"
        f"back = half.view({heads}, {width}, -1)[:, order.argsort()].flatten(0, 1)"
    )
