"""Rows of the tables that the schemes' hooks use: made for any positions, kept where asked again.

A training loop asks for positions 0 .. t-1 at every step; those windows are kept, 64 MiB
of them at most. Under torch.compile nothing is kept: the rows become part of the graph.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.device import float64_device
from posenc.kept import KeptTensors
from posenc.phases import Phases
from posenc.tables import cos_sin

_LARGEST_KEPT = 2**20  # entries of one kept table: 4 MiB in float32
_CURVE_BLOCK = 64
_COSINE_TILE = 2**20  # cosines in memory at once while summing over pairs

WINDOWS = KeptTensors(most_bytes=64 * 2**20, most_results=32)


def rotary_rows(
    positions: int | Int[Tensor, " *n"],
    phases: Phases,
    *,
    dtype: torch.dtype,
    device: torch.device,
    scale: float = 1.0,
) -> tuple[Float[Tensor, "*n p"], Float[Tensor, "*n p"]]:
    """Return `scale` times (cos, sin) of position * theta; a whole number n stands for 0 .. n-1."""
    if not isinstance(positions, int):
        return _scaled_rows(positions.to(device), phases, dtype, scale)
    if torch.compiler.is_compiling() or positions * phases.pairs > _LARGEST_KEPT:
        return _scaled_rows(torch.arange(positions, device=device), phases, dtype, scale)
    cos, sin = WINDOWS.get(_rotary_window, positions, phases, dtype, device, scale)
    return cos, sin


def sinusoidal_rows(
    positions: int | Int[Tensor, " *n"],
    phases: Phases,
    *,
    layout: str,
    dtype: torch.dtype,
    device: torch.device,
) -> Float[Tensor, "*n d"]:
    """Return sinusoidal rows; a whole number n stands for positions 0 .. n-1."""
    if not isinstance(positions, int) or torch.compiler.is_compiling():
        return _joined(*rotary_rows(positions, phases, dtype=dtype, device=device), layout)
    if positions * phases.pairs > _LARGEST_KEPT:
        return _joined(*rotary_rows(positions, phases, dtype=dtype, device=device), layout)
    return WINDOWS.get(_sinusoidal_window, positions, phases, layout, dtype, device)[0]


def cosine_sum(offsets: Int[Tensor, " *n"], phases: Phases) -> Float[Tensor, " *n"]:
    """Return the sum over pairs of cos(offset * theta), in float64, a tile of offsets at a time."""
    flat = offsets.reshape(-1)
    tiles = flat.split(max(1, _COSINE_TILE // phases.pairs))
    sums = [cos_sin(tile, phases, dtype=torch.float64)[0].sum(dim=-1) for tile in tiles]
    return torch.cat(sums).reshape(offsets.shape)


def cosine_curve(length: int, phases: Phases, device: torch.device) -> Float[Tensor, " n"]:
    """Return `cosine_sum` at offsets 0 .. length-1, as one matrix product of two short tables.

    cos(aB + b)w = cos(aBw) cos(bw) - sin(aBw) sin(bw), summed over pairs by the product itself; the
    difference from the sum of cosines is rounding, about 1e-15 per pair.
    """
    near = cos_sin(torch.arange(_CURVE_BLOCK, device=device), phases, dtype=torch.float64)
    columns = torch.cat(near, dim=-1).T
    sums = []
    for start in range(0, length, _CURVE_BLOCK**2):
        blocks = -(-min(length - start, _CURVE_BLOCK**2) // _CURVE_BLOCK)
        at = start + torch.arange(blocks, device=device) * _CURVE_BLOCK
        cos, sin = cos_sin(at, phases, dtype=torch.float64)
        # Always a product of one shape: another could round differently, and a longer curve would
        # not begin with the bits of a shorter one.
        rows = torch.zeros(_CURVE_BLOCK, 2 * phases.pairs, dtype=torch.float64, device=device)
        rows[:blocks] = torch.cat((cos, -sin), dim=-1)
        sums.append((rows @ columns).flatten())
    return torch.cat(sums)[:length]


def _joined(cos: Tensor, sin: Tensor, layout: str) -> Tensor:
    if layout == "interleaved":
        return torch.stack((sin, cos), dim=-1).flatten(-2)
    return torch.cat((sin, cos), dim=-1)


def _scaled_rows(
    positions: Tensor, phases: Phases, dtype: torch.dtype, scale: float
) -> tuple[Tensor, Tensor]:
    if scale == 1:
        return cos_sin(positions, phases, dtype=dtype)
    # Multiplied in float64, which the device may not have, and rounded once.
    place = float64_device(positions.device)
    planes = cos_sin(positions.to(place), phases, dtype=torch.float64)
    cos, sin = ((scale * plane).to(dtype).to(positions.device) for plane in planes)
    return cos, sin


def _rotary_window(
    count: int, phases: Phases, dtype: torch.dtype, device: torch.device, scale: float
) -> tuple[Tensor, Tensor]:
    # Outside inference mode, because a tensor made inside it could never enter a training step.
    with torch.inference_mode(False), torch.no_grad():
        return _scaled_rows(torch.arange(count, device=device), phases, dtype, scale)


def _sinusoidal_window(
    count: int, phases: Phases, layout: str, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor]:
    with torch.inference_mode(False), torch.no_grad():
        rows = cos_sin(torch.arange(count, device=device), phases, dtype=dtype)
        return (_joined(*rows, layout),)
