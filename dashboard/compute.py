"""The only cached functions: parameters in, results out; never keyed by an array.

Results hold numpy arrays, because the cache copies them by pickling. Every cache is bounded in
entries and bytes; `server.maxCacheDataSize` bounds them all together.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import numpy as np
import streamlit as st
import torch

from dashboard.matrix import Curve, MatrixValues, smallest
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
    extrapolation,
    linear_map,
    linear_map_fit,
    linearity,
    projection,
    properties,
    similarity,
)
from posenc.errors import NoPositionKernel, NoPositionVectors, NotStationary, SchemeArgumentError
from posenc.offset_maps import DENSE_WIDTH, corner
from posenc.schemes.learned import Learned
from posenc.schemes.scheme import Head, Scheme, SchemeConfig, VectorScheme, rounded
from posenc.setting import PRECISIONS

# One core per session's script: two threads of one product would only fight over the other core.
torch.set_num_threads(1)

Array = np.ndarray[Any, Any]
CACHE: dict[str, Any] = {"max_entries": 128, "max_size": "64MB", "show_spinner": False}

OFFSETS = (1, 2, 4, 8, 16, 32, 64)
MAX_READ = 2**20  # positions past which no formula is read here
PICTURED = 32  # rows and columns of M_k that are drawn
MAX_DENSE_WIDTH = 512  # a dense fit of this width takes a few seconds
DENSE_POSITIONS = 768  # positions of a dense fit through a kernel
CLAIM_POSITIONS = 256  # positions on which the claims about offsets are checked
COMPOSED_POSITIONS = 32  # positions that growing matrices must reach when they are multiplied
MEASURED_PRODUCTS = 2**28  # distances come from the vectors themselves up to this much work
DRAWN_OFFSETS = 2_048
SCANNED_POSITIONS = 8_192  # every position is checked up to here, samples are drawn past it
SCANNED_OFFSETS = 65_536  # where the search for B(k) < 0 ends

# What rounding alone leaves of an exact map, by the precision of the tables.
MAP_TOLERANCE = {"float32": 1e-6, "bfloat16": 2**-6, "float16": 2**-9}


@dataclass(frozen=True)
class Query:
    """Everything that decides what one scheme shows; the key of every cache."""

    config: SchemeConfig
    length: int
    head: Head = "mean"
    precision: str = "float32"
    seed: int = 0
    device: str = "cpu"

    @classmethod
    def of(cls, setting: Setting, kind: str, length: int | None = None) -> Self:
        """Make the query of one scheme of a setting, with what the scheme ignores left out."""
        config = setting.config(kind)
        return cls(
            config=config,
            length=setting.length if length is None else length,
            head=setting.head if "heads" in config.shared else "mean",
            precision=setting.precision,
            seed=setting.seed if "seed" in config.uses else 0,
            device=device(setting.device),
        )

    def build(self, place: torch.device | str = "cpu") -> Scheme:
        """Return the scheme on a device."""
        return self.config.build(device=place, seed=self.seed)

    @property
    def dtype(self) -> torch.dtype | None:
        """The dtype tables are rounded to, None for exact."""
        return PRECISIONS[self.precision]


@dataclass(frozen=True)
class Kernel:
    """A scheme's position kernel: a curve (2n-1,) where one says it all, else a matrix (n, n)."""

    values: Array
    length: int  # positions that have a value; fewer than asked past a learned table
    unit: str
    provenance: str
    trained: bool
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

    @property
    def untrained(self) -> bool:
        """Whether this is a table that nobody trained."""
        return self.kernel.provenance.startswith("random") and not self.kernel.trained


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
    scheme = query.build()
    return scheme.provenance if isinstance(scheme, Learned) else ""


@st.cache_data(**CACHE)
def kernel(query: Query) -> Kernel:
    """Return the position kernel over the positions that have a value."""
    known = query.build().max_length
    length = query.length if known is None else min(query.length, known)

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
    learned = scheme if isinstance(scheme, Learned) else None
    return Kernel(
        values=values.numpy(),
        length=length,
        unit=scheme.kernel_unit,
        provenance=learned.provenance if learned else "",
        trained=learned.trained if learned else False,
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


@st.cache_data(**CACHE)
def projected(query: Query, fitted: int, components: int) -> Projected:
    """Return principal components fitted on the first `fitted` positions, all of them projected."""
    scheme = query.build()
    known = query.length if scheme.max_length is None else min(query.length, scheme.max_length)
    inside = min(fitted, known)
    if isinstance(scheme, VectorScheme) and position_vectors(scheme, 1).shape[1] <= MAX_DENSE_WIDTH:
        vectors = position_vectors(scheme, known, dtype=query.dtype)
        found = projection.project(vectors, components, fit=inside)
        size = vectors.square().sum(dim=1).nanmean().sqrt()
    else:
        # Wide vectors: the same scores from their inner products, in a fraction of the time. The
        # exponential of a rounded bias need not have vectors at all, so there it is not rounded.
        dtype = query.dtype if isinstance(scheme, VectorScheme) else None
        matrix = position_kernel(scheme, known, head=query.head, dtype=dtype)
        found = projection.project_gram(matrix, components, fit=inside)
        size = matrix.diagonal().nanmean().sqrt()
    return Projected(
        scores=(found.scores[:, :3] / size).numpy(),
        explained=found.explained_variance_ratio.numpy(),
        missing=int(found.missing.sum()),
        fitted=int(found.fitted.sum()),
        past=known - inside,
        note=scheme.provenance if isinstance(scheme, Learned) else "",
    )


@st.cache_data(**CACHE)
def measured(query: Query) -> properties.Properties:
    """Return the measured properties of a scheme's positions."""
    found = kernel(query)
    scheme = query.build()
    vectors = None
    if isinstance(scheme, VectorScheme):
        width = position_vectors(scheme, 1).shape[1]
        if found.length**2 * width <= MEASURED_PRODUCTS:
            vectors = position_vectors(scheme, found.length, dtype=query.dtype)
    return properties.measure(**found.arguments(), vectors=vectors)


# Relative offsets ---------------------------------------------------------------------------


@dataclass(frozen=True)
class OffsetMap:
    """Is phi(i + k) = M_k phi(i)? Errors are relative; predicting nothing gives 1."""

    closed: float | None  # of the scheme's own M_k, None where it has none
    fitted: float | None  # held out, one matrix fitted to half the positions, where none is closed
    fitted_control: float | None
    pairs: float | None  # held out, two numbers fitted per pair of features
    control: float | None  # the same fit on a random table
    composed: float | None  # of M_k M_second against M_(k + second)
    verdict: str
    picture: Array | None  # the first rows and columns of M_k
    provenance: str


@dataclass(frozen=True)
class DenseFit:
    """One matrix fitted without knowing the scheme, or why it cannot be."""

    fit: linear_map_fit.LinearMapFit | None
    reason: str


@dataclass(frozen=True)
class OffsetClaims:
    """The two claims about the kernel: a function of the offset alone, a straight line in it."""

    only: linearity.OffsetOnly
    straight: linearity.LinearInOffset


@st.cache_data(**CACHE)
def offset_map(query: Query, offset: int, second: int) -> OffsetMap | None:
    """Return check 1 at one offset, None where the scheme has no position vectors."""
    scheme = query.build()
    length = _known(scheme, min(query.length, CLAIM_POSITIONS))
    heads = range(scheme.heads) if query.head == "mean" and scheme.heads else (query.head,)
    try:
        widths = [
            position_vectors(scheme, n, head=heads[0], dtype=query.dtype).shape[1]
            for n in (length, max(1, length // 2))
        ]
    except NoPositionVectors:
        return None
    size = COMPOSED_POSITIONS
    errors, composed, picture = [], [], None
    for head in heads:
        matrix = scheme.offset_map(offset, size=max(1, length - offset), head=head)
        if matrix is None or length <= offset:
            break
        vectors = position_vectors(scheme, length, head=head, dtype=query.dtype)
        errors.append(linear_map.verify_map(vectors, matrix, offset))
        first = scheme.offset_map(offset, size=size + second, head=head)
        after = scheme.offset_map(second, size=size, head=head)
        both = scheme.offset_map(offset + second, size=size, head=head)
        assert first is not None
        assert after is not None
        assert both is not None
        composed.append(linear_map.composition_error(first, after, both))
        picture = corner(matrix, PICTURED).numpy() if picture is None else picture
    pairs = _pair_fit(scheme, query, length, offset)
    whole = None if errors else _kernel_fit(scheme, query, length, offset)
    error = max(errors) if errors else None
    if whole:
        error = whole.held_out_error
        widths = [whole.rank, whole.rank]
    return OffsetMap(
        closed=None if whole else error,
        fitted=whole.held_out_error if whole else None,
        fitted_control=whole.control_held_out if whole else None,
        pairs=pairs.held_out_error if pairs else None,
        control=pairs.control_held_out if pairs else None,
        composed=max(composed) if composed else None,
        verdict=_verdict(error, query, widths),
        picture=picture,
        provenance=scheme.provenance if isinstance(scheme, Learned) else "",
    )


@st.cache_data(**CACHE)
def map_errors(query: Query) -> dict[str, Array]:
    """Return check 1 over a range of offsets: the closed form, the pair fit, its random control."""
    wide = getattr(query.config, "dim", 0) > DENSE_WIDTH
    offsets = OFFSETS[::3] if wide else OFFSETS
    found = [offset_map(query, offset, 1) for offset in offsets]
    return {
        "offset": np.array(offsets),
        **{
            name: np.array(
                [
                    np.nan if one is None or getattr(one, name) is None else getattr(one, name)
                    for one in found
                ],
                dtype=float,
            )
            for name in ("closed", "pairs", "control")
        },
    }


@st.cache_data(**CACHE)
def dense_fit(query: Query, offset: int) -> DenseFit:
    """Return the fit of a whole matrix, on as many positions as its width needs, and on later ones."""
    scheme = query.build()
    try:
        if isinstance(scheme, VectorScheme):
            width = position_vectors(scheme, 1).shape[1]
            if width > MAX_DENSE_WIDTH:
                return DenseFit(
                    None,
                    f"width {width:,} is more than is fitted here ({MAX_DENSE_WIDTH}); "
                    "use posenc.analysis.fit_dense",
                )
            inside = 4 * width + 2 * offset
            length = _known(scheme, inside + width)
            vectors = position_vectors(scheme, length, dtype=query.dtype)
            fit = linear_map_fit.fit_dense(vectors, offset, train_length=inside, seed=query.seed)
        else:
            values = position_kernel(scheme, DENSE_POSITIONS, head=query.head, dtype=query.dtype)
            fit = linear_map_fit.fit_kernel(
                values, offset, train_length=DENSE_POSITIONS * 2 // 3, seed=query.seed
            )
    except SchemeArgumentError as error:
        return DenseFit(None, str(error))
    return DenseFit(fit, "")


@st.cache_data(**CACHE)
def offset_claims(query: Query) -> OffsetClaims:
    """Return checks 2 and 3, on the vectors themselves where there are any, not on a closed form."""
    scheme = query.build()
    length = _known(scheme, min(query.length, CLAIM_POSITIONS))
    try:
        vectors = position_vectors(scheme, length, head=query.head, dtype=query.dtype)
        gram = vectors @ vectors.T
    except NoPositionVectors:
        gram = position_kernel(scheme, length, head=query.head, dtype=query.dtype)
    bias = scheme.offset_bias(-torch.arange(length))
    if bias is None:
        logits = similarity.similarity_by_offset(gram, side="before").mean
    else:
        bias = rounded(bias, query.dtype)
        logits = bias.mean(dim=0) if query.head == "mean" else bias[query.head]
    return OffsetClaims(
        linearity.offset_only(gram, seed=query.seed),
        linearity.linear_in_offset(logits, seed=query.seed),
    )


def _verdict(error: float | None, query: Query, widths: list[int]) -> str:
    if error is None:
        return "too few positions to tell"
    if math.isnan(error):
        return "undefined, all vectors are zero"
    verdict, words = linear_map.verdict(
        error,
        dimension=widths[1],
        dimension_at_double=widths[0],
        tolerance=MAP_TOLERANCE[query.precision],
    )
    rounded_off = query.dtype is not None and verdict is not linear_map.Verdict.NONE
    return f"{words} up to the rounding of {query.precision}" if rounded_off else words


def _pair_fit(
    scheme: Scheme, query: Query, length: int, offset: int
) -> linear_map_fit.LinearMapFit | None:
    """Fit two numbers per pair of features, where the vectors come in pairs and there are enough."""
    if not isinstance(scheme, VectorScheme) or length < offset + 4:
        return None
    vectors = position_vectors(scheme, length, dtype=query.dtype)
    if (vectors.shape[1] - scheme.unpaired) % 2:
        return None
    return linear_map_fit.fit_pairs(
        vectors,
        offset,
        layout=scheme.pair_layout,
        first=scheme.pair_first,
        tail=scheme.unpaired,
        seed=query.seed,
    )


def _kernel_fit(
    scheme: Scheme, query: Query, length: int, offset: int
) -> linear_map_fit.LinearMapFit | None:
    """The held-out error of one matrix fitted through the kernel, the verdict without a closed form."""
    if length < offset + 4:
        return None
    values = position_kernel(
        scheme, min(length, CLAIM_POSITIONS), head=query.head, dtype=query.dtype
    )
    if len(values) < offset + 4:
        return None
    return linear_map_fit.fit_kernel(values, offset, seed=query.seed)


# Extrapolation ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Past:
    """What a formula gives past the training length; never a measurement."""

    limit: int | None  # the first position without a value; the rest is empty past a table
    offsets: Array
    cosine: Array
    outside: int | None  # offsets past L whose value was never taken inside, None if not scanned
    first_outside: int | None
    nearest_positions: Array
    nearest: Array  # distance to the nearest seen position over the own norm


@dataclass(frozen=True)
class Ladder:
    """What the frequencies of a scheme do within the training length."""

    turns: Array
    full_turn_pairs: int
    critical_dimension: int  # Liu's formula counts exactly the pairs with a full turn, twice
    rotary_dim: int
    first_negative: int | None
    scanned: int


@st.cache_data(**CACHE)
def past(query: Query, train_length: int) -> Past:
    """Return a stationary kernel past the training length; a table has only its own last row."""
    scheme = query.build()
    if not scheme.stationary:
        nothing = np.zeros(0)
        return Past(scheme.max_length, nothing, nothing, None, None, nothing, nothing)
    count = query.length
    offsets = torch.unique(torch.linspace(0, count - 1, min(count, DRAWN_OFFSETS)).round().long())
    values = scheme.offset_kernel(-offsets, query.head)
    outside = first_outside = None
    positions, nearest = np.zeros(0), np.zeros(0)
    if count <= SCANNED_POSITIONS:
        curve = offset_curve(scheme, count, head=query.head)
        found = extrapolation.kernel_past(curve, train_length)
        outside, first_outside = found.outside, found.first_outside
        seen = extrapolation.nearest_seen_distance(train_length, curve=curve)
        positions, nearest = seen.positions.numpy(), seen.relative.numpy()
    zero = scheme.offset_kernel(torch.zeros(1, dtype=torch.int64), query.head)
    return Past(
        None, offsets.numpy(), (values / zero).numpy(), outside, first_outside, positions, nearest
    )


@st.cache_data(**CACHE)
def ladder(query: Query, train_length: int) -> Ladder | None:
    """Return what the frequencies do within the training length, None for a scheme without any."""
    scheme = query.build()
    inv_freq = scheme.inv_freq
    if inv_freq is None:
        return None
    rotary_dim = 2 * len(inv_freq)
    coverage = extrapolation.phase_coverage(inv_freq, train_length)
    return Ladder(
        turns=coverage.turns.numpy(),
        full_turn_pairs=coverage.full_turn_pairs,
        critical_dimension=2 * coverage.full_turn_pairs,
        rotary_dim=rotary_dim,
        first_negative=extrapolation.first_negative_offset(inv_freq, SCANNED_OFFSETS),
        scanned=SCANNED_OFFSETS,
    )


def _known(scheme: Scheme, length: int) -> int:
    """Return how many of the first `length` positions have a value."""
    return length if scheme.max_length is None else min(length, scheme.max_length)


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
