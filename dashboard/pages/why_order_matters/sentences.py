"""Why order matters in words: every sentence is computed from the page's numbers."""

from dashboard.pages.why_order_matters.data import NO_POSITION, SAME, WhyPosition
from dashboard.text import number, plain, quoted_words
from posenc.analysis import RandomLayer
from posenc.schemes import SCHEMES
from posenc.settings import Setting

CAUSAL = "causal mask"


def headline(found: WhyPosition, kind: str) -> str:
    """Say what reordering does without position, and with one scheme."""
    if found.words == found.other:
        return (
            f"Both orders are the same sentence, {quoted_words(found.words)}. Choose another order."
        )
    orders = f"{quoted_words(found.words)} and {quoted_words(found.other)}"
    if found.mask == CAUSAL:
        gap = found.reading(NO_POSITION).largest
        first = (
            f"Without position, a causal mask alone tells {orders} apart: outputs change by up to "
            f"{number(gap)}."
        )
    else:
        first = (
            f"Without position, each word keeps its output: attention cannot tell {orders} apart."
        )
    if kind == NO_POSITION or kind not in found.schemes:
        return first
    return f"{first} {_changed(found, kind)}"


def _changed(found: WhyPosition, kind: str) -> str:
    """Say how many words get another output with a scheme."""
    label, reading = SCHEMES[kind].label, found.reading(kind)
    changed, count = int((~(reading.differences < SAME)).sum()), len(found.words)
    if not changed:
        why = ": reversing keeps every distance" if found.mirrored else ""
        return f"With {label} too, each word keeps its output{why}."
    which = "every word" if changed == count else f"{changed} of {count} words"
    verb = "get" if 1 < changed < count else "gets"
    gap = number(reading.largest)
    return f"With {label}, {which} {verb} another output: outputs change by up to {gap}."


def chips(words: list[str], found: WhyPosition, kind: str) -> str:
    """Return a chip per word in Markdown: whether its output changes."""
    chips = []
    for word, gap in zip(words, found.reading(kind).differences, strict=True):
        same = gap < SAME
        colour, says = ("gray", "unchanged") if same else ("orange", "changed")
        chips.append(f":{colour}-badge[{plain(word)}: {says}]")
    return " ".join(chips)


def layers(setting: Setting, found: WhyPosition) -> str:
    """Say what the layer is, and for which schemes it is another."""
    usual = found.schemes[NO_POSITION].layer
    own = []
    for kind, one in found.schemes.items():
        parts = [plain(one.provenance)] if one.provenance else []
        if one.layer.width != usual.width:
            parts.append(f"so token vectors of width {one.layer.width:,}")
        if one.layer.heads != usual.heads:
            parts.append(f"{_heads(one.layer)}, because widths are equal")
        if parts:
            own.append(f" {SCHEMES[kind].label}: {', '.join(parts)}.")
    return (
        f"One attention layer, width {usual.width:,}, {_heads(usual)}, random weights from seed "
        f"{setting.seed}.{''.join(own)}"
    )


def _heads(layer: RandomLayer) -> str:
    return "one head" if layer.heads == 1 else f"{layer.heads} heads of {layer.head_dim}"


def pattern_caption(found: WhyPosition) -> str:
    """Say how the two patterns are to be compared."""
    return (
        f"Each row sums to 1. Both pictures list the words as in {quoted_words(found.words)}, so a "
        "word has the same row and column in both."
    )
