"""Ranks by task: the runs of a part, and ranks recomputed with pandas and scipy from the scores alone."""

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from click.testing import CliRunner

from posenc.__main__ import main
from posenc.cli import runs as commands
from posenc.lab import Run, Score, Specification, Store
from posenc.lab.evaluate import TRAINED
from posenc.lab.parts import is_of_sweep, is_of_table, part_of
from posenc.lab.protocol import Protocol, read_protocol
from posenc.lab.protocol_record import RECORD, read_record
from posenc.lab.ranks import Ranks, State, ranked_parts, ranks
from posenc.lab.specification import Trial
from tests.lab.small_runs import sentences

SMALL = """
[parts.text]
title = "Text"
text = "text.txt"
train_length = 16
batch = 4
steps = 8
layers = 1
widths = [16]
heads = 2
schemes = ["rope", "alibi", "none", "learned"]
trials = [[0, 0], [1, 1], [2, 2], [3, 3]]

[parts.text.sweep]
learning_rates = [1e-3, 2e-3]
scheme_rates = [1.0]
share = 0.5
trials = [[0, 0]]

[parts.grid]
title = "Other seeds"
like = "text"
schemes = ["rope"]
trials = [[0, 1]]

[parts.flip_flop]
title = "Flip-flop"
task = "flip_flop"
train_length = 16
steps = 5
layers = 1
widths = [16]
heads = 2
schemes = ["rope", "alibi", "none", "t5"]
trials = [[0, 0], [1, 1], [2, 2]]

[parts.flip_flop.sweep]
learning_rates = [1e-3, 2e-3]
scheme_rates = [1.0]
share = 1
trials = [[0, 0]]
"""
XS = {"16 tokens": 16, "32 tokens": 32, "64 tokens": 64, "256 tokens": 256}
MEANS = {"rope": (1.0, 3.0), "alibi": (1.5, 1.6), "none": (1.501, 2.9)}  # at 16 tokens, and past it


@pytest.fixture
def protocol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Protocol:
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_bytes(sentences())
    Path("protocol.toml").write_text(SMALL)
    return read_protocol("protocol.toml")


def run_of(
    specification: Specification, scores: Sequence[Score], stopped: str | None = None
) -> Run:
    return Run(specification, stopped, 1.0, tuple(scores), (1.0,))


def on_text(protocol: Protocol, kinds: Sequence[str] = ("rope", "alibi", "none")) -> list[Run]:
    draw, runs = random.Random(5), []
    shared = {trial: draw.gauss(0, 0.3) for trial in protocol.parts["text"].trials}
    for specification in protocol.planned("text"):
        kind = specification.scheme.kind
        if kind in kinds:
            scores = [
                Score("context", TRAINED, x, MEANS[kind][x > 16] + shared[specification.trial]
                      + draw.gauss(0, 0.02), 8)
                for x in XS.values()
            ]  # fmt: skip
            runs.append(run_of(specification, scores))
    return runs + sweep(protocol, "text")


def sweep(protocol: Protocol, part: str) -> list[Run]:
    """Return a sweep of which every scheme is best at 0.002, the rate of `Protocol.planned`."""
    return [
        Run(
            one, None, 1.0, (Score("context", TRAINED, 16, 2 - 100 * one.learning_rate, 8),),
            (2 - 100 * one.learning_rate,),
        )
        for one in protocol.sweep_runs(part)
    ]  # fmt: skip


def table_of(runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if run.specification.longest > 1]


def row(found: Ranks, kind: str) -> dict[str, str]:
    names = [f"{column.part} {column.measure}" for column in found.columns]
    return dict(zip(names, map(str, found.rows[kind]), strict=True))


def test_ranks_are_those_of_paired_t_tests_corrected_for_all_pairs_of_a_part(
    protocol: Protocol,
) -> None:
    runs = on_text(protocol)
    frame = pd.DataFrame(
        [
            (run.specification.scheme.kind, score.x, run.specification.seed, score.value)
            for run in table_of(runs)
            for score in run.scores
        ],
        columns=["scheme", "x", "seed", "loss"],
    )  # fmt: skip
    wide: Any = frame.pivot_table(index=["x", "scheme"], columns="seed", values="loss")
    pairs = [(x, *both) for x in XS.values() for both in itertools.combinations(MEANS, 2)]
    p_values = pd.Series(
        [scipy.stats.ttest_rel(wide.loc[x, one], wide.loc[x, two]).pvalue for x, one, two in pairs]
    )
    order = p_values.sort_values()
    holm = (order * np.arange(len(pairs), 0, -1)).cummax()
    real = [pairs[index] for index in holm[holm <= 0.05].index]
    assert 0 < len(real) < len(pairs)
    found = ranks(protocol, runs)
    assert found.pairs == {"text": len(pairs)}
    for place, column in enumerate(found.columns):
        x = XS[column.measure]
        mean = wide.loc[x].mean(axis=1)
        for kind in MEANS:
            others = [
                {one, two} - {kind} for at, one, two in real if at == x and kind in (one, two)
            ]
            names = [name for (name,) in others]
            lower = sum(mean[name] < mean[kind] for name in names)
            cell = found.rows[kind][place]
            assert cell.rank is not None
            assert (cell.rank.first, cell.rank.last) == (1 + lower, 3 - (len(names) - lower))
            assert cell.better_than == {name for name in names if mean[name] > mean[kind]}
            assert (cell.mean, cell.trials) == (pytest.approx(mean[kind]), 4)
    assert row(found, "rope")["text 16 tokens"] == "1"
    assert row(found, "alibi") == {
        "text 16 tokens": "2–3", "text 32 tokens": "1", "text 64 tokens": "1", "text 256 tokens": "1",
    }  # fmt: skip
    assert [column.times for column in found.columns] == [1, 2, 4, 16]


def test_schemes_that_are_not_measured_yet_are_named_and_have_no_rank(protocol: Protocol) -> None:
    found = ranks(protocol, on_text(protocol, ("rope", "alibi")))
    assert {*row(found, "none").values()} == {"not measured yet"}
    assert found.missing == {"text": ["Learned", "NoPE"]}
    assert "Not measured yet in text: Learned, NoPE." in found.to_markdown()
    assert found.rows["rope"][0].rank is not None
    assert {*row(ranks(protocol, on_text(protocol, ["rope"])), "rope").values()} == {
        "measured alone"
    }
    assert ranks(protocol, []).columns == ()


def test_a_table_that_ends_in_training_and_a_run_that_stopped_have_no_rank(
    protocol: Protocol,
) -> None:
    runs = on_text(protocol, ("rope", "alibi"))
    for specification in protocol.planned("text"):
        if specification.scheme.kind == "learned":
            runs.append(run_of(specification, [Score("context", TRAINED, 16, 1.2, 8)]))
        elif specification.scheme.kind == "none":
            runs.append(run_of(specification, [], stopped="The loss is no number."))
    found = ranks(protocol, runs)
    learned = row(found, "learned")
    assert learned["text 32 tokens"] == State.ENDS == "ends in training"
    assert learned["text 16 tokens"] not in {*State}
    assert {*row(found, "none").values()} == {"stopped early"}
    assert found.missing == {}


def test_schemes_that_did_not_learn_a_task_are_named_and_shares_rank_the_other_way_round(
    protocol: Protocol,
) -> None:
    """RoPE and ALiBi learn it in every trial, NoPE in one of three, T5 is not measured."""
    shares = {"rope": (1.0, 0.9, 0.6), "alibi": (1.0, 0.9, 0.95), "none": (0.5, 0.5, 0.5)}
    runs = []
    for specification in protocol.planned("flip_flop"):
        if specification.scheme.kind in shares:
            trained, dense, sparse = shares[specification.scheme.kind]
            if (specification.scheme.kind, specification.seed) == ("none", 0):
                trained = 0.95
            noise = 0.001 * specification.seed * (specification.scheme.kind == "rope")
            scores = [
                Score("flip_flop", TRAINED, x, value, 400)
                for x, value in ((10, dense), (80, trained), (98, sparse + noise))
            ]
            runs.append(run_of(specification, scores))
    found = ranks(protocol, [*runs, *sweep(protocol, "flip_flop")])
    assert [(c.measure, c.in_training) for c in found.columns] == [
        ("80% ignored", True), ("10% ignored", False), ("98% ignored", False),
    ]  # fmt: skip
    assert [*row(found, "rope").values()] == ["1–2", "1–2", "2"]
    assert [*row(found, "alibi").values()] == ["1–2", "1–2", "1"]
    assert {*row(found, "none").values()} == {"not learned"}
    assert {*row(found, "t5").values()} == {"not measured yet"}
    assert [str(cells[0].solved) for cells in (found.rows["rope"], found.rows["none"])] == [
        "3 of 3", "1 of 3",
    ]  # fmt: skip


def test_forms_of_the_table_hold_its_cells(protocol: Protocol) -> None:
    found = ranks(protocol, on_text(protocol))
    frame = found.to_frame()
    assert len(frame) == 4 * 4
    alibi = frame[(frame["scheme"] == "ALiBi") & (frame["x"] == 256)].iloc[0]
    assert (alibi["first rank"], alibi["last rank"], alibi["state"]) == (1, 1, "ranked")
    lines = found.to_csv().splitlines()
    assert lines[0] == ",".join(found.header())
    assert len(lines) == 1 + len(frame)
    assert r"ALiBi & 2--3 & 1 & 1 & 1 \\" in found.to_latex()
    digest = protocol.part("text").digest
    assert f"Protocol: text {digest}." in found.to_latex()


def test_a_run_counts_at_the_rate_that_the_sweep_chose(protocol: Protocol, tmp_path: Path) -> None:
    """RoPE has runs at a better rate that the sweep did not choose; NoPE has no sweep, then a file's."""
    runs = on_text(protocol)
    better = [
        run_of(replace(run.specification, learning_rate=4e-3), [replace(s, value=0.1) for s in run.scores])
        for run in table_of(runs)
        if run.specification.scheme.kind == "rope"
    ]  # fmt: skip
    assert ranks(protocol, [*better, *runs]) == ranks(protocol, runs)
    without = [
        run for run in runs
        if run in table_of(runs) or run.specification.scheme.kind != "none"
    ]  # fmt: skip
    assert {*row(ranks(protocol, without), "none").values()} == {"not measured yet"}
    store = Store(tmp_path)
    rows = [
        "part,stage,run_id,scheme,learning_rate,scheme_rate,seed,data_seed,loss",
        "text,sweep,a,none,0.001,1,0,0,3.1",
        "text,sweep,b,none,0.002,1,0,0,3.0",
        "text,table,d,none,0.001,1,0,0,1.0",
        "copy,sweep,c,none,0.001,1,0,0,1.0",
    ]
    store.put(RECORD, "\n".join(rows).encode())
    assert ranks(protocol, without, read_record(store)) == ranks(protocol, runs)


def test_the_command_prints_the_ranks_of_a_store(
    protocol: Protocol, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "read_protocol", lambda: protocol)
    store, runs = Store(tmp_path / "runs"), on_text(protocol)
    for run in runs:
        store.add(run, {})
    result = CliRunner().invoke(main, ["runs", "--ranks", "csv", "--store", store.url])
    assert result.exit_code == 0, result.output
    assert result.stdout == ranks(protocol, runs).to_csv()


def test_runs_are_of_a_part_whatever_made_them(protocol: Protocol) -> None:
    """Another torch, text or rate changes the id of a run and not its part; other sizes do."""
    text, grid, flip = protocol.parts.values()
    run = protocol.planned("text")[0]
    elsewhere = replace(run, versions=(("torch", "0"),), corpus="0" * 64, learning_rate=4e-3)
    assert is_of_table(text, elsewhere)
    for other in (
        replace(run, steps=9), replace(run, batch=5), replace(run, longest=8), replace(run, seed=9),
        replace(run, corpus_name="other.txt"),
    ):  # fmt: skip
        assert not is_of_table(text, other)
    assert part_of([text, grid, flip], run_of(protocol.planned("grid")[0], [])) is grid
    sweep = protocol.sweep_runs("text")
    assert all(is_of_sweep(text, one) and not is_of_table(text, one) for one in sweep)
    assert not is_of_sweep(text, replace(sweep[0], learning_rate=3e-3))
    assert [part.name for part in ranked_parts(protocol)] == ["text", "flip_flop"]
    of_other_torch = [run_of(elsewhere, on_text(protocol)[0].scores)]
    found = ranks(protocol, [*on_text(protocol), *of_other_torch])  # the larger group
    assert found.rows["rope"][0].trials == 4
    assert elsewhere.trial == Trial(0, 0)


@pytest.mark.long
def test_planned_runs_of_the_shipped_protocol_are_of_their_part_alone() -> None:
    protocol = read_protocol()
    parts = [*protocol.parts.values()]
    for part in parts:
        for run in protocol.planned(part.name)[:: max(1, len(part.trials))]:
            assert [each.name for each in parts if is_of_table(each, run)] == [part.name]
        assert all(is_of_sweep(part, run) for run in protocol.sweep_runs(part.name)[::7])
