"""The comparison table of the page At a glance, against the library and the shipped runs."""

import re
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dashboard.blocks import Page, Table
from dashboard.pages.at_a_glance import comparison
from dashboard.pages.at_a_glance.page import Options, page
from dashboard.scheme_facts import models_with
from dashboard.settings import Setting
from posenc.models import MODELS
from posenc.schemes import SCHEMES
from tests.dashboard.called_pages import data, texts
from tests.dashboard.shipped_runs import CODE, RECALL_TASK, means


def shown(**numbers: Any) -> Page:
    return page(Setting(**numbers), Options())


def facts_of(at: Page) -> pd.DataFrame:
    """Return the comparison as the export has it, by scheme."""
    return data(at, "Comparison").set_index("scheme")


def test_table_compares_the_schemes_of_the_setting() -> None:
    frame = next(block for block in shown(train_length=64).blocks if isinstance(block, Table)).frame
    assert list(frame["scheme"]) == ["Learned", "Sinusoidal", "RoPE", "ALiBi"]
    rows = {str(name): [*frame[name]] for name in frame}
    assert rows["acts on"] == [*2 * ("token embedding",), "queries and keys", "logits"]
    assert rows["parameters"] == [f"{128 * 128:,}", *3 * ("none",)]
    assert [text.partition(" ")[0].strip(",") for text in rows["absolute or relative"]] == [
        "absolute", "absolute", "relative", "relative"
    ]  # fmt: skip
    assert [*rows["depends on offset only"][1:]] == ["table: yes; with content: no", "yes", "yes"]
    assert rows["depends on offset only"][0].startswith("no (error ")
    assert rows["defined past the table"] == [
        "no, ends at 128",
        *3 * ("yes, computed for any position",),
    ]
    assert rows["used by"][3] == "BLOOM-176B, MPT-7B, Falcon-RW-1B"
    assert "sin" in rows["formula"][1]
    assert "1706.03762" in rows["paper"][1]


def test_only_an_added_table_lets_absolute_position_meet_content() -> None:
    rng = np.random.default_rng(0)
    query, key = rng.standard_normal((2, 64))
    angles = np.arange(40)[:, None] * 10_000.0 ** (-np.arange(0, 64, 2) / 64)
    table = np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(40, 64)
    turns = np.exp(1j * angles)

    def spread(logits: list[float]) -> float:  # of pairs three positions apart
        return float(np.ptp(logits))

    assert spread([table[p] @ table[p + 3] for p in range(37)]) < 1e-12
    assert spread([(query + table[p]) @ (key + table[p + 3]) for p in range(37)]) > 1
    rotated = [
        ((query @ np.kron(np.eye(32), [[1], [1j]])) * turns[p]
         * ((key @ np.kron(np.eye(32), [[1], [1j]])) * turns[p + 3]).conj()).sum().real
        for p in range(37)
    ]  # fmt: skip
    assert spread(rotated) < 1e-12
    said = {
        kind: text
        for kind in ("sinusoidal", "rope")
        for text in texts(shown(schemes=(kind,), length=40))
        if "only the distance" in text
    }
    assert (
        "between rows of the table only the distance counts; with content the" in said["sinusoidal"]
    )
    assert said["rope"].endswith("; only the distance counts.")


def test_headline_names_the_schemes_of_each_clause() -> None:
    assert shown().headline == (
        "Position similarity falls at every step for ALiBi; it first rises again at distance 91 (Learned), "
        "44 (Sinusoidal), 6 (RoPE)."
    )
    assert shown(schemes=("rope",)).headline == (
        "Position similarity first rises again at distance 6 (RoPE)."
    )


def test_loss_past_training_is_that_of_the_shipped_runs() -> None:
    at = shown()
    facts = facts_of(at)
    measured = facts["loss past training"]
    assert measured["Learned"] == "ends at 64 tokens"
    losses = means(CODE, "context")
    for kind, word in (("sinusoidal", "breaks"), ("rope", "breaks"), ("alibi", "holds")):
        change = losses[kind][1_024] - losses[kind][64]
        assert (
            measured[SCHEMES[kind].label]
            == f"{word}: {change:+.{2 if abs(change) >= 1 else 3}f} nats"
        )
    assert any("trained on 64 tokens, evaluated at 1,024" in text for text in texts(at))


def test_recall_past_training_is_that_of_the_shipped_runs() -> None:
    at = shown()
    measured = facts_of(at)["recall past training"]
    accuracies = means(RECALL_TASK, "recall")
    assert measured["Learned"] == "ends at 29"
    assert np.mean([v for distance, v in accuracies["sinusoidal"].items() if distance <= 29]) < 0.9
    assert measured["Sinusoidal"] == "not learned"
    for kind in ("rope", "alibi"):
        assert measured[SCHEMES[kind].label] == f"{accuracies[kind][511]:.0%}"
    assert any("correct answers at distance 511, trained up to 29." in text for text in texts(at))
    without = facts_of(shown(schemes=("rope_linear",)))["recall past training"]
    assert [*without] == ["not measured"]


def test_every_scheme_has_a_paper_that_its_module_cites() -> None:
    assert {*comparison.PAPERS} == {*SCHEMES}
    for kind, (name, number) in comparison.PAPERS.items():
        modules = [sys.modules[one.__module__].__doc__ or "" for one in type_and_bases(kind)]
        text = re.sub(r"\s+", " ", " ".join(modules))
        assert number in text, kind
        assert name in text, kind


def test_scheme_without_a_named_paper_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(comparison.PAPERS, "rope")
    at = shown()
    facts = facts_of(at)
    assert facts.loc["RoPE", "paper"] == "none named"
    assert "2108.12409" in str(facts.loc["ALiBi", "paper"])


def type_and_bases(kind: str) -> list[type]:
    return [one for one in SCHEMES[kind].__mro__ if one.__module__.startswith("posenc.")]


@pytest.mark.parametrize("kind", SCHEMES)
def test_models_of_a_scheme_are_presets_that_build_it(kind: str) -> None:
    users = {one.label: one for one in MODELS.values() if one.label in models_with(kind)}
    assert len(users) == len(models_with(kind))
    for model in users.values():
        kinds = {layer.scheme.kind for layer in model.read().layer_kinds if layer.scheme}
        assert kind in kinds
    assert Setting().config(kind).kind == kind
