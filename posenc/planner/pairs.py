"""What a scaling does to every pair of a ladder, against the ladder as it was trained."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from posenc.analysis.extrapolation import phase_coverage
from posenc.rope_frequencies import rope_frequencies
from posenc.schemes.rope import RopeConfig

Array = npt.NDArray[np.float64]

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

    before: Array
    after: Array
    ratio: Array
    states: tuple[str, ...]
    turns: Array
    unseen: npt.NDArray[np.bool_]

    @property
    def wavelengths_before(self) -> Array:
        """Positions per full turn as trained; infinite for a pair that stands still."""
        return _wavelengths(self.before)

    @property
    def wavelengths_after(self) -> Array:
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


def _wavelengths(inv_freq: Array) -> Array:
    full = np.full_like(inv_freq, np.inf)
    return np.divide(2 * math.pi, inv_freq, out=full, where=inv_freq > 0)
