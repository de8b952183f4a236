"""Claims about the entries of the sinusoidal table: unique, bounded, and how to compute them.

Vaswani et al. 2017, arXiv 1706.03762, section 3.5.
"""

import functools
import math

import torch
from torch import Tensor

from posenc.claims.claim import Number, State, Verdict, figure, share
from posenc.phases import Phases
from posenc.setting import Setting
from posenc.tables import cos_sin, sinusoidal_table

MOST_POSITIONS = 4_096
MOST_ENTRIES = 2**21  # of one table: a tenth of a second


def unique(setting: Setting) -> Verdict:
    """Count the rows of the table, as the precision holds them, that no other row repeats."""
    dtype = setting.table_dtype or torch.float32
    count = examined(setting)
    rows = distinct_rows(_table(count, setting.dim, setting.base, dtype))
    positions = torch.arange(count).to(dtype).unique().numel()
    found = (
        Number("different rows", rows, f"of {count:,}"),
        Number(f"different positions in {setting.precision}", positions, f"of {count:,}"),
    )
    said = (
        f"Of the first {count:,} rows in {setting.precision}, {rows:,} differ; positions that are "
        f"themselves counted in {setting.precision} leave {positions:,} different ones."
    )
    if rows < count:
        return Verdict(State.FALSE, found, said)
    return Verdict(State.HOLDS if positions == count else State.PARTLY, found, said)


def bounded(setting: Setting) -> Verdict:
    """Take the entry of the table that is largest in size, against that of unbounded numbers."""
    dtype = setting.table_dtype or torch.float32
    count = examined(setting)
    low, high = _table(count, setting.dim, setting.base, dtype).aminmax()
    largest = max(-low.item(), high.item())
    draw = torch.Generator().manual_seed(setting.seed)
    tokens = torch.randn(MOST_POSITIONS, 2, generator=draw).abs().max().item()
    return Verdict(
        State.THEOREM if largest <= 1 else State.FALSE,
        (Number("largest entry in size", largest),),
        f"Over the first {count:,} positions in {setting.precision} no entry exceeds "
        f"{figure(largest)} in size: a sine and a cosine cannot.",
        Number(f"largest of {2 * MOST_POSITIONS:,} entries of token embeddings N(0, 1)", tokens),
    )


def overflow(setting: Setting) -> Verdict:
    """Count the powers of the base that are larger than the largest number of the precision."""
    dtype = setting.table_dtype or torch.float32
    exponents = torch.arange(0, setting.dim, 2, dtype=torch.float64) / setting.dim
    powers = setting.base**exponents
    ceiling = torch.finfo(dtype).max
    lost = int((powers > ceiling).sum())
    top = powers[-1].item()
    itself = ", though the base itself does" if setting.base > ceiling and not lost else ""
    return Verdict(
        State.HOLDS if lost else State.FALSE,
        (
            Number("powers that overflow", lost, f"of {len(powers):,}"),
            Number("largest power", top),
            Number(f"largest {setting.precision} number", ceiling),
        ),
        f"The largest power of {figure(setting.base)} is {figure(top)}; {setting.precision} reaches "
        f"{figure(ceiling)}, so {share(lost, len(powers))} overflow{itself}.",
    )


def exp_of_log(setting: Setting) -> Verdict:
    """Compare both ways to the frequencies in float32 with the exact ladder, and their tables."""
    if setting.dim == 2:
        return Verdict(State.UNDECIDED, (), "The one frequency is 1 either way.")
    phases = Phases.geometric(setting.dim, setting.base)
    steps = torch.arange(0, setting.dim, 2, dtype=torch.float32)
    by_log = torch.exp(steps * (-math.log(setting.base) / setting.dim))
    by_power = setting.base ** -(steps / setting.dim)
    worst_log, worst_power = (ladder_error(way, phases.inv_freq) for way in (by_log, by_power))
    count = min(MOST_POSITIONS, MOST_ENTRIES // setting.dim)
    at = torch.arange(count)
    exact, _ = cos_sin(at, phases, dtype=torch.float64)
    table_log, table_power = (
        (torch.cos(at.float()[:, None] * way) - exact).abs().max().item()
        for way in (by_log, by_power)
    )
    return Verdict(
        State.HOLDS if worst_log < worst_power else State.FALSE,
        (
            Number("worst frequency by exp of log", worst_log, "eps"),
            Number("worst frequency by power", worst_power, "eps"),
            Number("worst cosine by exp of log", table_log),
            Number("worst cosine by power", table_power),
        ),
        f"In float32 the frequencies are off by up to {figure(worst_log)} eps by exp of log and "
        f"{figure(worst_power)} by power; over {count:,} positions the cosines are off by up to "
        f"{figure(table_log)} and {figure(table_power)}, the rounding of the angles in float32 with it.",
    )


def examined(setting: Setting) -> int:
    """Return how many positions are looked at: 4,096, fewer of a wide table."""
    return min(MOST_POSITIONS, MOST_ENTRIES // setting.dim)


@functools.lru_cache(maxsize=1)  # two claims look at the same table
def _table(count: int, dim: int, base: float, dtype: torch.dtype) -> Tensor:
    return sinusoidal_table(count, dim, base, dtype=dtype)


def distinct_rows(table: Tensor) -> int:
    """Return how many rows differ, bit for bit but for the sign of zero."""
    rows = (table + 0.0).contiguous().view(torch.uint8).numpy()
    return len({row.tobytes() for row in rows})


def ladder_error(ladder: Tensor, exact: Tensor) -> float:
    """Return the worst relative error of float32 frequencies, in float32's eps."""
    eps = torch.finfo(torch.float32).eps
    return ((ladder.double() / exact - 1).abs().max() / eps).item()
