"""The definitions once more, as plain loops and 40-digit arithmetic: what the library is tested against.

Nothing here imports posenc. Numbers come from mpmath or from Python's own floats, one entry at a time,
written from the papers' text; speed does not matter.
"""

import math
from collections.abc import Callable, Sequence

import torch
from mpmath import mp, mpf
from torch import Tensor

mp.dps = 40

Layout = str


def inverse_frequencies(width: int, base: float) -> list[mpf]:
    """theta_m = base^(-2m/width), m = 0 .. width/2 - 1: pair 0 is the fastest."""
    return [mp.power(mpf(base), mpf(-2 * m) / width) for m in range(width // 2)]


def sinusoidal(
    positions: Sequence[int], width: int, base: float = 10000.0, layout: Layout = "interleaved"
) -> Tensor:
    """Vaswani et al. 2017, section 3.5: sin into even and cos into odd features, or all sines first."""
    thetas = inverse_frequencies(width, base)
    rows = []
    for p in positions:
        sines = [float(mp.sin(p * theta)) for theta in thetas]
        cosines = [float(mp.cos(p * theta)) for theta in thetas]
        if layout == "half":
            rows.append(sines + cosines)
        else:
            rows.append([value for pair in zip(sines, cosines, strict=True) for value in pair])
    return torch.tensor(rows, dtype=torch.float64)


def turned(
    x: Tensor, positions: Sequence[int], base: float, *, rotary: int, layout: Layout
) -> Tensor:
    """Su et al. 2021, eq. 13: each pair of features as a complex number times e^(i p theta).

    x: (n, d). The first `rotary` features are turned, the others stay.
    """
    half = rotary // 2
    thetas = inverse_frequencies(rotary, base)
    out = x.clone()
    for row, p in enumerate(positions):
        for m, theta in enumerate(thetas):
            first, second = (2 * m, 2 * m + 1) if layout == "interleaved" else (m, m + half)
            unit = complex(float(mp.cos(p * theta)), float(mp.sin(p * theta)))
            number = complex(x[row, first].item(), x[row, second].item()) * unit
            out[row, first], out[row, second] = number.real, number.imag
    return out


def alibi_slopes(heads: int) -> list[float]:
    """Press et al. 2022, section 3 and the note of its public code on other head counts.

    "For n heads, our set of slopes is the geometric sequence that starts at 2^(-8/n) and uses that
    same value as its ratio"; for n no power of two, the slopes of the nearest power below, then
    every other slope of the nearest power above.
    """
    if heads & (heads - 1) == 0:
        start = mp.power(2, mpf(-8) / heads)
        slopes, slope = [], start
        for _ in range(heads):
            slopes.append(float(slope))
            slope *= start
        return slopes
    below = 1
    while 2 * below < heads:
        below *= 2
    above = alibi_slopes(2 * below)
    return alibi_slopes(below) + [above[i] for i in range(0, 2 * below, 2)][: heads - below]


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float,
    bias: Callable[[int, int, int, int], float] | None = None,
    visible: Callable[[int, int, int], bool] | None = None,
) -> Tensor:
    """Softmax attention one query at a time, in Python floats; a query that sees no key gives zeros.

    q: (b, h, n, d); k, v: (b, g, m, ...), query head h reads key head h // (h_total / g).
    bias(b, h, i, j) is added to the scaled score; visible(b, i, j) says whether i may see j.
    """
    batch, heads, queries, _ = q.shape
    shared = heads // k.shape[1]
    out = torch.zeros(batch, heads, queries, v.shape[-1], dtype=torch.float64)
    for b in range(batch):
        for h in range(heads):
            keys, values = k[b, h // shared].double(), v[b, h // shared].double()
            for i in range(queries):
                seen = [j for j in range(len(keys)) if visible is None or visible(b, i, j)]
                if not seen:
                    continue
                query = q[b, h, i].double().tolist()
                scores = []
                for j in seen:
                    score = sum(x * y for x, y in zip(query, keys[j].tolist(), strict=True)) * scale
                    scores.append(score + (bias(b, h, i, j) if bias else 0.0))
                top = max(scores)
                weights = [math.exp(score - top) for score in scores]
                total = sum(weights)
                for j, weight in zip(seen, weights, strict=True):
                    out[b, h, i] += values[j] * (weight / total)
    return out
