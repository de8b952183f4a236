"""Effects of a scaling of RoPE: frequencies of pairs, logits in short texts, errors of float32."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor

from posenc.analysis.spectrum import spectrum
from posenc.limits import check_count
from posenc.models.model_config import MAX_CONTEXT
from posenc.schemes.rope import RopeConfig, rope_frequencies

Array = npt.NDArray[np.float64]

UNCHANGED, BLENDED, DIVIDED = "kept", "blended", "divided"
_CHUNK = 2**16  # positions
_ROUNDING = 1e-12  # of a ratio of two frequencies, each correctly rounded
_MAX_COMPARED = 2**20  # distances


@dataclass(frozen=True, eq=False)
class Pairs:
    """Frequencies before and after a scaling; arrays are (pairs,), float64, pair 0 the fastest.

    before, after: radians per position, as trained and at the target. ratio: after / before, 0 where
    both are 0. states: "kept" where the ratio is 1, "divided" where it is 1 / factor or less, "blended"
    between. turns: full turns within the trained length. unseen: whether a pair meets angles at the
    target that training did not show, because it made less than one turn there.
    """

    before: Array
    after: Array
    ratio: Array
    states: tuple[str, ...]
    turns: Array
    unseen: npt.NDArray[np.bool_]

    @property
    def wavelengths(self) -> tuple[Array, Array]:
        """Positions per full turn, as trained and at the target; infinite for a frequency of 0."""
        before, after = (torch.from_numpy(x) for x in (self.before, self.after))
        return (2 * torch.pi / before).numpy(), (2 * torch.pi / after).numpy()

    @property
    def unseen_count(self) -> int:
        """Number of pairs that meet unseen angles."""
        return int(self.unseen.sum())

    def count(self, state: str) -> int:
        """Return how many pairs are in a state."""
        return self.states.count(state)


def compare_pairs(
    trained: RopeConfig,
    scaled: RopeConfig,
    *,
    trained_length: int,
    text: int,
    reach: int,
    factor: float,
) -> Pairs:
    """Compare the frequencies of training with those that read a text of `text` positions.

    reach: how many positions a query sees, at most those of the text. factor: target over trained
    length.
    """
    before = rope_frequencies(trained, length=trained_length)[0].numpy()
    after = rope_frequencies(scaled, length=text)[0].numpy()
    ratio = np.divide(after, before, out=np.zeros_like(before), where=before > 0)
    same = (before == 0) | (np.abs(ratio - 1) <= _ROUNDING)
    states = np.where(ratio <= (1 + _ROUNDING) / factor, DIVIDED, BLENDED)
    turns = spectrum(torch.from_numpy(before), trained_length).turns.numpy()
    farther = after * reach > before * trained_length * (1 + 1e-9)
    return Pairs(
        before=before,
        after=after,
        ratio=ratio,
        states=tuple(np.where(same, UNCHANGED, states).tolist()),
        turns=turns,
        unseen=(turns < 1) & farther,
    )


@dataclass(frozen=True)
class ShortCost:
    """Change of the expected logit of unit content in a text of the trained length.

    mean, worst: of |K after - K before| over all distances below `compared`, which is the trained length
    or 2^20. at_zero: K before at distance 0, the largest it has.
    """

    mean: float
    worst: float
    at_zero: float
    compared: int


def kernel_at(
    config: RopeConfig, offsets: Tensor | npt.NDArray[np.int64] | Sequence[int], length: int
) -> Array:
    """Return the expected logit K at some distances in a text of `length` positions, float64.

    K(k) = (2 a^2 B(k) + d - r) / d with B(k) the sum of cos(k theta), a the attention factor, d the
    width and r the rotated features: Su et al. 2021, arXiv 2104.09864, for unit isotropic content.
    """
    scheme = config.at_length(length).build("cpu")
    kernel: Array = scheme.offset_kernel(torch.as_tensor(offsets)).numpy()
    return kernel


def short_cost(before: RopeConfig, after: RopeConfig, trained_length: int) -> ShortCost:
    """Return what reading `trained_length` positions with `after` changes, against `before`."""
    offsets = torch.arange(min(trained_length, _MAX_COMPARED))
    new, old = (kernel_at(config, offsets, trained_length) for config in (after, before))
    change = np.abs(new - old)
    return ShortCost(float(change.mean()), float(change.max()), float(old[0]), len(offsets))


def stale_from(config: RopeConfig, trained_length: int, target: int) -> int | None:
    """Return the shortest text for which keys rotated in shorter ones no longer fit, or None.

    Compared: frequencies at powers of two up to the target, and on both sides of the trained length
    and of the length that the scaling starts from, where one that depends on the text changes.
    """
    start: int = getattr(config, "trained_length", trained_length)
    lengths = {trained_length, trained_length + 1, start, start + 1, target}
    lengths |= {2**power for power in range(target.bit_length())}
    shortest = config.at_length(1)
    for length in sorted(length for length in lengths if length <= target):
        longer = config.at_length(length)
        if longer.attention_scaling() != shortest.attention_scaling() or not torch.equal(
            longer.frequencies().inv_freq, shortest.frequencies().inv_freq
        ):
            return length
    return None


def distinct_positions(length: int, dtype: torch.dtype = torch.bfloat16) -> int:
    """Return how many different numbers of `dtype` the positions 0 .. length-1 round to.

    bfloat16: 256 below 256, 641 below 2,048, 1,409 below 131,072.
    Raises SchemeArgumentError for a length outside 1 .. 2^24.
    """
    check_count("length", length, 1, MAX_CONTEXT)
    positions = torch.arange(length, dtype=torch.float32, device="cpu")
    rounded = positions.to(dtype)  # sorted, because rounding keeps the order
    return 1 + int((rounded[1:] != rounded[:-1]).sum())


def worst_cosine_error(
    inv_freq: Float[Tensor, " pairs"],
    length: int,
    *,
    computed: Float[Tensor, " pairs"] | None = None,
) -> float:
    """Return the largest error of cos(p theta) for p < length with angles computed in float32.

    inv_freq: exact frequencies theta. computed: the float32 frequencies that angles are made of, such as
    those of `rope_frequencies(config, mode="transformers")`; None rounds the exact ones once. Width 128,
    base 5e5: 1.5e-3 below 32,768, and 2.3e-3 with transformers' frequencies.
    Raises SchemeArgumentError for a length outside 1 .. 2^24.
    """
    check_count("length", length, 1, MAX_CONTEXT)
    exact = inv_freq.detach().to("cpu", torch.float64).numpy()
    single = (inv_freq if computed is None else computed).detach().to("cpu").numpy()
    worst = 0.0
    single = single.astype(np.float32)
    for pair in np.argsort(-exact):  # the fastest have the largest errors
        theta, rounded = exact[pair], single[pair]
        # An error is at most the position times this: skip positions that cannot be the worst.
        slope = abs(float(rounded) - theta) + max(float(rounded), theta) * 2.0**-24
        end = length
        while end > 0 and (end - 1) * slope * 1.001 > worst:
            start = max(0, end - _CHUNK)
            worst, end = max(worst, _largest_error(float(theta), float(rounded), start, end)), start
    return worst


@functools.lru_cache(maxsize=512)
def _largest_error(theta: float, rounded: float, start: int, end: int) -> float:
    """Return the largest error of one pair's cosines; the fastest pairs of most methods are the same."""
    positions = np.arange(start, end)
    angles = (positions.astype(np.float32) * np.float32(rounded)).astype(np.float64)
    return float(np.abs(np.cos(angles) - np.cos(positions * theta)).max())
