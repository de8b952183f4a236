"""The Encoding page in words: every sentence is made from its numbers and changes with them."""

import math

import numpy as np

from dashboard import limits
from dashboard.compute.result_cache import memoize_on
from dashboard.pages.encoding.data import EncodingPage, Example, SumsPage
from dashboard.text import listed, number
from posenc.analysis import STARTS
from posenc.formula import number as latex_number
from posenc.schemes import SCHEMES
from posenc.text import count_of


@memoize_on
def headline(read: EncodingPage) -> str:
    """Say of every scheme what its numbers do within the training length, or that it has none."""
    setting, parts = read.setting, []
    for kind, scheme in read.schemes.items():
        label, matrix = SCHEMES[kind].label, scheme.matrix
        if matrix is None:
            parts.append(f"{label} adds no numbers")
            continue
        untrained = f", {matrix.untrained}" if matrix.untrained else ""
        if len(scheme.frequencies):
            turns = scheme.frequencies["turns"]
            parts.append(_completed(label, int((turns >= 1).sum()), len(turns)))
        elif not matrix.features:
            last = min(setting.train_length, matrix.shape[0]) - 1
            # Of the query that stands there: a causal model reads the keys before it.
            changed = f"subtracts {number(-matrix.size)} from"
            if matrix.size > 0:
                changed = f"adds {number(matrix.size)} to"
            mean = "" if setting.alibi_head else " on average"
            parts.append(f"{label} {changed} the logit{mean} at distance {last:,}{untrained}")
        else:
            size = number(matrix.size)
            parts.append(f"{label}'s entries have standard deviation {size}{untrained}")
    trained = count_of(setting.train_length, "trained position")
    return f"Within {trained}: " + "; ".join(parts) + "."


def _completed(label: str, full: int, pairs: int) -> str:
    if pairs == 1:
        return f"{label}'s only pair completes {'a' if full else 'no'} turn"
    return (
        f"{full:,} of {label}'s {pairs:,} pairs {'completes' if full == 1 else 'complete'} a turn"
    )


def cut(shape: tuple[int, ...], *, is_bias: bool, asked: int) -> str:
    """Say what of a matrix is not drawn, nothing where all of it is."""
    most = limits.MAX_DRAWN_CELLS
    parts = [f"the first {most} of {asked:,} positions"] if asked > most else []
    if not is_bias and shape[1] > most:
        parts.append(f"the first {most} of {shape[1]:,} dimensions")
    return "; ".join(parts)


def turns(read: EncodingPage) -> str:
    """Say where the slowest pair of every scheme completes a turn."""
    slowest = [
        f"{number(float(table['wavelength'].iloc[-1]))} ({SCHEMES[kind].label})"
        for kind, table in read.frequencies.items()
    ]
    return (
        f"Positions that the slowest pair needs for one turn: {listed(slowest)}. "
        f"Dashed: the training length, {read.setting.train_length:,}."
    )


def ratios(read: EncodingPage) -> str:
    """Say by which factor each pair is slower than the pair before it, where that is one factor."""
    parts = []
    for kind, table in read.frequencies.items():
        steps = np.diff(np.log(table["inv_freq"].to_numpy()))
        if len(steps) and np.allclose(steps, steps[0], rtol=1e-6):
            parts.append(f"{number(math.exp(-steps[0]))} ({SCHEMES[kind].label})")
    if not parts:
        return ""
    return f"Each pair turns slower than the pair before it, by the factor {listed(parts)}."


def clocks(read: EncodingPage) -> str:
    """The clocks without seeing them: which pairs, their periods and their turns in training."""
    parts = []
    for kind, pairs in read.pairs.items():
        table = read.frequencies[kind]
        texts = [
            f"pair {m} turns once in {number(table['wavelength'][m])} positions, "
            f"{number(table['turns'][m])} times in training"
            for m in pairs
        ]
        parts.append(f"{SCHEMES[kind].label}: " + "; ".join(texts))
    return "Clocks whose hands are pairs. " + ". ".join(parts) + "."


def example(read: Example) -> str:
    """Say what the worked example is computed for."""
    base = read.base
    rates = listed([f"{rate:.4g}" for rate in read.inv_freq])
    usual = " With base 10,000 these are the numbers of Vaswani et al." if base == 10_000 else ""
    return (
        f"Sinusoidal table of 4 positions and 8 dimensions, base {base:,.10g}, sine and cosine side by "
        f"side as in the paper. Its pairs turn by {rates} radians per position.{usual}"
    )


def example_step(read: Example) -> str:
    """One number of the worked example, position 3 and dimension 2, in LaTeX, step by step."""
    value = float(read.table["2"].iloc[3])
    angle = 3 * read.inv_freq[1]
    return (
        rf"PE_{{(3,\,2)}} = \sin\left(\frac{{3}}{{{{{latex_number(read.base)}}}^{{2/8}}}}\right)"
        rf" = \sin({angle:.6g}) = {value:.4f}"
    )


def sums(read: SumsPage, *, scaled: bool, start: str) -> str:
    """Say how large position is beside content, as chosen."""
    parts = []
    for kind, added in read.sums.items():
        if math.isnan(added.norm):
            parts.append(f"{SCHEMES[kind].label} has no finite row")
            continue
        compared = added.by_start[start]
        ratio = compared.ratio_scaled if scaled else compared.ratio_plain
        share = compared.share_scaled if scaled else compared.share_plain
        parts.append(
            f"{SCHEMES[kind].label}: a token is {number(ratio)} times as long as its position, which is "
            f"{share:.1%} of the sum's squared norm"
        )
    return f"Tokens that start as {STARTS[start]}. " + ". ".join(parts) + "." if parts else ""


def nothing_added(read: SumsPage) -> str:
    """Name the schemes that add no vector to the tokens, "" where all do."""
    names = [SCHEMES[kind].label for kind in read.others]
    verb = "add" if len(names) > 1 else "adds"
    return f"{listed(names)} {verb} no vector to the tokens." if names else ""
