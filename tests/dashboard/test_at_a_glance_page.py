"""The comparison table of the page At a glance, against the library and the shipped runs."""

import re
import sys

import pytest

from dashboard.compute.scheme_facts import models_with
from dashboard.pages.at_a_glance import comparison
from posenc.models import MODELS
from posenc.schemes import SCHEMES
from posenc.settings import Setting
from tests.dashboard.pages import drawn, visit
from tests.dashboard.shipped_runs import means


def test_table_compares_the_schemes_of_the_setting() -> None:
    at = drawn(visit("overview", {"train_length": "64"}))
    (shown,) = [one.value for one in at.table]
    assert list(shown) == ["Learned", "Sinusoidal", "RoPE", "ALiBi"]
    rows = {name: [*shown.loc[name]] for name in shown.index}
    assert rows["acts on"] == [*2 * ("token embedding",), "queries and keys", "logits"]
    assert rows["parameters"] == [f"{128 * 128:,}", *3 * ("none",)]
    assert [text.partition(" ")[0].strip(",") for text in rows["absolute or relative"]] == [
        "absolute", "absolute", "relative", "relative"
    ]  # fmt: skip
    assert [text[:3].strip() for text in rows["depends on offset only"]] == ["no", *3 * ("yes",)]
    assert rows["defined past the table"] == ["no, ends at 128", *3 * ("yes, no table",)]
    assert rows["used by"][3] == "BLOOM-176B, MPT-7B, Falcon-RW-1B"
    assert "sin" in rows["formula"][1]
    assert "1706.03762" in rows["paper"][1]


def test_loss_past_training_is_that_of_the_shipped_runs() -> None:
    at = drawn(visit("overview"))
    facts = at.session_state["page_contents"].tables["comparison"]().set_index("scheme")
    texts = facts["loss past training"]
    assert texts["Learned"] == "ends at 128 tokens"
    losses = means("language", 128, "context")
    for kind, word in (("sinusoidal", "breaks"), ("rope", "breaks"), ("alibi", "holds")):
        change = losses[kind][2_048] - losses[kind][128]
        assert (
            texts[SCHEMES[kind].label] == f"{word}: {change:+.{2 if abs(change) >= 1 else 3}f} nats"
        )
    assert any("trained on 128 tokens, evaluated at 2,048" in one.value for one in at.main.caption)


def test_schemes_that_one_comparison_alone_has_are_of_that_comparison() -> None:
    at = drawn(visit("overview", {"schemes": ["alibi", "t5"]}))
    losses = means("language", 64, "context")
    texts = (
        at.session_state["page_contents"]
        .tables["comparison"]()
        .set_index("scheme")["loss past training"]
    )
    for kind, word in (("alibi", "holds"), ("t5", "breaks")):
        change = losses[kind][1_024] - losses[kind][64]
        assert (
            texts[SCHEMES[kind].label] == f"{word}: {change:+.{2 if abs(change) >= 1 else 3}f} nats"
        )
    assert any("trained on 64 tokens, evaluated at 1,024" in one.value for one in at.main.caption)


def test_every_scheme_has_a_paper_that_its_module_cites() -> None:
    assert {*comparison.PAPERS} == {*SCHEMES}
    for kind, (name, number) in comparison.PAPERS.items():
        modules = [sys.modules[one.__module__].__doc__ or "" for one in type_and_bases(kind)]
        text = re.sub(r"\s+", " ", " ".join(modules))
        assert number in text, kind
        assert name in text, kind


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
