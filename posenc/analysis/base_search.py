"""The smallest base whose inverse frequencies keep B(k) at or above 0 over a whole context.

Men et al. 2024, arXiv 2405.14591: B(k) = sum_m cos(k b^(-2m/d)) must stay at or above 0 for all
k below the context. Whether a base passes is not monotone in the base and windows are narrow, so
every base from 1 up to the answer is excluded by an offset at which B is below 0 there. With
x = ln b and the offset fixed, B(x + h) <= B(x) + B'(x) h + M h^2 / 2, where M bounds |B''|, so a
negative value excludes an interval; the intervals are laid end to end.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from posenc.frequencies import Frequencies
from posenc.limits import MAX_BASE, check_count, check_width
from posenc.notebook import Shown
from posenc.tables import cosine_sum

Array = npt.NDArray[np.float64]
Offsets = npt.NDArray[np.int64]

MAX_LENGTH = 2**18  # above it the search takes minutes
_RESOLUTION = 1e-9  # relative: windows of bases narrower than this may be stepped over
_WITNESSES = 48  # offsets asked first: what excluded one base excludes most of its neighbours
_REACH = 0.01  # an interval in ln(base) excluded at once is at most this wide on each side
_WINDOW_STEPS = 300


@dataclass(frozen=True)
class BaseWindow(Shown):
    """The smallest base that passes for `length` positions of rotary width `dim`.

    `base`: to a relative 1e-9; all below it fail. `end`: where the window of passing bases that
    begins there ends, searched in steps in which no angle changes by more than 0.1 radians; None
    where it is longer than was searched, which is up to `searched`.
    """

    dim: int
    length: int
    base: float
    end: float | None
    searched: float

    @property
    def narrow(self) -> bool:
        """Whether a base 1 % larger fails again."""
        return self.end is not None and self.end < 1.01 * self.base

    @property
    def rounded(self) -> float:
        """The base rounded up, with five digits or as many as it takes to stay inside the window."""
        high = self.searched if self.end is None else self.end
        for digits in range(5, 17):
            step = 10.0 ** (math.floor(math.log10(self.base)) + 1 - digits)
            value = float(f"{math.ceil(self.base / step) * step:.{digits}g}")
            if self.base <= value <= high:
                return value
        return self.base


def smallest_base(dim: int, length: int) -> BaseWindow | None:
    """Return the smallest base with B(k) >= 0 for all k < `length`, or None if there is none to 1e12.

    dim: rotary width, even. length: positions, at most 2^18.
    Width 128: 4,293.4 for 1,024 positions, 26,952.3 for 4,096, 629,978 for 32,768 and 4.869104e6
    for 131,072, where larger bases fail again from 4.873e6.
    Raises SchemeArgumentError for an odd width or a length outside 1 .. 2^18.
    Source: Men et al. 2024, arXiv 2405.14591.
    """
    check_width("dim", dim)
    return _smallest(dim, check_count("length", length, 1, MAX_LENGTH))


@functools.lru_cache(maxsize=256)
def _smallest(dim: int, length: int) -> BaseWindow | None:
    share = np.arange(dim // 2) / (dim // 2)
    if dim == 2:  # one pair, of one frequency whatever the base
        passes = _sums(0.0, share, np.arange(length)).min() >= 0
        return BaseWindow(dim, length, 1.0, None, MAX_BASE) if passes else None
    x = _first_passing(share, length)
    if x is None:
        return None
    end, searched = _window_end(x, share, length)
    return BaseWindow(dim, length, math.exp(x), end and math.exp(end), math.exp(searched))


def _sums(x: float, share: Array, offsets: Offsets) -> Array:
    """B(k) at these offsets for base e^x."""
    frequencies = Frequencies.from_inv_freq(torch.from_numpy(np.exp(-x * share)))
    sums: Array = cosine_sum(torch.from_numpy(offsets), frequencies).numpy()
    return sums


def _first_passing(share: Array, length: int) -> float | None:
    """ln of the smallest passing base: the end of the excluded intervals."""
    x, reach, usual = 0.0, 0.0, 0.0
    offsets = np.zeros(0, np.int64)
    while x < math.log(MAX_BASE):
        if len(offsets) and reach > 0.1 * usual:
            # Ask a little ahead, so that the interval excluded on both sides begins at x.
            ahead = 0.8 * reach
            left, right = _excluded(x + ahead, offsets, share)
            if left >= ahead:
                x += ahead + right
                reach = (left + right) / 2
            else:
                reach /= 2
            continue
        values = _sums(x, share, np.arange(length))
        if values.min() >= 0:
            return x
        # An offset reaches about -B / k to each side: small offsets and deep values exclude most.
        worth = values[1:] / np.arange(1, length)
        count = min(_WITNESSES, length - 1)
        best = 1 + np.argpartition(worth, count - 1)[:count]
        offsets = best[values[best] < 0]
        reach = usual = max(_excluded(x, offsets, share)[1], _RESOLUTION)
        x += reach
    return None


def _excluded(x: float, offsets: Offsets, share: Array) -> tuple[float, float]:
    """How far below and above x one of the offsets keeps B below 0; (0, 0) if none does at x."""
    # Not by `cosine_sum`: asked thousands of times, its exact angles would make a search 4 times as long.
    angles = np.outer(offsets, np.exp(-x * share))
    values = np.cos(angles).sum(1)
    slopes = (np.sin(angles) * angles) @ share  # dB/dx
    below = values < 0
    if not below.any():
        return 0.0, 0.0
    values, slopes, offsets = values[below], slopes[below], offsets[below]
    largest = np.exp(-(x - _REACH) * share)  # the frequencies at the lower end, the largest there
    bend = offsets**2 * ((largest * share) ** 2).sum() + offsets * (largest * share**2).sum()
    root = np.sqrt(slopes**2 - 2 * bend * values)
    left, right = (root + slopes) / bend, (root - slopes) / bend
    return min(float(left.max()), _REACH), min(float(right.max()), _REACH)


def _window_end(x: float, share: Array, length: int) -> tuple[float | None, float]:
    """ln of the base at which B turns negative again after x, or None; and the last ln searched."""
    fastest = float((np.exp(-x * share) * share).max()) * length  # radians per unit of x
    step = min(0.1 / max(fastest, 1e-300), 0.1)
    for _ in range(_WINDOW_STEPS):
        ahead = min(x + step, math.log(MAX_BASE))
        failing = np.flatnonzero(_sums(ahead, share, np.arange(length)) < 0)
        if len(failing):
            return _crossing(x, ahead, failing, share), ahead
        x = ahead
    return None, x


def _crossing(low: float, high: float, offsets: Offsets, share: Array) -> float:
    """Return the base between `low` and `high` from which B is negative at one of the offsets."""
    for _ in range(40):
        middle = (low + high) / 2
        if (_sums(middle, share, offsets) < 0).any():
            high = middle
        else:
            low = middle
    return low


# (width, length): the base, end and searched of `smallest_base`, whose search takes up to a minute.
# tests/models/test_context_plan.py shows by plain sums that they hold, and searches them anew.
_KNOWN: dict[tuple[int, int], tuple[float, float | None, float]] = {
    (24, 32_768): (341692551.4765216, 341816291.62500304, 341821262.2483551),
    (24, 65_536): (1922526447.6789021, 1922640191.055963, 1922735499.1732802),
    (24, 131_072): (10712113461.817678, 10712416572.101376, 10712785483.114645),
    (32, 32_768): (154229230.45310208, 154229409.30577904, 154253700.32003394),
    (32, 65_536): (200449414.13602456, 200529775.51637363, 200530245.08856282),
    (32, 131_072): (3667167448.9486437, 3668952513.585673, 3669118279.9322),
    (64, 32_768): (3788343.254982911, 3788998.675311723, 3789296.8349133777),
    (64, 65_536): (4867184.379777253, 4874558.697306813, 4874656.039527709),
    (64, 131_072): (73779829.7810605, 73815353.88517106, 73816166.36396179),
    (96, 32_768): (726714.2463688327, 728708.5690425513, 728765.8538843658),
    (96, 65_536): (4773656.265259424, 4774217.124930457, 4774265.770033941),
    (96, 131_072): (16748917.590366228, 16753895.964743517, 16754122.413235234),
    (128, 32_768): (629978.2634850197, 630983.5780953403, 631026.8647094254),
    (128, 65_536): (2090179.6761443485, 2091381.9307560958, 2091447.23111008),
    (128, 131_072): (4869104.374736991, 4872527.177430089, 4872528.897582123),
    (256, 32_768): (223815.30582029943, 223975.83364541313, 223998.48563089065),
    (256, 65_536): (665843.1296791715, 665879.2979548343, 665880.2032982849),
    (256, 131_072): (1697702.3731213626, 1697755.7826733126, 1697803.3912098897),
}


def known_base(dim: int, length: int) -> BaseWindow | None:
    """Return `smallest_base` where it is in the table of known ones, else None."""
    known = _KNOWN.get((dim, length))
    return None if known is None else BaseWindow(dim, length, *known)
