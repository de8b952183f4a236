"""How claims are judged in tests, and what they are compared with."""

import functools
from typing import Any

import numpy as np
from mpmath import mp, mpf

from posenc import Setting
from posenc.claims import CLAIMS, Verdict
from tests import independent


@functools.cache
def judged(name: str, setting: Setting) -> Verdict:
    """A verdict, found once for all laws; those that read other runs are found anew."""
    return CLAIMS[name].test(setting)


def at(name: str, **changes: Any) -> Verdict:
    """The verdict of one claim at the defaults but for what is given."""
    return CLAIMS[name].test(Setting(**changes))


def number(found: Verdict, name: str) -> float:
    """The one number whose name begins so."""
    (value,) = [one.value for one in found.numbers if one.name.startswith(name)]
    assert value is not None
    return value


def decides(found: Verdict) -> float:
    assert found.decides is not None
    assert found.decides.value is not None
    return found.decides.value


def control(found: Verdict) -> float:
    assert found.control is not None
    assert found.control.value is not None
    return found.control.value


def wavelengths(dim: int, base: float) -> list[mpf]:
    return [2 * mp.pi / theta for theta in independent.inverse_frequencies(dim, base)]


def rows(count: int, dim: int, base: float = 10000.0) -> np.ndarray:
    """The sinusoidal table by NumPy's float64, right to 1e-9 at few positions."""
    angles = np.arange(count)[:, None] * base ** (-np.arange(0, dim, 2) / dim)
    table = np.empty((count, dim))
    table[:, 0::2], table[:, 1::2] = np.sin(angles), np.cos(angles)
    return table
