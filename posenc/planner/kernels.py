"""The expected logit of equal content by distance, before and after a scaling."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from posenc.analysis.extrapolation import base_bound_curve
from posenc.analysis.spectrum import cos_sin
from posenc.rope_frequencies import rope_frequencies
from posenc.schemes.rope import RopeConfig

Array = npt.NDArray[np.float64]

_COMPARED = 2**20


@dataclass(frozen=True)
class ShortCost:
    """What a text within the trained length pays: change of the expected logit of unit content.

    mean, worst: of |K after - K before| over all distances below `compared`, which is the trained length
    or 2^20, in a text as long as the trained length.
    """

    mean: float
    worst: float
    compared: int


def kernel_curve(config: RopeConfig, count: int, length: int) -> Array:
    """Return K at distances 0 .. count-1 as a text of `length` positions is read, float64.

    K(k) = (2 a^2 B(k) + d - r) / d, with B the sum of cosines: the kernel of the scheme itself, made fast
    enough for every distance.
    """
    inv_freq, scale = rope_frequencies(config, length=length)
    cosines = base_bound_curve(inv_freq, count).numpy()
    found: Array = (2 * scale**2 * cosines + config.dim - 2 * len(inv_freq)) / config.dim
    return found


def kernel_at(
    config: RopeConfig, offsets: Sequence[int] | npt.NDArray[np.int64], length: int
) -> Array:
    """Return K of `kernel_curve` at some distances alone, (distances,), float64."""
    inv_freq, scale = rope_frequencies(config, length=length)
    cosines = cos_sin(torch.as_tensor(offsets), inv_freq)[0].sum(-1).numpy()
    found: Array = (2 * scale**2 * cosines + config.dim - 2 * len(inv_freq)) / config.dim
    return found


def short_cost(trained: RopeConfig, read: RopeConfig, trained_length: int) -> ShortCost:
    """Return what reading `trained_length` positions with `read` changes, against `trained`."""
    count = min(trained_length, _COMPARED)
    after, before = (kernel_curve(config, count, trained_length) for config in (read, trained))
    change = np.abs(after - before)
    return ShortCost(float(change.mean()), float(change.max()), count)


def stale_from(read: RopeConfig, trained_length: int, target: int) -> int | None:
    """Return the shortest length at which keys that were rotated before no longer fit, or None.

    The ladders at all powers of two below the target are compared, and those at either side of the
    trained length and of the one the scaling starts from: one that looks at the length of the text
    changes there.
    """
    start: int = getattr(read, "trained_length", trained_length)
    lengths = {trained_length, trained_length + 1, start, start + 1, target}
    lengths |= {2**power for power in range(target.bit_length())}
    first = read.frequencies(1)
    for length in sorted(length for length in lengths if length <= target):
        found = read.frequencies(length)
        if found.attention_factor != first.attention_factor or not torch.equal(
            found.phases.inv_freq, first.phases.inv_freq
        ):
            return length
    return None
