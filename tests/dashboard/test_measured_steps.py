"""Extrapolation by the steps of training: the same models, trained shorter and longer."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dashboard.blocks import Page, Text
from dashboard.pages.extrapolation.page import Options, page
from dashboard.settings import Setting
from posenc.lab import Run, Score, Store
from posenc.lab.evaluate import TRAINED
from posenc.lab.specification import FineTuning
from posenc.lab.summary import comparison
from tests.dashboard.called_pages import chart, numbers, read_texts
from tests.dashboard.page_queue import empty_page_caches
from tests.lab.small_runs import small_spec

pytestmark = pytest.mark.usefixtures("no_shape_checks")
SCHEMES = ("rope", "alibi", "none")
TITLE = "Steps of training"
# Losses at 16 and 64 tokens by scheme, steps and seed. The seed 2 lacks 24 steps. NoPE has 12 steps alone.
LOSSES: dict[tuple[str, int, int], tuple[float, ...]] = {
    ("rope", 12, 0): (2.0, 2.5), ("rope", 12, 1): (2.2, 2.9), ("rope", 12, 2): (9.0, 9.0),
    ("rope", 24, 0): (1.5, 3.1), ("rope", 24, 1): (1.8, 3.0),
    ("alibi", 12, 0): (2.4, 2.4), ("alibi", 12, 1): (2.5, 2.5),
    ("alibi", 24, 0): (2.1, 2.6), ("alibi", 24, 1): (2.3, 2.3),
    ("none", 12, 0): (2.7, 2.8),
    ("learned", 12, 0): (2.6,), ("learned", 24, 0): (2.5,),  # its table ends there
}  # fmt: skip


def fill(store: Store) -> str:
    """Add the runs and one that was fine-tuned, and return the name of the comparison of 12 steps."""
    for (kind, steps, seed), losses in LOSSES.items():
        specification = replace(small_spec(kind), steps=steps, seed=seed)
        scores = tuple(
            Score("context", TRAINED, x, y, 8) for x, y in zip((16, 64), losses, strict=False)
        )
        store.add(Run(specification, None, 1.5, scores, (5.0, 2.0)), {})
    tuning = FineTuning(before=small_spec("rope").scheme, length=32, steps=2)
    tuned = replace(small_spec("rope"), fine_tuning=tuning, steps=24)
    scores = tuple(Score("context", TRAINED, x, 0.1, 8) for x in (16, 64))
    store.add(Run(tuned, None, 1.5, scores, (5.0,)), {})
    empty_page_caches()
    return comparison(small_spec("rope"))


def shown(name: str, *more: str) -> Page:
    return page(Setting(schemes=(*more, *SCHEMES)), Options(comparison=name))


def said(of: Page) -> str:
    return "\n".join(read_texts(of))


def test_means_over_the_trials_that_every_number_of_steps_has(store: Store) -> None:
    found = shown(fill(store))
    for place, key in enumerate(("steps_near", "steps_far")):
        table: Any = numbers(found, key).set_index(["scheme", "steps"])["loss"]
        assert {*table.index} == {(k, n) for k in ("RoPE", "ALiBi") for n in (12, 24)}
        for label, kind in (("RoPE", "rope"), ("ALiBi", "alibi")):
            for steps in (12, 24):
                own = [LOSSES[kind, steps, seed][place] for seed in (0, 1)]
                assert table[label, steps] == pytest.approx(np.mean(own))
    assert "training length" not in str(chart(found, "steps_far").spec)
    assert (
        chart(found, "steps_far").title
        == "Models trained on: Text, 16 tokens, at 64 tokens by steps"
    )


def test_directions_are_named_where_every_trial_agrees(store: Store) -> None:
    words = said(shown(fill(store)))
    assert (
        "From 12 to 24 steps of training, in every trial: at 16 tokens the loss falls for RoPE and ALiBi; "
        "at 64 tokens the loss rises for RoPE." in words
    )
    assert "By chance alone, 2 trials agree on a direction in 50% of cases." in words
    assert "At the training length, 16 tokens" in words


def test_models_with_one_number_of_steps_have_no_picture_of_steps(store: Store) -> None:
    name = fill(store)
    found = page(Setting(schemes=("none",)), Options(comparison=name))
    assert not [b for b in found.all_blocks if isinstance(b, Text) and b.text == TITLE]


def test_context_past_the_training_length_is_the_longest_of_all_schemes(store: Store) -> None:
    """Learned stands first, and its table ends at the training length."""
    found = shown(fill(store), "learned")
    assert chart(found, "steps_near").title.endswith("at 16 tokens by steps")
    assert chart(found, "steps_far").title.endswith("at 64 tokens by steps")
    schemes = [{*numbers(found, f"steps_{key}")["scheme"]} for key in ("near", "far")]
    assert schemes == [{"Learned", "RoPE", "ALiBi"}, {"RoPE", "ALiBi"}]
