"""Tables of sines and cosines, accurate to 0.5001 ulp at positions below 2^31.

Vaswani et al. 2017, arXiv 1706.03762, section 3.5; Su et al. 2021, arXiv 2104.09864, section 3.2.2.

One method: e^{i(a + b)w} = e^{iaw} e^{ibw}. A table is the product of two short float64 tables, of
coarse positions a and of fine positions b, whose angles are exact; each entry is rounded once.
"""

import math
import threading
from collections.abc import Sequence

import cachetools
import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor

from posenc.device import float64_device, resolve_device
from posenc.errors import PositionOutOfRange, SchemeArgumentError, quoted
from posenc.frequencies import Frequencies, Layout, check_layout, exact_cos_sin, join_pairs
from posenc.hook_arguments import check_out, check_whole, is_readable
from posenc.limits import MAX_POSITION, check_table

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)

_TILE_PAIRS = 65_536  # entries in memory at once, as complex128: 1 MiB, which stays in the cache
_COSINE_TILE = 2**20  # cosines, or sums of consecutive offsets, in memory at once
_BLOCK = 256  # positions of a cached block: decoding asks for one after the other, in every layer
_BLOCK_PAIRS = 256  # most frequencies of a cached block
_CACHED_ENTRIES = 2**20  # of one cached table at most: 4 MiB in float32
_CACHE_BYTES = 64 * 2**20


def _fill(out: Float[Tensor, "length pairs 2"], start: int, frequencies: Frequencies) -> None:
    """Write sine and cosine of the positions from `start` on into a tensor of any strides."""
    length, device = len(out), out.device
    if start < 0 < start + length:  # the product is exact at the start of a table alone
        _fill(out[:-start], start, frequencies)
        out, start, length = out[-start:], 0, length + start
    tiles = torch.get_num_threads() if device.type == "cpu" else 64
    rows = max(1, min(length, 4 * math.isqrt(length), tiles * _TILE_PAIRS // frequencies.pairs))
    # (sin a + i cos a) (cos b - i sin b) = sin(a + b) + i cos(a + b)
    coarse_positions = torch.arange(start, start + length, rows, device=device)
    cos, sin = exact_cos_sin(coarse_positions, frequencies)
    coarse = torch.complex(sin, cos)
    stride = math.isqrt(rows)
    cos, sin = exact_cos_sin(torch.arange(0, rows, stride, device=device), frequencies)
    fine = torch.complex(cos, -sin)
    cos, sin = exact_cos_sin(torch.arange(stride, device=device), frequencies)
    fine = (fine[:, None] * torch.complex(cos, -sin)).flatten(0, 1)
    product = torch.empty_like(fine)
    for row, tile in zip(coarse, out.split(rows), strict=False):  # nothing to do for no rows
        torch.mul(row, fine, out=product)
        tile.copy_(castable(torch.view_as_real(product[: len(tile)]), out.dtype))


def castable(x: Float[Tensor, " *n"], dtype: torch.dtype) -> Float[Tensor, " *n"]:
    """Return float64 numbers that torch's cast takes to x rounded to `dtype` once.

    torch casts float64 to a 16-bit type through float32, which rounds twice. Of numbers rounded to
    odd at float32's length (cut, and the last bit left set if anything was lost) the cast is right.
    """
    if dtype not in (torch.bfloat16, torch.float16):
        return x
    cut = 2**29 - 1  # the bits that a float64 has and a float32 has not
    bits = x.view(torch.int64)
    lost = (bits & cut) + cut  # has bit 29 set if any of the 29 lower bits was
    return ((lost | bits) & ~cut).view(torch.float64)


def _consecutive(
    start: int,
    length: int,
    frequencies: Frequencies,
    dtype: torch.dtype,
    device: torch.device,
    scale: float = 1.0,
) -> tuple[Float[Tensor, "length pairs"], Float[Tensor, "length pairs"]]:
    """Return `scale` times cosine and sine of the positions from `start` on."""
    if torch.compiler.is_compiling():
        positions = torch.arange(start, start + length, device=device)
        return _separate(positions, frequencies, dtype, device, scale)
    compute = float64_device(device)
    exact = dtype if scale == 1 else torch.float64  # scaled in float64, and rounded once
    planes = torch.empty(2, length, frequencies.pairs, dtype=exact, device=compute)
    _fill(planes.movedim(0, -1), start, frequencies)
    if scale != 1:
        planes = castable(planes * scale, dtype).to(dtype)
    sin, cos = planes.to(device)
    return cos, sin


def _separate(
    positions: Int[Tensor, " n"],
    frequencies: Frequencies,
    dtype: torch.dtype,
    device: torch.device,
    scale: float,
) -> tuple[Float[Tensor, "n pairs"], Float[Tensor, "n pairs"]]:
    """Return `scale` times cosine and sine of positions anywhere, each from its own angle."""
    positions = positions.to(float64_device(device))
    compiling = torch.compiler.is_compiling()
    parts = [positions] if compiling else positions.split(max(1, _TILE_PAIRS // frequencies.pairs))
    tables = []
    for part in parts:
        planes = exact_cos_sin(part, frequencies)
        tables.append([castable(plane * scale, dtype).to(dtype).to(device) for plane in planes])
    cos, sin = (torch.cat(planes) for planes in zip(*tables, strict=True))
    return cos, sin


def _bytes_of(tables: tuple[Tensor, Tensor]) -> int:
    return sum(max(table.nbytes, 2**15) for table in tables)  # a tensor's overhead is 32 KiB


TABLE_CACHE = cachetools.LRUCache[object, tuple[Tensor, Tensor]](_CACHE_BYTES, _bytes_of)


@cachetools.cached(TABLE_CACHE, lock=threading.Lock())
def _cached(
    start: int,
    length: int,
    frequencies: Frequencies,
    dtype: torch.dtype,
    device: torch.device,
    scale: float,
) -> tuple[Float[Tensor, "length pairs"], Float[Tensor, "length pairs"]]:
    # Outside inference mode, because a tensor made inside it could never enter a training step.
    with torch.inference_mode(False), torch.no_grad():
        return _consecutive(start, length, frequencies, dtype, device, scale)


def cos_sin(
    positions: Integer[Tensor, "*n"],
    frequencies: Frequencies,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
    scale: float = 1.0,
) -> tuple[Float[Tensor, "*n pairs"], Float[Tensor, "*n pairs"]]:
    """Return `scale` times cosine and sine of position * theta for any whole positions.

    positions: (*n) integers, |position| < 2^31, any order, repeats and negatives allowed.
    dtype: of the result; computed in float64 and rounded once. device: default that of positions.
    Returns (cos, sin), each (*n, pairs). Raises SchemeArgumentError for non-integer positions and
    PositionOutOfRange past 2^31 - 1 (checked where the values are on the host and not compiling).
    """
    check_dtype(dtype)
    check_whole("positions", positions)
    target = positions.device if device is None else resolve_device(device)
    flat = positions.flatten().to(torch.int64)
    low, high = _extent(flat) or (0, MAX_POSITION)  # unknown on a GPU: assume the full range
    flat, block = flat.to(target), low // _BLOCK
    if block == high // _BLOCK and frequencies.pairs <= _BLOCK_PAIRS:
        cached = _cached(block * _BLOCK, _BLOCK, frequencies, dtype, target, scale)
        if len(flat) == 1:  # a copy of a slice is quicker than an index
            row = low % _BLOCK
            cos, sin = (table[row : row + 1].clone() for table in cached)
        else:
            cos, sin = (table[flat % _BLOCK] for table in cached)
    elif high - low < len(flat):
        cos, sin = _consecutive(low, high - low + 1, frequencies, dtype, target, scale)
        if not _is_consecutive(flat):
            cos, sin = cos[flat - low], sin[flat - low]
    else:
        cos, sin = _separate(flat, frequencies, dtype, target, scale)
    shape = (*positions.shape, frequencies.pairs)
    return cos.view(shape), sin.view(shape)


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
    """Return the sinusoidal table PE(p, 2m) = sin(p theta_m), PE(p, 2m+1) = cos(p theta_m).

    length, dim: rows and (even) width. base: theta_m = base^(-2m/dim). start: position of row 0.
    layout: "interleaved" (sin, cos, sin, cos, ...) or "half" (all sines, then all cosines).
    out: a (length, dim) tensor of this dtype to fill, of any strides; large tables gain most.
    Returns (length, dim), each entry within 0.5001 ulp of float32 (or of a narrower dtype).
    Raises SchemeArgumentError. Source: Vaswani et al. 2017, arXiv 1706.03762, section 3.5.
    """
    check_table(length, dim, start)
    check_dtype(dtype)
    check_layout(layout)
    frequencies, target = Frequencies.geometric(dim, base), resolve_device(device)
    if torch.compiler.is_compiling():
        cos, sin = rope_tables(length, dim, base, start=start, dtype=dtype, device=device)
        table = join_pairs(sin, cos, layout)
        return table if out is None else out.copy_(table)
    if out is None:
        out = torch.empty(length, dim, dtype=dtype, device=target)
    else:
        check_out(out, (length, dim), dtype, None if device is None else target)
    if out.requires_grad:
        raise SchemeArgumentError("out must not require grad: a sinusoidal table is not trained.")
    compute = float64_device(out.device)
    table = out if compute == out.device else torch.empty_like(out, device=compute)
    pairs = (
        table.unflatten(1, (-1, 2)) if layout == "interleaved" else table.unflatten(1, (2, -1)).mT
    )
    _fill(pairs, start, frequencies)
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
    """Return the tables (cos, sin) of p theta_m that `apply_rope` takes, each (length, dim // 2).

    length, dim: rows and (even) rotary width. base: theta_m = base^(-2m/dim), unless `inv_freq`
    gives the dim // 2 frequencies in radians per position. start: position of row 0.
    Entries are within 0.5001 ulp of float32 (or of a narrower dtype) for the exact frequencies.
    Raises SchemeArgumentError. Source: Su et al. 2021, arXiv 2104.09864, section 3.2.2.
    """
    check_table(length, dim, start)
    check_dtype(dtype)
    frequencies = (
        Frequencies.geometric(dim, base)
        if inv_freq is None
        else Frequencies.from_inv_freq(inv_freq)
    )
    if frequencies.pairs != dim // 2:
        raise SchemeArgumentError(
            f"inv_freq must hold dim // 2 = {dim // 2} frequencies, got {frequencies.pairs}."
        )
    return _consecutive(start, length, frequencies, dtype, resolve_device(device))


def check_dtype(dtype: torch.dtype) -> None:
    """Raise SchemeArgumentError unless `dtype` is one of `DTYPES`."""
    if not isinstance(dtype, torch.dtype) or dtype not in DTYPES:
        raise SchemeArgumentError(
            f"dtype must be float32, float64, bfloat16 or float16, got {quoted(dtype)}."
        )


def check_range(positions: Integer[Tensor, "*n"]) -> None:
    """Raise PositionOutOfRange past 2^31 - 1, where the values are on the host and not compiling."""
    _extent(positions.flatten().to(torch.int64))


def _extent(positions: Int[Tensor, " n"]) -> tuple[int, int] | None:
    """Return the lowest and highest position if they are on the host, or raise PositionOutOfRange."""
    if not is_readable(positions) or not len(positions):
        return None
    ends = positions.tolist() if len(positions) == 1 else torch.aminmax(positions)
    low, high = int(ends[0]), int(ends[-1])
    if max(high, -low) > MAX_POSITION:
        raise PositionOutOfRange(
            f"positions must lie from {-MAX_POSITION:,} to {MAX_POSITION:,}, "
            f"got {low:,} to {high:,}.",
            limit=MAX_POSITION,
        )
    return low, high


def rotary_rows(
    positions: int | Int[Tensor, " *n"],
    frequencies: Frequencies,
    *,
    dtype: torch.dtype,
    device: torch.device,
    scale: float = 1.0,
) -> tuple[Float[Tensor, "*n p"], Float[Tensor, "*n p"]]:
    """Return `scale` times (cos, sin) of position * theta; a whole number n stands for 0 .. n-1."""
    if not isinstance(positions, int):
        return cos_sin(positions, frequencies, dtype=dtype, device=device, scale=scale)
    if torch.compiler.is_compiling() or positions * frequencies.pairs > _CACHED_ENTRIES:
        return _consecutive(0, positions, frequencies, dtype, device, scale)
    return _cached(0, positions, frequencies, dtype, device, scale)


def sinusoidal_rows(
    positions: int | Int[Tensor, " *n"],
    frequencies: Frequencies,
    *,
    layout: Layout,
    dtype: torch.dtype,
    device: torch.device,
) -> Float[Tensor, "*n d"]:
    """Return sinusoidal rows; a whole number n stands for positions 0 .. n-1."""
    cos, sin = rotary_rows(positions, frequencies, dtype=dtype, device=device)
    return join_pairs(sin, cos, layout)


def cosine_sum(offsets: Int[Tensor, " *n"], frequencies: Frequencies) -> Float[Tensor, " *n"]:
    """Return the sum over pairs of cos(offset * theta), float64, error about 1e-16 per pair.

    Consecutive offsets are one matrix product of two short tables:
    cos(a + b)w = cos(aw) cos(bw) - sin(aw) sin(bw), with a in steps of the number of b.
    """
    check_whole("offsets", offsets)
    flat = offsets.reshape(-1)
    if torch.compiler.is_compiling() or not _is_consecutive(flat):
        tiles = flat.split(max(1, _COSINE_TILE // frequencies.pairs))
        sums = [cos_sin(tile, frequencies, dtype=torch.float64)[0].sum(dim=-1) for tile in tiles]
        return torch.cat(sums).reshape(offsets.shape)
    sums = []
    for chunk in flat.split(_COSINE_TILE):
        stride = math.isqrt(len(chunk) - 1) + 1
        coarse = cos_sin(chunk[::stride], frequencies, dtype=torch.float64)
        fine = cos_sin(torch.arange(stride, device=flat.device), frequencies, dtype=torch.float64)
        rows = torch.cat((coarse[0], -coarse[1]), dim=-1)
        sums.append((rows @ torch.cat(fine, dim=-1).T).flatten()[: len(chunk)])
    return torch.cat(sums).reshape(offsets.shape)


def _is_consecutive(positions: Int[Tensor, " n"]) -> bool:
    """Whether positions on the host rise by 1 each."""
    if not is_readable(positions) or len(positions) < 2:
        return False
    return bool((positions.diff() == 1).all())
