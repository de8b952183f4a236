"""Claims about learned tables: what they are, and where they end.

Gehring et al. 2017, arXiv 1705.03122; Devlin et al. 2018, arXiv 1810.04805.

Claims about the ladder of frequencies: who turns fast, how long the slowest takes.

Vaswani et al. 2017, arXiv 1706.03762, section 3.5: pair m turns by base^(-2m/d) radians per position.

Claims about the entries of the sinusoidal table: unique, bounded, and how to compute them.

Vaswani et al. 2017, arXiv 1706.03762, section 3.5.
"""

import functools
import math

import torch
from torch import Tensor
from torch.nn import functional

from posenc.analysis import spectrum
from posenc.claims.claim import Number, State, Verdict, figure, share, sinusoidal
from posenc.errors import PositionOutOfRange
from posenc.frequencies import Frequencies
from posenc.schemes.learned import Learned
from posenc.settings import Setting
from posenc.tables import cos_sin, sinusoidal_table
from posenc.text import counted

ABOUT = 0.01  # share of the number itself that "about" may be off
LINEAR = 10_000  # positions below which all pairs are said to be nearly linear


def fast_to_slow(setting: Setting) -> Verdict:
    """Count the features that turn faster than the one before them, in the layout at hand."""
    turning = feature_frequencies(setting)
    if len(ladder(setting)) == 1:
        return Verdict(
            State.UNDECIDED, (), "There is one pair only, so nothing to compare it with."
        )
    risen = int((turning[1:] > turning[:-1]).sum())
    layout = setting.config("sinusoidal").build().pair_layout
    start = int((turning[1:] > turning[:-1]).nonzero()[0]) + 1 if risen else None
    again = f"; feature {start:,} starts again with the fastest" if start is not None else ""
    return Verdict(
        State.FALSE if risen else State.HOLDS,
        (
            Number("features faster than the one before", risen, f"of {len(turning) - 1:,}"),
            Number("first over last pair", (turning.max() / turning.min()).item(), "times"),
        ),
        f"In the {layout} layout {share(risen, len(turning) - 1)} features turn faster than the one "
        f"before{again}. The first pair turns {figure((turning.max() / turning.min()).item())} times "
        "as fast as the last.",
    )


def own_frequency(setting: Setting) -> Verdict:
    """Count the different frequencies among the features."""
    turning = feature_frequencies(setting)
    different = turning.unique().numel()
    # As if every feature had a rung of its own on the same ladder: there the sentence is true.
    own = Frequencies.geometric(2 * setting.dim, setting.base).inv_freq.unique().numel()
    return Verdict(
        State.HOLDS if different == len(turning) else State.FALSE,
        (Number("different frequencies", different, f"of {len(turning):,} dimensions"),),
        f"{setting.dim:,} dimensions share {counted(different, 'rung')} of the ladder, a sine and a cosine "
        "each.",
        Number(
            "different frequencies of a ladder with a rung per dimension",
            own,
            f"of {len(turning):,} dimensions",
        ),
    )


def slowest(setting: Setting) -> Verdict:
    """Take the slowest wavelength, against 2 pi times the base."""
    found = spectrum(ladder(setting)).wavelengths[-1].item()
    said = 2 * math.pi * setting.base
    gap = abs(said / found - 1)
    # tensor2tensor divides by the number of steps between pairs, of which one pair has none.
    whose = " is tensor2tensor's ladder," if setting.dim > 2 else " is"
    return Verdict(
        State.HOLDS if gap <= ABOUT else State.FALSE,
        (
            Number("slowest wavelength", found, "positions"),
            Number("2 pi times the base", said, "positions"),
        ),
        f"At width {setting.dim:,} and base {figure(setting.base)} the printed formula ends at "
        f"{figure(found)} positions; {figure(said)}, 2 pi times the base,{whose} "
        f'{figure(100 * (said / found - 1))}% longer. Here "about" means within {ABOUT:.0%}.',
    )


def nearly_linear(setting: Setting) -> Verdict:
    """Count the pairs that stay under one radian, and under a quarter turn, in 10,000 positions."""
    found = spectrum(ladder(setting), LINEAR)
    pairs = len(found.inv_freq)
    under, quarter = found.under_one_radian, found.under_quarter_turn
    over = found.over_full_turn
    assert under is not None
    assert quarter is not None
    assert over is not None
    return Verdict(
        State.HOLDS if under == pairs else State.PARTLY if under else State.FALSE,
        (
            Number("pairs under one radian", under, f"of {pairs:,}"),
            Number("pairs under a quarter turn", quarter, f"of {pairs:,}"),
            Number("pairs over a full turn", over, f"of {pairs:,}"),
        ),
        f"Of {counted(pairs, 'pair')}, this many stay within {LINEAR:,} positions under one radian: "
        f"{under:,}; under a quarter turn: {quarter:,}. Beyond a full turn: {over:,}.",
    )


def hour_hand(setting: Setting) -> Verdict:
    """Count the turns of the slowest pair within the training length."""
    found = spectrum(ladder(setting), setting.train_length)
    assert found.turns is not None
    pairs, slow = len(found.turns), found.turns[-1].item()
    done = int((found.turns >= 1).sum())
    return Verdict(
        State.HOLDS if slow < 1 else State.FALSE,
        (
            Number("turns of the slowest pair", slow, "turns"),
            Number("pairs that complete a turn", done, f"of {pairs:,}"),
            Number("pairs that never do", pairs - done, f"of {pairs:,}"),
        ),
        f"Over a training length of {setting.train_length:,} the slowest pair makes {figure(slow)} "
        f"turns. Of {counted(pairs, 'pair')}, this many complete one: {done:,}; do not: "
        f"{pairs - done:,}.",
    )


def ladder(setting: Setting) -> Tensor:
    """Return the inverse frequencies of the sinusoidal table, (d / 2,), radians per position."""
    return Frequencies.geometric(setting.dim, setting.base).inv_freq


def feature_frequencies(setting: Setting) -> Tensor:
    """Return the frequency of every feature in the order in which the table holds them, (d,)."""
    pairs = ladder(setting)
    if setting.config("sinusoidal").build().pair_layout == "half":
        return torch.cat((pairs, pairs))
    return pairs.repeat_interleave(2)


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
    frequencies = Frequencies.geometric(setting.dim, setting.base)
    steps = torch.arange(0, setting.dim, 2, dtype=torch.float32)
    by_log = torch.exp(steps * (-math.log(setting.base) / setting.dim))
    by_power = setting.base ** -(steps / setting.dim)
    worst_log, worst_power = (ladder_error(way, frequencies.inv_freq) for way in (by_log, by_power))
    count = min(MOST_POSITIONS, MOST_ENTRIES // setting.dim)
    at = torch.arange(count)
    exact, _ = cos_sin(at, frequencies, dtype=torch.float64)
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


MOST_ROWS = 256


def one_hot(setting: Setting) -> Verdict:
    """Look rows of the learned table up, and multiply one-hot vectors by it."""
    table = learned(setting).weight.detach().double()[:MOST_ROWS]
    if setting.table_dtype is not None:
        table = table.to(setting.table_dtype).double()
    rows = len(table)
    looked_up = functional.embedding(torch.arange(rows), table)
    multiplied = functional.linear(torch.eye(rows, dtype=torch.float64), table.T)
    if not bool(table.isfinite().all()):
        said = "The table holds entries that are not finite, and 0 times infinity is no number."
        return Verdict(State.FALSE, (Number("largest difference", None),), said)
    gap = (looked_up - multiplied).abs().max().item()
    draw = torch.Generator().manual_seed(setting.seed)
    bias = (torch.rand(table.shape[1], generator=draw) * 2 - 1) / math.sqrt(rows)
    return Verdict(
        State.THEOREM if gap == 0 else State.FALSE,
        (Number("largest difference", gap),),
        f"Over {counted(rows, 'row')} of width {table.shape[1]:,}, looking up and multiplying one-hot "
        f"vectors differ by {figure(gap)}: the same numbers, without the zeros.",
        Number("difference of nn.Linear with its default bias", bias.abs().max().item()),
    )


def ends(setting: Setting) -> Verdict:
    """Ask the learned table for the row past its last; the sinusoidal formula must have it."""
    scheme = learned(setting)
    rows = scheme.config.max_len
    at = torch.tensor([rows])
    token = torch.zeros(1, 1, scheme.config.dim)
    try:
        scheme.embed(token, at)
    except PositionOutOfRange as refused:
        state, limit = State.THEOREM, refused.limit
    else:
        state, limit = State.FALSE, rows
    formula = sinusoidal(setting)
    norm = formula.embed(torch.zeros(1, 1, setting.dim), at).norm().item()
    return Verdict(
        state,
        (Number("rows of the table", limit, "row" if limit == 1 else "rows"),),
        f"This table ({scheme.provenance}) has {counted(limit, 'row')} of width "
        f"{scheme.config.dim:,}, from position 0; asking for position {rows:,} is an error.",
        Number(f"norm of the sinusoidal row at {rows:,}, which exists", norm),
    )


def learned(setting: Setting) -> Learned:
    """Return the learned table of a setting."""
    scheme = setting.config("learned").build(seed=setting.seed)
    assert isinstance(scheme, Learned)
    return scheme
