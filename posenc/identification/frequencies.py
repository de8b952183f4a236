"""Frequencies and phases of columns that may each be one sine wave, without knowing the table.

A wave obeys x(p + lag) + x(p - lag) = 2 cos(lag theta) x(p) (Prony 1795); the lag is doubled for as
long as the rows allow, each estimate choosing the next one's branch, so the error falls as 1/rows.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

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
