"""Tables of sines and cosines, right to half a unit in the last place at positions below 2^31.

Vaswani et al. 2017, arXiv 1706.03762, section 3.5; Su et al. 2021, arXiv 2104.09864, section 3.2.2.

Angles are exact (posenc/phases.py); each entry is one product (posenc/products.py) of operands that
its position fixes (posenc/blocks.py).
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor

from posenc import blocks
from posenc.device import float64_device
from posenc.errors import PositionOutOfRange, SchemeArgumentError
from posenc.layout import Layout, check_layout
from posenc.limits import MAX_POSITION, check_table
from posenc.phases import Phases, exact_cos_sin
from posenc.products import castable

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def cos_sin(
    positions: Integer[Tensor, "*n"],
    phases: Phases,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> tuple[Float[Tensor, "*n pairs"], Float[Tensor, "*n pairs"]]:
    """Cosine and sine of position * theta for any whole positions, bit for bit the tables' rows.

    positions: (*n) integers, |position| < 2^31, any order, repeats and negatives allowed.
    dtype: of the result; computed in float64 and rounded once. device: default that of positions.
    Returns (cos, sin), each (*n, pairs). Raises SchemeArgumentError for non-integer positions and
    PositionOutOfRange past 2^31 - 1 (checked where the values are on the host and not compiling).
    Under torch.compile each entry is one cosine or sine, equal to within 1 float32 ulp.
    """
    _check_dtype(dtype)
    if positions.is_floating_point() or positions.is_complex() or positions.dtype == torch.bool:
        raise SchemeArgumentError(f"positions must be integers, got {positions.dtype}.")
    target = positions.device if device is None else torch.device(device)
    compute = float64_device(target)
    flat = positions.flatten().to(torch.int64)
    extent = _extent(flat)
    flat = flat.to(compute)
    if torch.compiler.is_compiling() or compute.type == "meta":
        planes = exact_cos_sin(flat, phases.limbs.to(compute))
        cos, sin = (castable(plane, dtype).to(dtype) for plane in planes)
    elif (
        extent
        and phases.pairs <= blocks.KEPT_NEAR_PAIRS
        and extent[0] // blocks.BLOCK == extent[1] // blocks.BLOCK
    ):
        # Decoding asks for one position after the other, in every layer.
        kept = blocks.kept_block(phases, extent[0] // blocks.BLOCK, dtype, compute)
        cos, sin = (plane[flat & (blocks.BLOCK - 1)] for plane in kept)
    elif extent and extent[1] - extent[0] < len(flat):
        cos, sin = blocks.consecutive(extent[0], extent[1] - extent[0] + 1, phases, dtype, compute)
        at = flat - extent[0]
        if not torch.equal(at, torch.arange(len(cos), device=compute)):
            cos, sin = cos[at], sin[at]
    else:
        cos, sin = blocks.scattered(flat, phases, dtype)
    shape = (*positions.shape, phases.pairs)
    return cos.view(shape).to(target), sin.view(shape).to(target)


def sinusoidal_table(
    length: int,
    dim: int,
    base: float = 10000.0,
    *,
    start: int = 0,
    layout: Layout = "interleaved",
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
    out: Tensor | None = None,
) -> Float[Tensor, "length dim"]:
    """The sinusoidal table PE(p, 2m) = sin(p theta_m), PE(p, 2m+1) = cos(p theta_m).

    length, dim: rows and (even) width. base: theta_m = base^(-2m/dim). start: position of row 0.
    layout: "interleaved" (sin, cos, sin, cos, ...) or "half" (all sines, then all cosines).
    out: a (length, dim) tensor of this dtype to fill, of any strides; large tables gain most.
    Returns (length, dim), each entry within 0.5001 ulp of float32 (or of a narrower dtype).
    Raises SchemeArgumentError. Source: Vaswani et al. 2017, arXiv 1706.03762, section 3.5.
    """
    check_table(length, dim, start)
    _check_dtype(dtype)
    check_layout(layout)
    phases = Phases.geometric(dim, base)
    if torch.compiler.is_compiling():
        positions = torch.arange(start, start + length, device=device)
        cos, sin = cos_sin(positions, phases, dtype=dtype)
        half = layout == "half"
        table = torch.cat((sin, cos), -1) if half else torch.stack((sin, cos), -1).flatten(-2)
        return table if out is None else out.copy_(table)
    if out is None:
        out = torch.empty(length, dim, dtype=dtype, device=device)
    elif out.shape != (length, dim) or out.dtype != dtype or not _is_on(out, device):
        raise SchemeArgumentError(
            f"out must be a ({length}, {dim}) tensor of {dtype}"
            f"{'' if device is None else f' on {device}'}, "
            f"got {tuple(out.shape)} of {out.dtype} on {out.device}."
        )
    if out.requires_grad:
        raise SchemeArgumentError("out must not require grad: a sinusoidal table is not trained.")
    compute = float64_device(out.device)
    table = out if compute == out.device else torch.empty_like(out, device=compute)
    halves = table.split(dim // 2, 1)
    blocks.fill(
        (table.unflatten(1, (-1, 2)),) if layout == "interleaved" else halves, start, phases
    )
    return out if table is out else out.copy_(table)


def rope_tables(
    length: int,
    dim: int,
    base: float = 10000.0,
    *,
    inv_freq: Float[Tensor, " pairs"] | Sequence[float] | None = None,
    start: int = 0,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> tuple[Float[Tensor, "length pairs"], Float[Tensor, "length pairs"]]:
    """The tables (cos, sin) of p theta_m that `apply_rope` takes, each (length, dim // 2).

    length, dim: rows and (even) rotary width. base: theta_m = base^(-2m/dim), unless `inv_freq`
    gives the dim // 2 frequencies in radians per position. start: position of row 0.
    Entries are within 0.5001 ulp of float32 (or of a narrower dtype) for the exact ladder.
    Raises SchemeArgumentError. Source: Su et al. 2021, arXiv 2104.09864, section 3.2.2.
    """
    check_table(length, dim, start)
    phases = Phases.geometric(dim, base) if inv_freq is None else Phases.given(inv_freq)
    if phases.pairs != dim // 2:
        raise SchemeArgumentError(
            f"inv_freq must hold dim // 2 = {dim // 2} frequencies, got {phases.pairs}."
        )
    positions = torch.arange(start, start + length, device=device)
    return cos_sin(positions, phases, dtype=dtype)


def _check_dtype(dtype: torch.dtype) -> None:
    if dtype not in DTYPES:
        raise SchemeArgumentError(
            f"dtype must be float32, float64, bfloat16 or float16, got {dtype}."
        )


def _is_on(x: Tensor, device: torch.device | str | None) -> bool:
    """Whether x is on this device, where "cuda" names any of its kind."""
    wanted = x.device if device is None else torch.device(device)
    return x.device.type == wanted.type and wanted.index in (None, x.device.index)


def check_range(positions: Integer[Tensor, "*n"]) -> None:
    """Raise PositionOutOfRange past 2^31 - 1, where the values are on the host and not compiling."""
    _extent(positions.flatten().to(torch.int64))


def _extent(positions: Int[Tensor, " n"]) -> tuple[int, int] | None:
    """Lowest and highest position, if the host can tell at no cost; refuses what is out of range."""
    if torch.compiler.is_compiling() or positions.device.type != "cpu" or not len(positions):
        return None
    low, high = (int(end) for end in torch.aminmax(positions))
    if max(high, -low) > MAX_POSITION:
        raise PositionOutOfRange(
            f"positions must lie from {-MAX_POSITION:,} to {MAX_POSITION:,}, "
            f"got {low:,} to {high:,}.",
            limit=MAX_POSITION,
        )
    return low, high
