"""The position that each row of cosines and sines stands for, and why it is not the one expected."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.identification.frequency_fit import ANGLE_ERROR

UNKNOWN = torch.iinfo(torch.int64).min
_EARLIEST, _LATEST = -(2**16), 2**21
_LARGEST_ERROR = 0.05  # of a float32 angle: with more, any row fits somewhere
_MOST_CHANCE = 1e-6  # positions that random angles would fit: with more, the numbers show none
_BLOCK = 2**15  # positions that are tried at once
_TRIED_ROWS = 12  # whose positions are recovered before those of all
_KNOWN = 0.8  # share of rows that must have a position
_MOST_PERIODS = 512  # of the slowest pair, in each of which one position is tried
_SIGNED = {2**7: 8, 2**15: 16}  # bits of whole numbers, by the first one that is too large for them
_ROUNDED = ((torch.bfloat16, "bfloat16 positions"), (torch.float16, "float16 positions"))


def recover(
    cosines: Float[Tensor, "t p"],
    sines: Float[Tensor, "t p"],
    frequencies: Float[Tensor, " p"],
    tolerance: float,
    share: float = 0.0,
) -> Int[Tensor, " t"]:
    """Return the whole position of every row, UNKNOWN where none makes the row.

    frequencies: radians per position. tolerance: of every number; share: more, of the number itself. The
    slowest pair gives a position up to its period; each faster one refines it, because the error that is
    left is far below its own period. Few pairs show no position as far off as many do.
    Positions from -65,536 to 2,097,152 are found, and within 512 periods of the slowest pair.
    """
    turning = frequencies > 0
    theta, order = frequencies[turning].double().sort()
    cos, sin = (part[:, turning][:, order].double() for part in (cosines, sines))
    found = torch.full((len(cos),), UNKNOWN)
    if not len(theta):
        return found
    angles, period = torch.atan2(sin, cos), 2 * math.pi / float(theta[0])
    within_period = (angles[:, 0] / theta[0]) % period
    turns = torch.arange(-_MOST_PERIODS, _MOST_PERIODS, dtype=torch.float64)
    turns = turns[((turns + 1) * period >= _EARLIEST) & (turns * period <= _LATEST)]
    turns, done = turns[turns.abs().argsort(stable=True)], 0
    while done < len(turns) and len(missing := (found == UNKNOWN).nonzero().flatten()):
        tried = turns[done : done + max(1, _BLOCK // len(missing))]
        done += len(tried)
        place = within_period[missing].unsqueeze(1) + tried * period
        for pair in range(1, len(theta)):
            off = angles[missing, pair].unsqueeze(1) - place * theta[pair]
            place = place + (off - 2 * math.pi * (off / (2 * math.pi)).round()) / theta[pair]
        place = place.round()
        angle = ANGLE_ERROR * place.abs() * float(theta[-1])
        allowed = tolerance + angle.clamp_max(_LARGEST_ERROR)
        chance = 2 * place.abs() * ((allowed + share) / math.pi) ** len(theta)
        fits = (place >= _EARLIEST) & (place <= _LATEST) & (chance <= _MOST_CHANCE)
        for pair in range(len(theta) - 1, -1, -1):
            turned = place * theta[pair]
            for part, wave in ((cos, turned.cos()), (sin, turned.sin())):
                off = (part[missing, pair].unsqueeze(1) - wave).abs()
                fits &= off <= allowed + share * wave.abs()
            if not bool(fits.any()):
                break
        some = fits.any(1)
        nearest = fits.byte().argmax(1)  # to position 0
        found[missing[some]] = place[some, nearest[some]].long()
    return found


def recover_most(
    cosines: Float[Tensor, "t p"],
    sines: Float[Tensor, "t p"],
    frequencies: Float[Tensor, " p"],
    tolerance: float,
    share: float,
) -> Int[Tensor, " t"] | None:
    """Return the whole position of every row as `recover` does, None if more than a fifth have none.

    None, too, for fewer than two pairs that turn.
    """
    if int((frequencies > 0).sum()) < 2:
        return None
    few = torch.linspace(0, len(cosines) - 1, min(len(cosines), _TRIED_ROWS)).round().long()
    for rows in (few, slice(None)):
        found = recover(cosines[rows], sines[rows], frequencies, tolerance, share)
        if float((found != UNKNOWN).double().mean()) < _KNOWN:
            return None
    return found


class Run(NamedTuple):
    """Consecutive rows whose positions rise by one step."""

    row: int
    position: int
    step: int
    length: int


def runs_of(positions: Int[Tensor, " t"]) -> list[Run]:
    """Return positions as runs. A run of one row has step 1."""
    values, runs, row = positions.tolist(), [], 0
    while row < len(values):
        step = values[row + 1] - values[row] if row + 1 < len(values) else 1
        end = row + 1
        while end < len(values) and values[end] - values[end - 1] == step:
            end += 1
        if end - row == 2 and end < len(values) and step != 1:  # the border between two runs
            end = row + 1
        runs.append(Run(row, values[row], step if end - row > 1 else 1, end - row))
        row = end
    return runs


class Cause(NamedTuple):
    """Why positions are not those expected: a word, the row where it begins, and numbers for a sentence."""

    word: str
    row: int
    numbers: tuple[int, ...] = ()


def cause_of(found: Int[Tensor, " t"], expected: Int[Tensor, " t"]) -> Cause | None:
    """Return why recovered positions differ from those expected, None where they do not.

    The words are those of `clauses.CAUSES`; "other" is a difference without a known reason.
    """
    if torch.equal(found, expected):
        return None
    unknown = found == UNKNOWN
    if bool(unknown.any()):
        if bool(unknown.all()):
            return Cause("unknown", 0, (len(found),))
        first = int((~unknown).nonzero()[0])
        if first and torch.equal(found[first:], expected[: len(found) - first]):
            return Cause("blank padding", 0, (first, int(expected[0])))
        rest = cause_of(_continued(found, expected), expected)
        if first and rest is not None and rest.word in ("shifted", "negative start"):
            return Cause("shifted", first, (rest.numbers[0], int(found[first])))
        return rest or Cause("unknown", int(unknown.nonzero()[0]), (int(unknown.sum()),))
    wrong = (found != expected).nonzero().flatten()
    first, last = int(wrong[0]), int(wrong[-1])
    here, there = int(found[first]), int(expected[first])
    if len(wrong) == 2 and (here, int(found[last])) == (int(expected[last]), there):
        return Cause("exchanged rows", first, (last,))
    shift = found - expected
    if bool((shift == shift[0]).all()):
        word = "negative start" if int(found[0]) < 0 <= int(expected[0]) else "shifted"
        return Cause(word, 0, (int(shift[0]), int(found[0])))
    for dtype, word in _ROUNDED:
        if torch.equal(found, expected.to(dtype).long()) and int(expected.max()) < 2**30:
            return Cause(word, first, (here, there))
    if len(found.unique()) > 1 and torch.equal(found, expected.clamp(max=int(found.max()))):
        return Cause("clamped", first, (int(found.max()),))
    for block in range(1, 0 if _is_text(expected) else len(found) // 2 + 1):
        if len(found) % block == 0 and torch.equal(found[block:], found[:-block]):
            return Cause("first part again", block, (here, there))
    size, counted = there - here, torch.equal(found, torch.arange(len(found)))
    if size > 1 and not counted and torch.equal(found % size, expected % size):
        low, high = int(found.min()), int(found.max())
        if high - low < size and not _is_text(expected):
            return Cause("wrapped", first, (here, there, size))
    if len(wrong) == 1:
        return Cause("one row", first, (here, there))
    if last < len(found) - 1 and len(wrong) < len(found) / 2:
        return Cause("some rows", first, (here, there, len(wrong)))
    if _is_text(expected):
        return _of_text(found, expected, first)
    if counted:
        return Cause("counted" if there else "not reset", first, (here, there))
    word = "sorted" if torch.equal(found, expected.sort().values) else "other"
    return Cause(word, first, (here, there))


def _continued(found: Int[Tensor, " t"], expected: Int[Tensor, " t"]) -> Int[Tensor, " t"]:
    """Return positions with those of unknown rows as far from the ones expected as in the row before."""
    known = (found != UNKNOWN).nonzero().flatten()
    rows = torch.arange(len(found))
    before = known[(torch.searchsorted(known, rows, right=True) - 1).clamp_min(0)]
    return expected + (found - expected)[before]


def _is_text(expected: Int[Tensor, " t"]) -> bool:
    """Whether positions rise by 1."""
    return bool((expected.diff() == 1).all())


def _of_text(found: Int[Tensor, " t"], expected: Int[Tensor, " t"], first: int) -> Cause:
    """Return why positions differ where those expected rise by 1."""
    runs, begin = runs_of(found - int(expected[0])), int(expected[0])
    last, second = runs[-1], runs[min(1, len(runs) - 1)]
    if len(runs) == 1:
        if (last.step, last.position) == (-1, -2 * begin):
            return Cause("negated", 0)
        if (last.step, last.position) == (-1, len(found) - 1):
            return Cause("reversed", 0)
        if last.step == 0:
            return Cause("stuck", 0, (begin + last.position,))
        return Cause("strided", 0, (last.step, begin + last.position))
    if len(runs) == 2 and (runs[0].step, last.step) == (0, 1):
        joined = runs[0].position == 0 and last.position == 1  # with the first position of the text
        if last.position == 0 or joined:
            return Cause("padding filled", 0, (last.row - joined, begin + runs[0].position, begin))
    if last.step == 0 and len(runs) == 2:
        return Cause("stuck", last.row, (begin + last.position,))
    again = {begin + run.position for run in runs[1:]}
    if runs[0].position == 0 and {run.step for run in runs} == {1} and again in ({0}, {begin}):
        even = len({run.length for run in runs[:-1]}) == 1 and last.length <= runs[0].length
        size = runs[0].length if even and begin == 0 else 0
        return Cause("reset", second.row, (len(runs), size, *again))
    if (slices := _slices(runs)) is not None:
        return Cause("context-parallel slice", second.row, slices)
    if len(runs) > max(8, len(found) // 4) or second.row != first:
        return Cause("other", first, (int(found[first]), int(expected[first])))
    numbers = (begin + second.position, begin + second.row)
    here, there = numbers
    if here == -there and there in _SIGNED:
        return Cause("signed", second.row, (*numbers, _SIGNED[there]))
    if here < 0:
        return Cause("other", first, numbers)
    if second.position == 2 * second.row and second.row > 1:
        return Cause("counted twice", second.row, numbers)
    word = "jumps ahead" if second.position > second.row else "goes back"
    return Cause(word, second.row, numbers)


def _slices(runs: list[Run]) -> tuple[int, int] | None:
    """Return rank and ranks of context parallelism, of which each rank has an early and a late slice."""
    if len(runs) != 2 or {run.step for run in runs} != {1} or runs[0].length != runs[1].length:
        return None
    size = runs[0].length
    if runs[0].position % size or runs[1].position % size:
        return None
    early, late = runs[0].position // size, runs[1].position // size
    ranks = (early + late + 1) // 2
    power_of_two = ranks.bit_count() == 1 and (early + late) % 2 == 1
    return (early, ranks) if power_of_two and late > early + 1 and ranks > 1 else None
