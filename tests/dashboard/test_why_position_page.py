"""The page Why order matters: its numbers, a visitor's sentence and its link."""

import re
from itertools import product
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from dashboard.controls import pin
from dashboard.pages.why_order_matters.options import OrderChoice
from dashboard.settings import Setting, to_text
from posenc import fields
from posenc.analysis import RandomLayer, read_orders
from tests.dashboard import pages
from tests.dashboard.pages import KINDS, drawn, headline, matrices, notices, of, visit

pytestmark = pytest.mark.usefixtures("no_shape_checks")

PAGE = "why_position"
BY_WORD = "difference by word"


def headline_text(at: AppTest) -> str:
    """The headline as read, without the marks that isolate its writing directions."""
    return pages.as_read(headline(at)).replace("\u2068", "").replace("\u2069", "")


WORDS = ("the", "cat", "sat", "on", "the", "mat")  # one word stands twice
NAMED = ["the (1)", "cat", "sat", "on", "the (2)", "mat"]
SMALL = Setting(
    dim=48, heads=3, base=100.0, train_length=20, seed=7, learned_source="random", schemes=KINDS
)
ORDERS = {
    "first and third swapped": (2, 1, 0, 3, 4, 5),
    "reversed": (5, 4, 3, 2, 1, 0),
    "ends swapped": (5, 1, 2, 3, 4, 0),
    "first word last": (1, 2, 3, 4, 5, 0),
    "two words swapped": (0, 4, 2, 3, 1, 5),  # the second and the fifth, by two sliders
}


def chips(at: AppTest) -> list[list[str]]:
    """The chips as read: without position, and with the scheme that is shown."""
    rows = [pages.as_read(text.value) for text in at.main.markdown if "-badge[" in text.value]
    return [re.findall(r":(?:gray|orange)-badge\[(.*?)\]", row) for row in rows]


@pytest.mark.parametrize("how", ORDERS)
def test_every_number_is_that_of_the_layer_in_both_orders(how: str) -> None:
    """tests/library/test_order.py has the layer's own proofs."""
    names = (BY_WORD, "attention weights")
    link = to_text(SMALL) | {"sentence": " ".join(WORDS), "reorder": how, "pattern_head": "2"}
    link["order_scheme"] = "ALiBi"
    if how == "two words swapped":
        link |= {"swap": "2", "swap_with": "5"}
    masked = how == "ends swapped"
    at = drawn(visit(PAGE, link | {"causal": str(masked).lower()}, **pages.opened(*names)))
    differences, weights = (pages.table(at, name) for name in names)
    header, shown = matrices(at)
    said = headline_text(at)
    for kind, (mask, causal) in product(KINDS, (("no mask", False), ("causal mask", True))):
        scheme = SMALL.request(kind, "cpu", 6).build()
        layer = RandomLayer.of(SMALL.sizes, scheme)
        expected = read_orders(scheme, layer, WORDS, ORDERS[how], causal=causal)
        own = of(differences, kind).set_index("mask").loc[mask]
        assert own["word"].tolist() == NAMED
        assert np.allclose(own["difference"], expected.differences, rtol=1e-6, atol=1e-12)
        if not causal:
            blind = kind == "none" or (kind == "alibi" and how == "reversed")
            assert (expected.largest < 1e-13) == blind
        if causal == masked:  # patterns are drawn of one mask
            both = of(weights, kind).set_index("order")["weight"]
            for order, values in (("first", expected.patterns), ("other", expected.other_patterns)):
                assert np.allclose(both[order], values[1].flatten())
                if kind == "alibi":
                    (title,) = (one for one in shown if f"{order} order" in one)
                    assert np.allclose(shown[title], values[1], atol=1e-7)
            if kind == "alibi":
                changed = [gap >= 1e-12 for gap in expected.differences.tolist()]
                assert chips(at)[1] == [
                    f"{word}: {'changed' if one else 'unchanged'}"
                    for word, one in zip(NAMED, changed, strict=True)
                ]
                assert (f"by up to {expected.largest:.3g}" in said) == any(changed)
    drawn_weights = np.concatenate([one.ravel() for one in shown.values()])
    assert header["scale"]["low"] <= drawn_weights.min() < header["scale"]["low"] + 0.1
    assert header["scale"]["high"] - 0.1 < drawn_weights.max() <= header["scale"]["high"]
    for panel in header["panels"]:
        assert "ALiBi, head 2 of 3, " in panel["title"]
        assert [text for _, text in panel["columns"]["ticks"]] == NAMED
    assert ("With ALiBi too, each word keeps its output" in said) == (how == "reversed")


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
DEFAULT_SENTENCE = "dog bites man today"
CHANGED = {
    "blank": ("   ", DEFAULT_SENTENCE),
    "one word": ("dog", DEFAULT_SENTENCE),
    "thirteen": ("a b c d e f g h i j k l m", "a b c d e f g h i j k l"),
    "controls": ("dog\x00bites\x1b[31m man", "dog bites [31m man"),
    "turned around": ("dog \u202eetib\u202c man", "dog etib man"),
    "half a million": ("ab " * 170_000, " ".join(["ab"] * 12)),
}


TINY = {"schemes": "none", "dim": "16", "heads": "2"}


@pytest.mark.parametrize("name", FINE)
def test_sentence_in_a_link_is_taken_literally(name: str) -> None:
    text = FINE[name]
    at = drawn(visit(PAGE, {"sentence": text} | TINY))
    assert notices(at) == []
    assert at.text_input(key="sentence").value == text
    assert f"\u201c{' '.join(text.split())}\u201d" in headline_text(at)
    assert at.query_params["sentence"] == text
    assert len(matrices(at)[0]["panels"][0]["rows"]["ticks"]) == len(text.split())
    raw = headline(at)
    for mark in ("**", "](", "<", "$", ":red", "`", "#"):
        assert raw.count(mark) == raw.count(f"\\{mark}"), (mark, raw)


@pytest.mark.parametrize("name", CHANGED)
def test_sentence_that_cannot_be_used_is_replaced_and_the_page_says_so(name: str) -> None:
    text, used = CHANGED[name]
    at = drawn(visit(PAGE, {"sentence": text} | TINY))
    (notice,) = notices(at)
    if used == DEFAULT_SENTENCE:  # nothing of it can be used
        assert notice == "Ignored in this link: 'sentence'."
    else:
        assert "2 to 12 words" in notice
        assert f"\u201c{used}\u201d" in notice
    assert at.text_input(key="sentence").value == used


def test_typed_text_that_cannot_be_used_stays_in_the_box() -> None:
    at = drawn(visit(PAGE, TINY))
    text, used = CHANGED["one word"]
    at.text_input(key="sentence").set_value(text).run()
    assert drawn(at).text_input(key="sentence").value == text
    assert f"\u201c{used}\u201d is used instead." in notices(at)[0]
    at.text_input(key="sentence").set_value("the cat the dog").run()
    assert notices(drawn(at)) == []
    assert "Both orders are the same sentence, \u201cthe cat the dog\u201d." in headline_text(at)
    assert chips(at) == pages.rows_of_matrices(at) == []


@pytest.mark.parametrize("value", [None, b"a b", "a", "a b\u202e", "a\tb", "x " * 61])
def test_rule_refuses_what_is_no_sentence(value: object) -> None:
    assert not fields.rules(OrderChoice)["sentence"].accepts(value)


# Settings -----------------------------------------------------------------------------------------


def test_equal_width_leaves_rope_one_head_and_the_page_says_so() -> None:
    link = {"equal_width": "true", "dim": "64"}
    for label, expected in (("RoPE", "one head"), ("ALiBi", "head 1 of 8")):
        at = drawn(visit(PAGE, link | {"order_scheme": label}, learned_source="minilm"))
        for panel in matrices(at)[0]["panels"]:
            assert panel["title"].startswith(f"{label}, {expected}, ")
    assert any("token vectors of width 384" in text for text in pages.captions(at))


def test_head_slider_ends_at_the_heads_and_keeps_its_head_where_they_change() -> None:
    at = drawn(visit(PAGE, {"pattern_head": "20"}))  # a link made while the slider ended at 64
    slider = at.slider(key="pattern_head")
    assert (slider.max, slider.value) == (8, 8)
    for heads, expected in ((16, 8), (4, 4)):
        at.session_state["heads"] = heads
        slider = drawn(at.run()).slider(key="pattern_head")
        assert (slider.max, slider.value) == (heads, expected)
        assert all(f"head {expected} of {heads}," in one["title"] for one in pages.panels(at))


SHORT: dict[str, Any] = {"train_length": 2, "learned_source": "random"}


def test_table_too_short_for_the_sentence_is_named_and_the_others_stay() -> None:
    at = drawn(visit(PAGE, SHORT, **pages.opened(BY_WORD)))
    (box,) = at.info
    assert box.value.startswith("The learned table")
    assert "position 3 has none" in pages.as_read(box.value)
    assert "Learned" not in headline_text(at)
    assert len(matrices(at)[1]) == 2
    assert "Learned" not in pages.table(drawn(at), BY_WORD)["scheme"].tolist()
    (box,) = drawn(visit(PAGE, {"a": pin.to_token(Setting(**SHORT))})).info
    assert box.value.startswith("Pinned setting, A: The learned table")
    assert "position 3 has none" in pages.as_read(box.value)
