"""The colours of a matrix: one table of shades per kind of scale, for the browser and for files.

Between stops red, green and blue are interpolated. The stops of a ramp, and of each half of the diverging
scale, are equally far apart in OKLab, with rising lightness, so that the order survives every kind of
colour blindness. The low end of the diverging scale is nearly black without colour, and its high end a
light grey: -1 and 1 differ on a grey print, too.
"""

import functools
from typing import Any

import numpy as np

from dashboard.components.matrix.payload import MatrixValues, Scale

Array = np.ndarray[Any, Any]
SHADES = 255  # odd, so that the middle of a diverging scale is exactly its neutral colour
_STOPS = {
    "sequential": "1c0e40 262b66 284a8b 106d99 238f9f 2cb19d 69cb8b ace173 f3f056",
    "diverging": "0b2f6b 1b5698 3b7ec0 6aa8e1 a6cff3 eeeeee f2d9c2 f2c298 efa970 e98f49 e0741c",
}
KINDS = tuple(_STOPS)


@functools.cache
def shades(kind: str) -> Array:
    """Return the (SHADES, 3) bytes of red, green and blue of a scale, low to high."""
    stops = np.array([[*bytes.fromhex(stop)] for stop in _STOPS[kind].split()])
    at = np.linspace(0, 1, len(stops))
    table = np.stack([np.interp(np.linspace(0, 1, SHADES), at, part) for part in stops.T], axis=1)
    table = np.rint(table).astype(np.uint8)
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
