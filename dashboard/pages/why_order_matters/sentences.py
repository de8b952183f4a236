"""Why position in words: every sentence is made from its numbers and changes with them."""

import numpy as np

from dashboard.controls.page_options import OrderChoice
from dashboard.frame.sentences import number
from dashboard.pages.why_order_matters.data import NO_POSITION, SAME, WhyPosition
from dashboard.text import listed, plain
from posenc.analysis import RandomLayer
from posenc.schemes import SCHEMES
from posenc.settings import Setting


def headline(found: WhyPosition) -> str:
    """Say for which schemes the order of the words changes what a word becomes."""
    words, other, seen = found.words, found.other, found.seen
    if words == other:
        return (
            f"In this other order {quoted(words)} reads the same: the layer gets the same input twice. "
            "The differences below are those of equal words that changed places."
        )
    free = {kind: one.by_mask["no mask"].largest for kind, one in seen.items()}
    none = free.pop(NO_POSITION)
    parts = [
        f"Without position {quoted(words)} and {quoted(other)} give every word the same output "
        f"(largest difference {number(none)})."
        if none < SAME
        else f"Without position a word's output differs by up to {number(none)}."
    ]
    told = [f"{SCHEMES[kind].label} by {number(gap)}" for kind, gap in free.items() if gap >= SAME]
    blind = {kind: gap for kind, gap in free.items() if gap < SAME}
    lost = [SCHEMES[kind].label for kind, gap in free.items() if not np.isfinite(gap)]
    if told:
        parts.append(f"With position they differ: {', '.join(told)}.")
    if blind:
        mirrored = found.order == tuple(range(len(words)))[::-1]
        why = ": a mirrored sentence keeps every distance" if mirrored else ""
        named = [f"{SCHEMES[kind].label} ({number(gap)})" for kind, gap in blind.items()]
        parts.append(f"Still the same with {listed(named)}{why}.")
    if lost:
        parts.append(f"No finite output with {listed(lost)}.")
    masked = {kind: seen[kind].by_mask["causal mask"].largest for kind in (NO_POSITION, *blind)}
    by = [
        f"by {number(gap)} {'without position' if kind == NO_POSITION else f'with {SCHEMES[kind].label}'}"
        for kind, gap in masked.items()
    ]
    parts.append(
        f"All of this is without a mask. A causal mask alone shows the order: {listed(by)}."
    )
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
        "the head shown change nothing on this page."
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
