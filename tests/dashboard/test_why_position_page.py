"""The page Why order matters: its numbers, a visitor's sentence and its controls."""

import math
import re
from itertools import product
from typing import Any

import numpy as np
import pytest

from dashboard.blocks import Controls, Matrices, Page
from dashboard.pages.why_order_matters.page import Options, page
from dashboard.settings import Setting
from dashboard.state import read_query
from posenc import fields
from posenc.analysis import RandomLayer, read_orders
from tests.dashboard.called_pages import block_of, blocks, data, panel_values, texts
from tests.dashboard.pages import KINDS, as_read, drawn, notices, of, visit

pytestmark = pytest.mark.usefixtures("no_shape_checks")

WORDS = ("the", "cat", "sat", "on", "the", "mat")  # one word stands twice
NAMED = ["the (1)", "cat", "sat", "on", "the (2)", "mat"]
SMALL = Setting(
    dim=48, heads=3, base=100.0, train_length=20, seed=7, learned_source="random", schemes=KINDS
)
TINY = Setting(schemes=("none",), dim=16, heads=2)
BY_WORD = "Difference by word"
ORDERS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "first and third": ((2, 1, 0, 3, 4, 5), {}),
    "reversed": ((5, 4, 3, 2, 1, 0), {"reorder": "reversed"}),
    "ends swapped": ((5, 1, 2, 3, 4, 0), {"reorder": "ends swapped"}),
    "first word last": ((1, 2, 3, 4, 5, 0), {"reorder": "first word last"}),
    "second and fifth": ((0, 4, 2, 3, 1, 5), {"swap": 2, "swap_with": 5}),
}


def said(shown: Page) -> str:
    """Return the headline and the first text as read, without the marks that isolate their directions."""
    read = " ".join(map(as_read, (shown.headline, texts(shown)[0])))
    return read.replace("\u2068", "").replace("\u2069", "")


def chips(shown: Page) -> list[list[str]]:
    """Return the chips as read: without position, and with the scheme that is shown."""
    (text,) = (as_read(text) for text in texts(shown) if "-badge[" in text)
    rows = re.split(r"\*\*[\w ]+:\*\*", text)[1:]
    return [re.findall(r":(?:gray|orange)-badge\[(.*?)\]", row) for row in rows]


def narrowed(shown: Page) -> dict[str, Any]:
    """Return the largest numbers and the choices that the controls of the page offer."""
    controls = blocks(shown, Controls)
    return {name: block.narrowed.get(name) for block in controls for name in block.names}


@pytest.mark.parametrize("name", ORDERS)
def test_every_number_is_that_of_the_layer_in_both_orders(name: str) -> None:
    """tests/library/test_order.py has the layer's own proofs."""
    order, choices = ORDERS[name]
    masked, mirrored = name == "ends swapped", name == "reversed"
    options = Options(
        sentence=" ".join(WORDS), order_scheme="ALiBi", pattern_head=2, causal=masked, **choices
    )
    shown = page(SMALL, options)
    differences, weights = data(shown, BY_WORD), data(shown, "Attention weights")
    pictures = panel_values(shown, "order_patterns")
    for kind, (mask, causal) in product(KINDS, (("no mask", False), ("causal mask", True))):
        scheme = SMALL.request(kind, "cpu", 6).build()
        layer = RandomLayer.of(SMALL.sizes, scheme)
        expected = read_orders(scheme, layer, WORDS, order, causal=causal)
        own = of(differences, kind).set_index("mask").loc[mask]
        assert own["word"].tolist() == NAMED
        assert np.allclose(own["difference"], expected.differences, rtol=1e-6, atol=1e-12)
        if not causal:
            blind = kind == "none" or (kind == "alibi" and mirrored)
            assert (expected.largest < 1e-13) == blind
        if causal == masked:  # patterns are drawn of one mask
            both = of(weights, kind).set_index("order")["weight"]
            for place, values in (("first", expected.patterns), ("other", expected.other_patterns)):
                assert np.allclose(both[place], values[1].flatten())
                if kind == "alibi":
                    (title,) = (one for one in pictures if f"{place} order" in one)
                    assert np.allclose(pictures[title], values[1], atol=1e-7)
            if kind == "alibi":
                changed = [gap >= 1e-12 for gap in expected.differences.tolist()]
                by_word = [
                    f"{word}: {'changed' if one else 'unchanged'}"
                    for word, one in zip(NAMED, changed, strict=True)
                ]
                assert chips(shown)[1] == (by_word if any(changed) else ["every word: unchanged"])
                entries = expected.outputs.flatten().tolist()
                typical = math.sqrt(sum(entry**2 for entry in entries) / len(entries))
                size = f"{expected.largest / typical:.3g} times"
                size += " with ALiBi" if causal else " a typical output value with ALiBi"
                assert (size in said(shown)) == any(changed)
    row = block_of(shown, Matrices, "order_patterns").row("")
    drawn_weights = np.concatenate([one.ravel() for one in pictures.values()])
    assert row.scale.low <= drawn_weights.min() < row.scale.low + 0.1
    assert row.scale.high - 0.1 < drawn_weights.max() <= row.scale.high
    for panel in row.panels:
        assert "ALiBi, head 2 of 3, " in panel.title
        assert [text for _, text in panel.column_ticks] == NAMED
    assert ("With ALiBi too, each word keeps its output" in said(shown)) == mirrored


@pytest.mark.parametrize("causal", [False, True])
def test_two_orders_that_are_one_sentence_are_drawn_equal(causal: bool) -> None:
    shown = page(SMALL, Options(sentence="the cat the dog", order_scheme="RoPE", causal=causal))
    assert "Both orders are the same sentence, \u201cthe cat the dog\u201d" in said(shown)
    first, other = panel_values(shown, "order_patterns").values()
    assert np.array_equal(first, other)
    assert chips(shown) == [["every word: unchanged"]] * 2


# Sentences of visitors ----------------------------------------------------------------------------

FINE = {
    "emoji": "\U0001f415 \u2764\ufe0f \U0001f468\u200d\U0001f469\u200d\U0001f467",
    "right to left": "\u0627\u0644\u0643\u0644\u0628 \u064a\u0639\u0636 \u0627\u0644\u0631\u062c\u0644",
    "markdown": "**a** [x](http://evil.example) `c` $d$ :red[e] # f",
    "html": "<script>alert(1)</script> ![p](http://evil.example/p.png) &amp;",
    "long word": "a " + "b" * 118,
    "twelve": "a b c d e f g h i j k l",
    "spaces and percent": "  100%   &sentence=x +1 ",
}


@pytest.mark.parametrize("name", FINE)
def test_sentence_is_taken_literally(name: str) -> None:
    text = FINE[name]
    linked = read_query({"sentence": [text]}, "why_order_matters", Options)
    assert linked.state.options == {"why_order_matters": Options(sentence=text)}
    assert linked.notice == ""
    shown = page(TINY, Options(sentence=text))
    assert f"\u201c{' '.join(text.split())}\u201d" in said(shown)
    row = block_of(shown, Matrices, "order_patterns").row("")
    assert len(row.panels[0].row_ticks) == len(text.split())
    for words in (shown.headline, *texts(shown)[:2]):
        words = re.sub(r"\*\*[\w ]+:\*\*|:\w+-badge\[|\]", "", words)
        for mark in ("**", "](", "<", "$", ":red", "`", "#"):
            assert words.count(mark) == words.count(f"\\{mark}"), (mark, words)


CUT = {
    "thirteen": ("a b c d e f g h i j k l m", "a b c d e f g h i j k l"),
    "controls": ("dog\x00bites\x1b[31m man", "dog bites [31m man"),
    "turned around": ("dog \u202eetib\u202c man", "dog etib man"),
    "half a million": ("ab " * 170_000, " ".join(["ab"] * 12)),
}


@pytest.mark.parametrize("name", CUT)
def test_sentence_of_a_link_that_is_too_long_or_hides_text_is_cut(name: str) -> None:
    text, used = CUT[name]
    linked = read_query({"sentence": [text]}, "why_order_matters", Options)
    assert linked.state.options == {"why_order_matters": Options(sentence=used)}
    assert "2 to 12 words" in linked.notice


@pytest.mark.parametrize("text", ["   ", "dog"])
def test_sentence_of_a_link_that_cannot_be_used_is_left_out(text: str) -> None:
    linked = read_query({"sentence": [text]}, "why_order_matters", Options)
    assert linked.state.options == {"why_order_matters": Options()}
    assert linked.ignored == ("sentence",)


def test_cut_sentence_of_a_link_is_told() -> None:
    text, used = CUT["thirteen"]
    at = drawn(visit("why_position", {"sentence": text}))
    (notice,) = notices(at)
    assert "2 to 12 words" in notice
    assert f"\u201c{used}\u201d" in notice
    assert at.text_input(key="sentence").value == used


def test_typed_text_that_cannot_be_used_stays_in_the_box() -> None:
    at = drawn(visit("why_position"))
    at.text_input(key="sentence").set_value("dog").run()
    assert drawn(at).text_input(key="sentence").value == "dog"
    assert "\u201cdog bites man today\u201d is used instead." in notices(at)[0]


def test_cleared_field_shows_the_sentence_that_is_used_and_says_so() -> None:
    at = drawn(visit("why_position"))
    at.text_input(key="sentence").set_value("").run()
    assert drawn(at).text_input(key="sentence").value == "dog bites man today"
    assert "\u201cdog bites man today\u201d is used instead." in notices(at)[0]


@pytest.mark.parametrize("value", [None, b"a b", "a", "a b\u202e", "a\tb", "x " * 61])
def test_rule_refuses_what_is_no_sentence(value: object) -> None:
    assert not fields.rules(Options)["sentence"].accepts(value)


# Settings -----------------------------------------------------------------------------------------


def test_equal_width_leaves_rope_one_head_and_the_page_says_so() -> None:
    wide = Setting(equal_width=True, dim=64, learned_source="minilm")
    for label, expected in (("RoPE", "one head"), ("ALiBi", "head 1 of 8")):
        shown = page(wide, Options(order_scheme=label))
        for title in panel_values(shown, "order_patterns"):
            assert title.startswith(f"{label}, {expected}, ")
    assert any("token vectors of width 384" in text for text in texts(shown))


@pytest.mark.parametrize(("heads", "shown"), [(8, 8), (16, 16), (64, 20)])
def test_head_that_a_layer_lacks_is_its_last(heads: int, shown: int) -> None:
    called = page(Setting(heads=heads), Options(pattern_head=20))
    assert narrowed(called)["pattern_head"] == heads
    titles = [*panel_values(called, "order_patterns")]
    assert all(f"head {shown} of {heads}," in title for title in titles)


def test_head_0_is_called_the_mean_that_is_drawn() -> None:
    called = page(Setting(heads=8), Options(pattern_head=0))
    titles = [*panel_values(called, "order_patterns")]
    assert all(", mean of 8 heads, " in title for title in titles)
    slider = visit("why_position", {"heads": "4", "pattern_head": "0"}).select_slider(
        key="pattern_head"
    )
    assert (slider.value, slider.options) == (0, ["mean", "1", "2", "3", "4"])


def test_words_and_schemes_that_are_not_there_cannot_be_chosen() -> None:
    short = page(Setting(schemes=("alibi", "none")), Options(sentence="a b"))
    assert narrowed(short) == {
        "sentence": None, "reorder": None, "causal": None,
        "swap": 2, "swap_with": 2, "order_scheme": ("ALiBi", "NoPE"), "pattern_head": 8,
    }  # fmt: skip
    assert data(short, BY_WORD)["word"].unique().tolist() == ["a", "b"]
    assert "With ALiBi" in said(short)  # RoPE, the default, is not chosen
    assert not {"swap", "swap_with"} & narrowed(page(TINY, Options(reorder="reversed"))).keys()


def test_table_too_short_for_the_sentence_is_named_and_the_others_stay() -> None:
    shown = page(Setting(train_length=2, learned_source="random"), Options(order_scheme="Learned"))
    assert "position 3 has none" in shown.reasons["learned"]
    assert "Learned" not in said(shown)
    assert len(chips(shown)) == 1
    assert data(shown, BY_WORD)["scheme"].unique().tolist() == [
        "NoPE", "Sinusoidal", "RoPE", "ALiBi"
    ]  # fmt: skip
