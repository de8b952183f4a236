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
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.errors import PositionOutOfRange, SchemeArgumentError
from posenc.limits import MAX_DIM, MAX_POSITION, check_base, check_table, check_width

TableLayout = Literal["interleaved", "half"]

BLOCK = 64  # rows of the short table; a fixed value, because blocks begin at multiples of it
TILE_ENTRIES = 65_536  # float64 entries of one scratch tile: 0.5 MiB
FLOAT_DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)

_MASK = 2**32 - 1
_FRACTION_BITS = 96
_PI_BITS = 1_280  # enough to reduce the largest float64 modulo one turn
_LADDERS_KEPT = 64


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
    positions: Int[Tensor, "*n"], limbs: Int[Tensor, "3 pairs"]
) -> tuple[Float[Tensor, "*n pairs"], Float[Tensor, "*n pairs"]]:
    """Float64 cosine and sine of position * theta, the angle reduced exactly; |position| < 2^31."""
    p = positions.to(torch.int64).unsqueeze(-1)
    # A limb is below 2^32, so each product and sum stays inside a signed 64-bit number; shifts
    # floor, which makes the carries right for negative positions too.
    low = p * limbs[2]
    mid = p * limbs[1] + (low >> 32)
    high = ((p * limbs[0] & _MASK) + (mid >> 32)) & _MASK
    high = (high ^ 2**31) - 2**31  # centred: the turn lies in [-1/2, 1/2)
    turn = ((high << 32) + (mid & _MASK)).double() * 2.0**-64 + (low & _MASK).double() * 2.0**-96
    angle = turn * (2 * math.pi)
    return torch.cos(angle), torch.sin(angle)


def _round_once(x: Float[Tensor, "*n"], dtype: torch.dtype) -> Float[Tensor, "*n"]:
    """Round float64 to `dtype` once.

    torch casts float64 to a 16-bit type through float32, which rounds twice; rounding to odd in
    between (truncate, then set the last kept bit if anything was lost) makes the pair one rounding.
    """
    if dtype in (torch.bfloat16, torch.float16):
        bits = x.contiguous().view(torch.int64)
        lost = bits & (2**29 - 1)
        x = ((bits ^ lost) | ((lost + (2**29 - 1)) & 2**29)).view(torch.float64).float()
    return x.to(dtype)


def _check_dtype(dtype: torch.dtype) -> None:
    if dtype not in FLOAT_DTYPES:
        raise SchemeArgumentError(
            f"dtype must be float32, float64, bfloat16 or float16, got {dtype}."
        )


def _compute_device(device: torch.device) -> torch.device:
    """Where float64 exists: MPS has none, so its tables are computed on the CPU and moved."""
    return torch.device("cpu") if device.type == "mps" else device


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
    """
    _check_dtype(dtype)
    if positions.is_floating_point() or positions.is_complex() or positions.dtype == torch.bool:
        raise SchemeArgumentError(f"positions must be integers, got {positions.dtype}.")
    target = positions.device if device is None else torch.device(device)
    compute = _compute_device(target)
    if torch.compiler.is_compiling():
        cos, sin = _exact_cos_sin(positions.to(compute), phases.limbs.to(compute))
    else:
        if positions.device.type == "cpu" and positions.numel():
            low, high = (int(end) for end in torch.aminmax(positions))
            if max(high, -low) > MAX_POSITION:
                raise PositionOutOfRange(
                    f"positions must lie from {-MAX_POSITION:,} to {MAX_POSITION:,}, "
                    f"got {low:,} to {high:,}.",
                    limit=MAX_POSITION,
                )
        p = positions.to(device=compute, dtype=torch.int64)
        limbs = phases.limbs.to(compute)
        cos_a, sin_a = _exact_cos_sin(p & -BLOCK, limbs)
        cos_b, sin_b = _exact_cos_sin(torch.arange(BLOCK, device=compute), limbs)
        cos_b, sin_b = cos_b[p & BLOCK - 1], sin_b[p & BLOCK - 1]
        cos = cos_a * cos_b - sin_a * sin_b
        sin = sin_a * cos_b + cos_a * sin_b
    return _round_once(cos, dtype).to(target), _round_once(sin, dtype).to(target)


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
    out: a (length, dim) tensor to fill; dtype and device are then its own.
    Returns (length, dim), each entry within 0.5001 ulp. Raises SchemeArgumentError.
    """
    check_table(length, dim, start)
    phases = Phases.geometric(dim, base)
    if layout not in ("interleaved", "half"):
        raise SchemeArgumentError(f'layout must be "interleaved" or "half", got {layout!r}.')
    cos, sin = cos_sin(torch.arange(start, start + length), phases, dtype=dtype, device=device)
    table = torch.stack((sin, cos), -1).flatten(1) if layout == "interleaved" else torch.cat((sin, cos), -1)
    return table if out is None else out.copy_(table)


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
    Raises SchemeArgumentError.
    """
    check_table(length, dim, start)
    phases = Phases.geometric(dim, base) if inv_freq is None else Phases.given(inv_freq)
    if phases.pairs != dim // 2:
        raise SchemeArgumentError(
            f"inv_freq must hold dim // 2 = {dim // 2} frequencies, got {phases.pairs}."
        )
    return cos_sin(torch.arange(start, start + length), phases, dtype=dtype, device=device)
