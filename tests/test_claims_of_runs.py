"""Claims of trained models: read from the runs that ship, and from runs made up here."""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from posenc.claims import State, training
from posenc.interop.sources import RESULTS
from posenc.lab import Run, Score, Store
from tests.claim_readings import at, decides
from tests.small_runs import small


def losses(kind: str, length: int) -> dict[int, list[float]]:
    """Loss by context of the shipped runs as trained, straight from the store."""
    found: dict[int, list[float]] = {}
    for run in Store(RESULTS):
        one = run.specification
        if (one.task, one.train_length, one.scheme.kind) != ("language", length, kind):
            continue
        for score in run.scores:
            if (score.measure, score.variant) == ("context", "as trained"):
                found.setdefault(score.x, []).append(score.value)
    return found


@pytest.mark.parametrize("length", [64, 128])
def test_learned_and_sinusoidal_are_compared_by_the_runs_that_ship(length: int) -> None:
    found = at("alike", train_length=length)
    learned, waves = (losses(kind, length)[length] for kind in ("learned", "sinusoidal"))
    assert decides(found) == pytest.approx(np.mean(learned) - np.mean(waves))
    apart = min(learned) > max(waves) or min(waves) > max(learned)
    # 1,200 steps of a small model refute no other: that is said, with what Vaswani et al. measured.
    assert found.state is (State.NOT_HERE if apart else State.PARTLY)
    assert ("in translation models of 100,000 steps" in found.sentence) == apart
    assert abs(decides(found)) > math.log(1.01)
    assert "(3 layers, width 128, 1,200 training steps)" in found.sentence
    assert "where less than 1% counts as alike" in found.sentence


@pytest.mark.parametrize("length", [64, 128])
@pytest.mark.parametrize(
    ("name", "kind"),
    [("sinusoids_extrapolate", "sinusoidal"), ("rope_extrapolates", "rope"),
     ("alibi_extrapolates", "alibi")],
)  # fmt: skip
def test_extrapolation_is_read_from_the_runs_that_ship(name: str, kind: str, length: int) -> None:
    found = at(name, train_length=length)
    by_context = {x: float(np.mean(values)) for x, values in losses(kind, length).items()}
    times = {x: math.exp(value - by_context[length]) for x, value in by_context.items()}
    assert decides(found) == pytest.approx(times[16 * length])
    elbow = next((x for x in sorted(times) if x > length and times[x] > 1.1), None)
    assert [one.value for one in found.numbers][1] == elbow
    expected = (
        State.NOT_HERE if elbow else State.PARTLY if times[16 * length] > 1.01 else State.HOLDS
    )
    assert found.state is expected
    assert (kind == "alibi") == (elbow is None)
    assert "(3 layers, width 128, 1,200 training steps)" in found.sentence
    worst = max(value for x, value in times.items() if x > length)
    said = (
        "breaks (perplexity more than 10% higher at some length)"
        if worst > 1.1
        else "degrades (perplexity up to 10% higher)"
        if worst > 1.01
        else "holds (perplexity never more than 1% higher)"
    )
    assert found.sentence.endswith(f"the model {said}.")


@pytest.mark.parametrize(
    "changes", [{"train_length": 100}, {"base": 500.0}, {"train_length": 1_048_576}]
)
def test_where_no_run_is_nothing_is_said(changes: dict[str, Any]) -> None:
    for name in ("alike", "sinusoids_extrapolate", "rope_extrapolates"):
        found = at(name, **changes)
        assert (found.state, found.numbers) == (State.NOT_MEASURED, ())
        assert found.sentence.startswith("No small model of ")
    own = at("rope_extrapolates", own=(("rope.partial_rotary_factor", 0.5),))
    assert own.state is State.NOT_MEASURED
    assert at("rope_extrapolates", own=(("rope.layout", "half"),)).state is State.NOT_HERE


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setattr(training, "STORE", str(tmp_path))
    training._headings.cache_clear()
    yield Store(tmp_path)
    training._headings.cache_clear()


def put(store: Store, kind: str, seeds: list[dict[int, float]], **others: Any) -> None:
    """Runs of one scheme, one per seed, with a loss for each context."""
    for seed, by_context in enumerate(seeds):
        specification = replace(small(kind, train_length=64, seeds=2), seed=seed, **others)
        scores = [Score("context", "as trained", x, value, 1) for x, value in by_context.items()]
        store.add(Run(specification, tuple(scores), (2.0,), None, 1.0), {})


@pytest.mark.parametrize(
    ("learned", "state"),
    [([1.0, 1.004], State.HOLDS), ([0.9, 1.3], State.PARTLY), ([1.3, 1.4], State.NOT_HERE)],
)
def test_other_runs_give_another_verdict(store: Store, learned: list[float], state: State) -> None:
    put(store, "learned", [{64: loss} for loss in learned])
    put(store, "sinusoidal", [{64: 1.0}, {64: 1.001}])
    assert at("alike", train_length=64).state is state


@pytest.mark.parametrize(
    ("far", "state"), [(0.9, State.HOLDS), (1.005, State.HOLDS), (1.05, State.PARTLY),
                       (1.2, State.NOT_HERE)],
)  # fmt: skip
def test_rope_would_extrapolate_if_its_runs_did(store: Store, far: float, state: State) -> None:
    put(store, "rope", [{64: 1.0, 128: far}, {64: 1.0, 128: far}])
    found = at("rope_extrapolates", train_length=64)
    assert found.state is state
    assert decides(found) == pytest.approx(math.exp(far - 1.0))


def test_runs_that_went_no_further_or_stopped_measure_nothing(store: Store) -> None:
    put(store, "rope", [{64: 1.0}])
    assert at("rope_extrapolates", train_length=64).state is State.NOT_MEASURED
    assert at("alike", train_length=64).state is State.NOT_MEASURED
    stopped = replace(small("alibi", train_length=64), seed=0)
    store.add(Run(stopped, (), (2.0,), "the loss is not finite", 1.0), {})
    training._headings.cache_clear()
    assert at("alibi_extrapolates", train_length=64).state is State.NOT_MEASURED


def test_runs_that_cannot_be_read_are_left_out(store: Store) -> None:
    put(store, "rope", [{64: 1.0, 128: 1.0}])
    (Path(store.root) / f"{'0' * 20}.parquet").write_bytes(b"no run")
    assert at("rope_extrapolates", train_length=64).state is State.HOLDS
