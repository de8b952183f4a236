"""Sentences of the page Encoding, each from its numbers."""

import math

import numpy as np

from dashboard import limits
from dashboard.pages.encoding.data import Encodings, SchemeEncoding, Sums
from dashboard.text import listed, number
from posenc.analysis import STARTS
from posenc.schemes import SCHEMES
from posenc.text import count_of


def headline(read: Encodings) -> str:
    """Say of every scheme what its numbers do within the training length, or that it has none."""
    parts = [_within_training(read, kind) for kind in read.schemes]
    trained = count_of(read.setting.train_length, "trained position")
    return f"Within {trained}: {'; '.join(parts)}."


def _within_training(read: Encodings, kind: str) -> str:
    scheme, label = read.schemes[kind], SCHEMES[kind].label
    untrained = f", {scheme.untrained}" if scheme.untrained else ""
    if scheme.matrix is None:
        return f"{label} adds no numbers"
    if scheme.pairs:
        turns = scheme.frequencies["turns"]
        full, pairs = int((turns >= 1).sum()), len(turns)
        if pairs == 1:
            return f"{label}'s only pair completes {'a' if full else 'no'} turn"
        verb = "completes" if full == 1 else "complete"
        return f"{full:,} of {label}'s {pairs:,} pairs {verb} a turn"
    if scheme.features:
        return f"{label}'s entries have standard deviation {number(scheme.size)}{untrained}"
    last = min(read.setting.train_length, scheme.matrix.shape[0]) - 1
    # Of the query that stands there: a causal model reads the keys before it.
    changed = f"subtracts {number(-scheme.size)} from"
    if scheme.size > 0:
        changed = f"adds {number(scheme.size)} to"
    mean = "" if read.setting.alibi_head else " on average"
    return f"{label} {changed} the logit{mean} at distance {last:,}{untrained}"


def cut(scheme: SchemeEncoding, asked: int) -> str:
    """Say what of a matrix is not drawn, nothing where all of it is. asked: positions of the setting."""
    most = limits.MAX_DRAWN_CELLS
    parts = [f"the first {most} of {asked:,} positions"] if asked > most else []
    if len(scheme.features) > most:
        parts.append(f"the first {most} of {len(scheme.features):,} dimensions")
    return "; ".join(parts)


def turns(read: Encodings) -> str:
    """Say where the slowest pair of every scheme completes a turn."""
    slowest = [
        f"{number(scheme.frequencies['wavelength'].iloc[-1])} ({SCHEMES[kind].label})"
        for kind, scheme in read.with_pairs.items()
    ]
    return (
        f"Positions that the slowest pair needs for one turn: {listed(slowest)}. "
        f"Dashed: the training length, {read.setting.train_length:,}."
    )


def ratios(read: Encodings) -> str:
    """Say by which factor each pair is slower than the pair before it, where that is one factor."""
    parts = []
    for kind, scheme in read.with_pairs.items():
        inv_freq = scheme.frequencies["inv_freq"].to_numpy()
        if not inv_freq.all():  # a pair that stands still is slower by no factor
            continue
        steps = np.diff(np.log(inv_freq))
        if len(steps) and np.allclose(steps, steps[0], rtol=1e-6):
            parts.append(f"{number(math.exp(-steps[0]))} ({SCHEMES[kind].label})")
    if not parts:
        return ""
    return f"Each pair turns slower than the pair before it, by the factor {listed(parts)}."


def clocks(read: Encodings) -> str:
    """The clocks without seeing them: which pairs, their periods and their turns in training."""
    parts = []
    for kind, scheme in read.with_pairs.items():
        table = scheme.frequencies
        texts = [
            f"pair {m} turns once in {number(table['wavelength'][m])} positions, "
            f"{number(table['turns'][m])} times in training"
            for m in scheme.pairs
        ]
        parts.append(f"{SCHEMES[kind].label}: " + "; ".join(texts))
    return "Clocks whose hands are pairs. " + ". ".join(parts) + "."


def sums(read: Sums, start: str, *, scaled: bool) -> str:
    """Say how large position is beside tokens that start so. scaled: tokens are multiplied by sqrt(d)."""
    parts = []
    for kind, added in read.sums.items():
        if math.isnan(added.by_start[start].position):
            parts.append(f"{SCHEMES[kind].label} has no finite row")
            continue
        compared = added.by_start[start]
        ratio = compared.ratio_scaled if scaled else compared.ratio_plain
        share = compared.share_scaled if scaled else compared.share_plain
        parts.append(
            f"{SCHEMES[kind].label}: a token is {number(ratio)} times as long as its position, which is "
            f"{share:.1%} of the sum's squared norm"
        )
    return f"Tokens that start as {STARTS[start]}. {'. '.join(parts)}."


def nothing_added(read: Sums) -> str:
    """Name the schemes that add no vector to the tokens, "" where all do."""
    names = [SCHEMES[kind].label for kind in read.others]
    verb = "add" if len(names) > 1 else "adds"
    return f"{listed(names)} {verb} no vector to the tokens." if names else ""
