"""Extrapolation with several learning rates: each scheme at its best, every trial a dot."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dashboard import pictures, run_charts, runs
from dashboard.blocks import Chart, Columns, Page
from dashboard.charts import loss
from dashboard.pages.extrapolation.measured import offered
from dashboard.pages.extrapolation.page import Options, page
from dashboard.settings import Setting
from posenc.lab import Run, Score, Specification, Store
from posenc.lab.evaluate import TRAINED
from posenc.lab.protocol import Protocol, read_protocol
from posenc.lab.summary import comparison
from tests.dashboard.called_pages import blocks, chart, data, read_texts
from tests.dashboard.page_queue import empty_page_caches
from tests.lab.small_runs import sentences, small_spec

pytestmark = pytest.mark.usefixtures("no_shape_checks")
# Losses at 16 and 64 tokens by scheme, rate and seed: RoPE is best at 0.001, ALiBi at 0.004.
LOSSES: dict[tuple[str, float, int], tuple[float, float]] = {
    ("rope", 1e-3, 0): (2.0, 2.5), ("rope", 1e-3, 1): (2.2, 2.9),
    ("rope", 4e-3, 0): (2.3, 2.1), ("rope", 4e-3, 1): (2.4, 2.2),
    ("alibi", 1e-3, 0): (2.4, 2.4), ("alibi", 1e-3, 1): (2.5, 2.5),
    ("alibi", 4e-3, 0): (2.1, 2.1), ("alibi", 4e-3, 1): (2.3, 2.4),
    ("alibi", 8e-3, 0): (2.2, 2.1), ("alibi", 8e-3, 1): (2.4, 2.4),
}  # fmt: skip
SCHEMES = ("rope", "alibi")
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
schemes = ["rope", "alibi"]
trials = [[0, 0]]

[parts.text.sweep]
learning_rates = [1e-3, 2e-3, 4e-3]
scheme_rates = [1.0]
share = 0.5
trials = [[0, 0]]
"""


@pytest.fixture
def protocol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Protocol:
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_bytes(sentences())
    Path("protocol.toml").write_text(PROTOCOL)
    small = read_protocol("protocol.toml")
    monkeypatch.setattr(runs, "protocol", lambda: small)
    return small


def add(store: Store, specification: Specification, *scores: Score) -> None:
    store.add(Run(specification, None, 1.5, scores, (5.0, 2.0)), {})


def fill(store: Store) -> str:
    """Add the runs and return the name of their comparison."""
    for (kind, rate, seed), (near, far) in LOSSES.items():
        specification = replace(small_spec(kind), learning_rate=rate, seed=seed)
        scores = [Score("context", TRAINED, x, value, 8) for x, value in ((16, near), (64, far))]
        add(store, specification, *scores, Score("position", TRAINED, 8, near, 64, until=16))
    return comparison(specification)


def shown(name: str, **options: Any) -> Page:
    return page(Setting(schemes=SCHEMES), Options(comparison=name, **options))


def test_lines_are_those_of_the_best_rate_and_every_trial_is_a_dot(store: Store) -> None:
    drawn = chart(shown(fill(store)), "measured_context")
    for label, kind, rate in (("RoPE", "rope", 1e-3), ("ALiBi", "alibi", 4e-3)):
        rows: Any = drawn.frame[drawn.frame["scheme"] == label].set_index("x")
        for place, x in enumerate((16, 64)):
            own = [LOSSES[kind, rate, seed][place] for seed in (0, 1)]
            assert rows.loc[x, "y"] == pytest.approx(np.mean(own))
            assert rows.loc[x, [f"{loss.DOT}0", f"{loss.DOT}1"]].tolist() == own
    assert not loss.dots_of(drawn.numbers())
    svg = pictures.svg(pictures.chart(drawn.spec, drawn.drawn))
    assert svg.count('opacity="0.5"') == 8  # 2 schemes, 2 lengths, 2 trials
    perplexity = chart(shown(fill(store), unit="perplexity"), "measured_context").frame
    assert perplexity[f"{loss.DOT}1"].tolist() == pytest.approx(
        np.exp(drawn.frame[f"{loss.DOT}1"]).tolist()
    )


def test_trials_that_share_a_seed_are_counted_once_and_named(store: Store) -> None:
    name = fill(store)
    assert not [line for line in read_texts(shown(name)) if line.startswith("Not counted")]
    for kind in SCHEMES:
        at_best = small_spec(kind, learning_rate=1e-3 if kind == "rope" else 4e-3)
        other = replace(at_best, seed=0, data_seed=1)
        add(
            store,
            other,
            Score("context", TRAINED, 16, 9.0, 8),
            Score("context", TRAINED, 64, 9.0, 8),
        )
    empty_page_caches()
    alike = (
        "Not counted: 2 models that have the initial weights, or the order of the data, of one that is "
        "counted, so that they are no trials of their own."
    )
    assert alike in read_texts(shown(name))
    (rope, _) = (curve for curve in runs.curves(runs.comparisons(runs.all_ids())[name], "context"))
    assert rope.seeds == 2


def test_single_runs_have_no_dots(store: Store) -> None:
    add(store, small_spec("rope"), Score("context", TRAINED, 16, 2.0, 8))
    infos = runs.read_infos(runs.all_ids())
    drawn = run_charts.by_length("one", runs.curves(infos, "context"))
    assert not loss.dots_of(drawn.frame)


def test_rates_are_drawn_with_the_chosen_one_in_a_ring(store: Store) -> None:
    found = shown(fill(store))
    frame = chart(found, "rates").frame
    by_hand: Any = (
        pd.DataFrame([(*key, near) for key, (near, _) in LOSSES.items()]).groupby([0, 1])[3].mean()
    )
    labels = {"rope": "RoPE", "alibi": "ALiBi"}
    assert {(row.scheme, row.x): row.y for row in frame.itertuples()} == {
        (labels[kind], rate): pytest.approx(value) for (kind, rate), value in by_hand.items()
    }
    chosen = frame.dropna(subset="chosen")
    assert list(zip(chosen["scheme"], chosen["x"], strict=True)) == [
        ("RoPE", 1e-3),
        ("ALiBi", 4e-3),
    ]
    (caption,) = [text for text in read_texts(found) if text.startswith("A ring marks")]
    assert "the lowest loss in training, mean of 2 trials." in caption
    assert caption.endswith("A scheme with more rates has an advantage: RoPE 2 and ALiBi 3.")
    table = data(found, "Measured classes").set_index("scheme")
    assert table["learning rate"].to_dict() == {"RoPE": "0.001", "ALiBi": "0.004"}
    assert any(
        "each scheme at its best learning rate, 0.001 to 0.004" in text
        for text in read_texts(found)
    )
    svg = pictures.svg(pictures.chart(chart(found, "rates").spec, chart(found, "rates").drawn))
    assert "learning rate" in svg


def test_schemes_trained_at_one_rate_have_no_picture_of_rates(store: Store) -> None:
    scores = [Score("context", TRAINED, x, value, 8) for x, value in ((16, 2.0), (64, 2.5))]
    add(store, small_spec("rope"), *scores)
    found = page(Setting(schemes=("rope",)), Options(comparison=comparison(small_spec("rope"))))
    assert [block.key for block in found.all_blocks if isinstance(block, Chart)] == [
        "measured_context"
    ]
    assert not any("best learning rate" in text for text in read_texts(found))


def test_rates_of_a_part_of_the_protocol_are_those_of_its_sweep(
    store: Store, protocol: Protocol
) -> None:
    for one in protocol.sweep_runs("text"):
        far = abs(one.learning_rate - (4e-3 if one.scheme.kind == "rope" else 2e-3))
        add(store, one, Score("context", TRAINED, 16, 2 + 100 * far, 8))
    table = protocol.runs("text", store)
    for one in table:
        add(
            store, one, Score("context", TRAINED, 16, 1.5, 8), Score("context", TRAINED, 32, 1.6, 8)
        )
    empty_page_caches()
    found = shown(comparison(table[0]))
    frame = chart(found, "rates").frame
    assert frame["x"].tolist() == [1e-3, 2e-3, 4e-3] * 2
    assert frame.dropna(subset="chosen")["x"].tolist() == [4e-3, 2e-3]
    (caption,) = [text for text in read_texts(found) if text.startswith("A ring marks")]
    assert "in a sweep with 1 trial each" in caption
    offered = [*runs.comparisons(runs.all_ids())]
    assert offered == [comparison(table[0])]  # that of the sweep is none to choose


def test_comparisons_of_equal_titles_are_told_apart_by_text_steps_or_name(store: Store) -> None:
    one = small_spec("rope")
    others = [
        replace(one, steps=24), replace(one, corpus="0" * 64, corpus_name="prose"), replace(one, batch=5)
    ]  # fmt: skip
    for each in (one, *others):
        add(store, each, Score("context", TRAINED, 16, 2.0, 8))
    titles = offered(runs.comparisons(runs.all_ids()), "")
    assert titles[comparison(others[1])] == "Text, 16 tokens, prose"
    assert titles[comparison(others[0])] == f"Text, 16 tokens, {one.corpus_name}, 24 steps"
    for each in (one, others[2]):
        name = comparison(each)
        assert titles[name] == f"Text, 16 tokens, {one.corpus_name}, 12 steps, {name[-8:]}"


def test_loss_by_position_can_stand_beside_loss_by_context(store: Store) -> None:
    found = shown(fill(store), axis="both")
    (columns,) = blocks(found, Columns)
    keys = [block.key for part in columns.parts for block in part if isinstance(block, Chart)]
    assert keys == ["measured_context", "measured_position"]
    assert chart(found, "measured_position").frame["x"].tolist() == [11.5, 11.5]
