"""What formulas give past the training length, plain and uncached; never a measurement."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from posenc import offset_curve
from posenc.analysis import extrapolation
from posenc.query import Query

Array = npt.NDArray[Any]

DRAWN_OFFSETS = 2_048
SCANNED_POSITIONS = 8_192  # every position is checked up to here, samples are drawn past it
SCANNED_OFFSETS = 65_536  # where the search for B(k) < 0 ends


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


def read_past(query: Query, train_length: int) -> Past:
    """Return a stationary kernel past the training length; a table has only its own last row."""
    scheme = query.build()
    if not scheme.stationary:
        nothing = np.zeros(0)
        # An untrained table would have a row per position of training; only those shown are drawn.
        ends = scheme.untrained and scheme.max_length is not None
        limit = train_length if ends else scheme.max_length
        return Past(limit, nothing, nothing, None, None, nothing, nothing)
    count = query.length
    drawn = torch.linspace(0, count - 1, min(count, DRAWN_OFFSETS), dtype=torch.float64)
    offsets = torch.unique(drawn.round().long())
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


def read_ladder(query: Query, train_length: int) -> Ladder | None:
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
