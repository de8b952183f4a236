"""The background process: it runs the queued jobs, alone, and no kill loses or doubles anything."""

import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from posenc.lab import Store, run_once
from posenc.lab import worker as lab_worker
from posenc.lab.jobs import JobState, Progress, Queue
from posenc.lab.run_once import checkpoint_of
from posenc.lab.train import Trainer
from posenc.lab.worker import DEVICE_LOST
from tests.lab.small_runs import CORPUS, TEXT, small_spec, without_time
from tests.lab.worker_processes import PATIENCE, exit_code, running_at, slow_worker, wait, worker

# A worker is nice: where others compute, it waits long before it is given a second.
pytestmark = [pytest.mark.timeout(1_200), pytest.mark.usefixtures("no_shape_checks")]


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers in this process look and tell more often than people could read."""
    monkeypatch.setattr(lab_worker, "REPORT_EVERY", 0.05)
    monkeypatch.setattr(lab_worker, "STOP_WITHIN", 0.2)


@pytest.fixture
def heard_interrupts() -> Iterator[None]:
    """Let an interrupt be heard, which a shell has processes ignore that it starts in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_jobs_are_run_in_order_and_the_worker_ends(queue: Queue, folder: Path) -> None:
    pair = [replace(small_spec(), seed=seed) for seed in (0, 1)]
    others = small_spec("alibi"), small_spec("learned", task="copy")
    queue.add(pair, **TEXT)
    queue.add(others[:1], **TEXT)
    queue.add(others[1:])
    lab_worker.main(queue.folder, 1)
    assert queue.jobs() == []
    files = [folder / "runs" / f"{one.run_id}.parquet" for one in (*pair, *others)]
    order = [path.stat().st_mtime_ns for path in files]
    assert order == sorted(order)
    lab_worker.main(queue.folder, 1)  # with nothing to do


def test_failed_job_is_kept_with_its_reason_and_the_next_is_run(
    queue: Queue, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    planned = replace(small_spec(), versions=(("posenc", "0.0.1"), ("torch", "1.0")))
    (folder / "file").write_text("")
    for job, store in ((planned, None), (small_spec("none"), str(folder / "file"))):
        queue.add([job], store=store, **TEXT)
        lab_worker.main(queue.folder, 1)
    queue.add([small_spec("alibi")], store=str(folder / "runs"), **TEXT)
    lab_worker.main(queue.folder, 1)
    assert Store().ids() == [small_spec("alibi").run_id]

    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("/secret/path")

    queue.add([small_spec()], **TEXT)
    monkeypatch.setattr(lab_worker, "run_once", fail)
    lab_worker.main(queue.folder, 1)
    assert [entry.state for entry in queue.jobs()] == [JobState.FAILED] * 3
    errors = [str(entry.error) for entry in queue.jobs()]
    assert "posenc 0.0.1, torch 1.0" in errors[0]
    assert "a file is in its place" in errors[1]
    assert "ZeroDivisionError" in errors[2]
    assert "secret" not in errors[2]
    assert "/secret/path" in caplog.text


@pytest.mark.parametrize("device_is_lost", [False, True])
def test_worker_goes_on_after_full_memory_and_exits_after_device_failure(
    device_is_lost: bool, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, told, untold = Trainer.step, "memory of cpu ended: take a smaller batch", "GiB"
    fault: Exception = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
    if device_is_lost:
        fault = torch.AcceleratorError("CUDA error: device-side assert triggered\nCompile with ...")
        told, untold = "device-side assert triggered", "Compile with"

    def fail_at_third_step(self: Trainer) -> float:
        if len(self.losses) == 2 and self.specification.scheme.kind == "alibi":
            raise fault
        return step(self)

    queue.add([small_spec("alibi")], **TEXT)
    good = queue.add([small_spec("none")], **TEXT)
    monkeypatch.setattr(Trainer, "step", fail_at_third_step)
    assert exit_code(queue) == (DEVICE_LOST if device_is_lost else 0)
    bad, *others = queue.jobs()
    assert bad.state is JobState.FAILED
    assert told in str(bad.error)
    assert untold not in str(bad.error)
    assert [entry.name for entry in others] == [good] * device_is_lost
    assert len(Store().ids()) == (not device_is_lost)


# A run of one step whose evaluation takes minutes.
SLOW_TO_READ = replace(small_spec(steps=1), segments=65_536, longest=64)


@pytest.mark.usefixtures("heard_interrupts")
@pytest.mark.parametrize("reading", [False, True])
def test_stop_ends_a_training_or_the_reading_of_its_model(reading: bool, queue: Queue) -> None:
    name = queue.add([SLOW_TO_READ if reading else small_spec(steps=20_000)], **TEXT)

    def stop() -> None:
        wait(lambda: queue.progress(name).evaluating if reading else queue.progress(name).step > 0)
        queue.cancel(name)

    stopper = threading.Thread(target=stop)
    stopper.start()
    lab_worker.main(queue.folder, queue.running)
    stopper.join()
    assert queue.jobs() == []
    assert Store().ids() == []


def test_end_of_the_server_during_a_reading_costs_no_attempt_and_saves(queue: Queue) -> None:
    name = queue.add([SLOW_TO_READ], **TEXT)
    process = worker(queue)
    wait(lambda: queue.progress(name).evaluating)
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(PATIENCE) == 0
    (entry,) = queue.jobs()
    assert (entry.state, entry.attempts) == (JobState.QUEUED, 0)
    assert checkpoint_of(SLOW_TO_READ.run_id).exists()
    assert Store().ids() == []


def test_killed_worker_loses_no_step_before_its_checkpoint(
    queue: Queue, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long, began, tell = small_spec(steps=300), list[int](), Queue.report
    name = queue.add([long], **TEXT)
    other = queue.add([small_spec("none")], **TEXT)
    pid = slow_worker(queue)
    running_at(queue, name, 101)
    lab_worker.main(queue.folder, 1)  # the only place is taken
    assert [entry.state for entry in queue.jobs()] == [JobState.RUNNING, JobState.QUEUED]
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert [entry.attempts for entry in queue.jobs()] == [1, 0]
    queue.cancel(other)

    def record(self: Queue, job: str, progress: Progress) -> None:
        began.append(progress.began)
        tell(self, job, progress)

    monkeypatch.setattr(Queue, "report", record)
    lab_worker.main(queue.folder, 1)
    assert max(began) > 100
    assert queue.jobs() == []
    alone = run_once(long, CORPUS, Store(folder / "alone"))
    # The same steps, in however many sittings: the same bits.
    assert without_time(Store().read(long.run_id)) == without_time(alone)
