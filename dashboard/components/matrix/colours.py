"""The colours of a matrix: one table of shades per kind of scale, for the browser and for files.

Ramps run through stops in OKLCh (lightness, chroma, hue in degrees). Lightness rises along each ramp
and the steps between shades are equal in OKLab (Ottosson 2020), so equal differences of value look
equal, and the order survives every kind of colour blindness.
"""

import functools
import math
from typing import Any

import numpy as np

from dashboard.components.matrix.payload import MatrixValues, Scale

Array = np.ndarray[Any, Any]
KINDS = ("sequential", "diverging")
SHADES = 255  # odd, so that the middle of a diverging scale is exactly its neutral colour

_SEQUENTIAL = (
    (0.22, 0.09, 290.0), (0.42, 0.115, 262.0), (0.6, 0.095, 210.0),
    (0.76, 0.13, 155.0), (0.93, 0.17, 108.0),
)  # fmt: skip
_BLUE = ((0.42, 0.14, 258.0), (0.7, 0.11, 245.0), (0.95, 0.0, 245.0))
_ORANGE = ((0.42, 0.11, 42.0), (0.7, 0.14, 58.0), (0.95, 0.0, 58.0))
_FINE = 1_000  # steps in which a ramp's length is measured


@functools.cache
def shades(kind: str) -> Array:
    """Return the (SHADES, 3) bytes of red, green and blue of a scale, low to high."""
    if kind == "sequential":
        path = _ramp(_SEQUENTIAL, SHADES)
    else:
        half = (SHADES + 1) // 2
        path = np.concatenate([_ramp(_BLUE, half), _ramp(_ORANGE, half)[::-1][1:]])
    table = _bytes(path)
    table.setflags(write=False)
    return table


def coloured(values: MatrixValues, scale: Scale) -> Array:
    """Return a matrix as the (rows, columns, 4) bytes that the browser draws; NaN is transparent."""
    dense = values.dense()
    blank = np.isnan(dense)
    share = (np.where(blank, scale.low, dense).astype(np.float64) - scale.low) / (
        scale.high - scale.low
    )
    # Half up, as the browser rounds.
    index = np.floor(np.clip(share, 0, 1) * (SHADES - 1) + 0.5).astype(int)
    opaque = np.where(blank, 0, 255).astype(np.uint8)
    return np.concatenate([shades(scale.kind)[index], opaque[..., None]], axis=2)


def _ramp(stops: tuple[tuple[float, float, float], ...], count: int) -> Array:
    """Return `count` OKLab colours along the stops, equally far from each other."""
    last = len(stops) - 1
    path = np.array([_between(stops, n / _FINE * last) for n in range(_FINE + 1)])
    walked = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(path, axis=0), axis=1))])
    targets = np.arange(count) / (count - 1) * walked[-1]
    return path[np.minimum(np.searchsorted(walked, targets, side="left"), _FINE)]


def _between(
    stops: tuple[tuple[float, float, float], ...], at: float
) -> tuple[float, float, float]:
    """Return the OKLab colour between stops, linear in lightness, chroma and hue."""
    k = min(math.floor(at), len(stops) - 2)
    low, high = stops[k], stops[k + 1]
    lightness, chroma, hue = (a + (at - k) * (b - a) for a, b in zip(low, high, strict=True))
    angle = math.radians(hue)
    return lightness, chroma * math.cos(angle), chroma * math.sin(angle)


def _bytes(oklab: Array) -> Array:
    """Return OKLab colours as sRGB bytes (Ottosson 2020, then the sRGB transfer curve)."""
    lightness, a, b = oklab.T
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3
    linear = np.stack(
        [
            4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
            -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
            -0.0041960863 * long - 0.7034186147 * medium + 1.707614701 * short,
        ],
        axis=1,
    ).clip(0, 1)
    coded = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return np.floor(255 * coded + 0.5).astype(np.uint8)
