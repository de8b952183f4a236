"""Scratch memory that a thread keeps from one call to the next.

Kept because pages fresh from the system cost more than the work that is done in them.
"""

import threading

import torch
from jaxtyping import Float
from torch import Tensor

KEPT_SCRATCH = 262_144  # float64 numbers of scratch that a thread keeps per use: 2 MiB


class _Kept(threading.local):
    """Scratch of this thread, by its use."""

    def __init__(self) -> None:
        self.numbers: dict[str, Tensor] = {}


_kept = _Kept()


def scratch_numbers(use: str, entries: int, device: torch.device) -> Float[Tensor, " entries"]:
    """Uninitialised float64 numbers, until the next call for the same use."""
    if device.type != "cpu" or entries > KEPT_SCRATCH:
        return torch.empty(entries, dtype=torch.float64, device=device)
    numbers = _kept.numbers.get(use)
    if numbers is None:
        with torch.inference_mode(False):
            numbers = torch.empty(KEPT_SCRATCH, dtype=torch.float64, device="cpu")
        if type(numbers) is Tensor:  # and no stand-in of some tracing mode
            _kept.numbers[use] = numbers
    return numbers[:entries]
