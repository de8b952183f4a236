"""A claim's verdict and its numbers by their names, and the sinusoidal table that claims are about."""

from typing import Any

import numpy as np

from posenc import Setting
from posenc.claims import CLAIMS


def verdict(name: str, **changes: Any) -> Any:
    """Return the verdict of a claim at the default setting with these changes."""
    return CLAIMS[name].test(Setting(**changes))


def number(found: Any, prefix: str) -> float:
    (value,) = [number.value for number in found.numbers if number.name.startswith(prefix)]
    return value


def deciding(found: Any) -> float:
    return found.decides.value


def control(found: Any) -> float:
    return found.control.value


def sinusoidal_rows(count: int, dim: int, start: int = 0) -> np.ndarray:
    """Return the sinusoidal table in NumPy's float64, right to 1e-9 at small positions."""
    positions = np.arange(start, start + count)
    angles = positions[:, None] * 10_000.0 ** (-np.arange(0, dim, 2) / dim)
    table = np.empty((count, dim))
    table[:, 0::2], table[:, 1::2] = np.sin(angles), np.cos(angles)
    return table
