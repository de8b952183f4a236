"""Start: where each scheme acts, what the shipped models measured, and where its links lead."""

import base64
import re
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from dashboard import runs
from dashboard.charts import loss, theme
from dashboard.charts.lines import LABEL_GAP
from dashboard.pages.start import diagram
from dashboard.scheme_facts import compact_formula, place
from dashboard.settings import Setting
from posenc import SCHEMES
from tests.dashboard.pages import KINDS, charts, drawn, messages, of, visit
from tests.dashboard.shipped_runs import means

WHERE = {
    "learned": diagram.EMBEDDING, "sinusoidal": diagram.EMBEDDING, "rope": diagram.ROTATION,
    "rope_yarn": diagram.ROTATION, "xpos": diagram.ROTATION, "alibi": diagram.BIAS, "t5": diagram.BIAS,
    "shaw": diagram.BIAS, "fire": diagram.BIAS, "cope": diagram.BIAS, "none": "",
}  # fmt: skip
LENGTH, LONGEST = 128, 2_048  # of the shipped comparison of the four main schemes
LOSS = means("language", LENGTH, "context")
LIT = {
    "token": diagram.EMBEDDING,
    "q": diagram.ROTATION,
    "k": diagram.ROTATION,
    "logits": diagram.BIAS,
}


@pytest.fixture(scope="module")
def at() -> AppTest:
    return drawn(visit("start"))


def drawings(at: AppTest) -> list[Any]:
    sent = [one for one in messages(at) if one.DESCRIPTOR.name == "ImageList"]
    return [one.imgs[0] for one in sent]


@pytest.mark.parametrize("kind", WHERE)
def test_drawing_lights_the_part_on_which_a_scheme_acts(kind: str) -> None:
    colour = theme.COLOURS[kind]
    svg = diagram.attention_block(place(Setting().config(kind).build("cpu")), colour)
    filled = rf'fill="{colour}" stroke="{colour}"/><text [^>]*>(\w+)<'
    assert re.findall(filled, svg) == [box for box, place in LIT.items() if place == WHERE[kind]]


def test_each_card_has_drawing_formula_summary_and_measured_badge(at: AppTest) -> None:
    images = drawings(at)
    for kind, image in zip(KINDS[:4], images, strict=True):
        svg = base64.b64decode(image.url.partition("base64,")[2]).decode()
        assert theme.COLOURS[kind] in svg
        assert WHERE[kind] in image.alt
    assert [one.value for one in at.main.caption[1:5]] == [SCHEMES[k].summary for k in KINDS[:4]]
    assert len(at.main.latex) == 4
    badges = re.findall(r":(\w+)-badge\[(.*?)\]", " ".join(text.value for text in at.main.markdown))
    expected = [("gray", f"ends at {LENGTH} tokens")]
    for kind in ("sinusoidal", "rope", "alibi"):
        change = LOSS[kind][LONGEST] - LOSS[kind][LENGTH]
        holds = all(loss <= LOSS[kind][LENGTH] + np.log(1.05) for loss in LOSS[kind].values())
        assert holds == (kind == "alibi")
        colour, word = ("green", "holds") if holds else ("red", "breaks")
        expected.append((colour, f"{word}: {change:+.{2 if abs(change) >= 1 else 3}f} nats"))
    assert badges == expected
    assert "small models trained on 128 tokens, evaluated at 2,048." in at.main.caption[0].value
    held, degraded = (f"{np.log(times):.3f} nats" for times in (1.05, 1.1))
    (rules,) = [one for one in at.main.caption if one.value.startswith("Holds: ")]
    assert rules.value == (
        f"Holds: loss at most {held} higher. Degrades: at most {degraded} higher. "
        f"Breaks: more than {degraded} higher."
    )
    assert rules.help == (
        f"A loss that is {held} higher is a perplexity that is 5% higher; {degraded} are 10%."
    )


def test_links_to_pages_have_the_names_of_the_menu(at: AppTest) -> None:
    links = [one for one in messages(at) if one.DESCRIPTOR.name == "PageLink"]
    assert [(one.label, one.page) for one in links] == [
        ("Learn in five steps", "learn"), ("Present in class", "learn"), ("At a glance", "overview"),
        ("Extrapolation", "extrapolation"), ("Extend a model's context", "context_planner"),
        ("Check my encoding", "check_my_encoding"),
    ]  # fmt: skip


def test_measured_lines_are_the_means_of_the_shipped_runs(at: AppTest) -> None:
    measured = charts(at)[1]
    for kind in KINDS[:4]:
        rows, expected = of(measured, kind), LOSS[kind]
        assert dict(zip(rows["x"], rows["y"], strict=True)) == pytest.approx(expected, rel=1e-12)
        assert rows["early"].any() == (kind == "learned")
        assert rows["label"].notna().tolist() == [x == max(expected) for x in rows["x"]]
    assert {*measured["boundary"]} == {LENGTH}


def test_names_at_line_ends_do_not_cover_each_other() -> None:
    frame = loss.frame(runs.shipped_loss(tuple(SCHEMES)))
    names = frame[frame["label"].notna() & ~frame["early"]].sort_values("label_y")
    assert len(names) > 10
    gaps = np.diff(names["label_y"]) / (frame["y"].max() - frame["y"].min())
    assert gaps.min() >= LABEL_GAP - 1e-12
    assert names["y"].is_monotonic_increasing


def test_formula_on_a_card_keeps_every_symbol_of_the_formula() -> None:
    text = compact_formula(Setting().config("rope"))
    assert "pmatrix" not in text
    assert text.count("smallmatrix") == 6
    assert text.count("{") == text.count("}")


def test_scheme_without_shipped_runs_has_a_card_without_badge() -> None:
    at = drawn(visit("start", {"schemes": "rope_yarn"}))
    assert not [text for text in at.main.markdown if "badge" in text.value]
    assert len(drawings(at)) == len(charts(at)) == 1
