"""The expected logit of equal content by distance, before and after a scaling."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from posenc.schemes.rope import RopeConfig

Array = npt.NDArray[np.float64]

_COMPARED = 32_768  # distances within the trained length that are compared one by one


@dataclass(frozen=True)
class ShortCost:
    """What a text within the trained length pays: change of the expected logit of unit content.

    mean, worst: of |K after - K before| over the distances compared, at the length where the text ends.
    every: whether all distances below the trained length were compared; else they are evenly spaced.
    """

    mean: float
    worst: float
    every: bool


def kernel_at(config: RopeConfig, offsets: npt.NDArray[np.int64], length: int) -> Array:
    """Return K at these distances as a text of `length` positions is read: expected logits, float64."""
    scheme = config.at_length(length).build()
    values = scheme.offset_kernel(-torch.from_numpy(np.asarray(offsets, dtype=np.int64)))
    found: Array = values.numpy()
    return found


def short_cost(trained: RopeConfig, read: RopeConfig, trained_length: int) -> ShortCost:
    """Return what reading `trained_length` positions with `read` changes, against `trained`."""
    count = min(trained_length, _COMPARED)
    offsets = np.unique(np.linspace(0, trained_length - 1, count).round().astype(np.int64))
    after = kernel_at(read, offsets, trained_length)
    change = np.abs(after - kernel_at(trained, offsets, trained_length))
    return ShortCost(float(change.mean()), float(change.max()), len(offsets) == trained_length)


def stale_from(read: RopeConfig, trained_length: int, target: int) -> int | None:
    """Return the shortest length at which keys that were rotated before no longer fit, or None.

    The ladders at all powers of two below the target are compared, and those at either side of the
    trained length: a scaling that looks at the length of the text changes there.
    """
    lengths = {trained_length, trained_length + 1, target}
    lengths |= {2**power for power in range(target.bit_length())}
    first = read.frequencies(1)
    for length in sorted(length for length in lengths if length <= target):
        found = read.frequencies(length)
        if found.attention_factor != first.attention_factor or not torch.equal(
            found.phases.inv_freq, first.phases.inv_freq
        ):
            return length
    return None
