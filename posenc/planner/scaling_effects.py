"""The expected logit of equal content by distance, before and after a scaling.

How finely numbers of few bits tell positions, and angles, apart.

What a scaling does to every pair of a ladder, against the ladder as it was trained.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor

from posenc.analysis.spectrum import base_bound_curve, phase_coverage
from posenc.errors import SchemeArgumentError
from posenc.frequencies import Frequencies
from posenc.limits import check_count
from posenc.models.model_config import MAX_CONTEXT
from posenc.schemes.rope import RopeConfig, rope_frequencies
from posenc.tables import cosine_sum

_CHUNK = 2**16


def distinct_positions(length: int, dtype: torch.dtype = torch.bfloat16) -> int:
    """Count the different numbers that positions 0 .. length-1 become in `dtype`, by counting all.

    bfloat16: 256 below 256, 641 below 2,048, 1,409 below 131,072.
    Raises SchemeArgumentError for a length outside 1 .. 2^24.
    """
    check_count("length", length, 1, MAX_CONTEXT)
    count, last = 0, None
    for start in range(0, length, _CHUNK):
        rounded = torch.arange(start, min(start + _CHUNK, length), device="cpu").to(dtype)
        # Rounding keeps the order, so equal numbers are neighbours.
        count += 1 + int((rounded[1:] != rounded[:-1]).sum())
        if last is not None and bool(rounded[0] == last):
            count -= 1
        last = rounded[-1]
    return count


def worst_cosine_error(
    inv_freq: Float[Tensor, " pairs"],
    length: int,
    *,
    ladder: Float[Tensor, " pairs"] | None = None,
) -> float:
    """Return the largest error of cos(p theta) for p < length, where angles are made in float32.

    ladder: the float32 frequencies that angles are made of, as `rope_frequencies(config,
    mode="transformers")` gives them, which computes them in float32 too; None rounds the exact ones once,
    the best that float32 holds. A frequency is multiplied by the position in float32, and the cosine of
    that angle is compared to that of the float64 one. Every position and pair counts; those are skipped
    whose angle is too small for the error to reach what was found: it is at most the angle times the error
    of the frequency and 2^-24, half an ulp of the product. Width 128, base 5e5: 1.5e-3 below 32,768, and
    2.3e-3 with transformers' ladder.
    Raises SchemeArgumentError for a length outside 1 .. 2^24 and a ladder of another size.
    """
    check_count("length", length, 1, MAX_CONTEXT)
    exact = inv_freq.detach().to("cpu", torch.float64).numpy()
    single = exact if ladder is None else ladder.detach().to("cpu").numpy()
    if single.shape != exact.shape:
        raise SchemeArgumentError(
            f"ladder must have the {len(exact):,} frequencies of inv_freq, got {len(single):,}."
        )
    worst = 0.0
    single = single.astype(np.float32)
    for pair in np.argsort(-exact):  # the fastest are wrong the most, which spares the others
        theta, rounded = exact[pair], single[pair]
        off = abs(float(rounded) - theta) + max(float(rounded), theta) * 2.0**-24
        end = length
        while end > 0 and (end - 1) * off * 1.001 > worst:
            start = max(0, end - _CHUNK)
            at = np.arange(start, end)
            angles = at.astype(np.float32) * rounded
            wrong = np.abs(np.cos(angles.astype(np.float64)) - np.cos(at * theta)).max()
            worst, end = max(worst, float(wrong)), start
    return worst


Array_of_pairs = npt.NDArray[np.float64]

KEPT, BLENDED, DIVIDED = "kept", "blended", "divided"
_ROUNDING = 1e-12  # of a ratio of two frequencies, each correctly rounded


@dataclass(frozen=True, eq=False)
class Pairs:
    """Frequencies before and after, pair 0 the fastest; arrays are (pairs,), float64.

    before, after: radians per position, as trained and as read at the target. ratio: after / before, 0
    where both are 0. states: "kept" where the ratio is 1, "divided" where it is 1 / factor or less,
    "blended" between. turns: full turns that each pair made within the trained length, as trained.
    unseen: whether a pair meets angles at the target that training did not show: it made less than one
    turn in training, and turns farther at the target.
    """

    before: Array_of_pairs
    after: Array_of_pairs
    ratio: Array_of_pairs
    states: tuple[str, ...]
    turns: Array_of_pairs
    unseen: npt.NDArray[np.bool_]

    @property
    def wavelengths_before(self) -> Array_of_pairs:
        """Positions per full turn as trained; infinite for a pair that stands still."""
        return _wavelengths(self.before)

    @property
    def wavelengths_after(self) -> Array_of_pairs:
        """Positions per full turn as read at the target."""
        return _wavelengths(self.after)

    def count(self, state: str) -> int:
        """Return how many pairs are in a state."""
        return self.states.count(state)


def read_pairs(
    trained: RopeConfig,
    read: RopeConfig,
    *,
    trained_length: int,
    text: int,
    reach: int,
    factor: float,
) -> Pairs:
    """Compare the ladder that was trained to the one a text of `text` positions is read with.

    reach: how many positions a query sees, at most those of the text. factor: target over trained
    length.
    """
    before = rope_frequencies(trained, length=trained_length)[0]
    after = rope_frequencies(read, length=text)[0].numpy()
    turns = phase_coverage(before, trained_length).turns.numpy()
    first = before.numpy()
    ratio = np.divide(after, first, out=np.zeros_like(first), where=first > 0)
    states = tuple(
        _state(one, moves, factor)
        for one, moves in zip(ratio.tolist(), (first > 0).tolist(), strict=True)
    )
    farther = after * reach > first * trained_length * (1 + 1e-9)
    return Pairs(first, after, ratio, states, turns, (turns < 1) & farther)


def _state(ratio: float, moves: bool, factor: float) -> str:
    if not moves or abs(ratio - 1) <= _ROUNDING:
        return KEPT
    return DIVIDED if ratio <= (1 + _ROUNDING) / factor else BLENDED


def _wavelengths(inv_freq: Array_of_pairs) -> Array_of_pairs:
    full = np.full_like(inv_freq, np.inf)
    return np.divide(2 * math.pi, inv_freq, out=full, where=inv_freq > 0)


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
    cosines = cosine_sum(torch.as_tensor(offsets), Frequencies.from_inv_freq(inv_freq)).numpy()
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
    first = read.at_length(1)
    for length in sorted(length for length in lengths if length <= target):
        config = read.at_length(length)
        if config.attention_scaling() != first.attention_scaling() or not torch.equal(
            config.frequencies().inv_freq, first.frequencies().inv_freq
        ):
            return length
    return None
