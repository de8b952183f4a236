"""Cached results that several pages read: analyses of one scheme, its kernel and its similarity."""

import functools
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch

from dashboard import limits
from dashboard.cache import cached
from dashboard.components.matrix import Curve, MatrixValues, smallest
from dashboard.settings import Setting
from posenc import Request, analysis, best_device, device_name, position_vectors, run_with_fallback
from posenc.errors import CheckpointError, NoPositionKernel, NoPositionVectors, PositionOutOfRange

# One core per session's script: two threads of one product would only fight over the other core.
torch.set_num_threads(1)

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Kernel:
    """A scheme's position kernel: a curve (2n-1,) where one says it all, else a matrix (n, n)."""

    values: torch.Tensor
    length: int  # positions that have a value; fewer than asked past a learned table
    provenance: str
    untrained: bool  # whether these are numbers that nobody trained
    start: str  # what those are
    notice: str | None

    @property
    def stationary(self) -> bool:
        """Whether `values` is a curve over offsets."""
        return self.values.ndim == 1

    def arguments(self) -> dict[str, torch.Tensor]:
        """Return the kernel as the keyword argument that the analyses take."""
        return {"curve" if self.stationary else "kernel": self.values}


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
    random_pair: float


Result = TypeVar("Result")


def per_scheme(
    function: Callable[..., Result], requests: Mapping[str, Request], *arguments: Any
) -> tuple[dict[str, Result], dict[str, str]]:
    """Apply a function to every scheme: its results, and why the other schemes have none."""
    results: dict[str, Result] = {}
    reasons: dict[str, str] = {}
    for kind, request in requests.items():
        try:
            results[kind] = function(request, *arguments)
        except (
            CheckpointError,
            NoPositionKernel,
            NoPositionVectors,
            PositionOutOfRange,
        ) as reason:
            reasons[kind] = str(reason)
    return results, reasons


def request(setting: Setting, kind: str, length: int | None = None) -> Request:
    """Return what one scheme of a setting is asked, on the device that the setting means."""
    return setting.request(kind, device(setting.device), length)


@functools.cache
def device(asked: str) -> str:
    """Return the device to compute on: the one asked for if it works, else the best that does."""
    available = best_device()
    return asked if asked in ("cpu", available.type) else available.type


device_label = functools.cache(device_name)


@cached
def provenance(request: Request) -> str:
    """Return where a table's numbers come from, "" for a formula."""
    return request.build("cpu").provenance


def check_table(request: Request) -> None:
    """Raise NoPositionKernel for a stored table of which no row can be compared with another."""
    scheme = request.build("cpu")
    if scheme.max_length is None:
        return
    rows = position_vectors(scheme, scheme.positions_within(request.length), dtype=request.dtype)
    if not rows.square().sum(dim=1).isfinite().any():
        rounded = "" if request.dtype is None else f" once rounded to {request.precision}"
        raise NoPositionKernel(
            f"{scheme.config.label}: no row of the table has a finite norm{rounded}, so there is "
            "nothing to compare."
        )


@cached
def kernel(request: Request) -> Kernel:
    """Return the position kernel over the positions that have a value."""
    check_table(request)
    scheme = request.build("cpu")
    ran = run_with_fallback(
        lambda place: analysis.kernel_values(request, place).cpu(), request.device
    )
    return Kernel(
        values=ran.value,
        length=scheme.positions_within(request.length),
        provenance=scheme.provenance,
        untrained=scheme.untrained,
        start=scheme.config.start,
        notice=ran.notice,
    )


@cached
def cosine(request: Request) -> Similarity:
    """Return cosine similarity as matrix (the first positions, up to the drawing cap) and by offset."""
    position_kernel = kernel(request)
    drawn = min(request.length, limits.MAX_DRAWN_CELLS)
    similarity = analysis.scheme_similarity(request, position_kernel.values)
    cosines = similarity.cosine
    if position_kernel.stationary:
        middle = len(cosines) // 2
        matrix: MatrixValues = Curve.from_tensor(cosines[middle - drawn + 1 : middle + drawn])
    else:
        matrix = smallest(_padded(cosines[:drawn, :drawn], drawn))
    return Similarity(
        kernel=position_kernel,
        matrix=matrix,
        offsets=similarity.distances.numpy(),
        mean=similarity.mean.numpy(),
        spread=similarity.deviation.numpy(),
        low=similarity.low.numpy(),
        high=similarity.high.numpy(),
        undefined=similarity.undefined,
        random_pair=similarity.random_pair,
    )


@cached
def reference_row(request: Request, reference: int) -> tuple[Array, Array] | None:
    """Return (positions, cosine similarity) against one query position, None where it has no row."""
    position_kernel = kernel(request)
    if reference >= position_kernel.length:
        return None
    cosine = analysis.similarity_row(reference, **position_kernel.arguments())
    return np.arange(position_kernel.length), cosine.numpy()


@cached
def measured(request: Request) -> analysis.Properties:
    """Return the measured properties of a scheme's positions."""
    return analysis.scheme_properties(request, kernel(request).values)


offset_map = cached(analysis.scheme_offset_map)
map_errors = cached(analysis.scheme_map_errors)
dense_fit = cached(analysis.scheme_dense_fit)
past = cached(analysis.scheme_kernel_past)
coverage = cached(analysis.scheme_coverage)


@cached
def offset_claims(request: Request) -> analysis.OffsetClaims:
    """Return checks 2 and 3."""
    check_table(request)
    return analysis.scheme_offset_claims(request)


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
