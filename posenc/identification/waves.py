"""Frequencies and phases of columns that may each be one sine wave, without knowing the table.

A wave obeys x(p + lag) + x(p - lag) = 2 cos(lag theta) x(p) (Prony 1795); the lag is doubled for as
long as the rows allow, each estimate choosing the next one's branch, so the error falls as 1/rows.

The first position of a table, from the phases of its columns.

A column of frequency theta stands at theta * start, short of whole turns, in the first row. Starts near
0 are all tried. For later ones the slowest column leaves one start for each of its turns, and each
faster column makes every one of these more exact, as a vernier does; wrong ones cannot follow.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from posenc.identification.columns import Columns
from posenc.limits import MAX_TRAIN_LENGTH

WELL = 0.05  # of a column's size, what a wave may leave
_FITTED_ROWS = 256


@dataclass(frozen=True, eq=False)
class Waves:
    """What every column is, taken as a cos(theta p) + b sin(theta p) with p = 0 in the first row.

    theta (c,) radians per row. cosine, sine (c,): a and b. weight (c,): the square of theta over its
    error, but for a common factor; 0 where no wave fits. turned (c,): radians over all rows. table
    (t, c): the columns themselves.
    """

    theta: Float[Tensor, " c"]
    cosine: Float[Tensor, " c"]
    sine: Float[Tensor, " c"]
    weight: Float[Tensor, " c"]
    turned: Float[Tensor, " c"]
    table: Float[Tensor, "t c"]

    def at(
        self, rates: Float[Tensor, " c"]
    ) -> tuple[Float[Tensor, " c"], Float[Tensor, " c"], Float[Tensor, " c"]]:
        """Return cosine and sine of every column at a given frequency, and the share of its mean square
        that they leave. Some 256 rows are looked at.
        """
        last = len(self.table) - 1
        rows = torch.linspace(0, last, min(last + 1, _FITTED_ROWS)).round().long()
        return _fitted(self.table[rows], rows.double().unsqueeze(1) * rates)


def waves(columns: Float[Tensor, "t c"]) -> Waves:
    """Return the wave nearest to every column; 5 rows or more, float64."""
    rows = len(columns)
    power = columns.square().mean(0)
    some = power > 1e-12
    theta = torch.zeros(columns.shape[1], dtype=torch.float64)
    leverage = torch.zeros_like(theta)
    lag = 1
    while 2 * lag < rows - 2:
        middle = columns[lag : rows - lag]
        around = columns[2 * lag :] + columns[: rows - 2 * lag]
        size = middle.square().sum(0).clamp_min(1e-300)
        turn = ((around * middle).sum(0) / (2 * size)).clamp(-1, 1).arccos()
        # Which of +turn + 2 pi k, -turn + 2 pi k lies nearest to what was known.
        expected = theta * lag if lag > 1 else turn
        up = turn + 2 * math.pi * ((expected - turn) / (2 * math.pi)).round()
        down = -turn + 2 * math.pi * ((expected + turn) / (2 * math.pi)).round()
        nearest = torch.where((up - expected).abs() <= (down - expected).abs(), up, down)
        # An error e of the cosine moves theta by e / (lag |sin turn|).
        here = torch.where(some, lag * turn.sin().abs(), 0.0)
        theta = torch.where(here > leverage, nearest.abs() / lag, theta)
        leverage = torch.maximum(here, leverage)
        lag *= 2
    position = torch.arange(rows, dtype=torch.float64).unsqueeze(1)
    a, b, left = _fitted(columns, position * theta)
    fits = some & (left <= WELL**2)
    weight = torch.where(fits, (theta * leverage).square(), 0.0)
    return Waves(theta, a, b, weight, theta * rows, columns)


def _fitted(
    columns: Float[Tensor, "t c"], angles: Float[Tensor, "t c"]
) -> tuple[Float[Tensor, " c"], Float[Tensor, " c"], Float[Tensor, " c"]]:
    cos, sin = angles.cos(), angles.sin()
    cc, ss, cs = cos.square().sum(0), sin.square().sum(0), (cos * sin).sum(0)
    xc, xs = (columns * cos).sum(0), (columns * sin).sum(0)
    determinant = (cc * ss - cs.square()).clamp_min(1e-12)
    a, b = (xc * ss - xs * cs) / determinant, (xs * cc - xc * cs) / determinant
    left = (columns - a * cos - b * sin).square().sum(0)
    return a, b, left / columns.square().sum(0).clamp_min(1e-300)


EARLIEST_START = -8
LATEST_START = MAX_TRAIN_LENGTH  # the last one that is told
_TRIED_BEFORE = 4_096  # every start up to here is tried
_AT_ONCE = 1_026  # torch shares larger tensors between threads, which costs more here
_COHERENT = 0.6  # of the phases of the fast columns, for a start to be likely
_CERTAIN = 0.99  # of far starts, of which there are more
_SHOWN = 60.0
_KEPT = 2
_FAST_COLUMNS = 24
_FOLLOWED = 2_048  # far starts
_MOST_TURNS = 2**19  # of the slowest column, up to the latest start


@dataclass(frozen=True, eq=False)
class Phases:
    """Phases (c,) of columns in the first row, radians; which of them are known, and which are fast.

    known: the column turns in the rows there are, or has its partner, a sine beside its cosine.
    fast: it turns far enough to be told from its neighbours by its phase. follow: whether most of these
    are waves of the frequencies asked for. allowed: what rounding does to a number.
    """

    phase: Float[Tensor, " c"]
    known: Bool[Tensor, " c"]
    fast: Bool[Tensor, " c"]
    follow: bool
    allowed: float

    @classmethod
    def of(
        cls,
        found: Waves,
        columns: Columns,
        rates: Float[Tensor, " c"],
        allowed: float,
        signs: tuple[int, float] = (1, 1.0),
    ) -> "Phases":
        """Read phases at frequencies (c,). signs: -1 where sines are negated, and where all numbers are."""
        sense, sign = signs
        cosine, sine, left = found.at(rates)
        cosine, sine = cosine * sign, sine * sign
        phase = torch.where(
            columns.sines, torch.atan2(cosine * sense, sine * sense), torch.atan2(-sine, cosine)
        )
        # A part of a turn shows its phase where its bend is far above rounding.
        shown = min(1.5, _SHOWN * math.sqrt(allowed))
        fast = (found.weight > 0) & (found.turned > shown)
        known, first = fast & (left <= WELL**2), found.table[0] * sign
        follow = bool(2 * known.sum() >= fast.sum())
        pairs = (columns.exponents * columns.dim).round().tolist()
        is_sine = columns.sines.tolist()
        partner = {pair: i for i, pair in enumerate(pairs) if is_sine[i]}
        both = [(i, partner[e]) for i, e in enumerate(pairs) if not is_sine[i] and e in partner]
        if both:
            cosines, sines = torch.tensor(both).T
            phase[cosines] = torch.atan2(first[sines] * sense, first[cosines])
            phase[sines] = phase[cosines]
            known[cosines] = known[sines] = True
        return cls(phase, known, fast, follow, allowed)

    def near(self, rates: Float[Tensor, " c"]) -> tuple[list[int], float]:
        """Return the likely starts before 4,096, the likeliest first, and how coherent that one is."""
        chosen = torch.nonzero(self.fast).flatten()
        if not len(chosen):
            return [0, 1], 0.0
        chosen = _spread(chosen)
        start = torch.arange(EARLIEST_START, _TRIED_BEFORE, dtype=torch.float64)
        parts = start.unsqueeze(1).split(_AT_ONCE)
        score = torch.cat(
            [(part * rates[chosen] - self.phase[chosen]).cos().mean(1) for part in parts]
        )
        best = score.topk(_KEPT)
        likely = [int(start[i]) for s, i in zip(*best, strict=True) if float(s) > _COHERENT]
        return likely, float(best.values[0])

    def far(self, rates: Float[Tensor, " c"]) -> tuple[int, float]:
        """Return the likeliest of all starts up to 2^20, and how coherent it is."""
        known = torch.nonzero(self.known & (rates > 1e-9)).flatten()
        if not len(known):
            return 0, 0.0
        known = known[rates[known].argsort()]
        apart = rates[known].diff(prepend=-torch.ones(1, dtype=torch.float64)) > 1e-9 * rates[known]
        known = known[apart]  # a sine and its cosine are one
        slowest, phase = float(rates[known[0]]), float(self.phase[known[0]])
        turn = 2 * math.pi / slowest
        if LATEST_START / turn > _MOST_TURNS:
            return 0, 0.0
        first = math.floor((EARLIEST_START - phase / slowest) / turn)
        last = math.ceil((LATEST_START - phase / slowest) / turn)
        start = phase / slowest + turn * torch.arange(first, last + 1, dtype=torch.float64)
        cost = torch.zeros_like(start)
        for column in known[1:].tolist():
            off = self.phase[column] - rates[column] * start
            off = off - 2 * math.pi * (off / (2 * math.pi)).round()
            start, cost = start + off / rates[column], cost + off.square()
            if len(start) > _FOLLOWED:
                best = cost.topk(_FOLLOWED, largest=False).indices
                start, cost = start[best], cost[best]
        whole = start.round().clamp(EARLIEST_START, LATEST_START).unique()
        chosen = _spread(
            torch.nonzero(self.fast if bool(self.fast.any()) else self.known).flatten()
        )
        parts = whole.unsqueeze(1).split(_AT_ONCE)
        score = torch.cat(
            [(part * rates[chosen] - self.phase[chosen]).cos().mean(1) for part in parts]
        )
        best_score = float(score.max())
        # Of starts that rounding does not tell apart the first is meant.
        alike = whole[score >= best_score - 2 * self.allowed**2 - 1e-12]
        return int(alike[alike.abs().argmin()]), best_score


def starts(phases: Phases, rates: Float[Tensor, " c"]) -> list[int]:
    """Return the first positions that phases speak for, likeliest first."""
    likely, coherent = phases.near(rates)
    if phases.follow and coherent < 1 - max(1e-9, 8 * phases.allowed**2):
        start, score = phases.far(rates)
        if score > max(coherent, _CERTAIN) and start not in likely:
            likely = [start, *likely]
    return likely if not likely or 0 in likely else [*likely, 0]


def _spread(chosen: Tensor) -> Tensor:
    """Take some evenly: the fastest tell neighbours apart, the slow ones far starts."""
    return chosen[torch.linspace(0, len(chosen) - 1, min(len(chosen), _FAST_COLUMNS)).long()]
