"""Sentences of the page Encoding, each from its numbers."""

import math

import numpy as np

from dashboard import limits
from dashboard.pages.encoding.data import WAVES, Encodings, SchemeEncoding, Sums
from dashboard.scheme_facts import BIAS, EMBEDDING, ROTATION, WEIGHTS
from dashboard.text import listed, number
from posenc.analysis import STARTS
from posenc.schemes import SCHEMES
from posenc.text import count_of

BLENDED = 256  # columns: of more, one is narrower than a pixel where matrices stand side by side
# What schemes do at each place, of several schemes and of one.
_CHANGE = "changed"
ACTS = {
    EMBEDDING: ("add a vector to each token", "adds a vector to each token"),
    ROTATION: ("rotate queries and keys", "rotates queries and keys"),
    _CHANGE: ("change queries or keys", "changes queries or keys"),
    BIAS: ("add a bias to the logits", "adds a bias to the logits"),
    WEIGHTS: ("replace the softmax", "replaces the softmax"),
}


def headline(read: Encodings) -> str:
    """Say of every scheme where it acts."""
    return " ".join(_places(read)) or numbers(read)


def numbers(read: Encodings) -> str:
    """Say of every scheme what it has for a position, and how many of its waves repeat."""
    others = [kind for kind in read.schemes if kind not in read.with_pairs]
    tables = [kind for kind in others if read.schemes[kind].features]
    sentences = [_without_pairs(read, kind) for kind in tables]
    if read.with_pairs:
        verb = "computes" if len(read.with_pairs) == 1 else "compute"
        turned = [
            f"{int((scheme.frequencies['turns'] >= 1).sum()):,} of {len(scheme.frequencies):,} "
            f"{SCHEMES[kind].label} waves"
            for kind, scheme in read.with_pairs.items()
        ]
        trained = count_of(read.setting.train_length, "trained position")
        names = listed([SCHEMES[kind].label for kind in read.with_pairs])
        sentences.append(
            f"{names} {verb} waves, one per pair of dimensions: {listed(turned)} make a full turn within "
            f"{trained}."
        )
        if any((scheme.frequencies["turns"] < 1).any() for scheme in read.with_pairs.values()):
            sentences.append(
                "Past these positions the other waves reach angles that training never showed."
            )
    sentences += [_without_pairs(read, kind) for kind in others if kind not in tables]
    return " ".join(sentences)


def _places(read: Encodings) -> list[str]:
    """Return a sentence on what the schemes of each place in attention do there."""
    labels: dict[str, list[str]] = {}
    for kind, scheme in read.schemes.items():
        # A scheme that changes queries and keys without a table of cosines and sines rotates nothing.
        turns = scheme.place != ROTATION or scheme.matrix is not None
        labels.setdefault(scheme.place if turns else _CHANGE, []).append(SCHEMES[kind].label)
    return [
        f"{listed(names)} {ACTS[place][len(names) == 1]}."
        for place, names in labels.items()
        if place
    ]


def _without_pairs(read: Encodings, kind: str) -> str:
    scheme, label = read.schemes[kind], SCHEMES[kind].label
    untrained = f" ({scheme.untrained})" if scheme.untrained else ""
    if scheme.matrix is None:
        return f"{label} adds no numbers."
    if scheme.features:
        numbers = "cosines and sines" if scheme.unit == WAVES else "one vector"
        rows = "every position"
        if scheme.rows is not None:
            rows = f"each of {count_of(scheme.rows, 'position')}"
        return f"{label} has {numbers} for {rows}{untrained}."
    last = min(read.setting.train_length, scheme.matrix.shape[0]) - 1
    # Of the query that stands there: a causal model reads the keys before it.
    changed = f"subtracts {number(-scheme.bias)} from"
    if scheme.bias > 0:
        changed = f"adds {number(scheme.bias)} to"
    mean = "" if read.setting.alibi_head else ", on average over heads"
    return f"{label} {changed} the logit at distance {last:,}{mean}{untrained}."


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


def grids(read: Encodings) -> str:
    """Say what a matrix shows: waves down the positions, rows of a table, or a bias."""
    shown = read.with_matrix
    waves = [SCHEMES[kind].label for kind in shown if kind in read.with_pairs]
    tables = [SCHEMES[kind].label for kind, each in shown.items() if each.is_table]
    biases = [SCHEMES[kind].label for kind, each in shown.items() if not each.features]
    parts = []
    if waves:
        parts.append(
            f"In {listed(waves)} a column is a wave down the positions; those of slow pairs hardly change "
            "from row to row."
        )
        if max(len(shown[kind].features) for kind in shown if kind in read.with_pairs) > BLENDED:
            parts.append(
                "Cells smaller than a pixel blend: a sine of 0 beside a cosine of 1 looks like one half. "
                "Drag to zoom."
            )
    if tables:
        parts.append(f"In {listed(tables)} every position has a row of its own, by no formula.")
    if biases:
        parts.append(f"In {listed(biases)} a cell is added to the logit of its query and key.")
    return " ".join(parts)


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


def legend(read: Encodings) -> str:
    """Say what the parts of a clock and of its waves mean."""
    rule = " Dashed: training length." if read.setting.train_length < read.setting.length else ""
    return (
        "Clock: one hand per pair; its angle is position times frequency. Thick arc: angles in training."
        f"{rule}"
    )


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
