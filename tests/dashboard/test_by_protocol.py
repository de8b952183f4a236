"""Extrapolation by protocol: ranks of all schemes by task, what is missing, and what a paper needs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dashboard import runs
from dashboard.blocks import Code, Controls, Drawer, Findings, Page
from dashboard.pages.extrapolation import by_protocol
from dashboard.pages.extrapolation.page import Options, page, uses
from dashboard.settings import Setting
from posenc.lab import Run, Score, Store
from posenc.lab.evaluate import TRAINED
from posenc.lab.protocol import Protocol, read_protocol
from posenc.lab.ranks import ranks
from tests.dashboard.called_pages import block_of, blocks, data, python_of, read_texts
from tests.dashboard.page_queue import empty_page_caches
from tests.lab.small_runs import sentences

pytestmark = pytest.mark.usefixtures("no_shape_checks")
PROTOCOL = """
[parts.text]
title = "Text"
text = "text.txt"
train_length = 16
batch = 4
steps = 8
layers = 1
widths = [16]
heads = 2
schemes = ["rope", "alibi", "none", "t5"]
trials = [[0, 0], [1, 1], [2, 2]]

[parts.text.sweep]
learning_rates = [1e-3, 2e-3]
scheme_rates = [1.0]
share = 0.5
trials = [[0, 0]]

[parts.flip_flop]
title = "Flip-flop"
task = "flip_flop"
train_length = 16
steps = 5
layers = 1
widths = [16]
heads = 2
schemes = ["rope", "alibi", "none"]
trials = [[0, 0], [1, 1]]

[parts.flip_flop.sweep]
learning_rates = [1e-3, 2e-3]
scheme_rates = [1.0]
share = 1
trials = [[0, 0]]
"""
# Losses at 16 tokens and past it: apart by far more than trials differ.
LOSSES = {"rope": (1.0, 3.0), "alibi": (1.5, 1.6), "none": (2.0, 2.5)}


@pytest.fixture
def protocol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Protocol:
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_bytes(sentences())
    Path("protocol.toml").write_text(PROTOCOL)
    small = read_protocol("protocol.toml")
    monkeypatch.setattr(runs, "protocol", lambda: small)
    return small


def add_sweep(store: Store, protocol: Protocol, part: str) -> None:
    """Add a sweep in which every scheme is best at 0.002, the rate of `Protocol.planned`."""
    for one in protocol.sweep_runs(part):
        value = 3 - 100 * one.learning_rate
        store.add(Run(one, None, 1.0, (Score("context", TRAINED, 16, value, 8),), (value,)), {})


def add_text(store: Store, protocol: Protocol, losses: Mapping[str, tuple[float, float]]) -> None:
    add_sweep(store, protocol, "text")
    for one in protocol.planned("text"):
        if one.scheme.kind in losses:
            near, far = losses[one.scheme.kind]
            # Differences of schemes vary from trial to trial; equal ones would say nothing.
            of_trial = 1e-4 * one.seed**2 * near
            scores = tuple(
                Score("context", TRAINED, x, (near, far)[x > 16] + of_trial, 8)
                for x in (16, 32, 64, 256)
            )
            store.add(Run(one, None, 1.0, scores, (1.0,)), {})


def shown(ranked_at: str = "1", **options: Any) -> Page:
    empty_page_caches()
    return page(Setting(), Options(half="by protocol", ranked_at=ranked_at, **options))


def table(of: Page) -> dict[str, dict[str, str]]:
    frame = block_of(of, Findings, "ranks").frame.set_index("scheme")
    return {scheme: dict(row) for scheme, row in frame.to_dict("index").items()}


def said(of: Page) -> str:
    return " ".join(read_texts(of))


def test_page_without_runs_of_the_protocol_says_what_is_planned(
    store: Store, protocol: Protocol
) -> None:
    found = shown()
    assert found.headline == "No model of the protocol is here yet, so no scheme has a rank."
    assert (
        "The protocol ranks schemes on Text (text) (4 schemes, 3 trials) and Flip-flop (3 "
        "schemes, 2 trials)." in said(found)
    )
    (controls,) = blocks(found, Controls)
    assert controls.names == ("half",)
    assert "arXiv 2305.19466" in said(found)


def test_ranks_of_a_length_stand_in_one_table_with_what_is_missing(
    store: Store, protocol: Protocol
) -> None:
    add_text(store, protocol, LOSSES)
    near, far = shown(), shown("16")
    rank, mean = "Text (text), possible ranks", "Text (text), loss at 16 tokens ↓"
    assert table(near) == {
        "RoPE": {rank: "1", mean: "1.000"},
        "ALiBi": {rank: "2", mean: "1.500"},
        "NoPE": {rank: "3", mean: "2.000"},
    }
    past = "Text (text), loss at 256 tokens ↓"
    assert table(far) == {
        "ALiBi": {rank: "1", past: "1.600"},
        "NoPE": {rank: "2", past: "2.500"},
        "RoPE": {rank: "3", past: "3.000"},
    }
    assert [*table(near)] == ["RoPE", "ALiBi", "NoPE"]
    assert [*table(far)] == ["ALiBi", "NoPE", "RoPE"]
    assert near.headline == "Text (text), read at 16 tokens: RoPE is clearly the best of 3 schemes."
    words = said(near)
    for fact in (
        "3 trials each. No runs yet: Flip-flop. Not measured yet: T5 bias.",
        "Pairs of schemes that clearly change places here:",
        "Text (text), read at 16 tokens and at 256 tokens: 2 of 3, for example RoPE, "
        "better in the first, and NoPE, better in the second.",
    ):
        assert fact in words
    assert uses(Options(half="by protocol")).itself == ()


def test_a_scheme_that_is_measured_alone_has_no_rank(store: Store, protocol: Protocol) -> None:
    add_text(store, protocol, {"rope": (1.0, 3.0)})
    found = shown()
    assert found.headline == "Too few schemes are measured here for a rank."
    assert table(found)["RoPE"]["Text (text), loss at 16 tokens ↓"] == "measured alone"
    assert "Not measured yet: ALiBi, NoPE and T5 bias." in said(found)


def test_schemes_that_share_a_rank_and_lack_trials_are_told_so(
    store: Store, protocol: Protocol
) -> None:
    add_text(store, protocol, {"rope": (1.0, 1.0), "alibi": (1.0, 1.0)})
    add_sweep(store, protocol, "flip_flop")
    for one in protocol.planned("flip_flop"):
        if (one.scheme.kind, one.seed) != ("alibi", 1):
            inside = 0.5 if (one.scheme.kind, one.seed) == ("none", 0) else 0.95
            scores = tuple(Score("flip_flop", TRAINED, x, inside, 400) for x in (10, 80, 98))
            store.add(Run(one, None, 1.0, scores, (1.0,)), {})
    near = shown()
    rows = table(near)
    assert [rows[name]["Text (text), loss at 16 tokens ↓"] for name in ("RoPE", "ALiBi")] == [
        "1.000"
    ] * 2
    assert rows["ALiBi"]["Flip-flop, 80% ignored ↑"] == "95% (1 of 2 trials)"
    # The mean of 0.5 and 0.95: less than 90%, so that it has no rank.
    assert rows["NoPE"]["Flip-flop, 80% ignored ↑"] == "72% (1 of 2 learned it)"
    assert rows["NoPE"]["Text (text), loss at 16 tokens ↓"] == "not measured yet"
    assert near.headline == "No scheme is clearly the best."
    assert (
        "Trials: Text (text) 3, Flip-flop 2. Without ranks, because a test of all pairs of schemes needs "
        "more trials: Text (text), read at 16 tokens (2 schemes, 3 trials); Flip-flop, 80% ignored (2 "
        "schemes, 2 trials)." in said(near)
    )
    # What has not learned a task says nothing past training.
    assert (
        table(shown("4"))["NoPE"]["Flip-flop, 98% ignored ↑"] == "not learned (1 of 2 learned it)"
    )
    helps = block_of(near, Findings, "ranks").help
    assert "lower is better" in helps["Text (text), loss at 16 tokens ↓"]
    assert "higher is better" in helps["Flip-flop, 80% ignored ↑"]
    # Shares of ignored instructions are no length: they stand beside each.
    assert [*table(shown("4"))["RoPE"]] == [
        "Text (text), loss at 64 tokens ↓", "Flip-flop, 10% ignored ↑", "Flip-flop, 98% ignored ↑",
    ]  # fmt: skip


def test_task_that_no_scheme_learned_has_no_column_and_no_count_of_trials(
    store: Store, protocol: Protocol
) -> None:
    add_sweep(store, protocol, "flip_flop")
    for one in protocol.planned("flip_flop"):
        scores = tuple(Score("flip_flop", TRAINED, x, 0.5, 400) for x in (10, 80, 98))
        store.add(Run(one, None, 1.0, scores, (1.0,)), {})
    words = said(shown())
    assert "because no scheme has learned it: Flip-flop, 80% ignored." in words
    assert "Trials" not in words
    assert "trials each" not in words


def test_a_paper_gets_methods_latex_and_every_cell(store: Store, protocol: Protocol) -> None:
    add_text(store, protocol, LOSSES)
    found = shown()
    (drawer,) = blocks(found, Drawer)
    methods, latex = [block.code for block in drawer.make() if isinstance(block, Code)]
    assert (
        f"The protocol of this part, text {protocol.part('text').digest}, was written before the runs;"
        in methods
    )
    own = ranks(protocol, list(store))
    assert latex == own.to_latex()
    assert data(found, "Ranks").equals(own.to_frame())
    assert "ranks(read_protocol(), runs)" in python_of(found)


def test_the_runs_that_ship_are_ranked_as_far_as_the_protocol_has_them() -> None:
    """Whatever ships: the page names each part of the protocol that has no runs."""
    empty_page_caches()
    found = page(Setting(), Options(half="by protocol"))
    ranked = runs.of_protocol(runs.all_ids())
    waiting = [
        p.name for p in by_protocol.ranked_parts(runs.protocol()) if p.name not in ranked.pairs
    ]
    words = said(found)
    assert all(by_protocol.part_name(name) in words for name in waiting)
