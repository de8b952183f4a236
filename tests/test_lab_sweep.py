"""Sweeps: every combination once, and every run made once, whichever process is killed."""

import os
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from posenc import ConfigError
from posenc.lab import Job, Specification, Store, local_sweep, making, specifications, sweep
from posenc.lab.sweep import Outcome, run_job, sweep_here
from tests.small_runs import CORPUS, SIZES, Deadly, sentences, small

COPY = {"task": "copy", "widths": [16]} | SIZES


@pytest.fixture
def place(tmp_path: Path) -> dict[str, str]:
    """Where jobs find their text, the store and the checkpoints."""
    (tmp_path / "made-up sentences").write_bytes(sentences())
    return {
        "store": str(tmp_path / "runs"),
        "text": str(tmp_path / "made-up sentences"),
        "work": str(tmp_path / "work"),
    }


def jobs_of(asked: list[Specification], place: dict[str, str]) -> list[Job]:
    return [Job(one.record, **place) for one in asked]


def assert_all_made_once(
    asked: list[Specification], outcomes: list[Outcome], place: dict[str, str]
) -> None:
    names = sorted(one.run_id for one in asked)
    assert sorted(outcome.specification.run_id for outcome in outcomes) == names
    assert [(outcome.error, outcome.stopped) for outcome in outcomes] == [(None, None)] * len(names)
    store = Store(place["store"])
    assert store.ids() == names
    assert all(len(run.losses) == run.specification.steps for run in store)
    assert store.broken == []


def test_every_combination_is_made_once() -> None:
    found = specifications(
        ["rope", "alibi", "none", "sinusoidal", "rope"], bases=[10_000.0, 500.0], seeds=3,
        **SIZES | {"widths": [16, 32], "corpus": CORPUS},
    )  # fmt: skip
    seen = [(s.scheme.kind, getattr(s.scheme, "base", None), s.model.width, s.seed) for s in found]
    expected = {
        (kind, base, width, seed)
        for kind in ("rope", "alibi", "none", "sinusoidal")
        for base in ([10_000.0, 500.0] if kind in ("rope", "sinusoidal") else [None])
        for width in (16, 32)
        for seed in range(3)
    }
    assert len(seen) == len(set(seen)) == 36
    assert set(seen) == expected
    assert len({s.run_id for s in found}) == 36


def test_every_scheme_gets_the_width_and_the_rows_that_it_needs(kind: str) -> None:
    (language,) = specifications([kind], **SIZES | {"widths": [32], "corpus": CORPUS})
    (copy,) = specifications([kind], **COPY)
    expected = {"learned": (32, 16, 34), "sinusoidal": (32,), "rope": (16,), "alibi": (2,)}
    found = {
        "learned": lambda: (language.scheme.dim, language.scheme.max_len, copy.scheme.max_len),
        "sinusoidal": lambda: (language.scheme.dim,),
        "rope": lambda: (language.scheme.dim,),
        "alibi": lambda: (language.scheme.heads,),
    }
    assert language.scheme.kind == copy.scheme.kind == kind
    if kind in expected:
        assert found[kind]() == expected[kind]


def test_an_impossible_combination_is_refused_before_anything_is_trained() -> None:
    with pytest.raises(ConfigError):
        specifications(["rope"], **SIZES | {"widths": [16, 18], "corpus": CORPUS})


def test_a_job_means_the_same_wherever_it_is_done(place: dict[str, str]) -> None:
    """In words: the specification's record, and where the text and the store are."""
    job = Job(small().record, **place)
    assert run_job(job) is None
    assert Store(place["store"]).ids() == [small().run_id]


def test_one_failing_job_ends_no_other(place: dict[str, str]) -> None:
    asked = [small("alibi"), small("rope"), small("none")]
    jobs = jobs_of(asked, place)
    jobs[1] = Job(asked[1].record, place["store"], "no such text", place["work"])
    with ThreadPoolExecutor(1) as pool:
        outcomes = list(sweep(jobs, pool))
    failed = {o.specification.scheme.kind: o.error for o in outcomes if o.error}
    assert list(failed) == ["rope"]
    assert failed["rope"] == "The text cannot be read: No such file or directory."
    assert Store(place["store"]).ids() == sorted([asked[0].run_id, asked[2].run_id])


class Odd(Exception):
    """An error that nobody expected, as clusters have."""


class Failing(Executor):
    """An executor on which every second job fails."""

    def __init__(self) -> None:
        self.count = 0

    def submit(self, do: Any, /, *arguments: Any, **named: Any) -> Future:
        future: Future = Future()
        self.count += 1
        if self.count % 2:
            future.set_exception(Odd("the worker is gone"))
        else:
            future.set_result(None)
        return future


def test_an_error_of_the_cluster_is_the_outcome_of_its_job_alone(place: dict[str, str]) -> None:
    asked = specifications(["rope"], seeds=4, **COPY)
    outcomes = list(sweep(jobs_of(asked, place), Failing()))
    assert [o.error for o in sorted(outcomes, key=lambda o: o.specification.seed)] == [
        "Odd: the worker is gone", None, "Odd: the worker is gone", None,
    ]  # fmt: skip


def test_here_one_by_one_a_failing_job_ends_no_other(place: dict[str, str]) -> None:
    asked = [small("rope"), small("none")]
    wrong = Path(place["text"]).with_name("others")
    wrong.write_bytes(sentences(seed=1))
    jobs = [Job(asked[0].record, place["store"], str(wrong), place["work"]),
            Job(asked[1].record, **place)]  # fmt: skip
    steps: dict[str, list[int]] = {}

    def report(specification: Specification) -> Any:
        return lambda step, _: steps.setdefault(specification.scheme.kind, []).append(step)

    first, second = sweep_here(jobs, report)
    assert "needs the text made-up sentences, got the text others" in first.error
    assert second == Outcome(asked[1])
    assert steps == {"none": list(range(1, 13))}


def test_here_a_device_that_is_full_ends_its_run_alone(
    place: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [small("rope"), small("none")]
    train = making.train

    def full(specification: Specification, *rest: Any, **named: Any) -> Any:
        if specification == asked[0]:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return train(specification, *rest, **named)

    monkeypatch.setattr(making, "train", full)
    first, second = sweep_here(jobs_of(asked, place), lambda _: None)
    assert first.error is not None
    assert first.error.startswith("The memory of cpu ended: take a smaller batch")
    assert second == Outcome(asked[1])


def test_a_local_sweep_with_a_worker_killed_amid_a_run_loses_and_doubles_nothing(
    place: dict[str, str], tmp_path: Path
) -> None:
    asked = specifications(["none", "alibi"], seeds=2, **COPY)
    asked += specifications(["rope"], **COPY | {"steps": 400})
    killer = Deadly(asked[-1].record, **place, marker=str(tmp_path / "dead"), parent=os.getpid())
    jobs = jobs_of(asked, place)
    jobs = [killer, *jobs[:-1], jobs[0]]  # and one of them twice
    outcomes = list(local_sweep(jobs, 2))
    assert (tmp_path / "dead").exists()
    assert_all_made_once(asked, outcomes, place)


def test_a_job_that_always_kills_its_process_takes_no_other_along(
    place: dict[str, str], tmp_path: Path
) -> None:
    asked = [
        *specifications(["rope"], **COPY | {"steps": 100_000}),
        *specifications(["none"], **COPY),
    ]
    killer = Deadly(
        asked[0].record, **place, marker=str(tmp_path / "dead"), parent=os.getpid(), again=True
    )
    outcomes = list(local_sweep([killer, Job(asked[1].record, **place)], 1))
    assert {o.specification.scheme.kind: o.error for o in outcomes} == {
        "rope": "its process was killed, three times over",
        "none": None,
    }
    assert Store(place["store"]).ids() == [asked[1].run_id]


@pytest.fixture
def executor() -> Iterator[Executor]:
    """A real Dask cluster of two worker processes."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client.get_executor(retries=2)
        client.wait_for_workers(2, timeout=60)  # a cluster that is closed amid a restart may hang


def test_a_sweep_on_a_dask_cluster_with_a_worker_killed_loses_and_doubles_nothing(
    executor: Executor, place: dict[str, str], tmp_path: Path
) -> None:
    asked = specifications(["none", "alibi"], seeds=2, **COPY)
    asked += specifications(["rope"], **COPY | {"steps": 400})
    killer = Deadly(asked[-1].record, **place, marker=str(tmp_path / "dead"), parent=os.getpid())
    outcomes = list(sweep([killer, *jobs_of(asked[:-1], place)], executor))
    assert (tmp_path / "dead").exists()
    assert_all_made_once(asked, outcomes, place)
