"""Tables of sines and cosines by a formula of their own, in every form that code keeps them in."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from posenc.identification import Identification

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def exact(rows: int, width: int, base: float, start: int = 0) -> tuple[Tensor, Tensor]:
    """Cosines and sines (rows, pairs) by a formula of NumPy's own, independent of the library."""
    ladder = np.power(np.longdouble(base), -np.arange(0, width, 2, dtype=np.longdouble) / width)
    angles = np.arange(start, start + rows, dtype=np.longdouble)[:, None] * ladder
    return torch.tensor(np.cos(angles).astype(float)), torch.tensor(np.sin(angles).astype(float))


def beside(first: Tensor, second: Tensor) -> Tensor:
    return torch.stack((first, second), -1).flatten(1)


def halves(x: Tensor) -> Tensor:
    return torch.cat((x, x), 1)


def neighbours(x: Tensor) -> Tensor:
    return x.repeat_interleave(2, 1)


FORMS: dict[str, tuple[Callable[[Tensor, Tensor], tuple[Tensor, ...]], str, str | None]] = {
    "sinusoidal": (lambda c, s: (beside(s, c),), "sinusoidal", "interleaved"),
    "sinusoidal in halves": (lambda c, s: (torch.cat((s, c), 1),), "sinusoidal", "half"),
    "cache in halves": (lambda c, s: (halves(c), halves(s)), "rope", "half"),
    "cache of neighbours": (lambda c, s: (neighbours(c), neighbours(s)), "rope", "interleaved"),
    "cache of pairs": (lambda c, s: (c, s), "rope", None),
    "cosines, then sines": (lambda c, s: (torch.cat((c, s), 1),), "rope", None),
    "complex cache": (lambda c, s: (torch.complex(c, s),), "rope", None),
    "cosines in halves": (lambda c, s: (halves(c),), "rope", "half"),
    "cosines of neighbours": (lambda c, s: (neighbours(c),), "rope", "interleaved"),
    "sines of pairs": (lambda c, s: (s,), "rope", None),
}


def kinds(found: Identification) -> set[str]:
    return {one.kind for one in found.deviations}
