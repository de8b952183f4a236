"""The three checks of the Relative offsets page, put together from the library's analyses.

Nothing is cached here; compute.py does that.

Two claims about a kernel and its offsets, each able to fail, each with a random control.

Depends on the offset only: K(i, i + k) does not depend on i.
Straight line in the offset: the logit falls linearly with k (Press et al. 2022, arXiv 2108.12409).
The third claim of this kind, one matrix per offset, is in linear_map.py. Axes: n positions.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.analysis import linear_map, similarity
from posenc.analysis.inputs import Seed, as_float64, as_generator, as_kernel
from posenc.analysis.similarity import similarity_by_offset
from posenc.errors import NoPositionVectors, SchemeArgumentError
from posenc.kernel import position_kernel, position_vectors
from posenc.limits import check_count
from posenc.schemes.base import Head, Scheme, VectorScheme, rounded
from posenc.settings import Query, known

TOO_FEW_OFFSETS = "There are too few offsets with a value to lay a line through."
TOO_FEW_POSITIONS = "There are too few positions to compare one offset at two places."
NO_SPREAD = "All entries off the diagonal are equal, so there is no spread to compare with."

_EPS = torch.finfo(torch.float64).eps


@dataclass(frozen=True, eq=False)
class OffsetOnly:
    """How far a kernel is from a function of the offset alone.

    `error`: mean spread along the diagonals over the spread of all off-diagonal entries; 0 is
    exact, None with a `reason` where it is undefined. `control`: the same for a random table.
    `offsets`, `spread`: the diagonals averaged, and the standard deviation along each, in the
    kernel's unit.
    """

    error: float | None
    reason: str | None
    control: float | None
    offsets: Int[Tensor, " offsets"]
    spread: Float[Tensor, " offsets"]


@dataclass(frozen=True)
class LinearInOffset:
    """How straight a line the values by offset 0 .. n-1 make.

    `r_squared`: 1 for a straight line; None with a `reason` where the values do not
    vary or are fewer than three. `slope`
    in the values' unit per position. `control`: r_squared of Gaussian noise of the same length, on
    average 1 / (n - 1).
    """

    r_squared: float | None
    reason: str | None
    slope: float
    intercept: float
    control: float | None


def offset_only(
    kernel: Float[Tensor, "n n"], *, seed: Seed = 0, control_width: int = 64
) -> OffsetOnly:
    """Does K(i, i + k) depend on k alone? Spread along the diagonals over the overall spread.

    The mean over offsets 1 <= k < n/2 of the standard deviation (correction 0) of K(i, i + k) over
    i, divided by that of all off-diagonal entries; entries that are not finite are left out. No
    unit. The control is the kernel of a Gaussian table (n, control_width) drawn from `seed`.
    Raises SchemeArgumentError for a kernel that is not square.
    """
    kernel = as_kernel(kernel)
    check_count("control_width", control_width, 1, 2**16)
    profile = similarity_by_offset(kernel)
    error, reason = _diagonal_spread(kernel, profile.spread)
    noise = torch.randn(
        len(kernel), control_width, dtype=kernel.dtype, generator=as_generator(seed)
    ).to(kernel.device)
    gram = noise @ noise.T
    control, _ = _diagonal_spread(gram, similarity_by_offset(gram).spread)
    kept = slice(1, max(1, (len(kernel) + 1) // 2))
    return OffsetOnly(error, reason, control, profile.offsets[kept], profile.spread[kept])


def linear_in_offset(values: Float[Tensor, " n"], *, seed: Seed = 0) -> LinearInOffset:
    """Is the logit a straight line in the offset? R^2 of values at k = 0 .. n-1 against k.

    `values` (n,): the logit that position contributes at a distance of k, keys before the query;
    for a kernel given as a weight factor, its logarithm. ALiBi gives 1 with its slope. Offsets whose
    value is not finite are left out; with fewer than three others there is no answer but a reason.
    """
    values = as_float64("values", values, "(n,)")
    steps = torch.arange(len(values), dtype=values.dtype, device=values.device)
    finite = values.isfinite()
    if int(finite.sum()) < 3:
        return LinearInOffset(None, TOO_FEW_OFFSETS, math.nan, math.nan, math.nan)
    noise = torch.randn(len(values), dtype=values.dtype, generator=as_generator(seed))
    r_squared, slope, intercept = _line(steps[finite], values[finite])
    control, _, _ = _line(steps[finite], noise.to(values.device)[finite])
    reason = None if r_squared is not None else "The values do not change with the offset."
    return LinearInOffset(r_squared, reason, slope, intercept, control)


def diagonal_spread(kernel: Float[Tensor, "n n"]) -> tuple[float | None, str | None]:
    """The error of `offset_only` alone: (error, None), or (None, reason) where it is undefined.

    Raises SchemeArgumentError for a kernel that is not square.
    """
    kernel = as_kernel(kernel)
    return _diagonal_spread(kernel, similarity_by_offset(kernel).spread)


def _diagonal_spread(kernel: Tensor, spread: Tensor) -> tuple[float | None, str | None]:
    count = len(kernel)
    short = spread[1 : max(1, (count + 1) // 2)]
    short = short[short.isfinite()]
    if not len(short):
        return None, TOO_FEW_POSITIONS
    # Without its first entry, a row-major square has its diagonal in the last of count + 1 columns.
    others = kernel.contiguous().flatten()[1:].view(count - 1, count + 1)[:, :-1]
    others = others[others.isfinite()]
    overall = (others - others[0]).std(correction=0)
    if overall <= 64 * _EPS * others.abs().amax():
        return None, NO_SPREAD
    return (short.mean() / overall).item(), None


def _line(at: Tensor, values: Tensor) -> tuple[float | None, float, float]:
    """R^2, slope and intercept of values against `at`; R^2 is None when nothing varies."""
    steps = at - at.mean()
    centred = values - values[0]
    centred = centred - centred.mean()
    slope = (steps @ centred) / (steps @ steps)
    intercept = values.mean() - slope * at.mean()
    residual = centred - slope * steps
    varies = centred.abs().amax() > 64 * _EPS * values.abs().amax()
    share = 1 - (residual @ residual) / (centred @ centred) if varies else None
    return None if share is None else share.item(), slope.item(), intercept.item()


Array = npt.NDArray[Any]

OFFSETS = (1, 2, 4, 8, 16, 32, 64)
CHECKED_POSITIONS = 256  # positions on which the claims about offsets are checked
COMPOSED_POSITIONS = 32  # positions that growing matrices must reach when they are multiplied
PICTURED = 32  # rows and columns of M_k that are drawn
MAX_FITTED_WIDTH = 512  # a dense fit of this width takes a few seconds
KERNEL_POSITIONS = 768  # positions of a dense fit through a kernel
# Above this many features (or heads times positions) only every third offset of the range is
# checked: the page stays under a second.
FEATURES_AT_EVERY_OFFSET = 2_048

# What rounding alone leaves of an exact map, by the precision of the tables.
MAP_TOLERANCE = {"float32": 1e-6, "bfloat16": 2**-6, "float16": 2**-9}


@dataclass(frozen=True)
class OffsetMap:
    """Is phi(i + k) = M_k phi(i)? Errors are relative; predicting nothing gives 1."""

    verdict: str
    provenance: str
    # Each number beside its control: the same on a random table with the zeros of the scheme's own.
    closed: float | None = None  # of the scheme's own M_k, None where it has none
    closed_control: float | None = None
    fitted: float | None = None  # held out, of one matrix fitted to half, where none is closed
    fitted_control: float | None = None
    pairs: float | None = None  # held out, two numbers fitted per pair of features
    pairs_control: float | None = None
    composed: float | None = None  # of M_k M_second against M_(k + second)
    picture: Array | None = None  # the first rows and columns of M_k


@dataclass(frozen=True)
class DenseFit:
    """One matrix fitted without knowing the scheme, or why it cannot be."""

    fit: linear_map.LinearMapFit | None
    reason: str


@dataclass(frozen=True)
class OffsetClaims:
    """The two claims about the kernel: a function of the offset alone, a straight line in it."""

    only: OffsetOnly
    straight: LinearInOffset


@dataclass(frozen=True)
class _Checked:
    """A scheme with the vectors of its first positions, one table per head it tells apart."""

    query: Query
    scheme: Scheme
    length: int
    vectors: dict[Head, torch.Tensor]

    @property
    def features(self) -> int:
        return sum(table.shape[1] for table in self.vectors.values())


def _checked(query: Query) -> _Checked | None:
    """Return what is checked, None where the scheme has no position vectors."""
    scheme = query.build("cpu")
    length = known(scheme, min(query.length, CHECKED_POSITIONS))
    heads: list[Head] = [query.head]
    if query.head == "mean" and scheme.heads:
        heads = list(range(scheme.heads))
    try:
        vectors = {
            head: position_vectors(scheme, length, head=head, dtype=query.dtype) for head in heads
        }
    except NoPositionVectors:
        return None
    return _Checked(query, scheme, length, vectors)


def check_map(query: Query, offset: int, second: int) -> OffsetMap:
    """Return check 1 at one offset; without any number where the scheme has no position vectors."""
    checked = _checked(query)
    if checked is None:
        return OffsetMap(verdict=_no_vectors(query), provenance=query.build("cpu").provenance)
    scheme, length = checked.scheme, checked.length
    first, head = next(iter(checked.vectors.values())), next(iter(checked.vectors))
    half = position_vectors(scheme, max(1, length // 2), head=head, dtype=query.dtype)
    widths = [first.shape[1], half.shape[1]]
    closed = _closed_form(checked, offset)
    whole = _kernel_fit(checked, offset) if closed is None else None
    if whole:
        widths = [whole.dimension, whole.dimension]
    matrix = None if closed is None else scheme.offset_map(offset, size=PICTURED, head=head)
    pairs = _pair_fit(checked, offset)
    return OffsetMap(
        closed=closed[0] if closed else None,
        closed_control=closed[1] if closed else None,
        fitted=whole.held_out_error if whole else None,
        fitted_control=whole.control_held_out if whole else None,
        pairs=pairs.held_out_error if pairs else None,
        pairs_control=pairs.control_held_out if pairs else None,
        composed=None if matrix is None else _composition(checked, offset, second),
        verdict=_verdict(_best(closed, whole), query, widths),
        picture=None if matrix is None else _corner(matrix, PICTURED).numpy(),
        provenance=scheme.provenance,
    )


def check_maps(query: Query) -> dict[str, Array]:
    """Return check 1 over a range of offsets: the number that its verdict rests on, and its control."""
    checked = _checked(query)
    step = 3 if checked and checked.features > FEATURES_AT_EVERY_OFFSET else 1
    offsets = OFFSETS[::step]
    rows: list[tuple[float | None, float | None]] = []
    for offset in offsets:
        closed = _closed_form(checked, offset) if checked else None
        whole = _kernel_fit(checked, offset) if checked and closed is None else None
        control = closed[1] if closed else whole.control_held_out if whole else None
        rows.append((_best(closed, whole), control))
    error, control_error = np.array(rows, dtype=float).T  # None becomes NaN
    return {"offset": np.array(offsets), "error": error, "control": control_error}


def check_dense(query: Query, offset: int) -> DenseFit:
    """Return the fit of a whole matrix, on as many positions as its width needs, and on later ones."""
    scheme = query.build("cpu")
    try:
        position_vectors(scheme, 1, head=query.head, dtype=query.dtype)
    except NoPositionVectors:
        return DenseFit(None, _no_vectors(query))
    try:
        if isinstance(scheme, VectorScheme):
            width = position_vectors(scheme, 1).shape[1]
            if width > MAX_FITTED_WIDTH:
                return DenseFit(
                    None,
                    f"width {width:,} is more than is fitted here ({MAX_FITTED_WIDTH}); "
                    "use posenc.analysis.fit_dense",
                )
            inside = 4 * width + 2 * offset
            length = known(scheme, inside + width)
            vectors = position_vectors(scheme, length, dtype=query.dtype)
            fit = linear_map.fit_dense(vectors, offset, train_length=inside, seed=query.seed)
        else:
            values = position_kernel(scheme, KERNEL_POSITIONS, head=query.head, dtype=query.dtype)
            fit = linear_map.fit_kernel(
                values, offset, train_length=KERNEL_POSITIONS * 2 // 3, seed=query.seed
            )
    except SchemeArgumentError as error:
        return DenseFit(None, str(error))
    return DenseFit(fit, "")


def check_claims(query: Query) -> OffsetClaims:
    """Return checks 2 and 3, on the vectors themselves where there are any, not on a closed form."""
    checked = _checked(query)
    if checked is None:
        scheme = query.build("cpu")
        length = known(scheme, min(query.length, CHECKED_POSITIONS))
        gram = position_kernel(scheme, length, head=query.head, dtype=query.dtype)
    else:
        scheme, length = checked.scheme, checked.length
        # The kernel of a mean of heads is the mean of the heads' kernels.
        gram = torch.zeros(length, length, dtype=torch.float64)
        for table in checked.vectors.values():
            gram += table @ table.T / len(checked.vectors)
    bias = scheme.offset_bias(-torch.arange(length))
    if bias is None:
        logits = similarity.similarity_by_offset(gram, side="before").mean
    else:
        bias = rounded(bias, query.dtype)
        logits = bias.mean(dim=0) if query.head == "mean" else bias[query.head]
    return OffsetClaims(
        offset_only(gram, seed=query.seed),
        linear_in_offset(logits, seed=query.seed),
    )


def _closed_form(checked: _Checked, offset: int) -> tuple[float, float] | None:
    """The largest error over the heads of the scheme's own M_k and the least of its control.

    None where the scheme has no M_k, or no two positions lie that far apart.
    """
    if checked.length <= offset:
        return None
    errors, controls = [], []
    generator = torch.Generator().manual_seed(checked.query.seed)
    for head, vectors in checked.vectors.items():
        matrix = checked.scheme.offset_map(offset, size=checked.length - offset, head=head)
        if matrix is None:
            return None
        errors.append(linear_map.verify_map(vectors, matrix, offset))
        noise = torch.randn(vectors.shape, dtype=vectors.dtype, generator=generator)
        controls.append(linear_map.verify_map(noise * (vectors != 0), matrix, offset))
    return max(errors), min(controls)


def _best(
    closed: tuple[float, float] | None, whole: linear_map.LinearMapFit | None
) -> float | None:
    """The error that decides: of the closed form, else of the matrix fitted without one."""
    if closed is not None:
        return closed[0]
    return whole.held_out_error if whole else None


def _composition(checked: _Checked, offset: int, second: int) -> float:
    """The largest error over the heads of M_offset M_second against M_(offset + second)."""
    errors = []
    for head in checked.vectors:
        maps = [
            checked.scheme.offset_map(by, size=size, head=head)
            for by, size in (
                (offset, COMPOSED_POSITIONS + second),
                (second, COMPOSED_POSITIONS),
                (offset + second, COMPOSED_POSITIONS),
            )
        ]
        errors.append(linear_map.composition_error(*(one for one in maps if one is not None)))
    return max(errors)


def _pair_fit(checked: _Checked, offset: int) -> linear_map.LinearMapFit | None:
    """Fit two numbers per pair of features, where the vectors come in pairs and there are enough."""
    scheme = checked.scheme
    if not isinstance(scheme, VectorScheme) or checked.length < offset + 4:
        return None
    (vectors,) = checked.vectors.values()
    if (vectors.shape[1] - scheme.unpaired) % 2:
        return None
    return linear_map.fit_pairs(
        vectors,
        offset,
        layout=scheme.pair_layout,
        first=scheme.pair_first,
        tail=scheme.unpaired,
        seed=checked.query.seed,
    )


def _kernel_fit(checked: _Checked, offset: int) -> linear_map.LinearMapFit | None:
    """The held-out error of one matrix fitted through the kernel, the verdict without a closed form."""
    if checked.length < offset + 4:
        return None
    query = checked.query
    values = position_kernel(checked.scheme, checked.length, head=query.head, dtype=query.dtype)
    (vectors,) = list(checked.vectors.values())[:1]
    return linear_map.fit_kernel(values, offset, control_width=vectors.shape[1], seed=query.seed)


def _no_vectors(query: Query) -> str:
    """Say that a scheme has no position vectors, and whether rounding took them from it."""
    try:
        position_vectors(query.build("cpu"), 1, head=query.head)
    except NoPositionVectors:
        return "no position vectors"
    return f"no position vectors once rounded to {query.precision}"


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
    if verdict is linear_map.Verdict.NONE:
        return f"{words}, error {error:.3g}"
    return f"{words} up to the rounding of {query.precision}" if query.dtype else words


def _corner(matrix: Tensor, size: int) -> Float[Tensor, "a b"]:
    """Return the first `size` rows and columns of a matrix, sparse or not, as a dense one."""
    if not matrix.is_sparse:
        return matrix[:size, :size]
    index = torch.arange(min(size, *matrix.shape), device=matrix.device)
    return matrix.index_select(0, index).index_select(1, index).to_dense()
