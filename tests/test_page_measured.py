"""The measured half of Extrapolation: what it says follows from the runs of the store by hand."""

import json
import math
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from click.testing import CliRunner

from dashboard import runs
from dashboard.choices import MeasuredChoice
from posenc import fields
from posenc.__main__ import main
from posenc.errors import StoreUnavailable
from posenc.interop.sources import RESULTS
from posenc.lab import Job, Run, Score, Specification, Store
from posenc.lab.evaluate import CLAMPED, TRAINED
from posenc.lab.summary import comparison
from posenc.lab.sweep import Outcome
from tests.pages import captions, charts, drawn, headline, notices, setting, table, visit
from tests.small_runs import CORPUS, small

pytestmark = pytest.mark.usefixtures("no_shape_checks")

ROPE = small("rope", train_length=64)
LINK = {
    "half": "measured",
    "schemes": "learned,rope,alibi",
    "comparison": comparison(replace(ROPE, seed=1)),  # the seed is none of its name
}
CONTEXT = "measured loss by context"
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
    assert setting(at).schemes == ("learned", "rope", "alibi")
    assert headline(at) == (
        "No model of this comparison is on this server, none of Learned, RoPE and ALiBi either."
    )
    assert "is not on this server" in notices(at)[0]


def test_the_headline_says_who_is_best_and_what_context_did(store: Store) -> None:
    fill(store)
    said = headline(drawn(visit("extrapolation", LINK)))
    # RoPE's seeds are 0.3 and 0.1 below ALiBi's, which two seeds do not tell from chance; both are
    # 0.4 below the learned table's.
    assert said.startswith(
        "Lowest mean loss at 64 tokens: RoPE, 1.30; over the seeds it does not clearly differ from "
        "ALiBi. Evaluated at up to 256 tokens: "
    )
    without = headline(drawn(visit("extrapolation", LINK | {"schemes": "learned,rope"})))
    assert without.startswith("Best at 64 tokens: RoPE, loss 1.30. Evaluated at up to 256 tokens: ")
    assert "no row 65 exists for Learned" in said
    assert "ALiBi (loss -0.10) holds; RoPE (loss +2.40) breaks; " in said
    steps = small("rope").steps
    assert said.endswith(
        f". Means of 2 seeds, {steps} training step{'s' * (steps != 1)}. "
        "Holds: perplexity never more than 1% higher; degrades: perplexity up to 10% higher; breaks: "
        "perplexity more than 10% higher at some length; each against the training length."
    )


def test_the_runs_that_ship_fall_into_the_three_classes() -> None:
    """ALiBi rises by 2.4% at 16 times the length: it degrades, and does not share a word with RoPE."""
    link = {"half": "measured", "schemes": "sinusoidal,rope,alibi"}
    said = headline(drawn(visit("extrapolation", link)))
    assert re.search(
        r"1,024 tokens: ALiBi \(loss \+0\.02\) degrades; Sinusoidal \(loss \+2\.\d\d\) and "
        r"RoPE \(loss \+2\.\d\d\) break\.",
        said,
    )
    assert "hurt" not in said


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
    assert (rows["RoPE"]["breaks at"], rows["RoPE"]["longer context"]) == ("128", "breaks")
    # Its loss at the training length is that of the scheme as trained; 1.41 is 0.11 above it.
    assert rows["RoPE, NTK-aware"]["loss"] == pytest.approx(1.3)
    assert rows["RoPE, NTK-aware"]["breaks at"] == "256"
    assert (rows["ALiBi"]["breaks at"], rows["ALiBi"]["longer context"]) == ("nowhere", "holds")
    assert (rows["Learned"]["breaks at"], rows["Learned"]["read to"]) == ("not read", "64")
    assert rows[f"Learned, {CLAMPED}"]["breaks at"] == "128"


def test_other_lengths_and_schemes_without_runs_are_told_apart(store: Store) -> None:
    fill(store)
    at = drawn(visit("extrapolation", LINK | {"schemes": "sinusoidal,rope"}))
    assert any("None was trained with Sinusoidal" in text for text in captions(at))
    other = small("rope", train_length=128)
    store.add(Run(other, (Score("context", TRAINED, 128, 1.0, 1),), (5.0,), None, 1.0), {})
    at = drawn(visit("extrapolation", LINK | {"comparison": comparison(other)}))
    assert headline(at).startswith("Best at 128 tokens: RoPE, loss 1.00.")
    (box,) = [one for one in at.selectbox if one.key == "comparison"]
    assert box.options[1:] == [comparison(ROPE), comparison(other)]


@pytest.mark.parametrize(
    "others", [{}, {"compiled": True, "learning_rate": 0.0012345678}, {"bases": (500.0,)}], ids=str
)
def test_the_command_that_is_offered_makes_runs_of_this_comparison(
    others: dict[str, Any], store: Store
) -> None:
    one = small("rope", train_length=64, **others)
    scores = (Score("context", TRAINED, 64, 1.0, 1),)
    store.add(Run(one, scores, (5.0,), None, 1.0), {})
    link = LINK | {"comparison": comparison(one), "schemes": "sinusoidal"}
    said = headline(drawn(visit("extrapolation", link)))
    assert said.startswith("No model of Sinusoidal is in this comparison; `python -m posenc train ")
    words = said.split("`")[1].split()[4:]
    asked: list[Specification] = []

    def planned(jobs: list[Job], report: object) -> list[Outcome]:
        asked.extend(Specification.from_record(job.record) for job in jobs)
        return []

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("posenc.commands.training.sweep_here", planned)
        patched.setattr("posenc.commands.training.read_text", lambda path: CORPUS)
        patched.setattr(Path, "resolve", lambda self: self)
        text = Path(store.root) / "FILE"
        text.write_bytes(b"a text")
        words = [str(text) if word == "FILE" else word for word in words]
        ran = CliRunner().invoke(main, ["train", *words])
    assert ran.exit_code == 0, ran.output
    (planned_run,) = asked
    assert planned_run.scheme.kind == "sinusoidal"
    assert comparison(planned_run) == comparison(one)
    assert planned_run.scheme.base == one.scheme.base


def test_the_charts_hold_the_curves_in_the_unit_that_was_asked_for(store: Store) -> None:
    fill(store)
    context, position = charts(drawn(visit("extrapolation", LINK)))
    rope = context[(context["scheme"] == "RoPE") & (context["read"] == TRAINED)]
    assert rope["x"].tolist() == [32, 64, 128, 256]
    assert rope["y"].tolist() == pytest.approx([1.5, 1.3, 2.6, 3.7])
    assert set(context["boundary"]) == {64.0}
    assert set(position["x"]) == {11.5}  # the middle of positions 8 to 15
    at = drawn(visit("extrapolation", LINK | {"unit": "perplexity"}))
    as_perplexity = charts(at)[0]
    assert as_perplexity["y"].tolist() == pytest.approx(context["y"].map(math.exp).tolist())
    assert as_perplexity["high"].tolist() == pytest.approx(context["high"].map(math.exp).tolist())
    (shown,) = at.json
    told = json.loads(shown.value)
    assert set(told["schemes"]) == {"RoPE", "ALiBi", "Learned"}
    assert told["alike"]["corpus"] == ROPE.corpus


def test_what_cannot_be_shown_is_named(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(store)
    Path(store.path(f"{5:020x}.parquet")).write_bytes(b"PAR1 no more")
    assert any(
        f"{5:020x}.parquet cannot be read and was set aside" in text
        for text in captions(drawn(visit("extrapolation", LINK)))
    )

    def fail(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    real = os.scandir
    with monkeypatch.context() as broken:
        broken.setattr(os, "scandir", lambda at: fail() if at == store.root else real(at))
        drawn(visit("overview"))  # a page that has nothing to do with runs
        at = visit("extrapolation", LINK)
    assert any("trained on this server cannot be read now" in text for text in captions(at))


def test_a_run_that_could_not_be_read_once_is_shown_when_it_can(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store)

    def fail(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(type(store.files), "cat_file", fail)
        assert not visit("extrapolation", LINK).exception
    assert len(store.ids()) == 6
    runs.comparisons.clear()  # believed for a minute
    said = headline(drawn(visit("extrapolation", LINK)))
    assert said.startswith("Lowest mean loss at 64 tokens: RoPE")


def test_a_run_whose_numbers_could_not_be_read_once_is_named_and_counts_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store)
    whole = headline(drawn(visit("extrapolation", LINK)))
    st.cache_data.clear()
    st.cache_resource.clear()
    lost = next(run.run_id for run in store if run.specification.scheme.kind == "rope")
    read = Store.read

    def fail(self: Store, run_id: str) -> Run:
        if run_id == lost:
            raise StoreUnavailable("The store of runs cannot be read: Input/output error.")
        return read(self, run_id)

    with monkeypatch.context() as broken:
        broken.setattr(Store, "read", fail)
        at = visit("extrapolation", LINK)
        assert any(f"1 trained model cannot be read now, {lost}" in box.value for box in at.warning)
        assert headline(at) != whole
    assert headline(drawn(visit("extrapolation", LINK))) == whole


def test_a_file_that_is_no_run_in_a_place_that_cannot_be_written_is_named_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store)
    bad = "0" * 20
    Path(store.path(f"{bad}.parquet")).write_bytes(b"PAR1 no more")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(store.files), "mv", refuse)
    for _ in range(3):
        runs._judged.clear()  # believed for a minute
        at = drawn(visit("extrapolation", LINK))
        assert f"{bad}.parquet cannot be read." in captions(at)


def test_copying_is_said_and_drawn_where_there_are_such_runs(store: Store) -> None:
    fill(store)
    at = drawn(visit("extrapolation", LINK))
    assert "Copying a string" not in [box.value for box in at.subheader]
    for kind, past in (("alibi", 0.25), ("learned", None)):
        share = 0.75 if past else 0.125
        scores = [Score("copy", TRAINED, 20, share, 200)]
        scores += [] if past is None else [Score("copy", TRAINED, 30, past, 200)]
        specification = small(kind, task="copy", train_length=20)
        store.add(Run(specification, tuple(scores), (3.0,), None, 1.0), {})
    at = drawn(visit("extrapolation", LINK, numbers_measured_copy=True))
    said = "Right at 20 letters: Learned 12% and ALiBi 75%. "
    said += "At least half up to: Learned nowhere and ALiBi 20."
    assert any(said in text for text in captions(at))
    found = table(at, "measured copy")
    assert found[["scheme", "letters", "share"]].to_numpy().tolist() == [
        ["Learned", 20, 0.125],
        ["ALiBi", 20, 0.75],
        ["ALiBi", 30, 0.25],
    ]


def test_recall_is_said_with_chance_and_only_of_schemes_that_learned_it(store: Store) -> None:
    """Trained on 16 tokens: distances 1 to 13 are within the training range."""
    shares = {
        "rope": {1: 1.0, 13: 0.98, 15: 0.75, 255: 0.1},
        "alibi": {1: 0.9, 13: 0.5, 15: 0.9, 255: 0.9},
    }
    for kind, by_distance in shares.items():
        scores = [Score("recall", TRAINED, x, value, 400) for x, value in by_distance.items()]
        if kind == "rope":
            scores.append(Score("recall", "NTK-aware", 255, 0.6, 400))
        store.add(Run(small(kind, task="recall"), tuple(scores), (3.0,), None, 1.0), {})
    link = LINK | {"comparison": comparison(small("rope", task="recall"))}
    at = drawn(visit("extrapolation", link, numbers_measured_recall=True))
    assert headline(at) == (
        "Right within the training range, 1 to 13 tokens between value and question: RoPE 99% and "
        "ALiBi 70%; guessing gives 25%. Below 90% there, so longer distances say nothing: ALiBi. "
        "At least half up to: RoPE 15."
    )
    (frame,) = [one for one in charts(at) if "chance" in one]
    assert set(frame["chance"]) == {0.25}
    assert set(frame["boundary"]) == {13.0}
    found = table(at, "measured recall")
    rows = found[["scheme", "read", "in range", "chance"]].round(9).drop_duplicates()
    assert rows.to_numpy().tolist() == [
        ["RoPE", TRAINED, 0.99, 0.25],
        ["RoPE", "NTK-aware", 0.99, 0.25],
        ["ALiBi", TRAINED, 0.7, 0.25],
    ]
    asks = drawn(visit("extrapolation", link | {"predict": "true"}))
    questions = [*asks.selectbox(key="question_measured").options]
    assert [text for text in questions if "RoPE" in text]
    assert not [text for text in questions if "ALiBi" in text]


def test_a_broken_file_in_the_store_takes_nothing_from_the_page(store: Store) -> None:
    fill(store)
    Path(store.path("00000000000000000000.parquet")).write_bytes(b"PAR1 no more")
    said = headline(drawn(visit("extrapolation", LINK)))
    assert said.startswith("Lowest mean loss at 64 tokens: RoPE")


def test_what_ships_can_be_read_and_is_whole() -> None:
    """Three seeds of each of five schemes in four comparisons, of nine more in the first of them."""
    shipped = Store(RESULTS)
    found = list(shipped)
    assert (shipped.broken, shipped.foreign) == ([], [])
    kinds = ("none", "learned", "sinusoidal", "rope", "alibi")
    relative = ("shaw", "transformer_xl", "t5", "kerple_log", "kerple_power", "fire", "sandwich")
    relative += ("xpos", "cope")
    tasks = (("language", 64), ("language", 128), ("copy", 20), ("recall", 32))
    seeds: dict[tuple[str, int, str], set[int]] = {}
    for run in found:
        one = run.specification
        seeds.setdefault((one.task, one.train_length, one.scheme.kind), set()).add(one.seed)
        assert len(run.losses) == one.steps
        assert run.stopped is None
        assert run.losses[-1] < run.losses[0] / 2
        assert {score.measure for score in run.scores} == (
            {"context", "position"} if one.task == "language" else {one.task}
        )
        has_table = bool(shipped.tables(run.run_id))
        assert has_table == bool(list(one.scheme.build().parameters()))
    expected = {(*task, kind): {0, 1, 2} for task in tasks for kind in kinds}
    assert seeds == expected | {(*tasks[0], kind): {0, 1, 2} for kind in relative}
    names = {comparison(run.specification) for run in found}
    assert len(names) == len(tasks)
    assert fields.defaults(MeasuredChoice)["comparison"] in names
