"""Start: where each scheme acts, what the shipped models measured, and where its links lead."""

import re
from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
import pytest

from dashboard import runs
from dashboard.blocks import Block, Cards, Chart, Columns, Drawing, Formula, Page, Row, Text
from dashboard.charts import loss, theme
from dashboard.charts.lines import LABEL_GAP
from dashboard.pages.start import diagram
from dashboard.pages.start.page import Options, page
from dashboard.render import staged
from dashboard.scheme_facts import compact_formula, place
from dashboard.settings import Setting
from posenc import SCHEMES
from posenc.lab import curves
from tests.dashboard.called_pages import blocks, chart, numbers, small_setting, texts
from tests.dashboard.independent_kernels import SETTINGS, kernel, mean_by_distance
from tests.dashboard.pages import KINDS, LABELS, cosines, drawn, messages, of, visit
from tests.dashboard.shipped_runs import CODE, RECALL_TASK, means, runs_of, shipped_runs

WHERE = {
    "learned": diagram.EMBEDDING, "sinusoidal": diagram.EMBEDDING, "rope": diagram.ROTATION,
    "rope_yarn": diagram.ROTATION, "xpos": diagram.ROTATION, "alibi": diagram.BIAS, "t5": diagram.BIAS,
    "shaw": diagram.BIAS, "fire": diagram.BIAS, "cope": diagram.BIAS, "none": "",
    "ssmax": diagram.ROTATION, "fox": diagram.BIAS, "stick_breaking": diagram.WEIGHTS,
}  # fmt: skip
TABLE = 128  # rows of the trained table that pages show
LENGTH, LONGEST = 64, 1_024  # of the shipped comparison of the four main schemes
LOSS = means(CODE, "context")
RECALL = means(RECALL_TASK, "recall")  # answers up to 29 tokens away in training
LIT = {
    "token": diagram.EMBEDDING,
    "q": diagram.ROTATION,
    "k": diagram.ROTATION,
    "logits": diagram.BIAS,
}


@pytest.fixture(scope="module")
def shown() -> Page:
    return page(Setting(), Options())


def cards(shown: Page) -> dict[str, Sequence[Block]]:
    (block,) = [block for block in shown.blocks if isinstance(block, Cards)]
    return dict(block.cells)


@pytest.mark.parametrize("kind", WHERE)
def test_drawing_lights_the_part_on_which_a_scheme_acts(kind: str) -> None:
    colour = theme.COLOURS[kind]
    svg = diagram.attention_block(place(Setting().config(kind).build("cpu")), colour)
    wanted = diagram.BIAS if WHERE[kind] == diagram.WEIGHTS else WHERE[kind]  # in the box of logits
    filled = rf'fill="{colour}" stroke="{colour}"/><text [^>]*>(\w+)<'
    assert re.findall(filled, svg) == [box for box, place in LIT.items() if place == wanted]


def test_each_card_has_drawing_formula_summary_and_measured_badge(shown: Page) -> None:
    assert [*cards(shown)] == [*KINDS[:4]]
    badges: list[tuple[str, str]] = []
    for kind, (top, drawing, formula, summary, *_) in cards(shown).items():
        assert isinstance(top, Row)
        assert isinstance(drawing, Drawing)
        assert theme.COLOURS[kind] in drawing.svg
        assert WHERE[kind] in drawing.alt
        assert isinstance(formula, Formula)
        assert formula.latex == compact_formula(Setting().config(kind))
        assert isinstance(summary, Text)
        assert summary.text == SCHEMES[kind].summary
        label, badge = [text.text for text in top.blocks if isinstance(text, Text)]
        assert label == f"**{LABELS[kind]}**"
        loss, recall = re.findall(r":(\w+)-badge\[(.*?)\]", badge)
        badges.append(loss)
        near = [value for distance, value in RECALL[kind].items() if distance <= 29]
        learned, (farthest, last) = np.mean(near) >= 0.9, max(RECALL[kind].items())
        told = f"recall {last:.0%}" if farthest > 29 else "recall ends at 29"
        assert recall == ("gray", told if learned else "recall not learned")
    expected = [("gray", f"ends at {LENGTH} tokens")]
    for kind in ("sinusoidal", "rope", "alibi"):
        change = LOSS[kind][LONGEST] - LOSS[kind][LENGTH]
        holds = all(loss <= LOSS[kind][LENGTH] + np.log(1.05) for loss in LOSS[kind].values())
        assert holds == (kind == "alibi")
        colour, word = ("green", "holds") if holds else ("red", "breaks")
        expected.append((colour, f"{word}: {change:+.{2 if abs(change) >= 1 else 3}f} nats"))
    assert badges == expected
    (sentence,) = [text for text in texts(shown) if text.startswith("Badges")]
    assert sentence == (
        "Badges, whatever the sliders say: 3 to 5 seeds at base 10,000. "
        "Loss: trained on 64 tokens, evaluated at 1,024. Recall: distance 511, trained up to 29; "
        "position alone: 42%."
    )
    seeds = [(run.specification.scheme.kind, run.specification.seed) for run in runs_of(CODE)]
    assert all(len({seed for own, seed in seeds if own == kind}) == 5 for kind in KINDS)
    held, degraded = (f"{np.log(times):.3f} nats" for times in (1.05, 1.1))
    words = blocks(shown, Text)
    (rules,) = [text for text in words if "Uses more context: " in text.text]
    assert rules.text == (
        "Thin lines: text cut to the training length. "
        "Uses more context: loss more than 0.010 nats lower at the end, by an interval over seeds. "
        f"Holds: at most {held} higher. Degrades: at most {degraded} higher. "
        f"Breaks: more than {degraded} higher."
    )
    assert rules.help == (
        f"A loss that is {held} higher is a perplexity that is 5% higher; {degraded} are 10%."
    )


def test_charts_are_presented_before_the_cards(shown: Page) -> None:
    first, *rest = staged(shown.blocks)
    assert isinstance(first, Columns)
    assert len(rest) == len(shown.blocks) - 1
    assert rest == [block for block in shown.blocks if block is not first]


def test_links_to_pages_have_the_names_of_the_menu() -> None:
    at = drawn(visit("start"))
    links = [one for one in messages(at) if one.DESCRIPTOR.name == "PageLink"]
    assert [(one.label, one.page) for one in links] == [
        ("Learn in five steps", "learn"), ("Present in class", "learn"), ("At a glance", "overview"),
        ("Extrapolation", "extrapolation"), ("Extend a model's context", "context_planner"),
        ("Check my encoding", "check_my_encoding"),
    ]  # fmt: skip
    assert [one.query_string for one in links if one.label.startswith("Present")] == [
        "v=1&present=true"
    ]


def test_measured_numbers_say_their_base_and_do_not_follow_the_sliders(shown: Page) -> None:
    other = page(Setting(base=2_500.0, dim=128), Options())
    measured = [text for text in texts(shown) if "base 10,000" in text]
    assert len(measured) == 2  # of the badges and of the lines
    assert [text for text in texts(other) if "base 10,000" in text] == measured
    of_alibi = texts(page(Setting(schemes=("alibi",)), Options()))  # which has no base
    assert [text for text in of_alibi if "sliders say: 3 to 5 seeds." in text]
    assert not [text for text in of_alibi if " base" in text]


def test_badges_say_with_how_many_seeds_losses_and_recall_are_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recalls = [
        run
        for run in shipped_runs()
        if run.specification.task == "recall" and run.specification.seed == 0
    ]
    of_one_seed = runs.as_trained(curves(recalls, "recall"))
    monkeypatch.setattr(runs, "shipped_recall", lambda kinds: of_one_seed)
    # Another setting than those of other tests, which the cache holds.
    shown = page(Setting(schemes=("rope", "alibi"), base=9_000.0), Options())
    assert any(
        text.startswith("Badges, whatever the sliders say: 1 to 5 seeds at")
        for text in texts(shown)
    )


def test_where_each_learned_table_ends_is_stated(shown: Page) -> None:
    (ends,) = [text for text in texts(shown) if text.startswith("Its three tables")]
    assert ends == (
        f"Its three tables end at distance {TABLE - 1} below, {LENGTH} in loss, "
        f"{max(RECALL['learned'])} in recall."
    )
    without = page(Setting(schemes=("rope", "alibi")), Options())
    assert not any(text.startswith("Its three tables") for text in texts(without))


def test_measured_lines_are_the_means_of_the_shipped_runs(shown: Page) -> None:
    measured = chart(shown, "loss").drawn
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


def test_names_in_the_low_charts_of_start_stand_farther_apart(shown: Page) -> None:
    for key, ends in (("start", 4), ("loss", 3)):
        frame = chart(shown, key).drawn
        names = frame[frame["label_y"].notna() & ~frame.get("early", frame["y"].isna())]
        right = names[names["x"] == frame["x"].max()].sort_values("label_y")
        assert len(names) == ends
        assert len(right) == 3
        gaps = np.diff(right["label_y"]) / (frame["y"].max() - frame["y"].min())
        assert gaps.min() >= 0.17 - 1e-6 > LABEL_GAP


def test_names_in_the_tall_charts_of_a_presented_start_stand_close_to_their_lines(
    shown: Page,
) -> None:
    text, plot = 18, 315  # pixels, of 430
    for key in ("start", "loss"):
        one = chart(shown, key)
        spec = theme.for_projector(one.spec, one.stage)
        (near,) = {
            each["calculate"]
            for layer in spec["layer"]
            for each in layer.get("transform", ())
            if each.get("as") == "near_y"
        }
        rows = one.drawn[one.drawn["label_y"].notna()]
        height, line = rows["label_y"], rows["y"]
        places = eval(near, {"datum": SimpleNamespace(y=line, label_y=height)})
        right = places[rows["x"] == one.drawn["x"].max()]
        pixels = plot / (one.drawn["y"].max() - one.drawn["y"].min())
        assert np.diff(sorted(right)).min() * pixels >= text
        assert (places - line).abs().max() * pixels <= 1.5 * text
        assert (height - line).abs().max() > 1.5 * (places - line).abs().max()


def test_formula_on_a_card_keeps_every_symbol_of_the_formula() -> None:
    text = compact_formula(Setting().config("rope"))
    assert [part.count("=") for part in text.split(r"\\")] == [1, 1, 1, 1]  # an equation a line
    assert text.count("{") == text.count("}")


def test_scheme_without_shipped_runs_has_a_card_without_badge() -> None:
    shown = page(Setting(schemes=("rope_yarn",)), Options())
    assert not [text for text in texts(shown) if "badge" in text]
    assert [*cards(shown)] == ["rope_yarn"]
    assert [block.key for block in shown.all_blocks if isinstance(block, Chart)] == ["start"]


def test_curves_are_cosines_of_the_kernel() -> None:
    for small in SETTINGS.values():
        full = numbers(page(small_setting(small), Options()), "start")
        for kind in KINDS:
            mean = mean_by_distance(cosines(kernel(kind, small)))
            assert of(full, kind)["distance"].tolist() == list(range(len(mean)))
            assert np.allclose(of(full, kind)["mean"], mean, atol=1e-12)
