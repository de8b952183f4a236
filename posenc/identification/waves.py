"""Frequency and first position of columns that may each be a sine wave."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.identification.columns import Columns

EARLIEST_START, LATEST_START = -8, 2_000_000
TRIED_STARTS = 2_048  # every start up to it is compared; later ones are computed from phases
_MAX_RESIDUAL = 0.05  # of a wave, relative to a column's size
_START_ROWS = 32
_START_COLUMNS = 24
_ALIKE = 0.7  # smallest correlation of a likely start
_CANDIDATES = 2
_PHASE_ROWS = 256
_LEAST_TURN = 0.02  # of the rows: smallest eigenvalue of the equations for a phase that is used
_MOST_PERIODS = 512  # of the slowest wave, in each of which one start is tried


class Waves(NamedTuple):
    """Frequency of every column, radians per row.

    weight (c,): square of theta over its error, up to a common factor; 0 where no wave fits.
    """

    theta: Float[Tensor, " c"]
    weight: Float[Tensor, " c"]
    rows: int


def fit_waves(columns: Float[Tensor, "t c"]) -> Waves:
    """Return the wave nearest to every column, of weight 0 if there are fewer than 5 rows.

    A wave obeys x(p + lag) + x(p - lag) = 2 cos(lag theta) x(p) (Prony 1795). The lag is doubled as long
    as the rows allow, each estimate choosing the next one's branch, so the error falls as 1/rows.
    """
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
    wave = nonzero & (_residual(columns, theta) <= _MAX_RESIDUAL**2)
    return Waves(theta, torch.where(wave, (theta * leverage).square(), 0.0), rows)


def _residual(columns: Float[Tensor, "t c"], theta: Float[Tensor, " c"]) -> Float[Tensor, " c"]:
    """Return the relative mean square residual of the nearest waves of these frequencies."""
    angles = torch.arange(len(columns), dtype=torch.float64).unsqueeze(1) * theta
    cos, sin = angles.cos(), angles.sin()
    cc, ss, cs = cos.square().sum(0), sin.square().sum(0), (cos * sin).sum(0)
    xc, xs = (columns * cos).sum(0), (columns * sin).sum(0)
    determinant = (cc * ss - cs.square()).clamp_min(1e-12)
    a, b = (xc * ss - xs * cs) / determinant, (xs * cc - xc * cs) / determinant
    residual = (columns - a * cos - b * sin).square().sum(0)
    return residual / columns.square().sum(0).clamp_min(1e-300)


def likely_starts(
    table: Float[Tensor, "t c"], columns: Columns, frequencies: Float[Tensor, " c"]
) -> list[int]:
    """Return the first positions whose rows correlate most with those of a table, and 0 if it does."""
    few = torch.linspace(0, len(frequencies) - 1, min(len(frequencies), _START_COLUMNS)).long()
    first = table[:_START_ROWS, few]
    count = TRIED_STARTS - EARLIEST_START + 1
    positions = EARLIEST_START + torch.arange(count + len(first) - 1, dtype=torch.float64)
    angles = positions.unsqueeze(1) * frequencies[few]
    values = torch.where(columns.sines[few], angles.sin(), angles.cos())
    # Of start s: the sum over r of row s + r of the formula times row r of the table.
    products = (values @ first.T).unfold(0, len(first), 1).diagonal(dim1=1, dim2=2).sum(1)
    power = values.square().sum(1).unfold(0, len(first), 1).sum(1) * first.square().sum()
    correlation = products / power.clamp_min(1e-300).sqrt()
    best = correlation.topk(_CANDIDATES).indices.tolist()
    likely = dict.fromkeys([*best, -EARLIEST_START])
    return [i + EARLIEST_START for i in likely if float(correlation[i]) > _ALIKE]


def later_starts(
    table: Float[Tensor, "t c"], columns: Columns, frequencies: Float[Tensor, " c"]
) -> list[int]:
    """Return first positions past those of `likely_starts` that the phases of the waves support.

    The phase of the slowest wave gives the position within a period, and each faster wave refines it.
    """
    rates, phases = _phases(table[:_PHASE_ROWS], columns, frequencies)
    if not len(rates):
        return []
    period = 2 * math.pi / float(rates[0])
    starts = float(phases[0] / rates[0]) % period + period * torch.arange(
        min(_MOST_PERIODS, 1 + int(LATEST_START / period)), dtype=torch.float64
    )
    for rate, phase in zip(rates, phases, strict=True):
        starts += _wrapped(phase - rate * starts) / rate
    starts = starts.round().unique()
    off = _wrapped(phases - starts.unsqueeze(1) * rates).abs().sum(1)
    likely = [int(start) for start in starts[off.argsort()[:_CANDIDATES]]]
    first = table[:_START_ROWS]
    found = []
    for start in likely:
        if TRIED_STARTS < start <= LATEST_START:
            rows = torch.arange(start, start + len(first), dtype=torch.float64)
            angles = rows.unsqueeze(1) * frequencies
            values = torch.where(columns.sines, angles.sin(), angles.cos())
            if float((values * first).sum() / (values.norm() * first.norm())) > _ALIKE:
                found.append(start)
    return found


def _wrapped(angles: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Return angles between -pi and pi."""
    return angles - 2 * math.pi * (angles / (2 * math.pi)).round()


def _phases(
    table: Float[Tensor, "t c"], columns: Columns, frequencies: Float[Tensor, " c"]
) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"]]:
    """Return the frequencies whose phase in row 0 the rows show, slowest first, and that phase.

    Columns of one frequency are solved together, by least squares, for the cosine and the sine of it.
    """
    rates, group = frequencies.abs().unique(return_inverse=True)
    angles = torch.arange(len(table), dtype=torch.float64).unsqueeze(1) * frequencies.abs()
    sign = frequencies.sign()
    cos, sin = angles.cos(), angles.sin()
    by_cosine = torch.where(columns.sines, sign * sin, cos)
    by_sine = torch.where(columns.sines, sign * cos, -sin)

    def summed(products: Float[Tensor, "t c"]) -> Float[Tensor, " n"]:
        return torch.zeros_like(rates).index_add(0, group, products.sum(0))

    cc, ss, cs = summed(by_cosine.square()), summed(by_sine.square()), summed(by_cosine * by_sine)
    xc, xs = summed(by_cosine * table), summed(by_sine * table)
    middle, spread = (cc + ss) / 2, ((cc - ss).square() / 4 + cs.square()).sqrt()
    known = (rates > 0) & (middle - spread > _LEAST_TURN * len(table))
    phases = torch.atan2(cc * xs - cs * xc, ss * xc - cs * xs)
    return rates[known], phases[known]
