"""The cached results: parameters in, results out; never keyed by an array.

Results hold numpy arrays, because the cache copies them by pickling. Every cache is bounded in
entries and bytes; `server.maxCacheDataSize` bounds them all together.
"""

import functools
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import streamlit as st
import torch

from dashboard import offset_checks, past_length
from dashboard.matrix import Curve, MatrixValues, smallest
from dashboard.query import Query, known
from posenc import (
    Setting,
    best_device,
    device_name,
    limits,
    offset_curve,
    position_kernel,
    position_vectors,
    run_with_fallback,
)
from posenc.analysis import (
    projection,
    properties,
    similarity,
)
from posenc.errors import NoPositionKernel, NoPositionVectors, NotStationary
from posenc.schemes.scheme import Scheme, VectorScheme

# One core per session's script: two threads of one product would only fight over the other core.
torch.set_num_threads(1)

Array = np.ndarray[Any, Any]
# A query is plain numbers and words, so its text names it in full, and far sooner than Streamlit's
# walk through its fields: a page asks for some twenty results per run.
CACHE: dict[str, Any] = {
    "max_entries": 128,
    "max_size": "64MB",
    "show_spinner": False,
    "hash_funcs": {Query: repr},
}

MAX_VECTOR_WIDTH = 512  # wider vectors are projected through their inner products
MEASURED_PRODUCTS = 2**28  # distances come from the vectors themselves up to this much work


@dataclass(frozen=True)
class Kernel:
    """A scheme's position kernel: a curve (2n-1,) where one says it all, else a matrix (n, n)."""

    values: Array
    length: int  # positions that have a value; fewer than asked past a learned table
    unit: str
    provenance: str
    untrained: bool  # whether this is a table that nobody trained
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


@functools.cache
def _one_thread_for_numpy() -> None:
    """Bound the threads of scikit-learn's linear algebra like torch's; it has to be loaded first."""
    from threadpoolctl import threadpool_limits

    importlib.import_module("sklearn.decomposition")
    threadpool_limits(limits=1)


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
        except (NoPositionKernel, NoPositionVectors) as reason:
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
    return query.build().provenance


def _check_table(query: Query) -> None:
    """Raise NoPositionKernel for a stored table of which no row can be compared with another."""
    scheme = query.build()
    if scheme.max_length is None:
        return
    rows = position_vectors(scheme, known(scheme, query.length), dtype=query.dtype)
    if not rows.square().sum(dim=1).isfinite().any():
        rounded = "" if query.dtype is None else f" once rounded to {query.precision}"
        raise NoPositionKernel(
            f"{scheme.config.label}: no row of the table has a finite norm{rounded}, so there is "
            "nothing to compare."
        )


@st.cache_data(**CACHE)
def kernel(query: Query) -> Kernel:
    """Return the position kernel over the positions that have a value."""
    _check_table(query)
    length = known(query.build(), query.length)

    def compute(place: torch.device) -> tuple[torch.Tensor, Scheme]:
        scheme = query.build(place)
        asked: dict[str, Any] = {"head": query.head, "dtype": query.dtype, "device": place}
        try:
            values = offset_curve(scheme, length, **asked)
        except NotStationary:
            values = position_kernel(scheme, length, **asked)
        return values.cpu(), scheme

    ran = run_with_fallback(compute, query.device)
    values, scheme = ran.value
    return Kernel(
        values=values.numpy(),
        length=length,
        unit=scheme.kernel_unit,
        provenance=scheme.provenance,
        untrained=scheme.untrained,
        heads=scheme.heads,
        notice=ran.notice,
    )


@st.cache_data(**CACHE)
def cosine(query: Query) -> Similarity:
    """Return cosine similarity as matrix (the first positions, up to the drawing cap) and by offset."""
    found = kernel(query)
    drawn = min(query.length, limits.MAX_DRAWN_CELLS)
    undefined = 0
    if found.stationary:
        curve = similarity.cosine_curve(torch.from_numpy(found.values))
        profile = similarity.similarity_by_offset(curve=curve, side="before")
        middle = len(curve) // 2
        matrix: MatrixValues = Curve.from_tensor(curve[middle - drawn + 1 : middle + drawn])
        low, high = _over_heads(query, profile.offsets) or (profile.low, profile.high)
    else:
        scaled = similarity.cosine_matrix(torch.from_numpy(found.values))
        undefined = scaled.undefined_count
        profile = similarity.similarity_by_offset(scaled.values, side="before")
        matrix = smallest(_padded(scaled.values[:drawn, :drawn], drawn))
        low, high = profile.low, profile.high
    return Similarity(
        kernel=found,
        matrix=matrix,
        offsets=-profile.offsets.numpy(),
        mean=profile.mean.numpy(),
        spread=profile.spread.numpy(),
        low=low.numpy(),
        high=high.numpy(),
        undefined=undefined,
    )


@st.cache_data(**CACHE)
def reference_row(query: Query, reference: int) -> tuple[Array, Array] | None:
    """Return (positions, cosine similarity) against one query position, None where it has no row."""
    found = kernel(query)
    if reference >= found.length:
        return None
    row = similarity.similarity_row(reference, **found.arguments())
    return np.arange(found.length), row.cosine.numpy()


@dataclass(frozen=True)
class Projected:
    """Positions on their principal components, in units of the vectors' root mean square norm."""

    scores: Array  # (n, 3)
    explained: Array  # (k,) share of variance per component
    missing: int
    fitted: int  # positions inside the fitted range that are finite
    past: int  # positions past that range
    note: str
    rounded: bool = False  # whether the precision asked for had a part in it


@st.cache_data(**CACHE)
def projected(query: Query, fitted: int, components: int) -> Projected:
    """Return principal components fitted on the first `fitted` positions, all of them projected."""
    _check_table(query)
    _one_thread_for_numpy()
    scheme = query.build()
    length = known(scheme, query.length)
    inside = min(fitted, length)
    dtype = query.dtype if isinstance(scheme, VectorScheme) else None
    if (
        isinstance(scheme, VectorScheme)
        and position_vectors(scheme, 1).shape[1] <= MAX_VECTOR_WIDTH
    ):
        vectors = position_vectors(scheme, length, dtype=dtype)
        found = projection.project(vectors, components, fit=inside)
        size = vectors.square().sum(dim=1).nanmean().sqrt()
    else:
        # Wide vectors: the same scores from their inner products, in a fraction of the time. The
        # exponential of a rounded bias need not have vectors at all, so there it is not rounded.
        matrix = position_kernel(scheme, length, head=query.head, dtype=dtype)
        found = projection.project_gram(matrix, components, fit=inside)
        size = matrix.diagonal().nanmean().sqrt()
    return Projected(
        scores=(found.scores[:, :3] / size).numpy(),
        explained=found.explained_variance_ratio.numpy(),
        missing=int(found.missing.sum()),
        fitted=int(found.fitted.sum()),
        past=length - inside,
        note=scheme.provenance,
        rounded=dtype is not None,
    )


@st.cache_data(**CACHE)
def measured(query: Query) -> properties.Properties:
    """Return the measured properties of a scheme's positions."""
    found = kernel(query)
    scheme = query.build()
    if not isinstance(scheme, VectorScheme):
        return properties.measure(**found.arguments())
    vectors = position_vectors(scheme, found.length, dtype=query.dtype)
    if found.length**2 * vectors.shape[1] <= MEASURED_PRODUCTS:
        return properties.measure(**found.arguments(), vectors=vectors)
    # The distances of so many wide vectors come from the kernel; their entries are read all the same.
    low, high = vectors[vectors.isfinite().all(dim=1)].aminmax()
    return replace(
        properties.measure(**found.arguments()), value_low=low.item(), value_high=high.item()
    )


# Relative offsets ---------------------------------------------------------------------------


@st.cache_data(**CACHE)
def offset_map(query: Query, offset: int, second: int) -> offset_checks.OffsetMap:
    """Return check 1 at one offset."""
    return offset_checks.check_map(query, offset, second)


@st.cache_data(**CACHE)
def map_errors(query: Query) -> dict[str, Array]:
    """Return check 1 over a range of offsets."""
    return offset_checks.check_maps(query)


@st.cache_data(**CACHE)
def dense_fit(query: Query, offset: int) -> offset_checks.DenseFit:
    """Return the fit of a whole matrix."""
    return offset_checks.check_dense(query, offset)


@st.cache_data(**CACHE)
def offset_claims(query: Query) -> offset_checks.OffsetClaims:
    """Return checks 2 and 3."""
    _check_table(query)
    return offset_checks.check_claims(query)


# Extrapolation ------------------------------------------------------------------------------


@st.cache_data(**CACHE)
def past(query: Query, train_length: int) -> past_length.Past:
    """Return what a formula gives past the training length."""
    return past_length.read_past(query, train_length)


@st.cache_data(**CACHE)
def ladder(query: Query, train_length: int) -> past_length.Ladder | None:
    """Return what the frequencies do within the training length, None for a scheme without any."""
    return past_length.read_ladder(query, train_length)


def _over_heads(query: Query, offsets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return the lowest and highest head at every offset beside a mean of heads, None elsewhere."""
    scheme = query.build()
    if query.head != "mean" or scheme.heads is None:
        return None
    zero = torch.zeros(1, dtype=torch.int64)
    heads = torch.stack(
        [
            scheme.offset_kernel(offsets, head, query.dtype)
            / scheme.offset_kernel(zero, head, query.dtype)
            for head in range(scheme.heads)
        ]
    )
    return heads.amin(dim=0), heads.amax(dim=0)


def _padded(matrix: torch.Tensor, size: int) -> torch.Tensor:
    """Return the matrix with blanks (NaN) for positions that have no value."""
    whole = matrix.new_full((size, size), torch.nan)
    whole[: len(matrix), : len(matrix)] = matrix
    return whole
