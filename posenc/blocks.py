"""Rows of a table, a block of positions at a time: few exact angles, one product per entry.

Vaswani et al. 2017, arXiv 1706.03762, section 3.5; Su et al. 2021, arXiv 2104.09864, section 3.2.2.

Only few positions need an exact angle, because e^{i(a + b)w} = e^{iaw} e^{ibw}: with fixed blocks of
positions, short float64 tables and one multiplication give every entry. Its operands are fixed by
the position alone, so an entry has the same bits in whatever table, window or batch it is computed.
"""

import functools

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from posenc.phases import Phases, exact_cos_sin
from posenc.products import Operands, Packed, Separate, castable, method_for, turn

# A position is (first of its block) + (multiple of STRIDE) + (0 .. STRIDE - 1). Both numbers are
# part of what a table's bits mean: fixed, with blocks counted from position 0.
BLOCK = 256
STRIDE = 16

# Sizes of scratch tensors, which change the speed and nothing else.
NEAR_PAIRS = 131_072  # pairs of the near rows made at once, and of far ones held: 2 MiB each
EXACT_PAIRS = 8_192  # pairs reduced at once: 64 KiB, below what malloc maps afresh every time
KEPT_PAIRS = 4_096  # widest ladder whose coarse and fine factors are kept: 2 MiB
KEPT_NEAR_PAIRS = 256  # widest ladder of which whole blocks are kept: 1 MiB


def _padded_limbs(phases: Phases, lanes: int, device: torch.device) -> Int[Tensor, "3 width"]:
    return pad(phases.limbs.to(device), (0, -phases.pairs % lanes))


def _make_factors(phases: Phases, lanes: int, device: torch.device) -> tuple[Operands, Operands]:
    """Cosine and sine at offsets 0, STRIDE, 2 STRIDE, ... of a block, and at 0 .. STRIDE - 1."""
    limbs = _padded_limbs(phases, lanes, device)
    coarse = torch.arange(0, BLOCK, STRIDE, device=device)
    return exact_cos_sin(coarse, limbs), exact_cos_sin(torch.arange(STRIDE, device=device), limbs)


_kept_factors = functools.lru_cache(maxsize=16)(_make_factors)


def _factors(phases: Phases, lanes: int, device: torch.device) -> tuple[Operands, Operands]:
    make = _kept_factors if phases.pairs <= KEPT_PAIRS else _make_factors
    return make(phases, lanes, device)


@functools.lru_cache(maxsize=16)
@torch.inference_mode(False)
def _kept_near(phases: Phases, packed: bool, device: torch.device) -> Operands:
    """The near operands of a whole block, of a narrow ladder."""
    method = Packed() if packed else Separate(device)
    return tuple(x.clone() for x in method.near(*_factors(phases, method.lanes, device)))


def fill(out: Operands, start: int, phases: Phases) -> None:
    """Fill tables, of any strides, with the rows from position `start` on.

    out: sines and cosines, (length, pairs) each, or both in one (length, pairs, 2).
    """
    length, device = len(out[0]), out[0].device
    method = method_for(phases.pairs, device)
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
        parts = [method.far(*exact_cos_sin(at[i : i + few], limbs)) for i in range(0, blocks, few)]
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


def consecutive(
    start: int, length: int, phases: Phases, dtype: torch.dtype, device: torch.device
) -> tuple[Float[Tensor, "length pairs"], Float[Tensor, "length pairs"]]:
    """Cosine and sine of the positions from `start` on."""
    cos = torch.empty(length, phases.pairs, dtype=dtype, device=device)
    sin = torch.empty_like(cos)
    fill((sin, cos), start, phases)
    return cos, sin


@functools.lru_cache(maxsize=16)
@torch.inference_mode(False)
def kept_block(
    phases: Phases, block: int, dtype: torch.dtype, device: torch.device
) -> tuple[Float[Tensor, "B pairs"], Float[Tensor, "B pairs"]]:
    """Cosine and sine of one whole block of a narrow ladder."""
    return consecutive(block * BLOCK, BLOCK, phases, dtype, device)


def scattered(
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
