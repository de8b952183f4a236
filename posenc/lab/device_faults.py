"""What an accelerator raises amid a run, as errors that say what to do."""

import contextlib
from collections.abc import Iterator

import torch

from posenc.errors import DeviceLost, RunError

# torch before 2.8 has no name of its own for it.
_LOST: tuple[type[BaseException], ...] = tuple(
    getattr(torch, name) for name in ("AcceleratorError",) if hasattr(torch, name)
)


@contextlib.contextmanager
def told(device: str) -> Iterator[None]:
    """Raise RunError where the memory of `device` ends, DeviceLost where the device itself fails.

    A smaller batch would be another run, and the CPU too, so neither is tried unasked.
    """
    try:
        yield
    except torch.OutOfMemoryError:
        raise RunError(
            f"The memory of {device} ended: take a smaller batch, width, length or fewer layers, or the "
            "device cpu."
        ) from None
    except _LOST as error:
        first = str(error).strip().partition("\n")[0]
        raise DeviceLost(
            f"The device {device} failed ({first[:120]}); this process can use it no more."
        ) from error


def free() -> None:
    """Give back what a run that ended held of an accelerator."""
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
    if torch.backends.mps.is_available():
        torch.mps.empty_cache()
