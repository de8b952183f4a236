"""Each scheme at its own best rate: names of comparisons, the choice by hand with pandas, the table."""

import math
from collections.abc import Iterable
from dataclasses import replace

import pandas as pd
import pytest

from posenc.lab import Run, Score, Specification, curves
from posenc.lab.best_rates import compared_runs, rate_text, tried_rates
from posenc.lab.evaluate import TRAINED
from posenc.lab.listing import result_lines
from posenc.lab.result_table import result_table
from posenc.lab.specification import FineTuning
from posenc.lab.summary import comparison
from tests.dashboard.shipped_runs import shipped_runs
from tests.lab.small_runs import small_spec

# By scheme, rate and seed, the losses at 16 and 64 tokens. RoPE is best at 0.001, ALiBi at 0.004.
LOSSES = {
    ("rope", 1e-3, 0): (2.0, 2.5), ("rope", 1e-3, 1): (2.2, 2.9),
    ("rope", 4e-3, 0): (2.3, 2.1), ("rope", 4e-3, 1): (1.91, 2.2),
    ("alibi", 1e-3, 0): (2.4, 2.4), ("alibi", 1e-3, 1): (2.5, 2.5),
    ("alibi", 4e-3, 0): (2.1, 2.1), ("alibi", 4e-3, 1): (2.3, 2.4),
    ("none", 2e-3, 0): (2.6, 2.7), ("none", 2e-3, 1): (2.5, 2.9),
}  # fmt: skip


def run_of(specification: Specification, *scores: Score, losses: Iterable[float] = (1.0,)) -> Run:
    return Run(specification, None, 1.0, scores, tuple(losses))


def on_text(kind: str, rate: float, seed: int, *losses: float) -> Run:
    scores = [
        Score("context", TRAINED, x, loss, 8) for x, loss in zip((16, 64), losses, strict=False)
    ]
    return run_of(replace(small_spec(kind), learning_rate=rate, seed=seed), *scores)


@pytest.fixture
def runs() -> list[Run]:
    return [on_text(*key, *losses) for key, losses in LOSSES.items()]


def best(runs: list[Run]) -> dict[str, float]:
    return {each.kind: each.best.learning_rate for each in tried_rates(runs)}


def test_names_of_the_shipped_comparisons_stay_as_links_have_them() -> None:
    """Links hold them; the rates of the models that ship are none of their defaults everywhere."""
    names = {comparison(run.specification) for run in shipped_runs()}
    assert names == {
        "copy-20-2311a456", "language-128-b70f9478", "recall-32-d89b5de4",
        "language-64-8c2dbbee", "language-128-a3f03350", "flip_flop-64-4a710259",
        "language-256-36110a45", "language-64-c6dc1465",
        "language-64-bd833680", "language-64-0a27e265", "language-64-e429efbc",  # 300, 600 and 2,400 steps
    }  # fmt: skip


def test_runs_at_other_rates_are_of_one_comparison() -> None:
    one = small_spec()
    tuned = replace(small_spec("none"), fine_tuning=FineTuning(before=one.scheme, length=32))
    for other in (
        replace(one, learning_rate=4e-3),
        replace(one, scheme_rate=10.0),
        replace(tuned, learning_rate=4e-3),
    ):
        assert comparison(other) == comparison(one)
    assert comparison(replace(one, steps=13)) != comparison(one)


def test_each_scheme_stands_at_the_rate_with_the_lowest_mean_loss_at_the_training_length(
    runs: list[Run],
) -> None:
    frame = pd.DataFrame(
        [(*key, losses[0]) for key, losses in LOSSES.items()],
        columns=["scheme", "rate", "seed", "loss"],
    )
    means = frame.groupby(["scheme", "rate"])["loss"].mean()
    by_hand = {kind: means[kind].idxmin() for kind in ("rope", "alibi", "none")}
    assert best(runs) == by_hand == {"rope": 1e-3, "alibi": 4e-3, "none": 2e-3}
    for each in tried_rates(runs):
        own = means[each.kind]
        assert [(rate.learning_rate, rate.trials) for rate in each.rates] == [
            (rate, 2) for rate in own.index
        ]
        assert [rate.loss for rate in each.rates] == pytest.approx(own.tolist())
    chosen = compared_runs(runs)
    assert [run for run in runs if run not in chosen] == [
        run
        for run in runs
        if run.specification.learning_rate != by_hand[run.specification.scheme.kind]
    ]
    # Seeds of two rates share no curve; the line of RoPE at 64 tokens is that of its own rate.
    rope, *_ = curves(chosen, "context")
    assert (rope.seeds, rope.at(64)) == (2, pytest.approx((2.5 + 2.9) / 2))
    lines = [line for line in result_lines(runs) if "RoPE:" in line]
    assert len(lines) == 1
    assert f"perplexity {math.exp(2.1):.3f} at 16" in lines[0]


def test_of_trials_that_share_a_seed_one_is_compared() -> None:
    """Of a grid of seeds its diagonal counts; trials without one seed for both in the order of seeds."""

    def kept(*trials: tuple[int, int]) -> set[tuple[int, int]]:
        own = [
            run_of(
                replace(small_spec("rope"), seed=seed, data_seed=data),
                Score("context", TRAINED, 16, 2.0, 8),
            )
            for seed, data in trials
        ]
        found = [run.specification.trial for run in compared_runs(own)]
        return {(trial.seed, trial.data_seed) for trial in found}

    grid = [(seed, data) for seed in range(3) for data in range(3)]
    assert kept(*grid, (4, 4)) == {(0, 0), (1, 1), (2, 2), (4, 4)}
    assert kept((0, 1), (0, 2), (1, 2), (3, 0)) == {(0, 1), (1, 2), (3, 0)}
    other = on_text("alibi", 2e-3, 0, 2.0)  # of another scheme
    assert compared_runs([on_text("rope", 2e-3, 0, 2.0), other])[1:] == [other]


def test_equal_losses_choose_the_lower_rate() -> None:
    assert best([on_text("rope", rate, 0, 2.0) for rate in (4e-3, 1e-3, 2e-3)]) == {"rope": 1e-3}
    own = [replace(small_spec("learned"), scheme_rate=factor) for factor in (10.0, 1.0)]
    runs = [run_of(one, Score("context", TRAINED, 16, 2.0, 8)) for one in own]
    assert tried_rates(runs)[0].best.scheme_rate == 1


def test_rates_are_compared_in_the_trials_that_all_of_them_have() -> None:
    """The sweep had one trial, the best rate then got others, whose data were harder."""
    runs = [on_text("rope", 1e-3, 0, 2.0), on_text("rope", 2e-3, 0, 2.1)]
    runs += [on_text("rope", 1e-3, seed, 3.0) for seed in (1, 2)]
    (found,) = tried_rates(runs)
    assert found.best.learning_rate == 1e-3
    assert [(rate.loss, rate.trials) for rate in found.rates] == [(2.0, 1), (2.1, 1)]
    assert len(found.best.runs) == 3


def test_a_run_that_stopped_or_has_no_number_is_not_chosen() -> None:
    good = on_text("rope", 4e-3, 0, 3.0)
    for bad in (
        replace(on_text("rope", 1e-3, 0, 1.0), stopped="The loss is no number."),
        on_text("rope", 1e-3, 0, math.nan),
        on_text("rope", 1e-3, 0),
    ):
        assert best([bad, good]) == {"rope": 4e-3}
        assert compared_runs([bad]) == [bad]


def test_a_task_without_validation_text_is_judged_by_the_end_of_its_training() -> None:
    spec = small_spec(task="copy")
    runs = [
        run_of(replace(spec, learning_rate=1e-3), losses=[1.0] * 18 + [0.5, 0.7]),
        run_of(replace(spec, learning_rate=2e-3), losses=[0.1] * 18 + [0.6, 0.8]),
    ]
    (found,) = tried_rates(runs)
    assert [rate.loss for rate in found.rates] == pytest.approx([0.6, 0.7])
    assert found.best.learning_rate == 1e-3


def test_the_table_names_the_rate_of_each_scheme_and_how_many_were_tried(runs: list[Run]) -> None:
    table = result_table(curves(compared_runs(runs), "context"), rates=tried_rates(runs))
    rows = {row.name: (row.learning_rate, row.rates) for row in table.rows}
    assert rows == {"RoPE": (1e-3, 2), "ALiBi": (4e-3, 2), "NoPE": (2e-3, 1)}
    notes = table.notes()
    assert (
        "Learning rates: RoPE 0.001; ALiBi 0.004; NoPE 0.002. Each has the lowest loss at "
        "the training length of 1 to 2 rates." in notes
    )
    assert "A scheme with more rates has an advantage: RoPE 2; ALiBi 2; NoPE 1." in notes
    alone = [run for run in runs if run.specification.learning_rate == 1e-3]
    assert not any("rate" in note for note in result_table(curves(alone, "context")).notes())
    assert rate_text(2e-3, 10.0) == "0.002 (own parameters x10)"
