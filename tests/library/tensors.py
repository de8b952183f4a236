"""Random inputs and comparisons of tensors for tests."""

import torch
from torch import Tensor


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Return numbers from N(0, 1), drawn in float64, rounded to `dtype`."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def assert_close(actual: Tensor, expected: object, atol: float = 1e-12, rtol: float = 0.0) -> None:
    """Compare in float64; `expected` may be a tensor, a number or nested lists of numbers.

    In place of torch.testing.assert_close, whose first call imports for most of a second.
    """
    wanted = torch.as_tensor(expected, dtype=torch.float64)
    assert actual.shape == wanted.shape, f"{tuple(actual.shape)} is not {tuple(wanted.shape)}"
    with torch.no_grad():
        difference = (actual.double() - wanted).abs()
        allowed = atol + rtol * wanted.abs()
        close = (difference <= allowed) | (actual.double() == wanted)  # infinities are equal
        assert close.all(), (
            f"largest difference {difference.max():.3g}, allowed {allowed.min():.3g}"
        )


def half_ulp(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Return half a unit in the last place of `dtype` at each of these exact values."""
    exponents = values.abs().clamp(min=torch.finfo(dtype).tiny).log2().floor()
    return torch.finfo(dtype).eps / 2 * torch.exp2(exponents)
