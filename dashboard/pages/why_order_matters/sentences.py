"""Why order matters in words: every sentence is computed from the page's numbers."""

from dashboard.pages.why_order_matters.data import NO_POSITION, SAME, WhyPosition
from dashboard.settings import Setting
from dashboard.text import listed, number, plain, quoted_words, word_labels
from posenc.analysis import RandomLayer
from posenc.schemes import SCHEMES


def headline(read: WhyPosition, kind: str) -> str:
    """Say of which words the output changes without position, and with one scheme."""
    if read.words == read.other:
        return (
            f"Both orders are the same sentence, {quoted_words(read.words)}, so no output changes with any "
            "scheme. Choose another order."
        )
    first = "Without position, each word keeps its output."
    if read.causal:
        first = "Without position, a causal mask alone tells the two orders apart."
    if kind == NO_POSITION or kind not in read.schemes:
        return first
    return f"{first} {_changed(read, kind)}"


def orders(read: WhyPosition, kind: str) -> str:
    """Name both orders, and say how large the largest change of an entry is beside their root mean square.

    "" where both orders are the same sentence.
    """
    if read.words == read.other:
        return ""
    parts: list[str] = []
    for name in dict.fromkeys((NO_POSITION, kind)):
        if name in read.schemes and not _keeps(read, name):
            reading = read.reading(name)
            times = f"{number(reading.largest / reading.size)} times"
            typical = "" if parts else " a typical output value"
            which = "without position" if name == NO_POSITION else f"with {SCHEMES[name].label}"
            parts.append(f"{times}{typical} {which}")
    largest = f" The largest change is {listed(parts)}." if parts else ""
    return f"{quoted_words(read.words)} becomes {quoted_words(read.other)}.{largest}"


def _keeps(read: WhyPosition, kind: str) -> bool:
    return bool((read.reading(kind).differences < SAME).all())


def _changed(read: WhyPosition, kind: str) -> str:
    """Say how many words get another output with a scheme."""
    label, differences = SCHEMES[kind].label, read.reading(kind).differences
    changed, count = int((~(differences < SAME)).sum()), len(read.words)
    if not changed:
        why = ": reversing keeps every distance" if read.mirrored else ""
        return f"With {label} too, each word keeps its output{why}."
    which = "every word" if changed == count else f"{changed} of {count} words"
    verb = "get" if 1 < changed < count else "gets"
    return f"With {label}, {which} {verb} another output."


def chips(read: WhyPosition, kind: str) -> str:
    """Return a chip per word in Markdown: whether its output changes; one chip where none does."""
    if _keeps(read, kind):
        return ":gray-badge[every word: unchanged]"
    return " ".join(
        f":gray-badge[{plain(word)}: unchanged]"
        if change < SAME
        else f":orange-badge[{plain(word)}: changed]"
        for word, change in zip(
            word_labels(read.words), read.reading(kind).differences, strict=True
        )
    )


def caption(setting: Setting, read: WhyPosition) -> str:
    """Say how the two patterns are compared, what the layer is, and for which schemes it is another."""
    usual = read.schemes[NO_POSITION].layer
    others = []
    for kind, outputs in read.schemes.items():
        parts = [plain(outputs.provenance)] if outputs.provenance else []
        if outputs.layer.width != usual.width:
            parts.append(f"so token vectors of width {outputs.layer.width:,}")
        if outputs.layer.heads != usual.heads:
            parts.append(f"{_heads(outputs.layer)}, because widths are equal")
        if parts:
            others.append(f" {SCHEMES[kind].label}: {', '.join(parts)}.")
    return (
        f"Each row sums to 1. Both pictures list the words as in {quoted_words(read.words)}, so a word has "
        f"the same row and column in both. One attention layer, width {usual.width:,}, {_heads(usual)}, "
        f"random weights from seed {setting.seed}.{''.join(others)}"
    )


def _heads(layer: RandomLayer) -> str:
    return "one head" if layer.heads == 1 else f"{layer.heads} heads of {layer.head_dim}"
