r"""The position kernel: what position alone contributes to attention between query i and key j.

It compares schemes with and without position vectors. Its unit differs by scheme
(`scheme.kernel_unit`): an inner product, a logit, a factor on the attention weight. Compare shapes, not
heights.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from posenc import limits
from posenc.schemes.base import Head, Request, Scheme, check_scheme
from posenc.tables import check_dtype


@torch.no_grad()
def position_kernel(
    scheme: Scheme,
    length: int,
    *,
    head: Head = "mean",
    start: int = 0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Float[Tensor, "n n"]:
    """Return K(i, j) for the positions start .. start + length - 1, float64.

    learned, sinusoidal: p_i . p_j (inner product). RoPE: the expected logit of unit isotropic content
    (logit). ALiBi: exp(-slope |i - j|) (weight factor). NoPE: 1.
    head: "mean" over heads, or one head from 0; schemes alike in all heads ignore it.
    dtype: None is exact; a float dtype shows the kernel of a model that holds its table (ALiBi: its
    bias) rounded to that dtype. Raises PositionOutOfRange past a learned table, NoPositionKernel
    where the kernel depends on content, SchemeArgumentError for length, head, start or dtype.
    """
    check_scheme(scheme)
    request = Request(
        config=scheme.config, length=length, head=head, start=start, dtype=dtype, device=device
    )
    _check(scheme, request, limits.MAX_KERNEL_LENGTH)
    return scheme.kernel(request)


@torch.no_grad()
def offset_curve(
    scheme: Scheme,
    length: int,
    *,
    head: Head = "mean",
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Float[Tensor, " m"]:
    """Return K at the offsets -(length - 1) .. length - 1 (key minus query), float64, m = 2 length - 1.

    Raises NotStationary where K is not a function of the offset alone: for learned tables, and for
    sinusoidal and RoPE tables rounded to a low-precision `dtype`.
    """
    check_scheme(scheme)
    request = Request(config=scheme.config, length=length, head=head, dtype=dtype, device=device)
    _check(scheme, request, limits.MAX_CURVE_LENGTH)
    return scheme.offset_curve(request)


@torch.no_grad()
def position_vectors(
    scheme: Scheme,
    length: int,
    *,
    head: Head = "mean",
    start: int = 0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Float[Tensor, "n m"]:
    """Return vectors phi with phi(i) . phi(j) = K(i, j), float64, one row per position.

    learned, sinusoidal: the rows themselves. RoPE: unit content, rotated. ALiBi: exact vectors that
    gain a dimension per position; for "mean" the heads' vectors side by side, so (n, heads * n).
    Raises NoPositionVectors where none exist, PositionOutOfRange past a learned table.
    """
    check_scheme(scheme)
    request = Request(
        config=scheme.config, length=length, head=head, start=start, dtype=dtype, device=device
    )
    _check(scheme, request, limits.MAX_CURVE_LENGTH)
    return scheme.vectors(request)


def _check(scheme: Scheme, request: Request, longest: int) -> None:
    """Refuse what no scheme can mean."""
    scheme.check_head(request.head)
    limits.check_count("start", request.start, -limits.MAX_POSITION, limits.MAX_POSITION)
    if request.dtype is not None:
        check_dtype(request.dtype)
    limits.check_count("length", request.length, 1, longest)
