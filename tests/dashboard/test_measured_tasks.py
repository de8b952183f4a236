"""Extrapolation with runs of tasks that have answers: flip-flop, indexing, and recall by depth."""

from dataclasses import replace

import pytest

from dashboard.blocks import Chart, Findings, Page
from dashboard.pages.extrapolation.page import Options, page
from dashboard.pages.train.plan import Options as TrainOptions
from dashboard.pages.train.plan import runs_of
from dashboard.settings import Setting
from dashboard.settings.labelled import labels_of
from posenc import fields
from posenc.errors import ConfigError
from posenc.lab import Run, Score, Specification, Store
from posenc.lab.evaluate import TRAINED
from posenc.lab.summary import comparison
from posenc.lab.tasks import TASKS, FlipFlop
from tests.dashboard.called_pages import block_of, blocks, data, read_texts
from tests.lab.small_runs import CORPUS, small_spec

pytestmark = pytest.mark.usefixtures("no_shape_checks")
MEASURED = "measured"


def add(store: Store, specification: Specification, *scores: Score) -> None:
    store.add(Run(specification, None, 1.5, scores, (5.0, 2.0)), {})


def shown(specification: Specification) -> Page:
    return page(Setting(schemes=("rope", "alibi")), Options(comparison=comparison(specification)))


def drawn(of: Page) -> Chart:
    (chart,) = blocks(of, Chart)
    return chart


def test_flip_flop_shows_every_share_and_a_rule_that_knows_places(store: Store) -> None:
    shares = {"rope": (0.97, 0.76, 0.57), "alibi": (1.0, 0.9, 0.8)}
    for kind, values in shares.items():
        specification = small_spec(kind, task="flip_flop")
        scores = [
            Score("flip_flop", TRAINED, x, value, 4_000)
            for x, value in zip((10, 80, 98), values, strict=True)
        ]
        add(store, specification, *scores, Score("flip_flop position", TRAINED, 0, 0.5, 99, 2))
    found = shown(specification)
    assert found.headline == (
        "Bits read correctly at 10, 80 and 98 percent of instructions to ignore: RoPE 97%, 76% and 57%; "
        "ALiBi 100%, 90% and 80%."
    )
    (about,) = [text for text in read_texts(found) if "is guessing" in text]
    assert f"is right in {FlipFlop.by_position(16, 98):.1%} of cases" in about
    frame = drawn(found).frame
    assert set(frame["chance"]) == {0.5}
    assert set(frame["boundary"]) == {80.0}
    table = block_of(found, Findings, MEASURED).frame.set_index("scheme")
    assert table["accuracy in training (%)"].tolist() == pytest.approx([76, 90])
    assert table["half correct up to"].isna().all()
    rows = data(found, "Accuracy by position")
    assert rows["accuracy"].tolist() == [0.5, 0.5]


def test_flip_flop_that_no_model_has_learned_is_called_so_first(store: Store) -> None:
    specification = small_spec("rope", task="flip_flop")
    scores = [
        Score("flip_flop", TRAINED, x, y, 4_000) for x, y in ((10, 1.0), (80, 0.89), (98, 0.6))
    ]
    add(store, specification, *scores)
    assert shown(specification).headline == (
        "No model has learned it in training (90% correct). Bits read correctly at 10, 80 and 98 percent "
        "of instructions to ignore: RoPE 100%, 89% and 60%."
    )


def test_indexing_counts_the_trials_that_solved_it(store: Store) -> None:
    values = {"rope": (0.95, 0.1, 0.05), "alibi": (0.97, 0.93, 0.99)}
    for kind, accuracies in values.items():
        specification = small_spec(kind, task="indexing")
        for seed, value in enumerate(accuracies):
            scores = [Score("indexing", TRAINED, x, y, 800) for x, y in ((16, value), (32, 0.02))]
            add(store, replace(specification, seed=seed), *scores)
    found = shown(specification)
    assert "RoPE 37% (1 of 3 trials solved it) and ALiBi 96%." in found.headline
    assert "not judged past it: RoPE" in found.headline
    table = block_of(found, Findings, MEASURED).frame.set_index("scheme")
    assert table["solved in training"].to_dict() == {"RoPE": "1 of 3", "ALiBi": "3 of 3"}
    assert set(drawn(found).frame["chance"]) == {1 / 16}


def test_recall_has_a_map_of_depth_by_length(store: Store) -> None:
    specification = small_spec("rope", task="recall")
    cells = {"recall at depth 0%": {16: 1.0, 64: 0.25}, "recall at depth 100%": {16: 0.5, 64: 0.75}}
    scores = [
        Score(measure, TRAINED, x, value, 200)
        for measure, by_length in cells.items()
        for x, value in by_length.items()
    ]
    add(store, specification, Score("recall", TRAINED, 1, 1.0, 400), *scores)
    table = block_of(shown(specification), Findings, "details").frame
    assert table.columns.tolist() == ["scheme", "16", "64"]
    assert table.to_numpy().tolist() == [
        ["RoPE: recall at depth 0%", 100, 25],
        ["RoPE: recall at depth 100%", 50, 75],
    ]


@pytest.mark.parametrize("kind", sorted({*TASKS} - {"language"}))
def test_runs_of_every_task_have_a_page(kind: str, store: Store) -> None:
    task = TASKS[kind]
    specification = small_spec("rope", task=kind)
    add(store, specification, *(Score(kind, TRAINED, x, 1.0, 200) for x in (1, 16, 80)))
    found = shown(specification)
    assert found.headline.count("RoPE") >= 1
    assert drawn(found).title == f"Models trained on: {task.label}, 16 {task.unit}s"
    assert any(f"Task: {task.learns}, trained on" in text for text in read_texts(found))


@pytest.mark.parametrize("kind", TASKS)
def test_train_plans_runs_of_every_task_under_its_name(kind: str) -> None:
    options = TrainOptions(task=kind, run_length=16)
    corpus = CORPUS if kind == "language" else None
    (planned,) = runs_of(Setting(schemes=("rope",)), options, corpus)
    assert (planned.task, planned.train_length) == (kind, 16)
    rule = fields.rules(options)["task"]
    assert isinstance(rule, fields.Choice)
    assert labels_of(rule)[kind] == TASKS[kind].label.lower()
    if TASKS[kind].most < 256:
        with pytest.raises(ConfigError, match=f"at most {TASKS[kind].most} for the task {kind}"):
            runs_of(Setting(schemes=("rope",)), replace(options, run_length=256), corpus)
