"""Why position: one attention layer reads a sentence in two orders, with and without position."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from dashboard.choices import OrderChoice
from dashboard.compute import CACHE
from dashboard.pair import Pair
from dashboard.sentences import number
from dashboard.text import listed, plain
from posenc import Setting
from posenc.analysis.order import OrderReading, RandomLayer, read_orders
from posenc.errors import CheckpointError, PositionOutOfRange
from posenc.query import Query
from posenc.schemes import SCHEMES

Array = np.ndarray[Any, Any]

NO_POSITION = "none"  # shown first, whatever is chosen: every scheme is held against it
MASKS = ("no mask", "causal mask")
SAME = 1e-12  # what rounding in float64 leaves of outputs about 1
FEATURES = 4  # of every output, in the table of outputs


@dataclass(frozen=True, eq=False)
class Reading:
    """What one scheme's layer gives under one mask, each array by word of the first order."""

    outputs: Array  # (n, w)
    other_outputs: Array
    patterns: Array  # (heads, n, n)
    other_patterns: Array
    differences: Array  # (n,)
    largest: float
    pooled: float
    size: float

    @classmethod
    def of(cls, found: OrderReading) -> "Reading":
        """Hold a reading as arrays."""
        return cls(
            outputs=found.outputs.numpy(),
            other_outputs=found.other_outputs.numpy(),
            patterns=found.patterns.numpy(),
            other_patterns=found.other_patterns.numpy(),
            differences=found.differences.numpy(),
            largest=found.largest,
            pooled=found.pooled,
            size=found.size,
        )


@dataclass(frozen=True, eq=False)
class Seen:
    """What one scheme's layer gives, by mask; the layer and where a table's numbers come from."""

    layer: RandomLayer
    provenance: str
    by_mask: Mapping[str, Reading]


@dataclass(frozen=True, eq=False)
class WhyPosition:
    """All that the page shows of one setting.

    patterns: by scheme, the weights (n, n) of the head drawn, in the first order and in the other.
    summary: a row per scheme. differences: a row per scheme, mask and word. outputs: the first
    features. weights: `patterns`, a row per pair of words.
    """

    words: tuple[str, ...]
    other: tuple[str, ...]
    seen: Mapping[str, Seen]
    reasons: Mapping[str, str]
    headline: str
    patterns: Mapping[str, tuple[Array, Array]]
    heads: Mapping[str, str]
    summary: pd.DataFrame
    differences: pd.DataFrame
    outputs: pd.DataFrame
    weights: pd.DataFrame


def kinds(both: Pair[WhyPosition]) -> tuple[str, ...]:
    """Return the schemes that either setting shows, no position first."""
    seen = {*both.now.seen, *(both.pinned.seen if both.pinned else ())}
    return (NO_POSITION, *(kind for kind in SCHEMES if kind in seen and kind != NO_POSITION))


def reordered(words: tuple[str, ...], how: str) -> tuple[str, ...]:
    """Return the other order of a sentence."""
    return {
        "reversed": words[::-1],
        "ends swapped": (words[-1], *words[1:-1], words[0]),
        "first word last": (*words[1:], words[0]),
    }[how]


def read(setting: Setting, chosen: OrderChoice) -> WhyPosition:
    """Return everything the page shows of a setting and its choices."""
    words = tuple(chosen.sentence.split())
    other = reordered(words, chosen.reorder)
    seen: dict[str, Seen] = {}
    reasons: dict[str, str] = {}
    for kind in dict.fromkeys((NO_POSITION, *setting.schemes)):
        query = Query.of(setting, kind, "cpu", len(words))
        try:
            seen[kind] = _seen(
                query,
                setting.dim,
                setting.heads,
                int(setting.equal_width),
                setting.seed,
                words,
                other,
            )
        except (CheckpointError, PositionOutOfRange) as reason:
            reasons[kind] = str(reason)
    mask = MASKS[chosen.causal]
    patterns = {kind: _drawn(one.by_mask[mask], chosen.pattern_head) for kind, one in seen.items()}
    return WhyPosition(
        words=words,
        other=other,
        seen=seen,
        reasons=reasons,
        headline=headline(words, other, seen),
        patterns=patterns,
        heads={kind: _head(one.layer.heads, chosen.pattern_head) for kind, one in seen.items()},
        summary=_summary(seen),
        differences=_differences(words, seen),
        outputs=_outputs(words, seen),
        weights=_weights(words, patterns),
    )


@st.cache_data(**CACHE)
def _seen(
    query: Query,
    dim: int,
    heads: int,
    equal_width: int,
    seed: int,
    words: tuple[str, ...],
    other: tuple[str, ...],
) -> Seen:
    """Return what one scheme's layer gives; only what changes it is a key."""
    setting = Setting(dim=dim, heads=heads, equal_width=bool(equal_width), seed=seed, length=2)
    scheme = query.build()
    layer = RandomLayer.of(setting, scheme)
    by_mask = {
        mask: Reading.of(read_orders(scheme, layer, words, other, causal=mask == "causal mask"))
        for mask in MASKS
    }
    return Seen(layer, scheme.provenance, by_mask)


def headline(words: tuple[str, ...], other: tuple[str, ...], seen: Mapping[str, Seen]) -> str:
    """Say for which schemes the order of the words changes what a word becomes."""
    if words == other:
        return f"In this other order {quoted(words)} reads the same, so there is nothing to tell apart."
    free = {kind: one.by_mask["no mask"].largest for kind, one in seen.items()}
    none = free.pop(NO_POSITION)
    parts = [
        f"Without position {quoted(words)} and {quoted(other)} give every word the same output "
        f"(largest difference {number(none)})."
        if none < SAME
        else f"Without position a word's output differs by up to {number(none)}."
    ]
    told = [f"{SCHEMES[kind].label} by {number(gap)}" for kind, gap in free.items() if gap >= SAME]
    blind = [f"{SCHEMES[kind].label} ({number(gap)})" for kind, gap in free.items() if gap < SAME]
    lost = [SCHEMES[kind].label for kind, gap in free.items() if not np.isfinite(gap)]
    if told:
        parts.append(f"With position they differ: {', '.join(told)}.")
    if blind:
        mirrored = words[::-1] == other
        why = ": a mirrored sentence keeps every distance" if mirrored else ""
        parts.append(f"Still the same with {listed(blind)}{why}.")
    if lost:
        parts.append(f"No finite output with {listed(lost)}.")
    masked = seen[NO_POSITION].by_mask["causal mask"].largest
    parts.append(f"A causal mask alone shows the order too ({number(masked)}).")
    return " ".join(parts)


def caveat(found: WhyPosition) -> str:
    """Say that attention without position is equivariant, and what of it would be invariant."""
    none = found.seen[NO_POSITION].by_mask["no mask"]
    return (
        "Equivariant, not invariant: without position the outputs change places with their words. Only "
        f"what forgets which word is which stays: their mean moves by {number(none.pooled)}, where an "
        f"output's entries are about {number(none.size, 2)}."
    )


def layers(setting: Setting, found: WhyPosition) -> str:
    """Say what the layer is, for which schemes it is another, and which controls change nothing."""
    usual = found.seen[NO_POSITION].layer
    own = []
    for kind, one in found.seen.items():
        parts = [plain(one.provenance)] if one.provenance else []
        if one.layer.width != usual.width:
            parts.append(f"so token vectors of width {one.layer.width:,}")
        if one.layer.heads != usual.heads:
            parts.append(f"{_heads(one.layer)}, for widths are made equal")
        if parts:
            own.append(f" {SCHEMES[kind].label}: {', '.join(parts)}.")
    return (
        f"One layer of attention, width {usual.width:,}, {_heads(usual)}, random weights from seed "
        f"{setting.seed}; computed in float64.{''.join(own)} Positions shown, precision, device and "
        "the ALiBi head change nothing on this page."
    )


def _heads(layer: RandomLayer) -> str:
    return "one head" if layer.heads == 1 else f"{layer.heads} heads of {layer.head_dim}"


def pattern_caption(found: WhyPosition, chosen: OrderChoice) -> str:
    """Say how the pairs of patterns are to be compared."""
    mask = "under a causal mask" if chosen.causal else "without a mask"
    return (
        f"Attention weights {mask}: each row sums to 1. The other order is {quoted(found.other)}; its "
        "rows and columns are sorted back, so that a word has the same place in both pictures."
    )


def quoted(words: tuple[str, ...]) -> str:
    """Return a sentence in quotes as literal text, kept apart from the direction of ours."""
    return f"\u201c\u2068{plain(' '.join(words))}\u2069\u201d"


def labels(words: tuple[str, ...]) -> list[str]:
    """Return a name for every word: itself, with its occurrence where it stands more than once."""
    count, seen = Counter(words), Counter[str]()
    named = []
    for word in words:
        seen[word] += 1
        named.append(word if count[word] == 1 else f"{word} ({seen[word]})")
    return named


def _head(heads: int, asked: int) -> str:
    """Say which head is drawn of a layer with so many."""
    if heads == 1:
        return "one head"
    return f"mean of {heads} heads" if asked == 0 else f"head {min(asked, heads)} of {heads}"


def _drawn(found: Reading, asked: int) -> tuple[Array, Array]:
    """Return the weights of one head, or their mean over heads, in both orders."""
    both = (found.patterns, found.other_patterns)
    if asked == 0:
        return both[0].mean(axis=0), both[1].mean(axis=0)
    head = min(asked, len(both[0])) - 1
    return both[0][head], both[1][head]


def _summary(seen: Mapping[str, Seen]) -> pd.DataFrame:
    rows = []
    for kind, one in seen.items():
        free, masked = one.by_mask["no mask"], one.by_mask["causal mask"]
        rows.append(
            {
                "scheme": SCHEMES[kind].label,
                "no mask": free.largest,
                "causal mask": masked.largest,
                "mean of all words, no mask": free.pooled,
                "size of an output": free.size,
            }
        )
    return pd.DataFrame(rows)


def _differences(words: tuple[str, ...], seen: Mapping[str, Seen]) -> pd.DataFrame:
    parts = [
        pd.DataFrame(
            {
                "scheme": SCHEMES[kind].label,
                "mask": mask,
                "word": labels(words),
                "difference": found.differences,
            }
        )
        for kind, one in seen.items()
        for mask, found in one.by_mask.items()
    ]
    return pd.concat(parts, ignore_index=True)


def _outputs(words: tuple[str, ...], seen: Mapping[str, Seen]) -> pd.DataFrame:
    parts = []
    for kind, one in seen.items():
        for mask, found in one.by_mask.items():
            for order, values in (("first", found.outputs), ("other", found.other_outputs)):
                first = values[:, :FEATURES]
                frame = pd.DataFrame(first, columns=[f"feature {i}" for i in range(first.shape[1])])
                frame.insert(0, "word", labels(words))
                frame.insert(0, "order", order)
                frame.insert(0, "mask", mask)
                frame.insert(0, "scheme", SCHEMES[kind].label)
                parts.append(frame)
    return pd.concat(parts, ignore_index=True)


def _weights(words: tuple[str, ...], patterns: Mapping[str, tuple[Array, Array]]) -> pd.DataFrame:
    named = labels(words)
    count = len(words)
    parts = [
        pd.DataFrame(
            {
                "scheme": SCHEMES[kind].label,
                "order": order,
                "word": np.repeat(named, count),
                "looks at": np.tile(named, count),
                "weight": values.ravel(),
            }
        )
        for kind, both in patterns.items()
        for order, values in zip(("first", "other"), both, strict=True)
    ]
    return pd.concat(parts, ignore_index=True)
