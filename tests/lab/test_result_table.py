"""The table of results, recomputed with pandas and scipy from the numbers of the runs alone."""

import csv
import io
import math
import random
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from posenc.errors import RunError
from posenc.lab import Run, Score, curves
from posenc.lab.evaluate import TRAINED
from posenc.lab.result_table import ResultTable, result_table
from posenc.lab.specification import FineTuning
from posenc.lab.statistics import detectable
from posenc.lab.summary import Effect, comparison
from tests.dashboard.shipped_runs import CODE, shipped_runs
from tests.lab.small_runs import small_spec

SCHEMES = ("rope", "alibi", "learned", "none")
CONTEXTS = (16, 32, 256)
TRIALS = 5


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    """Losses drawn at random: ALiBi is 0.4 nats above RoPE at 256 tokens, the others are near."""
    draw, made = random.Random(7), []
    for trial in range(TRIALS):
        shared = draw.gauss(0, 0.3)  # of a trial: what pairs have in common
        for scheme in SCHEMES:
            scores = []
            for x in CONTEXTS:
                value = (
                    2 + shared + draw.gauss(0, 0.02) + (0.4 if (scheme, x) == ("alibi", 256) else 0)
                )
                if (scheme, x) != ("learned", 256):
                    scores.append(Score("context", TRAINED, x, value, 8))
            specification = replace(small_spec(scheme), seed=trial)
            made.append(Run(specification, None, 1.0, tuple(scores), (1.0,)))
    return made


@pytest.fixture(scope="module")
def table(runs: list[Run]) -> ResultTable:
    return result_table(curves(runs, "context"))


def frame_of(runs: list[Run]) -> Any:  # the stubs of pandas know no cell as a number
    """Return the losses by scheme and context (rows) and trial (columns)."""
    rows = [
        {"scheme": run.specification.scheme.kind, "x": score.x, "trial": run.specification.seed,
         "loss": score.value}
        for run in runs for score in run.scores
    ]  # fmt: skip
    return pd.DataFrame(rows).pivot_table(index=["scheme", "x"], columns="trial", values="loss")


def test_every_number_is_that_of_pandas_and_scipy(runs: list[Run], table: ResultTable) -> None:
    losses = frame_of(runs)
    p_values: dict[tuple[str, int], float] = {}
    for scheme in SCHEMES[1:]:
        for x in CONTEXTS:
            if (scheme, x) in losses.index:
                result = scipy.stats.ttest_rel(losses.loc[scheme, x], losses.loc["rope", x])
                p_values[scheme, x] = result.pvalue
    assert table.differences == len(p_values) == 8
    adjusted: dict[tuple[str, int], float] = {}
    highest = 0.0
    for rank, key in enumerate(sorted(p_values, key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (8 - rank) * p_values[key]))
        adjusted[key] = highest
    kinds = {"RoPE": "rope", "ALiBi": "alibi", "Learned": "learned", "NoPE": "none"}
    assert {row.name for row in table.rows} == {*kinds}
    for row in table.rows:
        kind = kinds[row.name]
        assert (row.trials, row.learning_rate, row.scheme_rate) == (TRIALS, 1e-2, 1.0)
        for x, cell in zip(CONTEXTS, row.cells, strict=True):
            if (kind, x) not in losses.index:
                assert cell is None
                continue
            assert cell is not None
            assert cell.mean == pytest.approx(losses.loc[kind, x].mean())
            if kind == "rope":
                assert (cell.difference, cell.corrected) == (None, None)
                continue
            assert cell.difference is not None
            gaps = losses.loc[kind, x] - losses.loc["rope", x]
            interval = scipy.stats.ttest_1samp(gaps, 0.0).confidence_interval(0.95)
            assert cell.difference.mean == pytest.approx(gaps.mean())
            assert cell.difference.low == pytest.approx(interval.low)
            assert cell.difference.high == pytest.approx(interval.high)
            assert cell.corrected == pytest.approx(adjusted[kind, x])
    alibi = next(row for row in table.rows if row.name == "ALiBi")
    assert alibi.effect is Effect.BREAKS
    means = [row.cells[0].mean for row in table.rows if row.cells[0]]
    assert means == sorted(means)


def test_detectable_difference_has_the_median_spread(runs: list[Run], table: ResultTable) -> None:
    losses = frame_of(runs)
    for x, found in zip(CONTEXTS, table.detectable, strict=True):
        spreads = [
            float(np.std(losses.loc[scheme, x] - losses.loc["rope", x], ddof=1))
            for scheme in SCHEMES[1:]
            if (scheme, x) in losses.index
        ]
        assert found == pytest.approx(detectable(float(np.median(spreads)), TRIALS, 8))


def test_csv_has_every_digit_and_latex_the_same_rounded_numbers(table: ResultTable) -> None:
    rows = list(csv.DictReader(io.StringIO(table.to_csv())))
    assert [row["scheme"] for row in rows] == [row.name for row in table.rows]
    for read, row in zip(rows, table.rows, strict=True):
        last = row.cells[-1]
        assert read["loss at 256"] == ("" if last is None else repr(last.mean))
    latex, markdown = table.to_latex(), table.to_markdown()
    for row in table.rows:
        (line,) = (line for line in latex.splitlines() if line.startswith(f"{row.name} & "))
        assert line.endswith(r" \\")
        assert line.count(" & ") == 5
        (same,) = (line for line in markdown.splitlines() if line.startswith(f"| {row.name} |"))
        assert re.findall(r"[\d.]+", same) == re.findall(r"[\d.]+", line)
    starred = [line for line in markdown.splitlines() if "*)" in line]
    assert len(starred) == 1  # only 0.4 nats stand out
    assert starred[0].startswith("| ALiBi |")
    frame = table.to_frame()
    assert frame.columns.is_unique
    assert frame["loss at 16"].tolist() == [row.cells[0].mean for row in table.rows if row.cells[0]]


def test_one_trial_has_differences_and_no_intervals(runs: list[Run]) -> None:
    single = result_table(curves([run for run in runs if run.specification.seed == 0], "context"))
    assert single.differences == 0
    assert single.detectable == (None, None, None)
    gaps = [
        cell.difference for row in single.rows for cell in row.cells if cell and cell.difference
    ]
    assert all(gap.low == -math.inf for gap in gaps)
    assert "inf" not in single.to_csv() + single.to_markdown()
    (note,) = single.notes()  # nothing of intervals and stars, of which the table has none
    assert "the difference from RoPE. One trial" in note


def test_a_table_needs_one_reference(runs: list[Run]) -> None:
    others = [run for run in runs if run.specification.scheme.kind != "rope"]
    with pytest.raises(RunError, match="one scheme of the kind rope to compare with, got 0"):
        result_table(curves(others, "context"))


def test_shipped_runs_have_a_table_with_their_scalings() -> None:
    every = [run for run in shipped_runs() if run.specification.task == "language"]
    table = result_table(
        curves([run for run in every if comparison(run.specification) == CODE], "context")
    )
    names = {row.name for row in table.rows}
    assert {"RoPE, NTK-aware", "Learned, last row repeated", "ALiBi"} <= names
    by_name = {row.name: row for row in table.rows}
    ntk = by_name["RoPE, NTK-aware"]
    assert ntk.cells[0] is None  # a scaling is read past the training length alone
    assert ntk.cells[1] is not None


def test_fine_tuned_models_are_compared_with_the_reference_after_the_same_steps() -> None:
    """A reference that was fine-tuned, or a model without one, is compared with it before fine-tuning."""
    rope = small_spec("rope")
    losses: dict[tuple[str, int | None], tuple[float, ...]] = {
        ("rope", None): (3.0, 3.2, 3.1),
        ("rope", 32): (2.0, 2.1, 2.3),
        ("none", 32): (1.5, 1.7, 1.6),
        ("none", 64): (1.1, 1.2, 1.4),
    }
    made = []
    for (kind, length), values in losses.items():
        tuning = None if length is None else FineTuning(before=rope.scheme, length=length, steps=2)
        for seed, value in enumerate(values):
            spec = replace(small_spec(kind), seed=seed, fine_tuning=tuning)
            scores = tuple(Score("context", TRAINED, x, value, 8) for x in (16, 64))
            made.append(Run(spec, None, 1.0, scores, (1.0,)))
    found = result_table(curves(made, "context"), lengths=(1, 4))
    minus = {("rope", 32): ("rope", None), ("none", 32): ("rope", 32), ("none", 64): ("rope", None)}
    shown = {row.name: [cell.difference for cell in row.cells if cell] for row in found.rows}
    assert shown.pop("RoPE") == [None, None]
    assert len(shown) == len(minus)
    for (kind, length), base in minus.items():
        label = {"rope": "RoPE, fine-tuned", "none": "NoPE, fine-tuned from RoPE"}[kind]
        gaps = np.subtract(losses[kind, length], losses[base])
        expected = scipy.stats.ttest_1samp(gaps, 0)
        low, high = expected.confidence_interval()
        for gap in shown[f"{label} at {length} tokens"]:
            assert gap is not None
            assert (gap.mean, gap.low, gap.high) == pytest.approx((gaps.mean(), low, high))
    assert "RoPE (after fine-tuning: with the same steps on texts of the same length)" in (
        found.to_markdown()
    )
    plain = [run for run in made if run.specification.fine_tuning is None]
    assert "after fine-tuning" not in result_table(curves(plain, "context")).to_markdown()
