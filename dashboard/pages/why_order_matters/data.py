"""Why order matters: one attention layer reads a sentence in two orders, with and without position."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd
import streamlit as st

from dashboard.compute.schemes import CACHE, Array
from dashboard.pages.why_order_matters import frames
from dashboard.pages.why_order_matters.options import OrderChoice, order_of
from posenc.analysis import OrderReading, RandomLayer, read_orders
from posenc.errors import CheckpointError, PositionOutOfRange
from posenc.settings import Query, Setting

NO_POSITION = "none"  # shown first, whatever is chosen: every scheme is held against it
MASKS = ("no mask", "causal mask")
SAME = 1e-12  # what rounding in float64 leaves of outputs about 1


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

    order: the other order as a permutation; `other[i]` is `words[order[i]]`. mask: that of `patterns`.
    patterns: by scheme, the weights (n, n) of the head drawn, in the first order and in the other.
    summary: a row per scheme. differences: a row per scheme, mask and word. outputs: the first
    features. weights: `patterns`, a row per pair of words.
    """

    words: tuple[str, ...]
    other: tuple[str, ...]
    order: tuple[int, ...]
    mask: str
    seen: Mapping[str, Seen]
    reasons: Mapping[str, str]
    patterns: Mapping[str, tuple[Array, Array]]
    heads: Mapping[str, str]
    summary: pd.DataFrame
    differences: pd.DataFrame
    outputs: pd.DataFrame
    weights: pd.DataFrame

    @property
    def mirrored(self) -> bool:
        """Whether the other order is the first one reversed."""
        return self.order == tuple(range(len(self.words)))[::-1]

    def reading(self, kind: str) -> Reading:
        """Return what a scheme's layer gives under the mask that is shown."""
        return self.seen[kind].by_mask[self.mask]


def read(setting: Setting, chosen: OrderChoice) -> WhyPosition:
    """Return everything the page shows of a setting and its choices."""
    words = tuple(chosen.sentence.split())
    order = order_of(len(words), chosen.reorder)
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
                order,
            )
        except (CheckpointError, PositionOutOfRange) as reason:
            reasons[kind] = str(reason)
    mask = MASKS[chosen.causal]
    patterns = {kind: _drawn(one.by_mask[mask], chosen.pattern_head) for kind, one in seen.items()}
    return WhyPosition(
        words=words,
        other=tuple(words[index] for index in order),
        order=order,
        mask=mask,
        seen=seen,
        reasons=reasons,
        patterns=patterns,
        heads={kind: _head(one.layer.heads, chosen.pattern_head) for kind, one in seen.items()},
        summary=frames.summary(seen),
        differences=frames.differences(words, seen),
        outputs=frames.outputs(words, seen),
        weights=frames.weights(words, patterns),
    )


@st.cache_data(**CACHE)
def _seen(
    query: Query,
    dim: int,
    heads: int,
    equal_width: int,
    seed: int,
    words: tuple[str, ...],
    order: tuple[int, ...],
) -> Seen:
    """Return what one scheme's layer gives; only what changes it is a key."""
    setting = Setting(dim=dim, heads=heads, equal_width=bool(equal_width), seed=seed, length=2)
    scheme = query.build("cpu")
    layer = RandomLayer.of(setting, scheme)
    by_mask = {
        mask: Reading.of(read_orders(scheme, layer, words, order, causal=mask == "causal mask"))
        for mask in MASKS
    }
    return Seen(layer, scheme.provenance, by_mask)


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
