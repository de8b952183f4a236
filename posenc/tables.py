"""Tables of sines and cosines, right to half a unit in the last place at positions below 2^31.

Vaswani et al. 2017, arXiv 1706.03762, section 3.5; Su et al. 2021, arXiv 2104.09864, section 3.2.2.

Angles are exact (posenc/frequencies.py); each entry is one product (posenc/tables.py) of operands that
its position fixes (posenc/tables.py).

Scratch memory that a thread keeps from one call to the next.

Kept because pages fresh from the system cost more than the work that is done in them.

Tensors that were made once and are kept for the next call with the same arguments.

functools.lru_cache counts calls, not bytes: a few long windows in float64 would fill the memory.

Entries of a table as products: e^{i(a + b)w} = e^{iaw} e^{ibw}, the same bits by either method.

Vaswani et al. 2017, arXiv 1706.03762, section 3.5; Su et al. 2021, arXiv 2104.09864, section 3.2.2.

A product is made of correctly rounded elementary operations on float64 operands and rounded to the
wanted dtype once, so an entry depends on its operands alone: not on its place in memory, the size
of a tile or the number of threads.

Rows of a table, a block of positions at a time: few exact angles, one product per entry.

Vaswani et al. 2017, arXiv 1706.03762, section 3.5; Su et al. 2021, arXiv 2104.09864, section 3.2.2.

Only few positions need an exact angle, because e^{i(a + b)w} = e^{iaw} e^{ibw}: with fixed blocks of
positions, short float64 tables and one multiplication give every entry. Its operands are fixed by
the position alone, so an entry has the same bits in whatever table, window or batch it is computed.

Rows of the tables that the schemes' hooks use: made for any positions, kept where asked again.

A training loop asks for positions 0 .. t-1 at every step; those windows are kept, 64 MiB
of them at most. Under torch.compile nothing is kept: the rows become part of the graph.
"""

import functools
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence

import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor
from torch.nn.functional import pad

from posenc.device import float64_device
from posenc.errors import PositionOutOfRange, SchemeArgumentError
from posenc.frequencies import Frequencies, Layout, check_layout, exact_cos_sin
from posenc.limits import MAX_POSITION, check_table

KEPT_SCRATCH = 262_144  # float64 numbers of scratch that a thread keeps per use: 2 MiB


class _Kept(threading.local):
    """Scratch of this thread, by its use."""

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


class KeptTensors:
    """Results of functions by their arguments; those not asked for the longest leave first.

    most_bytes: of all tensors together; a result that is larger by itself is not kept.
    most_results: their number, because a small tensor takes more memory than its numbers do.
    Threads may share it: two that miss at once both make the result, and one of them is kept.
    """

    def __init__(self, most_bytes: int, most_results: int) -> None:
        self.most_bytes = most_bytes
        self.most_results = most_results
        self._results: OrderedDict[Hashable, tuple[Tensor, ...]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._results)

    def get(
        self, make: Callable[..., tuple[Tensor, ...]], *arguments: Hashable
    ) -> tuple[Tensor, ...]:
        """Return make(*arguments), kept from an earlier call if it still is."""
        key = (make, *arguments)
        with self._lock:
            found = self._results.get(key)
            if found is not None:
                self._results.move_to_end(key)
                return found
        made = make(*arguments)  # not under the lock: others need not wait for it
        size = _bytes_of(made)
        with self._lock:
            if key not in self._results and size <= self.most_bytes:
                self._results[key] = made
                self._bytes += size
                while self._bytes > self.most_bytes or len(self._results) > self.most_results:
                    _, oldest = self._results.popitem(last=False)
                    self._bytes -= _bytes_of(oldest)
        return made


def _bytes_of(tensors: tuple[Tensor, ...]) -> int:
    return sum(x.nbytes for x in tensors)


Operands = Sequence[Tensor]

# Sizes of scratch tensors, which change the speed and nothing else.
TILE_PAIRS = 131_072  # pairs of one tile of a table: 2 MiB
ACCELERATOR_TILES = 64  # an accelerator's tile in CPU tiles

_CUT = 2**29 - 1  # the bits that a float64 has and a float32 has not


def turn(
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


def castable(x: Float[Tensor, " *n"], dtype: torch.dtype) -> Float[Tensor, " *n"]:
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
    cos, sin = turn(cos_a, sin_a, cos_b, sin_b)
    return torch.equal(product.real, cos) and torch.equal(product.imag, sin)


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


class Separate:
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
        cos, sin = turn(coarse[0][:, None], coarse[1][:, None], fine[0], fine[1])
        return cos.flatten(0, 1), sin.flatten(0, 1)

    def fill(self, out: Operands, far: Operands, near: Operands) -> None:
        """Fill sines and cosines, (blocks, rows, pairs) each or (blocks, rows, pairs, 2) both."""
        out = out if len(out) == 2 else out[0].unbind(-1)
        entries = 2 * max(near[0].shape[1], min(self.pairs, out[0].numel()))
        scratch = scratch_numbers("tile", entries, near[0].device).view(2, -1)
        for (sine, cosine), (cos_a, sin_a), (cos_b, sin_b) in _tiles(out, far, near, self.pairs):
            direct, crossed = scratch[:, : sine.numel()].view(2, *sine.shape)
            torch.mul(sin_a, cos_b, out=direct).add_(torch.mul(cos_a, sin_b, out=crossed))
            sine.copy_(castable(direct, sine.dtype))
            torch.mul(cos_a, cos_b, out=direct).sub_(torch.mul(sin_a, sin_b, out=crossed))
            cosine.copy_(castable(direct, cosine.dtype))


class Packed:
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
            and 2 * pairs >= Packed.lanes
            and torch.get_num_threads() <= 4  # more threads on separate calls beat two on this
            and complex_product_is_elementary()
        )

    def far(self, cos: Tensor, sin: Tensor) -> Operands:
        """The same, as sin a + i cos a ..."""
        return (torch.complex(sin, cos),)

    def near(self, coarse: Operands, fine: Operands) -> Operands:
        """... and cos b - i sin b, in memory of this thread until its next call."""
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
            both = castable(torch.view_as_real(product), tile[0].dtype)[:, :, :pairs]
            for target, made in zip(tile, both.unbind(-1) if tile[1:] else (both,), strict=True):
                target.copy_(made)


def method_for(pairs: int, device: torch.device) -> Packed | Separate:
    """The faster method among those that are right for this ladder and device."""
    return Packed() if Packed.serves(pairs, device) else Separate(device)


# A position is (first of its block) + (multiple of STRIDE) + (0 .. STRIDE - 1). Both numbers are
# part of what a table's bits mean: fixed, with blocks counted from position 0.
BLOCK = 256
STRIDE = 16

# Sizes of scratch tensors, which change the speed and nothing else.
NEAR_PAIRS = 131_072  # pairs of the near rows made at once, and of far ones held: 2 MiB each
EXACT_PAIRS = 8_192  # pairs reduced at once: 64 KiB, below what malloc maps afresh every time
KEPT_PAIRS = 4_096  # widest ladder whose coarse and fine factors are kept: 2 MiB
KEPT_NEAR_PAIRS = 256  # widest ladder of which whole blocks are kept: 1 MiB


def _padded_limbs(
    frequencies: Frequencies, lanes: int, device: torch.device
) -> Int[Tensor, "3 width"]:
    return pad(frequencies.limbs.to(device), (0, -frequencies.pairs % lanes))


def _make_factors(
    frequencies: Frequencies, lanes: int, device: torch.device
) -> tuple[Operands, Operands]:
    """Cosine and sine at offsets 0, STRIDE, 2 STRIDE, ... of a block, and at 0 .. STRIDE - 1."""
    limbs = _padded_limbs(frequencies, lanes, device)
    coarse = torch.arange(0, BLOCK, STRIDE, device=device)
    return exact_cos_sin(coarse, limbs), exact_cos_sin(torch.arange(STRIDE, device=device), limbs)


_kept_factors = functools.lru_cache(maxsize=16)(_make_factors)


def _factors(
    frequencies: Frequencies, lanes: int, device: torch.device
) -> tuple[Operands, Operands]:
    make = _kept_factors if frequencies.pairs <= KEPT_PAIRS else _make_factors
    return make(frequencies, lanes, device)


@functools.lru_cache(maxsize=16)
@torch.inference_mode(False)
def _kept_near(frequencies: Frequencies, packed: bool, device: torch.device) -> Operands:
    """The near operands of a whole block, of a narrow ladder."""
    method = Packed() if packed else Separate(device)
    return tuple(x.clone() for x in method.near(*_factors(frequencies, method.lanes, device)))


def fill(out: Operands, start: int, frequencies: Frequencies) -> None:
    """Fill tables, of any strides, with the rows from position `start` on.

    out: sines and cosines, (length, pairs) each, or both in one (length, pairs, 2).
    """
    length, device = len(out[0]), out[0].device
    method = method_for(frequencies.pairs, device)
    limbs = _padded_limbs(frequencies, method.lanes, device)
    narrow = frequencies.pairs <= KEPT_NEAR_PAIRS
    coarse, fine = _factors(frequencies, method.lanes, device)
    few = max(1, EXACT_PAIRS // frequencies.pairs)  # blocks whose angles are reduced at once
    run = max(1, NEAR_PAIRS // frequencies.pairs)  # blocks whose far operands are held at once
    step = max(1, min(BLOCK, run) // STRIDE) * STRIDE  # rows whose near operands are
    row = 0
    while row < length:
        block, offset = divmod(start + row, BLOCK)
        rows = min(BLOCK - offset, length - row)  # of each block: fewer at the table's two ends
        blocks = min(run, (length - row) // BLOCK) if rows == BLOCK else 1
        at = torch.arange(block, block + blocks, device=device) * BLOCK
        parts = [method.far(*exact_cos_sin(at[i : i + few], limbs)) for i in range(0, blocks, few)]
        far = tuple(map(torch.cat, zip(*parts, strict=True))) if parts[1:] else parts[0]
        targets = [x[row : row + blocks * rows].unflatten(0, (blocks, rows)) for x in out]
        for first in range(offset // STRIDE * STRIDE, offset + rows, step):
            begin, end = max(first, offset), min(first + step, offset + rows)
            if narrow:
                near, origin = _kept_near(frequencies, method.lanes > 1, device), 0
            else:
                some = slice(first // STRIDE, -(-end // STRIDE))
                near, origin = method.near([x[some] for x in coarse], fine), first
            wanted = [x[begin - origin : end - origin] for x in near]
            method.fill([x[:, begin - offset : end - offset] for x in targets], far, wanted)
        row += blocks * rows


def consecutive(
    start: int, length: int, frequencies: Frequencies, dtype: torch.dtype, device: torch.device
) -> tuple[Float[Tensor, "length pairs"], Float[Tensor, "length pairs"]]:
    """Cosine and sine of the positions from `start` on."""
    cos = torch.empty(length, frequencies.pairs, dtype=dtype, device=device)
    sin = torch.empty_like(cos)
    fill((sin, cos), start, frequencies)
    return cos, sin


@functools.lru_cache(maxsize=16)
@torch.inference_mode(False)
def kept_block(
    frequencies: Frequencies, block: int, dtype: torch.dtype, device: torch.device
) -> tuple[Float[Tensor, "B pairs"], Float[Tensor, "B pairs"]]:
    """Cosine and sine of one whole block of a narrow ladder."""
    return consecutive(block * BLOCK, BLOCK, frequencies, dtype, device)


def scattered(
    positions: Int[Tensor, " n"], frequencies: Frequencies, dtype: torch.dtype
) -> tuple[Float[Tensor, "n pairs"], Float[Tensor, "n pairs"]]:
    """Cosine and sine of positions anywhere, each block's far factor made once."""
    cos = torch.empty(len(positions), frequencies.pairs, dtype=dtype, device=positions.device)
    sin = torch.empty_like(cos)
    limbs = frequencies.limbs.to(cos.device)
    (cos_c, sin_c), (cos_f, sin_f) = _factors(frequencies, 1, cos.device)
    many, few = max(1, NEAR_PAIRS // frequencies.pairs), max(1, EXACT_PAIRS // frequencies.pairs)
    for first in range(0, len(positions), many):
        chunk = positions[first : first + many]
        offsets = chunk & (BLOCK - 1)
        starts, block = torch.unique(chunk - offsets, return_inverse=True)
        parts = [exact_cos_sin(part, limbs) for part in starts.split(few)]
        cos_a, sin_a = (torch.cat(part) for part in zip(*parts, strict=True))
        for row in range(0, len(chunk), few):
            at, offset = block[row : row + few], offsets[row : row + few]
            coarse, fine = offset // STRIDE, offset % STRIDE
            cos_b, sin_b = turn(cos_c[coarse], sin_c[coarse], cos_f[fine], sin_f[fine])
            planes = turn(cos_a[at], sin_a[at], cos_b, sin_b)
            place = slice(first + row, first + row + len(at))
            cos[place], sin[place] = (castable(plane, dtype) for plane in planes)
    return cos, sin


DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def cos_sin(
    positions: Integer[Tensor, "*n"],
    frequencies: Frequencies,
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
        planes = exact_cos_sin(flat, frequencies.limbs.to(compute))
        cos, sin = (castable(plane, dtype).to(dtype) for plane in planes)
    elif (
        extent and frequencies.pairs <= KEPT_NEAR_PAIRS and extent[0] // BLOCK == extent[1] // BLOCK
    ):
        # Decoding asks for one position after the other, in every layer.
        kept = kept_block(frequencies, extent[0] // BLOCK, dtype, compute)
        cos, sin = (plane[flat & (BLOCK - 1)] for plane in kept)
    elif extent and extent[1] - extent[0] < len(flat):
        cos, sin = consecutive(extent[0], extent[1] - extent[0] + 1, frequencies, dtype, compute)
        at = flat - extent[0]
        if not torch.equal(at, torch.arange(len(cos), device=compute)):
            cos, sin = cos[at], sin[at]
    else:
        cos, sin = scattered(flat, frequencies, dtype)
    shape = (*positions.shape, frequencies.pairs)
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
    frequencies = Frequencies.geometric(dim, base)
    if torch.compiler.is_compiling():
        positions = torch.arange(start, start + length, device=device)
        cos, sin = cos_sin(positions, frequencies, dtype=dtype)
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
    fill((table.unflatten(1, (-1, 2)),) if layout == "interleaved" else halves, start, frequencies)
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
    frequencies = (
        Frequencies.geometric(dim, base)
        if inv_freq is None
        else Frequencies.from_inv_freq(inv_freq)
    )
    if frequencies.pairs != dim // 2:
        raise SchemeArgumentError(
            f"inv_freq must hold dim // 2 = {dim // 2} frequencies, got {frequencies.pairs}."
        )
    positions = torch.arange(start, start + length, device=device)
    return cos_sin(positions, frequencies, dtype=dtype)


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


_LARGEST_KEPT = 2**20  # entries of one kept table: 4 MiB in float32
_COSINE_TILE = 2**20  # cosines, or sums of consecutive offsets, in memory at once

WINDOWS = KeptTensors(most_bytes=64 * 2**20, most_results=32)


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
        return _scaled_rows(positions.to(device), frequencies, dtype, scale)
    if torch.compiler.is_compiling() or positions * frequencies.pairs > _LARGEST_KEPT:
        return _scaled_rows(torch.arange(positions, device=device), frequencies, dtype, scale)
    cos, sin = WINDOWS.get(_rotary_window, positions, frequencies, dtype, device, scale)
    return cos, sin


def sinusoidal_rows(
    positions: int | Int[Tensor, " *n"],
    frequencies: Frequencies,
    *,
    layout: str,
    dtype: torch.dtype,
    device: torch.device,
) -> Float[Tensor, "*n d"]:
    """Return sinusoidal rows; a whole number n stands for positions 0 .. n-1."""
    if not isinstance(positions, int) or torch.compiler.is_compiling():
        return _joined(*rotary_rows(positions, frequencies, dtype=dtype, device=device), layout)
    if positions * frequencies.pairs > _LARGEST_KEPT:
        return _joined(*rotary_rows(positions, frequencies, dtype=dtype, device=device), layout)
    return WINDOWS.get(_sinusoidal_window, positions, frequencies, layout, dtype, device)[0]


def cosine_sum(offsets: Int[Tensor, " *n"], frequencies: Frequencies) -> Float[Tensor, " *n"]:
    """Return the sum over pairs of cos(offset * theta), float64, error about 1e-16 per pair.

    Consecutive offsets are one matrix product of two short tables:
    cos(a + b)w = cos(aw) cos(bw) - sin(aw) sin(bw), with a in steps of the number of b.
    """
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
    if positions.device.type != "cpu" or len(positions) < 2:
        return False
    return bool((positions.diff() == 1).all())


def _joined(cos: Tensor, sin: Tensor, layout: str) -> Tensor:
    if layout == "interleaved":
        return torch.stack((sin, cos), dim=-1).flatten(-2)
    return torch.cat((sin, cos), dim=-1)


def _scaled_rows(
    positions: Tensor, frequencies: Frequencies, dtype: torch.dtype, scale: float
) -> tuple[Tensor, Tensor]:
    if scale == 1:
        return cos_sin(positions, frequencies, dtype=dtype)
    # Multiplied in float64, which the device may not have, and rounded once.
    place = float64_device(positions.device)
    planes = cos_sin(positions.to(place), frequencies, dtype=torch.float64)
    cos, sin = ((scale * plane).to(dtype).to(positions.device) for plane in planes)
    return cos, sin


def _rotary_window(
    count: int, frequencies: Frequencies, dtype: torch.dtype, device: torch.device, scale: float
) -> tuple[Tensor, Tensor]:
    # Outside inference mode, because a tensor made inside it could never enter a training step.
    with torch.inference_mode(False), torch.no_grad():
        return _scaled_rows(torch.arange(count, device=device), frequencies, dtype, scale)


def _sinusoidal_window(
    count: int, frequencies: Frequencies, layout: str, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor]:
    with torch.inference_mode(False), torch.no_grad():
        rows = cos_sin(torch.arange(count, device=device), frequencies, dtype=dtype)
        return (_joined(*rows, layout),)
