"""The Encoding page in words: every sentence is made from its numbers and changes with them."""

import math

from dashboard import limits
from dashboard.compute.result_cache import memoize_on
from dashboard.pages.encoding.data import EncodingPage
from dashboard.text import listed, number
from posenc.analysis import STARTS
from posenc.formula import number as latex_number
from posenc.schemes import SCHEMES
from posenc.settings import Setting
from posenc.text import count_of


@memoize_on
def headline(found: EncodingPage) -> str:
    """Say of every scheme what its numbers do within the training length, or that it has none."""
    setting, parts = found.setting, []
    for kind, one in found.drawn.items():
        label = SCHEMES[kind].label
        if kind in found.ladders:
            turns = found.ladders[kind].turns
            parts.append(_completed(label, int((turns >= 1).sum()), len(turns)))
        elif not one.features:
            last = min(setting.train_length, one.shape[0]) - 1
            heads = "" if setting.alibi_head else " on average"
            # Of the query that stands there: a causal model reads the keys before it.
            moved = (
                f"takes{heads} {number(-one.told)} off"
                if one.told <= 0
                else f"adds{heads} {number(one.told)} to"
            )
            start = f", {one.untrained}" if one.untrained else ""
            parts.append(f"{label} {moved} a logit at distance {last:,}{start}")
        else:
            noise = f", {one.untrained}" if one.untrained else ""
            parts.append(f"{label}'s entries have standard deviation {number(one.told)}{noise}")
    parts += [f"{SCHEMES[kind].label} puts nothing in" for kind in found.absent]
    trained = count_of(setting.train_length, "trained position")
    return f"Within {trained}: " + "; ".join(parts) + "."


def _completed(label: str, full: int, pairs: int) -> str:
    if pairs == 1:
        return f"{label}'s only pair completes {'a' if full else 'no'} turn"
    return (
        f"{full:,} of {label}'s {pairs:,} pairs {'completes' if full == 1 else 'complete'} a turn"
    )


def _never(left: int, pairs: int) -> str:
    if pairs == 1:
        return f"the only pair {'never completes' if left else 'completes'} a turn"
    if not left:
        return "every pair completes a turn"
    return f"{left:,} of {pairs:,} pairs never {'completes' if left == 1 else 'complete'} a turn"


def cut(shape: tuple[int, ...], *, bias: bool, asked: int) -> str:
    """Say what of a matrix is not drawn, nothing where all of it is."""
    most = limits.MAX_DRAWN_CELLS
    parts = [f"the first {most} of {asked:,} positions"] if asked > most else []
    if not bias and shape[1] > most:
        parts.append(f"the first {most} of {shape[1]:,} dimensions")
    return "; ".join(parts)


def turning(setting: Setting, found: EncodingPage) -> str:
    """Say how many pairs complete a turn in training and where the slowest one does."""
    if not found.ladders:
        return ""
    parts = []
    for kind, one in found.ladders.items():
        left = int((one.turns < 1).sum())
        slowest = one.wavelengths[-1]
        parts.append(
            f"{SCHEMES[kind].label}: {_never(left, len(one.turns))}, the slowest needs "
            f"{number(float(slowest))} positions"
        )
    return f"In {count_of(setting.train_length, 'position')} of training, " + "; ".join(parts) + "."


def hands(found: EncodingPage) -> str:
    """The clocks without seeing them: which pairs, their periods and their turns in training."""
    parts = []
    for kind, pairs in found.pairs.items():
        one = found.ladders[kind]
        told = [
            f"pair {m} turns once in {number(one.wavelengths[m])} positions, "
            f"{number(one.turns[m])} times in training"
            for m in pairs
        ]
        parts.append(f"{SCHEMES[kind].label}: " + "; ".join(told))
    return "Clocks whose hands are pairs. " + ". ".join(parts) + "."


def example(found: EncodingPage, base: float) -> str:
    """Say that the worked example is its own, and what its base is."""
    rates = listed([f"{rate:.4g}" for rate in found.example_inv_freq])
    usual = " With base 10,000 these are the numbers of Vaswani et al." if base == 10_000 else ""
    return (
        f"Base {base:,.10g}, always 4 positions and 8 dimensions, sine and cosine side by side as in "
        f"the paper: the model dimension changes nothing here. Its pairs turn by {rates} radians a "
        f"position; worked out beside it are position 3 and dimension 2.{usual}"
    )


def example_step(found: EncodingPage, base: float) -> str:
    """One number of the worked example in LaTeX, step by step."""
    value = float(found.example["2"].iloc[3])
    angle = 3 * found.example_inv_freq[1]
    return (
        rf"\sin\left(\frac{{3}}{{{{{latex_number(base)}}}^{{2/8}}}}\right) = \sin({angle:.6g}) = "
        rf"{value:.4f}"
    )


def sums(found: EncodingPage, *, scaled: bool, start: str) -> str:
    """Say how large position is beside content, as chosen, with and without the factor."""
    if not found.sums:
        return ""
    parts = []
    for kind, one in found.sums.items():
        compared = one.found[start]
        first, other = compared.ratio_scaled, compared.ratio_plain
        share = compared.share_scaled if scaled else compared.share_plain
        if math.isnan(one.norm):
            parts.append(f"{SCHEMES[kind].label} has no finite row")
            continue
        parts.append(
            f"{SCHEMES[kind].label} has norm {number(compared.position)} in width {one.width:,}: a token "
            f"is {number(first)} times as long with the factor, {number(other)} times without, and "
            f"position is {share:.1%} of the sum's squared norm {'with' if scaled else 'without'} it"
        )
    return f"Tokens that start as {STARTS[start]}. " + ". ".join(parts) + "."


def nothing_added(found: EncodingPage) -> str:
    """Name the schemes that add no vector to the tokens, "" where all do."""
    names = [SCHEMES[kind].label for kind in found.provenances if kind not in found.sums]
    verb = "add" if len(names) > 1 else "adds"
    return f"{listed(names)} {verb} no vector to the tokens." if names else ""


def without_pairs(found: EncodingPage) -> str:
    """Name the schemes that have no pairs, "" where all have."""
    names = [SCHEMES[kind].label for kind in found.provenances if kind not in found.pairs]
    verb = "have" if len(names) > 1 else "has"
    return f"{listed(names)} {verb} no pairs: nothing there turns." if names else ""
