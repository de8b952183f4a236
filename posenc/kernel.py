r"""The position kernel: what position alone contributes to attention between query i and key j.

One honest common object for schemes that store vectors and schemes that do not. Its unit differs by
scheme (`scheme.kernel_unit`): an inner product, a logit, a factor on the attention weight. Compare
shapes, not heights.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.errors import SchemeArgumentError, shown
from posenc.limits import MAX_HEADS, MAX_POSITION, check_count
from posenc.schemes.base import Head, Scheme, check_scheme


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
    _check(scheme, head, start, dtype)
    with torch.no_grad():
        return scheme.kernel(length, head=head, start=start, dtype=dtype, device=device)


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
    _check(scheme, head, 0, dtype)
    with torch.no_grad():
        return scheme.offset_curve(length, head=head, dtype=dtype, device=device)


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
    _check(scheme, head, start, dtype)
    with torch.no_grad():
        return scheme.vectors(length, head=head, start=start, dtype=dtype, device=device)


def _check(scheme: object, head: object, start: int, dtype: torch.dtype | None) -> None:
    """Refuse what no scheme can mean; each scheme checks its own length and number of heads."""
    check_scheme(scheme)
    if head != "mean" and (isinstance(head, bool) or not isinstance(head, int) or head < 0):
        raise SchemeArgumentError(
            f"head must be 'mean' or a whole number from 0 to {MAX_HEADS - 1:,}, got {shown(head)}."
        )
    check_count("start", start, -MAX_POSITION, MAX_POSITION)
    if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        raise SchemeArgumentError(f"dtype must be None or a floating dtype, got {shown(dtype)}.")
