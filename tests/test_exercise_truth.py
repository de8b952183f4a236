"""Predict, then look: every answer is judged by a truth computed apart, and the judge can fail."""

import math
import statistics
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from dashboard.exercise import Judgement, OneOf, Question, Slider, judge
from posenc.interop.sources import RESULTS
from posenc.lab.runs import Store
from tests import independent
from tests.exercise_page import ON, answer, choose, open_place, questions, screen, stops, verdict
from tests.pages import KINDS, LABELS, headline
from tests.test_page_numbers import DEFAULT, cosines, diagonals, kernel, link_of

pytestmark = pytest.mark.usefixtures("no_shape_checks")


SMALL = [
    {"dim": 64, "heads": 4, "base": 100.0, "length": 40, "train_length": 24},
    {"dim": 48, "heads": 3, "base": 7.0, "length": 33, "train_length": 50, "seed": 7},
]


def judged(at: AppTest, place: str, text: str, truth: Any, wrong: Any) -> None:
    """Answer a question rightly and wrongly."""
    choose(at, place, text)
    answer(at, place, truth)
    assert verdict(at).startswith("Right."), (text, truth, verdict(at))
    at.button(key=f"again_{screen(place)}").click().run()
    answer(at, place, wrong)
    assert verdict(at).startswith("Not quite."), (text, wrong, verdict(at))
    assert any(f"{said} {truth}" in verdict(at) for said in ("it is", "The answer:"))
    at.button(key=f"again_{screen(place)}").click().run()


@pytest.mark.parametrize("numbers", SMALL)
def test_similarity_is_judged_by_the_kernel_of_the_setting(numbers: dict[str, Any]) -> None:
    small = DEFAULT | {"learned_source": "random"} | numbers
    link = ON | link_of(small)
    at = open_place("similarity", link, schemes=list(KINDS), learned_source="random")
    texts = questions(at, "similarity")
    under: dict[str, int] = {}
    for kind in KINDS:
        mean = [statistics.fmean(one) for one in diagonals(cosines(kernel(kind, small)))]
        below = [distance for distance, value in enumerate(mean) if value < 0.5]
        rises = [k for k in range(1, len(mean)) if mean[k] > mean[k - 1] + 1e-12]
        if below:
            under[kind] = below[0]
        (half,) = [t for t in texts if t.startswith("At which") and f"of {LABELS[kind]} " in t]
        truth = str(below[0]) if below else "never"
        wrong = "never" if below else "1"
        judged(at, "similarity", half, truth, wrong)
        (rise,) = [t for t in texts if t.startswith("Does") and f"of {LABELS[kind]} " in t]
        judged(at, "similarity", rise, *(("yes", "no") if rises else ("no", "yes")))
    (whose,) = [text for text in texts if text.startswith("Whose")]
    least = min(under.values())
    for kind in KINDS:
        choose(at, "similarity", whose)
        answer(at, "similarity", LABELS[kind])
        assert verdict(at).startswith("Right.") == (under.get(kind) == least)
        at.button(key="again_similarity").click().run()


def test_how_far_off_an_answer_is_follows_the_settings() -> None:
    said = {}
    for base in ("100", "10000"):
        at = open_place("similarity", ON | {"base": base, "length": "128"}, schemes=["rope"])
        small = DEFAULT | {"base": float(base), "length": 128}
        mean = [statistics.fmean(one) for one in diagonals(cosines(kernel("rope", small)))]
        truth = next(k for k, value in enumerate(mean) if value < 0.5)
        answer(at, "similarity", "100")
        said[base] = verdict(at)
        assert said[base] == (
            f"Not quite. You said 100; it is {truth}: {100 - truth} positions too high."
        )
    assert said["100"] != said["10000"]


@pytest.mark.parametrize("base", [100.0, 10000.0])
def test_turns_are_counted_by_the_formula(base: float) -> None:
    link = ON | {"base": str(base), "dim": "64", "heads": "2", "train_length": "50"}
    at = open_place("formula", link, schemes=list(KINDS), learned_source="random")
    texts = questions(at, "formula")
    for kind, width in (("sinusoidal", 64), ("rope", 32)):
        full = sum(
            50 * theta >= 2 * math.pi for theta in independent.inverse_frequencies(width, base)
        )
        (text,) = [t for t in texts if t.startswith("How many") and f"of {LABELS[kind]} " in t]
        assert f"{width // 2} pairs" in text
        judged(at, "formula", text, str(full), "0")
    assert not [t for t in texts if t.startswith("How many") and "ALiBi" in t]
    for kind, truth in (
        ("learned", "it has no value there"),
        ("alibi", "it leaves them"),
        ("none", "it stays within the values seen in training"),
    ):
        (text,) = [t for t in texts if t.startswith("What does") and f"of {LABELS[kind]} " in t]
        others = {"it has no value there", "it leaves them"} - {truth}
        judged(at, "formula", text, truth, sorted(others)[0])


def shipped_losses(length: int) -> dict[str, dict[int, float]]:
    """Mean loss by context of every scheme trained at a length, from the files that ship."""
    store = Store(str(RESULTS))
    found: dict[str, dict[int, list[float]]] = {}
    for run in map(store.read, store.ids()):
        spec = run.specification
        if spec.task != "language" or spec.train_length != length or spec.scheme.kind not in KINDS:
            continue
        for score in run.scores:
            if score.measure == "context" and score.variant == "as trained":
                by_length = found.setdefault(spec.scheme.kind, {})
                by_length.setdefault(score.x, []).append(score.value)
    return {
        kind: {x: statistics.fmean(values) for x, values in by_length.items()}
        for kind, by_length in found.items()
    }


def test_changes_of_loss_are_those_of_the_runs_that_ship() -> None:
    losses = shipped_losses(64)
    at = open_place("measured", ON, schemes=list(KINDS))
    texts = questions(at, "measured")
    for kind in KINDS:
        mine = [t for t in texts if t.startswith("By how much") and f"of {LABELS[kind]} " in t]
        if kind == "learned":
            assert mine == []  # no row past its last
            continue
        for text, to in zip(mine, (128, 1024), strict=True):
            assert f"from 64 to {to:,} tokens" in text
            change = losses[kind][to] - losses[kind][64]
            choose(at, "measured", text)
            near = min(stops(at), key=lambda stop: abs(float(stop) - change))
            answer(at, "measured", near)
            assert verdict(at).startswith("Right.")
            assert f"it is {change:+.2f}" in verdict(at)
            at.button(key="again_measured").click().run()
            answer(at, "measured", "+5.00")
            off = 5 - change
            assert verdict(at) == (
                f"Not quite. You said +5.00; it is {change:+.2f}: {off:.2f} nats too high."
            )
            at.button(key="again_measured").click().run()
    for x in (64, 128, 1024):
        (text,) = [t for t in texts if t == f"Which scheme has the lowest loss at {x:,} tokens?"]
        there = {LABELS[kind]: values[x] for kind, values in losses.items() if x in values}
        best = min(there, key=there.__getitem__)
        judged(at, "measured", text, best, max(there, key=there.__getitem__))


@pytest.mark.parametrize("place", ["copy", "recall"])
def test_reaches_of_shares_are_those_of_the_page(place: str) -> None:
    at = open_place(place, ON)
    plain = open_place(place)
    said = headline(plain)
    asked = questions(at, place)
    assert asked
    for text in asked:
        (label,) = [label for label in LABELS.values() if f" does {label} " in text]
        after = (
            said.split("At least half up to: ")[1].replace(" and ", ", ").rstrip(".").split(", ")
        )
        (reach,) = [one.removeprefix(f"{label} ") for one in after if one.startswith(f"{label} ")]
        wrong = next(stop for stop in stops(at) if stop != reach and (
            reach == "nowhere" or stop == "nowhere" or abs(float(stop) - float(reach)) > 0.2 * float(reach)
        ))  # fmt: skip
        judged(at, place, text, reach, wrong)


METRES = Slider(stops=(0.0, 1.0, 2.0), unit="m", digits=1, near=0.5, within=0.1, beyond="never")


def of(control: Slider | OneOf) -> Question[Any]:
    return Question(key="q", text="?", control=control, truth=lambda found: found)


@pytest.mark.parametrize(
    ("answer", "truth", "expected"),
    [
        (1.0, 1.0, Judgement(True, "You said 1.0; it is 1.0: exactly.")),
        (1.0, 1.5, Judgement(True, "You said 1.0; it is 1.5: 0.5 m too low.")),
        (1.0, 1.6, Judgement(False, "You said 1.0; it is 1.6: 0.6 m too low.")),
        (99.0, 90.0, Judgement(True, "You said 99.0; it is 90.0: 9.0 m too high.")),
        (99.1, 90.0, Judgement(False, "You said 99.1; it is 90.0: 9.1 m too high.")),
        (2.0, 2.01, Judgement(True, "You said 2.0; it is 2.0: less than 0.1 m off.")),
        ("never", "never", Judgement(True, "You said never; it is never: exactly.")),
        ("never", 3.0, Judgement(False, "You said never; it is 3.0.")),
        (3.0, "never", Judgement(False, "You said 3.0; it is never.")),
        (0.0, float("nan"), Judgement(False, "You said 0.0; it is nan.")),
    ],
)
def test_a_number_is_judged_by_how_far_off_it_is(
    answer: Any, truth: Any, expected: Judgement
) -> None:
    assert judge(of(METRES), answer, truth) == expected


def test_of_several_right_words_each_is_right() -> None:
    control = OneOf(options=("a", "b", "c"))
    truth = frozenset({"a", "b"})
    assert judge(of(control), "a", truth) == Judgement(True, "The answer: a and b.")
    assert judge(of(control), "c", truth) == Judgement(False, "You said: c. The answer: a and b.")


def test_the_control_sees_a_judge_that_knows_nothing() -> None:
    """Numbers that follow the settings: a fixed answer is right at one base and wrong at another."""
    found = []
    for base in ("100", "10000"):
        at = open_place("similarity", ON | {"base": base, "length": "128"}, schemes=["rope"])
        small = DEFAULT | {"base": float(base), "length": 128}
        mean = np.array(
            [statistics.fmean(one) for one in diagonals(cosines(kernel("rope", small)))]
        )
        truth = str(np.flatnonzero(mean < 0.5)[0])
        answer(at, "similarity", truth if not found else found[0])
        assert verdict(at).startswith("Right." if not found else "Not quite.")
        found.append(truth)
