"""Why order matters: what one attention layer makes of a sentence whose words change places."""

from collections.abc import Mapping, Sequence

from dashboard import notes
from dashboard.blocks import Block, Controls, Data, Definition, Matrices, Page, Text, Uses
from dashboard.cache import cached
from dashboard.charts import theme
from dashboard.components.matrix import Full, Panel, Scale
from dashboard.pages.why_order_matters import data, sentences
from dashboard.pages.why_order_matters.data import NO_POSITION, WhyPosition
from dashboard.pages.why_order_matters.options import SWAPPED, Options
from dashboard.settings import Setting
from dashboard.settings.setting import MAX_SHOWN_HEADS, head_count
from dashboard.text import word_labels
from posenc import attention
from posenc.analysis import word_order
from posenc.schemes import SCHEMES

USES = Uses(("schemes", "dim", "heads", "seed"), never=("alibi_head", "precision"))
GUIDE = (
    "Both orders go through the same layer. Outputs are compared word by word. Each word is "
    "followed to its new place by its index, even if it occurs twice. A word is unchanged if "
    "its two outputs agree up to float64 rounding. A typical output value is the root mean square "
    "of all of them.\n\n"
    "Without position, the outputs only move with their words: attention is *equivariant*, "
    "not *invariant*. The mean over all words is invariant. A causal mask alone breaks this: "
    "the first word sees one word, the last word sees all. The weights are random, so the "
    "size of a change depends on them too."
)
DEFINITION = Definition(
    r"\mathrm{Attn}(P X) = P\,\mathrm{Attn}(X), \qquad "
    r"\mathrm{Attn}(X) = \mathrm{softmax}\!\left(\tfrac{X W_q (X W_k)^\top}{\sqrt{d}}\right) X W_v",
    "P reorders the words. Without position, the equation holds for every P (Lee et al. 2019, "
    "arXiv 1810.00825; Yun et al. 2020, arXiv 1912.10077). Without a mask, a bias by distance "
    "alone (ALiBi) satisfies it for the reversed order.",
    (word_order.read_orders, word_order.RandomLayer, attention),
)
MIRRORED = (
    "Reversing keeps the distance between every two words. Without a causal mask, a scheme "
    "that sees distance alone, such as ALiBi, cannot notice it."
)


@cached
def page(setting: Setting, options: Options) -> Page:
    """Return the page."""
    kinds = tuple(dict.fromkeys((*setting.schemes, NO_POSITION)))
    offered = {SCHEMES[kind].label: kind for kind in kinds}
    shown = offered.get(options.order_scheme, kinds[0])
    read = data.read(setting, options)
    orders = sentences.orders(read, shown)
    return Page(
        title="Why order matters",
        headline=sentences.headline(read, shown),
        reasons=read.reasons,
        blocks=(
            *([Text(orders, both="orders")] if orders else []),
            *_controls(setting, options, tuple(offered), len(read.words)),
            *_answer(setting, read, shown),
            Data(title="Difference by word", frame=read.differences),
            Data(title="Attention weights", frame=read.weights),
        ),
        guide=GUIDE,
        definition=DEFINITION,
        script=lambda: data.script(setting, options),
    )


def _controls(
    setting: Setting, options: Options, labels: Sequence[str], words: int
) -> tuple[Block, ...]:
    """Return the controls of the sentence, and of what is shown of it. labels: of the schemes offered."""
    heads = min(head_count(setting.heads, setting.real_model), MAX_SHOWN_HEADS)
    swapped = {"swap": words, "swap_with": words} if options.reorder == SWAPPED else {}
    offered: Mapping[str, int | Sequence[str]] = {
        **swapped,
        "order_scheme": labels,
        "pattern_head": heads,
    }
    return Controls(("sentence", "reorder", "causal")), Controls(tuple(offered), offered)


def _answer(setting: Setting, read: WhyPosition, shown: str) -> list[Block]:
    """Return which words change, and the weights of both orders."""
    chips = [
        f"**{'Without position' if kind == NO_POSITION else SCHEMES[kind].label}:**\u00a0"
        + sentences.chips(read, kind)
        for kind in dict.fromkeys((NO_POSITION, shown))
        if kind in read.schemes
    ]
    blocks: list[Block] = [Text("\u2003".join(chips), both="chips")]
    if read.mirrored:
        blocks.append(Text(MIRRORED, "caption"))
    if shown in read.patterns:
        blocks += [
            _patterns(setting, read, shown),
            Text(sentences.caption(setting, read), "caption"),
        ]
    return blocks


def _patterns(setting: Setting, read: WhyPosition, kind: str) -> Matrices:
    """Return the attention weights of one scheme in both orders, words in the same places."""
    ticks = [*enumerate(word_labels(read.words))]
    label = SCHEMES[kind].label
    head, weights = read.patterns[kind]
    orders = ("first order", "other order, words listed as in the first")
    panels = [
        Panel(
            title=f"{label}, {head}, {order}",
            subtitle=notes.panel_note(setting, kind, read.schemes[kind].provenance, rounded=False),
            values=Full(values),
            row_ticks=ticks,
            column_ticks=ticks,
            color=theme.COLOURS[kind],
        )
        for order, values in zip(orders, weights, strict=True)
    ]
    return Matrices(
        key="order_patterns",
        panels=panels,
        scale=_scale,
        unit="weights",
        row_label="query",
        column_label="key",
        together=2,
        height=max(112, 26 * len(read.words)),
        text=f"Attention weights between {len(read.words)} words for {label} in both orders; the arrow "
        "keys read a cell.",
    )


def _scale(panels: Sequence[Panel]) -> Scale:
    return Scale.of_weights([panel.values for panel in panels], "attention weight")
