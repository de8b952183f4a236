"""The measured half of Extrapolation: what it says follows from the runs of the store by hand."""

import math
from pathlib import Path

import pytest
import streamlit as st

from dashboard import runs
from posenc.lab import Run, Score, Store
from posenc.lab.evaluate import CLAMPED, TRAINED
from tests.pages import captions, drawn, headline, table, visit
from tests.small_runs import small

pytestmark = pytest.mark.usefixtures("no_shape_checks")

LINK = {"half": "measured", "schemes": "learned,rope,alibi"}
CONTEXT, POSITION = "measured loss by context", "measured loss by position"
# Loss by context, per scheme and seed: RoPE is best at 64 and breaks, ALiBi gains from context.
LOSSES: dict[tuple[str, str], dict[int, dict[int, float]]] = {
    ("rope", TRAINED): {
        0: {32: 1.4, 64: 1.2, 128: 2.5, 256: 3.5},
        1: {32: 1.6, 64: 1.4, 128: 2.7, 256: 3.9},
    },
    ("rope", "NTK-aware"): {0: {128: 1.2, 256: 1.31}, 1: {128: 1.4, 256: 1.51}},
    ("alibi", TRAINED): {
        0: {32: 1.6, 64: 1.5, 128: 1.45, 256: 1.4},
        1: {32: 1.6, 64: 1.5, 128: 1.45, 256: 1.4},
    },
    ("learned", TRAINED): {0: {32: 1.7, 64: 1.6}, 1: {32: 1.7, 64: 1.8}},
    ("learned", CLAMPED): {0: {128: 3.0, 256: 3.0}, 1: {128: 3.2, 256: 3.4}},
}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(runs, "SHIPPED", str(tmp_path / "shipped"))
    monkeypatch.setenv("POSENC_RUNS", str(tmp_path / "own"))
    st.cache_data.clear()
    st.cache_resource.clear()
    return Store(tmp_path / "own")


def fill(store: Store) -> None:
    for kind in ("rope", "alibi", "learned"):
        for seed in (0, 1):
            scores = [
                Score("context", variant, x, loss, 128)
                for (scheme, variant), seeds in LOSSES.items()
                if scheme == kind
                for x, loss in seeds[seed].items()
            ]
            scores.append(Score("position", TRAINED, 8, 1.25 + seed, 64, until=16))
            specification = small(kind, train_length=64, seeds=2)
            asked = specification.__class__.from_record(specification.record | {"seed": seed})
            store.add(Run(asked, tuple(scores), (5.0, 2.0), None, 1.5), {})


def test_without_a_run_the_page_says_how_to_make_one(store: Store) -> None:
    at = drawn(visit("extrapolation", LINK))
    assert "No model of Learned, RoPE and ALiBi was trained on 64 tokens yet" in headline(at)
    assert "python -m posenc train --train-length 64" in headline(at)


def test_the_headline_says_who_is_best_and_what_context_did(store: Store) -> None:
    fill(store)
    said = headline(drawn(visit("extrapolation", LINK)))
    assert said.startswith("Best at 64 tokens: RoPE, loss 1.30. Read to 256 tokens: ")
    assert "no row 65 exists for Learned" in said
    assert "longer context hurt RoPE (loss +2.40)" in said
    assert "longer context helped ALiBi (loss -0.10)" in said


def test_the_strokes_of_the_lines_are_said_in_words(store: Store) -> None:
    fill(store)
    at = drawn(visit("extrapolation", LINK))
    strokes = f"Lines are solid: {TRAINED}; dashed: NTK-aware; dotted: {CLAMPED}."
    assert strokes in captions(at)


def test_every_number_is_the_mean_of_the_seeds_with_their_band(store: Store) -> None:
    fill(store)
    state = {f"numbers_{name.replace(' ', '_')}": True for name in (CONTEXT, "measured elbows")}
    at = drawn(visit("extrapolation", LINK, **state))
    found = table(at, CONTEXT)
    for (kind, variant), seeds in LOSSES.items():
        label = {"rope": "RoPE", "alibi": "ALiBi", "learned": "Learned"}[kind]
        own = found[(found["scheme"] == label) & (found["read"] == variant)]
        assert own["context"].tolist() == [*seeds[0]]
        for row in own.to_dict("records"):
            pair = [seeds[0][row["context"]], seeds[1][row["context"]]]
            assert row["loss"] == pytest.approx(sum(pair) / 2)
            assert (row["low"], row["high"]) == (min(pair), max(pair))
            assert row["seeds"] == 2
    rows = {row["scheme"]: row for row in table(at, "measured elbows").to_dict("records")}
    assert rows["RoPE"]["perplexity"] == pytest.approx(math.exp(1.3))
    assert rows["RoPE"]["bits per byte"] == pytest.approx(1.3 / math.log(2))
    assert (rows["RoPE"]["elbow"], rows["RoPE"]["longer context"]) == ("128", "hurt")
    # Its loss at the training length is that of the scheme as trained; 1.41 is 0.11 above it.
    assert rows["RoPE, NTK-aware"]["loss"] == pytest.approx(1.3)
    assert rows["RoPE, NTK-aware"]["elbow"] == "256"
    assert (rows["ALiBi"]["elbow"], rows["ALiBi"]["longer context"]) == ("none", "helped")
    assert (rows["Learned"]["elbow"], rows["Learned"]["read to"]) == ("not read", "64")
    assert rows[f"Learned, {CLAMPED}"]["elbow"] == "128"


def test_other_lengths_and_schemes_without_runs_are_told_apart(store: Store) -> None:
    fill(store)
    at = drawn(visit("extrapolation", LINK | {"schemes": "sinusoidal,rope"}))
    assert any("No run of Sinusoidal here" in text for text in captions(at))
    at = drawn(visit("extrapolation", LINK | {"trained": "128"}))
    assert "trained on 128 tokens yet" in headline(at)


def test_copying_is_said_and_drawn_where_there_are_such_runs(store: Store) -> None:
    fill(store)
    at = drawn(visit("extrapolation", LINK))
    assert "Copying a string" not in [box.value for box in at.subheader]
    for kind, past in (("alibi", 0.25), ("learned", None)):
        scores = [Score("copy", TRAINED, 20, 0.75, 200)]
        scores += [] if past is None else [Score("copy", TRAINED, 30, past, 200)]
        specification = small(kind, task="copy", train_length=20)
        store.add(Run(specification, tuple(scores), (3.0,), None, 1.0), {})
    at = drawn(visit("extrapolation", LINK, numbers_measured_copying=True))
    said = "At 20 and at 30 letters: Learned 75%, then no row; ALiBi 75%, then 25%."
    assert any(said in text for text in captions(at))
    found = table(at, "measured copying")
    assert found[["scheme", "letters", "share"]].to_numpy().tolist() == [
        ["Learned", 20, 0.75],
        ["ALiBi", 20, 0.75],
        ["ALiBi", 30, 0.25],
    ]


def test_a_broken_file_in_the_store_takes_nothing_from_the_page(store: Store) -> None:
    fill(store)
    Path(store.path("00000000000000000000.parquet")).write_bytes(b"PAR1 no more")
    said = headline(drawn(visit("extrapolation", LINK)))
    assert said.startswith("Best at 64 tokens: RoPE")


def test_what_ships_can_be_read_and_is_of_this_protocol() -> None:
    """Three seeds of each of five schemes, trained by this code and readable without training."""
    shipped = Store(runs.SHIPPED)
    found = list(shipped)
    assert shipped.broken == []
    kinds = dict.fromkeys(("none", "learned", "sinusoidal", "rope", "alibi"), 0)
    for run in found:
        one = run.specification
        assert one.task == "language"
        assert len(run.losses) == one.steps
        assert run.losses[-1] < 2 < run.losses[0]
        if one.train_length == 64:
            kinds[one.scheme.kind] += 1
    assert set(kinds.values()) == {3}
