"""A scheme whose position kernel is the Gram matrix of position vectors: learned, sinusoidal, RoPE."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from posenc import limits
from posenc.device import float64_device
from posenc.errors import NotStationary
from posenc.layout import Layout
from posenc.schemes.scheme import Head, Scheme


class VectorScheme(Scheme):
    """A scheme whose kernel is the Gram matrix of position vectors it can show.

    pair_layout, pair_first, unpaired: how the vectors' features pair up as waves: side by side or by
    halves, sine or cosine first, and how many features at the end belong to no pair.
    """

    kernel_unit = "inner product"
    pair_layout: Layout = "interleaved"
    pair_first: Literal["sin", "cos"] = "sin"
    unpaired: int = 0

    def offset_curve(
        self,
        length: int,
        *,
        head: Head = "mean",
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> Float[Tensor, " m"]:
        if dtype is not None and self.stationary:
            raise NotStationary(
                f"{self.config.label} rounded to {str(dtype).removeprefix('torch.')} is no function "
                "of the offset alone; use position_kernel."
            )
        if not self.stationary:
            return super().offset_curve(length, head=head, device=device)
        self.check_kernel_request(length, head)
        after = self.half_curve(length, float64_device(device))  # a Gram matrix is symmetric
        return torch.cat((after.flip(0)[:-1], after))

    def half_curve(self, length: int, device: torch.device) -> Float[Tensor, " n"]:
        """Return the kernel at offsets 0 .. length-1, float64."""
        return self.offset_kernel(torch.arange(length, device=device))

    def kernel(
        self,
        length: int,
        *,
        head: Head = "mean",
        start: int = 0,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> Float[Tensor, "n n"]:
        if self.stationary and dtype is None:
            return super().kernel(length, head=head, start=start, device=device)
        limits.check_count("length", length, 1, limits.MAX_KERNEL_LENGTH)
        rows = self.vectors(length, head=head, start=start, dtype=dtype, device=device)
        return rows @ rows.T
