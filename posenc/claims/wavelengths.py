"""Claims about the ladder of frequencies: who turns fast, how long the slowest takes.

Vaswani et al. 2017, arXiv 1706.03762, section 3.5: pair m turns by base^(-2m/d) radians per position.
"""

import math

import torch
from torch import Tensor

from posenc.analysis import spectrum
from posenc.claims.claim import Number, State, Verdict, figure, share
from posenc.phases import Phases
from posenc.setting import Setting
from posenc.words import counted

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
    own = Phases.geometric(2 * setting.dim, setting.base).inv_freq.unique().numel()
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
    return Phases.geometric(setting.dim, setting.base).inv_freq


def feature_frequencies(setting: Setting) -> Tensor:
    """Return the frequency of every feature in the order in which the table holds them, (d,)."""
    pairs = ladder(setting)
    if setting.config("sinusoidal").build().pair_layout == "half":
        return torch.cat((pairs, pairs))
    return pairs.repeat_interleave(2)
