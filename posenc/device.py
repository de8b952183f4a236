"""The device to compute on: the best that really works, and the CPU when its memory runs out."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch

from posenc.errors import SchemeArgumentError, quoted

Result = TypeVar("Result")


@dataclass(frozen=True)
class Ran(Generic[Result]):
    """What a computation gave, where it ran, and a sentence if that is not where it was asked to."""

    value: Result
    device: torch.device
    notice: str | None


def best_device() -> torch.device:
    """Return cuda, else mps, else cpu: the first on which one real operation has run.

    A device that is reported present may still have no kernels for its card or a broken driver;
    an addition that comes back right is what counts.
    """
    present = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    for name, is_present in present.items():
        if is_present and works(name):
            return torch.device(name)
    return torch.device("cpu")


def works(device: torch.device | str) -> bool:
    """Whether 1 + 1 computed on `device` comes back as 2."""
    try:
        one = torch.ones(1, device=device)
        return (one + one).item() == 2
    except (RuntimeError, AssertionError, NotImplementedError):
        # RuntimeError covers torch.AcceleratorError; a build without the backend asserts.
        return False


def resolve_device(device: torch.device | str | None) -> torch.device:
    """Return the device, torch's default for None, or raise SchemeArgumentError."""
    try:
        return torch.get_default_device() if device is None else torch.device(device)
    except (RuntimeError, TypeError, ValueError):  # ValueError: a number above 2^63
        raise SchemeArgumentError(
            f'device must be one of torch, such as "cpu" or "cuda", got {quoted(device)}.'
        ) from None


def float64_device(device: torch.device | str | None) -> torch.device:
    """Return `device`, or the CPU for None and where there is no float64 (mps): results are moved."""
    chosen = resolve_device("cpu" if device is None else device)
    return torch.device("cpu") if chosen.type == "mps" else chosen


def widest_dtype(device: torch.device) -> torch.dtype:
    """Return float64, or float32 where the device has no float64 (mps)."""
    return torch.float32 if device.type == "mps" else torch.float64


@contextlib.contextmanager
def fixed_threads(threads: int) -> Iterator[None]:
    """Compute on this many threads: another number adds in another order."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def device_name(device: torch.device | str) -> str:
    """Return the device's name as people know it, such as "cuda: NVIDIA H200"."""
    chosen = resolve_device(device)
    if chosen.type == "cuda":
        return f"cuda: {torch.cuda.get_device_name(chosen)}"
    return {"mps": "mps: Apple GPU", "cpu": "CPU"}.get(chosen.type, str(chosen))


def run_with_fallback(
    compute: Callable[[torch.device], Result], device: torch.device | str | None = None
) -> Ran[Result]:
    """Return compute(device); if an accelerator's memory runs out, compute on the CPU and say so.

    device: None is `best_device()`. Errors other than running out of memory are the caller's.
    """
    chosen = best_device() if device is None else resolve_device(device)
    try:
        return Ran(compute(chosen), chosen, None)
    except RuntimeError as error:
        # mps has no error of its own for this: it raises a RuntimeError that says so.
        ran_out = isinstance(error, torch.OutOfMemoryError) or "out of memory" in str(error)
        if chosen.type == "cpu" or not ran_out:
            raise
    # Outside the except block: the traceback held there would keep the failed tensors alive.
    if chosen.type == "cuda":
        torch.cuda.empty_cache()
    cpu = torch.device("cpu")
    notice = f"The memory of {chosen.type} ran out; this was computed on the CPU instead."
    return Ran(compute(cpu), cpu, notice)
