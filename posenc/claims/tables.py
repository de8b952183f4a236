"""Claims about tables: entries and wavelengths of the sinusoidal one, rows of the learned one.

Vaswani et al. 2017, arXiv 1706.03762, section 3.5: pair m rotates by base^(-2m/d) radians per
position. Gehring et al. 2017, arXiv 1705.03122; Devlin et al. 2018, arXiv 1810.04805.
"""

import functools
import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from posenc.analysis import spectrum
from posenc.claims import proofs
from posenc.claims.claim import (
    TABLE,
    VASWANI,
    Number,
    Status,
    Verdict,
    claim,
    figure,
    fraction,
    randn,
    sinusoidal,
    undecided,
)
from posenc.errors import PositionOutOfRange
from posenc.frequencies import Frequencies
from posenc.schemes.learned import Learned
from posenc.schemes.sizes import Sizes
from posenc.tables import cos_sin, sinusoidal_table
from posenc.text import count_of

ONE_PERCENT = 0.01  # "about" allows this relative difference
LINEAR = 10_000  # positions below which all pairs are said to be nearly linear
MAX_POSITIONS = 4_096
MAX_ENTRIES = 2**21  # of one table, which takes a tenth of a second
MAX_ROWS = 256  # of a learned table


def table_dtype(sizes: Sizes) -> torch.dtype:
    """Return the dtype in which tables are stored."""
    return sizes.dtype or torch.float32


def position_count(sizes: Sizes) -> int:
    """Return how many positions of the table are examined: 4,096, fewer of a wide table."""
    return min(MAX_POSITIONS, MAX_ENTRIES // sizes.dim)


@functools.lru_cache(maxsize=1)  # two claims examine the same table
def _table(count: int, dim: int, base: float, dtype: torch.dtype) -> Tensor:
    return sinusoidal_table(count, dim, base, dtype=dtype)


def distinct_rows(table: Float[Tensor, "n d"]) -> int:
    """Return how many rows differ, bit for bit except for the sign of zero."""
    rows = (table + 0.0).contiguous().view(torch.uint8).numpy()
    return len({row.tobytes() for row in rows})


@claim(
    "Every position has a unique vector.",
    theme="values",
    source=f"Tutorials on {VASWANI}, section 3.5",
    steps=(distinct_rows,),
    uses=TABLE,
)
def unique(sizes: Sizes) -> Verdict:
    """Count the different rows of the table in the precision asked for."""
    dtype, count = table_dtype(sizes), position_count(sizes)
    rows = distinct_rows(_table(count, sizes.dim, sizes.base, dtype))
    positions = torch.arange(count).to(dtype).unique().numel()
    status = Status.HOLDS if positions == count else Status.PARTLY
    return Verdict(
        Status.FALSE if rows < count else status,
        (
            Number("different rows", rows, f"of {count:,}"),
            Number(f"different positions in {sizes.precision}", positions, f"of {count:,}"),
        ),
        f"{rows:,} of the first {count:,} rows in {sizes.precision} are different. Position numbers that "
        f"are stored in {sizes.precision} have {positions:,} different values.",
    )


@claim(
    "The values lie in [-1, 1].",
    theme="values",
    source=f"Tutorials on {VASWANI}, section 3.5",
    uses=(*TABLE, "seed"),
    proof=proofs.BOUNDED,
)
def bounded(sizes: Sizes) -> Verdict:
    """Compare the largest entry of the table with that of normally distributed numbers."""
    count = position_count(sizes)
    table = _table(count, sizes.dim, sizes.base, table_dtype(sizes))
    largest = table.abs().max().item()
    tokens = randn(sizes.seed, MAX_POSITIONS, 2, dtype=torch.float32).abs().max().item()
    return Verdict(
        Status.THEOREM if largest <= 1 else Status.FALSE,
        (Number("largest absolute value", largest),),
        f"The largest entry of the first {count:,} positions is {figure(largest)} in size, in "
        f"{sizes.precision}.",
        Number(f"largest of {2 * MAX_POSITIONS:,} entries of token embeddings N(0, 1)", tokens),
    )


@claim(
    "The powers of the base, 10,000, overflow when they are computed directly.",
    theme="values",
    source=f"Comments in code for {VASWANI}; the formula of section 3.5 decides",
    uses=TABLE,
)
def overflow(sizes: Sizes) -> Verdict:
    """Count the powers of the base that exceed the largest number of the precision."""
    exponents = torch.arange(0, sizes.dim, 2, dtype=torch.float64) / sizes.dim
    powers = sizes.base**exponents
    limit = torch.finfo(table_dtype(sizes)).max
    count, top = int((powers > limit).sum()), powers[-1].item()
    base = ", though the base itself does" if sizes.base > limit and not count else ""
    return Verdict(
        Status.HOLDS if count else Status.FALSE,
        (
            Number("powers that overflow", count, f"of {len(powers):,}"),
            Number("largest power", top),
            Number(f"largest {sizes.precision} number", limit),
        ),
        f"The largest power of {figure(sizes.base)} is {figure(top)}. The largest {sizes.precision} "
        f"number is {figure(limit)}. Powers that overflow: {fraction(count, len(powers))}{base}.",
    )


def frequency_error(inv_freq: Float[Tensor, " pairs"], exact: Float[Tensor, " pairs"]) -> float:
    """Return the largest error of float32 frequencies, as a share of each exact one."""
    return (inv_freq.double() / exact - 1).abs().max().item()


@claim(
    "Frequencies are more accurate as the exp of a log than as a power.",
    theme="values",
    source=f"Comments in code for {VASWANI}; the formula of section 3.5 decides",
    steps=(frequency_error,),
)
def exp_of_log(sizes: Sizes) -> Verdict:
    """Compare frequencies computed both ways in float32, and their tables, with the exact ones."""
    if sizes.dim == 2:
        return undecided("The one frequency is 1 either way.")
    frequencies = Frequencies.geometric(sizes.dim, sizes.base)
    steps = torch.arange(0, sizes.dim, 2, dtype=torch.float32)
    by_log = torch.exp(steps * (-math.log(sizes.base) / sizes.dim))
    by_power = sizes.base ** -(steps / sizes.dim)
    log_error, power_error = (frequency_error(x, frequencies.inv_freq) for x in (by_log, by_power))
    positions = torch.arange(position_count(sizes))
    exact, _ = cos_sin(positions, frequencies, dtype=torch.float64)
    log_cosine, power_cosine = (
        (torch.cos(positions.float()[:, None] * x) - exact).abs().max().item()
        for x in (by_log, by_power)
    )
    return Verdict(
        Status.HOLDS if log_error < power_error else Status.FALSE,
        (
            Number(
                "error of a frequency by exp of log over that by power",
                log_error / power_error if power_error else None,
                "times",
            ),
            Number("largest error of a frequency by exp of log", log_error, "of its value"),
            Number("largest error of a frequency by power", power_error, "of its value"),
            Number("largest cosine error by exp of log", log_cosine),
            Number("largest cosine error by power", power_cosine),
        ),
        f"In float32 a frequency is off by up to {figure(log_error)} of its value by exp of log, and by up "
        f"to {figure(power_error)} by power. Neighbouring float32 numbers differ by "
        f"{figure(torch.finfo(torch.float32).eps)} near 1. Over {len(positions):,} positions the cosines "
        f"are off by up to {figure(log_cosine)} and {figure(power_cosine)}, the rounding of the angles "
        "included.",
    )


def pair_frequencies(sizes: Sizes) -> Float[Tensor, " pairs"]:
    """Return the frequencies of the sinusoidal table, radians per position, pair 0 the fastest."""
    return Frequencies.geometric(sizes.dim, sizes.base).inv_freq


def feature_frequencies(sizes: Sizes) -> Float[Tensor, " d"]:
    """Return the frequency of every feature, in the order of the table's columns."""
    pairs = pair_frequencies(sizes)
    if sizes.config("sinusoidal").build().pair_layout == "half":
        return torch.cat((pairs, pairs))
    return pairs.repeat_interleave(2)


@claim(
    "Low dimensions turn fast, high ones slowly.",
    theme="wavelengths",
    source=f"{VASWANI}, section 3.5",
    steps=(feature_frequencies,),
    uses=("dim", "base", "sinusoidal.layout"),
)
def fast_to_slow(sizes: Sizes) -> Verdict:
    """Count the features that rotate faster than the feature before them."""
    if sizes.dim == 2:
        return undecided("There is one pair only, so nothing to compare it with.")
    features = feature_frequencies(sizes)
    count = len(features) - 1
    faster = (features[1:] > features[:-1]).nonzero().flatten().tolist()
    ratio = (features.max() / features.min()).item()
    layout = sizes.config("sinusoidal").build().pair_layout
    again = f"; feature {faster[0] + 1:,} starts again with the fastest" if faster else ""
    return Verdict(
        Status.FALSE if faster else Status.HOLDS,
        (
            Number("features faster than the previous feature", len(faster), f"of {count:,}"),
            Number("first over last pair", ratio, "times"),
        ),
        f"In the {layout} layout {fraction(len(faster), count)} features turn faster than "
        f"the one before{again}. The first pair turns {figure(ratio)} times as fast as the last.",
    )


@claim(
    "Each dimension has its own frequency.",
    theme="wavelengths",
    source=f"Tutorials on {VASWANI}, section 3.5",
    steps=(feature_frequencies,),
)
def own_frequency(sizes: Sizes) -> Verdict:
    """Count the different frequencies among the features."""
    features = feature_frequencies(sizes)
    count, of_all = features.unique().numel(), f"of {len(features):,} dimensions"
    # With twice the pairs every feature could have its own frequency: there the sentence is true.
    control = Frequencies.geometric(2 * sizes.dim, sizes.base).inv_freq.unique().numel()
    return Verdict(
        Status.HOLDS if count == len(features) else Status.FALSE,
        (Number("different frequencies", count, of_all),),
        f"{sizes.dim:,} dimensions have {count_of(count, 'frequency', 'frequencies')}: a sine and a "
        "cosine share each one.",
        Number("different frequencies with twice as many pairs", control, of_all),
    )


@claim(
    "The slowest pair's cycle is 2 pi times the base: 62,832 positions for 10,000.",
    theme="wavelengths",
    source=f"{VASWANI}, section 3.5, in words; its formula says less",
)
def slowest(sizes: Sizes) -> Verdict:
    """Compare the longest wavelength with 2 pi times the base."""
    longest = (2 * math.pi / pair_frequencies(sizes)[-1]).item()
    claimed = 2 * math.pi * sizes.base
    excess = claimed / longest - 1
    # tensor2tensor divides by the number of steps between pairs; a single pair has none.
    code = " The code of tensor2tensor has that wave." if sizes.dim > 2 else ""
    return Verdict(
        Status.HOLDS if abs(excess) <= ONE_PERCENT else Status.FALSE,
        (
            Number("slowest wavelength", longest, "positions"),
            Number("2 pi times the base", claimed, "positions"),
        ),
        f"At width {sizes.dim:,} and base {figure(sizes.base)} the slowest wave of the printed formula "
        f"takes {figure(longest)} positions. 2 pi times the base is {figure(claimed)} positions, which is "
        f"{figure(100 * excess)}% longer.{code} Within {ONE_PERCENT:.0%} counts as true.",
    )


@claim(
    "Below 10,000 positions all pairs stay in a nearly linear regime.",
    theme="wavelengths",
    source=f"Posts on why the base is 10,000; the formula of {VASWANI} decides",
)
def nearly_linear(sizes: Sizes) -> Verdict:
    """Count the pairs that stay under one radian, and under a quarter turn, in 10,000 positions."""
    coverage = spectrum(pair_frequencies(sizes), LINEAR)
    pairs, full = len(coverage.inv_freq), coverage.full_turn_pairs
    radian, quarter = coverage.under_one_radian, coverage.under_quarter_turn
    return Verdict(
        Status.HOLDS if radian == pairs else Status.PARTLY if radian else Status.FALSE,
        (
            Number("pairs that stay under one radian", radian, f"of {pairs:,}"),
            Number("pairs that stay under a quarter turn", quarter, f"of {pairs:,}"),
            Number("pairs that complete a full turn", full, f"of {pairs:,}"),
        ),
        f"Within {LINEAR:,} positions {radian:,} of {count_of(pairs, 'pair')} turn by less than one "
        f"radian, and {quarter:,} by less than a quarter turn. {full:,} of them complete a full turn.",
    )


@claim(
    "The hour hand, the slowest pair, never completes a turn.",
    theme="wavelengths",
    source="Tutorials that draw pairs as clock hands; Liu et al. 2023, arXiv 2310.05209, decides",
    uses=("dim", "base", "train_length"),
)
def hour_hand(sizes: Sizes) -> Verdict:
    """Count the turns of the slowest pair within the training length."""
    coverage = spectrum(pair_frequencies(sizes), sizes.train_length)
    pairs, complete = len(coverage.turns), coverage.full_turn_pairs
    last = coverage.turns[-1].item()
    return Verdict(
        Status.HOLDS if last < 1 else Status.FALSE,
        (
            Number("turns of the slowest pair within the training length", last, "turns"),
            Number("pairs that complete a turn", complete, f"of {pairs:,}"),
            Number("pairs that never do", pairs - complete, f"of {pairs:,}"),
        ),
        f"Over a training length of {sizes.train_length:,} the slowest pair makes {figure(last)} "
        f"turns. {complete:,} of {count_of(pairs, 'pair')} complete a turn, and {pairs - complete:,} do "
        "not.",
    )


def learned(sizes: Sizes) -> Learned:
    """Return the learned table of these sizes."""
    scheme = sizes.config("learned").build(seed=sizes.seed)
    assert isinstance(scheme, Learned)
    return scheme


@claim(
    "nn.Embedding equals a one-hot nn.Linear.",
    theme="tables",
    source="PyTorch's documentation of nn.Embedding and nn.Linear",
    url="https://pytorch.org/docs/stable/generated/torch.nn.Embedding.html",
    uses=("dim", "train_length", "learned_source", "seed", "precision"),
    proof=proofs.ONE_HOT,
)
def one_hot(sizes: Sizes) -> Verdict:
    """Compare rows of the learned table with products of one-hot vectors and the table."""
    table = learned(sizes).weight.detach().double()[:MAX_ROWS]
    if sizes.dtype is not None:
        table = table.to(sizes.dtype).double()
    rows, width = table.shape
    if not table.isfinite().all():
        sentence = "The table holds entries that are not finite, and 0 times infinity is no number."
        return Verdict(Status.FALSE, (Number("largest difference", None),), sentence)
    embedded = functional.embedding(torch.arange(rows), table)
    multiplied = functional.linear(torch.eye(rows, dtype=torch.float64), table.T)
    difference = (embedded - multiplied).abs().max().item()
    generator = torch.Generator().manual_seed(sizes.seed)
    bias = (torch.rand(width, generator=generator) * 2 - 1) / math.sqrt(rows)
    return Verdict(
        Status.THEOREM if difference == 0 else Status.FALSE,
        (Number("largest difference", difference),),
        f"The largest difference between a row that is looked up and the product of a one-hot vector with "
        f"the table is {figure(difference)}, over {count_of(rows, 'row')} of width {width:,}.",
        Number("difference of nn.Linear with its default bias", bias.abs().max().item()),
    )


@claim(
    "Learned tables end at their length.",
    theme="tables",
    source="Devlin et al. 2018, arXiv 1810.04805",
    uses=("dim", "base", "train_length", "learned_source", "seed"),
    proof=proofs.ENDS,
)
def ends(sizes: Sizes) -> Verdict:
    """Ask the learned table for the row after its last; the sinusoidal formula must have it."""
    scheme = learned(sizes)
    rows, width = scheme.config.max_len, scheme.config.dim
    position = torch.tensor([rows])
    try:
        scheme.embed(torch.zeros(1, 1, width), position)
    except PositionOutOfRange as error:
        status, limit = Status.THEOREM, error.limit
    else:
        status, limit = Status.FALSE, rows
    row = sinusoidal(sizes).embed(torch.zeros(1, 1, sizes.dim), position)
    return Verdict(
        status,
        (Number("rows of the learned table", limit, "row" if limit == 1 else "rows"),),
        f"This table ({scheme.provenance}) has {count_of(limit, 'row')} of width "
        f"{width:,}, from position 0. Asking for position {rows:,} is an error.",
        Number(f"norm of the sinusoidal row at {rows:,}, which exists", row.norm().item()),
    )
