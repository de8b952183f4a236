"""Why order matters: what one attention layer makes of a sentence whose words change places."""

import streamlit as st

from dashboard.ab import AB
from dashboard.charts import theme
from dashboard.components.matrix import Full, Panel, Scale
from dashboard.controls import sidebar
from dashboard.controls.page_controls import UsedControls
from dashboard.frame import page, panels
from dashboard.pages.why_order_matters import data, sentences
from dashboard.pages.why_order_matters.data import NO_POSITION, WhyPosition, word_labels
from dashboard.pages.why_order_matters.options import SWAPPED, OrderChoice, SwapChoice
from dashboard.settings.setting import MAX_SHOWN_HEADS, head_count
from posenc import attention
from posenc.analysis import word_order
from posenc.schemes import SCHEMES

LONGEST_TICK = 10  # letters of a word beside a matrix


used_controls = UsedControls(("schemes", "dim", "heads", "seed"), never=("alibi_head", "precision"))


def draw() -> None:
    """Draw the page."""
    settings = page.settings()
    header = st.container()
    order, shown_as = st.container(horizontal=True), st.container(horizontal=True)
    words = shown_as.container(horizontal=True, width="content")
    kinds = tuple(dict.fromkeys((*page.kinds(settings), NO_POSITION)))
    heads = max(head_count(setting.heads, setting.real_model) for setting in settings.each)
    chosen = sidebar.choices(
        OrderChoice,
        dict.fromkeys(("sentence", "reorder", "causal"), order)
        | dict.fromkeys(("order_scheme", "pattern_head"), shown_as),
        narrowed={
            "order_scheme": [SCHEMES[kind].label for kind in kinds],
            "pattern_head": min(heads, MAX_SHOWN_HEADS),
        },
    )
    shown = next(kind for kind in kinds if SCHEMES[kind].label == chosen.order_scheme)
    swap = SwapChoice()
    if chosen.reorder == SWAPPED:
        most = len(chosen.sentence.split())
        swap = sidebar.choices(SwapChoice, words, narrowed={"swap": most, "swap_with": most})
    both = settings.map(lambda setting: data.read(setting, chosen, swap))
    read = both.current
    with header:
        page.head("Why order matters", both.map(lambda result: sentences.headline(result, shown)))
    page.show_excluded(both, read.schemes, "Why order matters")

    if read.words != read.other:  # the same sentence has nothing to compare
        _draw_chips(both, shown)
        if read.mirrored:
            st.caption(
                "Reversing keeps the distance between every two words. Without a causal mask, a scheme "
                "that sees distance alone, such as ALiBi, cannot notice it."
            )
        if any(shown in result.schemes for result in both.each):
            _draw_patterns(both, shown)
            st.caption(sentences.caption(settings.current, read))

    page.how_to_read(
        "Both orders go through the same layer. Outputs are compared word by word. Each word is "
        "followed to its new place by its index, even if it occurs twice. A word is unchanged if "
        "its two outputs agree up to float64 rounding.\n\n"
        "Without position, the outputs only move with their words: attention is *equivariant*, "
        "not *invariant*. The mean over all words is invariant. A causal mask alone breaks this: "
        "the first word sees one word, the last word sees all. The weights are random, so the "
        "size of a change depends on them too."
    )
    page.definition(
        r"\mathrm{Attn}(P X) = P\,\mathrm{Attn}(X), \qquad "
        r"\mathrm{Attn}(X) = \mathrm{softmax}\!\left(\tfrac{X W_q (X W_k)^\top}{\sqrt{d}}\right) X W_v",
        "P reorders the words. Without position, the equation holds for every P (Lee et al. 2019, "
        "arXiv 1810.00825; Yun et al. 2020, arXiv 1912.10077). Without a mask, a bias by distance "
        "alone (ALiBi) satisfies it for the reversed order.",
        word_order.read_orders,
        word_order.RandomLayer,
        attention,
    )
    page.numbers(both.map(lambda result: result.differences), "difference by word")
    page.numbers(both.map(lambda result: result.weights), "attention weights")
    page.script(data.script(settings.current, chosen, swap))


def _draw_chips(both: AB[WhyPosition], shown: str) -> None:
    """Draw a row of chips without position and one with the scheme, of B and of A."""
    words = word_labels(both.current.words)
    with st.container(gap="xsmall"):
        for kind in dict.fromkeys((NO_POSITION, shown)):
            name = "Without position" if kind == NO_POSITION else page.label(kind)
            for result, setting in zip(both.each, ("", ", A"), strict=False):
                if kind in result.schemes:
                    st.markdown(f"**{name}{setting}:** {sentences.chips(words, result, kind)}")


def _draw_patterns(both: AB[WhyPosition], kind: str) -> None:
    """Draw the attention weights of one scheme in both orders, words in the same places."""
    panels.rows_of_both(
        both.map(lambda result: _panels(result, kind)),
        lambda drawn: Scale.of_weights([panel.values for panel in drawn], "attention weight"),
        key="order_patterns",
        unit="weights",
        row_label="query",
        column_label="key",
        together=2,
        height=max(160, 27 * len(both.current.words)),
        text_alternative=(
            f"Attention weights between {len(both.current.words)} words for {page.label(kind)} in both "
            "orders; the arrow keys read a cell."
        ),
    )


def _panels(read: WhyPosition, kind: str) -> list[Panel]:
    if kind not in read.patterns:
        return []
    ticks = [
        (n, word if len(word) <= LONGEST_TICK else word[: LONGEST_TICK - 1] + "\u2026")
        for n, word in enumerate(word_labels(read.words))
    ]
    head, weights = read.patterns[kind]
    orders = ("first order", "other order, words listed as in the first")
    return [
        Panel(
            title=f"{SCHEMES[kind].label}, {head}, {order}",
            values=Full(values),
            row_ticks=ticks,
            column_ticks=ticks,
            color=theme.COLOURS[kind],
        )
        for order, values in zip(orders, weights, strict=True)
    ]
