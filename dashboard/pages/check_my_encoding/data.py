"""What the Check my encoding page says of one table, of RoPE's layouts, and of the learned table."""

from dataclasses import dataclass, replace

import pandas as pd
import streamlit as st
import torch
from torch import Tensor

from dashboard.compute.schemes import CACHE
from dashboard.compute.uploaded_numbers import cached_numbers
from dashboard.controls.page_options import CheckChoice
from dashboard.limits import MAX_PROBED_ROWS, probed_rows
from dashboard.pages.check_my_encoding import frames
from dashboard.pages.check_my_encoding.examples import EXAMPLES, Tables
from dashboard.pages.check_my_encoding.frames import Drawn
from dashboard.pages.pca.projected import one_thread_for_numpy
from posenc.analysis import inspect_layouts, probe_each
from posenc.errors import CheckpointError, PosencError
from posenc.identification import identify
from posenc.identification.columns import TableInput
from posenc.identification.identify import (
    error_sentence,
    fit_sentence,
    from_exact,
    headline,
    leading_error,
)
from posenc.kernel import position_vectors
from posenc.schemes import SCHEMES
from posenc.settings import Query, Setting, known
from posenc.tables import sinusoidal_table

LAYOUT_POSITIONS = 96  # of the scores of two layouts; more shows nothing else
NOTHING = "No table is here to identify."


@dataclass(frozen=True)
class Answer:
    """What one table is. about: where it comes from. deviations: kind, sentence. found: one row.

    by_column: part, column, x, function, difference from the formula as found and with exact angles.
    tables: pictures of the table and of its formula.
    """

    headline: str
    about: tuple[str, ...]
    fit: str
    deviations: tuple[tuple[str, str], ...]
    also: tuple[str, ...]
    known: bool
    found: pd.DataFrame
    shown: pd.DataFrame
    by_column: pd.DataFrame
    worst: str
    tables: tuple[Drawn, ...]


@dataclass(frozen=True)
class Layouts:
    """Scores of two layouts used in every way: one row each, and their pictures; a weight's code."""

    sentence: str
    numbers: pd.DataFrame
    scores: tuple[Drawn, ...]


@dataclass(frozen=True)
class Told:
    """What position vectors tell: one table's, a sinusoidal one's and random numbers of its shape."""

    sentence: str
    numbers: pd.DataFrame


@dataclass(frozen=True)
class Read:
    """Everything on the page. answer, told: None where the reasons say why there is none.

    told: of an upload that is chosen, and of the learned table; untold: why one of them has none.
    """

    headline: str
    answer: Answer | None
    reason: str
    layouts: Layouts
    conversion: str
    told: tuple[Told, ...]
    untold: tuple[str, ...]

    @property
    def probes(self) -> pd.DataFrame:
        """The probes of all tables, one row each."""
        numbers = [one.numbers for one in self.told]
        return pd.concat(numbers, ignore_index=True) if numbers else pd.DataFrame()


def read(setting: Setting, chosen: CheckChoice, refused: str = "") -> Read:
    """Return what the page shows of a setting. refused: why no table is to be identified."""
    setting, answer, reason = of_sidebar(setting), None, ""
    try:
        if chosen.table not in EXAMPLES:
            cached_numbers(chosen.table)
        # An upload's numbers have nothing of the setting in them.
        if not refused:
            answer = _answer(chosen.table, setting if chosen.table in EXAMPLES else Setting())
    except CheckpointError as error:
        reason = f"{error} Nothing is shown in its place."
    except PosencError as error:
        reason = str(error)
    told, untold = [], []
    asked = [
        lambda: _told_of_learned(Query.of(setting, "learned", length=MAX_PROBED_ROWS), setting.seed)
    ]
    if answer is not None and chosen.table not in EXAMPLES:
        asked.insert(0, lambda: _told_of_upload(chosen.table, setting.seed))
    for one in asked:
        try:
            told.append(one())
        except PosencError as error:
            untold.append(str(error))
    width, heads = setting.rope_width, 1 if setting.equal_width else setting.heads
    positions = min(setting.length, LAYOUT_POSITIONS)
    return Read(
        headline=refused or NOTHING if answer is None else answer.headline,
        answer=answer,
        reason=reason,
        layouts=_layouts(positions, width, setting.base, setting.seed),
        conversion=conversion(heads, width),
        told=tuple(told),
        untold=tuple(untold),
    )


def of_sidebar(setting: Setting) -> Setting:
    """Return a setting without its real model, which the page has no control of and does not read."""
    return replace(setting, model="", alibi_head=0)


def tables(name: str, setting: Setting) -> Tables:
    """Return the table of a name, or its cosines and sines; raises CheckpointError where it is gone."""
    if name in EXAMPLES:
        return EXAMPLES[name].make(setting)
    held = cached_numbers(name)
    return held.table, held.sines


@st.cache_data(**CACHE)
def _answer(name: str, setting: Setting) -> Answer:
    table, sines = tables(name, setting)
    found = identify(table, sines)
    if name in EXAMPLES:
        about: tuple[str, ...] = (EXAMPLES[name].sentence,)
        if setting.table_dtype is not None:
            about = (*about, f"All of it rounded to {setting.precision}.")
    else:
        held = cached_numbers(name)
        about = (f"From {held.source}.", *held.notes)
    apart = from_exact(found, table, sines) if found.known else None
    return Answer(
        headline=f"{leading_error(found, apart)} {headline(found)}".strip(),
        about=about,
        fit=fit_sentence(found),
        deviations=tuple((one.kind, one.sentence) for one in found.deviations),
        also=found.also,
        known=found.known,
        found=frames.found(found),
        shown=frames.shown(found, apart),
        by_column=frames.by_column(found, apart),
        worst="" if apart is None else error_sentence(found, apart),
        tables=frames.tables(found, table, sines),
    )


@st.cache_data(**CACHE)
def _layouts(positions: int, width: int, base: float, seed: int) -> Layouts:
    found = inspect_layouts(positions, width, base, seed=seed)
    return Layouts(
        frames.layout_sentence(found, width),
        frames.layouts(found),
        frames.scores(found),
    )


@st.cache_data(**CACHE)
def _told_of_learned(query: Query, seed: int) -> Told:
    scheme = query.build("cpu")
    rows = position_vectors(scheme, known(scheme, query.length), dtype=query.dtype)
    rows_there = scheme.max_length or len(rows)
    return _told(scheme.provenance or SCHEMES["learned"].label, rows, rows_there, seed)


@st.cache_data(**CACHE)
def _told_of_upload(name: str, seed: int) -> Told:
    held = cached_numbers(name)
    rows = TableInput.of(held.table, held.sines).columns
    return _told(f"table in {held.source}", rows, len(rows), seed)


def _told(name: str, rows: Tensor, rows_there: int, seed: int) -> Told:
    """Probe the first rows of a table: as many as a page may, which are told of where there are more."""
    width = rows.shape[1]
    rows = rows[: probed_rows(width)].double()
    same = sinusoidal_table(len(rows), width + width % 2, dtype=torch.float64)[:, :width]
    one_thread_for_numpy()
    ours, sinusoidal = probe_each([rows, same], seed=seed)
    return Told(
        frames.probe_sentence(name, ours, rows_there),
        frames.probes(name, width, ours, sinusoidal),
    )


def conversion(heads: int, width: int) -> str:
    """Return the code that makes a weight of queries or keys fit the other layout."""
    return (
        f"# weight: ({heads} x {width}, features in), of the queries, then of the keys\n"
        f"order = torch.arange({width}).view(-1, 2).T.flatten()  # 0, 2, 4, ..., then 1, 3, 5, ...\n"
        f"half = weight.view({heads}, {width}, -1)[:, order].flatten(0, 1)  # neighbours to halves\n"
        f"back = half.view({heads}, {width}, -1)[:, order.argsort()].flatten(0, 1)"
    )
