"""What the formula alone says about positions past a training length L.

Nothing here is measured extrapolation: a formula that is defined past L is not a model that works
past L; only a trained model shows that. A distance is query minus key, 0 or more.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.analysis.inputs import kernel_or_curve
from posenc.analysis.similarity import squared_distances
from posenc.kernel import offset_curve
from posenc.limits import check_count
from posenc.notebook import Shown, View, numbers_of, title_of
from posenc.schemes.base import Request, check_request

SAMPLED_DISTANCES = 2_048
SCANNED_POSITIONS = 8_192  # every position is checked up to here, samples are read past it


@dataclass(frozen=True, eq=False)
class KernelPast(Shown):
    """A kernel by distance, inside and past a training length.

    `values` (n,): at distances 0 .. n-1, in the kernel's unit. `outside`: how many distances past the
    training length have a value out of the range within it; `first_outside`: the first, or None.
    """

    values: Float[Tensor, " n"]
    outside: int
    first_outside: int | None

    def view(self) -> View:
        return View(
            title=title_of(self),
            numbers=numbers_of(self),
            columns={"distance": range(len(self.values)), "value": self.values},
            x="distance",
            lines=("value",),
        )


@dataclass(frozen=True, eq=False)
class NearestTrained(Shown):
    """For every position from a training length on, the nearest position below it.

    `positions` (m,). `distance` (m,): Euclidean, in the unit of the vectors (the square root of the
    kernel's). `relative` (m,): that over the norm of the position's own vector.
    """

    positions: Int[Tensor, " m"]
    distance: Float[Tensor, " m"]
    relative: Float[Tensor, " m"]

    def view(self) -> View:
        return View(
            title=title_of(self),
            numbers=numbers_of(self),
            columns={
                "position": self.positions,
                "distance": self.distance,
                "relative": self.relative,
            },
            x="position",
            lines=("relative",),
        )


@dataclass(frozen=True, eq=False)
class SchemeKernelPast(Shown):
    """A scheme's position similarity past a training length.

    `limit`: the first position without a row, for a table; None for a formula. `distances` (m,),
    `cosine` (m,): every distance or a sample; empty where K is no function of the offset alone.
    `outside`, `first_outside`: as in `KernelPast`; None where distances are sampled. `positions`,
    `relative`: as in `NearestTrained`; empty where distances are sampled.
    """

    limit: int | None
    distances: Int[Tensor, " m"]
    cosine: Float[Tensor, " m"]
    outside: int | None
    first_outside: int | None
    positions: Int[Tensor, " p"]
    relative: Float[Tensor, " p"]

    def view(self) -> View:
        return View(
            title=title_of(self),
            numbers=numbers_of(self),
            columns={"distance": self.distances, "similarity": self.cosine},
            x="distance",
            lines=("similarity",),
        )


def kernel_past(curve: Float[Tensor, " offsets"], train_length: int) -> KernelPast:
    """Return a kernel's values past a training length, against the range within it.

    `curve` (2n-1,) over key minus query; only the side of keys before their query is used. A value
    past `train_length` counts as outside by more than rounding: 1e-12 of the end of the range it
    passes where all values have one sign (an exponential is exact to its own size), and of the
    largest magnitude where they do not (a sum of cosines is exact to the size of its terms).
    Raises SchemeArgumentError for a curve of even length or a train_length outside 1 .. n.
    """
    curve, count, _ = kernel_or_curve(None, curve)
    check_count("train_length", train_length, 1, count)
    values = curve[:count].flip(0)
    low, high = values[:train_length].aminmax()
    if values.amin() >= 0 or values.amax() <= 0:
        below, above = 1e-12 * low.abs(), 1e-12 * high.abs()
    else:
        below = above = 1e-12 * values.abs().amax()
    later = values[train_length:]
    outside = ((later < low - below) | (later > high + above)).nonzero()
    first = train_length + int(outside[0]) if len(outside) else None
    return KernelPast(values, len(outside), first)


def nearest_trained_distance(
    train_length: int,
    *,
    kernel: Float[Tensor, "n n"] | None = None,
    curve: Float[Tensor, " offsets"] | None = None,
) -> NearestTrained:
    """Return the distance of each position p >= train_length to the nearest one below train_length.

    From a kernel (n, n) by K_ii + K_jj - K_ij - K_ji, from a curve (2n-1,) by 2 K(0) - K(k) - K(-k).
    Distances below about 1e-8 of the norm cannot be told from 0. A row that is not finite has the
    distance NaN and is nobody's nearest. Without a position past train_length the result is empty.
    Raises SchemeArgumentError unless exactly one of both is given, or for a train_length outside
    1 .. n.
    """
    source, count, is_curve = kernel_or_curve(kernel, curve)
    check_count("train_length", train_length, 1, count)
    squares = squared_distances(source, is_curve)
    if is_curve:  # position p lies p - train_length + 1 .. p from the positions below train_length
        norms = source[count - 1].sqrt()
        smallest = squares.unfold(0, train_length, 1).amin(1)[1:]
    else:
        norms = source.diagonal()[train_length:].clamp(min=0).sqrt()
        smallest = squares[train_length:, :train_length].amin(1)
    distance = smallest.masked_fill(smallest.isinf(), torch.nan).clamp(min=0).sqrt()
    positions = torch.arange(train_length, count, device=source.device)
    return NearestTrained(positions, distance, distance / norms)


def scheme_kernel_past(request: Request, train_length: int) -> SchemeKernelPast:
    """Return the similarity of a scheme's positions past a training length, from its formula."""
    check_request(request)
    scheme = request.build("cpu")
    empty = torch.zeros(0, dtype=torch.int64)
    if not scheme.stationary:
        # An untrained table has a row per position of training, however many of them were drawn.
        untrained = scheme.untrained and scheme.max_length is not None
        limit = train_length if untrained else scheme.max_length
        return SchemeKernelPast(limit, empty, empty.double(), None, None, empty, empty.double())
    count = request.length
    sample = torch.linspace(0, count - 1, min(count, SAMPLED_DISTANCES), dtype=torch.float64)
    distances = torch.unique(sample.round().long())
    zero = scheme.offset_kernel(empty.new_zeros(1), request.head)
    cosine = scheme.offset_kernel(-distances, request.head) / zero
    if count > SCANNED_POSITIONS:
        return SchemeKernelPast(None, distances, cosine, None, None, empty, empty.double())
    curve = offset_curve(scheme, count, head=request.head)
    past = kernel_past(curve, train_length)
    nearest = nearest_trained_distance(train_length, curve=curve)
    return SchemeKernelPast(
        limit=None,
        distances=distances,
        cosine=cosine,
        outside=past.outside,
        first_outside=past.first_outside,
        positions=nearest.positions,
        relative=nearest.relative,
    )
