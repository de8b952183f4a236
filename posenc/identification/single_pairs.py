"""Pairs of a rotary cache that are wrong, each by itself, where the others are a scheme's."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from posenc.identification.columns import longest_run
from posenc.identification.predict import Allowed
from posenc.identification.variants import Mistake, Part, WrongPair
from posenc.identification.waves import fit_waves

_MOST_WRONG = 0.25  # share of visible pairs; of more, all are likely wrong
_VISIBLE = (
    10  # times what is allowed: a pair that turns by less looks the same at other frequencies
)
_FEW_ROWS = 64  # in which most wrong pairs show
_MEASURED_ROWS = 2_048  # in which a frequency is measured first
_FITTED_ROWS = 256  # at most, of one step of least squares
_CLEAR = 10  # times what is allowed: with less, all pairs may be a little wrong
_MOST_ROWS = 0.5  # share of rows in which a wrong pair is clearly off; else some rows are wrong


class Planes(NamedTuple):
    """Cosines and sines (rows, pairs) of a table, and what a scheme has there.

    frequencies: radians per position of each pair. size: of all numbers.
    """

    cosines: Float[Tensor, "t p"]
    sines: Float[Tensor, "t p"]
    positions: Int[Tensor, " t"]
    frequencies: Float[Tensor, " p"]
    size: float
    allowed: Allowed

    def of(self, pairs: list[int]) -> "Planes":
        """Return some of the pairs."""
        cosines, sines = self.cosines[:, pairs], self.sines[:, pairs]
        return self._replace(cosines=cosines, sines=sines, frequencies=self.frequencies[pairs])

    def first(self, rows: int) -> "Planes":
        """Return the first rows."""
        cosines, sines = self.cosines[:rows], self.sines[:rows]
        return self._replace(cosines=cosines, sines=sines, positions=self.positions[:rows])

    @property
    def visible(self) -> int:
        """Number of pairs that turn by more than rounding hides."""
        largest = self.frequencies * float(self.positions.abs().max())
        return int((largest > _VISIBLE * self.allowed.number).sum())

    def right(self) -> Bool[Tensor, "4 p"]:
        """Return whether cosines and sines of each pair are right, then whether each are the other."""
        angles = self.positions.double().unsqueeze(1) * self.frequencies
        cos, sin = self.size * angles.cos(), self.size * angles.sin()
        limits = [self.allowed.limits(wave, angles, self.size) for wave in (cos, sin)]
        both = ((self.cosines, cos, limits[0]), (self.sines, sin, limits[1]),
                (self.cosines, sin, limits[1]), (self.sines, cos, limits[0]))  # fmt: skip
        return torch.stack([((table - wave).abs() <= limit).all(0) for table, wave, limit in both])


def exchanged_pairs(planes: Planes) -> Mistake | None:
    """Return in how many pairs sines and cosines have changed places, None unless all others are right."""
    for part in (planes.first(_FEW_ROWS), planes):
        right = part.right()
        exchanged = right[2:].all(0) & ~right[:2].all(0)
        if not bool((right[:2].all(0) | exchanged).all()):
            return None
    count = int(exchanged.sum())
    return Mistake("exchanged", (count, len(exchanged))) if count else None


def wrong_pairs(planes: Planes, *, turning: bool) -> Mistake | None:
    """Return up to a quarter of the pairs, those that are wrong, None unless all others are right.

    turning: whether the wrong ones must turn by some angle per position. If they do not, their rows may
    be wrong instead.
    """
    count, most = len(planes.frequencies), max(1.0, _MOST_WRONG * planes.visible)
    for part in (planes.first(_FEW_ROWS), planes):
        right = part.right()[:2]
        wrong = (~right.all(0)).nonzero().flatten().tolist()
        if planes.visible < 2 or len(wrong) > most:
            return None
    if not wrong:
        return None
    found = [_wrong_pair(planes.of([pair]), pair, *right[:, pair].tolist()) for pair in wrong]
    angles = [each.turns_by / each.own for each in found if each.turns_by is not None and each.own]
    if len(angles) < len(found):
        turns_by_none = [each.pair for each in found if each.turns_by is None]
        if turning or not bool((_share_off(planes.of(turns_by_none)) > _MOST_ROWS).all()):
            return None
    elif not _others_differ(planes, min(angles, key=lambda each: abs(each - 1)), len(wrong)):
        return None
    return Mistake("single pairs", (count, *found))


def _share_off(planes: Planes) -> Float[Tensor, " p"]:
    """Return for each pair the share of rows in which its numbers are clearly another's."""
    angles = planes.positions.double().unsqueeze(1) * planes.frequencies
    cos, sin = planes.size * angles.cos(), planes.size * angles.sin()
    off = torch.maximum((planes.cosines - cos).abs(), (planes.sines - sin).abs())
    return (off > _CLEAR * sum(planes.allowed[:2])).double().mean(0)


def _others_differ(planes: Planes, factor: float, wrong: int) -> bool:
    """Whether more pairs than are wrong show that the frequencies of all are not multiplied by a factor."""
    multiplied = planes._replace(frequencies=planes.frequencies * factor)
    right, other = planes.right()[:2].all(0), multiplied.right()[:2].all(0)
    return int((right & ~other).sum()) > wrong


def _wrong_pair(planes: Planes, pair: int, cosines: bool, sines: bool) -> WrongPair:
    """Return what is wrong with a pair. planes: its own. cosines, sines: whether these are right."""
    own = float(planes.frequencies)
    angles = planes.positions.double().unsqueeze(1) * own
    off = [(planes.cosines - planes.size * angles.cos()), planes.sines - planes.size * angles.sin()]
    largest = max(float(part.abs().max()) for part in off)
    part: Part = "cosines" if sines else "sines" if cosines else ""
    for tried in dict.fromkeys(("", part)):
        if (found := _turns_by(planes, tried)) is not None:
            return WrongPair(pair, tried, found, own, largest)
    return WrongPair(pair, part, None, own, largest)


def _turns_by(planes: Planes, part: Part) -> float | None:
    """Return the angle per position that makes both columns of a pair, or one part, None if none does."""
    begin, end = longest_run(planes.positions.diff() != 1)
    run = torch.cat((planes.cosines, planes.sines), 1)[begin : end + 1][:_MEASURED_ROWS]
    for measured in fit_waves(run / planes.size).theta.tolist():
        for sign in (1, -1):
            theta = _refined(planes, part, sign * measured)
            right = planes._replace(frequencies=torch.tensor([theta], dtype=torch.float64)).right()
            if bool(right[0] | (part == "sines")) and bool(right[1] | (part == "cosines")):
                return theta
    return None


def _refined(planes: Planes, part: Part, theta: float) -> float:
    """Return the angle per position of least squares near another, by Gauss-Newton, at last on all rows."""
    reach = min(len(planes.positions), _MEASURED_ROWS)
    while True:
        rows = torch.linspace(0, reach - 1, min(reach, _FITTED_ROWS)).round().long()
        places = planes.positions[rows].double()
        for _ in range(4):
            cos, sin = planes.size * (places * theta).cos(), planes.size * (places * theta).sin()
            off_cosines, off_sines = planes.cosines[rows, 0] - cos, planes.sines[rows, 0] - sin
            up = down = torch.zeros(())
            if part != "sines":
                up, down = (
                    up - (places * sin * off_cosines).sum(),
                    down + (places * sin).square().sum(),
                )
            if part != "cosines":
                up, down = (
                    up + (places * cos * off_sines).sum(),
                    down + (places * cos).square().sum(),
                )
            theta += float(up / down) if float(down) else 0.0
        if reach == len(planes.positions):
            return theta
        reach = min(len(planes.positions), 4 * reach)
