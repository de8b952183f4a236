r"""Tables of sines and cosines, right to half a unit in the last place at every position below 2^31.

Vaswani et al. 2017, arXiv 1706.03762, section 3.5; Su et al. 2021, arXiv 2104.09864, equation 15.

Two ideas carry the module. The angle is never formed as a floating-point product: the ladder is held
as fixed-point fractions of a turn, so position times frequency, taken modulo one turn, is exact
integer arithmetic. And e^{i(aB + b)w} = e^{iaBw} e^{ibw}: with a fixed block size B, two short float64
tables and one multiplication per entry give every entry, rounded to the wanted dtype once.
Every step after the two short tables is a correctly rounded elementary operation on fixed operands,
so an entry has the same bits in whatever table, window or batch it is computed.
"""

import decimal
import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Complex, Float, Int
from torch import Tensor

from posenc.errors import PositionOutOfRange, SchemeArgumentError
from posenc.limits import MAX_DIM, MAX_POSITION, check_base, check_table, check_width

TableLayout = Literal["interleaved", "half"]
_Columns = Literal["interleaved", "cos", "sin"]

BLOCK = 128  # positions per block; fixed, because blocks begin at multiples of it from position 0
STRIDE = 8  # the near factors of a block are products too: of multiples of STRIDE and of 0 .. STRIDE - 1
TILE_ENTRIES = 131_072  # float64 entries of one scratch tile: 1 MiB
FLOAT_DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)

_MASK = 2**32 - 1
_CUT = 2**29 - 1  # the bits that float64 has and float32 has not
_FRACTION_BITS = 96
_PI_BITS = 1_280  # enough to reduce the largest float64 modulo one turn
_LADDERS_KEPT = 64
SLAB_PAIRS = 512
RUN_PAIRS = 12_288
_ACCELERATOR_TILES = 64


def _arctan_inverse(n: int, bits: int) -> int:
    """arctan(1/n) * 2^bits by Gregory's series, truncated."""
    term = (1 << bits) // n
    total, k, sign = term, 1, 1
    while term:
        term //= n * n
        k, sign = k + 2, -sign
        total += sign * (term // k)
    return total


@functools.cache
def _inverse_two_pi() -> int:
    """2^_PI_BITS / (2 pi), rounded down; pi by Machin's formula with 64 guard bits."""
    bits = _PI_BITS + 64
    pi = 4 * (4 * _arctan_inverse(5, bits) - _arctan_inverse(239, bits))
    return (1 << (_PI_BITS + bits)) // (2 * pi)


def _limbs(ratios: Sequence[tuple[int, int]]) -> Int[Tensor, "3 pairs"]:
    """Turn fractions theta / (2 pi) mod 1 of exact rational frequencies, as 96-bit fixed point."""
    shift = _PI_BITS - _FRACTION_BITS
    rows = []
    for numerator, denominator in ratios:
        scaled = numerator * _inverse_two_pi() // denominator
        turn = ((scaled + (1 << (shift - 1))) >> shift) % (1 << _FRACTION_BITS)
        rows.append((turn >> 64, (turn >> 32) & _MASK, turn & _MASK))
    return torch.tensor(rows, dtype=torch.int64).reshape(-1, 3).T.contiguous()


@dataclass(frozen=True)
class Phases:
    """An exact ladder of frequencies; equal and hashable by the configuration that made it.

    limbs: (3, pairs) int64 on CPU: the fraction of a turn per position, theta / (2 pi) mod 1, as
    96-bit fixed point in three 32-bit limbs, highest first.
    inv_freq: (pairs,) float64 on CPU, radians per position, correctly rounded.
    """

    key: tuple[object, ...]
    limbs: Int[Tensor, "3 pairs"] = field(compare=False, repr=False)
    inv_freq: Float[Tensor, "pairs"] = field(compare=False, repr=False)

    @property
    def pairs(self) -> int:
        """Number of frequencies, half the width of a table."""
        return self.inv_freq.numel()

    @staticmethod
    def geometric(dim: int, base: float = 10000.0) -> "Phases":
        """The ladder base^(-2m/dim), m = 0 .. dim/2 - 1, from 80-digit powers.

        Raises SchemeArgumentError for an odd or too large dim, or a base outside (1, 1e12].
        """
        return _geometric(check_width("dim", dim), check_base(base))

    @staticmethod
    def given(inv_freq: Float[Tensor, "pairs"] | Sequence[float]) -> "Phases":
        """A ladder as stored in a checkpoint: each binary number is taken as the exact frequency.

        Raises SchemeArgumentError unless it is one row of 1 to 32,768 finite floating-point numbers.
        """
        ladder = torch.as_tensor(inv_freq, dtype=None if isinstance(inv_freq, Tensor) else torch.float64)
        if ladder.ndim != 1 or not 1 <= ladder.numel() <= MAX_DIM // 2:
            raise SchemeArgumentError(
                f"inv_freq must be one row of 1 to {MAX_DIM // 2:,} numbers, "
                f"got shape {tuple(ladder.shape)}."
            )
        if not ladder.is_floating_point():
            raise SchemeArgumentError(f"inv_freq must be floating point, got {ladder.dtype}.")
        exact = ladder.detach().cpu().double()
        if not bool(torch.isfinite(exact).all()):
            raise SchemeArgumentError("inv_freq must be finite; it holds NaN or infinity.")
        return _given(tuple(exact.tolist()))


@functools.lru_cache(maxsize=_LADDERS_KEPT)
def _geometric(dim: int, base: float) -> Phases:
    with decimal.localcontext(decimal.Context(prec=80)):
        ratio = (decimal.Decimal(base).ln() * -2 / dim).exp()
        theta, ladder = decimal.Decimal(1), []
        for _ in range(dim // 2):
            ladder.append(theta)
            theta *= ratio
    inv_freq = torch.tensor([float(theta) for theta in ladder], dtype=torch.float64)
    limbs = _limbs([theta.as_integer_ratio() for theta in ladder])
    return Phases(("geometric", dim, base), limbs, inv_freq)


@functools.lru_cache(maxsize=_LADDERS_KEPT)
def _given(ladder: tuple[float, ...]) -> Phases:
    limbs = _limbs([theta.as_integer_ratio() for theta in ladder])
    return Phases(("given", ladder), limbs, torch.tensor(ladder, dtype=torch.float64))


def _exact_cos_sin(
    positions: Int[Tensor, "n"], limbs: Int[Tensor, "3 pairs"]
) -> tuple[Float[Tensor, "n pairs"], Float[Tensor, "n pairs"]]:
    """Float64 cosine and sine of position * theta, the angle reduced exactly; |position| < 2^31."""
    p = positions.unsqueeze(-1)
    # A limb is below 2^32, so each product and sum stays inside a signed 64-bit number; shifts to
    # the right floor, which makes the carries right for negative positions too.
    low = p * limbs[2]
    mid = (p * limbs[1]).add_(low >> 32)
    high = (p * limbs[0]).add_(mid >> 32)
    # Whole turns leave at the top; what remains is the turn in [-1/2, 1/2) in units of 2^-64.
    turn = (high << 32).add_(mid.bitwise_and_(_MASK))
    # Folded into [-1/4, 1/4), because a smaller angle has a smaller absolute rounding error:
    # e^{i(t + pi)} = -e^{it}, and the two turns differ in the sign bit where half a turn was cut.
    folded = (turn << 1) >> 1
    negate = turn.bitwise_xor_(folded)
    angle = folded.double().mul_(math.tau * 2.0**-64)
    angle.add_(low.bitwise_and_(_MASK).double().mul_(math.tau * 2.0**-96))
    cos, sin = torch.cos(angle).view(torch.int64), torch.sin(angle).view(torch.int64)
    return (cos ^ negate).view(torch.float64), (sin ^ negate).view(torch.float64)


def _turn(
    cos_a: Float[Tensor, "*#n"],
    sin_a: Float[Tensor, "*#n"],
    cos_b: Float[Tensor, "*#n"],
    sin_b: Float[Tensor, "*#n"],
) -> tuple[Float[Tensor, "*#n"], Float[Tensor, "*#n"]]:
    """Cosine and sine of a + b: the definition of every entry, in elementary operations only.

    Products and sums are separate calls, each correctly rounded by itself. A fused multiply-add
    rounds differently, and whether one is used can depend on an entry's place in memory.
    """
    return cos_a * cos_b - sin_a * sin_b, sin_a * cos_b + cos_a * sin_b


def _castable(x: Float[Tensor, "*n"], dtype: torch.dtype) -> Float[Tensor, "*n"]:
    """Float64 numbers that torch's cast takes to x rounded to `dtype` once.

    torch casts float64 to a 16-bit type through float32, which rounds twice; rounded to odd at
    float32's length (cut, then the last kept bit set if anything was lost) the cast is right.
    """
    if dtype not in (torch.bfloat16, torch.float16):
        return x
    bits = x.contiguous().view(torch.int64)
    lost = (bits & _CUT).add_(_CUT)  # has bit 29 set if any of the 29 lower bits was
    return lost.bitwise_or_(bits).bitwise_and_(~_CUT).view(torch.float64)


def _columns(
    cos: Float[Tensor, "n pairs"], sin: Float[Tensor, "n pairs"], columns: _Columns
) -> Float[Tensor, "n width"]:
    """The columns of a table: sine and cosine by turns, or one of the two alone."""
    if columns == "interleaved":
        return torch.stack((sin, cos), -1).flatten(-2)
    return cos if columns == "cos" else sin


def _make_near(
    limbs: Int[Tensor, "3 pairs"], columns: _Columns, scratch: Float[Tensor, "entries"] | None
) -> tuple[Float[Tensor, "B width"], Float[Tensor, "B width"]]:
    """What the far cosine and the far sine of a block multiply, by column."""
    cos_a, sin_a = _exact_cos_sin(torch.arange(0, BLOCK, STRIDE, device=limbs.device), limbs)
    cos_b, sin_b = _exact_cos_sin(torch.arange(STRIDE, device=limbs.device), limbs)
    if scratch is not None:
        near = cos_a.new_empty(BLOCK, 2 * limbs.shape[1])
        rows = near.unflatten(0, (-1, STRIDE))
        _combine_packed(rows, torch.complex(cos_a, -sin_a), _columns(cos_b, sin_b, columns), scratch)
        return near, near
    cos, sin = _turn(cos_a[:, None], sin_a[:, None], cos_b, sin_b)
    cos, sin = cos.flatten(0, 1), sin.flatten(0, 1)
    return _columns(cos, sin, columns), _columns(sin, cos, columns)


@functools.lru_cache(maxsize=16)
def _kept_near(
    phases: Phases, columns: _Columns, packed: bool, device: torch.device
) -> tuple[Float[Tensor, "B width"], Float[Tensor, "B width"]]:
    scratch = torch.empty(BLOCK*2*phases.pairs, dtype=torch.float64, device=device) if packed else None
    return _make_near(phases.limbs.to(device), columns, scratch)


@functools.cache
def _complex_product_is_elementary() -> bool:
    """Whether the CPU's complex multiplication rounds as separate products and sums do.

    torch's vectorised kernel does where it exists (x86), at nearly twice the speed of the separate
    calls; a kernel with fused multiply-adds would differ in about one entry in three.
    """
    turns = torch.linspace(-1, 1, 2 * 8_192, dtype=torch.float64, device="cpu") * 100
    (cos_a, cos_b), (sin_a, sin_b) = turns.cos().view(2, 64, 128), turns.sin().view(2, 64, 128)
    product = torch.complex(cos_a, sin_a) * torch.complex(cos_b, sin_b)
    cos, sin = _turn(cos_a, sin_a, cos_b, sin_b)
    return torch.equal(product.real, cos) and torch.equal(product.imag, sin)


def _packed(out: Float[Tensor, "n width"]) -> bool:
    """Whether full blocks of this interleaved table may be made by complex multiplication.

    The vectorised kernel leaves what does not fill 8 complex numbers to a scalar loop that may
    fuse. Rows are therefore multiples of 16 pairs, and a tile is at most 2^16 pairs (2^17 for two
    threads), which torch, giving a thread at least 2^15, cuts in half at most: at a multiple of 8.
    """
    return (
        out.device.type == "cpu"
        and out.shape[1] % 32 == 0
        and torch.get_num_threads() <= 4  # with more, all threads on separate calls are faster
        and _complex_product_is_elementary()
    )


def _fill(
    out: Float[Tensor, "length width"], start: int, phases: Phases, columns: _Columns
) -> None:
    """Fill `out`, of any strides, with the rows of positions start, start + 1, ...

    Each entry is far cosine * near operand + far sine * crossed near operand, signs included.
    """
    packed = columns == "interleaved" and _packed(out)
    scale = 1 if out.device.type=="cpu" else 64
    if out.device.type=="cpu": scale = (2 if torch.get_num_threads() <= 2 else 1) if packed else torch.get_num_threads()
    limit = TILE_ENTRIES * scale
    scratch = torch.empty(1 if packed else 2, min(limit, (len(out)+BLOCK)*min(out.shape[1],1024)), dtype=torch.float64, device=out.device)
    if phases.pairs <= SLAB_PAIRS:
        near = _kept_near(phases, columns, packed, out.device)
        _fill_slab(out, start, phases.limbs.to(out.device), near, columns, packed, scratch)
        return
    # A wide table is filled in slabs of columns, so that the near operands stay small.
    slabs = phases.limbs.to(out.device).split(SLAB_PAIRS, dim=1)
    for part, limbs in zip(out.split(SLAB_PAIRS * out.shape[1] // phases.pairs, 1), slabs, strict=True):
        _fill_slab(part, start, limbs, _make_near(limbs, columns, scratch[0] if packed else None), columns, packed, scratch)


def _fill_slab(
    out: Float[Tensor, "length width"],
    start: int,
    limbs: Int[Tensor, "3 pairs"],
    near: tuple[Float[Tensor, "B width"], Float[Tensor, "B width"]],
    columns: _Columns,
    packed: bool,
    scratch,
) -> None:
    # Far factors are made for a run of blocks at once, cut where a block is only partly wanted.
    run = max(1, RUN_PAIRS // limbs.shape[1])
    length, row = len(out), 0
    while row < length:
        block, offset = divmod(start + row, BLOCK)
        rows = min(BLOCK - offset, length - row)
        blocks = 1 if rows < BLOCK else min(run, (length - row) // BLOCK)
        first = torch.arange(block, block + blocks, device=out.device) * BLOCK
        cos, sin = _exact_cos_sin(first, limbs)
        target = out[row : row + blocks * rows].unflatten(0, (blocks, rows))
        direct, crossed = (operand[offset : offset + rows] for operand in near)
        if packed:
            _combine_packed(target, torch.complex(cos, -sin), direct, scratch[0])
        else:
            far, far_crossed = _columns(cos, cos, columns), _columns(-sin, sin, columns)
            _combine(target, far, far_crossed, direct, crossed, scratch)
        row += blocks * rows


def _tiles(
    blocks: int, rows: int, width: int, entries: int
) -> Iterator[tuple[slice, slice]]:
    """Cut (blocks, rows, width) into tiles of at most `entries`: the largest size, and the slices."""
    step = max(1, min(rows, entries // width))
    stack = max(1, min(blocks, entries // (step * width)))
    for row in range(0, rows, step):
        for block in range(0, blocks, stack):
            yield slice(block, block + stack), slice(row, row + step)


def _combine(
    out: Float[Tensor, "blocks rows width"],
    far: Float[Tensor, "blocks width"],
    far_crossed: Float[Tensor, "blocks width"],
    near: Float[Tensor, "rows width"],
    near_crossed: Float[Tensor, "rows width"],
    scratch,
) -> None:
    """out = far * near + far_crossed * near_crossed, rounded to out's dtype once."""
    for block, row in _tiles(*out.shape, scratch.shape[1]):
        tile = out[block, row]
        direct, crossed = scratch[:, : tile.numel()].view(2, *tile.shape)
        torch.mul(far[block, None], near[row], out=direct)
        torch.mul(far_crossed[block, None], near_crossed[row], out=crossed)
        tile.copy_(_castable(direct.add_(crossed), out.dtype))


def _combine_packed(
    out: Float[Tensor, "blocks rows width"],
    far: Complex[Tensor, "blocks pairs"],
    near: Float[Tensor, "rows width"],
    scratch,
) -> None:
    """The same numbers by one complex product: (cos - i sin)(sin + i cos), pair by pair."""
    factors = torch.view_as_complex(near.unflatten(-1, (-1, 2)))
    for block, row in _tiles(*out.shape, len(scratch)):
        tile = out[block, row]
        product = scratch[: tile.numel()].view(tile.shape)
        packed = torch.view_as_complex(product.unflatten(-1, (-1, 2)))
        torch.mul(far[block, None], factors[row], out=packed)
        tile.copy_(_castable(product, out.dtype))


def _check_dtype(dtype: torch.dtype) -> None:
    if dtype not in FLOAT_DTYPES:
        raise SchemeArgumentError(
            f"dtype must be float32, float64, bfloat16 or float16, got {dtype}."
        )


def _compute_device(device: torch.device) -> torch.device:
    """Where float64 exists: MPS has none, so its tables are computed on the CPU and moved."""
    return torch.device("cpu") if device.type == "mps" else device


def _check_positions(positions: Int[Tensor, "*n"]) -> None:
    if positions.is_floating_point() or positions.is_complex() or positions.dtype == torch.bool:
        raise SchemeArgumentError(f"positions must be integers, got {positions.dtype}.")
    if torch.compiler.is_compiling() or positions.device.type != "cpu" or not positions.numel():
        return
    low, high = (int(end) for end in torch.aminmax(positions))
    if max(high, -low) > MAX_POSITION:
        raise PositionOutOfRange(
            f"positions must lie from {-MAX_POSITION:,} to {MAX_POSITION:,}, "
            f"got {low:,} to {high:,}.",
            limit=MAX_POSITION,
        )


def cos_sin(
    positions: Int[Tensor, "*n"],
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
    _check_positions(positions)
    target = positions.device if device is None else torch.device(device)
    compute = _compute_device(target)
    flat = positions.to(device=compute, dtype=torch.int64).flatten()
    shape = (*positions.shape, phases.pairs)
    if torch.compiler.is_compiling():
        planes = _exact_cos_sin(flat, phases.limbs.to(compute))
        cos, sin = (_castable(plane, dtype).to(dtype) for plane in planes)
    else:
        cos = torch.empty(len(flat), phases.pairs, dtype=dtype, device=compute)
        sin = torch.empty_like(cos)
        _fill_at(cos, sin, flat, phases)
    return cos.view(shape).to(target), sin.view(shape).to(target)


def _fill_at(
    cos: Float[Tensor, "n pairs"],
    sin: Float[Tensor, "n pairs"],
    positions: Int[Tensor, "n"],
    phases: Phases,
) -> None:
    """Fill cos and sin with the rows of these positions."""
    if len(positions) > 1:
        start = int(positions[0])
        if torch.equal(positions, torch.arange(len(positions), device=cos.device) + start):
            _fill(cos, start, phases, "cos")
            _fill(sin, start, phases, "sin")
            return
    limbs = phases.limbs.to(cos.device)
    if phases.pairs <= SLAB_PAIRS: 
        near_cos, near_sin = _kept_near(phases, "cos", False, cos.device)
    else:
        near_cos, near_sin = _make_near(limbs, "cos", None)
    step = max(1, TILE_ENTRIES // phases.pairs)
    for row in range(0, len(positions), step):
        some = slice(row, row + step)
        offsets = positions[some] & (BLOCK - 1)
        blocks, at = torch.unique(positions[some] - offsets, return_inverse=True)
        cos_a, sin_a = (plane[at] for plane in _exact_cos_sin(blocks, limbs))
        planes = _turn(cos_a, sin_a, near_cos[offsets], near_sin[offsets])
        for out, plane in zip((cos, sin), planes, strict=True):
            out[some] = _castable(plane, out.dtype)


def sinusoidal_table(
    length: int,
    dim: int,
    base: float = 10000.0,
    *,
    start: int = 0,
    layout: TableLayout = "interleaved",
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
    if layout not in ("interleaved", "half"):
        raise SchemeArgumentError(f'layout must be "interleaved" or "half", got {layout!r}.')
    phases = Phases.geometric(dim, base)
    if torch.compiler.is_compiling():
        positions = torch.arange(start, start + length, device=device)
        cos, sin = cos_sin(positions, phases, dtype=dtype)
        half = layout == "half"
        table = torch.cat((sin, cos), -1) if half else _columns(cos, sin, "interleaved")
        return table if out is None else out.copy_(table)
    if out is None:
        out = torch.empty(length, dim, dtype=dtype, device=device)
    elif out.shape != (length, dim) or out.dtype != dtype or (
        device is not None and out.device != torch.empty(0, device=device).device
    ):
        raise SchemeArgumentError(
            f"out must be a ({length}, {dim}) tensor of {dtype}"
            f"{'' if device is None else f' on {device}'}, "
            f"got {tuple(out.shape)} of {out.dtype} on {out.device}."
        )
    if out.requires_grad:
        raise SchemeArgumentError("out must not require grad: a sinusoidal table is not trained.")
    compute = _compute_device(out.device)
    table = out if compute == out.device else torch.empty_like(out, device=compute)
    if layout == "interleaved":
        _fill(table, start, phases, "interleaved")
    else:
        _fill(table[:, : dim // 2], start, phases, "sin")
        _fill(table[:, dim // 2 :], start, phases, "cos")
    return out if table is out else out.copy_(table)


def rope_tables(
    length: int,
    dim: int,
    base: float = 10000.0,
    *,
    inv_freq: Float[Tensor, "pairs"] | Sequence[float] | None = None,
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
