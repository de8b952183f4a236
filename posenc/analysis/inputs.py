"""Arguments of analyses: tensors checked and read as float64, lengths, frequencies, seeds."""

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.errors import SchemeArgumentError
from posenc.limits import check_seed

Seed = int | torch.Generator


def as_generator(seed: Seed) -> torch.Generator:
    """Return a generator as it is, or a new one on the CPU that starts from an integer."""
    if isinstance(seed, torch.Generator):
        return seed
    return torch.Generator().manual_seed(check_seed(seed))


def as_float64(name: str, value: object, shape: str, *, sparse: bool = False) -> Tensor:
    """Return `value` as a detached float64 tensor of the rank that `shape`, such as "(n, d)", says.

    The device stays, except that MPS has no float64 and goes to the CPU. sparse: take sparse tensors.
    Raises SchemeArgumentError for anything but a non-empty real tensor of that rank.
    """
    rank = shape.count(",") + (0 if shape.endswith(",)") else 1)
    if not isinstance(value, Tensor) or value.is_complex() or value.dtype == torch.bool:
        kind = str(value.dtype) if isinstance(value, Tensor) else type(value).__name__
        raise SchemeArgumentError(f"{name} must be a tensor of real numbers, got {kind}.")
    if value.layout != torch.strided and not sparse:
        raise SchemeArgumentError(f"{name} must be a dense tensor: give {name}.to_dense().")
    if value.ndim != rank or value.numel() == 0:
        raise SchemeArgumentError(
            f"{name} must be a non-empty {shape} tensor, got shape {tuple(value.shape)}."
        )
    value = value.detach()
    return (value.cpu() if value.device.type == "mps" else value).to(torch.float64)


def as_kernel(kernel: object) -> Float[Tensor, "n n"]:
    """Return a square kernel as float64, or raise SchemeArgumentError."""
    kernel = as_float64("kernel", kernel, "(n, n)")
    if kernel.shape[0] != kernel.shape[1]:
        raise SchemeArgumentError(
            "kernel must be square, one row and one column per position, "
            f"got {tuple(kernel.shape)}."
        )
    return kernel


def as_curve(curve: object) -> Float[Tensor, " offsets"]:
    """Return an offset curve of odd length 2n-1 as float64, or raise SchemeArgumentError."""
    curve = as_float64("curve", curve, "(2n-1,)")
    if len(curve) % 2 == 0:
        raise SchemeArgumentError(
            "curve must have an odd length 2n-1, one value per offset -(n-1) .. n-1, "
            f"got {len(curve)}."
        )
    return curve


def kernel_or_curve(kernel: object, curve: object) -> tuple[Tensor, int, bool]:
    """Return the argument that is not None as float64, its positions, and whether it is the curve."""
    if (kernel is None) == (curve is None):
        raise SchemeArgumentError("give exactly one of kernel and curve.")
    if curve is None:
        kernel = as_kernel(kernel)
        return kernel, len(kernel), False
    curve = as_curve(curve)
    return curve, (len(curve) + 1) // 2, True


def as_inv_freq(inv_freq: object) -> Float[Tensor, " pairs"]:
    """Return inverse frequencies as float64, or raise SchemeArgumentError for a bad one."""
    inv_freq = as_float64("inv_freq", inv_freq, "(pairs,)")
    if not (inv_freq.isfinite() & (inv_freq >= 0)).all():
        raise SchemeArgumentError(
            "inv_freq must be finite and not negative, in radians per position."
        )
    return inv_freq
