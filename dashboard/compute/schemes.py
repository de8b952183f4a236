"""The cached results: parameters in, results out; never keyed by an array.

Results hold numpy arrays, because the cache copies them by pickling. Every cache is bounded in
entries, those of results in pickled bytes too; `server.maxCacheDataSize` bounds all that Streamlit
caches together. Pages' whole readings lie beside them, in `kept.readings`, which has a bound of its own.
"""

import functools
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import streamlit as st
import torch

from dashboard import limits
from dashboard.components.matrix import Curve, MatrixValues, smallest
from dashboard.compute.upload_cache import is_evicted
from posenc import analysis, best_device, device_name, position_vectors, run_with_fallback
from posenc.device import Ran
from posenc.errors import CheckpointError, NoPositionKernel, NoPositionVectors, PositionOutOfRange
from posenc.settings import Query, Setting, known

# One core per session's script: two threads of one product would only fight over the other core.
torch.set_num_threads(1)

Array = np.ndarray[Any, Any]


def _name(asked: Query | Setting) -> str:
    """Return the name by which results are cached: another one once an uploaded table has gone.

    A query is plain numbers and words, so its text names it in full, and far sooner than Streamlit's walk
    through its fields: a page asks for some twenty results per run.
    """
    named = asked if isinstance(asked, Setting) else asked.config
    source = getattr(named, "learned_source", getattr(named, "source", ""))
    return f"{asked!r} without its table" if is_evicted(source) else repr(asked)


CACHE: dict[str, Any] = {
    "max_entries": 128,
    "max_size": "64MB",
    "show_spinner": False,
    "hash_funcs": {Query: _name, Setting: _name},
}


MANY: dict[str, Any] = CACHE | {"max_entries": 1_024}  # of small results


@dataclass(frozen=True)
class Kernel:
    """A scheme's position kernel: a curve (2n-1,) where one says it all, else a matrix (n, n)."""

    values: Array
    length: int  # positions that have a value; fewer than asked past a learned table
    unit: str
    provenance: str
    untrained: bool  # whether these are numbers that nobody trained
    start: str  # what those are
    heads: int | None
    notice: str | None

    @property
    def stationary(self) -> bool:
        """Whether `values` is a curve over offsets."""
        return self.values.ndim == 1

    def arguments(self) -> dict[str, torch.Tensor]:
        """Return the kernel as the keyword argument that the analyses take."""
        return {"curve" if self.stationary else "kernel": torch.from_numpy(self.values)}


@dataclass(frozen=True)
class Similarity:
    """Cosine similarity of a scheme's positions, ready to be drawn."""

    kernel: Kernel
    matrix: MatrixValues
    offsets: Array
    mean: Array
    spread: Array
    low: Array
    high: Array
    undefined: int


Result = TypeVar("Result")


def each(
    function: Callable[..., Result], queries: Mapping[str, Query], *arguments: Any
) -> tuple[dict[str, Result], dict[str, str]]:
    """Apply a function to every scheme: what it found, and why the other schemes have no answer."""
    found: dict[str, Result] = {}
    reasons: dict[str, str] = {}
    for kind, query in queries.items():
        try:
            found[kind] = function(query, *arguments)
        except (
            CheckpointError,
            NoPositionKernel,
            NoPositionVectors,
            PositionOutOfRange,
        ) as reason:
            reasons[kind] = str(reason)
    return found, reasons


def query(setting: Setting, kind: str, length: int | None = None) -> Query:
    """Return what one scheme of a setting is asked, on the device that the setting means."""
    return Query.of(setting, kind, device(setting.device), length)


@st.cache_data(max_entries=8, show_spinner=False)
def device(asked: str) -> str:
    """Return the device to compute on: the one asked for if it works, else the best that does."""
    available = best_device()
    return asked if asked in ("cpu", available.type) else available.type


@st.cache_data(max_entries=8, show_spinner=False)
def device_label(name: str) -> str:
    """Return the device's name for people."""
    return device_name(name)


@st.cache_data(**CACHE)
def provenance(query: Query) -> str:
    """Return where a table's numbers come from, "" for a formula."""
    return query.build("cpu").provenance


def check_table(query: Query) -> None:
    """Raise NoPositionKernel for a stored table of which no row can be compared with another."""
    scheme = query.build("cpu")
    if scheme.max_length is None:
        return
    rows = position_vectors(scheme, known(scheme, query.length), dtype=query.dtype)
    if not rows.square().sum(dim=1).isfinite().any():
        rounded = "" if query.dtype is None else f" once rounded to {query.precision}"
        raise NoPositionKernel(
            f"{scheme.config.label}: no row of the table has a finite norm{rounded}, so there is "
            "nothing to compare."
        )


def _values(query: Query) -> Ran[torch.Tensor]:
    """Compute a kernel, or its curve, on the device that is asked for, or where that fails the CPU."""
    return run_with_fallback(lambda place: analysis.kernel_values(query, place).cpu(), query.device)


@st.cache_data(**CACHE)
def kernel(query: Query) -> Kernel:
    """Return the position kernel over the positions that have a value."""
    check_table(query)
    length = known(query.build("cpu"), query.length)

    ran = _values(query)
    values, scheme = ran.value, query.build("cpu")
    return Kernel(
        values=values.numpy(),
        length=length,
        unit=scheme.kernel_unit,
        provenance=scheme.provenance,
        untrained=scheme.untrained,
        start=scheme.config.start,
        heads=scheme.heads,
        notice=ran.notice,
    )


@st.cache_data(**CACHE)
def cosine(query: Query) -> Similarity:
    """Return cosine similarity as matrix (the first positions, up to the drawing cap) and by offset."""
    found = kernel(query)
    drawn = min(query.length, limits.MAX_DRAWN_CELLS)
    read = analysis.scheme_similarity(query, torch.from_numpy(found.values))
    if found.stationary:
        middle = len(read.cosine) // 2
        matrix: MatrixValues = Curve.from_tensor(read.cosine[middle - drawn + 1 : middle + drawn])
    else:
        matrix = smallest(_padded(read.cosine[:drawn, :drawn], drawn))
    return Similarity(
        kernel=found,
        matrix=matrix,
        offsets=read.distances.numpy(),
        mean=read.mean.numpy(),
        spread=read.deviation.numpy(),
        low=read.low.numpy(),
        high=read.high.numpy(),
        undefined=read.undefined,
    )


@st.cache_data(**CACHE)
def cosine_change(now: Query, then: Query) -> MatrixValues:
    """Return the cosine similarity of one query minus that of another, over the positions both show.

    Subtracted in float64, rounded once.
    """
    drawn = min(now.length, then.length, limits.MAX_DRAWN_CELLS)
    # The cosine of two positions is the same however many there are: those drawn are enough.
    ours, theirs = (
        analysis.scheme_similarity(one, _values(one).value)
        for one in (replace(now, length=drawn), replace(then, length=drawn))
    )
    return smallest(analysis.similarity_change(ours, theirs, drawn))


@st.cache_data(**CACHE)
def reference_row(query: Query, reference: int) -> tuple[Array, Array] | None:
    """Return (positions, cosine similarity) against one query position, None where it has no row."""
    found = kernel(query)
    if reference >= found.length:
        return None
    cosine = analysis.similarity_row(reference, **found.arguments())
    return np.arange(found.length), cosine.numpy()


@st.cache_data(**CACHE)
def measured(query: Query) -> analysis.Properties:
    """Return the measured properties of a scheme's positions."""
    return analysis.scheme_properties(query, torch.from_numpy(kernel(query).values))


# Relative offsets ---------------------------------------------------------------------------


@st.cache_data(**CACHE)
def offset_map(query: Query, offset: int, second: int) -> analysis.OffsetMap:
    """Return check 1 at one offset."""
    return analysis.scheme_offset_map(query, offset, second)


@st.cache_data(**CACHE)
def map_errors(query: Query) -> dict[str, Array]:
    """Return check 1 over a range of offsets."""
    found = analysis.scheme_map_errors(query)
    return {
        "offset": found.offset.numpy(),
        "error": found.error.numpy(),
        "control": found.control.numpy(),
    }


@st.cache_data(**CACHE)
def dense_fit(query: Query, offset: int) -> analysis.DenseFit:
    """Return the fit of a whole matrix."""
    return analysis.scheme_dense_fit(query, offset)


@st.cache_data(**CACHE)
def offset_claims(query: Query) -> analysis.OffsetClaims:
    """Return checks 2 and 3."""
    check_table(query)
    return analysis.scheme_offset_claims(query)


# Extrapolation ------------------------------------------------------------------------------


@st.cache_data(**CACHE)
def past(query: Query, train_length: int) -> analysis.SchemeKernelPast:
    """Return what a formula gives past the training length."""
    return analysis.scheme_kernel_past(query, train_length)


@st.cache_data(**CACHE)
def coverage(query: Query, train_length: int) -> analysis.SchemeCoverage | None:
    """Return what the frequencies do within the training length, None for a scheme without any."""
    return analysis.scheme_coverage(query, train_length)


def _padded(matrix: torch.Tensor, size: int) -> torch.Tensor:
    """Return the matrix with blanks (NaN) for positions that have no value."""
    whole = matrix.new_full((size, size), torch.nan)
    whole[: len(matrix), : len(matrix)] = matrix
    return whole


@functools.cache
def one_thread_for_numpy() -> None:
    """Bound the threads of scikit-learn's linear algebra like torch's; it has to be loaded first."""
    from threadpoolctl import threadpool_limits

    importlib.import_module("sklearn.decomposition")
    threadpool_limits(limits=1)
