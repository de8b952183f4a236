"""Why position: its numbers, its sentence from the visitor, its link and its script."""

import csv
import io
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

import numpy as np
import pandas as pd
import pytest
import torch

from dashboard.choices import OrderChoice
from dashboard.scripts.why_position import script
from posenc import SCHEMES, Setting, fields
from posenc.analysis import RandomLayer
from tests.pages import (
    KINDS,
    LABELS,
    as_read,
    captions,
    charts,
    drawn,
    headline,
    matrices,
    notices,
    of,
    opened,
    table,
    visit,
)
from tests.script_runner import run
from tests.test_order import by_loop

pytestmark = pytest.mark.usefixtures("no_shape_checks")

PAGE = "why_position"
ROOT = Path(__file__).parents[1]
BY_WORD = "difference by word"
RULE = fields.rules(OrderChoice)["sentence"]


def said(at: Any) -> str:
    """The headline as read, without the marks that keep its directions apart."""
    return as_read(headline(at)).replace("\u2068", "").replace("\u2069", "")


def chosen_rows(frame: pd.DataFrame, kind: str, **values: str) -> pd.DataFrame:
    """One scheme's rows that hold these values."""
    own = of(frame, kind)
    for name, value in values.items():
        own = own[own[name] == value]
    return own


# What is said and shown ---------------------------------------------------------------------------


def test_the_default_says_what_is_blind_and_what_is_not() -> None:
    at = drawn(visit(PAGE))
    text = said(at)
    assert text.startswith(
        "Without position \u201cdog bites man\u201d and \u201cman bites dog\u201d give every word the "
        "same output (largest difference "
    )
    assert "With position they differ: Learned by 0." in text
    assert "Still the same with ALiBi (" in text
    assert "a mirrored sentence keeps every distance" in text
    assert "All of this is without a mask. A causal mask alone shows the order: by " in text
    summary = at.dataframe[0].value.set_index("scheme")
    assert list(summary.index) == ["NoPE", "Learned", "Sinusoidal", "RoPE", "ALiBi"]
    for label in ("NoPE", "ALiBi"):
        assert summary.loc[label, "no mask"] < 1e-13
        assert summary.loc[label, "mean of all words, no mask"] < 1e-13
    for label in ("Learned", "Sinusoidal", "RoPE"):
        assert summary.loc[label, "no mask"] > 0.1
        assert f"{label} by {summary.loc[label, 'no mask']:.3g}" in text
    assert (summary["causal mask"] > 0.1).all()
    assert text.endswith(
        f"by {summary.loc['NoPE', 'causal mask']:.3g} without position and "
        f"by {summary.loc['ALiBi', 'causal mask']:.3g} with ALiBi."
    )
    assert any("Equivariant, not invariant" in caption for caption in captions(at))


def test_another_order_that_changes_distances_is_seen_by_alibi_too() -> None:
    text = said(drawn(visit(PAGE, {"reorder": "first word last"})))
    assert "\u201cbites man dog\u201d" in text
    assert "ALiBi by 0." in text
    assert "mirrored" not in text


MAT = ("the", "cat", "sat", "on", "the", "mat")  # one word stands twice


@pytest.mark.parametrize(
    ("how", "order"),
    [
        ("reversed", [5, 4, 3, 2, 1, 0]),
        ("ends swapped", [5, 1, 2, 3, 4, 0]),
        ("first word last", [1, 2, 3, 4, 5, 0]),
    ],
)
def test_a_repeated_word_is_followed_to_its_new_place(how: str, order: list[int]) -> None:
    """Attention in NumPy with the permutation written out, of all that changes a logit by place."""
    setting = Setting()
    link = {"sentence": " ".join(MAT), "reorder": how}
    at = drawn(visit(PAGE, link, **opened(BY_WORD)))
    shown = table(at, BY_WORD)
    heads, width = setting.heads, setting.dim // setting.heads
    places = np.arange(6.0)
    angles = places[:, None] * 10_000.0 ** (-np.arange(0, width, 2) / width)
    turn = np.exp(1j * angles)
    slopes = 2.0 ** (-8 * np.arange(1, heads + 1) / heads)
    bias = -slopes[:, None, None] * np.abs(places[:, None] - places[None, :])
    wave = places[:, None] * 10_000.0 ** (-np.arange(0, setting.dim, 2) / setting.dim)
    waves = np.stack((np.sin(wave), np.cos(wave)), axis=-1).reshape(6, -1)
    layer = RandomLayer.of(setting, SCHEMES["none"]().build())
    tokens = layer.tokens(MAT).numpy()
    weights = [w[0].numpy() for w in layer.project(torch.eye(setting.dim).double()[None])]

    def outputs(kind: str, x: np.ndarray, causal: bool) -> np.ndarray:
        x = x + waves if kind == "sinusoidal" else x
        q, k, v = (x @ w for w in weights)
        if kind == "rope":
            q, k = ((one[..., ::2] + 1j * one[..., 1::2]) * turn for one in (q, k))
            logits = np.real(q @ np.conj(k).swapaxes(1, 2)) / width**0.5
        else:
            logits = q @ k.swapaxes(1, 2) / width**0.5
        logits = logits + bias if kind == "alibi" else logits
        if causal:
            logits = np.where(np.tri(6) > 0, logits, -np.inf)
        made = np.exp(logits - logits.max(axis=-1, keepdims=True))
        return (made / made.sum(axis=-1, keepdims=True)) @ v

    for kind in ("none", "sinusoidal", "rope", "alibi"):
        for mask, causal in (("no mask", False), ("causal mask", True)):
            first = outputs(kind, tokens, causal)
            other = outputs(kind, tokens[order], causal)
            gaps = [np.abs(first[:, word] - other[:, order.index(word)]).max() for word in range(6)]
            own = chosen_rows(shown, kind, mask=mask)
            assert own["word"].tolist() == ["the (1)", "cat", "sat", "on", "the (2)", "mat"]
            assert np.allclose(own["difference"], gaps, rtol=1e-6, atol=1e-12)
            blind = not causal and (kind == "none" or (kind == "alibi" and how == "reversed"))
            assert (max(gaps) < 1e-13) == blind
    if how == "reversed":
        assert "Still the same with ALiBi (" in said(at)


# Schemes that see the distance alone, so not a mirror image.
EVEN = {"none", "alibi", "kerple_log", "kerple_power", "fire", "sandwich"}


@pytest.mark.parametrize("first", range(0, len(SCHEMES), 6))
def test_a_mirrored_sentence_with_a_repeated_word_is_told_with_every_scheme(first: int) -> None:
    kinds = [*SCHEMES][first : first + 6]
    at = drawn(visit(PAGE, {"sentence": " ".join(MAT)}, schemes=kinds))
    gaps = at.dataframe[0].value.set_index("scheme")["no mask"]
    blind = {label for label, gap in gaps.items() if gap < 1e-12}
    assert blind == {SCHEMES[kind].label for kind in EVEN & {"none", *kinds}}


SMALL = Setting(
    dim=48, heads=3, base=100.0, train_length=20, seed=7, learned_source="random", schemes=KINDS
)
LINK = {"dim": "48", "heads": "3", "base": "100", "train_length": "20", "seed": "7"}
SENTENCE = ("the", "dog", "sees", "the", "cat")


@pytest.mark.parametrize(
    ("how", "other", "places"),
    [
        ("reversed", ("cat", "the", "sees", "dog", "the"), [4, 3, 2, 1, 0]),
        ("ends swapped", ("cat", "dog", "sees", "the", "the"), [4, 1, 2, 3, 0]),
        ("first word last", ("dog", "sees", "the", "cat", "the"), [4, 0, 1, 2, 3]),
    ],
)
def test_every_number_is_that_of_a_plain_loop(
    monkeypatch: pytest.MonkeyPatch, how: str, other: tuple[str, ...], places: list[int]
) -> None:
    monkeypatch.setattr("tests.test_order.SMALL", SMALL)
    names = (BY_WORD, "outputs by word", "attention weights")
    at = drawn(visit(
        PAGE, LINK | {"sentence": " ".join(SENTENCE), "reorder": how, "pattern_head": "2"},
        schemes=list(KINDS), learned_source="random", **opened(*names),
    ))  # fmt: skip
    differences, outputs, weights = (table(at, name) for name in names)
    named = ["the (1)", "dog", "sees", "the (2)", "cat"]
    for kind in KINDS:
        scheme = SMALL.config(kind).build(seed=7)
        layer = RandomLayer.of(SMALL, scheme)
        vectors = dict(zip(SENTENCE, layer.tokens(SENTENCE), strict=True))
        for mask, causal in (("no mask", False), ("causal mask", True)):
            first, second = (
                by_loop(kind, torch.stack([vectors[w] for w in order]), layer, scheme, causal)
                for order in (SENTENCE, other)
            )
            second = second[places]
            gaps = (first - second).abs().max(dim=1).values
            own = chosen_rows(differences, kind, mask=mask)
            assert own["word"].tolist() == named
            assert np.allclose(own["difference"], gaps, atol=1e-10)
            mine = chosen_rows(outputs, kind, mask=mask)
            columns = [f"feature {n}" for n in range(4)]
            assert np.allclose(mine[mine["order"] == "first"][columns], first[:, :4], atol=1e-10)
            assert np.allclose(mine[mine["order"] == "other"][columns], second[:, :4], atol=1e-10)
    header, shown = matrices(at)
    assert header["scale"] == {
        "low": 0.0, "high": 1.0, "kind": "sequential", "unit": "attention weight"
    }  # fmt: skip
    assert list(shown) == [
        f"{LABELS[kind]}, {order} order"
        for kind in ("none", *KINDS[:-1]) for order in ("first", "other")
    ]  # fmt: skip
    for kind in KINDS:
        for order in ("first", "other"):
            own = chosen_rows(weights, kind, order=order)["weight"].to_numpy().reshape(5, 5)
            assert np.allclose(shown[f"{LABELS[kind]}, {order} order"], own, atol=1e-7)
            assert np.allclose(own.sum(axis=1), 1)
    for panel in header["panels"]:
        assert panel["subtitle"] == "head 2 of 3"
        assert [text for _, text in panel["columns"]["ticks"]] == named
        assert panel["columns"]["ticks"] == panel["rows"]["ticks"]


def test_patterns_follow_the_mask_and_the_head() -> None:
    found = {
        (causal, head): matrices(drawn(visit(PAGE, {"causal": causal, "pattern_head": head})))[1]
        for causal in ("true", "false")
        for head in ("0", "1", "8")
    }
    for head in ("0", "1", "8"):
        for label in ("NoPE", "Learned", "Sinusoidal", "RoPE", "ALiBi"):
            masked = found["true", head][f"{label}, first order"]
            assert np.all(np.triu(masked, 1) == 0)
            assert np.all(found["false", head][f"{label}, first order"] > 0)
            # Sorted back: the last word of the first order is the first of the other.
            assert masked[0, 0] == 1
            assert np.allclose(found["true", head][f"{label}, other order"][2], [0, 0, 1])
    one, mean = (found["false", head]["NoPE, first order"] for head in ("1", "0"))
    assert np.abs(one - mean).max() > 0.01
    blind, other = (found["false", "1"][f"NoPE, {order} order"] for order in ("first", "other"))
    assert np.allclose(blind, other, atol=1e-7)
    at = drawn(visit(PAGE, {"heads": "2", "pattern_head": "64"}))
    assert {panel["subtitle"] for panel in matrices(at)[0]["panels"]} == {"head 2 of 2"}


def test_the_chart_holds_the_differences() -> None:
    at = drawn(visit(PAGE, **opened(BY_WORD)))
    frame, exact = charts(at)[0], table(at, BY_WORD)
    assert np.allclose(frame["difference"], np.maximum(exact["difference"], 1e-17))
    assert (frame["same"] == 1e-12).all()


# Sentences of visitors ----------------------------------------------------------------------------

FINE = {
    "emoji": "\U0001f415 \u2764\ufe0f \U0001f468\u200d\U0001f469\u200d\U0001f467",
    "right to left": "\u0627\u0644\u0643\u0644\u0628 \u064a\u0639\u0636 \u0627\u0644\u0631\u062c\u0644",
    "mixed": "dog \u05db\u05dc\u05d1 \u72ac",
    "markdown": "**a** [x](http://evil.example) `c` $d$ :red[e] # f",
    "image": "![p](http://evil.example/p.png) <img src=x onerror=alert(1)>",
    "html": "<script>alert(1)</script> </b> &amp; <!-- -->",
    "formula": "=1+1 $\\infty$ \\",
    "long word": "a " + "b" * 118,
    "twelve": "a b c d e f g h i j k l",
    "spaces": "  dog   bites man ",
    "quotes": "\u201cdog\u201d 'bites' \"man\"",
    "percent": "100% &sentence=x +1",
}
CHANGED = {
    "empty": ("", None),
    "blank": ("   ", None),
    "one word": ("dog", None),
    "thirteen": ("a b c d e f g h i j k l m", "a b c d e f g h i j k l"),
    "a thousand": ("word " * 200, " ".join(["word"] * 12)),
    "a thousand letters": ("x" * 1_000, None),
    "controls": ("dog\x00bites\x1b[31m man", "dog bites [31m man"),
    "turned around": ("dog \u202eetib\u202c man", "dog etib man"),
    "new lines": ("dog\nbites\r\nman", "dog bites man"),
    "half a million": ("ab " * 170_000, " ".join(["ab"] * 12)),
}


def words_shown(at: Any) -> list[str]:
    return [text for _, text in matrices(at)[0]["panels"][0]["rows"]["ticks"]]


@pytest.mark.parametrize("name", FINE)
def test_any_sentence_in_a_link_is_taken_literally(name: str) -> None:
    text = FINE[name]
    at = drawn(visit(PAGE, {"sentence": text}))
    assert notices(at) == []
    assert at.text_input(key="sentence").value == text
    quoted = " ".join(text.split())
    assert f"\u201c{quoted}\u201d" in said(at)
    assert at.query_params["sentence"] == text
    assert len(words_shown(at)) == len(text.split())
    assert all(len(word) <= 10 for word in words_shown(at))
    raw = headline(at)
    for mark in ("**", "](", "<", "$", ":red", "`", "#"):
        position = raw.find(mark)
        while position >= 0:
            assert raw[position - 1] == "\\", (mark, raw)
            position = raw.find(mark, position + 1)


@pytest.mark.parametrize("name", CHANGED)
def test_a_sentence_that_cannot_be_used_is_told_in_one_sentence(name: str) -> None:
    text, used = CHANGED[name]
    used = used or "dog bites man"
    at = drawn(visit(PAGE, {"sentence": text}))
    assert notices(at) == [
        "Sentence must be 2 to 12 words and at most 120 characters; "
        f"\u201c{used}\u201d is used instead."
    ]
    assert at.text_input(key="sentence").value == used
    assert words_shown(at)[0].startswith(used.split()[0])


@pytest.mark.parametrize("name", ["empty", "one word", "thirteen"])
def test_what_is_typed_and_cannot_be_used_stays_in_the_box(name: str) -> None:
    text, used = CHANGED[name]
    at = drawn(visit(PAGE))
    at.text_input(key="sentence").set_value(text).run()
    drawn(at)
    assert at.text_input(key="sentence").value == text
    assert f"\u201c{used or 'dog bites man'}\u201d is used instead." in notices(at)[0]
    at.text_input(key="sentence").set_value("man bites dog").run()
    assert notices(drawn(at)) == []
    assert "\u201cman bites dog\u201d" in said(at)


def test_a_sentence_that_reads_the_same_in_the_other_order_is_told() -> None:
    for link in ({"sentence": "buffalo buffalo"}, {"sentence": "the cat the"}):
        text = said(drawn(visit(PAGE, link)))
        assert "reads the same: the layer gets the same input twice." in text


@pytest.mark.parametrize("text", [*FINE.values(), *(text for text, _ in CHANGED.values())])
def test_what_the_rule_finds_it_accepts_and_finds_again(text: str) -> None:
    found = RULE.nearest(text)
    if found is not None:
        assert RULE.accepts(found)
        assert RULE.nearest(RULE.write(found)) == found
        (again,) = parse_qs(urlencode({"sentence": found}))["sentence"]
        assert again == found


@pytest.mark.parametrize("value", [None, 3, b"a b", "a", "a b\u202e", "a\tb", "x " * 61])
def test_the_rule_refuses_what_is_no_sentence(value: object) -> None:
    assert not RULE.accepts(value)


# Settings -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "link",
    [
        {"dim": "2", "heads": "1", "length": "2"},
        {"dim": "128", "heads": "64", "pattern_head": "64"},
        {"dim": "4096", "length": "2", "heads": "1"},
        {"precision": "bfloat16"},
        {"base": "2"},
        {"base": "1e12", "dim": "6", "heads": "3"},
        {"equal_width": "true", "pattern_head": "5"},
        {"rope.partial_rotary_factor": "0.25", "rope.layout": "half", "sinusoidal.layout": "half"},
    ],
)
def test_odd_settings_draw_without_a_notice(link: dict[str, str]) -> None:
    at = drawn(visit(PAGE, link, schemes=list(KINDS)))
    assert notices(at) == []
    assert len(matrices(at)[1]) == 10


def test_equal_width_leaves_rope_one_head_and_says_so() -> None:
    at = drawn(visit(PAGE, {"equal_width": "true"}))
    subtitles = {one["title"]: one["subtitle"] for one in matrices(at)[0]["panels"]}
    assert subtitles["RoPE, first order"] == "one head"
    assert subtitles["ALiBi, first order"] == "head 1 of 8"
    assert any("RoPE: one head, for widths are made equal." in text for text in captions(at))


def test_a_table_too_short_for_the_sentence_is_named_and_the_others_stay() -> None:
    at = drawn(visit(PAGE, {"train_length": "2"}, learned_source="random"))
    (told,) = [as_read(box.value) for box in at.info]
    assert told == (
        "Learned: The learned table has rows for positions 0 to 1; position 2 has none."
    )
    assert "Learned" not in said(at)
    assert len(matrices(at)[1]) == 8


def test_a_table_of_another_width_is_named_with_it() -> None:
    at = drawn(visit(PAGE, learned_source="minilm"))
    assert any("so token vectors of width 384" in text for text in captions(at))


def test_the_link_restores_the_sentence_and_every_choice() -> None:
    link = {
        "sentence": "a \U0001f415 [b](c)", "reorder": "ends swapped", "pattern_head": "3",
        "causal": "true",
    }  # fmt: skip
    first = drawn(visit(PAGE, link))
    again = drawn(visit(PAGE, first.query_params))
    assert headline(again) == headline(first)
    assert notices(again) == []
    for title, values in matrices(first)[1].items():
        assert np.array_equal(values, matrices(again)[1][title])


# As Python ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "chosen"),
    [
        (Setting(), OrderChoice()),
        (
            Setting(dim=6, heads=3, base=77.7, seed=9, schemes=("rope", "none"),
                    own=(("rope.layout", "half"),)),
            OrderChoice(sentence="a 'b' \"\"\" \\ {x} \U0001f415 a", reorder="first word last"),
        ),
        (
            Setting(dim=64, heads=4, train_length=2, learned_source="random", equal_width=True),
            OrderChoice(sentence="the dog sees the cat", reorder="ends swapped", causal=True),
        ),
    ],
)  # fmt: skip
def test_the_script_prints_the_numbers_of_the_page(setting: Setting, chosen: OrderChoice) -> None:
    text = script(setting, chosen)
    assert "streamlit" not in text
    assert "dashboard" not in text
    ran = run(text)
    assert ran.returncode == 0, ran.stderr
    printed = list(csv.DictReader(io.StringIO(ran.stdout)))
    link = setting.write() | {
        name: rule.write(getattr(chosen, name)) for name, rule in fields.rules(OrderChoice).items()
    }
    page = table(drawn(visit(PAGE, link, **opened(BY_WORD))), BY_WORD)
    assert list(printed[0]) == list(page.columns)
    assert len(printed) == len(page)
    for row, (_, expected) in zip(printed, page.iterrows(), strict=True):
        for name in ("scheme", "mask", "word"):
            assert row[name] == expected[name]
        # Which thread count and alignment the sums meet moves their last bit.
        assert float(row["difference"]) == pytest.approx(expected["difference"], abs=2e-15)
    assert pd.DataFrame(printed)["scheme"].unique()[0] == SCHEMES["none"].label
