"""Entries of a table as products: e^{i(a + b)w} = e^{iaw} e^{ibw}, the same bits by either method.

Vaswani et al. 2017, arXiv 1706.03762, section 3.5; Su et al. 2021, arXiv 2104.09864, section 3.2.2.

A product is made of correctly rounded elementary operations on float64 operands and rounded to the
wanted dtype once, so an entry depends on its operands alone: not on its place in memory, the size
of a tile or the number of threads.
"""

import functools
import math
from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.scratch import scratch_numbers

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
