"""Three claims about the offsets of a scheme, each able to fail, each with a random control.

Is a shift linear: phi(i + k) = M_k phi(i); the maps and fits are in linear_map.py. Those of the kernel,
that it depends on the offset only and in a straight line, are in kernel_claims.py.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.analysis.kernel_claims import LinearInOffset, OffsetOnly, linear_in_offset, offset_only
from posenc.analysis.linear_map import (
    LinearMapFit,
    composition_error,
    fit_dense,
    fit_kernel,
    fit_pairs,
    multiply,
    verify_map,
)
from posenc.analysis.similarity import similarity_by_offset
from posenc.errors import NoPositionVectors, SchemeArgumentError
from posenc.kernel import position_kernel, position_vectors
from posenc.notebook import Shown, View, numbers_of, title_of
from posenc.schemes.base import Head, Request, Scheme, VectorScheme, check_request, rounded
from posenc.text import significant

GROWING = "exact, but every position adds a dimension, so seen positions do not predict later ones"

OFFSETS = (1, 2, 4, 8, 16, 32, 64)
CHECKED_POSITIONS = 256  # positions on which a scheme is checked
COMPOSED_POSITIONS = 32  # positions that growing matrices must reach when they are multiplied
CORNER = 32  # rows and columns of M_k that are returned
MAX_FITTED_WIDTH = 512  # a dense fit of this width takes a few seconds
KERNEL_POSITIONS = 768  # positions of a dense fit through a kernel
# Above this many features (or heads times positions) every third offset is checked: under a second.
FEATURES_AT_EVERY_OFFSET = 2_048
# What rounding alone leaves of an exact map, by the precision of the tables.
MAP_TOLERANCE = {"float32": 1e-6, "bfloat16": 2**-6, "float16": 2**-9}


@dataclass(frozen=True, eq=False)
class OffsetMap(Shown):
    """Is phi(i + k) = M_k phi(i)? Errors are relative; predicting zero gives 1.

    `exists`: whether there is such a matrix, None where that is not computed or cannot be told; `verdict`:
    the same in words. `closed`: of the scheme's own M_k, None where it has none. `fitted`: held out, of a
    matrix fitted to half of the positions, where none is closed and the kernel depends on more than the
    offset. `pairs`: held out, of two numbers fitted per pair of features. `composed`: of M_k M_second
    against M_(k + second). A `*_control` is the same on a random table with the zeros of the scheme's own.
    `corner`: the first rows and columns of M_k; `composed_corner`: those of M_k M_second.
    """

    verdict: str
    exists: bool | None = None
    closed: float | None = None
    closed_control: float | None = None
    fitted: float | None = None
    fitted_control: float | None = None
    pairs: float | None = None
    pairs_control: float | None = None
    composed: float | None = None
    corner: Float[Tensor, "a b"] | None = None
    composed_corner: Float[Tensor, "a b"] | None = None

    def view(self) -> View:
        return View(
            title=title_of(self),
            numbers=numbers_of(self),
            matrix=self.corner,
        )


@dataclass(frozen=True, eq=False)
class MapErrors(Shown):
    """The error that each verdict of `scheme_offset_map` rests on, and its control; NaN without one."""

    offset: Int[Tensor, " offsets"]
    error: Float[Tensor, " offsets"]
    control: Float[Tensor, " offsets"]

    def view(self) -> View:
        return View(
            title=title_of(self),
            numbers=numbers_of(self),
            columns={"offset": self.offset, "error": self.error, "control": self.control},
            x="offset",
            lines=("error", "control"),
        )


@dataclass(frozen=True)
class DenseFit(Shown):
    """One matrix fitted without knowing the scheme, or the reason why there is none."""

    fit: LinearMapFit | None
    reason: str

    def view(self) -> View:
        return View(
            title=title_of(self),
            numbers=numbers_of(self) if self.fit is None else numbers_of(self.fit),
            matrix=None if self.fit is None else self.fit.matrix,
        )


@dataclass(frozen=True)
class OffsetClaims(Shown):
    """The two claims about the kernel: a function of the offset alone, a straight line in it."""

    only: OffsetOnly
    straight: LinearInOffset

    def view(self) -> View:
        return View(
            title=title_of(self),
            numbers={
                "offset only: error": self.only.error,
                "offset only: control": self.only.control,
                "straight line: R squared": self.straight.r_squared,
                "straight line: slope": self.straight.slope,
                "straight line: control": self.straight.control,
            },
        )


@dataclass(frozen=True)
class _Checked:
    """A scheme with the vectors of its first positions, one table per head that differs."""

    request: Request
    scheme: Scheme
    length: int
    vectors: dict[Head, Tensor]


def _checked(request: Request) -> _Checked | None:
    """The scheme of a query with its vectors; None if it has none."""
    check_request(request)
    scheme = request.build("cpu")
    length = scheme.positions_within(min(request.length, CHECKED_POSITIONS))
    heads: list[Head] = [request.head]
    if request.head == "mean" and scheme.heads:
        heads = [*range(scheme.heads)]
    try:
        vectors = {
            head: position_vectors(scheme, length, head=head, dtype=request.dtype) for head in heads
        }
    except NoPositionVectors:
        return None
    return _Checked(request, scheme, length, vectors)


def scheme_offset_map(request: Request, offset: int, second: int) -> OffsetMap:
    """Return whether a scheme's shift by `offset` is linear, and composes with that by `second`.

    Without any number where the scheme has no position vectors.
    """
    checked = _checked(request)
    if checked is None:
        return OffsetMap(verdict=_no_vectors(request))
    scheme, length = checked.scheme, checked.length
    head, vectors = next(iter(checked.vectors.items()))
    closed, closed_control = _closed_form(checked, offset)
    pairs = _pair_fit(checked, offset)
    if closed is None:
        fit, matrix = _kernel_fit(checked, offset), None
        growing = False
    else:
        fit, matrix = None, scheme.offset_map(offset, size=CORNER, head=head)
        half = position_vectors(scheme, max(1, length // 2), head=head, dtype=request.dtype)
        growing = vectors.shape[1] > half.shape[1]
    composed = corner = composed_corner = None
    if matrix is not None:
        composed = _composition(checked, offset, second)
        corner = _corner(matrix)
        # A growing matrix reaches `second` dimensions further than the one after it.
        reach = scheme.offset_map(offset, size=CORNER + second, head=head)
        after = scheme.offset_map(second, size=CORNER, head=head)
        if reach is not None and after is not None:
            composed_corner = _corner(multiply(reach, after))
    error = fit.held_out_error if fit else closed
    dimension = fit.dimension if fit else vectors.shape[1]
    exists, verdict = _verdict(error, request, dimension, growing=growing)
    if scheme.stationary and scheme.offset_map(offset, size=1, head=head) is None:
        exists = None
        verdict = "not computed: a matrix exists, but the scheme has no offset_map"
    return OffsetMap(
        verdict=verdict,
        exists=exists,
        closed=closed,
        closed_control=closed_control,
        fitted=fit.held_out_error if fit else None,
        fitted_control=fit.control_held_out if fit else None,
        pairs=pairs.held_out_error if pairs else None,
        pairs_control=pairs.control_held_out if pairs else None,
        composed=composed,
        corner=corner,
        composed_corner=composed_corner,
    )


def _corner(matrix: Tensor) -> Tensor:
    """The first rows and columns of a matrix, dense or sparse."""
    index = torch.arange(min(CORNER, *matrix.shape))
    return matrix.index_select(0, index).index_select(1, index).to_dense()


def scheme_map_errors(request: Request) -> MapErrors:
    """Return the error of a scheme's maps over `OFFSETS`, every third of them for wide vectors."""
    checked = _checked(request)
    features = sum(table.shape[1] for table in checked.vectors.values()) if checked else 0
    offsets = OFFSETS[:: 3 if features > FEATURES_AT_EVERY_OFFSET else 1]
    rows: list[tuple[float | None, float | None]] = []
    for offset in offsets:
        closed, control = _closed_form(checked, offset) if checked else (None, None)
        fit = _kernel_fit(checked, offset) if checked and closed is None else None
        rows.append((fit.held_out_error, fit.control_held_out) if fit else (closed, control))
    numbers = [[math.nan if number is None else number for number in row] for row in rows]
    error, control_error = torch.tensor(numbers, dtype=torch.float64).T
    return MapErrors(torch.tensor(offsets), error, control_error)


def scheme_dense_fit(request: Request, offset: int) -> DenseFit:
    """Return the fit of a whole matrix, on as many positions as its width needs, and on later ones."""
    check_request(request)
    scheme = request.build("cpu")
    try:
        width = position_vectors(scheme, 1, head=request.head, dtype=request.dtype).shape[1]
        if not isinstance(scheme, VectorScheme):
            kernel = position_kernel(
                scheme, KERNEL_POSITIONS, head=request.head, dtype=request.dtype
            )
            inside = KERNEL_POSITIONS * 2 // 3
            return DenseFit(fit_kernel(kernel, offset, train_length=inside, seed=request.seed), "")
        if width > MAX_FITTED_WIDTH:
            limit = f"width {width:,} is more than is fitted here ({MAX_FITTED_WIDTH})"
            return DenseFit(None, f"{limit}; use posenc.analysis.fit_dense")
        inside = 4 * width + 2 * offset
        vectors = position_vectors(
            scheme, scheme.positions_within(inside + width), dtype=request.dtype
        )
        return DenseFit(fit_dense(vectors, offset, train_length=inside, seed=request.seed), "")
    except NoPositionVectors:
        return DenseFit(None, _no_vectors(request))
    except SchemeArgumentError as error:
        return DenseFit(None, str(error))


def scheme_offset_claims(request: Request) -> OffsetClaims:
    """Return the two claims about a scheme's kernel, which is that of its vectors if it has any."""
    checked = _checked(request)
    if checked is None:
        scheme = request.build("cpu")
        length = scheme.positions_within(min(request.length, CHECKED_POSITIONS))
        kernel = position_kernel(scheme, length, head=request.head, dtype=request.dtype)
    else:
        scheme, length = checked.scheme, checked.length
        # The kernel of a mean of heads is the mean of the heads' kernels.
        kernel = torch.zeros(length, length, dtype=torch.float64)
        for table in checked.vectors.values():
            kernel += table @ table.T / len(checked.vectors)
    bias = scheme.offset_bias(-torch.arange(length))
    if bias is None:
        logits = similarity_by_offset(kernel, side="before").mean
    else:
        if request.dtype is not None:
            bias = rounded(bias.detach().double(), request.dtype)
        logits = bias.mean(dim=0) if request.head == "mean" else bias[request.head]
    return OffsetClaims(
        offset_only(kernel, seed=request.seed), linear_in_offset(logits, seed=request.seed)
    )


def _closed_form(checked: _Checked, offset: int) -> tuple[float | None, float | None]:
    """The largest error over the heads of the scheme's own M_k and the smallest of its control."""
    if checked.length <= offset:
        return None, None
    errors, controls = [], []
    generator = torch.Generator().manual_seed(checked.request.seed)
    for head, vectors in checked.vectors.items():
        matrix = checked.scheme.offset_map(offset, size=checked.length - offset, head=head)
        if matrix is None:
            return None, None
        errors.append(verify_map(vectors, matrix, offset))
        noise = torch.randn(vectors.shape, dtype=vectors.dtype, generator=generator)
        controls.append(verify_map(noise * (vectors != 0), matrix, offset))
    return max(errors), min(controls)


def _composition(checked: _Checked, offset: int, second: int) -> float:
    """The largest error over the heads of M_offset M_second against M_(offset + second)."""
    count = COMPOSED_POSITIONS
    sizes = ((offset, count + second), (second, count), (offset + second, count))
    errors = []
    for head in checked.vectors:
        maps = (checked.scheme.offset_map(by, size=size, head=head) for by, size in sizes)
        errors.append(composition_error(*(matrix for matrix in maps if matrix is not None)))
    return max(errors)


def _pair_fit(checked: _Checked, offset: int) -> LinearMapFit | None:
    """A fit per pair, where the vectors come in pairs and there are enough positions."""
    scheme = checked.scheme
    if not isinstance(scheme, VectorScheme) or checked.length < offset + 4:
        return None
    (vectors,) = checked.vectors.values()
    if (vectors.shape[1] - scheme.unpaired) % 2:
        return None
    layout, first, tail = scheme.pair_layout, scheme.pair_first, scheme.unpaired
    return fit_pairs(
        vectors, offset, layout=layout, first=first, tail=tail, seed=checked.request.seed
    )


def _kernel_fit(checked: _Checked, offset: int) -> LinearMapFit | None:
    """A matrix fitted through the kernel, which decides where no closed form is known to exist."""
    if checked.scheme.stationary or checked.length < offset + 4:  # stationary: one exists
        return None
    request = checked.request
    kernel = position_kernel(checked.scheme, checked.length, head=request.head, dtype=request.dtype)
    width = next(iter(checked.vectors.values())).shape[1]
    return fit_kernel(kernel, offset, control_width=width, seed=request.seed)


def _no_vectors(request: Request) -> str:
    """Say that a scheme has no position vectors, and whether rounding is the reason."""
    try:
        position_vectors(request.build("cpu"), 1, head=request.head)
    except NoPositionVectors:
        return "no position vectors"
    return f"no position vectors once rounded to {request.precision}"


def _verdict(
    error: float | None, request: Request, dimension: int, *, growing: bool
) -> tuple[bool | None, str]:
    """Return whether there is such a matrix, None where that cannot be told, and the same in words."""
    if error is None:
        return None, "too few positions to tell"
    if math.isnan(error):
        return None, "undefined, all vectors are zero"
    if error > MAP_TOLERANCE[request.precision]:
        return False, f"no such matrix, error {significant(error)}"
    exact = GROWING if growing else f"exact in {dimension:,} dimensions"
    rounded = f" up to the rounding of {request.precision}" if request.dtype else ""
    return True, exact + rounded
