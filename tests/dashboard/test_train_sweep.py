"""Train with several learning rates and seeds: the plan, its time, and the table when it is done."""

import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import scipy.stats

from dashboard import training_time
from dashboard.blocks import Block, Button, Code, Controls, Drawer, Findings, Page
from dashboard.pages.train.page import page
from dashboard.pages.train.plan import Options, protocol_rates, runs_of
from dashboard.settings import Setting
from dashboard.text import duration
from dashboard.training_time import LOADING_SECONDS
from posenc.lab import Run, Score, Store, standard_library
from posenc.lab.evaluate import TRAINED
from posenc.lab.protocol import SHIPPED
from tests.dashboard.called_pages import block_of, blocks, python_of, read_texts
from tests.dashboard.page_queue import SPEED, TRAIN_LINK, empty_page_caches
from tests.dashboard.pages import as_read, drawn, visit

pytestmark = pytest.mark.usefixtures("no_shape_checks", "job_folder")
SETTING = Setting(schemes=("rope", "alibi"))
SMALL = Options(
    run_length=16, steps=5, width=16, layers=1, run_heads=2, seeds=3, run_rates=(0.001, 0.004)
)


@pytest.fixture(autouse=True)
def no_cached_runs() -> Iterator[None]:
    empty_page_caches()
    yield
    empty_page_caches()


def loss(kind: str, rate: float, seed: int, x: int) -> float:
    """RoPE is best at 0.004 and rises past training, ALiBi is best at 0.001 and does not."""
    apart = 0.2 * (rate != (0.004 if kind == "rope" else 0.001))
    rise = 0.5 * (kind == "rope" and x > 16)
    return 2 + apart + rise + 0.01 * seed * (2 if kind == "rope" else 1) + 0.001 * seed**2


def finish(options: Options) -> Page:
    """Return the page when all of its runs are in the store."""
    task = standard_library() if options.task == "language" else None
    for one in runs_of(SETTING, options, task):
        kind, rate, seed = one.scheme.kind, one.learning_rate, one.seed
        if options.task == "language":
            scores = [
                Score("context", TRAINED, x, loss(kind, rate, seed, x), 8) for x in (16, 32, 256)
            ]
        else:
            scores = [Score(options.task, TRAINED, x, 1.0, 8) for x in (16, 32)]
        Store().add(Run(one, None, 1.0, tuple(scores), (rate,)), {})
    return page(SETTING, options)


def test_plan_has_every_scheme_at_every_rate_with_every_seed() -> None:
    planned = runs_of(SETTING, SMALL, standard_library())
    found = [(run.scheme.kind, run.learning_rate, run.seed) for run in planned]
    assert sorted(found) == sorted(
        (kind, rate, seed)
        for kind in ("rope", "alibi")
        for rate in (0.001, 0.004)
        for seed in range(3)
    )
    twice = replace(SMALL, run_rates=(0.001, 0.001, 0.004))
    assert runs_of(SETTING, twice, standard_library()) == planned
    assert {run.learning_rate for run in runs_of(SETTING, Options(), standard_library())} == {0.002}
    assert "for rate in (0.001, 0.004)" in python_of(page(SETTING, SMALL))


def test_button_takes_the_rates_of_the_protocol_and_one_rate_again() -> None:
    sweep = tomllib.loads(SHIPPED.read_text())["parts"]["code"]["sweep"]
    assert list(protocol_rates()) == sweep["learning_rates"]

    def drawer(options: Options) -> list[Block]:
        return [*block_of(page(SETTING, options), Drawer, "model_sizes").make()]

    def button(options: Options) -> Button:
        (found,) = [block for block in drawer(options) if isinstance(block, Button)]
        return found

    first = button(Options())
    assert first.label == "Sweep 5 rates"
    changed: Any = first.changes
    assert changed == {"run_rates": protocol_rates()}
    back = button(replace(Options(), **changed))
    assert back.label == "One rate"
    assert back.changes == {"run_rates": (0.002,)}
    controls = [n for b in drawer(SMALL) if isinstance(b, Controls) for n in b.names]
    assert controls == ["width", "layers", "run_heads", "run_rates"]


def test_time_of_a_sweep_is_stated_before_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_time, "speed", lambda: SPEED)
    at = drawn(visit("train", TRAIN_LINK | {"run_rates": "0.001,0.004", "seeds": "2"}))
    options = Options(
        run_length=16, steps=5, width=16, layers=1, run_heads=2, seeds=2, run_rates=(0.001, 0.004)
    )
    planned = runs_of(SETTING, options, standard_library())
    seconds = LOADING_SECONDS + sum(map(SPEED.seconds, planned))
    plan = f"8 runs of 5 steps: **about {duration(seconds)}**"
    assert any(as_read(text.value).startswith(plan) for text in at.main.markdown)


def test_finished_sweep_has_a_table_with_paired_intervals_at_the_best_rates() -> None:
    found = finish(SMALL)
    table = block_of(found, Findings, "trained_table").frame.set_index("scheme")
    best = {"rope": 0.004, "alibi": 0.001}
    for x in (16, 32, 256):
        own = pd.DataFrame(
            {kind: [loss(kind, rate, seed, x) for seed in range(3)] for kind, rate in best.items()}
        )
        gap = scipy.stats.ttest_rel(own["alibi"], own["rope"])
        low, high = gap.confidence_interval(0.95)
        mean = (own["alibi"] - own["rope"]).mean()
        words = f"{own['alibi'].mean():.3f} ({mean:+.3f}, {low:+.3f} to {high:+.3f}"
        assert table.loc["ALiBi", f"{x} tokens"].startswith(words)
        assert table.loc["RoPE", f"{x} tokens"] == f"{own['rope'].mean():.3f}"
    said = read_texts(found)
    assert any("Learning rates: ALiBi 0.001; RoPE 0.004." in text for text in said)
    (drawer,) = [b for b in found.all_blocks if isinstance(b, Drawer) and b.key == "trained_files"]
    csv, latex = [block.code for block in drawer.make() if isinstance(block, Code)]
    assert csv.startswith("scheme,trials,learning rate")
    assert r"\begin{tabular}" in latex


def test_finished_models_of_another_task_have_a_table_of_accuracies() -> None:
    table = block_of(finish(replace(SMALL, task="copy")), Findings, "trained_table").frame
    assert table["scheme"].tolist() == ["RoPE", "ALiBi"]
    assert table["accuracy in training (%)"].tolist() == [100, 100]


def test_one_scheme_has_no_table(tmp_path: Path) -> None:
    of_rope = Setting(schemes=("rope",))
    (one,) = runs_of(of_rope, replace(SMALL, seeds=1, run_rates=(0.001,)), standard_library())
    Store().add(Run(one, None, 1.0, (Score("context", TRAINED, 16, 2.0, 8),), (1.0,)), {})
    shown = page(of_rope, replace(SMALL, seeds=1, run_rates=(0.001,)))
    assert not blocks(shown, Findings)
