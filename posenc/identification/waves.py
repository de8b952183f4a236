"""Frequency, phase and first position of columns that may each be a sine wave.

A wave obeys x(p + lag) + x(p - lag) = 2 cos(lag theta) x(p) (Prony 1795). The lag is doubled as long as
the rows allow, each estimate choosing the next one's branch, so the error falls as 1/rows.

A column of frequency theta has the phase theta * start in the first row, up to whole periods. Starts near 0
are all tried. For later ones the slowest column leaves one candidate per period, and each faster column
refines every candidate, as a vernier scale does.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from posenc.identification.columns import Columns
from posenc.limits import MAX_TRAIN_LENGTH

MAX_WAVE_RESIDUAL = 0.05  # relative to a column's size
EARLIEST_START = -8
LATEST_START = MAX_TRAIN_LENGTH
_FITTED_ROWS = 256
_EXHAUSTIVE_BEFORE = 4_096  # every start up to here is tried
_CHUNK = 1_026  # torch splits larger tensors between threads, which costs more here
_COHERENT = 0.6  # smallest phase coherence of a likely start
_CERTAIN = 0.99  # the same for far starts, of which there are more
_VISIBLE = 60.0  # smallest rotation in the rows that shows a phase, in units of sqrt(tolerance)
_CANDIDATES = 2
_FAST_COLUMNS = 24
_MAX_FAR_CANDIDATES = 2_048
_MAX_PERIODS = 2**19  # of the slowest column, up to the latest start


@dataclass(frozen=True, eq=False)
class Waves:
    """Every column as a cos(theta p) + b sin(theta p), p = 0 in the first row.

    theta (c,): radians per row. cosine, sine (c,): a and b. weight (c,): square of theta over its error,
    up to a common factor; 0 where no wave fits. turned (c,): radians over all rows. table (t, c).
    """

    theta: Float[Tensor, " c"]
    cosine: Float[Tensor, " c"]
    sine: Float[Tensor, " c"]
    weight: Float[Tensor, " c"]
    turned: Float[Tensor, " c"]
    table: Float[Tensor, "t c"]

    def fit_at(
        self, rates: Float[Tensor, " c"]
    ) -> tuple[Float[Tensor, " c"], Float[Tensor, " c"], Float[Tensor, " c"]]:
        """Return cosine, sine and relative mean square residual at other frequencies, from 256 rows."""
        last = len(self.table) - 1
        rows = torch.linspace(0, last, min(last + 1, _FITTED_ROWS)).round().long()
        return _least_squares(self.table[rows], rows.double().unsqueeze(1) * rates)


def fit_waves(columns: Float[Tensor, "t c"]) -> Waves:
    """Return the wave nearest to every column; float64, 5 rows or more."""
    rows = len(columns)
    nonzero = columns.square().mean(0) > 1e-12
    theta = torch.zeros(columns.shape[1], dtype=torch.float64)
    leverage = torch.zeros_like(theta)
    lag = 1
    while 2 * lag < rows - 2:
        middle = columns[lag : rows - lag]
        neighbours = columns[2 * lag :] + columns[: rows - 2 * lag]
        size = middle.square().sum(0).clamp_min(1e-300)
        angle = ((neighbours * middle).sum(0) / (2 * size)).clamp(-1, 1).arccos()
        # Which of +angle + 2 pi k, -angle + 2 pi k is nearest to the estimate so far.
        expected = theta * lag if lag > 1 else angle
        up = angle + 2 * math.pi * ((expected - angle) / (2 * math.pi)).round()
        down = -angle + 2 * math.pi * ((expected + angle) / (2 * math.pi)).round()
        nearest = torch.where((up - expected).abs() <= (down - expected).abs(), up, down)
        # An error e of the cosine moves theta by e / (lag |sin angle|).
        leverage_here = torch.where(nonzero, lag * angle.sin().abs(), 0.0)
        theta = torch.where(leverage_here > leverage, nearest.abs() / lag, theta)
        leverage = torch.maximum(leverage_here, leverage)
        lag *= 2
    position = torch.arange(rows, dtype=torch.float64).unsqueeze(1)
    a, b, residual = _least_squares(columns, position * theta)
    weight = torch.where(
        nonzero & (residual <= MAX_WAVE_RESIDUAL**2), (theta * leverage).square(), 0.0
    )
    return Waves(theta, a, b, weight, theta * rows, columns)


def _least_squares(
    columns: Float[Tensor, "t c"], angles: Float[Tensor, "t c"]
) -> tuple[Float[Tensor, " c"], Float[Tensor, " c"], Float[Tensor, " c"]]:
    cos, sin = angles.cos(), angles.sin()
    cc, ss, cs = cos.square().sum(0), sin.square().sum(0), (cos * sin).sum(0)
    xc, xs = (columns * cos).sum(0), (columns * sin).sum(0)
    determinant = (cc * ss - cs.square()).clamp_min(1e-12)
    a, b = (xc * ss - xs * cs) / determinant, (xs * cc - xc * cs) / determinant
    residual = (columns - a * cos - b * sin).square().sum(0)
    return a, b, residual / columns.square().sum(0).clamp_min(1e-300)


@dataclass(frozen=True, eq=False)
class ColumnPhases:
    """Phases (c,) of columns in the first row, radians.

    known: the column moves in these rows, or has its partner (the sine to its cosine). fast: it moves far
    enough to separate neighbouring starts. consistent: most fast columns are waves of the expected
    frequencies. tolerance: error of a number by rounding.
    """

    phase: Float[Tensor, " c"]
    known: Bool[Tensor, " c"]
    fast: Bool[Tensor, " c"]
    consistent: bool
    tolerance: float

    @classmethod
    def of(
        cls,
        waves: Waves,
        columns: Columns,
        rates: Float[Tensor, " c"],
        tolerance: float,
        signs: tuple[int, float] = (1, 1.0),
    ) -> "ColumnPhases":
        """Read phases at frequencies (c,). signs: -1 where sines are negated, and where all numbers are."""
        sense, sign = signs
        cosine, sine, residual = waves.fit_at(rates)
        cosine, sine = cosine * sign, sine * sign
        phase = torch.where(
            columns.sines, torch.atan2(cosine * sense, sine * sense), torch.atan2(-sine, cosine)
        )
        visible = min(1.5, _VISIBLE * math.sqrt(tolerance))
        fast = (waves.weight > 0) & (waves.turned > visible)
        known, first = fast & (residual <= MAX_WAVE_RESIDUAL**2), waves.table[0] * sign
        consistent = bool(2 * known.sum() >= fast.sum())
        pairs = (columns.exponents * columns.dim).round().tolist()
        is_sine = columns.sines.tolist()
        sine_of = {pair: i for i, pair in enumerate(pairs) if is_sine[i]}
        partners = [(i, sine_of[p]) for i, p in enumerate(pairs) if not is_sine[i] and p in sine_of]
        if partners:
            cosines, sines = torch.tensor(partners).T
            phase[cosines] = torch.atan2(first[sines] * sense, first[cosines])
            phase[sines] = phase[cosines]
            known[cosines] = known[sines] = True
        return cls(phase, known, fast, consistent, tolerance)

    def _coherence(
        self, starts: Float[Tensor, " s"], rates: Float[Tensor, " c"], chosen: Tensor
    ) -> Float[Tensor, " s"]:
        """Return, for each start, the mean cosine of its phase errors over at most 24 columns."""
        # Spread evenly: the fastest columns separate neighbours, the slow ones far starts.
        few = torch.linspace(0, len(chosen) - 1, min(len(chosen), _FAST_COLUMNS)).long()
        few = chosen[few]
        parts = starts.unsqueeze(1).split(_CHUNK)
        return torch.cat([(part * rates[few] - self.phase[few]).cos().mean(1) for part in parts])

    def near(self, rates: Float[Tensor, " c"]) -> tuple[list[int], float]:
        """Return the likely starts before 4,096, the likeliest first, and its coherence."""
        chosen = torch.nonzero(self.fast).flatten()
        if not len(chosen):
            return [0, 1], 0.0
        starts = torch.arange(EARLIEST_START, _EXHAUSTIVE_BEFORE, dtype=torch.float64)
        best = self._coherence(starts, rates, chosen).topk(_CANDIDATES)
        likely = [int(starts[i]) for s, i in zip(*best, strict=True) if float(s) > _COHERENT]
        return likely, float(best.values[0])

    def far(self, rates: Float[Tensor, " c"]) -> tuple[int, float]:
        """Return the likeliest of all starts up to 2^20, and its coherence."""
        known = torch.nonzero(self.known & (rates > 1e-9)).flatten()
        if not len(known):
            return 0, 0.0
        known = known[rates[known].argsort()]
        distinct = rates[known].diff(prepend=-torch.ones(1, dtype=torch.float64))
        known = known[distinct > 1e-9 * rates[known]]  # a sine and its cosine count once
        slowest, phase = float(rates[known[0]]), float(self.phase[known[0]])
        period = 2 * math.pi / slowest
        if LATEST_START / period > _MAX_PERIODS:
            return 0, 0.0
        first = math.floor((EARLIEST_START - phase / slowest) / period)
        last = math.ceil((LATEST_START - phase / slowest) / period)
        start = phase / slowest + period * torch.arange(first, last + 1, dtype=torch.float64)
        cost = torch.zeros_like(start)
        for column in known[1:].tolist():
            error = self.phase[column] - rates[column] * start
            error = error - 2 * math.pi * (error / (2 * math.pi)).round()
            start, cost = start + error / rates[column], cost + error.square()
            if len(start) > _MAX_FAR_CANDIDATES:
                best = cost.topk(_MAX_FAR_CANDIDATES, largest=False).indices
                start, cost = start[best], cost[best]
        whole = start.round().clamp(EARLIEST_START, LATEST_START).unique()
        chosen = torch.nonzero(self.fast if bool(self.fast.any()) else self.known).flatten()
        score = self._coherence(whole, rates, chosen)
        best_score = float(score.max())
        # Of starts that rounding cannot separate, the one nearest to 0.
        alike = whole[score >= best_score - 2 * self.tolerance**2 - 1e-12]
        return int(alike[alike.abs().argmin()]), best_score


def likely_starts(phases: ColumnPhases, rates: Float[Tensor, " c"]) -> list[int]:
    """Return the first positions that the phases support, likeliest first."""
    likely, coherence = phases.near(rates)
    if phases.consistent and coherence < 1 - max(1e-9, 8 * phases.tolerance**2):
        start, score = phases.far(rates)
        if score > max(coherence, _CERTAIN) and start not in likely:
            likely = [start, *likely]
    return likely if not likely or 0 in likely else [*likely, 0]
