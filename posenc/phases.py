r"""Tables of sines and cosines, right to half a unit in the last place at positions below 2^31.

Vaswani et al. 2017, arXiv 1706.03762, section 3.5; Su et al. 2021, arXiv 2104.09864, section 3.2.2.

The angle is never a floating-point product: the ladder is held as fixed-point fractions of a turn,
so position times frequency modulo one turn is exact integer arithmetic. Only few positions need
it, because e^{i(a + b)w} = e^{iaw} e^{ibw}: with fixed blocks of positions, short float64 tables
and one multiplication give every entry, rounded to the wanted dtype once. The multiplication is
made of correctly rounded elementary operations on operands fixed by the position alone, so an
entry has the same bits in whatever table, window or batch it is computed.
"""

import decimal
import functools
import math
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor
from torch.nn.functional import pad

from posenc.errors import PositionOutOfRange, SchemeArgumentError
from posenc.limits import MAX_DIM, MAX_POSITION, check_base, check_table, check_width

TableLayout = Literal["interleaved", "half"]
Operands = Sequence[Tensor]

# A position is (first of its block) + (multiple of STRIDE) + (0 .. STRIDE - 1). Both numbers are
# part of what a table's bits mean: fixed, with blocks counted from position 0.
BLOCK = 256
STRIDE = 16

# Sizes of scratch tensors, which change the speed and nothing else.
TILE_PAIRS = 131_072  # pairs of one tile of a table: 2 MiB
NEAR_PAIRS = 131_072  # pairs of the near rows made at once, and of far ones held: 2 MiB each
EXACT_PAIRS = 8_192  # pairs reduced at once: 64 KiB, below what malloc maps afresh every time
KEPT_PAIRS = 4_096  # widest ladder whose coarse and fine factors are kept: 2 MiB
KEPT_NEAR_PAIRS = 256  # widest ladder of which whole blocks are kept: 1 MiB
ACCELERATOR_TILES = 64  # an accelerator's tile in CPU tiles
KEPT_SCRATCH = 262_144  # float64 numbers of scratch that a thread keeps per use: 2 MiB

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
_LIMB = 2**32 - 1
_CUT = 2**29 - 1  # the bits that a float64 has and a float32 has not
_FRACTION_BITS = 96
_PI_BITS = 1_280  # enough to reduce the largest float64 modulo one turn


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


@dataclass(frozen=True)
class Phases:
    """An exact ladder of frequencies; equal and hashable by the configuration that made it.

    limbs: (3, pairs) int64 on CPU: the fraction of a turn per position, theta / (2 pi) mod 1, as
    96-bit fixed point in three 32-bit limbs, highest first.
    inv_freq: (pairs,) float64 on CPU: theta in radians per position, correctly rounded.
    """

    key: tuple[object, ...]
    limbs: Int[Tensor, "3 pairs"] = field(compare=False, repr=False)
    inv_freq: Float[Tensor, " pairs"] = field(compare=False, repr=False)

    @property
    def pairs(self) -> int:
        """Number of frequencies: half the width of a table."""
        return self.inv_freq.numel()

    @staticmethod
    def geometric(dim: int, base: float = 10000.0) -> "Phases":
        """The ladder base^(-2m/dim), m = 0 .. dim/2 - 1, from 80-digit powers.

        Raises SchemeArgumentError for an odd or too large dim, or a base outside (1, 1e12].
        """
        return _geometric(check_width("dim", dim), check_base(base))

    @staticmethod
    def given(inv_freq: Float[Tensor, " pairs"] | Sequence[float]) -> "Phases":
        """A ladder as a checkpoint stores it: each binary number is taken as the exact frequency.

        Raises SchemeArgumentError unless it is one row of 1 to 32,768 finite floating-point numbers.
        """
        ladder = inv_freq
        if not isinstance(ladder, Tensor):
            ladder = torch.tensor(ladder, dtype=torch.float64, device="cpu")
        if ladder.ndim != 1 or not 1 <= ladder.numel() <= MAX_DIM // 2:
            raise SchemeArgumentError(
                f"inv_freq must be one row of 1 to {MAX_DIM // 2:,} numbers, "
                f"got shape {tuple(ladder.shape)}."
            )
        if not ladder.is_floating_point():
            raise SchemeArgumentError(f"inv_freq must be floating point, got {ladder.dtype}.")
        exact = ladder.detach().cpu().double()
        if not bool(exact.isfinite().all()):
            raise SchemeArgumentError("inv_freq must be finite, but it holds NaN or infinity.")
        return _given(tuple(exact.tolist()))


def _phases(
    key: tuple[object, ...], ladder: Sequence[float], ratios: Sequence[tuple[int, int]]
) -> Phases:
    """Phases of a correctly rounded ladder and its exact frequencies as ratios of integers."""
    shift = _PI_BITS - _FRACTION_BITS
    limbs = []
    for numerator, denominator in ratios:
        scaled = numerator * _inverse_two_pi() // denominator
        turn = ((scaled + (1 << (shift - 1))) >> shift) % (1 << _FRACTION_BITS)
        limbs.append((turn >> 64, (turn >> 32) & _LIMB, turn & _LIMB))
    columns = torch.tensor(limbs, dtype=torch.int64, device="cpu")
    inv_freq = torch.tensor(ladder, dtype=torch.float64, device="cpu")
    return Phases(key, columns.T.contiguous(), inv_freq)


@functools.lru_cache(maxsize=64)
@torch.inference_mode(False)
def _geometric(dim: int, base: float) -> Phases:
    with decimal.localcontext(decimal.Context(prec=80)):
        ratio = (decimal.Decimal(base).ln() * -2 / dim).exp()
        theta, ladder = decimal.Decimal(1), []
        for _ in range(dim // 2):
            ladder.append(theta)
            theta *= ratio
    rounded = [float(theta) for theta in ladder]
    return _phases(("geometric", dim, base), rounded, [x.as_integer_ratio() for x in ladder])


@functools.lru_cache(maxsize=64)
@torch.inference_mode(False)
def _given(ladder: tuple[float, ...]) -> Phases:
    return _phases(("given", ladder), ladder, [theta.as_integer_ratio() for theta in ladder])


def _exact_cos_sin(
    positions: Int[Tensor, " n"], limbs: Int[Tensor, "3 pairs"]
) -> tuple[Float[Tensor, "n pairs"], Float[Tensor, "n pairs"]]:
    """Float64 cosine and sine of position * theta, the angle reduced exactly; |position| < 2^31."""
    p = positions.unsqueeze(-1)
    # A limb is below 2^32, so each product and sum stays inside a signed 64-bit number; shifts to
    # the right floor, which makes the carries right for negative positions too.
    low = p * limbs[2]
    mid = (p * limbs[1]).add_(low >> 32)
    high = (p * limbs[0]).add_(mid >> 32)
    # Whole turns leave at the top; what remains is the turn in [-1/2, 1/2), in units of 2^-64.
    turn = (high << 32).add_(mid.bitwise_and_(_LIMB))
    # Folded into [-1/4, 1/4), because a smaller angle has a smaller absolute rounding error:
    # e^{i(t + pi)} = -e^{it}, and where half a turn was cut the two differ in the sign bit alone.
    folded = (turn << 1) >> 1
    negate = turn.bitwise_xor_(folded)
    angle = folded.double().mul_(math.tau * 2.0**-64)
    angle.add_(low.bitwise_and_(_LIMB).double().mul_(math.tau * 2.0**-96))
    bits = torch.cos(angle).view(torch.int64), torch.sin(angle).view(torch.int64)
    cos, sin = (plane.bitwise_xor_(negate).view(torch.float64) for plane in bits)
    return cos, sin


def _turn(
    cos_a: Float[Tensor, "*#n"],
    sin_a: Float[Tensor, "*#n"],
    cos_b: Float[Tensor, "*#n"],
    sin_b: Float[Tensor, "*#n"],
) -> tuple[Float[Tensor, "*#n"], Float[Tensor, "*#n"]]:
    """Cosine and sine of a + b, in elementary operations only.

    Products and sums are separate calls, each correctly rounded by itself. A fused multiply-add
    rounds differently, and whether one is used can depend on an entry's place in memory.
    """
    return cos_a * cos_b - sin_a * sin_b, sin_a * cos_b + cos_a * sin_b


def _castable(x: Float[Tensor, " *n"], dtype: torch.dtype) -> Float[Tensor, " *n"]:
    """Float64 numbers that torch's cast takes to x rounded to `dtype` once.

    torch casts float64 to a 16-bit type through float32, which rounds twice; of numbers rounded to
    odd at float32's length (cut, and the last kept bit set if anything was lost) the cast is right.
    """
    if dtype not in (torch.bfloat16, torch.float16):
        return x
    bits = x.view(torch.int64)
    lost = (bits & _CUT).add_(_CUT)  # has bit 29 set if any of the 29 lower bits was
    return lost.bitwise_or_(bits).bitwise_and_(~_CUT).view(torch.float64)


@functools.cache
def complex_product_is_elementary(dtype: torch.dtype = torch.float64) -> bool:
    """Whether the CPU's complex multiplication rounds as separate products and sums do.

    torch's vectorised kernel does where it exists (x86), at nearly twice the speed of the separate
    calls; a kernel with fused multiply-adds would differ in about one entry in three.
    """
    turns = torch.linspace(-100, 100, 2 * 8_192, dtype=dtype, device="cpu")
    (cos_a, cos_b), (sin_a, sin_b) = turns.cos().view(2, 64, 128), turns.sin().view(2, 64, 128)
    product = torch.complex(cos_a, sin_a) * torch.complex(cos_b, sin_b)
    cos, sin = _turn(cos_a, sin_a, cos_b, sin_b)
    return torch.equal(product.real, cos) and torch.equal(product.imag, sin)


class _Kept(threading.local):
    """Scratch of this thread, kept because pages fresh from the system cost more than the work."""

    def __init__(self) -> None:
        self.numbers: dict[str, Tensor] = {}


_kept = _Kept()


def scratch_numbers(use: str, entries: int, device: torch.device) -> Float[Tensor, " entries"]:
    """Uninitialised float64 numbers, until the next call for the same use."""
    if device.type != "cpu" or entries > KEPT_SCRATCH:
        return torch.empty(entries, dtype=torch.float64, device=device)
    numbers = _kept.numbers.get(use)
    if numbers is None:
        with torch.inference_mode(False):
            numbers = torch.empty(KEPT_SCRATCH, dtype=torch.float64, device="cpu")
        if type(numbers) is Tensor:  # and no stand-in of some tracing mode
            _kept.numbers[use] = numbers
    return numbers[:entries]


def _tiles(
    out: Operands, far: Operands, near: Operands, pairs: int
) -> Iterator[tuple[tuple[Tensor, ...], tuple[Tensor, ...], list[Tensor]]]:
    """Cut tensors (blocks, rows, ...) into tiles of at most `pairs`, each with its operands."""
    rows, width = out[0].shape[1], near[0].shape[1]
    step = max(1, min(rows, pairs // width))
    stack = max(1, pairs // (step * width))
    parts = list(zip(*(x.unsqueeze(1).split(stack) for x in far), strict=True))
    for row in range(0, rows, step):
        some = [x[row : row + step] for x in near]
        tiles = zip(*(x[:, row : row + step].split(stack) for x in out), strict=True)
        for tile, part in zip(tiles, parts, strict=True):
            yield tile, part, some


class _Separate:
    """Entries by two products and a sum each: for any ladder, device and number of threads."""

    lanes = 1

    def __init__(self, device: torch.device) -> None:
        parallel = torch.get_num_threads() if device.type == "cpu" else ACCELERATOR_TILES
        self.pairs = TILE_PAIRS // 2 * parallel

    def far(self, cos: Tensor, sin: Tensor) -> Operands:
        """What makes a row at the first position of each block ..."""
        return cos, sin

    def near(self, coarse: Operands, fine: Operands) -> Operands:
        """... into one at each offset, the sum of a coarse and a fine one."""
        cos, sin = _turn(coarse[0][:, None], coarse[1][:, None], fine[0], fine[1])
        return cos.flatten(0, 1), sin.flatten(0, 1)

    def fill(self, out: Operands, far: Operands, near: Operands) -> None:
        """Fill sines and cosines, (blocks, rows, pairs) each or (blocks, rows, pairs, 2) both."""
        out = out if len(out) == 2 else out[0].unbind(-1)
        entries = 2 * max(near[0].shape[1], min(self.pairs, out[0].numel()))
        scratch = scratch_numbers("tile", entries, near[0].device).view(2, -1)
        for (sine, cosine), (cos_a, sin_a), (cos_b, sin_b) in _tiles(out, far, near, self.pairs):
            direct, crossed = scratch[:, : sine.numel()].view(2, *sine.shape)
            torch.mul(sin_a, cos_b, out=direct).add_(torch.mul(cos_a, sin_b, out=crossed))
            sine.copy_(_castable(direct, sine.dtype))
            torch.mul(cos_a, cos_b, out=direct).sub_(torch.mul(sin_a, sin_b, out=crossed))
            cosine.copy_(_castable(direct, cosine.dtype))


class _Packed:
    """Entries by one complex product, (sin a + i cos a)(cos b - i sin b): the same bits, faster.

    The vectorised kernel leaves what does not fill 8 complex numbers to a scalar loop that may
    fuse. So ladders are padded to 16, and a tile has at most 2^16 pairs (2^17 for up to two
    threads): torch, giving a thread at least 2^15, cuts it in half at most, at a multiple of 8.
    """

    lanes = 16

    def __init__(self) -> None:
        self.pairs = TILE_PAIRS if torch.get_num_threads() <= 2 else TILE_PAIRS // 2

    @staticmethod
    def serves(pairs: int, device: torch.device) -> bool:
        """Whether this is right here, and the faster way."""
        return (
            device.type == "cpu"
            and 2 * pairs >= _Packed.lanes
            and torch.get_num_threads() <= 4  # more threads on separate calls beat two on this
            and complex_product_is_elementary()
        )

    def far(self, cos: Tensor, sin: Tensor) -> Operands:
        return (torch.complex(sin, cos),)

    def near(self, coarse: Operands, fine: Operands) -> Operands:
        some, others = (torch.complex(cos, -sin) for cos, sin in (coarse, fine))
        scratch = scratch_numbers("near", 2 * len(some) * others.numel(), others.device)
        near = torch.view_as_complex(scratch.view(len(some), *others.shape, 2))
        for (tile,), (part,), (row,) in _tiles((near,), (some,), (others,), self.pairs):
            torch.mul(part, row, out=tile)
        return (near.flatten(0, 1),)

    def fill(self, out: Operands, far: Operands, near: Operands) -> None:
        """Fill sines and cosines, (blocks, rows, pairs) each or (blocks, rows, pairs, 2) both."""
        pairs, width = out[0].shape[2], near[0].shape[1]
        most = max(width, min(self.pairs, math.prod(out[0].shape[:2]) * width))
        scratch = torch.view_as_complex(
            scratch_numbers("tile", 2 * most, near[0].device).view(-1, 2)
        )
        product = scratch[:0].view(0, 0, width)
        for tile, (part,), (row,) in _tiles(out, far, near, self.pairs):
            if product.shape[:2] != tile[0].shape[:2]:
                blocks, rows = tile[0].shape[:2]
                product = scratch[: blocks * rows * width].view(blocks, rows, width)
            torch.mul(part, row, out=product)
            both = _castable(torch.view_as_real(product), tile[0].dtype)[:, :, :pairs]
            for target, made in zip(tile, both.unbind(-1) if tile[1:] else (both,), strict=True):
                target.copy_(made)


def _method(pairs: int, device: torch.device) -> _Packed | _Separate:
    return _Packed() if _Packed.serves(pairs, device) else _Separate(device)


def _padded_limbs(phases: Phases, lanes: int, device: torch.device) -> Int[Tensor, "3 width"]:
    return pad(phases.limbs.to(device), (0, -phases.pairs % lanes))


def _make_factors(phases: Phases, lanes: int, device: torch.device) -> tuple[Operands, Operands]:
    """Cosine and sine at offsets 0, STRIDE, 2 STRIDE, ... of a block, and at 0 .. STRIDE - 1."""
    limbs = _padded_limbs(phases, lanes, device)
    coarse = torch.arange(0, BLOCK, STRIDE, device=device)
    return _exact_cos_sin(coarse, limbs), _exact_cos_sin(torch.arange(STRIDE, device=device), limbs)


_kept_factors = functools.lru_cache(maxsize=16)(_make_factors)


def _factors(phases: Phases, lanes: int, device: torch.device) -> tuple[Operands, Operands]:
    make = _kept_factors if phases.pairs <= KEPT_PAIRS else _make_factors
    return make(phases, lanes, device)


@functools.lru_cache(maxsize=16)
@torch.inference_mode(False)
def _kept_near(phases: Phases, packed: bool, device: torch.device) -> Operands:
    """The near operands of a whole block, of a narrow ladder."""
    method = _Packed() if packed else _Separate(device)
    return tuple(x.clone() for x in method.near(*_factors(phases, method.lanes, device)))


def _fill(out: Operands, start: int, phases: Phases) -> None:
    """Fill tables, of any strides, with the rows from position `start` on.

    out: sines and cosines, (length, pairs) each, or both in one (length, pairs, 2).
    """
    length, device = len(out[0]), out[0].device
    method = _method(phases.pairs, device)
    limbs = _padded_limbs(phases, method.lanes, device)
    narrow = phases.pairs <= KEPT_NEAR_PAIRS
    coarse, fine = _factors(phases, method.lanes, device)
    few = max(1, EXACT_PAIRS // phases.pairs)  # blocks whose angles are reduced at once
    run = max(1, NEAR_PAIRS // phases.pairs)  # blocks whose far operands are held at once
    step = max(1, min(BLOCK, run) // STRIDE) * STRIDE  # rows whose near operands are
    row = 0
    while row < length:
        block, offset = divmod(start + row, BLOCK)
        rows = min(BLOCK - offset, length - row)  # of each block: fewer at the table's two ends
        blocks = min(run, (length - row) // BLOCK) if rows == BLOCK else 1
        at = torch.arange(block, block + blocks, device=device) * BLOCK
        parts = [method.far(*_exact_cos_sin(at[i : i + few], limbs)) for i in range(0, blocks, few)]
        far = tuple(map(torch.cat, zip(*parts, strict=True))) if parts[1:] else parts[0]
        targets = [x[row : row + blocks * rows].unflatten(0, (blocks, rows)) for x in out]
        for first in range(offset // STRIDE * STRIDE, offset + rows, step):
            begin, end = max(first, offset), min(first + step, offset + rows)
            if narrow:
                near, origin = _kept_near(phases, method.lanes > 1, device), 0
            else:
                some = slice(first // STRIDE, -(-end // STRIDE))
                near, origin = method.near([x[some] for x in coarse], fine), first
            wanted = [x[begin - origin : end - origin] for x in near]
            method.fill([x[:, begin - offset : end - offset] for x in targets], far, wanted)
        row += blocks * rows


def _check_dtype(dtype: torch.dtype) -> None:
    if dtype not in DTYPES:
        raise SchemeArgumentError(
            f"dtype must be float32, float64, bfloat16 or float16, got {dtype}."
        )


def _compute_device(device: torch.device) -> torch.device:
    """Where float64 exists: MPS has none, so its tables are computed on the CPU and moved."""
    return torch.device("cpu") if device.type == "mps" else device


def _is_on(x: Tensor, device: torch.device | str | None) -> bool:
    """Whether x is on this device, where "cuda" names any of its kind."""
    wanted = x.device if device is None else torch.device(device)
    return x.device.type == wanted.type and wanted.index in (None, x.device.index)


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
    compute = _compute_device(target)
    flat = positions.flatten().to(torch.int64)
    extent = _extent(flat)
    flat = flat.to(compute)
    if torch.compiler.is_compiling() or compute.type == "meta":
        planes = _exact_cos_sin(flat, phases.limbs.to(compute))
        cos, sin = (_castable(plane, dtype).to(dtype) for plane in planes)
    elif extent and phases.pairs <= KEPT_NEAR_PAIRS and extent[0] // BLOCK == extent[1] // BLOCK:
        # Decoding asks for one position after the other, in every layer.
        kept = _kept_block(phases, extent[0] // BLOCK, dtype, compute)
        cos, sin = (plane[flat & (BLOCK - 1)] for plane in kept)
    elif extent and extent[1] - extent[0] < len(flat):
        cos, sin = _rows(extent[0], extent[1] - extent[0] + 1, phases, dtype, compute)
        at = flat - extent[0]
        if not torch.equal(at, torch.arange(len(cos), device=compute)):
            cos, sin = cos[at], sin[at]
    else:
        cos, sin = _scattered(flat, phases, dtype)
    shape = (*positions.shape, phases.pairs)
    return cos.view(shape).to(target), sin.view(shape).to(target)


def _rows(
    start: int, length: int, phases: Phases, dtype: torch.dtype, device: torch.device
) -> tuple[Float[Tensor, "length pairs"], Float[Tensor, "length pairs"]]:
    """Cosine and sine of the positions from `start` on."""
    cos = torch.empty(length, phases.pairs, dtype=dtype, device=device)
    sin = torch.empty_like(cos)
    _fill((sin, cos), start, phases)
    return cos, sin


@functools.lru_cache(maxsize=16)
@torch.inference_mode(False)
def _kept_block(
    phases: Phases, block: int, dtype: torch.dtype, device: torch.device
) -> tuple[Float[Tensor, "B pairs"], Float[Tensor, "B pairs"]]:
    return _rows(block * BLOCK, BLOCK, phases, dtype, device)


def _scattered(
    positions: Int[Tensor, " n"], phases: Phases, dtype: torch.dtype
) -> tuple[Float[Tensor, "n pairs"], Float[Tensor, "n pairs"]]:
    """Cosine and sine of positions anywhere, each block's far factor made once."""
    cos = torch.empty(len(positions), phases.pairs, dtype=dtype, device=positions.device)
    sin = torch.empty_like(cos)
    limbs = phases.limbs.to(cos.device)
    (cos_c, sin_c), (cos_f, sin_f) = _factors(phases, 1, cos.device)
    many, few = max(1, NEAR_PAIRS // phases.pairs), max(1, EXACT_PAIRS // phases.pairs)
    for first in range(0, len(positions), many):
        chunk = positions[first : first + many]
        offsets = chunk & (BLOCK - 1)
        starts, block = torch.unique(chunk - offsets, return_inverse=True)
        parts = [_exact_cos_sin(part, limbs) for part in starts.split(few)]
        cos_a, sin_a = (torch.cat(part) for part in zip(*parts, strict=True))
        for row in range(0, len(chunk), few):
            at, offset = block[row : row + few], offsets[row : row + few]
            coarse, fine = offset // STRIDE, offset % STRIDE
            cos_b, sin_b = _turn(cos_c[coarse], sin_c[coarse], cos_f[fine], sin_f[fine])
            planes = _turn(cos_a[at], sin_a[at], cos_b, sin_b)
            place = slice(first + row, first + row + len(at))
            cos[place], sin[place] = (_castable(plane, dtype) for plane in planes)
    return cos, sin


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
    compute = _compute_device(out.device)
    table = out if compute == out.device else torch.empty_like(out, device=compute)
    halves = table.split(dim // 2, 1)
    _fill((table.unflatten(1, (-1, 2)),) if layout == "interleaved" else halves, start, phases)
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
